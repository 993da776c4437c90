"""What the worker reports: log lines for people, figures for `/metrics`; warnings that repeat are bounded in rate."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from stream_app import events
from stream_app.backends.base import Clock, TopicPartition
from stream_app.backends.partitioner import Misplaced
from stream_app.config.memory_bound import MemoryBound
from stream_app.errors import StateError
from stream_app.pipeline.label_flow import LabelFlow
from stream_app.pipeline.outputs import DeadCount
from stream_app.records import OutputRecords, Reason
from stream_app.task_state import TaskState
from stream_app.worker.pages import metrics
from stream_app.worker.pages.metrics import Figures

REASON_HEADER = "areba.reason"

REPORT_INTERVAL_S = 10.0

STEP_LIMIT_S = 60.0
"""Longest step of a worker that is alive: a batch takes 0.2 s, a slice of restoring a second."""

WARNING_INTERVAL_S = 60.0
"""From one warning of a kind to the next: what happens meanwhile is counted, and stands in that one."""

NAMED_STREAMS = 5
"""In a line of the log; the others are counted."""


def resume_hint(task: int) -> str:
    """Say what an operator does about a task that the breaker stopped."""
    return f"fix the producer, then: areba resume --task {task}"


class Place(NamedTuple):
    """A dead letter, as `areba dlq show` takes it: partition and offset of the dead-letters topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


def last_places(task: int, records: OutputRecords, offsets: Sequence[int]) -> Mapping[Reason, Place]:
    """Where the last dead letter of each reason is; nowhere while the broker has not said it of all records.

    Args:
        task: The partition.
        records: The dead letters of a batch.
        offsets: Theirs.
    """
    if len(offsets) != len(records):
        return {}
    reasons = {reason.text.encode(): reason for reason in Reason}
    found: dict[Reason, Place] = {}
    for row, offset in enumerate(offsets):
        ours = dict(records.headers[row])  # ours come after those of the producer
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


class Observer:
    """Writes what happens to the log and keeps the figures for `/metrics`.

    Args:
        clock: Bounds the rate of repeated lines.
        logger: Where the lines go; `areba.worker` if it is not given.

    Attributes:
        figures: What `/metrics` publishes.
    """

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        self._clock = clock
        self._logger = logger or logging.getLogger("areba.worker")
        self._reported_s = clock.monotonic_s()
        self._outputs = 0
        self._told_s: dict[int, float] = {}
        self._allocated: dict[int, int] = {}
        self._offsets: dict[int, tuple[int, int]] = {}
        self._misplaced: set[int] = set()  # tasks of which a line was written
        self._saving_bytes: dict[int, int] = {}
        self._buried: dict[Reason, _Buried] = {}
        self._silent: dict[int, dict[str, str]] = {}  # of each task, the streams whose labels are missing, and why
        self._new_silent: dict[str, str] = {}  # not warned of yet
        self._silent_warned_s = -WARNING_INTERVAL_S
        self._untraced = 0
        self._untraced_said_s: float | None = None
        self.figures = Figures()
        self.figures.add(metrics.ABORTED_TRANSACTIONS, 0)

    @contextmanager
    def step(self, what: str, limit_s: float = STEP_LIMIT_S) -> Iterator[None]:  # noqa: ARG002  (for who remembers)
        """Do a piece of our own work that waits for no broker: a batch, a slice of restoring."""
        yield

    def progressed(self) -> None:
        """The step that runs got ahead."""

    def round_ended(self, silence_s: float) -> None:  # noqa: ARG002  (for who remembers)
        """A round ended, whether or not it had anything to commit; a broker answered so many seconds ago."""
        now_s = self._clock.monotonic_s()
        for reason, buried in self._buried.items():
            if buried.count and now_s - buried.warned_s >= WARNING_INTERVAL_S:
                self._warn_of_dead(reason, buried, now_s)
        if self._new_silent and now_s - self._silent_warned_s >= WARNING_INTERVAL_S:
            self._warn_of_labels(now_s)

    def assigned(self, tasks: Sequence[int]) -> None:
        """The group gave us these tasks."""
        events.log(events.ASSIGNED, self._logger, tasks=_list(tasks))
        for task in tasks:
            for counter in (metrics.OUTPUT_RECORDS, metrics.SNAPSHOTS, metrics.SNAPSHOT_BYTES):
                self.figures.add(counter, 0, task)

    def revoked(self, tasks: Sequence[int]) -> None:
        """The group took these back."""
        events.log(events.REVOKED, self._logger, tasks=_list(tasks))
        for task in tasks:
            self._offsets.pop(task, None)
            self._saving_bytes.pop(task, None)
            for stream in self._silent.pop(task, {}):
                self._new_silent.pop(stream, None)
            self.figures.drop_task(task)
            self._allocated.pop(task, None)

    def owned(self, task: int, committed: tuple[int, int]) -> None:
        """A task is to be restored up to these committed offsets; no line: `assigned` or `aborted` came before."""

    def restoring(self, task: int, state: TaskState, offsets: tuple[int, int] | None, goal: tuple[int, int]) -> None:
        """A task is being restored: at which step, and the offsets that its replay has reached."""
        now = self._clock.monotonic_s()
        if now - self._told_s.get(task, self._reported_s) >= REPORT_INTERVAL_S:
            self._told_s[task] = now
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
        """A snapshot cannot be read."""
        events.log(events.DAMAGED, self._logger, task=task, problem=problem)

    def restored(self, task: int, sequence: int, snapshot: int, records: int) -> None:
        """A task is live: where it is, behind which sequence the snapshot was, how many records were re-processed."""
        events.log(events.RESTORED, self._logger, task=task, sequence=sequence, records=records, snapshot=snapshot)

    def changed(self, task: int, lines: Sequence[str]) -> None:
        """A task goes on under another configuration."""
        for line in lines:
            events.log(events.CHANGED, self._logger, task=task, change=line)

    def memory_bound(self, bound: MemoryBound, tasks: int, limit_bytes: int, limit_name: str) -> None:
        """Of a worker that has all tasks; `limit_bytes` is the memory of what the name says."""
        self.figures.set(metrics.MEMORY_BOUND, bound.total(tasks))
        events.log(events.MEMORY_BOUND, self._logger, bound=bound.total(tasks), tasks=tasks, parts=bound.text(tasks))
        if bound.total(tasks) > limit_bytes:
            limits = {"bound": bound.total(tasks), "limit": limit_bytes, "limit_name": limit_name}
            events.log(events.MEMORY_ABOVE_LIMIT, self._logger, **limits)

    def allocated(self, task: int, size: int) -> None:
        """State, buffers and snapshot of a task take so many bytes now."""
        self.figures.set(metrics.MEMORY_ALLOCATED, size, task)
        if 2 * size > 3 * self._allocated.get(task, 0):
            self._allocated[task] = size
            events.log(events.MEMORY_ALLOCATED, self._logger, task=task, size=size)

    def saving(self, task: int, sequence: int, size: int) -> None:
        """A snapshot is taken."""
        events.log(events.SNAPSHOT_STARTED, self._logger, task=task, sequence=sequence, size=size)
        self._saving_bytes[task] = size

    def saved(self, task: int, sequence: int) -> None:
        """A snapshot is whole."""
        events.log(events.SNAPSHOT_COMPLETE, self._logger, task=task, sequence=sequence)
        self.figures.add(metrics.SNAPSHOTS, 1, task)
        self.figures.add(metrics.SNAPSHOT_BYTES, self._saving_bytes.pop(task, 0), task)

    def trimmed(self, task: int, offset: int) -> None:
        """Old progress records were deleted."""
        events.log(events.TRIMMED, self._logger, task=task, offset=offset)

    def untrimmed(self, task: int, problem: str) -> None:
        """They could not be."""
        events.log(events.TRIM_FAILED, self._logger, task=task, problem=problem)

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """In these partitions a transaction does not end; tasks of ours there wait for it."""
        partitions = ", ".join(f"{place.topic}[{place.partition}]" for place in places)
        events.log(events.HANGING, self._logger, partitions=partitions)

    def taken_over(self, task: int, transactional_ids: Sequence[str]) -> None:
        """What hung of these ids, whose processes are gone, was ended."""
        for name in transactional_ids:
            events.log(events.TAKEN_OVER, self._logger, task=task, transactional_id=name)

    def repaired(self, task: int, records: Mapping[str, int]) -> None:
        """Committed outputs that nobody could read were published again: counts by topic."""
        counts = " ".join(f"{topic}={count}" for topic, count in records.items()) or "offsets"
        events.log(events.REPAIRED, self._logger, task=task, counts=counts)

    def grown(self, lines: Sequence[str]) -> None:
        """Topics have more partitions than the application has tasks: which, and the way out."""
        for line in lines:
            events.log(events.GROWN, self._logger, problem=line)

    def freed(self, tasks: Sequence[int]) -> None:
        """Nothing hangs in the partitions of these any more."""
        if tasks:
            events.log(events.UNBLOCKED, self._logger, tasks=_list(tasks))

    def parked(self, task: int, problem: StateError) -> None:
        """A task cannot be restored or processed."""
        events.log(events.PARKED, self._logger, task=task, problem=problem, code=problem.code)

    def tripped(self, task: int, problem: str) -> None:
        """The breaker stopped a task."""
        events.log(events.TRIPPED, self._logger, task=task, problem=problem, hint=resume_hint(task))

    def resumed(self, task: int) -> None:
        """An operator let it go on."""
        events.log(events.RESUMED, self._logger, task=task)

    def stopped(self, task: int, sequence: int, models: str) -> None:
        """A clean stop."""
        events.log(events.STOPPED, self._logger, task=task, sequence=sequence, models=models)

    def aborted(self, problem: str) -> None:
        """A transaction was given up."""
        events.log(events.ABORTED, self._logger, problem=problem)
        self.figures.add(metrics.ABORTED_TRANSACTIONS, 1)

    def misplaced(self, task: int, found: Misplaced) -> None:
        """Records of a committed batch belong to other partitions."""
        self.figures.add(metrics.MISPLACED_RECORDS, found.records, task)
        self.figures.set(metrics.MISPLACED_STREAMS, found.streams, task)
        if task not in self._misplaced:
            self._misplaced.add(task)
            events.log(
                events.MISPLACED,
                self._logger,
                task=task,
                records=found.records,
                stream=found.stream,
                partition=found.belongs_to,
            )

    def dropped_traces(self, task: int, records: int) -> None:
        """So many records of a committed batch had no valid trace context: their outputs carry none."""
        self._untraced += records
        now = self._clock.monotonic_s()
        if self._untraced_said_s is None or now - self._untraced_said_s >= WARNING_INTERVAL_S:
            events.log(events.TRACES_DROPPED, self._logger, task=task, records=self._untraced)
            self._untraced, self._untraced_said_s = 0, now

    def committed(self, task: int, offsets: tuple[int, int], outputs: int) -> None:
        """A transaction of this task was committed, up to these offsets."""
        self.figures.add(metrics.OUTPUT_RECORDS, outputs, task)
        self._outputs += outputs
        self._offsets[task] = offsets
        now = self._clock.monotonic_s()
        if now - self._reported_s >= REPORT_INTERVAL_S:
            where = " ".join(f"{number}:{one}/{two}" for number, (one, two) in sorted(self._offsets.items()))
            events.log(events.PROGRESS, self._logger, outputs=self._outputs, offsets=where)
            self._outputs = 0
            self._reported_s = now

    def dead_letters(self, task: int, dead: Sequence[DeadCount], places: Mapping[Reason, Place]) -> None:
        """Records of a task became dead letters; `places` has the last one of each reason."""
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
        )
        self._buried[reason] = _Buried(now_s)

    def labels(self, task: int, stream: str, flow: LabelFlow, problem: str | None) -> None:
        """How the labels of a stream flow; `problem`: why somebody should look after them."""
        for metric, value in (
            (metrics.LABEL_SILENCE, flow.silence_ms),
            (metrics.LABEL_DELAY, flow.usual_delay_ms),
        ):
            if value is not None:
                self.figures.set(metric, value / 1000, task, stream)
        if flow.unlabelled_share is not None:
            self.figures.set(metrics.UNLABELLED_SHARE, flow.unlabelled_share, task, stream)
        self.figures.set(metrics.LABELS_MISSING, problem is not None, task, stream)
        silent = self._silent.setdefault(task, {})
        if problem is not None:
            if stream not in silent:
                self._new_silent[stream] = problem
            silent[stream] = problem
        elif silent.pop(stream, None) is not None and self._new_silent.pop(stream, None) is None:
            events.log(events.LABELS_RETURNED, self._logger, task=task, stream=stream)

    def _warn_of_labels(self, now_s: float) -> None:
        named = "; ".join(f"{stream!r}: {why}" for stream, why in [*self._new_silent.items()][:NAMED_STREAMS])
        more = len(self._new_silent) - NAMED_STREAMS
        streams = f"{named}; and of {more} more streams" if more > 0 else named
        events.log(events.LABELS_MISSING, self._logger, streams=streams)
        self._new_silent.clear()
        self._silent_warned_s = now_s


def _list(tasks: Sequence[int]) -> str:
    return ",".join(map(str, tasks)) or "none"
