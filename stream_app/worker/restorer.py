"""Restores the tasks of a worker in slices, between two polls."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.questions import Question
from stream_app.config import Topics
from stream_app.errors import (
    ErrorCode,
    ForeignRecordsError,
    OwnCodeError,
    RecordTooLargeError,
    StateError,
    TransactionAbortedError,
)
from stream_app.live.live_task import LiveTask
from stream_app.lost_markers.repair import Repair
from stream_app.recovery.restore import Pause
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.owned_tasks import OwnedTasks
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.round_transaction import Part
from stream_app.worker.rounds import Rounds
from stream_app.worker.transaction_watch import TransactionWatch

RESTORE_SLICE_S = 1.0
"""Longest work between two polls while restoring, apart from one recorded batch of each task."""

RESTORES_AT_ONCE = 16
"""Restores that read at the same time. Each has clients of its own, which ask for new records a hundred times a second:
with those of 256 tasks, client and broker did little else."""

_LONG_SILENCE_S = 10.0
"""A restore to which nothing has come for longer is not counted among those that read."""

_RAISE_LIMIT = "Raise max.message.bytes of this topic to what it was, and start the worker again"


_Problem: TypeAlias = StateError | OwnCodeError | ForeignRecordsError


class _Failed(NamedTuple):
    """A task that could not be restored, why, and the question how far its progress reaches now."""

    task: OwnedTask
    problem: _Problem
    end: Question[Cluster, int]


class Restorer:
    """Restores the owned tasks.

    Args:
        tasks: The tasks of the worker.
        rounds: Commits repairs.
        topics: Full names of the topics.
        ports: Source, transaction, cluster and clock.
        observer: Reports how far each restore has come.
        watch: Is notified of what a repair has written.
    """

    def __init__(
        self,
        tasks: OwnedTasks,
        rounds: Rounds,
        topics: Topics,
        ports: Ports,
        observer: Observer,
        watch: TransactionWatch,
    ) -> None:
        self._tasks = tasks
        self._rounds = rounds
        self._progress = topics.progress
        self._failed: list[_Failed] = []
        self._ports = ports
        self._observer = observer
        self._watch = watch

    def run_slice(self) -> bool:
        """Continue all restores, in one slice of time for all of them; say whether any of them worked."""
        until_s = self._ports.clock.monotonic_s() + RESTORE_SLICE_S
        worked = False
        self._judge()
        for task in self._in_turn():
            worked |= self._restore(task, until_s)
        return worked

    def _in_turn(self) -> Sequence[OwnedTask]:
        """Return the tasks whose restore continues, and those whose restore may begin.

        A restore that waits for a broker for long keeps no other task waiting.
        """
        failed = [one.task for one in self._failed]
        begun = [task for task in self._tasks.all if task.state.is_restoring and task not in failed]
        free = RESTORES_AT_ONCE - sum(task.silent_s < _LONG_SILENCE_S for task in begun)
        assigned = (task for task in self._tasks.all if task.state is TaskState.ASSIGNED)
        return (*begun, *islice(assigned, max(0, free)))

    def _restore(self, task: OwnedTask, until_s: float) -> bool:
        worked, before = False, task.state
        try:
            if task.state is TaskState.READING:  # it waits for brokers, so it is no step of our own work
                worked, last = task.restore(until_s)
            else:
                with self._observer.step(f"task {task.number}: restoring"):
                    worked, last = task.restore(until_s)
            if task.state is TaskState.REPROCESSING and before is not task.state:
                self._report(task)
            if task.state.is_restoring:
                reached = task.offsets if task.state is TaskState.REPROCESSING else None
                self._observer.emit(events.Restoring(task.number, task.state, reached, task.report.goal))
            if last is Pause.INPUTS:
                self._tasks.inputs.start(task)
            elif isinstance(last, Repair):
                self._repair(task, last, until_s)
            elif isinstance(last, LiveTask):
                worked = True
                self._begin(task)
        except (StateError, OwnCodeError, ForeignRecordsError) as error:
            place = TopicPartition(self._progress, task.number)
            end: Question[Cluster, int] = Question(
                self._ports.cluster, lambda cluster: cluster.ends([place])[place].high
            )
            self._failed.append(_Failed(task, error, end))
            self._tasks.topic_watch.expire()
        return worked

    def _judge(self) -> None:
        """Park the tasks that could not be restored, unless what they have read has changed meanwhile.

        A worker that was frozen for long reads the records of the next owner. That is no damage: the next poll reports
        that the task was revoked. A topic that was deleted and created again has other offsets than those that the
        restore began with; a new restore begins with the new ones.

        Raises:
            ForeignRecordsError: Another application writes to the output topics.
        """
        for failed in tuple(self._failed):
            task, end = failed.task, failed.end.answer()
            if end is None or not self._tasks.topic_watch.is_read():
                continue
            self._failed.remove(failed)
            if not self._tasks.owns(task):
                continue
            if end != task.position.progress_end or self._tasks.topic_watch.replaced(task):
                self._tasks.renew(task.number)
            elif isinstance(failed.problem, ForeignRecordsError):
                raise failed.problem
            else:
                self._tasks.park(task, failed.problem)

    def _report(self, task: OwnedTask) -> None:
        """Report what the restore has found in the task's own topics."""
        for line in task.report.replaced:
            self._observer.emit(events.TopicReplaced(task.number, line))
        for line in task.report.damage:
            self._observer.emit(events.Damaged(task.number, line))

    def _begin(self, task: OwnedTask) -> None:
        """Report the end of a restore."""
        report = task.report
        reached = (task.point.sequence, task.offsets)
        self._observer.emit(
            events.TaskRestored(task.number, *reached, report.loaded_sequence, report.reprocessed_records)
        )
        for change in report.changes:
            self._observer.emit(events.SettingChanged(task.number, change))
        if task.live.task.stopped:
            self._observer.emit(events.StreamsStopped(task.number, task.live.task.stopped))

    def _repair(self, task: OwnedTask, repair: Repair, until_s: float) -> None:
        """Publish again the committed records that cannot be read, and end the restore."""
        part = Part(task, repair=repair)
        try:
            self._rounds.commit([part])
        except RecordTooLargeError as error:
            problem = f"committed records have to be published again, and do not fit: {error}. {_RAISE_LIMIT}"
            self._tasks.park(task, StateError(problem, ErrorCode.RECORD_TOO_LARGE))
            return
        except TransactionAbortedError as error:
            self._rounds.start_over([task], error)
            return
        self._watch.note_written(part)
        records = {topic: len(records) for topic, records in repair.outputs.items()}
        self._observer.emit(events.Repaired(task.number, records))
        if repair.names_snapshot:
            # The restore has loaded an older snapshot. Its task would delete the chunks of the named snapshot as
            # garbage before it has written a newer one. The name can be read now, so a new restore loads the snapshot.
            self._tasks.renew(task.number)
            return
        task.restore(until_s, part.progress_offsets)
        self._begin(task)
