"""What a batch becomes: collected stream by stream, brought into merge order, encoded for the output topics.

Records of one topic leave in merge order, whatever the split by stream: at one position first what the record closed,
then its own, learners in configured order (the order in which they were collected). Their timestamps and trace headers
are those of the record that caused them.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

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

    streams: Sequence[str]
    learners: Sequence[str]


class PredictionRows(NamedTuple):
    """Predictions of one learner of one stream, k rows in merge order."""

    stream: int
    learner: int
    ids: Words
    champion: bool
    scores: Floats
    labels: NDArray[np.int8]
    versions: Longs


class OutcomeRows(NamedTuple):
    """Outcomes of one stream, k rows in merge order; nulls as in `OutcomeColumns`."""

    stream: int
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


Cell = TypeVar("Cell")
Column: TypeAlias = NDArray[Any]


@dataclass(slots=True)
class _Collected(Generic[Cell]):
    """Outputs of one topic as they arise; `positions` has one array a chunk."""

    positions: list[Integers] = field(default_factory=list)
    chunks: list[Cell] = field(default_factory=list)

    def add(self, positions: Integers, chunk: Cell) -> None:
        self.positions.append(positions)
        self.chunks.append(chunk)

    def order(self) -> tuple[Integers, Callable[[Sequence[Column]], Column]]:
        """All positions in merge order, and what brings a column's chunks there."""
        if len(self.positions) == 1:
            return self.positions[0], lambda columns: np.ascontiguousarray(columns[0])
        positions = np.concatenate(self.positions)
        permutation = np.argsort(positions, kind="stable")
        return positions[permutation], lambda columns: np.concatenate(columns)[permutation]


NOTHING = OutputRecords((), (), ())


class Collector:
    """Takes the outputs of one batch and encodes them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._predictions: _Collected[PredictionRows] = _Collected()
        self._outcomes: _Collected[OutcomeRows] = _Collected()
        self._metrics: list[tuple[int, Metric]] = []
        self._dead: list[tuple[int, DeadLetter]] = []

    def predictions(self, positions: Integers, rows: PredictionRows) -> None:
        """Add predictions; of one position, those of the learner that comes first in the configuration first."""
        self._predictions.add(positions, rows)

    def outcomes(self, positions: Integers, rows: OutcomeRows) -> None:
        """Add outcomes."""
        self._outcomes.add(positions, rows)

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
            "predictions": self._encode_predictions(names) if self._predictions.chunks else NOTHING,
            "outcomes": self._encode_outcomes(names) if self._outcomes.chunks else NOTHING,
            "metrics": self._encode_metrics() if self._metrics else NOTHING,
            "dead-letters": self._encode_dead(inputs) if self._dead else NOTHING,
        }
        return Outputs(topics, malformed)

    def _encode_predictions(self, names: Names) -> OutputRecords:
        positions, arrange = self._predictions.order()
        chunks = self._predictions.chunks

        def spread(values: Sequence[int | bool], dtype: type[np.generic]) -> Column:
            return arrange([np.full(len(c.scores), value, dtype) for c, value in zip(chunks, values, strict=True)])

        columns = PredictionColumns(
            stream_names=names.streams,
            learner_names=names.learners,
            streams=spread([chunk.stream for chunk in chunks], np.int32),
            learners=spread([chunk.learner for chunk in chunks], np.int32),
            ids=arrange([chunk.ids for chunk in chunks]),
            champions=spread([chunk.champion for chunk in chunks], np.bool_),
            scores=arrange([chunk.scores for chunk in chunks]),
            labels=arrange([chunk.labels for chunk in chunks]),
            model_versions=arrange([chunk.versions for chunk in chunks]),
        )
        return self._records(positions, _keys(names, columns.streams), codec.encode_predictions(columns))

    def _encode_outcomes(self, names: Names) -> OutputRecords:
        positions, arrange = self._outcomes.order()
        chunks = self._outcomes.chunks
        columns = OutcomeColumns(
            stream_names=names.streams,
            learner_names=names.learners,
            streams=arrange([np.full(len(chunk.kinds), chunk.stream, np.int32) for chunk in chunks]),
            outcomes=arrange([chunk.kinds for chunk in chunks]),
            ids=arrange([chunk.ids for chunk in chunks]),
            labels=arrange([chunk.labels for chunk in chunks]),
            learners=arrange([chunk.learners for chunk in chunks]),
            scores=arrange([chunk.scores for chunk in chunks]),
            delays_ms=arrange([chunk.delays for chunk in chunks]),
            example_offsets=arrange([chunk.examples for chunk in chunks]),
            label_offsets=arrange([chunk.label_offsets for chunk in chunks]),
        )
        return self._records(positions, _keys(names, columns.streams), codec.encode_outcomes(columns))

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
    keys = [name.encode() for name in names.streams]
    if len(keys) == 1:
        return keys * len(streams)
    return [keys[stream] for stream in streams.tolist()]


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
