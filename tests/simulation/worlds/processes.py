"""The worker processes of a world, and their log lines."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stream_app.backends.base import CLIENT_NAME
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import ArebaError, ErrorCode
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.simulation.faults import Event
from tests.simulation.ports import TRANSACTION_TIMEOUT_S, Gate, SimulatedClock, SimulatedSource
from tests.simulation.schedule import KilledError
from tests.simulation.transactions import SimulatedTransaction
from tests.simulation.worlds.cluster import SimulatedCluster
from tests.simulation.worlds.maintenance import raise_limit
from tests.simulation.worlds.world import World

Say = Callable[[str], None]


class Trace(logging.Handler):
    """A log handler that adds the lines of a worker to the trace."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Add one line."""
        self._say(record.getMessage())


COUNTED: Mapping[type[events.Event], Event] = {
    events.TaskContinued: Event.CONTINUED,
    events.Damaged: Event.OUTDATED,  # of a frozen process: the next owners have dropped it in the meantime
    events.SnapshotComplete: Event.SAVED,
    events.Purged: Event.PURGED,
    events.Hanging: Event.HELD,
    events.Repaired: Event.REPAIRED,
    events.TakenOver: Event.TAKEN_OVER,
    events.Trimmed: Event.TRIMMED,
}
"""Events of a worker that are only counted."""


class Notes:
    """Counts the events of a worker, and writes lines to the trace, if there is one."""

    def __init__(self, world: World, say: Say, transaction: SimulatedTransaction) -> None:
        self._world = world
        self._counts = world.faults.events
        self._say = say
        self._transaction = transaction
        logger = logging.Logger("areba.simulation", logging.INFO if world.is_traced else logging.CRITICAL)  # noqa: LOG001  (one a process, that no registry keeps)
        logger.addHandler(Trace(say))
        self.observer = Observer(world.clock, logger)
        for kind in COUNTED:
            self.observer.subscribe(kind, lambda event: self._counts.update([COUNTED[type(event)]]))
        self.observer.subscribe(events.StepBegan, self._step_began)
        self.observer.subscribe(events.TaskRestored, self._restored)
        self.observer.subscribe(events.TaskParked, self._parked)
        self.observer.subscribe(events.Aborted, self._aborted)
        self.observer.subscribe(events.StreamsStopped, self._streams_stopped)
        self.observer.subscribe(events.StreamsResumed, self._streams_resumed)
        self.observer.subscribe(events.IdsErased, self._ids_erased)
        self.observer.subscribe(events.BatchCommitted, self._batch_committed)
        self.observer.subscribe(events.WorkerStopped, self._stopped)

    def _step_began(self, _: events.StepBegan) -> None:
        """Count a batch that is computed while a transaction is running: it is the only step at this time."""
        self._counts[Event.AHEAD] += self._transaction.is_running
        self._transaction.is_ahead = True

    def _restored(self, event: events.TaskRestored) -> None:
        self._counts[Event.RESTORED] += event.records > 0
        self._counts[Event.LOADED] += event.snapshot >= 0

    def _parked(self, event: events.TaskParked) -> None:
        """Record a parked task; only a loss of inputs may park one."""
        if event.task in self._world.duties.lost and event.problem.code is ErrorCode.INPUTS_DELETED:
            self._counts[Event.PARKED] += 1
        elif event.problem.code is ErrorCode.RECORD_TOO_LARGE:
            self._counts[Event.UNREPAIRABLE] += 1
            raise_limit(self._world)
        else:
            self._world.wrong.append(f"task {event.task} was parked: {event.problem}")

    def _aborted(self, event: events.Aborted) -> None:
        self._counts[Event.TOO_LARGE] += "bytes, at most" in event.problem

    def _streams_stopped(self, event: events.StreamsStopped) -> None:
        self._counts[Event.STREAM_STOPPED] += len(event.stops)
        self._world.duties.stopped.update(event.stops)

    def _streams_resumed(self, event: events.StreamsResumed) -> None:
        self._counts[Event.STREAM_RESUMED] += len(event.streams)
        self._world.duties.stopped.difference_update(event.streams)

    def _ids_erased(self, event: events.IdsErased) -> None:
        self._counts[Event.ERASED if any(event.erased[2:]) else Event.ERASED_AGAIN] += 1

    def _batch_committed(self, event: events.BatchCommitted) -> None:
        """Write a line for each commit, not only for some of them."""
        outputs = sum(event.counts.outputs.values())
        self._say(f"committed task={event.task} offsets={event.offsets[0]}/{event.offsets[1]} outputs={outputs}")

    def _stopped(self, event: events.WorkerStopped) -> None:
        if self._world.models.get(event.task, event.models) != event.models:
            self._world.wrong.append(f"task {event.task}: its models changed without a record")


class Process:
    """A process of `areba run`, from its start to its end.

    Args:
        world: The world.
        instance: The name of the worker.
        restarted_at: When it was restarted recently.
        was_fenced: Whether it is restarted because it was fenced.
        ended: Receives the process and its error, if it has any, when it ends.
    """

    def __init__(
        self,
        world: World,
        instance: str,
        restarted_at: Sequence[float],
        was_fenced: bool,
        ended: Callable[["Process", ArebaError | None], None],
    ) -> None:
        world.started += 1
        self.name = f"{instance}#{world.started}"
        self.instance = instance
        self.version = world.version
        self.without = world.without
        self.restarted_at = tuple(restarted_at)
        self.is_asked_to_stop = False
        self.worker: Worker | None = None
        self.observer: Observer | None = None
        self._world = world
        self._was_fenced = was_fenced
        self._ended = ended
        self.config = world.config(instance)
        self.gate = Gate(world.scheduler, world.faults, world.shape.pace, self.say)
        self.gate.is_restoring = self._is_restoring
        inner = EmbeddedSource(world.broker, self.config.group_id, f"{CLIENT_NAME}/{instance}")
        self.source = SimulatedSource(self.gate, inner)
        self.actor = world.scheduler.spawn(self._main, world.draw.choice((0.0, 0.1, 2.0)) * world.draw.random())

    @property
    def tasks(self) -> Sequence[OwnedTask]:
        """The tasks of its worker."""
        return self.worker.tasks if self.worker is not None else ()

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        self._world.say(f"{self.name} {what}")

    def kill(self) -> None:
        """Kill the process."""
        self.gate.is_dead = True
        self.actor.kill()

    def leave_group(self) -> None:
        """Leave the group, dead or alive."""
        self._world.broker.groups.leave(self.config.group_id, self.source.member)

    def _is_restoring(self) -> bool:
        tasks = self.worker.tasks if self.worker is not None else ()
        return any(task.state in (TaskState.READING, TaskState.REPROCESSING) for task in tasks)

    def _transaction(self, transactional_id: str) -> SimulatedTransaction:
        make = partial(EmbeddedTransaction, self._world.broker, transactional_id, TRANSACTION_TIMEOUT_S)
        broker = self._world.broker
        return SimulatedTransaction(
            self.gate, make, self._world.later, self.leave_group, lambda: broker.has_forgotten(transactional_id)
        )

    def _main(self) -> None:
        error: ArebaError | None = None
        try:
            self._run()
        except KilledError:
            pass
        except ArebaError as raised:
            error = raised
        self._ended(self, error)

    def _run(self) -> None:
        world = self._world
        self.say("starts" + (" after it was fenced" if self._was_fenced else ""))
        transaction = self._transaction(self.config.transactional_id)
        ports = Ports(
            self.source,
            transaction,
            SimulatedCluster(self.gate, world.cluster),
            SimulatedClock(self.gate, world.clock),
            self._transaction,
            lambda: self.gate.is_cut_off,
        )
        self.observer = Notes(world, self.say, transaction).observer
        self.worker = Worker(self.config, ports, self.observer, was_fenced=self._was_fenced, room=world.shape.room)
        self.worker.run(lambda: self.is_asked_to_stop)
