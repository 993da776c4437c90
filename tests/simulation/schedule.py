"""Processes as greenlets, in virtual time: chance decides whose turn it is, and nothing waits for real."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from stream_app.backends.base import Clock, TopicPartition
from stream_app.errors import FencedError
from tests.support.lost_markers import MarkerLosingBroker

START_MS = 1_700_000_000_000
"""Wall time at which every world starts."""

MAX_SWITCHES = 60_000
"""Switches between actors in one seed: a hundred times what most seeds take. More is a livelock."""


class StuckError(Exception):
    """The world does not end."""


class KilledError(GreenletExit):
    """Ends a process as `kill -9` does: nothing catches it, and no call has an effect on the way out."""


class Actor:
    """An actor of the world: `main` runs until it pauses, and continues at its next turn."""

    def __init__(self, main: Callable[[], None], parent: greenlet) -> None:
        self.wake_s = 0.0
        self.is_waiting = False
        self.is_killed = False
        self.thread = greenlet(main, parent)

    def kill(self) -> None:
        """Never continue."""
        self.is_killed = True
        self.wake_s = 0.0


class Scheduler:
    """Gives actors their turns.

    Args:
        draw: Decides whose turn is next.
    """

    def __init__(self, draw: Random) -> None:
        self.now_s = 0.0
        self.switches = 0
        self._draw = draw
        self._main = getcurrent()
        self._actors: list[Actor] = []
        self._current: Actor | None = None

    def spawn(self, main: Callable[[], None], after_s: float = 0.0) -> Actor:
        """Add an actor, who starts after this time."""
        actor = Actor(main, self._main)
        actor.wake_s = self.now_s + after_s
        self._actors.append(actor)
        return actor

    def run(self, is_over: Callable[[], bool]) -> None:
        """Let all actors run until the condition is true.

        Raises:
            StuckError: The condition is not true after `MAX_SWITCHES`.
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
        """Let others run for this time; nothing ends the pause earlier."""
        self._leave(seconds, is_waiting=False)

    def wait(self, seconds: float) -> None:
        """Let others run until something changes, at most for this time."""
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
        """Wake the actors that wait for a change."""
        for actor in self._actors:
            if actor.is_waiting:
                actor.wake_s = min(actor.wake_s, self.now_s)

    def close(self) -> None:
        """End all actors that are left."""
        for actor in self._actors:
            actor.thread.throw(GreenletExit)
        self._actors.clear()


class VirtualClock:
    """The clock of the world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return START_MS + int(self._scheduler.now_s * 1000)

    def monotonic_s(self) -> float:
        """Return seconds, which never decrease."""
        return self._scheduler.now_s

    def sleep(self, seconds: float) -> None:
        """Let others run for this time."""
        self._scheduler.pause(seconds)


class _Changes(threading.Condition):
    """A condition that notifies the scheduler instead of threads."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(threading.RLock())
        self._wake = wake

    def notify_all(self) -> None:
        """Notify the scheduler of a change."""
        self._wake()


class SimulatedBroker(MarkerLosingBroker):
    """The in-process log, in which a client that waits lets others run."""

    def __init__(self, clock: Clock, scheduler: Scheduler, max_poll_interval_s: float) -> None:
        super().__init__(clock, max_poll_interval_s, _Changes(scheduler.wake_waiting))
        self._scheduler = scheduler
        self._deleted: dict[TopicPartition, list[Any]] = {}
        self._forgotten: set[str] = set()

    def pass_time(self, seconds: float, group_id: str) -> None:
        """Let time pass in which each member of a group polls and each client keeps what it has open."""
        self._scheduler.now_s += seconds
        for member in self.groups.group(group_id).members.values():
            member.polled_s += seconds
        for transaction in self._open.values():
            transaction.started_s += seconds

    def retain(self) -> None:
        """Delete what is too old, but keep it for the checks at the end."""
        before = {place: list(log.entries) for place, log in self._logs.items()}
        super().retain()
        for place, entries in before.items():
            self._deleted.setdefault(place, []).extend(entries[: len(entries) - len(self._logs[place].entries)])

    def forget_ids(self) -> None:
        """Forget each transactional id without a transaction, as after `transactional.id.expiration.ms`."""
        self._forgotten |= self._epochs.keys() - self._open.keys() - self._hanging.keys()

    def has_forgotten(self, transactional_id: str) -> bool:
        """Say whether this id was forgotten and not initialised again."""
        return transactional_id in self._forgotten

    def initialise(self, transactional_id: str) -> int:
        """Raise the epoch of an id; a forgotten one gets another producer id, for which a new epoch stands."""
        self._forgotten.discard(transactional_id)
        return super().initialise(transactional_id)

    def check_epoch(self, transactional_id: str, epoch: int) -> None:
        """Refuse any epoch but the newest, and an id that was forgotten."""
        if transactional_id in self._forgotten:
            raise FencedError(f"transaction of {transactional_id}: the id is forgotten")
        super().check_epoch(transactional_id, epoch)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change; this is the only place where a client of the log waits."""
        if timeout_s <= 0:
            return False
        self._scheduler.wait(timeout_s)
        return True

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Delete the records below this offset, but keep them for the checks at the end."""
        log = self._log(partition)
        kept = self._deleted.setdefault(partition, [])
        kept += log.entries[: log.index(min(offset, log.high))]
        super().delete_before(partition, offset)

    @contextmanager
    def whole(self, partition: TopicPartition) -> Iterator[None]:
        """Show a partition during the block as if nothing had been deleted."""
        log = self._log(partition)
        deleted, low = self._deleted.get(partition, []), log.low
        log.entries[:0], log.low = deleted, 0
        try:
            yield
        finally:
            log.low = low
            del log.entries[: len(deleted)]

    def put_back(self) -> None:
        """Restore everything that was deleted."""
        for partition, deleted in self._deleted.items():
            log = self._log(partition)
            log.entries[:0], log.low = deleted, 0
        self._deleted.clear()
