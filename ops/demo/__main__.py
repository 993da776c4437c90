"""The command."""

import sys

import click

from ops.demo.run import main
from stream_app.cli.process import configure_logging, run_command


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--bootstrap-servers", help="Brokers of a running Kafka; by default a local Kafka is started.")
@click.option("--short", is_flag=True, help="Run with shorter streams.")
def demo(bootstrap_servers: str | None, short: bool) -> None:
    """Show the complete path of the data: six streams, two workers, and a worker that is killed half-way."""
    configure_logging()
    sys.exit(main(bootstrap_servers=bootstrap_servers, short=short))


if __name__ == "__main__":
    run_command(demo)
