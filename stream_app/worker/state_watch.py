"""Looks at the tasks of a worker and at their streams between rounds, in short slices of time.

The labels, tables and changes of each stream are watched for the log (`stream_watch`), and for `/metrics` if it is
served. The other figures are taken for `/metrics` alone. No record costs anything: each slice reads counters that the
tasks keep anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.backends.base import Clock, Source
from stream_app.config import Config
from stream_app.pipeline.degradation import CHANGES
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.watched.label_flow import LabelFlow, flow_of
from stream_app.pipeline.watched.table_use import NEAR, TableUse
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.lag import Lag
from stream_app.worker.reports.metrics import INPUTS, PUBLISHED_STREAMS
from stream_app.worker.reports.observer import Observer
from stream_app.worker.retention.old_event_times import OldEventTimes
from stream_app.worker.stream_watch import CrowdedStreams, DriftedStreams, Learners, MissingLabels, UnscaledStreams

LOOK_INTERVAL_S = 1.0
"""Time between two slices."""

_LOOK_SLICE_S = 0.02
"""Longest slice, exceeded by at most one stream; the next slice takes the rest. Some hundred streams take as long."""


@dataclass(slots=True)
class _Pass:
    """What a pass over all streams has found in one task so far: entries by table, and the largest shares.

    `is_first` says whether the task was not live in the pass before, `crowded` which streams make room for others.
    """

    is_first: bool
    crowded: frozenset[str]
    entries: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("pending", "waiting", "closed"), 0))
    used: dict[str, float] = field(default_factory=dict)


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
        self._opens_streams = config.unknown_streams == "model"
        self._join = join = config.join
        self._bounds: Mapping[str, int] = {
            "pending": join.max_pending_per_stream,
            "waiting": join.max_waiting_per_stream,
            "waiting-bytes": join.max_waiting_bytes_per_stream,
            "closed": join.max_closed_per_stream,
        }
        self._due_s = 0.0
        self._left: list[tuple[OwnedTask, str]] = []  # streams that this pass has still to look at
        self._passes: dict[OwnedTask, _Pass] = {}
        self._lags: dict[OwnedTask, tuple[Lag, Lag]] = {}
        self._published: dict[OwnedTask, set[str]] = {}
        self._full: set[OwnedTask] = set()  # tasks that have nearly as many streams as they may have
        self._missing = MissingLabels(observer)
        self._crowded = CrowdedStreams(observer)
        self._unscaled = UnscaledStreams(observer)
        self._drifted = DriftedStreams(observer)
        self._learners = Learners(observer)
        observer.subscribe(events.Revoked, self._revoked)

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
        while self._left and self._clock.monotonic_s() < now_s + _LOOK_SLICE_S:
            task, name = self._left.pop()
            if task in tasks and task.state is TaskState.LIVE:
                self._look_at_stream(task, task.live.task.stream(name))

    def _revoked(self, event: events.Revoked) -> None:
        for task in event.tasks:
            self._missing.forget(task)
            self._crowded.forget(task)
            self._unscaled.forget(task)
            self._drifted.forget(task)

    def _forget(self, tasks: Sequence[OwnedTask]) -> None:
        """Forget tasks that were revoked or are restored again, and streams of tasks that are not live."""
        for task in self._published.keys() - {task for task in tasks if task.state is TaskState.LIVE}:
            del self._published[task]
            self._observer.figures.drop_streams(task.number)
        for task in self._lags.keys() - {*tasks}:
            del self._lags[task]
        self._full &= {*tasks}
        gone = self._passes.keys() - {*tasks}
        if gone:
            self._passes = {task: found for task, found in self._passes.items() if task not in gone}
            self._left = [left for left in self._left if left[0] not in gone]  # it may come back in this pass
        self._learners.keep(tasks)
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
            figures.set(metrics.LAG_RECORDS, end - offset, task=task.number, input=name)
            figures.set(metrics.LAG_SECONDS, seconds, task=task.number, input=name)
        if task.state is TaskState.LIVE:
            figures.set(metrics.UNSAVED_WORK, task.live.snapshots.worked_s, task=task.number)

    # Streams --------------------------------------------------------------------------------------------------------

    def _begin_pass(self, tasks: Sequence[OwnedTask]) -> None:
        """Publish what the last pass has found in each task, and begin the next one."""
        if self._observer.publishes:
            for task, found in self._passes.items():
                if task in tasks and task.state is TaskState.LIVE:
                    self._publish_tables(task, found)
        live = [task for task in tasks if task.state is TaskState.LIVE]
        self._passes = {task: _Pass(task not in self._passes, task.live.task.pool.crowded()) for task in live}
        self._left = [(task, name) for task in self._passes for name in reversed(task.live.task.stream_names)]
        for task in self._passes:
            self._look_at_bound(task)

    def _look_at_bound(self, task: OwnedTask) -> None:
        """Report once that a task has nearly as many streams as it may have."""
        streams = len(task.live.task.stream_names)
        if not self._opens_streams or streams < NEAR * self._max_streams:
            self._full.discard(task)
        elif task not in self._full:
            self._full.add(task)
            self._observer.emit(events.StreamsNearBound(task.number, streams, self._max_streams))

    def _publish_tables(self, task: OwnedTask, found: _Pass) -> None:
        figures, streams = self._observer.figures, len(task.live.task.stream_names)
        for table, entries in {**found.entries, "streams": streams}.items():
            figures.set(metrics.TABLE_ENTRIES, entries, task=task.number, table=table)
        shares = {**found.used, "streams": streams / self._max_streams, "pool": task.live.task.pool.used_share}
        for table, share in shares.items():
            figures.set(metrics.TABLE_USED, share, task=task.number, table=table)
        left_out = streams - len(self._published.get(task, ()))
        figures.set(metrics.STREAMS_LEFT_OUT, left_out, task=task.number)

    def _look_at_stream(self, task: OwnedTask, stream: Stream) -> None:
        flow = flow_of(stream.join)
        problem = flow.problem(self._max_unlabelled_share)
        number, figures = task.number, self._observer.figures
        missing = self._missing.look(number, stream.name, problem, stream.labelled)
        figures.set(metrics.STREAMS_WITHOUT_LABELS, self._missing.streams(number), task=number)
        is_pool_full = stream.name in self._passes[task].crowded
        crowding = TableUse.of(stream.join, flow).crowding(self._join, is_pool_full=is_pool_full)
        self._crowded.look(number, stream.name, crowding)
        figures.set(metrics.CROWDED_STREAMS, self._crowded.streams(number), task=number)
        self._unscaled.look(number, stream)
        self._drifted.look(number, stream)
        self._learners.look(task, stream, is_first=self._passes[task].is_first)
        self._old_times.look(task, stream, is_first=self._passes[task].is_first)
        if self._observer.publishes:
            self._look_at_tables(self._passes[task], stream)
            if self._admit(task, stream.name):
                self._publish_labels(task.number, stream.name, flow, missing=missing)
                self._publish_drift(task.number, stream)
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
        figures.set(metrics.LABELS_MISSING, missing, task=task, stream=stream)
        for metric, value_ms in (
            (metrics.LABEL_SILENCE, flow.silence_ms),
            (metrics.LABEL_DELAY, flow.usual_delay_ms),
        ):
            if value_ms is not None:
                figures.set(metric, value_ms / 1000, task=task, stream=stream)
        if flow.unlabelled_share is not None:
            figures.set(metrics.UNLABELLED_SHARE, flow.unlabelled_share, task=task, stream=stream)

    def _publish_drift(self, task: int, stream: Stream) -> None:
        if stream.drift is None:
            return
        found = stream.drift.figures
        for metric, value in (
            (metrics.SCORE_PSI, found.score_psi),
            (metrics.LARGEST_FEATURE_PSI, found.feature_psi),
            (metrics.FEATURES_DRIFTED, found.features_drifted),
        ):
            if value is None:  # another champion, or a reset, has ended the reference
                self._observer.figures.unset(metric, task=task, stream=stream.name)
            else:
                self._observer.figures.set(metric, value, task=task, stream=stream.name)

    def _publish_learners(self, task: int, stream: Stream) -> None:
        figures = self._observer.figures
        champion = stream.learner_names[stream.join.champion]
        for number, (name, sums, monitor) in enumerate(
            zip(stream.learner_names, stream.prequential, stream.changes, strict=True)
        ):
            labels: dict[str, str | int] = {"task": task, "stream": stream.name, "learner": name}
            guards = metrics.LIMITED_EXAMPLES, metrics.REFUSED_STEPS
            for guard, times in zip(guards, stream.guarded(number), strict=True):
                figures.set(guard, times, **labels)
            figures.set(metrics.CHAMPION, name == champion, **labels)
            figures.set(metrics.CHANGES, float(monitor.arrays()["change_counts"][CHANGES]), **labels)
            window = sums.main_window
            for metric, score in (
                (metrics.RECALL, window.recall),
                (metrics.SPECIFICITY, window.specificity),
                (metrics.PRECISION, window.precision),
                (metrics.ROC_AUC, window.roc_auc),
                (metrics.COST_PER_EXAMPLE, window.cost_per_example),
                (metrics.CALIBRATION_ERROR, stream.calibrations[number].error),
                (metrics.GMEAN, window.gmean),
            ):
                if score is not None:
                    figures.set(metric, score, **labels)
