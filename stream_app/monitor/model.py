"""Compute the figures of a running application from its decoded records; pure, and bounded in memory.

Times are given: event time in milliseconds, and the moments of updates in seconds of any clock that never decreases.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stream_app.monitor.drift import DriftReader
from stream_app.monitor.figures import LiveFigures, StreamFigures
from stream_app.monitor.lanes import NO_LANES, Lanes, sum_of_lanes
from stream_app.progress_records import Act, Commit
from stream_app.records import Metric, Outcome, OutcomeKind, Prediction

MAX_STREAMS = 1_000
"""Streams that are kept by default: with 16 learners each, some 20 MB."""

MAX_REASONS = 20
"""Reasons of dead letters that are counted: more than there are, unless another program writes to the topic."""

WINDOW_S = 10.0
"""Time over which rates are measured: long enough for the pauses between commits, short enough to see a stop."""

_LEAST_WINDOW_S = 0.5
"""Over a shorter time, a rate would say little."""

_TICK_S = 0.25
"""Least time between two moments that are kept: with it, a window has a bounded number of them."""

JOINED = OutcomeKind.JOINED.name.lower()


class _Ticks:
    """The moments of the last updates, between which rates are measured."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=int(WINDOW_S / _TICK_S) + 2)

    def add(self, now_s: float) -> None:
        """Add the moment of an update."""
        if not self._times or now_s - self._times[-1] >= _TICK_S:
            self._times.append(now_s)

    @property
    def newest_s(self) -> float | None:
        """The newest moment; None before the first."""
        return self._times[-1] if self._times else None

    def window(self) -> tuple[float, float] | None:
        """Return begin and end of the last `WINDOW_S` seconds, as two of the moments; None: too little time passed.

        If updates are rarer, it is the time between the last two.
        """
        if len(self._times) < 2:
            return None
        *earlier, end_s = self._times
        begin_s = next((time_s for time_s in earlier if time_s >= end_s - WINDOW_S), earlier[-1])
        return None if end_s - begin_s < _LEAST_WINDOW_S else (begin_s, end_s)


class _Rate:
    """Counts events of one kind by the moment of the update that found them."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque(maxlen=int(WINDOW_S / _TICK_S) + 2)

    def add(self, tick_s: float) -> None:
        """Count one event."""
        count = self._counts.pop()[1] if self._counts and self._counts[-1][0] == tick_s else 0
        self._counts.append((tick_s, count + 1))

    def per_second(self, window: tuple[float, float]) -> float:
        """Return the events per second: those found after the begin of a window, up to its end."""
        begin_s, end_s = window
        return sum(count for tick_s, count in self._counts if tick_s > begin_s) / (end_s - begin_s)


class _Example(NamedTuple):
    """The newest example of a stream: the last by offset, since a time may be wrong."""

    task: int
    offset: int
    time_ms: int


@dataclass(slots=True)
class _Stream:
    """What is kept of one stream."""

    task: int | None = None
    learners: dict[str, Metric] = field(default_factory=dict)
    metrics: int = 0
    numbers: dict[str, int] = field(default_factory=dict)  # of the newest metric of each learner
    joined: _Rate = field(default_factory=_Rate)
    dead_letters: int = 0
    newest_example: _Example | None = None
    predicted_ms: int | None = None

    def add_metric(self, metric: Metric) -> None:
        """Add a metric, and forget a learner that the metrics have left out twice: it is no longer configured."""
        self.metrics += 1
        self.numbers[metric.learner] = self.metrics
        for name in [name for name, number in self.numbers.items() if self.metrics - number > 2 * len(self.numbers)]:
            del self.learners[name], self.numbers[name]
        self.learners[metric.learner] = metric


class LiveModel:
    """The figures of the streams of one application.

    The streams are the configured streams and the streams that have an output. Examples and dead letters of other names
    add none: their producers may write any name. What is added of a lane is also added of its stream, as a sum.

    Args:
        streams: Names of the streams that are known already.
        max_streams: How many streams are kept.
        drift: Reads drift from metrics, with the names of columns.
        lanes: The lanes of streams.
    """

    def __init__(
        self,
        streams: Iterable[str] = (),
        max_streams: int = MAX_STREAMS,
        drift: DriftReader | None = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        self._max_streams = max_streams
        self._drift = drift or DriftReader({})
        self._lanes = lanes
        self._lane_of = {name: stream for stream, names in lanes.names.items() for name in names}
        known = list(dict.fromkeys([*lanes.names, *streams]))[:max_streams]
        self._streams: dict[str, _Stream] = {name: _Stream() for name in known}
        self._has_older_dead_letters = False
        self._ticks = _Ticks()
        self._commits: dict[int, Commit] = {}
        self._unassigned: Counter[str] = Counter()
        self._left_out = 0
        self._skipped = 0

    def tick(self, now_s: float) -> None:
        """Note the time of an update; what is added next has arrived since the previous update.

        What is added before the first tick was in the topics already, and does not count in rates.
        """
        self._ticks.add(now_s)

    def note_older_dead_letters(self) -> None:
        """Note that there are dead letters that will not be added."""
        self._has_older_dead_letters = True

    def note_skipped(self, records: int) -> None:
        """Count records that are not added."""
        self._skipped += records

    def add_example(self, stream: str, task: int, offset: int, time_ms: int) -> None:
        """Add an example of the input; `time_ms` is its event time."""
        known = self._streams.get(stream)
        if known is not None:
            known.newest_example = _Example(task, offset, time_ms)
        if (above := self._lane_of.get(stream)) is not None:
            self.add_example(above, task, offset, time_ms)

    def add_prediction(self, prediction: Prediction, task: int) -> None:
        """Add a prediction of any learner."""
        known = self._add_output(prediction.stream, task)
        if known is not None:
            known.predicted_ms = prediction.event_time_ms
        if (above := self._lane_of.get(prediction.stream)) is not None:
            self.add_prediction(replace(prediction, stream=above), task)

    def add_outcome(self, outcome: Outcome, task: int) -> None:
        """Add an outcome."""
        known = self._add_output(outcome.stream, task)
        tick_s = self._ticks.newest_s
        if known is not None and tick_s is not None and outcome.outcome == JOINED:
            known.joined.add(tick_s)
        if (above := self._lane_of.get(outcome.stream)) is not None:
            self.add_outcome(replace(outcome, stream=above), task)

    def add_metric(self, metric: Metric, task: int) -> None:
        """Add a metric."""
        known = self._add_output(metric.stream, task)
        if known is not None:
            known.add_metric(metric)
        if (above := self._lane_of.get(metric.stream)) is not None:
            self.add_metric(self._sum(above, metric.learner), task)

    def _sum(self, stream: str, learner: str) -> Metric:
        """Return the metric of a learner over all lanes of a stream, one of which has just got a metric."""
        lanes = (self._streams[name].learners for name in self._lanes.names[stream] if name in self._streams)
        newest = [learners[learner] for learners in lanes if learner in learners]
        return sum_of_lanes(stream, newest, self._lanes.prevalence_fading)

    def add_dead_letter(self, stream: str, reason: str, task: int) -> None:
        """Add a dead letter; `stream` is what its key says."""
        if stream in self._streams:
            known = self._add_output(stream, task)
            if known is not None:
                known.dead_letters += 1
            if (above := self._lane_of.get(stream)) is not None:
                self.add_dead_letter(above, reason, task)
        elif reason in self._unassigned or len(self._unassigned) < MAX_REASONS:
            self._unassigned[reason] += 1

    def add_progress(self, task: int, record: Commit | Act) -> None:
        """Add a record of the progress of a task."""
        if isinstance(record, Commit):
            self._commits[task] = record

    def _add_output(self, stream: str, task: int) -> _Stream | None:
        known = self._streams.get(stream)
        if known is None:
            if len(self._streams) >= self._max_streams:
                self._left_out += 1
                return None
            known = self._streams[stream] = _Stream()
        known.task = task
        return known

    def ends(self, task: int) -> tuple[int, int]:
        """Return the offsets (examples, labels) up to which a task has committed; (0, 0) if nothing is known."""
        commit = self._commits.get(task)
        return (0, 0) if commit is None else (commit.examples_end, commit.labels_end)

    def is_stopped(self, stream: str) -> bool:
        """Say whether the breaker has stopped a stream, or a lane of the stream."""
        names = {stream, *self._lanes.names.get(stream, ())}
        return any(not names.isdisjoint(commit.stops) for commit in self._commits.values())

    def figures(self, problems: Iterable[str] = ()) -> LiveFigures:
        """Return all figures as of the newest tick; `problems` are lines about what cannot be read."""
        stopped = (
            f"task {task}: stream {stream!r} is stopped: {reason}"
            for task, commit in sorted(self._commits.items())
            for stream, reason in commit.stops.items()
        )
        return LiveFigures(
            streams=tuple(self._figures(name) for name in sorted(self._streams)),
            unassigned=dict(self._unassigned.most_common()),
            left_out=self._left_out,
            skipped=self._skipped,
            problems=(*problems, *stopped),
        )

    def _figures(self, name: str) -> StreamFigures:
        known, window = self._streams[name], self._ticks.window()
        lanes = [self._streams[lane] for lane in self._lanes.names.get(name, ()) if lane in self._streams]
        drifted = self._farthest(lanes or [known])
        return StreamFigures(
            stream=name,
            task=None if lanes else known.task,
            learners=tuple(
                sorted(known.learners.values(), key=lambda learner: (not learner.champion, learner.learner))
            ),
            labelled_per_s=None if window is None else known.joined.per_second(window),
            lag_ms=max((lag for lane in lanes or [known] if (lag := self._lag_ms(lane)) is not None), default=None),
            dead_letters=known.dead_letters,
            dead_letters_are_all=not self._has_older_dead_letters,
            example_ms=None if known.newest_example is None else known.newest_example.time_ms,
            predicted_ms=known.predicted_ms,
            drift=None if drifted is None else self._drift.read(drifted),
            largest_feature_column=None if drifted is None else self._drift.column(drifted),
            lane_of=self._lane_of.get(name),
        )

    def _farthest(self, streams: Iterable[_Stream]) -> Metric | None:
        """Return the champion's newest metric of the stream, or of the lane that is farthest from its reference."""
        champions = [metric for known in streams for metric in known.learners.values() if metric.champion]
        return max(champions, key=lambda metric: metric.largest_feature_psi or 0.0, default=None)

    def _lag_ms(self, known: _Stream) -> int | None:
        """Return the lag of a stream in event time; see the glossary."""
        newest = known.newest_example
        if newest is None:
            return None
        if newest.offset < self.ends(newest.task)[0]:
            return 0
        return None if known.predicted_ms is None else max(0, newest.time_ms - known.predicted_ms)
