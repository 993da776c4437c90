"""The streams of a task: their names, numbers and addresses, and the stretches in which they take a batch.

A batch is taken in stretches. A stretch has the records of every stream up to its next control record, which is applied
after it. Nearly all batches have no control record, and so one stretch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import NO_LONG, Floats, Integers, Longs
from stream_app.config import StreamSettings, TaskSettings, threshold_of
from stream_app.config.table_bytes import closed_bytes, row_bytes, slot_bytes
from stream_app.jit.memory import address_of
from stream_app.join.constants import MAX_EVICTIONS, Amendment, OutputKind
from stream_app.join.input import Segments
from stream_app.join.levelling import ROW_COLUMNS, arrivals_of, level_streams, open_of
from stream_app.join.output import output_of
from stream_app.join.segments import wanting
from stream_app.learners.factory import LearnerResources
from stream_app.learners.online import OnlineLearner
from stream_app.pipeline.batch import InputBatch, advance_ms
from stream_app.pipeline.erasing import erase
from stream_app.pipeline.leftovers import close
from stream_app.pipeline.outputs import Collector
from stream_app.pipeline.preparation.preparation import Preparation
from stream_app.pipeline.steps.calibrate import calibrate
from stream_app.pipeline.steps.evaluate import evaluate
from stream_app.pipeline.steps.join_and_learn import (
    answers_of,
    join_and_learn,
    keep_answers,
    learn_interpreted,
)
from stream_app.pipeline.steps.kept_records import keep_labels, pass_headers, segments_of
from stream_app.pipeline.steps.metric_rows import metric_rows
from stream_app.pipeline.steps.output_rows import Owners, output_rows
from stream_app.pipeline.steps.routed import group_by_stream, marks_by_segment
from stream_app.pipeline.steps.stretch import Joined, Stretch
from stream_app.pipeline.steps.watch_inputs import watch_inputs
from stream_app.pipeline.stream import SeedOf, Stream, TaskResources, seed_of
from stream_app.pipeline.stream_state import StreamState, load_stream
from stream_app.record_columns import COLUMNS
from stream_app.records import Cause, Mark, MarkKind, Reason, Side
from stream_app.serialization.erased_ids import ErasedIds
from stream_app.serialization.names import NameList

# Columns of the table of learners: the task's number of the learner; the addresses of its descriptor, its prequential
# sums and its change monitor (0: no monitor); whether it is not compiled, so that Python calls it; the address of
# its calibration, and of its alert share.
NUMBER, DESCRIPTOR, SUMS, CHANGES, INTERPRETED, CALIBRATION, ALERTS = 0, 1, 2, 3, 4, 5, 6
LEARNER_COLUMNS = 7

_TABLES = ("_joins", "_counts", "_dimensions", "_costs", "_drifts", "_row_bytes")
"""The arrays of `Streams` with a row for each stream, besides the table of learners."""


class Streams:
    """The streams of a task.

    Args:
        settings: Everything that changes a result.
        hash_key: `HASH_KEY_BYTES` bytes, the key of the tables of ids; no result depends on it.
        seed_of: Returns the seed of a learner.

    Attributes:
        names: The streams by number.
        learner_names: The learners of all streams by number.
        longest_name: Bytes of the longest name of a stream.
        hash_key: As given.
        seed_of: As given.
        has_costs: Whether a stream has costs.
        passed_bytes: Bytes of the largest headers that an example has passed on; 0: none has any.
    """

    def __init__(self, settings: TaskSettings, hash_key: bytes, seed_of: SeedOf = seed_of) -> None:
        self.names, self.learner_names = NameList(), NameList()
        self.longest_name = 0
        self.hash_key = hash_key
        self.seed_of = seed_of
        self._settings = settings
        self._resources = TaskResources(settings, hash_key, LearnerResources(), seed_of)
        self._learner_numbers: dict[str, int] = {}
        self._streams: list[Stream] = []
        self._index: dict[str, int] = {}
        # Tables by stream, longer than there are streams: they double when they are full.
        self._joins = np.zeros(0, np.int64)  # addresses of descriptors
        self._learners = np.zeros((0, 0, LEARNER_COLUMNS), np.int64)  # by the stream's own number of the learner
        self._counts = np.zeros(0, np.int64)  # of learners
        self._dimensions = np.zeros(0, np.int32)
        self._preparations: dict[int, Preparation] = {}
        self._costs = np.zeros((0, 2), np.float32)
        self._drifts = np.zeros((0, 2), np.int64)  # addresses; 0: the stream does not look for drift
        self._row_bytes = np.zeros((0, ROW_COLUMNS), np.int64)
        self._arrivals: int | None = None  # None: to be counted again
        self.has_costs = self._has_drift = False
        self.passed_bytes = 0

    def __len__(self) -> int:
        return len(self._streams)

    def __getitem__(self, number: int) -> Stream:
        return self._streams[number]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    @property
    def dimensions(self) -> Integers:
        """int32 `[streams]`, a copy: the number of features of each stream; 0: not known yet."""
        return self._dimensions[: len(self)].copy()

    @property
    def preparations(self) -> Mapping[int, Preparation]:
        """The columns of the streams that have any, by the number of the stream."""
        return self._preparations

    @property
    def costs(self) -> Floats:
        """float32 `[streams, 2]`: the costs of each stream's examples; NaN: none, or those of a column."""
        return self._costs[: len(self)]

    @property
    def expected_counts(self) -> Integers:
        """int32 `[streams]`, a copy: as `dimensions`, but `COLUMNS` where examples have values by column."""
        counts = self.dimensions
        if self._preparations:
            counts[list(self._preparations)] = COLUMNS
        return counts

    @property
    def table(self) -> tuple[Longs, Longs]:
        """Joins and learners by stream, for `transaction_bounds`; valid until a stream is opened."""
        return self._joins[: len(self)], self._counts[: len(self)]

    @property
    def arrivals(self) -> int:
        """The number of records that the streams have taken since each of them began."""
        if self._arrivals is None:
            self._arrivals = arrivals_of(self._joins[: len(self)])
        return self._arrivals

    @arrivals.setter
    def arrivals(self, arrivals: int) -> None:
        self._arrivals = arrivals

    @property
    def row_bytes(self) -> Longs:
        """int64 `[streams, ROW_COLUMNS]`, see `join.levelling`; valid until a stream is opened."""
        return self._row_bytes[: len(self)]

    @property
    def allocated_bytes(self) -> int:
        """The approximate memory of all streams."""
        return sum(stream.allocated_bytes for stream in self._streams)

    def number_of(self, name: str) -> int:
        """Return the number of a stream; -1: unknown."""
        return self._index.get(name, -1)

    def numbers_of(self, names: Sequence[str]) -> Integers:
        """Return int32, the numbers of streams by name; -1: unknown."""
        return np.fromiter(map(self._index.get, names, repeat(-1)), np.int32, len(names))

    def number_of_learner(self, name: str) -> int:
        """Return the number of a learner in `learner_names`; a new name gets the next number."""
        number = self._learner_numbers.get(name)
        if number is None:
            number = self._learner_numbers[name] = len(self.learner_names)
            self.learner_names.append(name)
        return number

    # Opening --------------------------------------------------------------------------------------------------------

    def open(self, name: str, settings: StreamSettings, features: int = 0, *, is_loaded: bool = False) -> Stream:
        """Begin a new stream, with its number of features if that is known; see `begin`."""
        number, learners = len(self), len(settings.learners)
        self._index[name] = number
        self.names.append(name)
        self.longest_name = max(self.longest_name, len(name.encode()))
        if number == len(self._joins) or learners > self._learners.shape[1]:
            rows = len(self._joins) if number < len(self._joins) else max(8, 2 * number)
            for table in _TABLES:
                setattr(self, table, _widened(getattr(self, table), rows))
            self._learners = _widened(self._learners, rows, max(learners, self._learners.shape[1]))
        return self.begin(number, settings, features, is_loaded=is_loaded)

    def remove(self, names: Collection[str]) -> None:
        """Remove streams; the others keep their order, and get the next free numbers."""
        count = len(self)
        kept = [number for number, name in enumerate(self.names) if name not in names]
        if len(kept) == count:
            return
        self._arrivals = None
        self.names = NameList(self.names[number] for number in kept)
        self.longest_name = max((len(name.encode()) for name in self.names), default=0)
        self._streams = [self._streams[number] for number in kept]
        self._index = {name: number for number, name in enumerate(self.names)}
        for table in (self._learners, *(getattr(self, each) for each in _TABLES)):
            table[: len(kept)] = table[kept]
        self._preparations = {
            number: self._preparations[before] for number, before in enumerate(kept) if before in self._preparations
        }

    def begin(self, number: int, settings: StreamSettings, features: int = 0, *, is_loaded: bool = False) -> Stream:
        """Begin the stream of this number, from the start: a stream that is there loses all of its state.

        If `is_loaded`, a stored state follows, and learners have no initial weights.
        """
        stream = Stream(self.names[number], settings, self._resources)
        self._streams[number : number + 1] = [stream]
        self._joins[number], self._counts[number] = stream.join.address, len(settings.learners)
        self._learners[number], self._dimensions[number] = 0, 0
        self._costs[number], self._drifts[number] = np.nan, 0
        if settings.costs is not None:
            self.has_costs = True
            self._costs[number] = [np.nan if isinstance(cost, str) else cost for cost in settings.costs.both]
        if stream.preparation is not None:
            self._preparations[number] = stream.preparation
        for k, learner in enumerate(settings.learners):
            self._learners[number, k, NUMBER] = self.number_of_learner(learner)
        self._arrivals = None
        if settings.features or features:
            self.set_features(number, settings.features or features, is_loaded=is_loaded)
        else:
            self._count_row_bytes(number)
        return stream

    def _count_row_bytes(self, number: int) -> None:
        stream = self._streams[number]
        settings, features = stream.settings, (stream.settings.features or 0, stream.features)
        before, after = (row_bytes(settings, self._settings, known) for known in features)
        counted = after.pending, before.waiting, after.closed, after.waiting - before.waiting
        self._row_bytes[number] = *counted, slot_bytes(settings, features[1]), closed_bytes(self._settings)

    def set_features(self, number: int, features: int, *, is_loaded: bool = False) -> None:
        """Fix the number of features of a stream, which builds its learners."""
        stream = self._streams[number]
        stream.set_features(features, is_loaded=is_loaded)
        self._dimensions[number] = features
        self._count_row_bytes(number)
        if stream.drift is not None:
            self._drifts[number], self._has_drift = stream.drift.addresses, True
        for k, learner in enumerate(stream.learners):
            descriptor = learner.descriptor if isinstance(learner, OnlineLearner) else None
            self._learners[number, k, DESCRIPTOR] = 0 if descriptor is None else address_of(descriptor)
            self._learners[number, k, SUMS] = stream.prequential[k].address
            self._learners[number, k, CHANGES] = stream.changes[k].address
            self._learners[number, k, INTERPRETED] = descriptor is None
            self._learners[number, k, CALIBRATION] = stream.calibrations[k].address
            self._learners[number, k, ALERTS] = stream.alerts[k].address

    # The steps of a batch -------------------------------------------------------------------------------------------

    def stretches(self, batch: InputBatch, streams: Integers, collector: Collector) -> Iterator[Stretch]:
        """Yield the stretches of a batch; the caller takes each before it asks for the next one.

        After a stretch, its other marks are applied: they change what the records after the mark meet.

        Args:
            batch: The batch.
            streams: int32, the stream of each position; -1: a dead letter.
            collector: Takes the marks that do not fit their streams, as dead letters.
        """
        positions, which, starts = group_by_stream(streams, len(self))
        begins, ends = starts[:-1].copy(), starts[1:].copy()
        marks = marks_by_segment(batch, streams, positions, which, starts)
        while len(which):
            stops, advances, at = ends.copy(), np.full(len(which), NO_LONG), np.zeros(len(which), np.int32)
            applied = []
            for segment, own in marks.items():
                index, mark = own.pop()
                stops[segment], at[segment] = index, positions[index]
                number, position = int(which[segment]), int(at[segment])
                if mark.kind is not MarkKind.ADVANCE:
                    applied.append((number, mark, position))
                elif self._streams[number].match_mark(Side(int(batch.merged.sides[position])), int(mark.time_ms or 0)):
                    advances[segment] = advance_ms(mark)
            todo = (stops > begins) | (advances != NO_LONG)
            if todo.any():
                chosen = which[todo]
                rest = begins[todo], stops[todo], positions, advances[todo], at[todo]
                yield Stretch(chosen, Segments(self._joins[chosen], *rest))
            for number, mark, position in applied:
                self._apply_mark(number, mark, position, collector)
            # Only streams that had a mark may have records after it.
            following = np.array(sorted(marks), np.intp)
            marks = {k: marks[segment] for k, segment in enumerate(following.tolist()) if marks[segment]}
            which, begins, ends = which[following], stops[following] + 1, ends[following]

    def _apply_mark(self, number: int, mark: Mark, position: int, collector: Collector) -> None:
        """Apply the mark of a stream at a position; `resume` was applied before the batch."""
        stream = self._streams[number]
        if mark.kind is MarkKind.PROMOTE and not stream.promote(mark.learner):
            collector.bury(position, Reason.UNKNOWN_LEARNER)
        elif mark.kind is MarkKind.DECIDE and not stream.decide_by(threshold_of(mark.threshold_kind, mark.threshold)):
            collector.bury(position, Reason.UNKNOWN_COSTS)
        elif mark.kind is MarkKind.ERASE:
            self._erase(number, ErasedIds(mark.stream, mark.digests or ""), position, collector)

    def _erase(self, number: int, ids: ErasedIds, position: int, collector: Collector) -> None:
        """Erase ids from a stream, because of the mark at a position."""
        old = self._streams[number]
        new = self.begin(number, old.settings, old.features)
        left, erased = erase(old, new, ids)
        close(left, self, collector, position, Cause.ERASED)
        collector.erased(erased)

    def shrink(self, number: int) -> None:
        """Build the tables of a stream again, as small as a restore does; no result depends on it."""
        old = self._streams[number]
        state = StreamState(old)
        new = self.begin(number, old.settings, old.features, is_loaded=True)
        pending, closed = state.pending_rows(state.pending_arrivals()), state.closed_rows(*state.closed_span())
        load_stream(new, dict(state.core_state()), dict(pending), dict(closed))
        new.is_new, new.amended = old.is_new, old.amended

    def join_and_learn(self, batch: InputBatch, stretch: Stretch) -> Joined:
        """Join and learn in one compiled call; let the learners learn that are not compiled; then calibrate."""
        which, segments = stretch
        growing, closings = wanting(segments)
        for segment in growing.tolist():
            self._streams[which[segment]].make_room(int(segments.ends[segment] - segments.starts[segment]))
        out, learners = output_of(segments, closings), self._learners[which]
        answers = answers_of(learners.shape[1], len(out.codes), len(out.reports))
        join_and_learn(batch.merged, segments, np.ascontiguousarray(learners[:, :, DESCRIPTOR]), out, answers)
        for segment, k in zip(*learners[:, :, INTERPRETED].nonzero(), strict=True):
            learn_interpreted(self._streams[which[segment]], k, segment, out, answers)
        if self._settings.join.corrections == "correct":
            keep_answers(segments, out)
            for row, segment in enumerate(segments_of(out, OutputKind.AMENDMENTS)):
                self._streams[which[segment]].note_amended(int(out.amendments[row, Amendment.NUMBER]))
        fading = self._settings.metrics.prevalence_fading_factor
        own = (np.ascontiguousarray(learners[:, :, CALIBRATION]), np.ascontiguousarray(learners[:, :, ALERTS]))
        calibrate(batch.merged, segments, own, fading, out, answers)
        if self._settings.join.corrections == "correct" and (out.thresholds.any() or len(batch.merged.costs)):
            keep_answers(segments, out)  # again: thresholds have decided, and costs are known
        drifts = watch_inputs(segments, self._drifts[which if self._has_drift else which[:0]], out, answers)
        return Joined(which, learners, out, answers, drifts)

    def level(self, batch: InputBatch, which: Integers, level: int, position: int, collector: Collector) -> None:
        """Let these streams, in this order, give up what they hold beyond a level, at a position of the batch."""
        count = len(which)
        nothing = np.zeros(count, np.int64)
        marks = np.full(count, position, np.int32)
        segments = Segments(self._joins[which], nothing, nothing, marks[:0], np.full(count, NO_LONG), marks)
        for segment in wanting(segments)[0].tolist():
            self._streams[which[segment]].make_room(0)  # for what its pending examples become
        open_records, _, _ = open_of(segments.joins)
        out, learners = output_of(segments, min(MAX_EVICTIONS, open_records)), self._learners[which]
        level_streams(segments, self._row_bytes[which], level, out)
        answers = answers_of(learners.shape[1], len(out.codes), 0)
        self.collect(batch, Joined(which, learners, out, answers, np.zeros((0, 0))), collector)

    def evaluate(self, result: Joined, collector: Collector) -> None:
        """Carry out the step evaluate of a stretch: score the predictions; add a record of metrics at each report."""
        which, learners, out, answers, drifts = result
        joins = self._joins[which] if self.has_costs else self._joins[:0]
        scores = evaluate(joins, learners[:, :, SUMS], learners[:, :, CHANGES], self._settings.metrics, out, answers)
        if len(scores.positions):
            owners = self._owners(which, learners)
            factors = self._settings.metrics.fading_factors
            collector.metrics(metric_rows(owners, out, answers, scores, drifts, factors))

    def _owners(self, which: Integers, learners: Longs) -> Owners:
        return Owners(which, self._counts[which], np.ascontiguousarray(learners[:, :, NUMBER]))

    def collect(self, batch: InputBatch, result: Joined, collector: Collector) -> None:
        """Hand the predictions, outcomes and dead letters of a stretch to the collector."""
        which, learners, out, answers, _ = result
        owners = self._owners(which, learners)
        every = self._settings.predictions == "all"
        predictions, outcomes = output_rows(batch.merged, owners, out, answers, every=every)
        collector.predictions(predictions)
        self.passed_bytes = max(self.passed_bytes, batch.carried.passed_bytes())
        passed = pass_headers(batch, self._streams, which, out) if self.passed_bytes else {}
        collector.outcomes(outcomes, passed)
        keep_labels(batch, self._streams, which, out, collector)


def _widened(array: NDArray[Any], *shape: int) -> NDArray[Any]:
    """Return the array with at least this many rows and columns; new ones are zero."""
    missing = [(0, max(0, wanted - had)) for wanted, had in zip(shape, array.shape, strict=False)]
    if not any(more for _, more in missing):
        return array
    return np.pad(array, [*missing, *[(0, 0)] * (array.ndim - len(missing))])
