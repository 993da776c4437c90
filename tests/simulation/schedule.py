"""Processes as greenlets, in virtual time: who goes next is drawn, and nothing ever waits for real."""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from stream_app.backends.base import Clock, Committed, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.log import LogTransaction, TransactionState

START_MS = 1_700_000_000_000
"""Wall time at which every world begins."""

MAX_SWITCHES = 60_000
"""From one actor to the next, in one seed: a hundred times what most take. More is a livelock."""


class StuckError(Exception):
    """The world does not come to an end."""


class KilledError(GreenletExit):
    """What `kill -9` looks like from inside: nothing catches it, and no call does anything on the way out."""


class Actor:
    """Somebody who acts in the world: `main` runs until it pauses, and goes on when it is its turn again."""

    def __init__(self, main: Callable[[], None], parent: greenlet) -> None:
        self.wake_s = 0.0
        self.is_waiting = False
        self.is_killed = False
        self.thread = greenlet(main, parent)

    def kill(self) -> None:
        """Never let it go on."""
        self.is_killed = True
        self.wake_s = 0.0


class Scheduler:
    """Lets actors take turns.

    Args:
        draw: Decides who goes next.
    """

    def __init__(self, draw: Random) -> None:
        self.now_s = 0.0
        self.switches = 0
        self._draw = draw
        self._main = getcurrent()
        self._actors: list[Actor] = []
        self._current: Actor | None = None

    def spawn(self, main: Callable[[], None], after_s: float = 0.0) -> Actor:
        """Somebody new, who begins after so long."""
        actor = Actor(main, self._main)
        actor.wake_s = self.now_s + after_s
        self._actors.append(actor)
        return actor

    def run(self, is_over: Callable[[], bool]) -> None:
        """Let all of them act until it is over.

        Raises:
            StuckError: It is not, after `MAX_SWITCHES`.
        """
        while not is_over():
            self.switches += 1
            if self.switches > MAX_SWITCHES or not self._actors:
                raise StuckError(f"no end after {self.switches} turns and {self.now_s:.0f} s")
            ready = [actor for actor in self._actors if actor.wake_s <= self.now_s]
            if not ready:
                self.now_s = min(actor.wake_s for actor in self._actors)
                continue
            actor = ready[0] if len(ready) == 1 else ready[int(self._draw.random() * len(ready))]
            self._current = actor
            if actor.is_killed:
                actor.thread.throw(KilledError)
            else:
                actor.thread.switch()
            self._current = None
            if actor.thread.dead:
                self._actors.remove(actor)

    def pause(self, seconds: float) -> None:
        """Let others act, for so long; nothing ends it before."""
        self._leave(seconds, is_waiting=False)

    def wait(self, seconds: float) -> None:
        """Let others act until something changes, at most for so long."""
        self._leave(seconds, is_waiting=True)

    def _leave(self, seconds: float, *, is_waiting: bool) -> None:
        actor = self._current
        if actor is None:
            raise AssertionError("only an actor waits")
        actor.wake_s = self.now_s + seconds
        actor.is_waiting = is_waiting
        self._main.switch()
        actor.is_waiting = False

    def wake_waiting(self) -> None:
        """Something has changed."""
        for actor in self._actors:
            if actor.is_waiting:
                actor.wake_s = min(actor.wake_s, self.now_s)

    def close(self) -> None:
        """End everybody who is left."""
        for actor in self._actors:
            actor.thread.throw(GreenletExit)
        self._actors.clear()


class VirtualClock:
    """The clock of the world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return START_MS + int(self._scheduler.now_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds, never going back."""
        return self._scheduler.now_s

    def sleep(self, seconds: float) -> None:
        """Let others act for so long."""
        self._scheduler.pause(seconds)


class _Changes(threading.Condition):
    """Tells the scheduler of changes, instead of threads that do not exist."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(threading.RLock())
        self._wake = wake

    def notify_all(self) -> None:
        """Something has changed."""
        self._wake()


class SimulatedBroker(EmbeddedBroker):
    """The in-process log; who waits at it lets others act."""

    def __init__(self, clock: Clock, scheduler: Scheduler, max_poll_interval_s: float) -> None:
        super().__init__(clock, max_poll_interval_s, _Changes(scheduler.wake_waiting))
        self._scheduler = scheduler
        self._deleted: dict[TopicPartition, list[Any]] = {}
        self._hanging: dict[str, list[LogTransaction]] = {}
        self.loses_markers: Callable[[str], bool] = lambda _: False
        self.loses_commit_markers: Callable[[str, Sequence[Hashable]], set[Hashable]] = lambda *_: set()
        self.swept: Callable[[], None] = lambda: None

    @property
    def hanging(self) -> Sequence[str]:
        """Names of those of whom something hangs."""
        return sorted(self._hanging)

    def hangs(self, places: Sequence[TopicPartition]) -> bool:
        """Whether any records hang, or the offsets of one of these partitions."""
        parts = [part for parts in self._hanging.values() for part in parts]
        offsets = {place for part in parts for group in part.offsets.values() for place in group}
        return any(part.partitions for part in parts) or not offsets.isdisjoint(places)

    def offsets(self, group_id: str, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Committed | None]:
        """The group's committed offsets, whatever holds them."""
        return {place: self.groups.group(group_id).offsets.get(place) for place in places}

    def end(self, transactional_id: str, state: TransactionState) -> None:
        """Commit or abort, and what hangs of this name where the transaction has been, too; or hang."""
        transaction = self._open.get(transactional_id)
        if transaction is not None and state is TransactionState.ABORTED and self.loses_markers(transactional_id):
            self._hang(transactional_id, self._open.pop(transactional_id))
        elif transaction is not None:
            if state is TransactionState.COMMITTED:
                places: list[Hashable] = [*transaction.partitions, *transaction.offsets]
                self._leave_out(transactional_id, transaction, self.loses_commit_markers(transactional_id, places))
            self._end_hanging(transactional_id, transaction, state)
        super().end(transactional_id, state)

    def end_by_hand(self, transactional_id: str) -> None:
        """What an operator does with what hangs of a name that does not come back."""
        for hanging in self._hanging.pop(transactional_id, []):
            self._end_part(hanging, TransactionState.ABORTED)

    def _hang(self, transactional_id: str, transaction: LogTransaction) -> None:
        """Each partition's part for itself, and each group's offsets: they may end in different ways."""
        self._leave_out(transactional_id, transaction, {*transaction.partitions, *transaction.offsets})

    def _leave_out(self, transactional_id: str, transaction: LogTransaction, lost: set[Hashable]) -> None:
        """These partitions, and the offsets of these groups, get no marker."""
        if not lost:
            return
        parts = self._hanging.setdefault(transactional_id, [])
        for partition in [one for one in transaction.partitions if one in lost]:
            first = transaction.partitions.pop(partition)
            part = LogTransaction(transaction.started_s, transaction.timeout_s, partitions={partition: first})
            log = self._log(partition)
            log.entries[:] = [e._replace(transaction=part) if e.transaction is transaction else e for e in log.entries]
            log.open[part] = log.open.pop(transaction)
            parts.append(part)
        for group_id in [one for one in transaction.offsets if one in lost]:
            offsets = transaction.offsets.pop(group_id)
            parts.append(LogTransaction(transaction.started_s, transaction.timeout_s, offsets={group_id: offsets}))

    def _end_hanging(self, transactional_id: str, transaction: LogTransaction, state: TransactionState) -> None:
        touched = {*transaction.partitions, *transaction.offsets}
        parts = self._hanging.pop(transactional_id, [])
        left = [part for part in parts if touched.isdisjoint((*part.partitions, *part.offsets))]
        if left:
            self._hanging[transactional_id] = left
        for part in parts:
            if part not in left:
                self._end_part(part, state)
                self.swept()

    def _end_part(self, part: LogTransaction, state: TransactionState) -> None:
        part.state = state
        for partition in part.partitions:
            del self._log(partition).open[part]
        for group_id, offsets in part.offsets.items():
            if state is TransactionState.COMMITTED:
                self.groups.group(group_id).offsets.update(offsets)
        self.changed.notify_all()

    def _held(self, group_id: str, partitions: Sequence[TopicPartition]) -> bool:
        hanging = [part.offsets.get(group_id, {}) for parts in self._hanging.values() for part in parts]
        held = any(partition in offsets for offsets in hanging for partition in partitions)
        return held or super()._held(group_id, partitions)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change; the one place where a client of the log waits."""
        if timeout_s <= 0:
            return False
        self._scheduler.wait(timeout_s)
        return True

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Forget what lies below this offset; the world remembers it, for what is to be checked in the end."""
        log = self._log(partition)
        kept = self._deleted.setdefault(partition, [])
        kept += log.entries[: log.index(min(offset, log.high))]
        super().delete_before(partition, offset)

    @contextmanager
    def whole(self, partition: TopicPartition) -> Iterator[None]:
        """As if nothing had been deleted from it."""
        log = self._log(partition)
        deleted, low = self._deleted.get(partition, []), log.low
        log.entries[:0], log.low = deleted, 0
        try:
            yield
        finally:
            log.low = low
            del log.entries[: len(deleted)]

    def put_back(self) -> None:
        """All that was deleted, for good."""
        for partition, deleted in self._deleted.items():
            log = self._log(partition)
            log.entries[:0], log.low = deleted, 0
        self._deleted.clear()
