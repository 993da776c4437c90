"""One stream of a task: join, learn, evaluate. Streams never meet, so all of this belongs to one of them."""

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.batch import Batch, OriginalRecord
from stream_app.change import Change, ChangeMonitor
from stream_app.config import StreamSettings, TaskSettings
from stream_app.evaluate import Prequential, scores_of
from stream_app.join import DEAD, LEARN, OPERATIONS, OUTCOMES, PARKED, PREDICT, RELEASED, REPORT, JoinOutput, StreamJoin
from stream_app.learners import Answers, Learner, Operations, build
from stream_app.outputs import Collector, DeadLetter, OutcomeRows, PredictionRows
from stream_app.records import NO_LONG, Integers, Longs, Mark, MarkKind, Metric, Reason, Side


class OpenMark(NamedTuple):
    """An `advance` mark whose twin has not been merged yet: the side it came from and its time."""

    side: Side
    time_ms: int


class Stream:
    """Join, learners with their scores, prequential sums, open marks.

    Args:
        name: The record key.
        index: Its number in the task.
        settings: Its learners and dimension.
        task: Bounds and intervals.
        learner_numbers: The task's number of each of its learners, in their order.
    """

    def __init__(
        self, name: str, index: int, settings: StreamSettings, task: TaskSettings, learner_numbers: Sequence[int]
    ) -> None:
        self.name = name
        self.features = 0
        self.learner_names = tuple(settings.learners)
        self.learners: Sequence[Learner] = ()
        self._index = index
        self._settings = settings
        self._task = task
        self._numbers = np.array(learner_numbers, np.int32)
        self._join = StreamJoin(task.join, task.metrics.every_labels, 0)
        self._join.champion = self.learner_names.index(settings.champion)
        self._prequential = [Prequential(task.metrics.fading_factor) for _ in self.learner_names]
        self._changes = [
            ChangeMonitor(task.metrics.change_detector, task.metrics.fading_factor) for _ in self.learner_names
        ]
        # by learner and slot: what was predicted for the example there
        self._scores = np.zeros((len(self.learner_names), 0), np.float32)
        self._classes = np.zeros((len(self.learner_names), 0), np.int8)
        self._open_marks: dict[OpenMark, None] = {}
        self._waiting: dict[int, OriginalRecord] = {}
        if settings.features:
            self.set_features(settings.features)

    def set_features(self, features: int) -> None:
        """Fix the dimension, by configuration or the first example: now the learners can be built."""
        self.features = features
        self._join.set_features(features)
        self.learners = [
            build(name, settings, features, seed_of(self._task.application_id, self.name, name))
            for name, settings in self._settings.learners.items()
        ]

    def run(self, batch: Batch, positions: Integers, collector: Collector) -> None:
        """Apply the stream's records of a batch; data runs in segments between the marks.

        Args:
            batch: The batch.
            positions: int32, those of this stream, ascending.
            collector: Takes what comes out.
        """
        begin = 0
        for place, mark in batch.marks(positions):
            self._run_data(batch, positions[begin:place], collector)
            self._run_mark(batch, mark, int(positions[place]), collector)
            begin = place + 1
        self._run_data(batch, positions[begin:], collector)

    def _run_data(self, batch: Batch, positions: Integers, collector: Collector) -> None:
        if len(positions):
            self._apply(batch, self._join.run(batch.merged, positions), collector)

    def _run_mark(self, batch: Batch, mark: Mark, position: int, collector: Collector) -> None:
        if mark.kind is MarkKind.PROMOTE:
            if mark.learner in self.learner_names:
                self._join.champion = self.learner_names.index(mark.learner)
            else:
                collector.bury(position, Reason.UNKNOWN_LEARNER)
            return
        side, time_ms = Side(int(batch.merged.sides[position])), int(mark.time_ms or 0)
        twin = OpenMark(Side(1 - side), time_ms)
        if twin in self._open_marks:
            del self._open_marks[twin]
            self._apply(batch, self._join.advance(time_ms, position), collector)
            return
        self._open_marks[OpenMark(side, time_ms)] = None
        if len(self._open_marks) > self._task.join.max_open_marks_per_stream:
            del self._open_marks[next(iter(self._open_marks))]

    def _apply(self, batch: Batch, out: JoinOutput, collector: Collector) -> None:
        """Let the learners carry out what the join decided, and collect what comes of it."""
        self._reserve_slots()
        count = out.counts[OPERATIONS]
        operations = Operations(out.codes[:count], out.slots[:count], out.classes[:count])
        positions = out.positions[:count]
        answers = self._learn(operations, positions, collector)
        self._evaluate(operations, positions, out.reports, answers, collector)
        self._collect_outcomes(out, collector)
        self._collect_dead(batch, out, collector)

    def _reserve_slots(self) -> None:
        missing = len(self._join.state.states) - self._scores.shape[1]
        if missing > 0:
            self._scores = np.pad(self._scores, ((0, 0), (0, missing)))
            self._classes = np.pad(self._classes, ((0, 0), (0, missing)))

    def _learn(self, operations: Operations, positions: Integers, collector: Collector) -> Sequence[Answers]:
        state, champion = self._join.state, self._join.champion
        answers = [learner.run(operations, state.features, state.ids) for learner in self.learners]
        predicted = np.flatnonzero(operations.codes == PREDICT)
        if not len(predicted):
            return answers
        slots, ids = operations.slots[predicted], state.ids[operations.slots[predicted]]
        for number, answer in enumerate(answers):
            scores, labels = answer.scores[predicted], answer.labels[predicted]
            self._scores[number, slots] = scores
            self._classes[number, slots] = labels
            if number == champion or self._task.predictions == "all":
                learner, versions = int(self._numbers[number]), answer.versions[predicted]
                rows = PredictionRows(self._index, learner, ids, number == champion, scores, labels, versions)
                collector.predictions(positions[predicted], rows)
        return answers

    def _evaluate(
        self,
        operations: Operations,
        positions: Integers,
        counts: Longs,
        answers: Sequence[Answers],
        collector: Collector,
    ) -> None:
        """Score the stored predictions; a record of metrics for each learner at each report (`counts` has its row)."""
        learned = operations.codes == LEARN
        slots, truth = operations.slots[learned], operations.labels[learned]
        reported = np.flatnonzero(operations.codes == REPORT)
        before = np.cumsum(learned)[reported]
        start = [prequential.sums() for prequential in self._prequential]
        sums = [
            prequential.run(classes[slots], truth)
            for prequential, classes in zip(self._prequential, self._classes, strict=True)
        ]
        changes = [
            monitor.run(classes[slots], truth, after, before)
            for monitor, classes, after in zip(self._changes, self._classes, sums, strict=True)
        ]
        for row, (place, seen) in enumerate(zip(reported, before, strict=True)):
            if not counts[row][1]:
                continue  # no example yet, so perhaps no learner yet: where a batch was cut must not show
            for number in range(len(self.learner_names)):
                now = sums[number][seen - 1] if seen else start[number]
                metric = self._metric(number, counts[row], answers[number].reports[row], now, changes[number][row])
                collector.metric(int(positions[place]), metric)

    def _metric(
        self,
        number: int,
        counts: Longs,
        report: NDArray[np.float64],
        sums: NDArray[np.float64],
        change: Change,
    ) -> Metric:
        recall, specificity, gmean = scores_of(sums)
        labelled, examples, unlabelled, evicted, duplicates, pending, waiting = (int(count) for count in counts[:7])
        delays = [None if delay == NO_LONG else int(delay) for delay in counts[7:10]]
        return Metric(
            stream=self.name,
            learner=self.learner_names[number],
            champion=number == self._join.champion,
            labelled=labelled,
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
            examples=examples,
            unlabelled=unlabelled,
            evicted=evicted,
            duplicates=duplicates,
            pending=pending,
            waiting=waiting,
            delay_ms_p50=delays[0],
            delay_ms_p90=delays[1],
            delay_ms_p99=delays[2],
            changes=change.changes,
            change_flagged=change.flagged,
            change_began=change.began,
            gmean_before=change.gmean_before,
            labels_to_recover=change.labels_to_recover,
        )

    def _collect_outcomes(self, out: JoinOutput, collector: Collector) -> None:
        count = out.counts[OUTCOMES]
        if not count:
            return
        slots = out.outcome_slots[:count]
        predicted = slots >= 0
        champions = self._join.state.champions[slots]
        rows = OutcomeRows(
            stream=self._index,
            kinds=out.outcome_kinds[:count],
            ids=out.outcome_ids[:count],
            labels=out.outcome_labels[:count],
            learners=np.where(predicted, self._numbers[champions], np.int32(-1)),
            scores=np.where(predicted, self._scores[champions, slots], np.float32(np.nan)),
            delays=out.outcome_delays[:count],
            examples=out.outcome_examples[:count],
            label_offsets=out.outcome_label_offsets[:count],
        )
        collector.outcomes(out.outcome_positions[:count], rows)

    def _collect_dead(self, batch: Batch, out: JoinOutput, collector: Collector) -> None:
        counts = out.counts
        for at in range(counts[PARKED]):
            self._waiting[int(out.parked_slots[at])] = batch.original(int(out.parked_positions[at]))
        for at in range(counts[DEAD]):
            position, slot = int(out.dead_positions[at]), int(out.dead_slots[at])
            reason = Reason(int(out.dead_reasons[at]))
            if slot < 0:
                collector.bury(position, reason)
            else:
                collector.dead(position, DeadLetter(reason, self._waiting[slot]))
        for at in range(counts[RELEASED]):
            del self._waiting[int(out.released_slots[at])]


def seed_of(application_id: str, stream: str, learner: str) -> bytes:
    """32 bytes that seed a learner: SHA-256 of application, stream and learner, each with its length before it."""
    parts = (part.encode() for part in (application_id, stream, learner))
    return hashlib.sha256(b"".join(struct.pack("<I", len(part)) + part for part in parts)).digest()
