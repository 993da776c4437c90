"""All streams of a task, run together: join, learn, evaluate, each stage one compiled call over the streams in turn.

Streams never meet, but a call per stage and stream would cost a hundred times the work on a record. So what the
streams hold is known here by address (see `addresses`), and a stage walks over the streams itself. A learner that is
not compiled is called stream by stream.

A batch runs in rounds. In each, every stream's records up to its next mark are applied, and then that mark is. Nearly
all batches have one round.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import StreamSettings, TaskSettings
from stream_app.jit.compiler import bare, compiled
from stream_app.jit.memory import address, address_of, later, longs_at
from stream_app.join import stream_join
from stream_app.join.stream_join import (
    A_ANSWERS,
    A_LEFT,
    A_NEW_AGE,
    A_NUMBER,
    A_OLD_AGE,
    A_SLOT,
    AMENDMENTS,
    CORRECT,
    DEAD,
    LEARN,
    NO_ANSWER,
    OPERATIONS,
    OUTCOMES,
    PARKED,
    PREDICT,
    RELEASED,
    REPORTS,
    JoinInput,
    JoinOutput,
    Segments,
)
from stream_app.learners import loop
from stream_app.learners.api import REPORT_WIDTH, Operations
from stream_app.learners.online import OnlineLearner
from stream_app.learners.scaler import Work
from stream_app.learners.workshop import Workshop
from stream_app.pipeline import degradation, prequential
from stream_app.pipeline.batch import Batch
from stream_app.pipeline.outputs import Collector, DeadLetterRow, OutcomeRows, PredictionRows
from stream_app.pipeline.prequential import CORRECTED, UNPREDICTED, Labelled
from stream_app.pipeline.stream import Shared, Stream
from stream_app.pipeline.transaction_bounds import Held
from stream_app.records import ID_WORDS, NO_LONG, Floats, Integers, Longs, Mark, MarkKind, Reason, Side
from stream_app.serialization.names import NameList


class Answered(NamedTuple):
    """What n learners answered to m operations; see `base.Answers`.

    Attributes:
        scores: float32 `[n, m]`.
        classes: int8 `[n, m]`.
        versions: int64 `[n, m]`.
        reports: float64 `[n, reports, 7]`.
    """

    scores: Floats
    classes: NDArray[np.int8]
    versions: Longs
    reports: NDArray[np.float64]


@compiled
def _grouped(streams: Integers, count: int) -> tuple[Integers, Integers, Longs]:
    """The positions of each stream, ascending, stream by stream; dead letters (-1) left out.

    Returns:
        int32, the positions; int32 `[s]`, the streams that have any; int64 `[s + 1]`, where their positions begin.
    """
    sizes = np.zeros(count + 1, np.int64)
    for stream in streams:
        sizes[stream + 1] += 1
    places = np.zeros(count + 1, np.int64)  # the first is that of dead letters, which come last
    present, total = 0, 0
    for stream in range(count):
        places[stream + 1] = total
        total += sizes[stream + 1]
        present += 1 if sizes[stream + 1] > 0 else 0
    places[0] = total
    positions = np.empty(len(streams), np.int32)
    for position in range(len(streams)):
        stream = streams[position] + 1
        positions[places[stream]] = position
        places[stream] += 1
    which, starts, at = np.empty(present, np.int32), np.empty(present + 1, np.int64), 0
    for stream in range(count):
        if sizes[stream + 1] > 0:
            which[at] = stream
            starts[at] = places[stream + 1] - sizes[stream + 1]
            at += 1
    starts[present] = total
    return positions[:total], which, starts


@compiled
def _join_and_learn(batch: JoinInput, segments: Segments, learners: Longs, out: JoinOutput, answered: Answered) -> None:
    """Join each segment, and let its compiled learners answer while what they need is in the processor's cache.

    Args:
        batch: The batch.
        segments: What to do.
        learners: int64 `[s, n]`, addresses of the learners' rows; 0: there is none, or it is not compiled.
        out: Filled with what the join decided.
        answered: Filled with what these learners answer.
    """
    operations, reports = answered.scores.shape[1], answered.reports.shape[1] * REPORT_WIDTH
    parts, each = len(segments.joins), learners.shape[1]
    for part in range(parts):
        if part + 3 < parts:
            stream_join.prefetch_row(segments.joins[part + 3])
        if part + 2 < parts:
            stream_join.prefetch_counters(segments.joins[part + 2])
            for k in range(each):
                loop.prefetch_row(learners[part + 2, k])
        if part + 1 < parts:
            stream_join.prefetch_segment(batch, segments, part + 1)
        stream_join.run_segment(batch, segments, part, out)
        state = stream_join.opened(longs_at(segments.joins[part]))
        begin, end = out.bounds[part, OPERATIONS], out.bounds[part + 1, OPERATIONS]
        slots = len(state.states)
        for k in range(each):
            if learners[part, k] != 0:
                work = Work(
                    address(out.codes),
                    address(out.slots),
                    address(out.classes),
                    address(state.features),
                    address(state.ids),
                    later(address(answered.scores), k * operations),
                    later(address(answered.classes), k * operations),
                    later(address(answered.versions), k * operations),
                    later(address(answered.reports), k * reports),
                    later(address(state.scores), k * slots),
                    later(address(state.classes), k * slots),
                )
                following = learners[part + 1, k] if part + 1 < parts else 0
                loop.run_part(longs_at(learners[part, k]), work, begin, end, out.bounds[part, REPORTS], True, following)
        stream_join.settle_segment(segments.joins[part], part, out)


@bare
def _label(
    out: JoinOutput, answered: Answered, labelled: Labelled, predicted: NDArray[np.int8], report_positions: Integers
) -> None:
    """Find the labels and corrections, what had been predicted, and the reports among the operations.

    Args:
        out: What the join decided.
        answered: What the learners said to it.
        labelled: Filled, but for the bounds of reports.
        predicted: int8 `[n, ...]`, filled: the class that each learner had predicted.
        report_positions: int32 `[reports]`, filled.
    """
    count, report, amendment, correction = 0, 0, 0, 0
    for part in range(len(out.champions)):
        labelled.bounds[part] = count
        labelled.corrections[part] = correction
        for k in range(out.bounds[part, OPERATIONS], out.bounds[part + 1, OPERATIONS]):
            if out.codes[k] == LEARN:
                labelled.labels[count] = out.classes[k]
                for learner in range(len(predicted)):
                    predicted[learner, count] = answered.classes[learner, k]
                count += 1
            elif out.codes[k] == CORRECT:
                while out.amendments[amendment, A_SLOT] < 0:
                    amendment += 1
                labelled.labels[count] = CORRECTED + out.classes[k]
                labelled.ages[correction, 0] = out.amendments[amendment, A_OLD_AGE]
                labelled.ages[correction, 1] = out.amendments[amendment, A_NEW_AGE]
                labelled.ages[correction, 2] = out.amendments[amendment, A_LEFT]
                answers = out.amendments[amendment, A_ANSWERS]
                for learner in range(len(predicted)):
                    known = (answers >> (NO_ANSWER + learner)) & 1 == 0
                    predicted[learner, count] = (answers >> learner) & 1 if known else UNPREDICTED
                amendment += 1
                correction += 1
                count += 1
            elif out.codes[k] != PREDICT:
                labelled.seen[report] = count
                report_positions[report] = out.positions[k]
                report += 1
    labelled.bounds[len(out.champions)] = count
    labelled.corrections[len(out.champions)] = correction


class Owners(NamedTuple):
    """Whose the segments are.

    Attributes:
        streams: int32 `[s]`.
        learners: int64 `[s]`, how many they have.
        numbers: int64 `[s, n]`, the task's of each learner.
    """

    streams: Integers
    learners: Longs
    numbers: Longs


@bare
def _find_predictions(owners: Owners, out: JoinOutput, every: bool, segments: Integers, operations: Integers) -> int:
    """Find each position's prediction; how many there are of all learners, or of the champions.

    Args:
        owners: Whose they are.
        out: What the join decided.
        every: Whether of all learners.
        segments: int32, by position, filled: the segment; -1: no prediction.
        operations: int32, by position, filled: the operation.
    """
    total = 0
    for position in range(len(segments)):
        segments[position] = -1
    for part in range(len(owners.streams)):
        for k in range(out.bounds[part, OPERATIONS], out.bounds[part + 1, OPERATIONS]):
            if out.codes[k] == PREDICT:
                segments[out.positions[k]] = part
                operations[out.positions[k]] = k
                total += owners.learners[part] if every else 1
    return int(total)


@bare
def _put_predictions(
    batch: JoinInput,
    owners: Owners,
    out: JoinOutput,
    answered: Answered,
    every: bool,
    segments: Integers,
    operations: Integers,
    rows: PredictionRows,
) -> None:
    """Fill the rows in merge order, from what `_find_predictions` found."""
    row = 0
    for position in range(len(segments)):
        part, k = segments[position], operations[position]
        if part < 0:
            continue
        champion, example = out.champions[part], batch.rows[position]
        for learner in range(0 if every else champion, owners.learners[part] if every else champion + 1):
            rows.positions[row] = position
            rows.streams[row] = owners.streams[part]
            rows.learners[row] = owners.numbers[part, learner]
            for word in range(ID_WORDS):
                rows.ids[row, word] = batch.example_ids[example, word]
            rows.champions[row] = learner == champion
            rows.scores[row] = answered.scores[learner, k]
            rows.labels[row] = answered.classes[learner, k]
            rows.versions[row] = answered.versions[learner, k]
            row += 1


@bare
def _put_outcomes(owners: Owners, out: JoinOutput, places: Longs, rows: OutcomeRows) -> None:
    """Fill the rows in merge order; `places` are zeros, one more than positions."""
    for at in range(out.counts[OUTCOMES]):
        places[out.outcome_positions[at] + 1] += 1
    for position in range(len(places) - 1):
        places[position + 1] += places[position]
    for part in range(len(owners.streams)):
        for at in range(out.bounds[part, OUTCOMES], out.bounds[part + 1, OUTCOMES]):
            position, learner = out.outcome_positions[at], out.outcome_learners[at]
            row = places[position]
            places[position] = row + 1
            rows.positions[row] = position
            rows.streams[row] = owners.streams[part]
            rows.kinds[row] = out.outcome_kinds[at]
            for word in range(ID_WORDS):
                rows.ids[row, word] = out.outcome_ids[at, word]
            rows.labels[row] = out.outcome_labels[at]
            rows.learners[row] = owners.numbers[part, learner] if learner >= 0 else -1
            rows.scores[row] = out.outcome_scores[at]
            rows.delays[row] = out.outcome_delays[at]
            rows.examples[row] = out.outcome_examples[at]
            rows.label_offsets[row] = out.outcome_label_offsets[at]


# Columns of the table of learners: their number in the task; addresses of row, sums and changes (0: there is none);
# whether they are not compiled.
NUMBER, ROW, SUMS, CHANGES, OPEN = 0, 1, 2, 3, 4
LEARNER_COLUMNS = 5


class Streams:
    """The streams of a task.

    Args:
        settings: Everything that changes a result.
        hash_key: Of the tables of ids, 16 bytes; no result depends on it.

    Attributes:
        names: By their number.
        learner_names: By theirs, over all streams.
        longest_name: Bytes of the longest of the names.
        dimensions: int32 `[streams]`, numbers in an example; 0 while nobody knows.
        hash_key: As given.
    """

    def __init__(self, settings: TaskSettings, hash_key: bytes) -> None:
        self.names, self.learner_names = NameList(), NameList()
        self.longest_name = 0
        self.hash_key = hash_key
        self._settings = settings
        self._shared = Shared(settings, hash_key, Workshop())
        self._learner_numbers: dict[str, int] = {}
        self._streams: list[Stream] = []
        self._index: dict[str, int] = {}
        self._joins = np.zeros(0, np.int64)
        self._learners = np.zeros((0, 0, LEARNER_COLUMNS), np.int64)  # by stream and its own learners
        self._counts = np.zeros(0, np.int64)  # of learners
        self._dimensions = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self._streams)

    def __getitem__(self, number: int) -> Stream:
        return self._streams[number]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    @property
    def dimensions(self) -> Integers:
        """int32 `[streams]`, a copy: numbers in an example; 0 while nobody knows."""
        return self._dimensions[: len(self)].copy()

    @property
    def held(self) -> Held:
        """What `bounds` has to know of them; until one is opened."""
        return Held(self._joins[: len(self)], self._counts[: len(self)])

    def numbers_of(self, names: Sequence[str]) -> Integers:
        """int32, the streams of these names; -1: unknown."""
        return np.fromiter(map(self._index.get, names, repeat(-1)), np.int32, len(names))

    @property
    def allocated_bytes(self) -> int:
        """What the streams have allocated, about."""
        return sum(stream.allocated_bytes for stream in self._streams)

    def number_of(self, name: str) -> int:
        """The stream of this name; -1: unknown."""
        return self._index.get(name, -1)

    def open(self, name: str, settings: StreamSettings, features: int = 0) -> Stream:
        """Begin a stream, with so many features if they are known."""
        number, learners = len(self), len(settings.learners)
        self._index[name] = number
        self.names.append(name)
        self.longest_name = max(self.longest_name, len(name.encode()))
        if number == len(self._joins) or learners > self._learners.shape[1]:
            rows = len(self._joins) if number < len(self._joins) else max(8, 2 * number)
            self._joins, self._dimensions = _widened(self._joins, rows), _widened(self._dimensions, rows)
            self._counts = _widened(self._counts, rows)
            self._learners = _widened(self._learners, rows, max(learners, self._learners.shape[1]))
        return self.begin(number, settings, features)

    def begin(self, number: int, settings: StreamSettings, features: int = 0) -> Stream:
        """Let the stream of this number begin, or begin anew: nothing is left of what it was."""
        stream = Stream(self.names[number], settings, self._shared)
        self._streams[number : number + 1] = [stream]
        self._joins[number], self._counts[number] = stream.join.address, len(settings.learners)
        self._learners[number], self._dimensions[number] = 0, 0
        for k, learner in enumerate(settings.learners):
            self._learners[number, k, NUMBER] = self.number_of_learner(learner)
        if settings.features or features:
            self.set_features(number, settings.features or features)
        return stream

    def number_of_learner(self, name: str) -> int:
        """Its number in `learner_names`, which it may get by this."""
        number = self._learner_numbers.get(name)
        if number is None:
            number = self._learner_numbers[name] = len(self.learner_names)
            self.learner_names.append(name)
        return number

    def set_features(self, number: int, features: int) -> None:
        """Fix the dimension of a stream, whose learners can then be built."""
        stream = self._streams[number]
        stream.set_features(features)
        self._dimensions[number] = features
        for k, learner in enumerate(stream.learners):
            row = learner.row if isinstance(learner, OnlineLearner) else None
            self._learners[number, k, ROW] = 0 if row is None else address_of(row)
            self._learners[number, k, SUMS] = stream.prequential[k].address
            self._learners[number, k, CHANGES] = stream.changes[k].address
            self._learners[number, k, OPEN] = row is None

    def run(self, batch: Batch, streams: Integers, collector: Collector) -> None:
        """Apply a batch.

        Args:
            batch: The batch.
            streams: int32, the stream of each position; -1: a dead letter.
            collector: Takes what comes out.
        """
        positions, which, starts = _grouped(streams, len(self))
        begins, ends = starts[:-1].copy(), starts[1:].copy()
        marks = _marks(batch, streams, positions, which, starts)
        while len(which):
            stops, advances, at = ends.copy(), np.full(len(which), NO_LONG), np.zeros(len(which), np.int32)
            promoted = []
            for part, own in marks.items():
                place, mark = own.pop()
                stops[part], at[part] = place, positions[place]
                stream = self._streams[which[part]]
                if mark.kind is MarkKind.PROMOTE:
                    promoted.append((stream, mark.learner, int(at[part])))
                elif stream.meet(Side(int(batch.merged.sides[at[part]])), int(mark.time_ms or 0)):
                    advances[part] = int(mark.time_ms or 0)
            todo = (stops > begins) | (advances != NO_LONG)
            if todo.any():
                own = which[todo]
                rest = begins[todo], stops[todo], positions, advances[todo], at[todo]
                self._round(batch, own, Segments(self._joins[own], *rest), collector)
            for stream, learner, position in promoted:
                if not stream.promote(learner):
                    collector.bury(position, Reason.UNKNOWN_LEARNER)
            on = np.array(sorted(marks), np.intp)
            marks = {k: marks[part] for k, part in enumerate(on.tolist()) if marks[part]}
            which, begins, ends = which[on], stops[on] + 1, ends[on]

    def _round(self, batch: Batch, which: Integers, segments: Segments, collector: Collector) -> None:
        wanting, closings = stream_join.wanting(segments)
        for part in wanting.tolist():
            self._streams[which[part]].make_room(int(segments.ends[part] - segments.starts[part]))
        out, learners = stream_join.output_of(segments, closings), self._learners[which]
        answered = _answered(learners.shape[1], len(out.codes), len(out.reports))
        _join_and_learn(batch.merged, segments, np.ascontiguousarray(learners[:, :, ROW]), out, answered)
        for part, k in np.argwhere(learners[:, :, OPEN]).tolist():
            self._learn_apart(self._streams[which[part]], k, part, out, answered)
            _settle(segments.joins[part], part, out)
        if self._settings.join.corrections == "correct":
            _settle_answers(segments, out)
            for at, part in enumerate(_owners(out, AMENDMENTS)):
                self._streams[which[part]].note_amended(int(out.amendments[at, A_NUMBER]))
        self._evaluate(which, learners, out, answered, collector)
        owners = Owners(which, self._counts[which], np.ascontiguousarray(learners[:, :, NUMBER]))
        every = self._settings.predictions == "all"
        collector.predictions(_prediction_rows(batch, owners, out, answered, every))
        collector.outcomes(_outcome_rows(owners, out, len(batch.times)))
        self._collect_dead(batch, which, out, collector)

    def _learn_apart(self, stream: Stream, number: int, part: int, out: JoinOutput, answered: Answered) -> None:
        """Let a learner that is not compiled answer for one segment."""
        state = stream.join.arrays()
        own, reports = (slice(out.bounds[part, kind], out.bounds[part + 1, kind]) for kind in (OPERATIONS, REPORTS))
        operations = Operations(out.codes[own], out.slots[own], out.classes[own])
        given = stream.learners[number].run(operations, state["features"], state["ids"])
        scores, classes = answered.scores[number, own], answered.classes[number, own]
        scores[:], classes[:], answered.versions[number, own] = given.scores, given.labels, given.versions
        answered.reports[number, reports] = given.reports
        kept_scores, kept_classes = state["scores"][number], state["classes"][number]
        predicted, learned = operations.codes == PREDICT, operations.codes == LEARN
        kept_scores[operations.slots[predicted]] = scores[predicted]
        kept_classes[operations.slots[predicted]] = classes[predicted]
        scores[learned] = kept_scores[operations.slots[learned]]
        classes[learned] = kept_classes[operations.slots[learned]]

    def _evaluate(
        self, which: Integers, learners: Longs, out: JoinOutput, answered: Answered, collector: Collector
    ) -> None:
        """Score the stored predictions; a record of metrics for each learner at each report."""
        reports, most = out.counts[REPORTS], len(out.parked_slots)
        labelled = Labelled(
            labels=np.empty(most, np.int8),
            bounds=np.empty(len(which) + 1, np.int64),
            seen=np.empty(reports, np.int64),
            reports=np.ascontiguousarray(out.bounds[:, REPORTS]),
            ages=np.empty((out.counts[AMENDMENTS], 3), np.int64),
            corrections=np.empty(len(which) + 1, np.int64),
        )
        predicted, positions = np.empty((learners.shape[1], most), np.int8), np.empty(reports, np.int32)
        _label(out, answered, labelled, predicted, positions)
        after, sums = np.empty((most, 4)), np.empty((learners.shape[1], reports, 4))
        changes = np.zeros((learners.shape[1], reports, degradation.REPORT_COLUMNS))
        fading, method = (
            self._settings.metrics.fading_factor,
            degradation.method_of(self._settings.metrics.change_detector),
        )
        for k in range(learners.shape[1]):
            own, monitors = (np.ascontiguousarray(learners[:, k, column]) for column in (SUMS, CHANGES))
            prequential.run(own, fading, labelled, predicted[k], after, sums[k])
            if method:
                degradation.run(
                    monitors, method, degradation.memory_of(fading), labelled, predicted[k], after, changes[k]
                )
        for report, part in enumerate(_owners(out, REPORTS)):
            stream, counts = self._streams[which[part]], out.reports[report]
            if not counts[1]:
                continue  # no example yet, so perhaps no learner yet: where a batch was cut must not show
            for k in range(len(stream.learner_names)):
                known = degradation.change_of(changes[k, report].tolist())
                metric = stream.metric(k, counts, answered.reports[k, report], sums[k, report], known)
                collector.metric(int(positions[report]), metric)

    def _collect_dead(self, batch: Batch, which: Integers, out: JoinOutput, collector: Collector) -> None:
        for at, part in enumerate(_owners(out, PARKED)):
            waiting = self._streams[which[part]].waiting
            waiting[int(out.parked_slots[at])] = batch.original(int(out.parked_positions[at]))
        for at, part in enumerate(_owners(out, DEAD)):
            position, slot = int(out.dead_positions[at]), int(out.dead_slots[at])
            reason = Reason(int(out.dead_reasons[at]))
            if slot < 0:
                collector.bury(position, reason)
            else:
                stream = self._streams[which[part]]
                collector.dead(position, DeadLetterRow(reason, stream.waiting[slot], stream.name))
        for at, part in enumerate(_owners(out, RELEASED)):
            del self._streams[which[part]].waiting[int(out.released_slots[at])]


@bare
def _settle(join_row: int, segment: int, out: JoinOutput) -> None:
    stream_join.settle_segment(join_row, segment, out)


@bare
def _settle_answers(segments: Segments, out: JoinOutput) -> None:
    for part in range(len(segments.joins)):
        stream_join.settle_answers(segments.joins[part], part, out)


def _owners(out: JoinOutput, kind: int) -> Sequence[int]:
    """The segment of each row of this kind."""
    if not out.counts[kind]:
        return ()
    owners: list[int] = np.repeat(np.arange(len(out.bounds) - 1), np.diff(out.bounds[:, kind])).tolist()
    return owners


def _widened(array: NDArray[Any], *shape: int) -> NDArray[Any]:
    """The array with at least so many rows and columns, new ones zero."""
    missing = [(0, max(0, wanted - had)) for wanted, had in zip(shape, array.shape, strict=False)]
    if not any(more for _, more in missing):
        return array
    return np.pad(array, [*missing, *[(0, 0)] * (array.ndim - len(missing))])


def _marks(
    batch: Batch, streams: Integers, positions: Integers, which: Integers, starts: Longs
) -> dict[int, list[tuple[int, Mark]]]:
    """The control records of each part of `which`, the last one first, with their places in `positions`."""
    found: dict[int, list[tuple[int, Mark]]] = {}
    for position, mark in reversed(batch.marks()):
        if streams[position] >= 0:
            part = int(np.searchsorted(which, streams[position]))
            own = positions[starts[part] : starts[part + 1]]
            place = int(starts[part] + np.searchsorted(own, position))
            found.setdefault(part, []).append((place, mark))
    return found


def _answered(learners: int, operations: int, reports: int) -> Answered:
    """Room for answers."""
    return Answered(
        scores=np.empty((learners, operations), np.float32),
        classes=np.empty((learners, operations), np.int8),
        versions=np.empty((learners, operations), np.int64),
        reports=np.zeros((learners, reports, REPORT_WIDTH)),
    )


def _prediction_rows(batch: Batch, owners: Owners, out: JoinOutput, answered: Answered, every: bool) -> PredictionRows:
    """The predictions of a round in merge order: the champions' only, or every learner's."""
    segments, operations = np.empty(len(batch.times), np.int32), np.empty(len(batch.times), np.int32)
    count = _find_predictions(owners, out, every, segments, operations)
    rows = PredictionRows(
        positions=np.empty(count, np.int32),
        streams=np.empty(count, np.int32),
        learners=np.empty(count, np.int32),
        ids=np.empty((count, ID_WORDS), np.uint64),
        champions=np.empty(count, np.bool_),
        scores=np.empty(count, np.float32),
        labels=np.empty(count, np.int8),
        versions=np.empty(count, np.int64),
    )
    _put_predictions(batch.merged, owners, out, answered, every, segments, operations, rows)
    return rows


def _outcome_rows(owners: Owners, out: JoinOutput, positions: int) -> OutcomeRows:
    """The outcomes of a round in merge order."""
    count = int(out.counts[OUTCOMES])
    rows = OutcomeRows(
        positions=np.empty(count, np.int32),
        streams=np.empty(count, np.int32),
        kinds=np.empty(count, np.uint8),
        ids=np.empty((count, ID_WORDS), np.uint64),
        labels=np.empty(count, np.int8),
        learners=np.empty(count, np.int32),
        scores=np.empty(count, np.float32),
        delays=np.empty(count, np.int64),
        examples=np.empty(count, np.int64),
        label_offsets=np.empty(count, np.int64),
    )
    _put_outcomes(owners, out, np.zeros(positions + 1, np.int64), rows)
    return rows
