"""Read the topics of one partition: inputs in the ranges in which a task took them, and decoded outputs."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

from stream_app.backends.base import Cluster, TopicPartition, Watermarks
from stream_app.backends.reading import Row, read_rows
from stream_app.config import TaskSettings
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES, Example, Label, Mark, MarkKind, Reason, Side
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import (
    DEAD_LETTER_HEADERS,
    DeadLetterRecord,
    is_of_a_replay,
    read_dead_letter,
)
from stream_app.serialization.decode import DecodeLimits
from stream_app.serialization.wire_format import format_of
from stream_app.verify.output_checks import Output
from stream_app.verify.reference_state import Meaning, Record
from stream_app.verify.results import Code, Findings

SIDE_TYPES = {Side.EXAMPLES: (Example, Mark), Side.LABELS: (Label, Mark)}

Decoded = TypeVar("Decoded")


class PartitionReader:
    """The topics of one partition.

    Args:
        cluster: Where the topics are.
        partition: The partition.
        findings: Where records that cannot be decoded are reported.
        stack: Closes the readers.
        settings: The settings of the file: they have the format of the outputs.

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
        self._settings = self._settings.with_schema_ids(settings.schema_ids)
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

    def rows(self, topic: str, first: int = 0) -> Iterator[Row]:
        """Yield the records from this offset up to the end of the partition at the time of the first poll."""
        reader = self._cluster.reader(TopicPartition(topic, self._partition))
        self._stack.callback(reader.close)
        if first:
            reader.seek(first)
        return read_rows(reader, f"{topic}[{self._partition}]")

    def inputs(self, topic: str, end: int) -> Iterator[Row]:
        """Yield the records below `end`; add a finding if their beginning or end was deleted."""
        if not end:
            return
        if low := self.watermarks(topic).low:
            text = f"starts at offset {low}: the audit needs every record, older records are gone"
            self._add(Code.DELETED_RECORDS, topic, None, text)
        following = 0
        for row in self.rows(topic):
            if row.offset >= end:
                return
            following = row.offset + 1
            yield row
            if following >= end:
                return
        text = f"ends at offset {following}, but the records below {end} were there once"
        self._add(Code.DELETED_RECORDS, topic, None, text)

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
                yield Output(row.offset, row.timestamp_ms, row.key, record, row.headers)

    def outputs(self, topic: str, kind: type[Decoded]) -> Iterator[Output[Decoded]]:
        """Yield the records of an output topic, and count all records."""
        for row, record in self._decode(topic, self._count(topic), (kind,)):
            yield Output(row.offset, row.timestamp_ms, row.key, record, row.headers)

    def _count(self, topic: str) -> Iterator[Row]:
        for row in self.rows(topic):
            self.written[topic] += 1
            yield row

    def dead_letters(self, topic: str, observe: Callable[[Row], None]) -> Iterator[Output[DeadLetterRecord]]:
        """Yield the dead letters; show `observe` the records of a replay, which are between them."""
        for row in self.rows(topic):
            if is_of_a_replay(row.headers):
                observe(row)
                continue
            self.written[topic] += 1
            letter = read_dead_letter(row.key, row.value, row.headers)
            if letter is None:
                text = f"lacks the headers of a dead letter: {', '.join(DEAD_LETTER_HEADERS)}"
                self._add(Code.UNREADABLE_RECORD, topic, row.offset, text)
            else:
                yield Output(row.offset, row.timestamp_ms, row.key, letter, row.headers)

    def _add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        self._findings.add(code, topic, self._partition, offset, text)


class Inputs:
    """The records of one input partition, in ranges.

    Args:
        side: The input.
        rows: Its records from the first on.
        observers: What is shown every record, in order.
    """

    def __init__(self, side: Side, rows: Iterator[Row], observers: Sequence[Callable[[Record], None]]) -> None:
        self._side = side
        self._rows = rows
        self._observers = observers
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

    def read_rest(self, settings: TaskSettings) -> None:
        """Show the observers the records that no range contains."""
        while (row := self._next or next(self._rows, None)) is not None:
            self._next = None
            self._read(row, settings)

    def _read(self, row: Row, settings: TaskSettings) -> Record:
        if settings is not self._settings:
            limits = settings.limits
            self._settings = settings
            self._limits = DecodeLimits(limits.max_record_bytes, limits.max_features, format_of(settings))
        meaning = read_value(row.value, self._side, self._limits)
        record = Record(self._side, row.offset, row.timestamp_ms, meaning, row.key, row.value, tuple(row.headers))
        for observe in self._observers:
            observe(record)
        return record


def read_value(value: bytes | None, side: Side, limits: DecodeLimits) -> Meaning:
    """Return what an input value says, or the reason why it becomes a dead letter; `codec` defines the rules."""
    if value is None:
        return Reason.UNDECODABLE
    if len(value) > limits.max_record_bytes:
        return Reason.TOO_LARGE
    schema = limits.wire_format.schema_of(value)
    if schema is None or schema.record not in SIDE_TYPES[side]:
        return Reason.WRONG_SCHEMA
    try:
        record = decode_one(value, limits.wire_format)
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
        if record.kind is MarkKind.ADVANCE:
            allowed = record.time_ms is not None and record.time_ms >= 0
        else:
            allowed = bool(record.learner)
        return None if allowed else Reason.UNDECODABLE
    if not 1 <= len(record.id.encode()) <= MAX_ID_BYTES:
        return Reason.BAD_ID
    if isinstance(record, Label):
        return None if record.label in (0, 1) and record.revision >= 0 else Reason.BAD_LABEL
    if not 1 <= len(record.features) <= max_features:
        return Reason.WRONG_DIMENSION
    return None if math.isfinite(sum(record.features)) else Reason.NOT_FINITE
