"""`areba topics`: create and check the topics of an application."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION
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

    They get the settings that exactly-once processing needs. Existing topics are checked, but not changed. The
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
@JSON_LINES_OPTION
def check(path: Path, *, as_json: bool) -> None:
    """Check everything that would stop or endanger a worker.

    The command prints a line for each check: the schema registry, if the wire format needs it, the connection, the
    topics and their settings, replication, this user's permissions, reading each topic, the broker's clock, the memory
    that a worker may need, the worker's transactional id (only while no worker is running, since the check would fence
    one), and the folder of compiled code. It writes no record.

    The exit status is 1 if anything is wrong (warnings do not count), and 2 if a setting of the file is wrong.

    \b
    Examples:
      areba topics check -c my.yaml
      areba topics check -c my.yaml --json | jq 'select(.level != "ok")'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.clients import open_cluster, try_transaction  # noqa: PLC0415  (see run)
    from stream_app.cli.preflight import Level, preflight  # noqa: PLC0415

    config = load(path, os.environ)
    is_wrong = False
    for result in preflight(config, open_cluster(config), partial(try_transaction, config)):
        is_wrong = is_wrong or result.level is Level.WRONG
        say(json.dumps(result._asdict()) if as_json else f"{result.level:<7}  {result.check}: {result.text}")
    sys.exit(1 if is_wrong else 0)
