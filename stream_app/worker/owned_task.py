"""What a worker holds for each of its tasks: a restore, a live task, or the reason why the task is parked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from stream_app.backends.base import Clock, Fetched, TopicPartition
from stream_app.backends.partitioner import Placement
from stream_app.errors import ErrorCode, StateError
from stream_app.live.live_task import LiveTask
from stream_app.live.position import CommitPoint
from stream_app.lost_markers.repair import Repair
from stream_app.recovery.restore import Pause, Restore, RestoreSteps
from stream_app.task_state import TaskState
from stream_app.worker.retention.progress_trimmer import ProgressTrimmer


class _RestoreSlice(NamedTuple):
    """A slice of a restore.

    Attributes:
        worked: Whether the restore did any work, so that it can continue at once.
        last: Why the slice ended: a pause, a repair that is to be committed, or the task is live.
    """

    worked: bool
    last: Pause | Repair | LiveTask


@dataclass(frozen=True, slots=True)
class _Restoring:
    """A task that is being restored, and the steps that are left."""

    restore: Restore
    steps: RestoreSteps


@dataclass(frozen=True, slots=True)
class _Parked:
    """A task that cannot be restored or processed, and why."""

    problem: StateError


_Work: TypeAlias = _Restoring | LiveTask | _Parked


class OwnedTask:
    """A task of this worker, from its assignment on.

    Args:
        restore: The restore that will make the task live.
        generation: The number of the assignment that gave the task to this worker.
        clock: A monotonic clock.
        trimmer: Deletes progress of the task that no restore needs.
        placement: Knows which streams belong to the task.
        topic_ids: The ids of all topics when the restore began, by name.

    Attributes:
        number: The number of the task.
        inputs: Its partitions of examples and labels.
        waiting: Fetched records of both inputs that are not processed yet.
        position: Where its state is, in inputs, progress and outputs.
        report: What the restore found and did.
    """

    def __init__(
        self,
        restore: Restore,
        generation: int,
        clock: Clock,
        trimmer: ProgressTrimmer,
        placement: Placement,
        topic_ids: Mapping[str, str],
    ) -> None:
        self.number = restore.request.number
        self.inputs = restore.request.inputs
        self.generation = generation
        self.waiting = restore.waiting
        self.position = restore.position
        self.report = restore.report
        self.trimmer = trimmer
        self.placement = placement
        self.topic_ids = topic_ids
        self._clock = clock
        self._work: _Work = _Restoring(restore, restore.run())

    @property
    def state(self) -> TaskState:
        """The state of the task."""
        if isinstance(self._work, _Restoring):
            return self._work.restore.state
        if isinstance(self._work, _Parked):
            return TaskState.PARKED
        return TaskState.LIVE

    @property
    def problem(self) -> str | None:
        """Why the task is parked; None for another task."""
        return str(self._work.problem) if isinstance(self._work, _Parked) else None

    @property
    def code(self) -> ErrorCode | None:
        """The code of the problem of a parked task; None for another task."""
        return self._work.problem.code if isinstance(self._work, _Parked) else None

    @property
    def live(self) -> LiveTask:
        """The live task; only a task in the state LIVE has one."""
        match self._work:
            case LiveTask() as live:
                return live
            case _:
                raise AssertionError(f"task {self.number} is {self.state}, it is not live")

    @property
    def point(self) -> CommitPoint:
        """The last point that was restored or committed."""
        return self.position.point

    @property
    def offsets(self) -> tuple[int, int]:
        """The next input offsets (examples, labels)."""
        return self.position.offsets

    @property
    def script_records(self) -> int:
        """The number of records of progress that are held and still to be processed again."""
        return len(self._work.restore.script) if isinstance(self._work, _Restoring) else 0

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of state, buffers and a snapshot that is being written."""
        buffers = sum(records.bytes for records in self.waiting)
        if isinstance(self._work, _Restoring):
            return buffers + self._work.restore.allocated_bytes
        return buffers + (self._work.allocated_bytes if isinstance(self._work, LiveTask) else 0)

    @property
    def writes_snapshot(self) -> bool:
        """Whether transactions without a batch are wanted."""
        return isinstance(self._work, LiveTask) and self._work.writes_snapshot

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being written, or waits until it can be named."""
        return isinstance(self._work, LiveTask) and self._work.is_saving

    @property
    def unnamed_ends(self) -> Mapping[TopicPartition, int] | None:
        """What must be readable before the newest snapshot is named; None where no snapshot waits for its name."""
        return self._work.unnamed_ends if isinstance(self._work, LiveTask) else None

    def take_snapshot(self, slice_s: float, *, ending: bool = False) -> int | None:
        """Begin or continue a snapshot if the task is live, see `LiveTask.take_snapshot`."""
        return self._work.take_snapshot(slice_s, ending=ending) if isinstance(self._work, LiveTask) else None

    def add(self, side: int, fetched: Fetched) -> None:
        """Take fetched records of one input (0 examples, 1 labels)."""
        self.waiting[side].add(fetched)
        self.be_patient()

    def lacks(self, side: int) -> bool:
        """Say whether a recorded range needs more records of this input, however many are waiting."""
        return isinstance(self._work, _Restoring) and self._work.restore.lacks(side)

    @property
    def silent_s(self) -> float:
        """How long a restore has asked for records and nothing came, in seconds; 0 for another task."""
        return self._work.restore.deadline.silent_s if isinstance(self._work, _Restoring) else 0.0

    def be_patient(self) -> None:
        """Count the deadline of a restore from now on."""
        if isinstance(self._work, _Restoring):
            self._work.restore.deadline.restart()

    def restore(self, until_s: float, progress_offsets: Sequence[int] | None = None) -> _RestoreSlice:
        """Continue the restore until this monotonic time, until nothing came, or until its state changes.

        Args:
            until_s: When to end the slice.
            progress_offsets: After a repair was committed, the offsets of its records of progress.

        Raises:
            StateError: The state cannot be restored.
            ForeignRecordsError: Another application writes to the output topics.
            ConfigurationError: The configuration changed in a way that a task with state cannot take over.
        """
        match self._work:
            case _Restoring(restore, steps):
                state, worked = restore.state, False
            case _:
                raise AssertionError(f"task {self.number} is {self.state}, it is not being restored")
        while True:
            try:
                pause = steps.send(progress_offsets)
                progress_offsets = None
            except StopIteration as done:
                live: LiveTask = done.value
                self._work = live
                return _RestoreSlice(worked, live)
            if pause is not Pause.WORKED:
                return _RestoreSlice(worked or pause is Pause.INPUTS, pause)
            worked = True
            if restore.state is not state or self._clock.monotonic_s() >= until_s:
                return _RestoreSlice(worked, pause)

    def park(self, problem: StateError) -> None:
        """Discard the state; the other tasks of the worker continue."""
        self._close_work()
        self._work = _Parked(problem)
        for records in self.waiting:
            records.clear()

    def close(self) -> None:
        """Release the readers."""
        self._close_work()
        self.trimmer.close()

    def _close_work(self) -> None:
        if isinstance(self._work, _Restoring):
            self._work.steps.close()
