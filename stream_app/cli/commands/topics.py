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
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Partitions of each topic.  [default: as many as the application has; 4 for a new application]",
)
@click.option(
    "--replication", type=click.IntRange(1, 10), help="Replicas of each partition; by default the broker's own number."
)
@click.option(
    "--retention",
    help="How long the inputs are kept, such as 365d; `unlimited` also accepts event times of any age.  [default: "
    "join.ttl_ms and 28 days]",
)
def create(path: Path, partitions: int | None, replication: int | None, retention: str | None) -> None:
    """Create the missing topics.

    They get the settings that exactly-once processing needs. The inputs refuse records whose event time is so old that
    retention would delete them before a join and a pause of 14 days have ended; to send history with its own times,
    give a `--retention` that covers it. Existing topics are checked, but not changed. The exit status is 2 if a topic
    cannot be created or has wrong settings.

    \b
    Examples:
      areba topics create -c my.yaml
      areba topics create -c my.yaml --partitions 12 --replication 3
      areba topics create -c my.yaml --retention 365d
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.backends.retention import parse_retention  # noqa: PLC0415  (see run)
    from stream_app.cli.topic_setup import create_topics  # noqa: PLC0415

    retention_ms = None if retention is None else parse_retention(retention)
    for line in create_topics(load(path, os.environ), partitions, replication or -1, retention_ms):
        say(line)


@topics.command("check")
@CONFIG_OPTION
@JSON_LINES_OPTION
def check(path: Path, *, as_json: bool) -> None:
    """Check everything that would stop or endanger a worker.

    The command prints a line for each check: the schema registry, if the wire format needs it, the connection, the
    topics and their settings, replication, the inputs' retention, the event times of records that no worker has read,
    this user's permissions, reading each topic, the broker's clock, the memory that a worker may need, the settings of
    consumers, the worker's transactional id (only while no worker is running, since the check would fence one), and the
    folder of compiled code. It writes no record.

    The exit status is 1 if anything is wrong (warnings do not count), and 2 if a setting of the file is wrong.

    \b
    Examples:
      areba topics check -c my.yaml
      areba topics check -c my.yaml --json | jq 'select(.level != "ok")'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.clients import (  # noqa: PLC0415  (see run)
        open_cluster,
        try_consumer,
        try_transaction,
        with_source,
    )
    from stream_app.cli.preflight import Level, preflight  # noqa: PLC0415

    config = load(path, os.environ)
    is_wrong = False
    tried = partial(try_transaction, config), partial(try_consumer, config)
    for found in preflight(config, open_cluster(config), *tried):
        result = found._replace(text=with_source(found.text, path))
        is_wrong = is_wrong or result.level is Level.WRONG
        say(json.dumps(result._asdict()) if as_json else f"{result.level:<7}  {result.check}: {result.text}")
    sys.exit(1 if is_wrong else 0)
