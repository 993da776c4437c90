"""Looks at the tasks of a worker and at their streams between rounds, in short slices of time.

The labels and the changes of each stream are watched for the log, and for `/metrics` if it is served. The other figures
are taken for `/metrics` alone. No record costs anything: each slice reads counters that the tasks keep anyway.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.backends.base import Clock, Source
from stream_app.config import Config
from stream_app.pipeline.degradation import CHANGES
from stream_app.pipeline.prequential import scores_of
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.watched.label_flow import LabelFlow, flow_of
from stream_app.pipeline.watched.table_use import use_of
from stream_app.task_state import TaskState
from stream_app.worker.observer import WARNING_INTERVAL_S, Observer
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.pages import metrics
from stream_app.worker.pages.lag import Lag
from stream_app.worker.pages.metrics import INPUTS, PUBLISHED_STREAMS
from stream_app.worker.retention.old_event_times import OldEventTimes

LOOK_INTERVAL_S = 1.0
"""Time between two slices."""

LOOK_SLICE_S = 0.02
"""Longest slice, exceeded by at most one stream; the next slice takes the rest. Some hundred streams take as long."""

LINES_PER_INTERVAL = 5
"""Lines about changes in `WARNING_INTERVAL_S`: enough for all learners of a stream.

A drift is often flagged for all learners of many streams at once; the topic `metrics` and `/metrics` have every change.
"""


class _Left(NamedTuple):
    """A stream that this pass has still to look at."""

    task: OwnedTask
    stream: str


@dataclass(slots=True)
class _Pass:
    """What a pass over all streams has found in one task so far: entries by table, and the largest shares.

    `is_first` says whether the task was not live in the pass before.
    """

    is_first: bool
    entries: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("pending", "waiting", "closed"), 0))
    used: dict[str, float] = field(default_factory=dict)


class _Model(NamedTuple):
    """Identifies what one learner has learned from one stream of a task."""

    task: OwnedTask
    stream: str
    learner: str


class _FlaggedChanges:
    """Compares the number of changes of each model with its last one, and reports an increase.

    Args:
        clock: Measures the interval.
        observer: Writes the lines.
    """

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self._clock = clock
        self._observer = observer
        self._known: dict[_Model, int] = {}  # without the models that have no change
        self._began_s = clock.monotonic_s()
        self._lines = 0
        self._left_out = 0

    def look(self, task: OwnedTask, stream: Stream, *, is_first: bool) -> None:
        """Look at the models of a stream.

        Args:
            task: The task of the stream.
            stream: The stream.
            is_first: Whether the task has just become live: then changes that were not known before are not new.
        """
        for learner, monitor in zip(stream.learner_names, stream.changes, strict=True):
            changes = int(monitor.arrays()["change_counts"][CHANGES])
            model = _Model(task, stream.name, learner)
            before = self._known.get(model, changes if is_first else 0)
            if changes:
                self._known[model] = changes
            else:
                self._known.pop(model, None)
            if changes > before:
                self._report(model, stream, changes, changes - before)

    def _report(self, model: _Model, stream: Stream, changes: int, new: int) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._began_s >= WARNING_INTERVAL_S:
            self._began_s, self._lines = now_s, 0
        if self._lines == LINES_PER_INTERVAL:
            self._left_out += new
            return
        self._observer.change_flagged(
            model.task.number, model.stream, model.learner, stream.time_ms, changes, left_out=self._left_out
        )
        self._lines += 1
        self._left_out = 0

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget the models of all other tasks."""
        for model in [model for model in self._known if model.task not in tasks]:
            del self._known[model]


class _GuardedLearners:
    """Reports learners that met a value which a network cannot take as it stands: at most one line a minute.

    Args:
        clock: Measures the interval.
        observer: Writes the lines.
    """

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self._clock = clock
        self._observer = observer
        self._known: dict[_Model, tuple[int, int]] = {}  # without the learners that met none
        self._said_s = clock.monotonic_s() - WARNING_INTERVAL_S

    def look(self, task: OwnedTask, stream: Stream) -> None:
        """Look at the learners of a stream."""
        for number, learner in enumerate(stream.learner_names):
            guarded = stream.guarded(number)
            model = _Model(task, stream.name, learner)
            if guarded == self._known.get(model, (0, 0)):
                continue
            now_s = self._clock.monotonic_s()
            if any(guarded) and now_s - self._said_s < WARNING_INTERVAL_S:
                continue  # the next look after the interval says it
            self._known[model] = guarded
            if any(guarded):
                self._said_s = now_s
                self._observer.guarded(task.number, stream.name, learner, *guarded)

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget the learners of all other tasks."""
        for model in [model for model in self._known if model.task not in tasks]:
            del self._known[model]


class StateWatch:
    """Looks at each task once a second, and at each stream in turn.

    Args:
        config: The whole configuration, for the bounds of the tables.
        clock: Measures the interval and the slice.
        source: Knows the ends of the inputs.
        observer: Receives the label flow and the changes of each stream, and has the figures.
        old_times: Is shown each stream.
    """

    def __init__(
        self, config: Config, clock: Clock, source: Source, observer: Observer, old_times: OldEventTimes
    ) -> None:
        self._old_times = old_times
        self._clock = clock
        self._source = source
        self._observer = observer
        self._max_unlabelled_share = config.worker.max_unlabelled_share
        self._max_streams = config.limits.max_streams_per_task
        self._join = join = config.join
        self._bounds: Mapping[str, int] = {
            "pending": join.max_pending_per_stream,
            "waiting": join.max_waiting_per_stream,
            "waiting-bytes": join.max_waiting_bytes_per_stream,
            "closed": join.max_closed_per_stream,
        }
        self._due_s = 0.0
        self._left: list[_Left] = []
        self._passes: dict[OwnedTask, _Pass] = {}
        self._lags: dict[OwnedTask, tuple[Lag, Lag]] = {}
        self._published: dict[OwnedTask, set[str]] = {}
        self._flagged = _FlaggedChanges(clock, observer)
        self._guarded = _GuardedLearners(clock, observer)

    def look(self, tasks: Sequence[OwnedTask]) -> None:
        """Continue where the last slice ended; after all streams, the next slice starts with the first again."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_INTERVAL_S
        self._forget(tasks)
        if self._observer.publishes:
            for task in tasks:
                self._look_at_task(task, now_s)
        if not self._left:
            self._begin_pass(tasks)
        while self._left and self._clock.monotonic_s() < now_s + LOOK_SLICE_S:
            task, name = self._left.pop()
            if task in tasks and task.state is TaskState.LIVE:
                self._look_at_stream(task, task.live.task.stream(name))
        self._old_times.report()

    def _forget(self, tasks: Sequence[OwnedTask]) -> None:
        """Forget tasks that were revoked or are restored again, and streams of tasks that are not live."""
        for task in self._published.keys() - {task for task in tasks if task.state is TaskState.LIVE}:
            del self._published[task]
            self._observer.figures.drop_streams(task.number)
        for task in self._lags.keys() - {*tasks}:
            del self._lags[task]
        gone = self._passes.keys() - {*tasks}
        if gone:
            self._passes = {task: found for task, found in self._passes.items() if task not in gone}
            self._left = [left for left in self._left if left.task not in gone]  # it may come back in this pass
        self._flagged.keep(tasks)
        self._guarded.keep(tasks)
        self._old_times.keep(tasks)

    # Tasks ----------------------------------------------------------------------------------------------------------

    def _look_at_task(self, task: OwnedTask, now_s: float) -> None:
        figures = self._observer.figures
        lags = self._lags.setdefault(task, (Lag(), Lag()))
        for name, place, offset, waiting, lag in zip(
            INPUTS, task.inputs, task.offsets, task.waiting, lags, strict=True
        ):
            end = max(offset + len(waiting), self._source.known_end(place) or 0)
            seconds = lag.look(offset, end, now_s)
            figures.set(metrics.LAG_RECORDS, end - offset, task.number, name)
            figures.set(metrics.LAG_SECONDS, seconds, task.number, name)
        if task.state is TaskState.LIVE:
            figures.set(metrics.UNSAVED_WORK, task.live.snapshots.worked_s, task.number)

    # Streams --------------------------------------------------------------------------------------------------------

    def _begin_pass(self, tasks: Sequence[OwnedTask]) -> None:
        """Publish what the last pass has found in each task, and begin the next one."""
        if self._observer.publishes:
            for task, found in self._passes.items():
                if task in tasks and task.state is TaskState.LIVE:
                    self._publish_tables(task, found)
        live = [task for task in tasks if task.state is TaskState.LIVE]
        self._passes = {task: _Pass(is_first=task not in self._passes) for task in live}
        self._left = [_Left(task, name) for task in self._passes for name in reversed(task.live.task.stream_names)]

    def _publish_tables(self, task: OwnedTask, found: _Pass) -> None:
        figures, streams = self._observer.figures, len(task.live.task.stream_names)
        for table, entries in {**found.entries, "streams": streams}.items():
            figures.set(metrics.TABLE_ENTRIES, entries, task.number, table)
        for table, share in {**found.used, "streams": streams / self._max_streams}.items():
            figures.set(metrics.TABLE_USED, share, task.number, table)
        left_out = streams - len(self._published.get(task, ()))
        figures.set(metrics.STREAMS_LEFT_OUT, left_out, task.number)

    def _look_at_stream(self, task: OwnedTask, stream: Stream) -> None:
        flow = flow_of(stream.join)
        problem = flow.problem(self._max_unlabelled_share)
        missing = self._observer.labels(task.number, stream.name, problem, stream.labelled)
        self._observer.tables(task.number, stream.name, use_of(stream.join, flow).crowding(self._join))
        self._flagged.look(task, stream, is_first=self._passes[task].is_first)
        self._guarded.look(task, stream)
        self._old_times.look(task, stream, is_first=self._passes[task].is_first)
        if self._observer.publishes:
            self._look_at_tables(self._passes[task], stream)
            if self._admit(task, stream.name):
                self._publish_labels(task.number, stream.name, flow, missing=missing)
                self._publish_learners(task.number, stream)

    def _admit(self, task: OwnedTask, name: str) -> bool:
        """Say whether a stream has figures of its own; the first streams have."""
        mine = self._published.setdefault(task, set())
        if name not in mine and sum(map(len, self._published.values())) < PUBLISHED_STREAMS:
            mine.add(name)
        return name in mine

    def _look_at_tables(self, found: _Pass, stream: Stream) -> None:
        for (table, bound), size in zip(self._bounds.items(), stream.join.sizes, strict=True):
            if table in found.entries:
                found.entries[table] += size
            if bound:
                found.used[table] = max(found.used.get(table, 0.0), size / bound)

    def _publish_labels(self, task: int, stream: str, flow: LabelFlow, *, missing: bool) -> None:
        figures = self._observer.figures
        figures.set(metrics.LABELS_MISSING, missing, task, stream)
        for metric, value_ms in (
            (metrics.LABEL_SILENCE, flow.silence_ms),
            (metrics.LABEL_DELAY, flow.usual_delay_ms),
        ):
            if value_ms is not None:
                figures.set(metric, value_ms / 1000, task, stream)
        if flow.unlabelled_share is not None:
            figures.set(metrics.UNLABELLED_SHARE, flow.unlabelled_share, task, stream)

    def _publish_learners(self, task: int, stream: Stream) -> None:
        figures = self._observer.figures
        champion = stream.learner_names[stream.join.champion]
        for number, (name, sums, monitor) in enumerate(
            zip(stream.learner_names, stream.prequential, stream.changes, strict=True)
        ):
            at = task, stream.name, name
            guards = metrics.LIMITED_EXAMPLES, metrics.REFUSED_STEPS
            for guard, times in zip(guards, stream.guarded(number), strict=True):
                figures.set(guard, times, *at)
            figures.set(metrics.CHAMPION, name == champion, *at)
            figures.set(metrics.CHANGES, float(monitor.arrays()["change_counts"][CHANGES]), *at)
            scores = scores_of(sums.sums())
            for metric, score in zip((metrics.RECALL, metrics.SPECIFICITY, metrics.GMEAN), scores, strict=True):
                if score is not None:
                    figures.set(metric, score, *at)
