"""The `areba-replay` command."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from producers import datasets
from producers.datasets.fetch import default_folder, fetch
from producers.datasets.files import DATA_DIR_VARIABLE, data_dir_from_environment
from producers.faults import NO_FAULTS, Faults
from producers.label_delay import FORMS, parse_label_delay
from producers.manifest import Manifest
from producers.replay import Plan, StreamPlan, fitted, replay
from producers.sources import COMMON_KEYS, Source, parse_source
from producers.synthetic import CONCEPTS, SPEC_KEYS
from stream_app.backends.base import Cluster, Sender
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.errors import ArebaError, ConfigurationError, TopicError
from stream_app.terminal import LogFormatter, Terminal, say

BOOTSTRAP_VARIABLES = ("AREBA__KAFKA__BOOTSTRAP_SERVERS", "AREBA_KAFKA__BOOTSTRAP_SERVERS")
TOPIC_PREFIX_VARIABLES = ("AREBA__KAFKA__INPUT_PREFIX", "AREBA__KAFKA__TOPIC_PREFIX")

INTERRUPTED_EXIT_CODE = 130
"""What shells report for Ctrl-C."""

SHARE = click.FloatRange(0.0, 1.0, max_open=True)


class _Group(click.Group):
    """Our errors become a line each and their exit code."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ArebaError as error:
            for line in error.lines:
                say(f"areba-replay: {line}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="areba")
def main() -> None:
    """Send data sets and synthetic streams to Kafka, with labels that come late."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("areba-replay: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


@main.command("list")
def list_command() -> None:
    """Data sets, synthetic streams, and their options."""
    table = Table("name", "examples", "positive", "features", "from", "what")
    folder = data_dir_from_environment()
    loaded = [(recipe, recipe.load(folder)) for recipe in datasets.RECIPES.values()]
    for recipe, data in loaded:
        sizes = (f"{len(data):,}", f"{int(data.labels.sum()):,}", str(data.dimension))
        table.add_row(recipe.name, *sizes, data.source, recipe.title)
    Terminal().print(table)
    say("")
    say("How features are made:")
    for recipe, data in loaded:
        say(f"  {recipe.name}: {data.preprocessing}")
    say("")
    say(f"Synthetic: {', '.join(CONCEPTS)}, with options: {', '.join(SPEC_KEYS)}")
    say(f"Options of any: {', '.join(COMMON_KEYS)}")
    say("Example: sine:drift=posterior,imbalance=1,length=5000,drift_at=2500,seed=7,stream=waves")


@main.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=DATA_DIR_VARIABLE,
    help=f"Folder; by default {DATA_DIR_VARIABLE}, else one below your cache.",
)
def fetch_command(names: tuple[str, ...], into: Path | None) -> None:
    """Download the full data sets from their publishers, checksums verified."""
    recipes = [datasets.find(name) for name in names]
    folder = into or default_folder()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True)) as bars:
        for recipe in recipes:
            fetch(recipe, folder, say, _DownloadBar(bars, recipe.name))
    say(f"To use them: export {DATA_DIR_VARIABLE}={folder}")


class _DownloadBar:
    """Progress bars as pooch drives them: for each file `total` is set, then bytes are reported."""

    def __init__(self, bars: Progress, name: str) -> None:
        self._bars = bars
        self._name = name
        self._task: TaskID | None = None

    @property
    def total(self) -> float | None:
        """Bytes to come; None when the server does not say."""
        return None if self._task is None else self._bars.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._task = self._bars.add_task(self._name, total=size or None)

    def update(self, size: int) -> None:
        """So many bytes more."""
        if self._task is not None:
            self._bars.advance(self._task, size)

    def reset(self) -> None:
        """Start again from 0."""
        if self._task is not None:
            self._bars.reset(self._task)

    def close(self) -> None:
        """Nothing to release."""


@main.command("run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--bootstrap-servers", envvar=BOOTSTRAP_VARIABLES, help=f"Kafka brokers; or {BOOTSTRAP_VARIABLES[0]}.")
@click.option("--topic-prefix", envvar=TOPIC_PREFIX_VARIABLES, default="", help="Before `examples` and `labels`.")
@click.option(
    "--client-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of librdkafka settings, `name=value` lines: security, passwords, compression.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Send as if the topics had so many: for topics that have grown since the application began.",
)
@click.option("--rate", default="max", show_default=True, help="Examples a second, of all streams together, or `max`.")
@click.option("--speed", type=float, help="Event time goes by so many times faster than the clock (instead of --rate).")
@click.option("--label-delay", default="fixed:10ev", show_default=True, help=f"{FORMS}.")
@click.option(
    "--unlabelled-share", type=click.FloatRange(0.0, 1.0), default=0.0, help="Share of labels that never come."
)
@click.option("--loops", type=click.IntRange(1), default=1, help="How often each stream is sent, end to end.")
@click.option("--limit", type=click.IntRange(1), help="Examples of each stream, at most.")
@click.option(
    "--interval-ms",
    type=click.IntRange(1),
    help="Event time between two examples of a stream.  [default: 1000, or what fits]",
)
@click.option("--seed", type=int, default=0, help="Of delays and faults. (A synthetic stream has its own.)")
@click.option(
    "--start-ms", type=click.IntRange(0), help="Event time of the first examples.  [default: so that the last is now]"
)
@click.option("--duplicates", type=SHARE, default=0.0, help="Share of examples and labels sent once more.")
@click.option("--out-of-order", type=SHARE, default=0.0, help="Share of records sent behind later ones.")
@click.option("--dropped", type=SHARE, default=0.0, help="Share of examples not sent, though their labels are.")
@click.option(
    "--conflicting-labels", type=SHARE, default=0.0, help="Share of labels followed by one of the other class."
)
@click.option("--garbage", type=SHARE, default=0.0, help="Random bytes, as a share of the examples.")
@click.option(
    "--manifest", type=click.Path(dir_okay=False, path_type=Path), help="Write what was sent to this JSON file."
)
def run_command(
    *,
    names: tuple[str, ...],
    bootstrap_servers: str | None,
    topic_prefix: str,
    client_config: Path | None,
    partitions: int | None,
    rate: str,
    speed: float | None,
    label_delay: str,
    unlabelled_share: float,
    loops: int,
    limit: int | None,
    interval_ms: int | None,
    seed: int,
    start_ms: int | None,
    duplicates: float,
    out_of_order: float,
    dropped: float,
    conflicting_labels: float,
    garbage: float,
    manifest: Path | None,
) -> None:
    """Send streams.

    NAME is a data set (cervical, credit, mnist, forest, fraud), or sine, circle or sea with options:
    sine:drift=posterior,imbalance=1,length=5000,drift_at=2500,seed=7. stream=NAME gives it another name.
    `areba-replay list` shows them all.
    """
    if manifest is not None and not manifest.absolute().parent.is_dir():
        raise ConfigurationError(f"--manifest {manifest}: no such folder")
    if not bootstrap_servers:
        raise ConfigurationError(f"no Kafka: give --bootstrap-servers or set {BOOTSTRAP_VARIABLES[0]}")
    settings = read_client_config(client_config) if client_config else {}
    plan = plan_of(
        [parse_source(name, limit=limit) for name in names],
        label_delay=label_delay,
        unlabelled_share=unlabelled_share,
        faults=Faults(duplicates, out_of_order, dropped, conflicting_labels, garbage),
        loops=loops,
        interval_ms=interval_ms,
        seed=seed,
    )
    plan = replace(plan, start_ms=start_ms, topic_prefix=topic_prefix, rate=_rate(rate), speed=speed, options=_given())
    plan = fitted(plan, check_topics(KafkaCluster(bootstrap_servers, settings).require_broker(), plan, partitions))
    done = _send(plan, KafkaSender(bootstrap_servers, settings, partitions))
    if manifest is not None:
        done.save(manifest)
    print_summary(done, Terminal())


def plan_of(
    sources: Sequence[Source],
    *,
    label_delay: str = "none",
    unlabelled_share: float = 0.0,
    faults: Faults = NO_FAULTS,
    loops: int = 1,
    interval_ms: int | None = None,
    seed: int = 0,
) -> Plan:
    """A plan whose streams all get the same treatment.

    Raises:
        ConfigurationError: A value is out of bounds, or two streams have one name.
    """
    delay = parse_label_delay(label_delay)
    streams = (
        StreamPlan(
            stream=source.stream,
            data=source.data,
            delay=delay,
            unlabelled_share=unlabelled_share,
            faults=faults,
            loops=loops,
            interval_ms=source.interval_ms or interval_ms,
        )
        for source in sources
    )
    return Plan(tuple(streams), seed=seed)


def _given() -> dict[str, str]:
    """The options of the running command, in words; none of them is a secret."""
    values = click.get_current_context().params
    words = {name: " ".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    return {name: word for name, word in words.items() if values[name] is not None}


def _send(plan: Plan, sender: Sender) -> Manifest:
    """Replay under a progress bar. The sender is closed."""
    columns = (TextColumn("sending"), BarColumn(), MofNCompleteColumn(), TextColumn("records"), TimeRemainingColumn())
    sent = 0
    try:
        with Progress(*columns, console=Terminal(stderr=True)) as bars:
            task = bars.add_task("sending", total=None)

            def on_progress(count: int, total: int) -> None:
                nonlocal sent
                sent = count
                bars.update(task, completed=count, total=total)

            return replay(plan, sender, SystemClock(), on_progress)
    except KeyboardInterrupt:
        say(f"areba-replay: stopped after {sent} records, without closing marks and without a manifest", err=True)
        sys.exit(INTERRUPTED_EXIT_CODE)
    finally:
        sender.close()


def _rate(text: str) -> float | None:
    if text == "max":
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"--rate {text}: neither a number nor `max`") from None


def read_client_config(path: Path) -> dict[str, str]:
    """Settings of librdkafka from a file of `name=value` lines; empty lines and those that begin with # do not count.

    Raises:
        ConfigurationError: It cannot be read, or a line is no setting. It is not shown: it may be a secret.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--client-config {path}: {error}") from error
    settings = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise ConfigurationError(f"--client-config {path}: line {number} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


def check_topics(cluster: Cluster, plan: Plan, partitions: int | None = None) -> int:
    """That both topics can take a replay; the smaller of their retention times in milliseconds (-1: for ever).

    Args:
        cluster: Where they are.
        plan: Of the replay.
        partitions: How many of each are used; None: all.

    Raises:
        TopicError: One is missing, or the two would not bring a label to its example.
    """
    names = (plan.examples_topic, plan.labels_topic)
    found = cluster.topics(names)
    lines = [f"topic {name}: there is none; `areba topics create` makes it" for name in names if name not in found]
    if not lines:
        examples, labels = (found[name] for name in names)
        if partitions is None and examples.partitions != labels.partitions:
            lines.append(
                f"topics {names[0]} and {names[1]} have {examples.partitions} and {labels.partitions} partitions;"
                " they need equal numbers, or --partitions, where an application has begun with fewer"
            )
        lines += [
            f"topic {topic.name}: has {topic.partitions} partitions, --partitions is {partitions}"
            for topic in (examples, labels)
            if partitions is not None and topic.partitions < partitions
        ]
        lines += [
            f"topic {topic.name}: message.timestamp.type is LogAppendTime; event times need CreateTime"
            for topic in (examples, labels)
            if topic.settings.get("message.timestamp.type", "CreateTime") != "CreateTime"
        ]
    if lines:
        raise TopicError(lines)
    kept = [int(found[name].settings.get("retention.ms", "-1")) for name in names]
    return min((time_ms for time_ms in kept if time_ms >= 0), default=-1)


def print_summary(manifest: Manifest, console: Terminal) -> None:
    """What was sent, a row for each stream."""
    table = Table("stream", "examples", "positive", "labels", "never labelled", "faults", "label delay", title="sent")
    for stream in manifest.streams:
        faults = sum(getattr(stream.faults, name) for name in type(stream.faults).__dataclass_fields__)
        counts = (stream.examples.sent, stream.examples.positive, stream.labels.sent, stream.never_labelled, faults)
        table.add_row(stream.stream, *(f"{count:,}" for count in counts), stream.label_delay)
    console.print(table)
    console.print(f"{manifest.records:,} records, marks included; digest {manifest.digest}", soft_wrap=True)


if __name__ == "__main__":
    main()
