"""The command `python -m ops.composition`."""

import sys

import click

from ops.composition import trial
from ops.composition.compose import find
from stream_app.cli.process import configure_logging
from stream_app.errors import ArebaError
from stream_app.terminal import say


@click.command()
@click.option("--rate", type=click.IntRange(1), default=100, show_default=True, help="Examples of a stream per second.")
@click.option("--limit", type=click.IntRange(100), default=3_000, show_default=True, help="Examples of a stream.")
def main(rate: int, limit: int) -> None:
    """Bring docker-compose.yml up, kill a worker, see it return, verify the topics, and take everything down."""
    configure_logging()
    trial.run(find(), rate, limit, say)


if __name__ == "__main__":
    try:
        main()
    except ArebaError as problem:
        for line in problem.lines:
            say(line, err=True)
        sys.exit(problem.exit_code)
