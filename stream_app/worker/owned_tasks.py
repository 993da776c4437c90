"""The tasks that the group has given to a worker: their assignment, and the reading of their inputs."""

from collections.abc import Sequence

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.partitioner import Placement
from stream_app.config import Config
from stream_app.errors import (
    ErrorCode,
    OwnCodeError,
    StateError,
)
from stream_app.live.breaker import Breaker
from stream_app.live.task_request import TaskRequest, Writer
from stream_app.recovery.restore import Restore
from stream_app.recovery.restore_request import Times
from stream_app.task_state import TaskState
from stream_app.worker.kept_tasks import KeptTasks
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.retention.progress_trimmer import ProgressTrimmer
from stream_app.worker.retention.topic_watch import TopicWatch
from stream_app.worker.round_transaction import logs_of
from stream_app.worker.task_inputs import TaskInputs
from stream_app.worker.transaction_watch import TransactionWatch


class OwnedTasks:
    """The tasks of one worker, from their assignment until they are revoked.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Reports what happens to the tasks.
        watch: Knows where a transaction is still open.
        adopts: Whether records of other writers in the output topics are accepted.

    Attributes:
        inputs: Starts and stops the reading of the tasks' inputs.
        new: Numbers of the tasks that are assigned and not yet being restored.
        topic_watch: Knows the topics.
        group: The membership of the consumer group, which fences members of an older generation.
        awaits_assignment: Whether the group has not assigned anything since the start, or since it took everything.
    """

    def __init__(
        self, config: Config, ports: Ports, observer: Observer, watch: TransactionWatch, *, adopts: bool
    ) -> None:
        self.inputs = TaskInputs(ports.source, config.worker.buffer_bytes)
        self.new: list[int] = []
        self.group: object = None
        self.awaits_assignment = True
        self._config = config
        self._settings = config.task_settings()
        self._ports = ports
        self._observer = observer
        self._watch = watch
        self._hanging = watch.hanging
        self._topics = config.topics
        self._writer = Writer(config.transactional_id, adopts)
        self._tasks: dict[int, OwnedTask] = {}
        self._kept = KeptTasks()
        self._by_partition: dict[TopicPartition, OwnedTask] = {}
        self._generation = 0
        self._was_too_large = False  # a topic has refused a record, and its limit was not read since
        self.topic_watch = TopicWatch(ports.cluster, config, observer)

    @property
    def all(self) -> Sequence[OwnedTask]:
        """All tasks that the worker owns now."""
        return tuple(self._tasks.values())

    def of(self, partition: TopicPartition) -> OwnedTask | None:
        """Return the owned task that reads an input partition, or None."""
        return self._by_partition.get(partition)

    # Assignment -----------------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Read the number of the application's tasks and the limits of its topics, and return that number."""
        self.topic_watch.begin()
        self._limit_dead_letters(self.topic_watch.dead_letter_bytes)
        return self.topic_watch.identity.partitions

    def assigned(self, numbers: Sequence[int]) -> None:
        """Record an assignment, and the group's generation.

        Read later, the generation may already belong to the next assignment, which would not fence this worker.
        """
        self._generation += 1
        self.group = self._ports.source.group_metadata()
        self._observer.emit(events.Assigned(numbers))
        self.new = list(numbers)
        self.awaits_assignment = False
        self.topic_watch.expire()  # the group also assigns when an input has grown
        self._kept.close_others(numbers)
        self._hanging.assigned()
        for number in numbers:
            if number in self._kept:  # somebody may have owned it meanwhile, and have a transaction open
                self._hanging.wait_for(number)

    def revoked(self, numbers: Sequence[int]) -> None:
        """Give up tasks that the group has taken back; they stay in memory until the next assignment."""
        self._generation += 1
        self.new = []
        self.awaits_assignment = True
        self._observer.emit(events.Revoked(numbers))
        for number in numbers:
            task = self._remove(number)
            if task is not None:
                self.inputs.forget(task)
                self._kept.keep(task, is_readable=not self._watch.unread_ends(number))
        self._hanging.revoked()

    @property
    def _to_restore(self) -> Sequence[int]:
        """The new tasks that are not kept in memory."""
        return [number for number in self.new if number not in self._kept]

    @property
    def unannounced(self) -> Sequence[int]:
        """The new tasks whose progress has to name our transactional id before they can be restored."""
        return self._hanging.unannounced(self._to_restore)

    def own_new(self) -> None:
        """Begin to restore the new tasks in whose partitions no transaction is open any more."""
        self._hanging.end_own(self._to_restore)
        free = [number for number in self._to_restore if not self._hanging.is_open(number)]
        if not free or not self.topic_watch.is_read():
            return
        starts = self.topic_watch.first_offsets([place for number in free for place in self._inputs_of(number)])
        if starts is None:
            return
        if self._was_too_large:
            self._was_too_large = False
            self._lower_limit(self.topic_watch.dead_letter_bytes)
        self.new = [number for number in self.new if number not in free]
        for number in free:
            examples, labels = self._inputs_of(number)
            task = self._created((examples, labels), (starts[examples], starts[labels]))
            task.position.progress_end = self._hanging.progress_end(number)
            self._add(task)
            self._observer.emit(events.RestoreBegan(number))

    def continue_kept(self) -> None:
        """Continue the tasks that come back as they were; the others are new tasks like any other."""
        for number in [number for number in self.new if number in self._kept and not self._hanging.is_open(number)]:
            task = self._kept.take(number, self._hanging.progress_end(number))
            if task is None:
                continue
            self.new.remove(number)
            task.generation = self._generation
            self._add(task)
            self.inputs.start(task)
            self._observer.emit(events.TaskContinued(number, task.point.sequence, task.offsets))
            if task.live.task.stopped:
                self._observer.emit(events.StreamsStopped(number, task.live.task.stopped))

    def _inputs_of(self, number: int) -> tuple[TopicPartition, TopicPartition]:
        return TopicPartition(self._topics.examples, number), TopicPartition(self._topics.labels, number)

    def _created(self, inputs: tuple[TopicPartition, TopicPartition], first: tuple[int, int]) -> OwnedTask:
        number, settings, ports = inputs[0].partition, self._config.worker, self._ports
        identity = self.topic_watch.identity
        restore = Restore(
            TaskRequest(inputs, self._settings, first, self._writer, identity, ports.schemas),
            logs_of(ports.cluster, self._topics, number, identity.output_ids),
            Breaker(self._config.breaker),
            ports.clock,
            Times.of(settings),
        )
        trimmer = ProgressTrimmer(ports.cluster, ports.clock, inputs, TopicPartition(self._topics.progress, number))
        placement = Placement(number, identity.partitions)
        return OwnedTask(restore, self._generation, ports.clock, trimmer, placement, self.topic_watch.topic_ids)

    def _add(self, task: OwnedTask) -> None:
        self._tasks[task.number] = task
        self._by_partition.update(dict.fromkeys(task.inputs, task))

    def _remove(self, number: int) -> OwnedTask | None:
        task = self._tasks.pop(number, None)
        for partition in task.inputs if task else ():
            self._by_partition.pop(partition, None)
        return task

    def renew(self, number: int) -> None:
        """Restore a task from its beginning after the next poll, if the worker still owns it then."""
        task = self._remove(number)
        if task is not None:
            self.inputs.stop(task)
            task.close()
        self.topic_watch.expire()
        self.new.append(number)
        self._watch.forget(number)

    def close(self) -> None:
        """Release the readers of all tasks."""
        self._kept.close_others(())
        for task in self.all:
            task.close()

    # Limits of the topics -------------------------------------------------------------------------------------------

    def _limit_dead_letters(self, most_bytes: int) -> None:
        """Change a setting for tasks that are restored from now on; live tasks have to be restored under it."""
        self._settings = self._settings.model_copy(update={"dead_letter_bytes": most_bytes})

    def record_was_too_large(self) -> None:
        """Lower the limit of dead letters for tasks that are restored from now on: a topic has refused a record."""
        self._was_too_large = True

    def _lower_limit(self, found: int) -> None:
        """Take the limit of the topic that refused a record; if the limit has not changed, assume half of it.

        A topic that refuses a record within its limit counts more bytes than the task does.
        """
        before = self._settings.dead_letter_bytes
        self._limit_dead_letters(found if found < before else before // 2)

    # Inputs ---------------------------------------------------------------------------------------------------------

    def take(self, fetched: Fetched) -> bool:
        """Give fetched records to their task; say whether one took them."""
        task = self.of(fetched.partition)
        if task is None or task.state not in (TaskState.LIVE, TaskState.REPROCESSING):
            return False
        self.inputs.take(task, fetched)
        return True

    def owns(self, task: OwnedTask) -> bool:
        """Say whether the worker still has this task, and has not begun to restore it again."""
        return self._tasks.get(task.number) is task

    def may_commit(self, task: OwnedTask) -> bool:
        """Say whether the present membership of the group covers a task: the group fences only older ones."""
        return self.owns(task) and task.generation == self._generation

    # Stopping one task ----------------------------------------------------------------------------------------------

    def park(self, task: OwnedTask, error: StateError | OwnCodeError) -> None:
        """Stop a task that cannot be restored or processed; the other tasks continue.

        Raises:
            StateError: No task is left.
        """
        problem = error if isinstance(error, StateError) else StateError(str(error), ErrorCode.OWN_CODE_FAILED)
        self.inputs.stop(task)
        task.park(problem)
        self._observer.emit(events.TaskParked(task.number, problem))
        if all(other.state is TaskState.PARKED for other in self._tasks.values()):
            raise problem
