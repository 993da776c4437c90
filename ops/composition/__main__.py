"""The command `python -m ops.composition`."""

import click

from ops.composition import trial
from ops.composition.compose import find
from stream_app.cli.process import configure_logging, run_command
from stream_app.terminal import say


@click.command()
@click.option("--rate", type=click.IntRange(1), default=100, show_default=True, help="Examples of a stream per second.")
@click.option("--limit", type=click.IntRange(100), default=3_000, show_default=True, help="Examples of a stream.")
def main(rate: int, limit: int) -> None:
    """Start docker-compose.yml, read its dashboard, kill a worker, await its return, verify, and stop everything."""
    configure_logging()
    trial.run(find(), rate, limit, say)


if __name__ == "__main__":
    run_command(main)
