"""The `areba` command: its groups and commands, from `stream_app.cli.commands`."""

import click

from stream_app import __version__
from stream_app.cli.commands.acls import acls
from stream_app.cli.commands.compile import compile_code
from stream_app.cli.commands.config import config
from stream_app.cli.commands.dashboard import dashboard
from stream_app.cli.commands.dlq import dlq
from stream_app.cli.commands.inspect import inspect_application
from stream_app.cli.commands.operations import erase, promote, repartition, reset, resume
from stream_app.cli.commands.run import run
from stream_app.cli.commands.state import state
from stream_app.cli.commands.topics import topics
from stream_app.cli.commands.verify import explain, verify
from stream_app.cli.commands.watch import tail, watch
from stream_app.cli.process import configure_logging, run_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Online learning on Kafka streams with imbalanced classes, concept drift and late labels."""
    configure_logging()


for command in (
    *(run, compile_code, topics, config, watch, dashboard, inspect_application, tail),
    *(resume, promote, erase, reset, repartition, dlq, state, verify, explain, acls),
):
    cli.add_command(command)


def main() -> None:
    """Run the `areba` command on the arguments of this process."""
    run_command(cli)
