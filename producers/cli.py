"""The `areba-replay` command: list data sets, fetch them, and send them to Kafka."""

import errno
import logging
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

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

from stream_app.backends.base import Sender
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.errors import ArebaError, ConfigurationError
from stream_app.producers import datasets
from stream_app.producers.datasets.fetch import default_folder, fetch
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE, data_dir_from_environment
from stream_app.producers.files.describe import configuration, describe
from stream_app.producers.files.source import Reading
from stream_app.producers.label_delay import FORMS
from stream_app.producers.manifest import Manifest
from stream_app.producers.plan import Plan
from stream_app.producers.reading_bar import reading_bar
from stream_app.producers.replay import replay
from stream_app.producers.retention import fit_to_retention, place_times
from stream_app.producers.run_options import RunOptions, layout_options, take_file_options, wrong_rows_option
from stream_app.producers.sources import COMMON_KEYS, stream_of
from stream_app.producers.synthetic import CONCEPTS, SPEC_KEYS
from stream_app.producers.target import Target, check_topics
from stream_app.producers.target_options import take_target, target_options
from stream_app.terminal import LogFormatter, Terminal, say, simple_table

INTERRUPTED_EXIT_CODE = 130
"""The status that shells report for a program that Ctrl-C ended."""

SHARE = click.FloatRange(0.0, 1.0, max_open=True)


class _Group(click.Group):
    """A group of commands that prints an `ArebaError` as lines and exits with its status."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ArebaError as error:
            for line in error.lines:
                say(f"areba-replay: {line}", err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            say(f"areba-replay: no space is left in {tempfile.gettempdir()}; TMPDIR names another folder", err=True)
            ctx.exit(ArebaError.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="areba")
def main() -> None:
    """Send data sets and synthetic streams to Kafka, with labels that come late."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("areba-replay: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


@main.command("list")
def list_command() -> None:
    """List data sets, synthetic streams, and their options."""
    table = simple_table("", ("name", "from", "what", "examples", "positive", "features"), names=3)
    folder = data_dir_from_environment()
    loaded = [(recipe, recipe.load(folder)) for recipe in datasets.RECIPES.values()]
    for recipe, data in loaded:
        sizes = (f"{len(data):,}", f"{int(data.labels.sum()):,}", str(data.dimension))
        table.add_row(recipe.name, data.source, recipe.title, *sizes)
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
    help=f"Target folder; by default {DATA_DIR_VARIABLE}, or else a folder below your cache.",
)
def fetch_command(names: tuple[str, ...], into: Path | None) -> None:
    """Download the full data sets from their publishers and verify their checksums."""
    recipes = [datasets.find(name) for name in names]
    folder = into or default_folder()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(stderr=True)) as bars:
        for recipe in recipes:
            fetch(recipe, folder, say, _DownloadBar(bars, recipe.name))
    say(f"To use them: export {DATA_DIR_VARIABLE}={folder}")


class _DownloadBar:
    """A progress bar for pooch, which sets `total` for each file and then reports bytes."""

    def __init__(self, bars: Progress, name: str) -> None:
        self._bars = bars
        self._name = name
        self._task: TaskID | None = None

    @property
    def total(self) -> float | None:
        """The size of the file in bytes; None if the server does not say."""
        return None if self._task is None else self._bars.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._task = self._bars.add_task(self._name, total=size or None)

    def update(self, size: int) -> None:
        """Advance the bar by this number of bytes."""
        if self._task is not None:
            self._bars.advance(self._task, size)

    def reset(self) -> None:
        """Set the bar back to 0."""
        if self._task is not None:
            self._bars.reset(self._task)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


@main.command("run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--stream", help="Name of the stream.  [default: NAME, of a file its name up to the first dot]")
@layout_options
@wrong_rows_option
@click.option(
    "--keep-times/--shift-to-now",
    default=None,
    help="Keep a file's event times, or move them so that the last is now.  [default: keep what the topics accept]",
)
@target_options
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Use only so many partitions: for topics that have grown since the application began.",
)
@click.option(
    "--rate", default="max", show_default=True, help="Examples per second, of all streams together, or `max`."
)
@click.option(
    "--speed", type=float, help="Let event time pass so many times faster than the clock (instead of --rate)."
)
@click.option("--label-delay", default="fixed:10ev", show_default=True, help=f"{FORMS}.")
@click.option(
    "--unlabelled-share", type=click.FloatRange(0.0, 1.0), default=0.0, help="Share of labels that are never sent."
)
@click.option("--loops", type=click.IntRange(1), default=1, help="How many times each stream is sent, end to end.")
@click.option("--limit", type=click.IntRange(1), help="Send at most so many examples of each stream.")
@click.option(
    "--interval-ms",
    type=click.IntRange(1),
    help="Event time between two examples of a stream.  [default: 1000, or less if that does not fit]",
)
@click.option(
    "--seed", type=int, default=0, help="Seed of delays and faults. (A synthetic stream has a separate seed.)"
)
@click.option(
    "--start-ms",
    type=click.IntRange(0),
    help="Event time of the first examples.  [default: the last event time is now]",
)
@click.option("--duplicates", type=SHARE, default=0.0, help="Share of examples and labels that are sent twice.")
@click.option("--out-of-order", type=SHARE, default=0.0, help="Share of records that are sent after later ones.")
@click.option(
    "--dropped", type=SHARE, default=0.0, help="Share of examples that are not sent, although their labels are."
)
@click.option(
    "--conflicting-labels",
    type=SHARE,
    default=0.0,
    help="Share of labels that are followed by a label of the other class.",
)
@click.option(
    "--garbage", type=SHARE, default=0.0, help="Number of records of random bytes, as a share of the examples."
)
@click.option(
    "--manifest", type=click.Path(dir_okay=False, path_type=Path), help="Write what was sent to this JSON file."
)
def run_command(**values: Any) -> None:  # noqa: ANN401  (the options above, as click passes them)
    """Send streams.

    NAME is a file (CSV, JSON lines or Parquet, also packed by gzip; its name has a dot or a slash), a data set
    (cervical, credit, mnist, forest, fraud), or sine, circle or sea with options:
    sine:drift=posterior,imbalance=1,length=5000,drift_at=2500,seed=7. stream=NAME gives it another name.
    `areba-replay list` shows them all.

    A file is read in constant memory, and sent in the order of its event times; temporary files in TMPDIR take two
    to four times its space. Missing values are empty cells, NA, N/A, NaN, null and none.
    """
    target = take_target(values)
    options = RunOptions(file=take_file_options(values), **values)
    manifest = options.manifest
    if manifest is not None and not manifest.absolute().parent.is_dir():
        raise ConfigurationError(f"--manifest {manifest}: no such folder")
    cluster = KafkaCluster(target.bootstrap_servers, target.settings).require_broker()
    accepted_ms = check_topics(cluster, target.topics, options.partitions)
    plan = replace(_read_plan(options, target), options=_options_as_text())
    now_ms = SystemClock().now_ms()
    plan, note = place_times(plan, accepted_ms, now_ms, keeps=options.keep_times)
    if note:
        say(f"areba-replay: {note}", err=True)
    plan = fit_to_retention(plan, accepted_ms, now_ms)
    plan = replace(plan, wire_format=target.wire_format())
    done = _send(plan, KafkaSender(target.bootstrap_servers, target.sender_settings, options.partitions))
    if manifest is not None:
        done.save(manifest)
    print_summary(done, Terminal())


@main.command("describe")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--stream", help="Name of the stream.  [default: the file's name up to the first dot]")
@layout_options
@click.option("--limit", type=click.IntRange(1), help="Read at most so many rows.")
def describe_command(path: Path, stream: str | None, limit: int | None, **values: Any) -> None:  # noqa: ANN401  (as above)
    r"""Read a file once, and print the configuration of a stream for it.

    Comments have the columns with types, missing values and most frequent texts, the classes, the span of time, the
    delays of labels, and the retention that the topics need. `areba config --check` accepts the output.

    \b
    Examples:
      areba-replay describe payments.csv
      areba-replay describe payments.csv --time date --label is_fraud --positive yes --label-time known_at > my.yaml
    """
    with reading_bar(take_file_options(values)) as reading:
        found = describe(path, replace(reading, limit=limit, on_note=lambda _: None))
    for line in configuration(found, stream or stream_of(path), SystemClock().now_ms()):
        say(line)


def _read_plan(options: RunOptions, target: Target) -> Plan:
    """Return the plan; show a progress bar while files are read."""
    if not options.has_files:
        return options.plan(Reading(options=options.file), target)
    with reading_bar(options.file) as reading:
        return options.plan(reading, target)


def _options_as_text() -> dict[str, str]:
    """Return the options of the running command as text; none of them is a secret."""
    values = click.get_current_context().params
    words = {name: " ".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
    return {name: word for name, word in words.items() if values[name] is not None}


def _send(plan: Plan, sender: Sender) -> Manifest:
    """Send a plan, show a progress bar, and close the sender."""
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
        say(f"areba-replay: stopped after {sent} records, without closing marks or a manifest", err=True)
        sys.exit(INTERRUPTED_EXIT_CODE)
    finally:
        sender.close()


def print_summary(manifest: Manifest, console: Terminal) -> None:
    """Print what was sent, one row for each stream."""
    headings = ("stream", "label delay", "examples", "positive", "labels", "unlabelled", "faults")
    table = simple_table("Sent", headings, names=2)
    for stream in manifest.streams:
        faults = sum(getattr(stream.faults, name) for name in type(stream.faults).__dataclass_fields__)
        counts = (stream.examples.sent, stream.examples.positive, stream.labels.sent, stream.never_labelled, faults)
        table.add_row(stream.stream, stream.label_delay, *(f"{count:,}" for count in counts))
    console.print(table)
    console.print(f"{manifest.records:,} records, marks included; digest {manifest.digest}", soft_wrap=True)


if __name__ == "__main__":
    main()
