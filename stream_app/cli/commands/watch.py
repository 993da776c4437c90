"""`areba watch` and `areba tail`: look at a running application through its topics."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION
from stream_app.errors import ConfigurationError
from stream_app.terminal import Terminal, say

if TYPE_CHECKING:
    from stream_app.monitor.figures import Figures
    from stream_app.monitor.watcher import Watcher

STREAM_OPTION = click.option("--stream", "streams", multiple=True, help="Only this stream; may be given several times.")

NEWEST = 10
"""Records that `areba tail` prints if neither a time nor a number is given, as `tail` prints lines."""


@click.command()
@CONFIG_OPTION
@STREAM_OPTION
@click.option("--once", is_flag=True, help="Print the figures once and exit.")
@JSON_LINES_OPTION
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=1.0,
    show_default=True,
    help="Time between two updates; with --once, the time over which rates are measured.",
)
def watch(path: Path, streams: Sequence[str], interval_s: float, *, once: bool, as_json: bool) -> None:
    """Show how well each learner of each stream is doing, live.

    The table has G-mean, recall and specificity from the newest metric, labelled examples learned per second, the lag
    in seconds of event time, the examples that wait for their label, dead letters, and flagged changes. The command
    reads only the topics and contacts no worker, so any number of people may watch. Lines below the table name tasks
    that have stopped, topics that cannot be read, and streams that the table leaves out. Ctrl-C ends it.

    The exit status is 0, also after Ctrl-C; 2 if a topic does not exist or no broker answers.

    \b
    Examples:
      areba watch -c my.yaml
      areba watch -c my.yaml --stream pumps --once
      areba watch -c my.yaml --once --json | jq '.learner, .gmean'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.monitor.watcher import Watcher  # noqa: PLC0415

    config = load_with_schemas(path)
    cluster = connect(config)
    logging.getLogger("areba.kafka").setLevel(logging.CRITICAL)  # problems are lines of the table
    with closing(Watcher(cluster, config, SystemClock())) as watcher, suppress(KeyboardInterrupt):
        watcher.catch_up()
        if once:
            time.sleep(interval_s)
            watcher.update()
            _printer(config.application.id, as_json=as_json)(watcher.figures().only(streams))
        else:
            _follow(watcher, config.application.id, streams, interval_s, as_json=as_json)


def _follow(watcher: "Watcher", title: str, streams: Sequence[str], interval_s: float, *, as_json: bool) -> None:
    """Show the figures repeatedly."""
    from rich.live import Live  # noqa: PLC0415  (only this command needs it)

    from stream_app.monitor.table import figures_table  # noqa: PLC0415  (see run)

    terminal = Terminal()
    if as_json or not terminal.is_terminal:
        show = _printer(title, as_json=as_json)
        while True:
            show(watcher.figures().only(streams))
            time.sleep(interval_s)
            watcher.update()
    with Live(console=terminal, auto_refresh=False) as live:
        while True:
            live.update(figures_table(watcher.figures().only(streams), title, terminal.height), refresh=True)
            time.sleep(interval_s)
            watcher.update()


def _printer(title: str, *, as_json: bool) -> "Callable[[Figures], None]":
    """Return what prints figures once: as a table, or as JSON with the notes on standard error."""
    from stream_app.monitor.table import figures_table  # noqa: PLC0415  (see run)

    def print_json(figures: "Figures") -> None:
        now_ms = time.time_ns() // 1_000_000
        for stream in figures.streams:
            for row in stream.rows():
                say(json.dumps({"time_ms": now_ms, **row}))
        for note in figures.notes():
            say(note, err=True)

    return print_json if as_json else lambda figures: Terminal().print(figures_table(figures, title))


@click.command()
@click.argument("topic")
@CONFIG_OPTION
@STREAM_OPTION
@click.option(
    "--since",
    metavar="TIME",
    help="Not before this event time: 2026-01-31, 2026-01-31T10:00 (UTC), or 30m, 2h, 7d for that long ago.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, 100_000),
    help=f"Of the existing records, print only this many, the newest; {NEWEST} unless --since is given.",
)
@click.option("--follow", is_flag=True, help="Then print new records as they arrive, until Ctrl-C.")
def tail(topic: str, path: Path, streams: Sequence[str], since: str | None, limit: int | None, *, follow: bool) -> None:
    """Print the decoded records of TOPIC, one JSON document per line.

    TOPIC is examples, labels, predictions, outcomes, metrics, dead-letters or progress, or the full name of one of
    these topics. A document has the place of the record (topic, partition, offset), its event time, its key, its type
    and its decoded value; for a dead letter also the reason and its origin. A value that cannot be decoded is printed
    in base64, with the problem. Records of one partition are printed in order.

    The exit status is 0, also after Ctrl-C; 2 if there is no such topic or no broker answers; 4 if brokers stop
    answering.

    \b
    Examples:
      areba tail predictions -c my.yaml
      areba tail metrics -c my.yaml --stream pumps | jq .value.gmean
      areba tail dead-letters -c my.yaml --since 2h --follow
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.dead_letters.selection import parse_time  # noqa: PLC0415  (see run)
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.monitor.tail import Wanted, arriving, document, newest, topic_named  # noqa: PLC0415
    from stream_app.serialization.wire_format import format_of  # noqa: PLC0415

    config = load_with_schemas(path)
    name = topic_named(config.topics, topic)
    if streams and name == config.topics.progress:
        raise ConfigurationError("--stream: records of progress belong to tasks, not to streams; omit it")
    if limit is None and since is None:
        limit = NEWEST
    since_ms = None if since is None else parse_time(since, SystemClock().now_ms())
    wanted = Wanted(frozenset(streams), since_ms, limit)
    wire_format = format_of(config.serialization)
    cluster = connect(config)
    with suppress(KeyboardInterrupt):
        found, ends = newest(cluster, name, wanted)
        for one in found:
            say(json.dumps(document(one, wire_format)))
        if follow:
            for one in arriving(cluster, ends, wanted, lambda line: say(line, err=True)):
                say(json.dumps(document(one, wire_format)))
