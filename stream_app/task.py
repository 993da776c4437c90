"""One task: all work of one partition number, the stages in order: decode, order, join, learn, evaluate, encode.

`Task.step` takes one batch (a range of `examples[p]` and a range of `labels[p]`) and returns what it makes of it. It is
deterministic: the result depends on the records before it, never on the clock, the machine's load or where a batch was
cut. Streams never meet: below the merge, everything belongs to one stream.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app import codec, order
from stream_app.config import StreamSettings, TaskSettings
from stream_app.evaluate import Prequential, scores_of
from stream_app.join import LEARN, NO_LONG, OPERATIONS, PREDICT, REPORT, JoinInput, JoinOutput, StreamJoin
from stream_app.join import DEAD, OUTCOMES, PARKED, RELEASED, REPORTS
from stream_app.learners import Answers, Learner, Operations, build
from stream_app.native import compiled
from stream_app.records import (
    Bytes,
    Decoded,
    Floats,
    Header,
    Integers,
    Kind,
    Longs,
    Mark,
    MarkKind,
    Metric,
    OutcomeColumns,
    OutputRecords,
    PredictionColumns,
    RawRecords,
    Reason,
    Side,
    Words,
)

OUTPUT_TOPICS = ("predictions", "outcomes", "metrics", "dead-letters")
"""In the order in which the digest covers them."""

TRACE_HEADER = "traceparent"
"""W3C trace context, carried from the record that caused an output."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one batch became.

    Attributes:
        topics: Records by unprefixed topic name, all of `OUTPUT_TOPICS`.
        malformed: bool `[n]`, by merged position: whether the breaker counts the record.
        records: Number of output records.
    """

    topics: Mapping[str, OutputRecords]
    malformed: NDArray[np.bool_]

    @property
    def records(self) -> int:
        return sum(len(records) for records in self.topics.values())


@dataclass(frozen=True, slots=True)
class WaitingLabel:
    """The original record of a label that waits, for the dead letter it may become."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    offset: int


class OpenMark(NamedTuple):
    """An `advance` mark whose twin has not been merged yet: the side it came from and its time."""

    side: int
    time_ms: int


def seed_of(application_id: str, stream: str, learner: str) -> bytes:
    """32 bytes that seed a learner: SHA-256 of application, stream and learner, each with its length before it."""
    parts = (part.encode() for part in (application_id, stream, learner))
    return hashlib.sha256(b"".join(struct.pack("<I", len(part)) + part for part in parts)).digest()


def chain_digest(previous: bytes, ranges: Sequence[int], outputs: Outputs) -> bytes:
    """The next link of a task's digest chain: over both offset ranges and every byte, key, header and time of the outputs."""
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


class _Stream:
    """Everything of one stream: its join, its learners, their scores, its open marks."""

    def __init__(self, name: str, settings: StreamSettings, task: TaskSettings) -> None:
        self.name = name
        self.key = name.encode()
        self.settings = settings
        self.learner_names = tuple(settings.learners)
        self.join = StreamJoin(task.join, task.metrics.every_labels, settings.features or 0)
        self.join.champion = self.learner_names.index(settings.champion)
        self.features = settings.features or 0
        self.learners: list[Learner] = []
        self.prequential = [Prequential(task.metrics.fading_factor) for _ in self.learner_names]
        self.slot_scores = np.zeros((len(self.learner_names), 0), np.float32)
        self.slot_classes = np.zeros((len(self.learner_names), 0), np.int8)
        self.open_marks: dict[OpenMark, None] = {}
        self.waiting: dict[int, WaitingLabel] = {}
        self._application_id = task.application_id
        if self.features:
            self.set_features(self.features)

    def set_features(self, features: int) -> None:
        """Fix the dimension: the learners can be built."""
        self.features = features
        self.join.set_features(features)
        self.learners = [
            build(name, settings, features, seed_of(self._application_id, self.name, name))
            for name, settings in self.settings.learners.items()
        ]

    def reserve_slots(self) -> None:
        """Scores are kept by slot, as the join numbers them."""
        missing = len(self.join.state.states) - self.slot_scores.shape[1]
        if missing > 0:
            self.slot_scores = np.pad(self.slot_scores, ((0, 0), (0, missing)))
            self.slot_classes = np.pad(self.slot_classes, ((0, 0), (0, missing)))


Cell = TypeVar("Cell")


@dataclass(slots=True)
class _Rows(Generic[Cell]):
    """Outputs of one topic as they arise, stream by stream; `positions` brings them into merge order."""

    positions: list[Integers] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    def order(self) -> tuple[Integers, NDArray[np.intp] | None]:
        """All positions in merge order, and the permutation that gets there (None: they are in order already)."""
        if len(self.positions) == 1:
            return self.positions[0], None
        positions = np.concatenate(self.positions) if self.positions else np.zeros(0, np.int32)
        permutation = np.argsort(positions, kind="stable")
        return positions[permutation], permutation


class _PredictionRows(NamedTuple):
    stream: int
    learner: int
    ids: Words
    champion: bool
    scores: Floats
    labels: NDArray[np.int8]
    versions: Longs


class _OutcomeRows(NamedTuple):
    stream: int
    kinds: Bytes
    ids: Words
    labels: NDArray[np.int8]
    learners: Integers
    scores: Floats
    delays: Longs
    examples: Longs
    label_offsets: Longs


@dataclass(frozen=True, slots=True)
class _DeadLetter:
    reason: Reason
    side: int
    record: WaitingLabel


class _Batch:
    """One batch on its way through the stages."""

    def __init__(self, raw: tuple[RawRecords, RawRecords], decoded: tuple[Decoded, Decoded]) -> None:
        self.raw = raw
        self.decoded = decoded
        self.sides, self.rows = order.merge(raw[0].timestamps, raw[1].timestamps)
        self.input = JoinInput(
            sides=self.sides,
            rows=self.rows,
            example_times=raw[0].timestamps,
            example_offsets=raw[0].offsets,
            example_ids=decoded[0].ids,
            features=decoded[0].features,
            feature_starts=decoded[0].feature_starts,
            label_times=raw[1].timestamps,
            label_offsets=raw[1].offsets,
            label_ids=decoded[1].ids,
            labels=decoded[1].labels,
            revisions=decoded[1].revisions,
        )
        self.predictions: _Rows[_PredictionRows] = _Rows()
        self.outcomes: _Rows[_OutcomeRows] = _Rows()
        self.metrics: list[tuple[int, Metric]] = []
        self.dead: list[tuple[int, _DeadLetter]] = []

    def times(self) -> Longs:
        """int64 `[n]`, the timestamp of each merged position."""
        return gather(self.sides, self.rows, self.raw[0].timestamps, self.raw[1].timestamps)

    def bury(self, position: int, reason: Reason) -> None:
        """The record at this position becomes a dead letter."""
        side = int(self.sides[position])
        self.dead.append((position, _DeadLetter(reason, side, original(self.raw[side], int(self.rows[position])))))

    def trace(self, positions: Integers) -> dict[int, Sequence[Header]]:
        """The trace headers of the records at these positions, by row of `positions`."""
        if not (self.raw[0].headers or self.raw[1].headers):
            return {}
        found: dict[int, Sequence[Header]] = {}
        for row, position in enumerate(positions):
            headers = self.raw[self.sides[position]].headers.get(int(self.rows[position]), ())
            kept = [header for header in headers if header[0] == TRACE_HEADER]
            if kept:
                found[row] = kept
        return found


def original(raw: RawRecords, row: int) -> WaitingLabel:
    """The record as it came."""
    return WaitingLabel(raw.keys[row], raw.values[row], raw.headers.get(row, ()), int(raw.offsets[row]))


@compiled
def gather(sides: Bytes, rows: Integers, examples: Longs, labels: Longs) -> Longs:
    """Values of both sides in merged order."""
    result = np.empty(len(sides), np.int64)
    for position in range(len(sides)):
        row = rows[position]
        result[position] = examples[row] if sides[position] == 0 else labels[row]
    return result


@compiled
def _sort_out(
    batch: JoinInput,
    kinds: tuple[Bytes, Bytes],
    reasons: tuple[Bytes, Bytes],
    streams: tuple[Integers, Integers],
    counts: Integers,
    names: tuple[Integers, Integers],
    dimensions: Integers,
    max_features: int,
) -> tuple[Integers, Bytes]:
    """The stream of each position (-1: a dead letter) and, where it is dead, the reason.

    `names` maps the decoder's stream indices to the task's (-1: unknown); `dimensions` is fixed by a stream's first
    example.
    """
    of = np.empty(len(batch.sides), np.int32)
    why = np.zeros(len(batch.sides), np.uint8)
    for position in range(len(batch.sides)):
        row = batch.rows[position]
        example = batch.sides[position] == 0
        of[position] = -1
        kind = kinds[0][row] if example else kinds[1][row]
        time = batch.example_times[row] if example else batch.label_times[row]
        if kind == 0:
            why[position] = reasons[0][row] if example else reasons[1][row]
            continue
        if time < 0:
            why[position] = 8
            continue
        stream = names[0][streams[0][row]] if example else names[1][streams[1][row]]
        if stream < 0:
            why[position] = 9
            continue
        if example and kind == 1:
            if dimensions[stream] == 0 and counts[row] <= max_features:
                dimensions[stream] = counts[row]
            if dimensions[stream] != counts[row]:
                why[position] = 4
                continue
        of[position] = stream
    return of, why


class Task:
    """The state of one task and its `step`.

    Args:
        partition: Its number.
        settings: Everything that changes a result.
        topics: Full names of the two input topics, for dead letters.
    """

    def __init__(self, partition: int, settings: TaskSettings, topics: tuple[str, str]) -> None:
        self.partition = partition
        self.settings = settings
        self._topics = topics
        self._limits = codec.DecodeLimits(settings.limits.max_record_bytes, settings.limits.max_features)
        self._streams: list[_Stream] = []
        self._index: dict[str, int] = {}
        self._learners: dict[str, int] = {}

    @property
    def stream_names(self) -> tuple[str, ...]:
        """The streams that have state here."""
        return tuple(self._index)

    def apply_settings(self, settings: TaskSettings) -> None:
        """Go on under settings that only add streams (`config.changes` refused the others)."""
        self.settings = settings

    def step(self, examples: RawRecords, labels: RawRecords) -> Outputs:
        """Carry one batch through all stages."""
        raw = (examples, labels)
        decoded = (
            codec.decode(examples.values, Side.EXAMPLES, self._limits),
            codec.decode(labels.values, Side.LABELS, self._limits),
        )
        batch = _Batch(raw, decoded)
        streams, reasons = self._sort_out(batch)
        for position in np.flatnonzero(reasons):
            batch.bury(int(position), Reason(int(reasons[position])))
        for index, positions in _by_stream(streams):
            self._run_stream(batch, self._streams[index], index, positions)
        return self._encode(batch, (reasons > 0) & (reasons <= Reason.BAD_TIME))

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """All model state by `stream/learner/array`, for digests and snapshots."""
        return {
            f"{stream.name}/{name}/{key}": array
            for stream in self._streams
            for name, learner in zip(stream.learner_names, stream.learners, strict=False)
            for key, array in learner.arrays().items()
        }

    def model_digests(self) -> Mapping[str, str]:
        """SHA-256 of each learner's whole state, by `stream/learner`, in order."""
        digests: dict[str, hashlib._Hash] = {}
        for name, array in self.arrays().items():
            stream, learner, key = name.rsplit("/", 2)
            digest = digests.setdefault(f"{stream}/{learner}", hashlib.sha256())
            digest.update(f"{key} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return {name: digest.hexdigest() for name, digest in digests.items()}

    # Which stream -------------------------------------------------------------------------------------------------

    def _sort_out(self, batch: _Batch) -> tuple[Integers, Bytes]:
        self._meet_streams(batch)
        names = tuple(
            np.array([self._index.get(name, -1) for name in side.stream_names] or [-1], np.int32)
            for side in batch.decoded
        )
        dimensions = np.array([stream.features for stream in self._streams] or [0], np.int32)
        one, two = batch.decoded
        streams, reasons = _sort_out(
            batch.input,
            (one.kinds, two.kinds),
            (one.reasons, two.reasons),
            (one.streams, two.streams),
            one.feature_counts,
            (names[0], names[1]),
            dimensions,
            self.settings.limits.max_features,
        )
        for stream, features in zip(self._streams, dimensions, strict=False):
            if features and not stream.features:
                stream.set_features(int(features))
        return streams, reasons

    def _meet_streams(self, batch: _Batch) -> None:
        """Open the streams that this batch names first, in merge order, as far as the policy and the bound allow."""
        if len(self._streams) == self.settings.limits.max_streams_per_task:
            return
        new = {name for side in batch.decoded for name in side.stream_names} - self._index.keys()
        if self.settings.unknown_streams != "model":
            new &= self.settings.streams.keys()
        if not new:
            return
        for name in _first_seen(batch, new)[: self.settings.limits.max_streams_per_task - len(self._streams)]:
            known = self.settings.streams.get(name)
            self._index[name] = len(self._streams)
            stream = _Stream(name, known or self.settings.default_stream, self.settings)
            self._streams.append(stream)
            for learner in stream.learner_names:
                self._learners.setdefault(learner, len(self._learners))

    # One stream ---------------------------------------------------------------------------------------------------

    def _run_stream(self, batch: _Batch, stream: _Stream, index: int, positions: Integers) -> None:
        """Data records run in segments between the marks."""
        begin = 0
        for place, mark in _marks(batch, positions):
            self._run_data(batch, stream, index, positions[begin:place])
            self._run_mark(batch, stream, index, mark, int(positions[place]))
            begin = place + 1
        self._run_data(batch, stream, index, positions[begin:])

    def _run_data(self, batch: _Batch, stream: _Stream, index: int, positions: Integers) -> None:
        if len(positions):
            self._apply(batch, stream, index, stream.join.run(batch.input, positions))

    def _run_mark(self, batch: _Batch, stream: _Stream, index: int, mark: Mark, position: int) -> None:
        if mark.kind is MarkKind.PROMOTE:
            if mark.learner in stream.learner_names:
                stream.join.champion = stream.learner_names.index(mark.learner)
            else:
                batch.bury(position, Reason.UNKNOWN_LEARNER)
            return
        time_ms = int(mark.time_ms or 0)
        side = int(batch.sides[position])
        if OpenMark(1 - side, time_ms) in stream.open_marks:
            del stream.open_marks[OpenMark(1 - side, time_ms)]
            self._apply(batch, stream, index, stream.join.advance(time_ms, position))
            return
        stream.open_marks[OpenMark(side, time_ms)] = None
        if len(stream.open_marks) > self.settings.join.max_open_marks_per_stream:
            del stream.open_marks[next(iter(stream.open_marks))]

    def _apply(self, batch: _Batch, stream: _Stream, index: int, out: JoinOutput) -> None:
        """Let the learners carry out what the join decided, and collect the outputs."""
        stream.reserve_slots()
        counts = out.counts
        operations = Operations(
            out.codes[: counts[OPERATIONS]], out.slots[: counts[OPERATIONS]], out.classes[: counts[OPERATIONS]]
        )
        positions = out.positions[: counts[OPERATIONS]]
        champion = stream.join.champion
        predicts = np.flatnonzero(operations.codes == PREDICT)
        state = stream.join.state
        slots = operations.slots[predicts]
        ids = state.ids[slots]
        answers = []
        for number, learner in enumerate(stream.learners):
            answer = learner.run(operations, state.features, state.ids)
            answers.append(answer)
            scores, labels = answer.scores[predicts], answer.labels[predicts]
            stream.slot_scores[number, slots] = scores
            stream.slot_classes[number, slots] = labels
            if len(predicts) and (number == champion or self.settings.predictions == "all"):
                batch.predictions.positions.append(positions[predicts])
                name = self._learners[stream.learner_names[number]]
                batch.predictions.cells.append(
                    _PredictionRows(index, name, ids, number == champion, scores, labels, answer.versions[predicts])
                )
        self._evaluate(batch, stream, operations, positions, out, answers)
        self._collect_outcomes(batch, stream, index, out)
        self._collect_dead(batch, stream, out)

    def _evaluate(
        self,
        batch: _Batch,
        stream: _Stream,
        operations: Operations,
        positions: Integers,
        out: JoinOutput,
        answers: Sequence[Answers],
    ) -> None:
        learned = operations.codes == LEARN
        slots, truth = operations.slots[learned], operations.labels[learned]
        reported = np.flatnonzero(operations.codes == REPORT)
        before = np.cumsum(learned)[reported]
        rows: list[list[Metric]] = [[] for _ in reported]
        for number in range(len(stream.learner_names)):
            start = stream.prequential[number].sums()
            sums = stream.prequential[number].run(stream.slot_classes[number, slots], truth)
            for row, seen in enumerate(before):
                if not out.reports[row][1]:
                    continue  # no example yet, so there may be no learner yet: where a batch was cut must not show
                report = answers[number].reports[row]
                now = sums[seen - 1] if seen else start
                rows[row].append(_metric(stream, number, out.reports[row], report, now))
        for row, metrics in enumerate(rows):
            batch.metrics.extend((int(positions[reported[row]]), metric) for metric in metrics)

    def _collect_outcomes(self, batch: _Batch, stream: _Stream, index: int, out: JoinOutput) -> None:
        count = out.counts[OUTCOMES]
        if not count:
            return
        slots = out.outcome_slots[:count]
        has_score = slots >= 0
        champions = stream.join.state.champions[slots]
        scores = np.where(has_score, stream.slot_scores[champions, slots], np.float32(np.nan))
        names = np.array([self._learners[name] for name in stream.learner_names], np.int32)
        batch.outcomes.positions.append(out.outcome_positions[:count])
        batch.outcomes.cells.append(
            _OutcomeRows(
                stream=index,
                kinds=out.outcome_kinds[:count],
                ids=out.outcome_ids[:count],
                labels=out.outcome_labels[:count],
                learners=np.where(has_score, names[champions], np.int32(-1)),
                scores=scores,
                delays=out.outcome_delays[:count],
                examples=out.outcome_examples[:count],
                label_offsets=out.outcome_label_offsets[:count],
            )
        )

    def _collect_dead(self, batch: _Batch, stream: _Stream, out: JoinOutput) -> None:
        counts = out.counts
        for at in range(counts[PARKED]):
            row = int(batch.rows[out.parked_positions[at]])
            stream.waiting[int(out.parked_slots[at])] = original(batch.raw[Side.LABELS], row)
        for at in range(counts[DEAD]):
            position, slot = int(out.dead_positions[at]), int(out.dead_slots[at])
            reason = Reason(int(out.dead_reasons[at]))
            if slot < 0:
                batch.bury(position, reason)
            else:
                batch.dead.append((position, _DeadLetter(reason, Side.LABELS, stream.waiting[slot])))
        for at in range(counts[RELEASED]):
            del stream.waiting[int(out.released_slots[at])]

    # Encode -------------------------------------------------------------------------------------------------------

    def _encode(self, batch: _Batch, malformed: NDArray[np.bool_]) -> Outputs:
        times = batch.times()
        topics = {
            "predictions": self._encode_predictions(batch, times),
            "outcomes": self._encode_outcomes(batch, times),
            "metrics": self._encode_metrics(batch, times),
            "dead-letters": self._encode_dead(batch, times),
        }
        return Outputs(topics, malformed)

    def _keys(self, streams: Integers) -> list[bytes | None]:
        if len(self._streams) == 1:
            return [self._streams[0].key] * len(streams)
        keys = [stream.key for stream in self._streams]
        return [keys[stream] for stream in streams.tolist()]

    def _names(self) -> tuple[list[str], list[str]]:
        return [stream.name for stream in self._streams], list(self._learners)

    def _encode_predictions(self, batch: _Batch, times: Longs) -> OutputRecords:
        positions, permutation = batch.predictions.order()
        cells = batch.predictions.cells
        if not cells:
            return OutputRecords((), (), ())
        stream_names, learner_names = self._names()
        sizes = [len(cell.scores) for cell in cells]
        pick = _picker(permutation)
        columns = PredictionColumns(
            stream_names=stream_names,
            learner_names=learner_names,
            streams=pick([np.full(size, cell.stream, np.int32) for size, cell in zip(sizes, cells, strict=True)]),
            learners=pick([np.full(size, cell.learner, np.int32) for size, cell in zip(sizes, cells, strict=True)]),
            ids=pick([cell.ids for cell in cells]),
            champions=pick([np.full(size, cell.champion) for size, cell in zip(sizes, cells, strict=True)]),
            scores=pick([cell.scores for cell in cells]),
            labels=pick([cell.labels for cell in cells]),
            model_versions=pick([cell.versions for cell in cells]),
        )
        values = codec.encode_predictions(columns)
        return OutputRecords(self._keys(columns.streams), values, times[positions].tolist(), batch.trace(positions))

    def _encode_outcomes(self, batch: _Batch, times: Longs) -> OutputRecords:
        positions, permutation = batch.outcomes.order()
        cells = batch.outcomes.cells
        if not cells:
            return OutputRecords((), (), ())
        stream_names, learner_names = self._names()
        pick = _picker(permutation)
        columns = OutcomeColumns(
            stream_names=stream_names,
            learner_names=learner_names,
            streams=pick([np.full(len(cell.kinds), cell.stream, np.int32) for cell in cells]),
            outcomes=pick([cell.kinds for cell in cells]),
            ids=pick([cell.ids for cell in cells]),
            labels=pick([cell.labels for cell in cells]),
            learners=pick([cell.learners for cell in cells]),
            scores=pick([cell.scores for cell in cells]),
            delays_ms=pick([cell.delays for cell in cells]),
            example_offsets=pick([cell.examples for cell in cells]),
            label_offsets=pick([cell.label_offsets for cell in cells]),
        )
        values = codec.encode_outcomes(columns)
        return OutputRecords(self._keys(columns.streams), values, times[positions].tolist(), batch.trace(positions))

    def _encode_metrics(self, batch: _Batch, times: Longs) -> OutputRecords:
        if not batch.metrics:
            return OutputRecords((), (), ())
        rows = sorted(batch.metrics, key=lambda row: row[0])
        positions = np.array([position for position, _ in rows], np.int32)
        return OutputRecords(
            [metric.stream.encode() for _, metric in rows],
            [codec.encode(metric) for _, metric in rows],
            times[positions].tolist(),
            batch.trace(positions),
        )

    def _encode_dead(self, batch: _Batch, times: Longs) -> OutputRecords:
        if not batch.dead:
            return OutputRecords((), (), ())
        rows = sorted(batch.dead, key=lambda row: row[0])
        positions = np.array([position for position, _ in rows], np.int32)
        return OutputRecords(
            [dead.record.key for _, dead in rows],
            [dead.record.value for _, dead in rows],
            times[positions].clip(min=0).tolist(),
            {row: self._dead_headers(dead) for row, (_, dead) in enumerate(rows)},
        )

    def _dead_headers(self, dead: _DeadLetter) -> list[Header]:
        """The original headers, then the family of Kafka Connect (KIP-298) and our reason."""
        topic = self._topics[dead.side]
        where = f"{topic}[{self.partition}] offset {dead.record.offset}"
        ours = {
            "__connect.errors.topic": topic,
            "__connect.errors.partition": str(self.partition),
            "__connect.errors.offset": str(dead.record.offset),
            "__connect.errors.exception.class.name": f"areba.{dead.reason.text}",
            "__connect.errors.exception.message": f"{where}: {dead.reason.text}",
            "areba.reason": dead.reason.text,
        }
        return [*dead.record.headers, *((name, text.encode()) for name, text in ours.items())]


def _metric(
    stream: _Stream, number: int, counts: Longs, report: NDArray[np.float64], sums: NDArray[np.float64]
) -> Metric:
    recall, specificity, gmean = scores_of(sums)
    delays = [None if delay == NO_LONG else int(delay) for delay in counts[7:10]]
    return Metric(
        stream=stream.name,
        learner=stream.learner_names[number],
        champion=number == stream.join.champion,
        labelled=int(counts[0]),
        recall=recall,
        specificity=specificity,
        gmean=gmean,
        positive_correct=float(sums[0]),
        positive_total=float(sums[1]),
        negative_correct=float(sums[2]),
        negative_total=float(sums[3]),
        positive_size=float(report[1]),
        negative_size=float(report[2]),
        positive_queue=int(report[3]),
        negative_queue=int(report[4]),
        positive_capacity=int(report[5]),
        negative_capacity=int(report[6]),
        updates=int(report[0]),
        examples=int(counts[1]),
        unlabelled=int(counts[2]),
        evicted=int(counts[3]),
        duplicates=int(counts[4]),
        pending=int(counts[5]),
        waiting=int(counts[6]),
        delay_ms_p50=delays[0],
        delay_ms_p90=delays[1],
        delay_ms_p99=delays[2],
    )


def _picker(permutation: NDArray[np.intp] | None) -> Callable[[list[NDArray[np.generic]]], NDArray[np.generic]]:
    """Join the chunks of a column and bring it into merge order."""

    def pick(chunks: list[NDArray[np.generic]]) -> NDArray[np.generic]:
        if permutation is None:
            return np.ascontiguousarray(chunks[0])
        return np.concatenate(chunks)[permutation]

    return pick


def _by_stream(streams: Integers) -> Sequence[tuple[int, Integers]]:
    """The positions of each stream, ascending; dead letters (-1) left out."""
    if not len(streams):
        return []
    if streams[0] >= 0 and (streams == streams[0]).all():
        return [(int(streams[0]), np.arange(len(streams), dtype=np.int32))]
    by = np.argsort(streams, kind="stable").astype(np.int32)
    sorted_streams = streams[by]
    starts = np.flatnonzero(np.diff(sorted_streams, prepend=sorted_streams[0] - 1))
    ends = [*starts[1:].tolist(), len(by)]
    return [
        (int(sorted_streams[start]), np.ascontiguousarray(by[start:end]))
        for start, end in zip(starts.tolist(), ends, strict=True)
        if sorted_streams[start] >= 0
    ]


def _first_seen(batch: _Batch, names: set[str]) -> list[str]:
    """These names in the order in which the merge meets a record of them that is well-formed."""
    first: dict[str, None] = {}
    for position in range(len(batch.sides)):
        side = batch.decoded[batch.sides[position]]
        row = batch.rows[position]
        if side.streams[row] >= 0 and batch.raw[batch.sides[position]].timestamps[row] >= 0:
            name = side.stream_names[side.streams[row]]
            if name in names:
                first.setdefault(name)
                if len(first) == len(names):
                    break
    return list(first)


def _marks(batch: _Batch, positions: Integers) -> Sequence[tuple[int, Mark]]:
    """Where in `positions` the marks are, with the marks."""
    if not (batch.decoded[0].marks or batch.decoded[1].marks):
        return []
    found = []
    for place, position in enumerate(positions.tolist()):
        side = batch.decoded[batch.sides[position]]
        row = int(batch.rows[position])
        if side.kinds[row] == Kind.MARK:
            found.append((place, side.marks[row]))
    return found
