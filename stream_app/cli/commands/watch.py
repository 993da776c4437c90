"""`areba watch` and `areba tail`: look at a running application through its topics."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_app.cli.commands.options import CONFIG_OPTION, JSON_LINES_OPTION
from stream_app.cli.process import without_client_log
from stream_app.errors import ConfigurationError
from stream_app.terminal import Terminal, say

if TYPE_CHECKING:
    from stream_app.config import Config
    from stream_app.monitor.figures import LiveFigures
    from stream_app.monitor.watcher import Watcher

_STREAM_OPTION = click.option(
    "--stream", "streams", multiple=True, help="Only this stream; may be given several times."
)

SEARCH_REPORT_S = 10.0

_NEWEST = 10
"""Records that `areba tail` prints if neither a time nor a number is given, as `tail` prints lines."""


@click.command()
@CONFIG_OPTION
@_STREAM_OPTION
@click.option("--lanes", is_flag=True, help="Show each lane of streams with lanes, too.")
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
def watch(path: Path, streams: Sequence[str], interval_s: float, *, lanes: bool, once: bool, as_json: bool) -> None:
    """Show how well each learner of each stream is doing, live.

    The table has G-mean, recall and precision from the newest metric, labelled examples learned per second, the lag in
    seconds of event time, the examples that wait for their label, dead letters, and flagged changes; --json has all
    figures, such as ROC AUC. The command reads only the topics and contacts no worker, so any number of people may
    watch. Lines below the table name tasks that have stopped, topics that cannot be read, streams that have
    drifted without labels, and streams that the table leaves out. A stream with lanes has the sums of its lanes.
    Ctrl-C ends it.

    The exit status is 0, also after Ctrl-C; 2 if a topic does not exist or no broker answers.

    \b
    Examples:
      areba watch -c my.yaml
      areba watch -c my.yaml --stream pumps --once
      areba watch -c my.yaml --once --json | jq '.learner, .windows[0].gmean'
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415  (see run)
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.monitor.watcher import Watcher  # noqa: PLC0415

    config = load_with_schemas(path)
    cluster = connect(config)
    with without_client_log(), closing(Watcher(cluster, config, SystemClock())) as watcher, suppress(KeyboardInterrupt):
        watcher.catch_up()
        if once:
            time.sleep(interval_s)
            watcher.update()
            _printer(config.application.id, as_json=as_json)(watcher.figures().only(streams, lanes=lanes))
        else:
            _follow(watcher, config.application.id, streams, interval_s, lanes=lanes, as_json=as_json)


def _follow(
    watcher: "Watcher", title: str, streams: Sequence[str], interval_s: float, *, lanes: bool, as_json: bool
) -> None:
    """Show the figures repeatedly."""
    from rich.live import Live  # noqa: PLC0415  (only this command needs it)

    from stream_app.monitor.table import figures_table  # noqa: PLC0415  (see run)

    terminal = Terminal()
    if as_json or not terminal.is_terminal:
        show = _printer(title, as_json=as_json)
        while True:
            show(watcher.figures().only(streams, lanes=lanes))
            time.sleep(interval_s)
            watcher.update()
    with Live(console=terminal, auto_refresh=False) as live:
        while True:
            shown = watcher.figures().only(streams, lanes=lanes)
            live.update(figures_table(shown, title, terminal.height), refresh=True)
            time.sleep(interval_s)
            watcher.update()


def _printer(title: str, *, as_json: bool) -> "Callable[[LiveFigures], None]":
    """Return what prints figures once: as a table, or as JSON with the notes on standard error."""
    from stream_app.monitor.table import figures_table  # noqa: PLC0415  (see run)

    def print_json(figures: "LiveFigures") -> None:
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
@_STREAM_OPTION
@click.option(
    "--since",
    metavar="TIME",
    help="Not before this time: 2026-01-31, 2026-01-31T10:00 (UTC), or 30m, 2h, 7d for that long ago. The timestamp of "
    "inputs is their event time; that of all other records says when they were written.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, 100_000),
    help=f"Of the existing records, print only this many, the newest; {_NEWEST} unless --since is given.",
)
@click.option(
    "--id",
    "id_",
    help="Only records with this id, among all existing records; with --stream, only in the streams' own partitions.",
)
@click.option("--follow", is_flag=True, help="Then print new records as they arrive, until Ctrl-C.")
def tail(
    topic: str,
    path: Path,
    streams: Sequence[str],
    since: str | None,
    limit: int | None,
    id_: str | None,
    *,
    follow: bool,
) -> None:
    """Print the decoded records of TOPIC, one JSON per line.

    TOPIC is examples, labels, predictions, outcomes, metrics, dead-letters or progress, or the full name of one of
    these topics. A document has the place of the record (topic, partition, offset), its timestamp, its key, its type
    and its decoded value; for a dead letter also the reason, its origin and its event time. A value that cannot be
    decoded is printed in base64, with the problem. Records of one partition are printed in order. A stream with lanes
    stands for its lanes, and with --id for the lane of the id.

    The exit status is 0, also after Ctrl-C; 2 if there is no such topic or no broker answers; 4 if brokers stop
    answering.

    \b
    Examples:
      areba tail predictions -c my.yaml
      areba tail metrics -c my.yaml --stream pumps | jq '.value.windows[0].gmean'
      areba tail dead-letters -c my.yaml --since 2h --follow
      areba tail outcomes -c my.yaml --stream pumps --id e4711
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.admin.dead_letters.selection import parse_time  # noqa: PLC0415  (see run)
    from stream_app.backends.clock import SystemClock  # noqa: PLC0415
    from stream_app.backends.partitioner import partition_of  # noqa: PLC0415
    from stream_app.backends.progress import partitions_of  # noqa: PLC0415
    from stream_app.cli.clients import connect  # noqa: PLC0415
    from stream_app.cli.schemas import load_with_schemas  # noqa: PLC0415
    from stream_app.monitor.tail import Wanted, arriving, deleted_before, document, newest, topic_named  # noqa: PLC0415
    from stream_app.serialization.wire_format import format_of  # noqa: PLC0415

    config = load_with_schemas(path)
    name = topic_named(config.topics, topic)
    if streams and name == config.topics.progress:
        raise ConfigurationError("--stream: records of progress belong to tasks, not to streams; omit it")
    if id_ is not None and name in {config.topics.progress, config.topics.metrics}:
        raise ConfigurationError(f"--id: the records of {name} have no id; omit it")
    if limit is None and since is None and id_ is None:
        limit = _NEWEST
    since_ms = None if since is None else parse_time(since, SystemClock().now_ms())
    wire_format = format_of(config.serialization)
    cluster = connect(config)
    own: frozenset[int] = frozenset()
    names = _record_names(config, streams, id_)
    if id_ is not None and streams:
        count = partitions_of(cluster, config.topics)
        own = frozenset(partition_of(name.encode(), count) for name in names)
    wanted = Wanted(names, since_ms, limit, id_, wire_format, own)
    with suppress(KeyboardInterrupt):
        found, ends = newest(cluster, name, wanted, _search_reporter(name) if id_ is not None else lambda *_: None)
        count = 0
        for one in found:
            say(json.dumps(document(one, wire_format)))
            count += 1
        if limit is None or count < limit:
            for line in deleted_before(cluster, ends, since_ms):
                say(f"note: {line}", err=True)
        if follow:
            for one in arriving(cluster, ends, wanted, lambda line: say(line, err=True)):
                say(json.dumps(document(one, wire_format)))


def _record_names(config: "Config", streams: Sequence[str], id_: str | None) -> frozenset[str]:
    """Return what the wanted records name as their stream: lanes of a stream, or the lane of the id."""
    if id_ is not None:
        return frozenset(config.name_of(stream, id_) for stream in streams)
    return frozenset(name for stream in streams for name in config.names_of(stream))


def _search_reporter(topic: str) -> "Callable[[int, int], None]":
    """Return what says on standard error, every `SEARCH_REPORT_S`, how much of a topic was searched."""
    said_s = time.monotonic()

    def report(read: int, every: int) -> None:
        nonlocal said_s
        if time.monotonic() - said_s >= SEARCH_REPORT_S:
            said_s = time.monotonic()
            say(f"{topic}: searched {read:,} of {every:,} offsets", err=True)

    return report
