"""The options of `areba-replay` about files, and the plan that the options of `areba-replay run` describe."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from stream_app.errors import ConfigurationError
from stream_app.producers.faults import Faults
from stream_app.producers.files.cells import TimeUnit
from stream_app.producers.files.layout import FileOptions
from stream_app.producers.files.source import Reading
from stream_app.producers.plan import Plan, uniform_plan
from stream_app.producers.sources import is_file_name, parse_source
from stream_app.producers.target import Target

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LAYOUT_OPTIONS = (
    click.option("--id", "id", help="Column of a file: the id.  [default: ids are made]"),
    click.option(
        "--time", help="Column of a file: the event time.  [default: a row in each --interval-ms, in the file's order]"
    ),
    click.option("--label", help="Column of a file: the label.  [default: no labels are sent]"),
    click.option("--positive", multiple=True, help="Label of class 1; may be given several times.  [default: 1, true]"),
    click.option(
        "--negative",
        multiple=True,
        help="Label of class 0; may be given several times.  [default: the first label that is not positive]",
    ),
    click.option("--label-time", help="Column of a file: when the label was known.  [default: after --label-delay]"),
    click.option(
        "--features", help="Columns of a file, with commas: the features.  [default: all others with numbers]"
    ),
    click.option("--delimiter", help="Delimiter of a CSV file, `tab` for tabs.  [default: as the first lines show]"),
    click.option(
        "--decimal",
        type=click.Choice(["point", "comma"]),
        help="Decimal mark of a CSV file.  [default: as the first rows show]",
    ),
    click.option(
        "--time-unit",
        type=click.Choice([unit.value for unit in TimeUnit]),
        default="auto",
        show_default=True,
        help="Times of a file: ISO 8601, or a number since 1970.",
    ),
)

wrong_rows_option = click.option(
    "--wrong-rows",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At a wrong cell of a file, send nothing, or leave its row out and count it.",
)


def layout_options(command: _Command) -> _Command:
    """Add the options that say what the columns of a file are."""
    for option in reversed(_LAYOUT_OPTIONS):
        command = option(command)
    return command


def take_file_options(values: dict[str, Any]) -> FileOptions:
    """Remove the options about files from a command's values, and return them.

    Raises:
        ConfigurationError: Options contradict each other, or a delimiter is not one character.
    """
    taken = {name: values.pop(name) for name in ("id", "time", "label", "positive", "negative", "label_time")}
    features, delimiter = values.pop("features"), values.pop("delimiter")
    delimiter = "\t" if delimiter == "tab" else delimiter
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigurationError(f"--delimiter {delimiter!r}: must be one character, or `tab`")
    return FileOptions(
        **taken,
        features=None if features is None else tuple(name.strip() for name in features.split(",")),
        delimiter=delimiter,
        decimal=values.pop("decimal"),
        time_unit=TimeUnit(values.pop("time_unit")),
        skip_wrong_rows=values.pop("wrong_rows", "stop") == "skip",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `areba-replay run`; its help explains them."""

    names: tuple[str, ...]
    partitions: int | None
    rate: str
    speed: float | None
    label_delay: str
    unlabelled_share: float
    loops: int
    limit: int | None
    interval_ms: int | None
    seed: int
    start_ms: int | None
    duplicates: float
    out_of_order: float
    dropped: float
    conflicting_labels: float
    garbage: float
    manifest: Path | None
    stream: str | None = None
    keep_times: bool | None = None
    file: FileOptions = field(default_factory=FileOptions)

    @property
    def has_files(self) -> bool:
        """Whether a name is that of a file."""
        return any(is_file_name(name.partition(":")[0]) for name in self.names)

    def plan(self, reading: Reading, target: Target) -> Plan:
        """Return the plan of the replay.

        Args:
            reading: How files are read.
            target: Where it is sent.

        Raises:
            ConfigurationError: An option is wrong.
            DataSetError: A name is not known, or its data cannot be loaded.
        """
        if self.file != FileOptions() and not self.has_files:
            raise ConfigurationError(f"options about files need a file: {', '.join(self.names)} is none")
        if self.stream is not None and len(self.names) > 1:
            raise ConfigurationError("--stream is the name of one stream; for several, write NAME:stream=...")
        sources = [
            parse_source(name, limit=self.limit, reading=reading, stream=self.stream, input_of=target.input_of)
            for name in self.names
        ]
        plan = uniform_plan(
            sources,
            label_delay=self.label_delay,
            unlabelled_share=self.unlabelled_share,
            faults=Faults(self.duplicates, self.out_of_order, self.dropped, self.conflicting_labels, self.garbage),
            loops=self.loops,
            interval_ms=self.interval_ms,
            seed=self.seed,
        )
        return replace(
            plan,
            start_ms=self.start_ms,
            examples_topic=target.examples_topic,
            labels_topic=target.labels_topic,
            rate=_parse_rate(self.rate),
            speed=self.speed,
        )


def _parse_rate(text: str) -> float | None:
    if text == "max":
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"--rate {text}: must be a number or `max`") from None
