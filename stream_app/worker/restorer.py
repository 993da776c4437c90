"""Restores the tasks of a worker in slices, between two polls."""

from stream_app.errors import (
    ErrorCode,
    ForeignRecordsError,
    OwnCodeError,
    RecordTooLargeError,
    StateError,
    TransactionAbortedError,
    UnstableOffsetsError,
)
from stream_app.recovery.commit_point import committed_target
from stream_app.recovery.live_task import LiveTask
from stream_app.recovery.restore import Pause, Repair
from stream_app.task_state import TaskState
from stream_app.worker.observer import Observer
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.owned_tasks import OFFSETS_TIMEOUT_S, OwnedTasks
from stream_app.worker.ports import Ports
from stream_app.worker.round_transaction import Part
from stream_app.worker.transaction_watch import TransactionWatch

RESTORE_SLICE_S = 1.0
"""Longest work between two polls while restoring, apart from one recorded batch of each task."""

RAISE_LIMIT = "Raise max.message.bytes of this topic to what it was, and start the worker again"


class Restorer:
    """Restores the owned tasks, and lets tripped tasks continue once an operator has resumed them.

    Args:
        tasks: The tasks of the worker.
        ports: Source, transaction, cluster and clock.
        observer: Reports how far each restore has come.
        watch: Is notified of what a repair has written.
    """

    def __init__(self, tasks: OwnedTasks, ports: Ports, observer: Observer, watch: TransactionWatch) -> None:
        self._tasks = tasks
        self._ports = ports
        self._observer = observer
        self._watch = watch

    def run_slice(self) -> bool:
        """Continue all restores, in one slice of time for all of them; say whether any of them worked."""
        until_s = self._ports.clock.monotonic_s() + RESTORE_SLICE_S
        worked = False
        for task in self._tasks.all:
            if task.state.is_restoring:
                worked |= self._restore(task, until_s)
        return worked

    def look_for_resumes(self) -> None:
        """Let the tripped tasks that an operator has resumed continue."""
        for task in self._tasks.all:
            if task.state is TaskState.TRIPPED:
                try:
                    if task.live.look_for_resume():
                        self._observer.resumed(task.number)
                        self._tasks.inputs.start_restored(task)
                except StateError as error:
                    self._tasks.park(task, error)

    def _restore(self, task: OwnedTask, until_s: float) -> bool:
        worked = False
        try:
            if task.state is TaskState.READING:  # it waits for brokers, so it is no step of our own work
                worked, last = task.restore(until_s)
            else:
                with self._observer.step(f"task {task.number}: restoring"):
                    worked, last = task.restore(until_s)
            if task.state.is_restoring:
                reached = task.offsets if task.state is TaskState.REPLAYING else None
                self._observer.restoring(task.number, task.state, reached, task.report.goal)
            if last is Pause.INPUTS:
                for line in task.report.damage:
                    self._observer.damaged(task.number, line)
                self._tasks.inputs.start_restored(task)
            elif isinstance(last, Repair):
                self._repair(task, last, until_s)
            elif isinstance(last, LiveTask):
                worked = True
                self._begin(task)
        except (StateError, OwnCodeError, ForeignRecordsError) as error:
            if self._is_overtaken(task):
                self._tasks.renew(task.number)
            elif isinstance(error, ForeignRecordsError):
                raise
            else:
                self._tasks.park(task, error)
        return worked

    def _begin(self, task: OwnedTask) -> None:
        """Report the end of a restore; stop reading the inputs if the breaker has stopped the task."""
        if task.state is TaskState.TRIPPED:
            self._tasks.trip(task)
            return
        report = task.report
        self._observer.restored(task.number, task.point.sequence, report.loaded_sequence, report.replayed_records)
        self._observer.changed(task.number, report.changes)

    def _repair(self, task: OwnedTask, repair: Repair, until_s: float) -> None:
        """Publish again the committed outputs that cannot be read, and end the restore."""
        part = Part(task, repair=repair)
        try:
            self._tasks.commit([part])
        except RecordTooLargeError as error:
            problem = f"committed records have to be published again, and do not fit: {error}. {RAISE_LIMIT}"
            self._tasks.park(task, StateError(problem, ErrorCode.RECORD_TOO_LARGE))
            return
        except TransactionAbortedError as error:
            self._tasks.start_over([task], error)
            return
        self._watch.note_written(part)
        self._observer.repaired(task.number, {topic: len(records) for topic, records in repair.outputs.items()})
        task.restore(until_s, part.progress_offsets)
        self._begin(task)

    def _is_overtaken(self, task: OwnedTask) -> bool:
        """Say whether the group committed more of this task since the task was given to us.

        A worker that was frozen for long reads the records of the next owner. That is no damage: the next poll reports
        that the task was revoked.
        """
        try:
            target = committed_target(task.inputs, self._ports.source.committed(task.inputs, OFFSETS_TIMEOUT_S))
        except UnstableOffsetsError:
            return True
        except StateError:
            return False
        return (target.point if target else None) != task.target
