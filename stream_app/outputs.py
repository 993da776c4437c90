"""What a batch becomes: collected, brought into merge order, encoded for the output topics.

Records of one topic leave in merge order, whatever the split by stream: at one position first what the record closed,
then its own, learners in configured order (the order in which they were collected). Their timestamps and trace headers
are those of the record that caused them.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app import codec
from stream_app.batch import Batch, OriginalRecord
from stream_app.records import (
    Bytes,
    Floats,
    Header,
    Integers,
    Longs,
    Metric,
    OutcomeColumns,
    OutputRecords,
    PredictionColumns,
    Reason,
    Words,
)

OUTPUT_TOPICS = ("predictions", "outcomes", "metrics", "dead-letters")
"""In the order in which the digest covers them."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one batch became.

    Attributes:
        topics: Records by unprefixed topic name, all of `OUTPUT_TOPICS`.
        malformed: bool `[n]`, by merged position: whether the breaker counts the record.
    """

    topics: Mapping[str, OutputRecords]
    malformed: NDArray[np.bool_]

    @property
    def records(self) -> int:
        """Number of output records."""
        return sum(len(records) for records in self.topics.values())


@dataclass(frozen=True, slots=True)
class InputTopics:
    """Full names of a task's inputs, by `Side`, and its partition: where dead letters came from."""

    names: tuple[str, str]
    partition: int


class Names(NamedTuple):
    """What the indices in columns stand for."""

    streams: codec.NameList
    learners: codec.NameList


class PredictionRows(NamedTuple):
    """k predictions in merge order, columns as in `PredictionColumns`; `positions` are those of the examples."""

    positions: Integers
    streams: Integers
    learners: Integers
    ids: Words
    champions: NDArray[np.bool_]
    scores: Floats
    labels: NDArray[np.int8]
    versions: Longs


class OutcomeRows(NamedTuple):
    """k outcomes in merge order, columns and nulls as in `OutcomeColumns`; `positions` are those that caused them."""

    positions: Integers
    streams: Integers
    kinds: Bytes
    ids: Words
    labels: NDArray[np.int8]
    learners: Integers
    scores: Floats
    delays: Longs
    examples: Longs
    label_offsets: Longs


class DeadLetter(NamedTuple):
    """An input record that went nowhere else, and why."""

    reason: Reason
    record: OriginalRecord


Rows = TypeVar("Rows", PredictionRows, OutcomeRows)


def _together(kind: type[Rows], chunks: Sequence[Rows]) -> Rows:
    """All rows in merge order; those of one position are in one chunk, in the order in which they leave."""
    if len(chunks) == 1:
        return chunks[0]
    columns = [np.concatenate(column) for column in zip(*chunks, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return kind(*(column[order] for column in columns))


NOTHING = OutputRecords((), (), ())


class Collector:
    """Takes the outputs of one batch and encodes them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._predictions: list[PredictionRows] = []
        self._outcomes: list[OutcomeRows] = []
        self._metrics: list[tuple[int, Metric]] = []
        self._dead: list[tuple[int, DeadLetter]] = []

    def predictions(self, rows: PredictionRows) -> None:
        """Add all predictions of some positions; of one, the learner that comes first in the configuration first."""
        if len(rows.positions):
            self._predictions.append(rows)

    def outcomes(self, rows: OutcomeRows) -> None:
        """Add all outcomes of some positions."""
        if len(rows.positions):
            self._outcomes.append(rows)

    def metric(self, position: int, metric: Metric) -> None:
        """Add one record of metrics."""
        self._metrics.append((position, metric))

    def dead(self, position: int, letter: DeadLetter) -> None:
        """Add a dead letter; the record need not be the one at the position that caused its end."""
        self._dead.append((position, letter))

    def bury(self, position: int, reason: Reason) -> None:
        """The record at this position becomes a dead letter."""
        self.dead(position, DeadLetter(reason, self._batch.original(position)))

    def encode(self, names: Names, inputs: InputTopics, malformed: NDArray[np.bool_]) -> Outputs:
        """All of it, as bytes."""
        topics = {
            "predictions": self._encode_predictions(names) if self._predictions else NOTHING,
            "outcomes": self._encode_outcomes(names) if self._outcomes else NOTHING,
            "metrics": self._encode_metrics() if self._metrics else NOTHING,
            "dead-letters": self._encode_dead(inputs) if self._dead else NOTHING,
        }
        return Outputs(topics, malformed)

    def _encode_predictions(self, names: Names) -> OutputRecords:
        rows = _together(PredictionRows, self._predictions)
        columns = PredictionColumns(names.streams, names.learners, *rows[1:])
        return self._records(rows.positions, _keys(names, rows.streams), codec.encode_predictions(columns))

    def _encode_outcomes(self, names: Names) -> OutputRecords:
        rows = _together(OutcomeRows, self._outcomes)
        columns = OutcomeColumns(names.streams, names.learners, *rows[1:])
        return self._records(rows.positions, _keys(names, rows.streams), codec.encode_outcomes(columns))

    def _encode_metrics(self) -> OutputRecords:
        rows = sorted(self._metrics, key=_position)
        positions = np.array([position for position, _ in rows], np.int32)
        keys = [metric.stream.encode() for _, metric in rows]
        return self._records(positions, keys, [codec.encode(metric) for _, metric in rows])

    def _records(self, positions: Integers, keys: Sequence[bytes], values: Sequence[bytes]) -> OutputRecords:
        return OutputRecords(keys, values, self._batch.times[positions].tolist(), self._batch.traces(positions))

    def _encode_dead(self, inputs: InputTopics) -> OutputRecords:
        rows = sorted(self._dead, key=_position)
        positions = np.array([position for position, _ in rows], np.int32)
        return OutputRecords(
            [letter.record.key for _, letter in rows],
            [letter.record.value for _, letter in rows],
            # a record without a time cannot give it to its dead letter, and the client takes 0 for now
            self._batch.times[positions].clip(min=1).tolist(),
            {row: _dead_headers(letter, inputs) for row, (_, letter) in enumerate(rows)},
        )


def _position(row: tuple[int, object]) -> int:
    return row[0]


def _keys(names: Names, streams: Integers) -> list[bytes]:
    keys: list[bytes] = names.streams.encoded[streams].tolist()
    return keys


def _dead_headers(letter: DeadLetter, inputs: InputTopics) -> list[Header]:
    """The original headers, then the family of Kafka Connect (KIP-298) and our reason."""
    record, reason = letter.record, letter.reason.text
    topic = inputs.names[record.side]
    ours = {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": str(inputs.partition),
        "__connect.errors.offset": str(record.offset),
        "__connect.errors.exception.class.name": f"areba.{reason}",
        "__connect.errors.exception.message": f"{topic}[{inputs.partition}] offset {record.offset}: {reason}",
        "areba.reason": reason,
    }
    return [*record.headers, *((name, text.encode()) for name, text in ours.items())]


def chain_digest(previous: bytes, ranges: Sequence[int], outputs: Outputs) -> bytes:
    """The next link of a task's digest chain: over both offset ranges and all of the outputs, headers and times too.

    Args:
        previous: 32 bytes, the link before.
        ranges: Start and end of the examples, then of the labels.
        outputs: What the batch became.
    """
    digest = hashlib.sha256(previous)
    digest.update(struct.pack("<4q", *ranges))
    for topic in OUTPUT_TOPICS:
        records = outputs.topics[topic]
        digest.update(struct.pack("<q", len(records)))
        if not len(records):
            continue
        digest.update(np.array(records.timestamps, np.int64).tobytes())
        for columns in (records.keys, records.values):
            lengths = np.fromiter((-1 if cell is None else len(cell) for cell in columns), np.int64, len(records))
            digest.update(lengths.tobytes())
            digest.update(b"".join(cell for cell in columns if cell is not None))
        digest.update(repr(sorted((row, list(headers)) for row, headers in records.headers.items())).encode())
    return digest.digest()
