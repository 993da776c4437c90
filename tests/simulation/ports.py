"""The ports of a worker, with everything that may happen at their calls.

Each keeps the contract of `stream_app.backends.base`: it returns less, later, or nothing, but never anything wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stream_app.backends.base import Answer, Clock, Fetched, TopicPartition
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.errors import UnknownOutcomeError
from stream_app.live.buffers import NO_RECORDS
from tests.simulation.faults import Event, Fault, Faults
from tests.simulation.schedule import KilledError, Scheduler

TRANSACTION_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a process: the longest duration of a port call, and how often another process runs in between."""

    call_s: float
    yield_rate: float


class Gate:
    """The gate that every port call of one process passes, before and after.

    Attributes:
        is_dead: Whether the process is dead, so that its calls have no effect.
        is_busy: Whether the process is stalled or cut off.
        begun_s: When its open transaction began; None: it has none.
    """

    def __init__(self, scheduler: Scheduler, faults: Faults, pace: Pace, say: Callable[[str], None]) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.say = say
        self.is_dead = False
        self.is_busy = False
        self.is_restoring: Callable[[], bool] = lambda: False
        self.begun_s: float | None = None
        self._pace = pace
        self._cut_off_until_s = 0.0

    @property
    def is_cut_off(self) -> bool:
        """Whether the process reaches no broker."""
        return self.scheduler.now_s < self._cut_off_until_s

    def enter(self, call: str) -> None:
        """Pass, stall, or never return."""
        if self.is_dead:
            raise KilledError
        draw = self.faults.draw
        self.scheduler.now_s += self._pace.call_s * draw.random()
        fault = self.faults.anywhere(call)
        if fault is not None:
            self._suffer(fault, call)
        elif draw.random() < self._pace.yield_rate:
            self.rest(0.0)

    def rest(self, seconds: float) -> None:
        """Let others run for this time."""
        self.scheduler.pause(seconds)
        if self.is_dead:
            raise KilledError

    def wait_for_broker(self) -> None:
        """Wait until the process can reach a broker."""
        while self.is_cut_off:
            self.rest(self._cut_off_until_s - self.scheduler.now_s)

    def call(self, name: str, inner: Callable[[], Answer]) -> Answer:
        """Make a call that needs the broker."""
        self.enter(name)
        self.wait_for_broker()
        answer = inner()
        self.enter(name)
        return answer

    def ask(self, name: str, inner: Callable[[], Answer]) -> Answer:
        """Make a call that needs the broker, and whose answer may be lost."""
        if self.faults.hit(Fault.UNANSWERED):
            self.say(f"{name}: no answer")
            self.enter(name)
            raise UnknownOutcomeError(f"{name}: no answer")
        return self.call(name, inner)

    def _suffer(self, fault: Fault, call: str) -> None:
        events = self.faults.events
        if fault is Fault.CRASH:
            self.say(f"{call}: killed")
            self.is_dead = True
            events[Event.CRASH_IN_TRANSACTION] += self.begun_s is not None
            events[Event.CRASH_IN_RESTORE] += self.is_restoring()
            raise KilledError
        seconds = self.faults.stall_s()
        self.say(f"{call}: {fault} for {seconds:.2f} s")
        if fault is Fault.OUTAGE:
            self._cut_off_until_s = self.scheduler.now_s + seconds
            return
        events[Event.STALL_IN_TRANSACTION] += self.begun_s is not None
        self.is_busy = True
        self.rest(seconds)
        self.is_busy = False


class SimulatedClock:
    """The clock of one process, which may be stopped between any two calls."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return self._clock.now_ms()

    def monotonic_s(self) -> float:
        """Return seconds, which never decrease."""
        self._gate.enter("clock")
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Let others run for this time."""
        self._gate.rest(seconds)


class SimulatedSource:
    """A member of the group."""

    def __init__(self, gate: Gate, inner: EmbeddedSource) -> None:
        self._gate = gate
        self._inner = inner
        self._held_ends: dict[TopicPartition, int] = {}  # partitions read to their ends, not reported to the worker yet
        self._lags_until_s: dict[TopicPartition, float] = {}
        self._kept: dict[TopicPartition, list[Fetched]] = {}  # fetched, but not returned yet

    @property
    def member(self) -> str:
        """Its name in the group."""
        return self._inner._name

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group."""

        def assigned(given: Sequence[TopicPartition]) -> None:
            self._forget(given)
            self._gate.faults.events[Event.REBALANCE] += 1
            on_assign(given)

        def revoked(given: Sequence[TopicPartition]) -> None:
            self._forget(given)
            self._gate.faults.events[Event.RESTORE_BROKEN_OFF] += self._gate.is_restoring()
            on_revoke(given)

        self._gate.call("subscribe", lambda: self._inner.subscribe(topics, assigned, revoked, partitions))

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read from these offsets."""
        self._forget(offsets)
        self._lag_by_chance(sorted(offsets))
        self._local("start_at", lambda: self._inner.start_at(offsets))

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these partitions."""
        stopped = sorted(partitions)
        self._forget(stopped)
        self._local("stop_reading", lambda: self._inner.stop_reading(stopped))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these partitions for now."""
        paused = sorted(partitions)
        for partition in paused:
            self._held_ends.pop(partition, None)
        self._local("pause", lambda: self._inner.pause(paused))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue with these partitions."""
        resumed = sorted(partitions)
        self._local("resume", lambda: self._inner.resume(resumed))

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the fetched records of these partitions."""
        for partition in partitions:
            self._held_ends.pop(partition, None)
            self._kept.pop(partition, None)

    def _local(self, name: str, inner: Callable[[], None]) -> None:
        """Do what the client does without a broker."""
        self._gate.enter(name)
        inner()
        self._gate.enter(name)

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return records, fewer than there are, or none."""
        gate, faults = self._gate, self._gate.faults
        gate.enter("poll")
        gate.rest(0.0)
        if gate.is_cut_off or faults.hit(Fault.EMPTY_POLL):
            gate.rest(timeout_s)
            return ()
        if faults.hit(Fault.SHORT_POLL):
            max_records = 1 + int(3 * faults.draw.random())
        patience_s = 0.0 if self._kept else self._patience_s(timeout_s)
        fetched = self._lagging(self._late_ends(self._inner.poll(max_records, patience_s)))
        if self._kept and not fetched:
            gate.rest(timeout_s)
        gate.enter("poll")
        return fetched

    def _patience_s(self, timeout_s: float) -> float:
        """Return how long an idle worker waits; sometimes it wakes later than it asked for."""
        return timeout_s * (10.0 if self._gate.faults.draw.random() < 0.7 else 1.0)

    def _lag_by_chance(self, partitions: Sequence[TopicPartition]) -> None:
        faults = self._gate.faults
        if partitions and faults.hit(Fault.LAG):
            place = partitions[int(faults.draw.random() * len(partitions))]
            self._lags_until_s[place] = self._gate.scheduler.now_s + 3.0 * faults.draw.random()

    def _lagging(self, given: Sequence[Fetched]) -> list[Fetched]:
        """Delay what one side returns, without changing its order."""
        faults, now_s = self._gate.faults, self._gate.scheduler.now_s
        self._lag_by_chance([fetched.partition for fetched in given])
        for fetched in given:
            self._kept.setdefault(fetched.partition, []).append(fetched)
        ready = [place for place in self._kept if faults.is_calm or self._lags_until_s.get(place, 0.0) <= now_s]
        return [fetched for place in ready for fetched in self._kept.pop(place)]

    def _late_ends(self, given: Sequence[Fetched]) -> list[Fetched]:
        """Delay some ends of partitions, and report some earlier ones if no record came since."""
        faults, result = self._gate.faults, []
        held = sorted(self._held_ends)
        for fetched in given:
            self._held_ends.pop(fetched.partition, None)
            if fetched.at_end and faults.hit(Fault.LATE_END):
                self._held_ends[fetched.partition] = fetched.position
                if len(fetched.records):
                    after_records = int(fetched.records.offsets[-1]) + 1
                    result.append(replace(fetched, at_end=False, position=after_records))
            else:
                result.append(fetched)
        heard = {fetched.partition for fetched in given}
        for partition in held:
            if partition not in heard and (faults.is_calm or faults.draw.random() < 0.4):
                position = self._held_ends.pop(partition)
                result.append(Fetched(partition, NO_RECORDS, at_end=True, position=position))
        return result

    def finds_group(self, partition: TopicPartition, timeout_s: float) -> bool:
        """Say whether the coordinator answers."""
        return self._gate.ask("finds_group", lambda: self._inner.finds_group(partition, timeout_s))

    def known_end(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as the client last saw it, without a request."""
        return self._inner.known_end(partition)

    def group_metadata(self) -> object:
        """Return our generation."""
        self._gate.enter("group_metadata")
        return self._inner.group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._gate.call("close", self._inner.close)
