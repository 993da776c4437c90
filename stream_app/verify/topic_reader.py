"""Read the topics of one partition: inputs in the ranges in which a task took them, and decoded outputs."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TypeGuard, TypeVar

from stream_app.backends.base import Cluster, TopicPartition, Watermarks
from stream_app.backends.progress import newest_records
from stream_app.backends.reading import Row, read_rows
from stream_app.config import TaskSettings, Topics, threshold_of
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.progress_records import SNAPSHOT, Act, Commit
from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES, Example, Label, Mark, MarkKind, Reason, Side
from stream_app.serialization.codec import decode_input, decode_one
from stream_app.serialization.dead_letter import (
    DEAD_LETTER_HEADERS,
    DeadLetterRecord,
    is_of_a_resend,
)
from stream_app.serialization.decode import DecodeLimits
from stream_app.serialization.erased_ids import DIGEST_CHARACTERS
from stream_app.serialization.wire_format import format_of
from stream_app.snapshot.format import Snapshot, parse_snapshots
from stream_app.verify.output_checks import Output
from stream_app.verify.partition.deleted import OUTPUT_NAMES, Horizon, OutputTopic, commits_of, horizons
from stream_app.verify.reference_state import Meaning, Record
from stream_app.verify.results import Code, Findings


def _names_snapshots(record: Commit | Act) -> TypeGuard[Act]:
    return isinstance(record, Act) and record.kind == SNAPSHOT


Decoded = TypeVar("Decoded")


class PartitionReader:
    """The topics of one partition.

    The settings are those of the file, which have the format of the outputs.

    Attributes:
        written: Number of output records that were read, by topic.
    """

    def __init__(
        self, cluster: Cluster, partition: int, findings: Findings, stack: ExitStack, settings: TaskSettings
    ) -> None:
        self.written: Counter[str] = Counter()
        self._settings = settings
        self._wire_format = format_of(settings)
        self._cluster = cluster
        self._partition = partition
        self._findings = findings
        self._stack = stack

    def learn(self, settings: TaskSettings) -> None:
        """Take note of recorded settings: outputs have the schema ids that the worker had."""
        self._settings = self._settings.with_schema_ids(settings.schema_ids, settings.writer_schemas)
        self._wire_format = format_of(self._settings)

    def content(self, value: bytes | None) -> object:
        """Return the record of a value; None if it cannot be decoded."""
        try:
            return decode_one(value or b"", self._wire_format)
        except (UndecodableError, WrongSchemaError):
            return None

    def watermarks(self, topic: str) -> Watermarks:
        """Return the first offset of the partition and its end."""
        return self._cluster.watermarks(TopicPartition(topic, self._partition))

    def first_commit(self, topic: str) -> Commit | None:
        """Return the first commit record of progress; None if there is none."""
        return next(commits_of(self._progress(topic)), None)

    def last_commit(self, topic: str) -> Commit | None:
        """Return the last commit record of progress; None before the first commit."""
        newest = newest_records(self._cluster, TopicPartition(topic, self._partition))
        return next((record for record in newest if isinstance(record, Commit)), None)

    def snapshots(self, topic: str) -> tuple[Snapshot, ...]:
        """Return the snapshots that progress names, newest first."""
        newest = newest_records(self._cluster, TopicPartition(topic, self._partition), _names_snapshots)
        return next((parse_snapshots(one.text) for one in newest if _names_snapshots(one)), ())

    def _output_topic(self, name: str) -> OutputTopic:
        found = self._cluster.topics([name])
        return OutputTopic(name, found[name].topic_id if name in found else "", self.watermarks(name).low)

    def horizons(self, topics: Topics, after: int = -1) -> tuple[Mapping[str, Horizon], bool]:
        """Return where the outputs begin by now, and whether outputs of the commits after this offset were deleted."""
        outputs = {name: self._output_topic(getattr(topics, name)) for name in OUTPUT_NAMES}
        first = next(commits_of(self._progress(topics.progress, after + 1)), None)
        is_whole = first is None or not any(
            topic.low or topic.is_other(first, name) for name, topic in outputs.items()
        )  # a topic that the first commit wrote to was not created later
        return horizons(() if is_whole else commits_of(self._progress(topics.progress, after + 1)), outputs)

    def _progress(self, topic: str, first: int = 0) -> Iterator[tuple[int, Commit | Act]]:
        """Yield the records of progress that can be decoded; another reader reports the others."""
        for row in self.rows(topic, first):
            record = self.content(row.value)
            if row.offset >= first and isinstance(record, Commit | Act):
                yield row.offset, record

    def rows(self, topic: str, first: int = 0) -> Iterator[Row]:
        """Yield the records from this offset up to the end of the partition at the time of the first poll."""
        reader = self._cluster.reader(TopicPartition(topic, self._partition))
        self._stack.callback(reader.close)
        if first:
            reader.seek(first)
        return read_rows(reader, f"{topic}[{self._partition}]")

    def inputs(self, topic: str, end: int) -> Iterator[Row]:
        """Yield the records below `end` that are left; add a finding if the partition ends before it."""
        high = self.watermarks(topic).high
        if high < end:
            text = f"ends at offset {high}, but the records below {end} were there once"
            self._add(Code.DELETED_RECORDS, topic, None, text)
        for row in self.rows(topic) if end else ():
            if row.offset >= end:
                return
            yield row

    def decoded(self, topic: str, kinds: tuple[type[Decoded], ...], first: int = 0) -> Iterator[tuple[Row, Decoded]]:
        """Yield the records of these kinds from this offset on; add a finding for any other record."""
        return self._decode(topic, self.rows(topic, first), kinds)

    def _decode(
        self, topic: str, rows: Iterator[Row], kinds: tuple[type[Decoded], ...]
    ) -> Iterator[tuple[Row, Decoded]]:
        for row in rows:
            try:
                record = decode_one(row.value or b"", self._wire_format)
            except (UndecodableError, WrongSchemaError) as error:
                self._add(Code.UNREADABLE_RECORD, topic, row.offset, f"cannot be decoded: {error}")
                continue
            if isinstance(record, kinds):
                yield row, record
            else:
                text = f"is a {type(record).__name__}, which has no place here"
                self._add(Code.UNREADABLE_RECORD, topic, row.offset, text)

    def decodable(self, topic: str, kind: type[Decoded]) -> Iterator[Output[Decoded]]:
        """Yield the records of this kind and pass over all others, which another reader reports."""
        for row in self.rows(topic):
            record = self.content(row.value)
            if isinstance(record, kind):
                yield Output(row.offset, row.key, record, row.headers)

    def outputs(self, topic: str, kind: type[Decoded]) -> Iterator[Output[Decoded]]:
        """Yield the records of an output topic, and count all records."""
        for row, record in self._decode(topic, self._count(topic), (kind,)):
            yield Output(row.offset, row.key, record, row.headers)

    def _count(self, topic: str) -> Iterator[Row]:
        for row in self.rows(topic):
            self.written[topic] += 1
            yield row

    def dead_letters(self, topic: str, observe: Callable[[Row], None]) -> Iterator[Output[DeadLetterRecord]]:
        """Yield the dead letters; show `observe` the records of a resend, which are between them."""
        for row in self.rows(topic):
            if is_of_a_resend(row.headers):
                observe(row)
                continue
            self.written[topic] += 1
            letter = DeadLetterRecord.read(row.key, row.value, row.headers)
            if letter is None:
                text = f"lacks the headers of a dead letter: {', '.join(DEAD_LETTER_HEADERS)}"
                self._add(Code.UNREADABLE_RECORD, topic, row.offset, text)
            else:
                yield Output(row.offset, row.key, letter, row.headers)

    def _add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        self._findings.add(code, topic, self._partition, offset, text)


class InputReader:
    """The records of one input partition, in ranges.

    `observe` is shown every record, in order.
    """

    def __init__(self, side: Side, rows: Iterator[Row], observe: Callable[[Record], None]) -> None:
        self._side = side
        self._rows = rows
        self._observe = observe
        self._next: Row | None = None
        self._settings: TaskSettings | None = None
        self._limits = DecodeLimits()

    def below(self, end: int, settings: TaskSettings) -> Iterator[Record]:
        """Yield the next records with offsets below `end`, as a decoder with these settings reads them."""
        while (row := self._next or next(self._rows, None)) is not None:
            if row.offset >= end:
                self._next = row
                return
            self._next = None
            yield self._read(row, settings)

    def _read(self, row: Row, settings: TaskSettings) -> Record:
        if settings is not self._settings:
            limits = settings.limits
            self._settings = settings
            self._limits = DecodeLimits(limits.max_record_bytes, limits.max_features, format_of(settings))
        meaning = read_value(row.value, self._side, self._limits)
        record = Record(self._side, row.offset, row.timestamp_ms, meaning, row.key, row.value, tuple(row.headers))
        self._observe(record)
        return record


def read_value(value: bytes | None, side: Side, limits: DecodeLimits) -> Meaning:
    """Return what an input value says, or the reason why it becomes a dead letter; `decode` defines the rules."""
    if value is None:
        return None
    if len(value) > limits.max_record_bytes:
        return Reason.TOO_LARGE
    try:
        record = decode_input(value, side, limits.wire_format)
    except WrongSchemaError:
        return Reason.WRONG_SCHEMA
    except UndecodableError:
        return Reason.UNDECODABLE
    if not isinstance(record, Example | Label | Mark):
        return Reason.WRONG_SCHEMA
    return _fault(record, limits.max_features) or record


def _fault(record: Example | Label | Mark, max_features: int) -> Reason | None:
    """Return the reason why a decoded record is refused; None if it is accepted."""
    if not 1 <= len(record.stream.encode()) <= MAX_STREAM_BYTES:
        return Reason.BAD_ID
    if isinstance(record, Mark):
        allowed = {
            MarkKind.ADVANCE: record.time_ms is not None and record.time_ms >= 0,
            MarkKind.PROMOTE: bool(record.learner),
            MarkKind.RESUME: True,
            MarkKind.ERASE: bool(record.digests) and len(record.digests or "") % DIGEST_CHARACTERS == 0,
            MarkKind.DECIDE: _is_threshold(record.threshold_kind, record.threshold),
        }
        return None if allowed[record.kind] else Reason.UNDECODABLE
    if not 1 <= len(record.id.encode()) <= MAX_ID_BYTES:
        return Reason.BAD_ID
    if isinstance(record, Label):
        return None if record.label in (0, 1) and record.revision >= 0 else Reason.BAD_LABEL
    if (record.values is None) == (not record.features) or len(record.features) > max_features:
        return Reason.WRONG_DIMENSION
    return None if math.isfinite(sum(record.features)) else Reason.NOT_FINITE


def _is_threshold(kind: str | None, number: float | None) -> bool:
    """Say whether the setting of a stream may have this threshold."""
    try:
        threshold_of(kind, number)
    except ValueError:
        return False
    return True
