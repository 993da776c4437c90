"""The step encode: the outputs of a batch are collected, put into merge order and encoded for the output topics.

The records of a topic are in merge order, for any order of the streams. At one position, the records that the
input record closed come first, then its own, learners in configured order, as they were collected. Their event times
and trace headers come from the input record that caused them; a dead letter has the event time of its own record.
Predictions and outcomes also carry the headers that their example passes on, see `carried_headers`. The log sets their
timestamps, so that retention counts from the moment of writing, whatever time a record claims.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stream_app.arrays import Integers, Longs
from stream_app.config import JoinSettings
from stream_app.pipeline.batch import InputBatch, OriginalRecord
from stream_app.pipeline.steps.routed import Judged, Routed
from stream_app.record_columns import BinaryColumn, MetricRows, OutputRecords, Rows, event_time_ms, log_time_ms
from stream_app.records import Cause, Header, Outcome, Prediction, Reason, Side
from stream_app.serialization.encode import encode_metrics, encode_rows
from stream_app.serialization.label_causes import explained
from stream_app.serialization.left_out import Fields, fitted
from stream_app.serialization.names import Names
from stream_app.serialization.wire_format import WireFormat

DEAD_LETTERS = "dead-letters"
OUTPUT_TOPICS = ("predictions", "outcomes", "metrics", DEAD_LETTERS)
"""The output topics without their prefix, in the order in which the digest covers them."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one batch.

    Attributes:
        topics: Records by unprefixed topic name, all of `OUTPUT_TOPICS`.
        judged: By `Side`, what the breaker counts.
        stopped: The reasons of the streams that are stopped after the batch, by stream, the oldest stop first.
        resumed: The streams that a `resume` mark lets continue.
        dead: Counts of dead letters; empty for nearly all batches.
        stream_names: The streams of the task.
        stream_records: int64 `[streams]`, the number of input records of each.
        dropped_traces: Number of records whose trace context is not valid, so that no output carries it.
        dropped_passed: Number of examples of which a header that the configuration names is not passed on.
        erased: How much each `erase` mark has erased.
        positions: By topic, int32 `[n]`, ascending: the position of the input record that caused each record.
    """

    topics: Mapping[str, OutputRecords]
    judged: tuple[Judged, Judged]
    stopped: Mapping[str, str]
    resumed: Sequence[str]
    dead: Sequence["DeadCount"]
    stream_names: Sequence[str]
    stream_records: Longs
    dropped_traces: int = 0
    dropped_passed: int = 0
    erased: Sequence["Erased"] = ()
    positions: Mapping[str, Integers] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """The number of output records."""
        return sum(len(records) for records in self.topics.values())

    @property
    def bytes(self) -> int:
        """The bytes of their keys, values and headers."""
        return sum(map(bytes_of, self.topics.values()))


class OutputForm(NamedTuple):
    """How outputs are written.

    Attributes:
        wire_format: The headers of their values.
        topics: The full names of the input topics, by `Side`.
        partition: The number of the task.
        join: The settings that decided about labels.
        dead_letter_bytes: Most bytes of a dead letter, see `left_out`.
    """

    wire_format: WireFormat
    topics: tuple[str, str]
    partition: int
    join: JoinSettings
    dead_letter_bytes: int


class DeadLetterRow(NamedTuple):
    """An input record that cannot be processed, and the reason.

    Attributes:
        reason: The reason.
        record: The record as it came.
        stream: Its stream; None if its value names no stream.
        cause: Of a label that was not joined, why.
        delay_ms: How late it was, see `label_causes`.
        detail: Of an example, what is wrong with its columns; empty for all other faults.
    """

    reason: Reason
    record: OriginalRecord
    stream: str | None
    cause: Cause = Cause.NONE
    delay_ms: int = 0
    detail: str = ""


class Erased(NamedTuple):
    """How much an `erase` mark has erased.

    Attributes:
        stream: The name of the stream.
        ids: The number of ids that the mark names.
        pending: Pending examples.
        waiting: Waiting labels.
        closed: Closed ids.
        queued: Examples in the queues of all learners.
    """

    stream: str
    ids: int
    pending: int
    waiting: int
    closed: int
    queued: int


class DeadCount(NamedTuple):
    """The dead letters of one batch with the same reason, cause, stream (None: not named) and input.

    The producer chooses the name of a stream, which may be any UTF-8 text. `offset` is the largest input offset,
    `explanation` that of the label that was the latest, or what is wrong with the columns of the last example, or with
    the last value of another writer; it is empty for other records.
    """

    reason: Reason
    stream: str | None
    side: Side
    records: int
    offset: int
    explanation: str = ""


def _together(chunks: Sequence[Rows]) -> tuple[Rows, Longs | None]:
    """Return all rows in merge order, and where each row was among the chunks; None: at the same place.

    The rows of one position are in one chunk, in the order of the output.
    """
    if len(chunks) == 1:
        return chunks[0], None
    rows = np.concatenate(chunks)
    order: Longs = np.argsort(rows["position"], kind="stable")
    return rows[order], order


NOTHING = OutputRecords.of((), (), ())


class _Encoded(NamedTuple):
    """The records of one topic, with the position of the input record that caused each of them."""

    records: OutputRecords
    positions: Integers


_NOTHING = _Encoded(NOTHING, np.zeros(0, np.int32))


def bytes_of(records: OutputRecords) -> int:
    """Return the bytes of keys, values and headers."""
    cells = records.keys.bytes + records.values.bytes
    headers = (header for headers in records.headers.values() for header in headers)
    return cells + sum(len(name.encode(errors="surrogatepass")) + len(value or b"") for name, value in headers)


class Collector:
    """The outputs of one batch, until they are encoded."""

    def __init__(self, batch: InputBatch) -> None:
        self._batch = batch
        self._predictions: list[Rows] = []
        self._outcomes: list[Rows] = []
        self._passed: dict[int, Sequence[Header]] = {}  # by row of all outcomes, as they were collected
        self._metrics: list[MetricRows] = []
        self._dead: list[tuple[int, DeadLetterRow]] = []
        self._erased: list[Erased] = []

    def predictions(self, rows: Rows) -> None:
        """Add all predictions of some positions; at one position, learners are in the order of the configuration."""
        if len(rows):
            self._predictions.append(rows)

    def outcomes(self, rows: Rows, passed: Mapping[int, Sequence[Header]]) -> None:
        """Add all outcomes of some positions, with the headers that their examples pass on, by row."""
        if passed:
            before = sum(map(len, self._outcomes))
            self._passed |= {before + row: headers for row, headers in passed.items()}
        if len(rows):
            self._outcomes.append(rows)

    def metrics(self, metrics: MetricRows) -> None:
        """Add all metrics of some positions."""
        if len(metrics.rows):
            self._metrics.append(metrics)

    def dead(self, position: int, letter: DeadLetterRow) -> None:
        """Add a dead letter that the record at a position caused; it can be a label that had waited."""
        self._dead.append((position, letter))

    def erased(self, erased: Erased) -> None:
        """Note what a mark has erased."""
        self._erased.append(erased)

    def bury(
        self, position: int, reason: Reason, cause: Cause = Cause.NONE, delay_ms: int = 0, detail: str = ""
    ) -> None:
        """Add the record at this position as a dead letter."""
        record, stream = self._batch.original(position), self._batch.stream_name(position)
        self.dead(position, DeadLetterRow(reason, record, stream, cause, delay_ms, detail))

    def encode(self, names: Names, form: OutputForm, stream_records: Longs, routed: Routed) -> Outputs:
        """Return all outputs, encoded.

        Raises:
            ConfigurationError: The format has no schema id for an output.
        """
        wire_format = form.wire_format
        encoded = {
            "predictions": self._encode_rows(Prediction, self._predictions, names, wire_format),
            "outcomes": self._encode_rows(Outcome, self._outcomes, names, wire_format),
            "metrics": self._encode_metrics(names, wire_format) if self._metrics else _NOTHING,
            "dead-letters": self._encode_dead(form) if self._dead else _NOTHING,
        }
        return Outputs(
            {topic: one.records for topic, one in encoded.items()},
            routed.judged,
            routed.stopped,
            routed.resumed,
            self._count_dead(form),
            names.streams,
            stream_records,
            self._batch.carried.dropped_traces,
            self._batch.carried.dropped_passed,
            self._erased,
            {topic: one.positions for topic, one in encoded.items()},
        )

    def _count_dead(self, form: OutputForm) -> Sequence[DeadCount]:
        counts: dict[tuple[Reason, str | None, Side, Cause], tuple[int, int, int, DeadLetterRow]] = {}
        for _, letter in self._dead:
            key = letter.reason, letter.stream, letter.record.side, letter.cause
            count, offset, delay_ms, _ = counts.get(key, (0, -1, 0, letter))
            counts[key] = count + 1, max(offset, letter.record.offset), max(delay_ms, letter.delay_ms), letter
        return [
            DeadCount(reason, stream, side, count, offset, _why(last, delay_ms, form))
            for (reason, stream, side, _), (count, offset, delay_ms, last) in counts.items()
        ]

    def _encode_rows(
        self, record: type[Prediction | Outcome], chunks: Sequence[Rows], names: Names, wire_format: WireFormat
    ) -> _Encoded:
        if not chunks:
            return _NOTHING
        rows, order = _together(chunks)
        rows["event_time_ms"] = self._batch.times[rows["position"]]
        values = encode_rows(record, rows, names, wire_format)
        passed = self._batch.passed(rows["position"]) if record is Prediction else self._passed_to(order)
        return self._records(rows["position"], names.streams.column(rows["stream"]), values, passed)

    def _passed_to(self, order: Longs | None) -> Mapping[int, Sequence[Header]]:
        """Return the headers that outcomes carry, by row in the order of the output; see `_together`."""
        if order is None or not self._passed:
            return self._passed
        return {row: self._passed[at] for row, at in enumerate(order.tolist()) if at in self._passed}

    def _encode_metrics(self, names: Names, wire_format: WireFormat) -> _Encoded:
        rows, order = _together([metrics.rows for metrics in self._metrics])
        windows = np.concatenate([metrics.windows for metrics in self._metrics])
        rows["event_time_ms"] = self._batch.times[rows["position"]]
        values = encode_metrics(MetricRows(rows, windows if order is None else windows[order]), names, wire_format)
        return self._records(rows["position"], names.streams.column(rows["stream"]), values, {})

    def _records(
        self, positions: Integers, keys: BinaryColumn, values: BinaryColumn, passed: Mapping[int, Sequence[Header]]
    ) -> _Encoded:
        """Return records with the trace headers of their positions, followed by those that are passed, by row."""
        headers = self._batch.traces(positions)
        if passed:
            rows = headers.keys() | passed.keys()
            headers = {row: [*headers.get(row, ()), *passed.get(row, ())] for row in sorted(rows)}
        return _Encoded(OutputRecords(keys, values, np.zeros(len(keys), np.int64), headers), positions)

    def _encode_dead(self, form: OutputForm) -> _Encoded:
        rows = sorted(self._dead, key=_position)
        letters = [
            fitted(_fields(letter.record), _dead_headers(letter, form), form.dead_letter_bytes) for _, letter in rows
        ]
        records = OutputRecords.of(
            [letter.key for letter in letters],
            [letter.value for letter in letters],
            [0] * len(letters),
            {row: letter.headers for row, letter in enumerate(letters)},
        )
        return _Encoded(records, np.array([position for position, _ in rows], np.int32))


def _why(last: DeadLetterRow, delay_ms: int, form: OutputForm) -> str:
    """Return the explanation of a `DeadCount`."""
    if last.cause:
        return explained(last.cause, delay_ms, form.join)
    writer = form.wire_format.writer_of(last.record.value or b"", last.record.side)
    return last.detail or (form.wire_format.fault(last.reason, last.record.value, last.record.side) if writer else "")


def _position(row: tuple[int, object]) -> int:
    return row[0]


def _fields(record: OriginalRecord) -> Fields:
    return Fields(record.key, record.value, record.headers)


def _dead_headers(letter: DeadLetterRow, form: OutputForm) -> list[Header]:
    """Make our headers, which come after the original ones: the family of Kafka Connect (KIP-298) and our reason."""
    record, reason = letter.record, letter.reason.text
    topic = form.topics[record.side]
    message = f"{topic}[{form.partition}] offset {record.offset}: {reason}"
    if explanation := form.wire_format.fault(letter.reason, record.value, record.side):
        message += f", {explanation}"
    elif letter.reason is Reason.BAD_TIME:
        message += f", {_time_fault(record.timestamp_ms)}"
    elif letter.cause is not Cause.NONE:
        message += f", {explained(letter.cause, letter.delay_ms, form.join)}"
    elif letter.detail:
        message += f", {letter.detail}"
    ours = {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": str(form.partition),
        "__connect.errors.offset": str(record.offset),
        "__connect.errors.exception.class.name": f"areba.{reason}",
        "__connect.errors.exception.message": message,
        "areba.reason": reason,
        "areba.event_time_ms": str(event_time_ms(record.timestamp_ms)),
    }
    return [(name, text.encode()) for name, text in ours.items()]


def _time_fault(timestamp_ms: int) -> str:
    """Say why a record has no event time."""
    if timestamp_ms < -1:
        return f"its topic has LogAppendTime ({log_time_ms(timestamp_ms)})"
    return "no timestamp" if timestamp_ms < 0 else f"timestamp {timestamp_ms}"


GENESIS = bytes(32)
"""The digest before the first commit record."""


def chain_digest(previous: bytes, ranges: Sequence[int], outputs: Outputs) -> bytes:
    """Return the next link of a task's digest chain, over both offset ranges and all outputs with headers.

    Args:
        previous: 32 bytes, the link before.
        ranges: Start and end of the examples, then of the labels.
        outputs: The outputs of the batch.
    """
    digest = hashlib.sha256(previous)
    digest.update(struct.pack("<4q", *ranges))
    for topic in OUTPUT_TOPICS:
        records = outputs.topics[topic]
        digest.update(struct.pack("<q", len(records)))
        if not len(records):
            continue
        for column in (records.keys, records.values):
            digest.update(np.ascontiguousarray(column.lengths).data)
            digest.update(column.joined().data)
        digest.update(repr(sorted((row, list(headers)) for row, headers in records.headers.items())).encode())
    return digest.digest()
