"""The worker processes of a world, and their log lines."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from stream_app.backends.base import CLIENT_NAME, TopicPartition
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import (
    ArebaError,
    ErrorCode,
    StateError,
)
from stream_app.live.live_task import BatchCounts
from stream_app.pipeline.outputs import Erased
from stream_app.task_state import TaskState
from stream_app.worker.observer import STEP_LIMIT_S, Observer
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.worker import Worker
from tests.simulation.faults import Event
from tests.simulation.ports import TRANSACTION_TIMEOUT_S, Gate, SimulatedClock, SimulatedSource
from tests.simulation.schedule import KilledError
from tests.simulation.transactions import SimulatedTransaction
from tests.simulation.worlds.cluster import SimulatedCluster

if TYPE_CHECKING:
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


class Notes(Observer):
    """An observer that counts events and writes lines to the trace, if there is one."""

    def __init__(self, world: "World", say: Say, transaction: SimulatedTransaction) -> None:
        logger = logging.Logger("areba.simulation", logging.INFO if world.is_traced else logging.CRITICAL)  # noqa: LOG001  (one a process, that no registry keeps)
        logger.addHandler(Trace(say))
        super().__init__(world.clock, logger)
        self._world = world
        self._say = say
        self._transaction = transaction

    def step(self, what: str, limit_s: float = STEP_LIMIT_S) -> AbstractContextManager[None]:
        """Count a batch that is computed while a transaction is running: it is the only step at this time."""
        self._world.faults.events[Event.AHEAD] += self._transaction.is_running
        self._transaction.is_ahead = True
        return super().step(what, limit_s)

    def restored(self, task: int, sequence: int, committed: tuple[int, int], snapshot: int, records: int) -> None:
        """Count a task that is live."""
        super().restored(task, sequence, committed, snapshot, records)
        self._world.faults.events[Event.RESTORED] += records > 0
        self._world.faults.events[Event.LOADED] += snapshot >= 0

    def continued(self, task: int, sequence: int, committed: tuple[int, int]) -> None:
        """Count a task that came back as it was."""
        super().continued(task, sequence, committed)
        self._world.faults.events[Event.CONTINUED] += 1

    def damaged(self, task: int, problem: str) -> None:
        """Count a frozen process whose snapshot the next owners have dropped in the meantime."""
        super().damaged(task, problem)
        self._world.faults.events[Event.OUTDATED] += 1

    def saved(self, task: int, sequence: int, *, has_purged: bool) -> None:
        """Count a complete snapshot."""
        super().saved(task, sequence, has_purged=has_purged)
        self._world.faults.events[Event.SAVED] += 1
        self._world.faults.events[Event.PURGED] += has_purged

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Count a transaction that does not end."""
        super().hanging(places)
        self._world.faults.events[Event.HELD] += 1

    def repaired(self, task: int, records: Mapping[str, int]) -> None:
        """Count outputs that were published again."""
        super().repaired(task, records)
        self._world.faults.events[Event.REPAIRED] += 1

    def taken_over(self, tasks: Sequence[int], transactional_id: str) -> None:
        """Count transactions of a lost instance that were ended."""
        super().taken_over(tasks, transactional_id)
        self._world.faults.events[Event.TAKEN_OVER] += 1

    def parked(self, task: int, problem: StateError) -> None:
        """Record a parked task; only a loss of inputs may park one."""
        super().parked(task, problem)
        if task in self._world.lost and problem.code is ErrorCode.INPUTS_DELETED:
            self._world.faults.events[Event.PARKED] += 1
        elif problem.code is ErrorCode.RECORD_TOO_LARGE:
            self._world.faults.events[Event.UNREPAIRABLE] += 1
            self._world.raise_limit()
        else:
            self._world.wrong.append(f"task {task} was parked: {problem}")

    def aborted(self, problem: str) -> None:
        """Count an aborted transaction."""
        super().aborted(problem)
        self._world.faults.events[Event.TOO_LARGE] += "bytes, at most" in problem

    def stopped_streams(self, task: int, stops: Mapping[str, str]) -> None:
        """Record that the breaker stopped streams."""
        super().stopped_streams(task, stops)
        self._world.faults.events[Event.STREAM_STOPPED] += len(stops)
        self._world.stopped.update(stops)

    def trimmed(self, task: int, offset: int) -> None:
        """Count progress records that were deleted."""
        super().trimmed(task, offset)
        self._world.faults.events[Event.TRIMMED] += 1

    def resumed_streams(self, task: int, streams: Sequence[str]) -> None:
        """Count streams that continue."""
        super().resumed_streams(task, streams)
        self._world.faults.events[Event.STREAM_RESUMED] += len(streams)
        self._world.stopped.difference_update(streams)

    def erased(self, task: int, every: Sequence[Erased]) -> None:
        """Count what was erased."""
        super().erased(task, every)
        for erased in every:
            is_empty = not any(erased[2:])
            self._world.faults.events[Event.ERASED_AGAIN if is_empty else Event.ERASED] += 1

    def committed(self, task: int, offsets: tuple[int, int], counts: BatchCounts) -> None:
        """Write a line for each commit, not only for some of them."""
        self._say(f"committed task={task} offsets={offsets[0]}/{offsets[1]} outputs={sum(counts.outputs.values())}")

    def stopped(self, task: int, sequence: int, models: str) -> None:
        """Record a clean stop."""
        super().stopped(task, sequence, models)
        known = self._world.models.get(task, models)
        if known != models:
            self._world.wrong.append(f"task {task}: its models changed without a record")


class Process:
    """A process of `areba run`, from its start to its end."""

    def __init__(self, world: "World", instance: str, restarted_at: Sequence[float], was_fenced: bool) -> None:
        world.started += 1
        self.name = f"{instance}#{world.started}"
        self.instance = instance
        self.version = world.version
        self.without = world.without
        self.restarted_at = tuple(restarted_at)
        self.is_asked_to_stop = False
        self.worker: Worker | None = None
        self.notes: Notes | None = None
        self._world = world
        self._was_fenced = was_fenced
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
        return any(task.state in (TaskState.READING, TaskState.REPLAYING) for task in tasks)

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
        self._world.ended(self, error)

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
        self.notes = Notes(world, self.say, transaction)
        self.worker = Worker(self.config, ports, self.notes, was_fenced=self._was_fenced, room=world.shape.room)
        self.worker.run(lambda: self.is_asked_to_stop)
