"""What a file holds, and the configuration of a stream for it."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from stream_app.backends.retention import LATE_MS, date, duration
from stream_app.config import Config
from stream_app.config.table_bytes import pending_bytes
from stream_app.config.task_settings import MAX_PENDING, JoinSettings
from stream_app.config.values import DAY_MS, MAX_MS
from stream_app.producers.files.cells import TimeUnit, class_text
from stream_app.producers.files.figures import ColumnFigures, Delays, Kind, Pending
from stream_app.producers.files.layout import NO_TIME, Example, FileOptions, Layout, decimal_comma_note, index_of
from stream_app.producers.files.proposal import MAX_NAMED, Proposal, column_lines, propose, provisional_input
from stream_app.producers.files.readers import Reader, Sample, open_file
from stream_app.producers.files.source import Reading, batches, examples_of
from stream_app.producers.files.wrong_rows import WrongRows
from stream_app.producers.retention import RETENTION_SHARE, retention_for

_LEAST_LABELLED, _LEAST_SHARE = 2_000, 0.01
"""Challengers are recommended for files with so many labels, of which the rarer class has this share: with fewer, RELAY
did not lead in the study (Credit, Cervical, Fraud, streams with 0.1 %). With 1 % and more, both are better than the
default on most kinds of streams (docs/models.md, Which method for which streams)."""

_MARGIN = 1.1
"""What is recommended is so much more than what was measured, and then rounded up."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a file holds.

    Attributes:
        file: The name of the file.
        notes: What was taken from the first rows.
        wrong: The rows that could not be sent.
        rows: The number of rows.
        columns: Figures of each column.
        proposal: The columns that they suggest for the stream.
        command: The options of `areba-replay run` that were given.
        hints: Columns that further options may name, one line each.
        classes: Rows without wrong cells by class: 0, 1, and -1 without a label.
        classes_note: Which labels are which class.
        first_ms: The first event time; None: there are none.
        last_ms: The last event time of an example.
        end_ms: The last event time of an example or a label.
        is_sorted: Whether the rows are in the order of their times.
        delays: The delays of the labels.
        ttl_ms: `join.ttl_ms` that all labels of the file need; None: the file does not say when labels are known.
        pending: The most examples that wait at a time with it.
    """

    file: str
    notes: tuple[str, ...]
    wrong: tuple[str, ...]
    rows: int
    columns: tuple[ColumnFigures, ...]
    proposal: Proposal
    command: str
    hints: tuple[str, ...]
    classes: Counter[int]
    classes_note: str
    first_ms: int | None
    last_ms: int
    end_ms: int
    is_sorted: bool
    delays: Delays
    ttl_ms: int | None
    pending: int


class _Times:
    """The event times of a file, and the delays of its labels."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self.first_ms: int | None = None
        self.last_ms = self.end_ms = NO_TIME
        self.is_sorted = True
        self.delays = Delays()

    def add(self, examples: Sequence[Example]) -> None:
        """Count examples."""
        for example in examples:
            self.is_sorted &= example.time_ms >= self.last_ms
            self.first_ms = example.time_ms if self.first_ms is None else min(self.first_ms, example.time_ms)
            self.last_ms = max(self.last_ms, example.time_ms)
            self.end_ms = max(self.end_ms, example.time_ms, example.label_time_ms)
            if example.label_time_ms != NO_TIME:
                self.delays.add(example.label_time_ms - example.time_ms)
        self._pending.add(examples)


def describe(path: Path, reading: Reading) -> Description:
    """Read a file once. Rows with wrong cells are counted, and left out of classes, times and delays.

    Raises:
        ConfigurationError: An option does not fit the file.
        DataSetError: The file cannot be read.
    """
    with open_file(path, reading.options.delimiter) as reader, Pending() as pending:
        sample = Sample.of(reader)
        columns = _columns(reader, sample, reading.options)
        used = _used(columns, reading.options)
        layout = Layout(reader, sample, replace(reading.options, features=None), provisional_input(used))
        wrong = WrongRows(str(path), reader.place, is_skipped=True)
        times, classes, rows = _Times(pending), Counter[int](), 0
        for batch in batches(reader, reading):
            rows += len(batch)
            for row in batch:
                for column, cell in zip(columns, row.cells, strict=False):
                    column.add(cell)
            examples = [example for _, example in examples_of(batch, layout, wrong)]
            classes.update(example.label for example in examples)
            if layout.has_times:
                times.add(examples)
        ttl_ms = _rounded_up(times.delays.largest * _MARGIN) if times.delays.count else None
        lead_ms = JoinSettings().max_clock_lead_ms
        return Description(
            file=path.name,
            notes=tuple(layout.notes),
            wrong=tuple(wrong.report(rows)),
            rows=rows,
            columns=tuple(columns),
            proposal=propose(used),
            command=_command(path, reading.options, has_wrong_rows=bool(len(wrong))),
            hints=tuple(_hints(columns, reading.options)),
            classes=classes,
            classes_note=layout.classes_note,
            first_ms=times.first_ms,
            last_ms=times.last_ms,
            end_ms=times.end_ms,
            is_sorted=times.is_sorted,
            delays=times.delays,
            ttl_ms=ttl_ms,
            pending=0 if ttl_ms is None else pending.most(ttl_ms + lead_ms),
        )


def _columns(reader: Reader, sample: Sample, options: FileOptions) -> list[ColumnFigures]:
    """Return empty figures for each column."""
    has_comma = (
        bool(decimal_comma_note(reader.names, sample)) if options.decimal is None else options.decimal == "comma"
    )
    return [
        ColumnFigures(name, Kind.of(sample.column(index), decimal_comma=has_comma), has_comma)
        for index, name in enumerate(reader.names)
    ]


def _used(columns: Sequence[ColumnFigures], options: FileOptions) -> list[ColumnFigures]:
    """Return the columns that may be those of the stream.

    Raises:
        ConfigurationError: `--features` names a column that the file does not have, or no column is left.
    """
    names = [column.name for column in columns]
    if options.features is not None:
        return [columns[index_of(names, name, "--features")] for name in options.features]
    others = {options.id, options.time, options.label, options.label_time}
    return [column for column in columns if column.name not in others]


def _command(path: Path, options: FileOptions, *, has_wrong_rows: bool) -> str:
    """Return the file and the options with which `areba-replay run` sends it."""
    named = (
        ("--id", options.id),
        ("--time", options.time),
        ("--label", options.label),
        *(("--positive", text) for text in options.positive),
        *(("--negative", text) for text in options.negative),
        ("--label-time", options.label_time),
        ("--delimiter", "tab" if options.delimiter == "\t" else options.delimiter),
        ("--decimal", options.decimal),
        ("--time-unit", None if options.time_unit is TimeUnit.AUTO else options.time_unit.value),
        ("--wrong-rows", "skip" if has_wrong_rows else None),
    )
    words = [str(path), *(word for name, value in named if value is not None for word in (name, value))]
    return shlex.join(words)


def _hints(columns: Sequence[ColumnFigures], options: FileOptions) -> Iterator[str]:
    """Yield columns that look like ids, times or labels, if no option names any, and which label may be class 1."""
    if options.time is None and (times := [column.name for column in columns if column.kind is Kind.TIME]):
        yield f"--time may be, and --label-time: {', '.join(times)}"
    if not options.positive and not options.negative:
        for column in columns:
            rarer = _rarer_of_two(column)
            if rarer and options.label is None:
                yield f"--label may be {shlex.quote(column.name)}, --positive {shlex.quote(rarer)}"
            elif rarer and options.label == column.name and class_text(rarer) not in {"0", "1", "true", "false"}:
                yield f"--positive may be {shlex.quote(rarer)}"
    if options.id is None:
        texts = (column for column in columns if column.kind is Kind.TEXT and not column.missing)
        ids = [column.name for column in texts if column.count == column.categories.total() == len(column.categories)]
        if ids:
            yield f"--id may be {', '.join(ids)}"


def _rarer_of_two(column: ColumnFigures) -> str:
    """Return the rarer value of a column that has two; empty if it has more or fewer."""
    values: Counter[Any] = column.numbers if column.kind is Kind.NUMBER else column.categories
    if len(values) != 2:
        return ""
    rarer = min(values, key=lambda value: (values[value], str(value)))
    return f"{rarer:g}" if isinstance(rarer, float) else str(rarer)


def _rounded_up(milliseconds: float) -> int:
    """Return a time as whole days, hours or minutes, at least one minute, and at most what a setting may be."""
    for unit in (DAY_MS, 3_600_000, 60_000):
        if milliseconds >= 2 * unit:
            return min(MAX_MS, -(-int(milliseconds) // unit) * unit)
    return 60_000


def configuration(found: Description, stream: str, now_ms: int) -> Iterator[str]:
    """Yield the lines of a configuration in YAML, with the figures as comments.

    Args:
        found: What the file holds.
        stream: The name of the stream.
        now_ms: The time, from which the age of the records is counted.
    """
    yield from (f"# {line}".rstrip() for line in _comments(found, stream, now_ms))
    yield from _dumped({"application": {"id": "my-app", "instance": "worker-1"}})
    areba = {"method": "areba", "budget": 20, "scaler": "standard"}
    model = [
        "streams:",
        f"  {yaml.safe_dump({stream: {}}, allow_unicode=True, width=10_000).strip().removesuffix(' {}')}",
        "    learning_rate: 0.01",
        *(f"    {line}" for line in _value_lines(found.proposal)),
        *_dumped({"learners": {"areba": areba, "baseline": {"method": "baseline", "scaler": "standard"}}}),
    ]
    yield from model
    yield from _challengers(found.classes)
    if found.ttl_ms is not None:
        yield from _dumped({"join": _join(found.ttl_ms, found.pending, model)})


def _join(ttl_ms: int, pending: int, model: Sequence[str]) -> Mapping[str, int]:
    """Return settings of the join with which so many examples may wait, for the streams and learners of these lines."""
    join = {"ttl_ms": ttl_ms}
    # The defaults, if they are enough: a file that is sent at once has more examples waiting than its event times say.
    if (recommended := _two_digits_up(pending * _MARGIN)) > JoinSettings().max_pending_per_stream:
        join["max_pending_per_stream"] = min(MAX_PENDING, recommended)
        config = Config.model_validate({**yaml.safe_load("\n".join(model)), "join": join}, context={})
        settings = config.task_settings()
        needed = max(pending_bytes(stream, settings) for stream in settings.streams.values())
        if needed > settings.join.max_table_bytes_per_task:
            join["max_table_bytes_per_task"] = _two_digits_up(needed)
    return join


def _challengers(classes: Mapping[int, int]) -> Iterator[str]:
    """Yield the learners that may be better than the default on a file with these classes, as comments."""
    rarer, labelled = min(classes.get(0, 0), classes.get(1, 0)), classes.get(0, 0) + classes.get(1, 0)
    if labelled >= _LEAST_LABELLED and rarer >= _LEAST_SHARE * labelled:
        yield "  # challengers to try: see docs/models.md, Which method for which streams"
        yield "  # relay: {method: relay}"
        yield "  # uob: {method: uob, scaler: standard}"


def _dumped(settings: Mapping[str, Any]) -> Iterator[str]:
    text = yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, allow_unicode=True, width=10_000)
    yield from text.splitlines()


def _value_lines(proposal: Proposal) -> Iterator[str]:
    """Yield the lines of YAML that say what the values of an example are."""
    for name, reason in proposal.left_out.items():
        yield f"# left out: {name}: {reason}"
    if proposal.is_array:
        yield f"# an array, since the names of more than {MAX_NAMED} columns would be most of each record"
        yield f"features: {len(proposal.columns)}"
    elif proposal.columns:
        yield from column_lines(proposal)
    else:
        yield "# no column is left: without columns, name them here"


def _comments(found: Description, stream: str, now_ms: int) -> Iterator[str]:
    yield f"{found.file}: {found.rows:,} rows"
    yield from found.notes
    yield from found.proposal.notes
    yield from found.wrong
    yield ""
    yield from _column_table(found.columns)
    yield ""
    yield found.classes_note
    total = max(1, found.classes.total())
    counts = ((1, "class 1"), (0, "class 0"), (-1, "without a label"))
    yield "; ".join(f"{name}: {found.classes[key]:,} ({found.classes[key] / total:.2%})" for key, name in counts)
    if found.first_ms is not None:
        yield from _time_comments(found, found.first_ms, now_ms)
    yield f"the file is sent by: areba-replay run {found.command} -c my.yaml --stream {shlex.quote(stream)}"
    if found.hints:
        yield "options that may be missing; with them, describe the file again:"
        yield from (f"  {hint}" for hint in found.hints)
    yield ""


def _column_table(columns: Sequence[ColumnFigures]) -> Iterator[str]:
    width = max(len("column"), *(len(column.name) for column in columns))
    yield f"{'column':{width}}  type      missing  values"
    for column in columns:
        share = column.missing / max(1, column.count)
        yield f"{column.name:{width}}  {column.kind:8}  {share:7.2%}  {column.words()}".rstrip()


def _time_comments(found: Description, first_ms: int, now_ms: int) -> Iterator[str]:
    order = "in their order" if found.is_sorted else "in another order, which areba-replay sorts"
    length = duration(found.last_ms - first_ms)
    yield f"event times: {date(first_ms)} to {date(found.last_ms)} ({length}); rows are {order}"
    delays = found.delays
    if found.ttl_ms is not None:
        p50, p99 = delays.quantile(0.5), delays.quantile(0.99)
        early = f"; {delays.early:,} labels come before their examples" if delays.early else ""
        yield f"delays of labels: p50 {duration(p50)}, p99 {duration(p99)}, max {duration(delays.largest)}{early}"
        evicted = f", of which join keeps {MAX_PENDING:,}" if found.pending > MAX_PENDING else ""
        yield f"examples that wait for labels at a time: at most {found.pending:,}{evicted}"
    span_ms, ttl_ms = found.end_ms - first_ms, found.ttl_ms
    fits = span_ms <= LATE_MS * RETENTION_SHARE
    shifted = "" if fits else f" --retention {retention_for(span_ms, ttl_ms)}"
    kept = retention_for(max(0, now_ms - first_ms), ttl_ms)
    yield f"topics, if the last event time is moved to now: areba topics create -c my.yaml{shifted}"
    yield f"topics, if event times are kept: areba topics create -c my.yaml --retention {kept}"


def _two_digits_up(count: float) -> int:
    """Return a count rounded up to two digits."""
    scale = 10 ** max(0, len(str(int(count))) - 2)
    return int(-(-count // scale) * scale)
