"""Reports what the worker does: log lines for operators, figures for `/metrics`. Repeated warnings are rate-limited."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from stream_app import events
from stream_app.backends.base import Clock, TopicPartition
from stream_app.backends.partitioner import Misplaced
from stream_app.config.memory_bound import MemoryBound
from stream_app.errors import StateError
from stream_app.live.live_task import BatchCounts
from stream_app.pipeline.outputs import OUTPUT_TOPICS, DeadCount, Erased
from stream_app.pipeline.watched.table_use import Crowding
from stream_app.record_columns import OutputRecords
from stream_app.records import Reason
from stream_app.snapshot.stops import MAX_NAMED_STOPS, resume_hint
from stream_app.task_state import TaskState
from stream_app.worker.pages import metrics
from stream_app.worker.pages.figures import Figures
from stream_app.worker.pages.metrics import INPUTS
from stream_app.worker.stream_warnings import INTERVAL_S, CrowdedStreams, MissingLabels

REASON_HEADER = "areba.reason"

REPORT_INTERVAL_S = 10.0

STEP_LIMIT_S = 60.0
"""Longest step of a worker that counts as alive: a batch takes 0.2 s, a restore slice one second."""

WARNING_INTERVAL_S = INTERVAL_S
"""Time between two warnings of one kind; the later one includes the count of everything in between."""


class Place(NamedTuple):
    """Locates a dead letter for `areba dlq show`: partition and offset in the dead-letters topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


def last_places(task: int, records: OutputRecords, offsets: Sequence[int]) -> Mapping[Reason, Place]:
    """Return the place of the last dead letter of each reason; empty unless the broker has reported all offsets.

    Args:
        task: The partition.
        records: The dead letters of a batch.
        offsets: Their offsets in the dead-letters topic.
    """
    if len(offsets) != len(records):
        return {}
    reasons = {reason.text.encode(): reason for reason in Reason}
    found: dict[Reason, Place] = {}
    for row, offset in enumerate(offsets):
        ours = dict(records.headers[row])  # the worker's headers follow the producer's
        found[reasons[ours[REASON_HEADER] or b""]] = Place(task, offset)
    return found


@dataclass(slots=True)
class _Buried:
    """Dead letters of one reason since its last warning, and the last of them."""

    warned_s: float
    count: int = 0
    last: DeadCount | None = None
    task: int = -1
    place: Place | None = None


def _begin_counters(figures: Figures, task: int) -> None:
    """Begin the counters of a task at 0: to Prometheus, the first value of a counter is no increase."""
    for counter in (metrics.MISPLACED_RECORDS, metrics.SNAPSHOTS, metrics.SNAPSHOT_BYTES):
        figures.add(counter, 0, task)
    figures.set(metrics.MISPLACED_STREAMS, 0, task)
    for name in INPUTS:
        figures.add(metrics.INPUT_RECORDS, 0, task, name)
    for topic in OUTPUT_TOPICS:
        figures.add(metrics.OUTPUT_RECORDS, 0, task, topic)
    for reason in Reason:
        figures.add(metrics.DEAD_LETTERS, 0, task, reason.text)


class Observer:
    """Writes what happens to the log and keeps the figures for `/metrics`.

    Args:
        clock: Limits the rate of repeated lines.
        logger: Receives the lines; by default `areba.worker`.

    Attributes:
        figures: What `/metrics` publishes.
        publishes: Whether the figures can be read; if not, the worker does not gather them.
    """

    publishes = False

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        self._clock = clock
        self._logger = logger or logging.getLogger("areba.worker")
        self._reported_s = clock.monotonic_s()
        self._outputs = 0
        self._restore_reported_s: dict[int, float] = {}
        self._allocated: dict[int, int] = {}
        self._offsets: dict[int, tuple[int, int]] = {}
        self._misplaced: set[int] = set()  # tasks that have been logged
        self._saving_bytes: dict[int, int] = {}
        self._buried: dict[Reason, _Buried] = {}
        self._missing = MissingLabels(self._logger)
        self._crowded = CrowdedStreams(self._logger)
        self._untraced = 0
        self._untraced_said_s: float | None = None
        self.figures = Figures()
        self.figures.add(metrics.ABORTED_TRANSACTIONS, 0)

    def step(self, what: str, limit_s: float = STEP_LIMIT_S) -> AbstractContextManager[None]:  # noqa: ARG002  (subclasses)
        """Enclose a piece of work that does not wait for a broker, such as a batch or a restore slice."""
        return nullcontext()

    def progressed(self) -> None:
        """Record that the current step made progress."""

    def cut_off(self, cause: str) -> None:
        """Record that no broker can be reached, and why, as far as the clients say."""

    def round_ended(self, silence_s: float) -> None:  # noqa: ARG002  (for subclasses)
        """Record the end of a round, with or without a commit, and the seconds since a broker last answered."""
        now_s = self._clock.monotonic_s()
        for reason, buried in self._buried.items():
            if buried.count and now_s - buried.warned_s >= WARNING_INTERVAL_S:
                self._warn_of_dead(reason, buried, now_s)
        self._missing.warn(now_s)
        self._crowded.warn(now_s)

    def restarted(self, *, errors: int, outages: int, was_fenced: bool) -> None:
        """Record how often the process restarted itself within the last hour, and whether it was fenced last."""
        for cause, count in (("error", errors), ("outage", outages)):
            self.figures.set(metrics.RECENT_RESTARTS, count, cause)
        self.figures.set(metrics.FENCED, was_fenced)

    def assigned(self, tasks: Sequence[int]) -> None:
        """Record that the group gave these tasks to this worker."""
        events.log(events.ASSIGNED, self._logger, tasks=_list(tasks))
        for task in tasks:
            _begin_counters(self.figures, task)

    def revoked(self, tasks: Sequence[int]) -> None:
        """Record that the group revoked these tasks."""
        events.log(events.REVOKED, self._logger, tasks=_list(tasks))
        for task in tasks:
            self._offsets.pop(task, None)
            self._saving_bytes.pop(task, None)
            self._missing.forget(task)
            self._crowded.forget(task)
            self.figures.drop_task(task)
            self._allocated.pop(task, None)

    def owned(self, task: int) -> None:
        """Record that a task must be restored; `assigned` or `aborted` has been logged before."""

    def continued(self, task: int, sequence: int, committed: tuple[int, int]) -> None:  # noqa: ARG002  (for subclasses)
        """Record that a task came back as it was: its sequence and its offsets."""
        events.log(events.CONTINUED, self._logger, task=task, sequence=sequence)

    def restoring(self, task: int, state: TaskState, offsets: tuple[int, int] | None, goal: tuple[int, int]) -> None:
        """Record a restore's progress: the task's state, and the offsets that its replay has reached."""
        now = self._clock.monotonic_s()
        if now - self._restore_reported_s.get(task, self._reported_s) >= REPORT_INTERVAL_S:
            self._restore_reported_s[task] = now
            events.log(
                events.RESTORING,
                self._logger,
                task=task,
                state=state,
                examples=offsets[0] if offsets else -1,
                labels=offsets[1] if offsets else -1,
                examples_goal=goal[0],
                labels_goal=goal[1],
            )

    def damaged(self, task: int, problem: str) -> None:
        """Record that a snapshot of a task cannot be read."""
        events.log(events.DAMAGED, self._logger, task=task, problem=problem)

    def restored(self, task: int, sequence: int, committed: tuple[int, int], snapshot: int, records: int) -> None:  # noqa: ARG002  (for subclasses)
        """Record that a task is live: its sequence and offsets, the snapshot's sequence, and the records replayed."""
        events.log(events.RESTORED, self._logger, task=task, sequence=sequence, records=records, snapshot=snapshot)

    def changed(self, task: int, lines: Sequence[str]) -> None:
        """Record which settings changed for a task since its last owner."""
        for line in lines:
            events.log(events.CHANGED, self._logger, task=task, change=line)

    def memory_bound(self, bound: MemoryBound, tasks: int, limit_bytes: int, limit_name: str) -> None:
        """Record the memory bound of a worker that owns all tasks; warn if it exceeds the limit."""
        self.figures.set(metrics.MEMORY_BOUND, bound.total(tasks))
        self.figures.set(metrics.MEMORY_LIMIT, limit_bytes)
        events.log(events.MEMORY_BOUND, self._logger, bound=bound.total(tasks), tasks=tasks, parts=bound.text(tasks))
        if bound.total(tasks) > limit_bytes:
            limits = {"bound": bound.total(tasks), "limit": limit_bytes, "limit_name": limit_name}
            events.log(events.MEMORY_ABOVE_LIMIT, self._logger, **limits)

    def allocated(self, task: int, size: int) -> None:
        """Record how many bytes the state, buffers and snapshot of a task take now."""
        self.figures.set(metrics.MEMORY_ALLOCATED, size, task)
        if 2 * size > 3 * self._allocated.get(task, 0):
            self._allocated[task] = size
            events.log(events.MEMORY_ALLOCATED, self._logger, task=task, size=size)

    def saving(self, task: int, sequence: int, size: int) -> None:
        """Record that a snapshot was taken and is being written."""
        events.log(events.SNAPSHOT_STARTED, self._logger, task=task, sequence=sequence, size=size)
        self._saving_bytes[task] = size

    def saved(self, task: int, sequence: int, *, has_purged: bool) -> None:
        """Record that a snapshot is complete in the changelog, and whether the changelog has lost what was erased."""
        for event in (events.SNAPSHOT_COMPLETE, *([events.PURGED] if has_purged else [])):
            events.log(event, self._logger, task=task, sequence=sequence)
        self.figures.add(metrics.SNAPSHOTS, 1, task)
        self.figures.add(metrics.SNAPSHOT_BYTES, self._saving_bytes.pop(task, 0), task)

    def trimmed(self, task: int, offset: int) -> None:
        """Record that progress records below this offset were deleted."""
        events.log(events.TRIMMED, self._logger, task=task, offset=offset)

    def untrimmed(self, task: int, problem: str) -> None:
        """Record that old progress records could not be deleted."""
        events.log(events.TRIM_FAILED, self._logger, task=task, problem=problem)

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Record that tasks of this worker wait for transactions that do not end in these partitions."""
        partitions = ", ".join(f"{place.topic}[{place.partition}]" for place in places)
        events.log(events.HANGING, self._logger, partitions=partitions)

    def taken_over(self, tasks: Sequence[int], transactional_id: str) -> None:
        """Record that transactions of this id, whose process is gone, were ended where these tasks wait."""
        events.log(events.TAKEN_OVER, self._logger, tasks=_list(tasks), transactional_id=transactional_id)

    def repaired(self, task: int, records: Mapping[str, int]) -> None:
        """Record how many committed but unreadable outputs were published again, by topic, or progress alone."""
        counts = " ".join(f"{topic}={count}" for topic, count in records.items()) or "progress"
        events.log(events.REPAIRED, self._logger, task=task, counts=counts)

    def wrong_topics(self, lines: Sequence[str]) -> None:
        """Record what is wrong with the topics, and what to do."""
        for line in lines:
            events.log(events.TOPICS_AT_RISK, self._logger, problem=line)

    def freed(self, tasks: Sequence[int]) -> None:
        """Record that these tasks no longer wait for a hanging transaction."""
        if tasks:
            events.log(events.UNBLOCKED, self._logger, tasks=_list(tasks))

    def parked(self, task: int, problem: StateError) -> None:
        """Record that a task was parked: it cannot be restored or processed."""
        events.log(events.PARKED, self._logger, task=task, problem=problem, code=problem.code)

    def stopped_streams(self, task: int, stops: Mapping[str, str]) -> None:
        """Record which streams of a task the breaker stopped, and why; the log names the first of many."""
        for stream, reason in islice(stops.items(), MAX_NAMED_STOPS):
            self.figures.set(metrics.STOPPED_STREAMS, 1, task, stream)
            hint = resume_hint(stream)
            events.log(events.STREAM_STOPPED, self._logger, task=task, stream=stream, problem=reason, hint=hint)

    def resumed_streams(self, task: int, streams: Sequence[str]) -> None:
        """Record that an operator resumed streams that the breaker had stopped; the log names the first of many."""
        for stream in streams[:MAX_NAMED_STOPS]:
            self.figures.set(metrics.STOPPED_STREAMS, 0, task, stream)
            events.log(events.STREAM_RESUMED, self._logger, task=task, stream=stream)

    def erased(self, task: int, every: Sequence[Erased]) -> None:
        """Record how much of a task's state marks have erased."""
        for erased in every:
            events.log(events.ERASED, self._logger, task=task, **erased._asdict())

    def stopped(self, task: int, sequence: int, models: str) -> None:
        """Record the clean stop of a task: its sequence, and the digest of its models."""
        events.log(events.STOPPED, self._logger, task=task, sequence=sequence, models=models)

    def aborted(self, problem: str) -> None:
        """Record that a transaction was aborted."""
        events.log(events.ABORTED, self._logger, problem=problem)
        self.figures.add(metrics.ABORTED_TRANSACTIONS, 1)

    def misplaced(self, task: int, found: Misplaced) -> None:
        """Record that records of a committed batch belong to other partitions."""
        self.figures.add(metrics.MISPLACED_RECORDS, found.records, task)
        self.figures.set(metrics.MISPLACED_STREAMS, found.streams, task)
        if task not in self._misplaced:
            self._misplaced.add(task)
            where = {"stream": found.stream, "partition": found.belongs_to}
            events.log(events.MISPLACED, self._logger, task=task, records=found.records, **where)

    def dropped_traces(self, task: int, records: int) -> None:
        """Record how many records of a committed batch lacked a valid trace context; their outputs carry none."""
        self._untraced += records
        now = self._clock.monotonic_s()
        if self._untraced_said_s is None or now - self._untraced_said_s >= WARNING_INTERVAL_S:
            events.log(events.TRACES_DROPPED, self._logger, task=task, records=self._untraced)
            self._untraced, self._untraced_said_s = 0, now

    def transaction_committed(self, began_s: float) -> None:
        """Record that a transaction was committed that began at this monotonic time."""

    def committed(self, task: int, offsets: tuple[int, int], counts: BatchCounts) -> None:
        """Record that a batch of this task was committed, up to these offsets."""
        for name, records in zip(INPUTS, counts.inputs, strict=True):
            self.figures.add(metrics.INPUT_RECORDS, records, task, name)
        for topic, records in counts.outputs.items():
            if records:
                self.figures.add(metrics.OUTPUT_RECORDS, records, task, topic)
                self._outputs += records
        self._offsets[task] = offsets
        now = self._clock.monotonic_s()
        if now - self._reported_s >= REPORT_INTERVAL_S:
            where = " ".join(f"{number}:{one}/{two}" for number, (one, two) in sorted(self._offsets.items()))
            events.log(events.PROGRESS, self._logger, outputs=self._outputs, offsets=where)
            self._outputs = 0
            self._reported_s = now

    def dead_letters(self, task: int, dead: Sequence[DeadCount], places: Mapping[Reason, Place]) -> None:
        """Record that records of a task became dead letters; `places` locates the last one of each reason."""
        now_s = self._clock.monotonic_s()
        for one in dead:
            self.figures.add(metrics.DEAD_LETTERS, one.records, task, one.reason.text)
            buried = self._buried.setdefault(one.reason, _Buried(now_s - WARNING_INTERVAL_S))
            buried.count += one.records
            buried.last, buried.task, buried.place = one, task, places.get(one.reason)
        for reason in {one.reason for one in dead}:
            if now_s - self._buried[reason].warned_s >= WARNING_INTERVAL_S:
                self._warn_of_dead(reason, self._buried[reason], now_s)

    def _warn_of_dead(self, reason: Reason, buried: _Buried, now_s: float) -> None:
        last = buried.last
        if last is None:
            raise AssertionError("there is something to warn of")
        look = f"areba dlq show {buried.place}" if buried.place else f"areba dlq list --reason {reason.text}"
        events.log(
            events.DEAD_LETTERS,
            self._logger,
            reason=reason.text,
            count=buried.count,
            task=buried.task,
            stream="unknown" if last.stream is None else repr(last.stream),
            side=last.side.name.lower(),
            offset=last.offset,
            command=look,
            why=f": {last.explanation}" if last.explanation else "",
        )
        self._buried[reason] = _Buried(now_s)

    def change_flagged(
        self, task: int, stream: str, learner: str, event_time_ms: int, changes: int, *, left_out: int
    ) -> None:
        """Record that a learner became worse on a stream; `left_out` earlier changes had no line."""
        at = {"task": task, "stream": stream, "learner": learner, "event_time_ms": event_time_ms}
        events.log(events.CHANGE_FLAGGED, self._logger, **at, changes=changes, left_out=left_out)

    def guarded(self, task: int, stream: str, learner: str, limited: int, refused: int) -> None:
        """Record that a learner met values which a network cannot take as they stand."""
        at = {"task": task, "stream": stream, "learner": learner}
        events.log(events.VALUES_LIMITED, self._logger, **at, examples=limited, steps=refused)

    def labels(self, task: int, stream: str, problem: str | None, labelled: int) -> bool:
        """Record whether the labels of a stream come; say whether they are missing.

        Args:
            task: The task.
            stream: The stream.
            problem: Why an operator should look. Without a problem, labels that were missing come again only if some
                were joined since: the signs of a problem can also be forgotten.
            labelled: How many labels the stream has had; after a reset, fewer than before.
        """
        missing = self._missing.look(task, stream, problem, labelled)
        self.figures.set(metrics.STREAMS_WITHOUT_LABELS, self._missing.streams(task), task)
        return missing

    def tables(self, task: int, stream: str, crowding: Crowding | None) -> None:
        """Record which table of a stream is about to lose what is needed; None: no table is."""
        self._crowded.look(task, stream, crowding)
        self.figures.set(metrics.CROWDED_STREAMS, self._crowded.streams(task), task)


def _list(tasks: Sequence[int]) -> str:
    return ",".join(map(str, tasks)) or "none"
