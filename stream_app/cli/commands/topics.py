"""`areba topics`: create and check the topics of an application."""

import os
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION
from stream_app.config import load
from stream_app.terminal import say


@click.group()
def topics() -> None:
    """Create and check the topics of an application."""


@topics.command("create")
@CONFIG_OPTION
@click.option(
    "--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True, help="Partitions of each topic."
)
@click.option(
    "--replication", type=click.IntRange(1, 10), help="Replicas of each partition; by default the broker's own number."
)
def create(path: Path, partitions: int, replication: int | None) -> None:
    """Create the missing topics.

    They get the settings that exactly-once processing needs. Topics that exist are checked and stay as they are. The
    exit status is 2 if a topic cannot be created or has wrong settings.

    \b
    Examples:
      areba topics create -c my.yaml
      areba topics create -c my.yaml --partitions 12 --replication 3
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.topic_setup import create_topics  # noqa: PLC0415  (see run)

    for line in create_topics(load(path, os.environ), partitions, replication or -1):
        say(line)


@topics.command("check")
@CONFIG_OPTION
def check(path: Path) -> None:
    """Check the topics, and report every fault at once.

    The exit status is 2 if a topic does not exist or has wrong settings.

    \b
    Examples:
      areba topics check -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.clients import connect  # noqa: PLC0415  (see run)
    from stream_app.cli.topic_setup import check_topics, warn_of_topics  # noqa: PLC0415

    config = load(path, os.environ)
    warn_of_topics(check_topics(config, connect(config)))
    say("topics are as they should be")
