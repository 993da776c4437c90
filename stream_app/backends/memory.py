"""The ports over an in-process log: runs without a broker, and tests that need no time.

What Kafka promises is kept, in the simplest way that keeps it:

    log             records of an open transaction take offsets at once, but nobody reads past the first of them (the
                    last stable offset); a commit or an abort takes one more offset, so there are gaps here too
    transactions    `initialise` raises the epoch of a transactional id and aborts what the one before left open;
                    whoever has a smaller epoch is fenced; what is open for too long is aborted, its owner fenced
    groups          eager: when members come or go, each gives up all at its next `poll` and joins again; with the last
                    to join, a new generation gets its assignment (`range`)
    offsets         are part of the transaction, and refused when they come from an older generation

All is guarded by one lock. A thread that waits is woken by any change. With a `ManualClock` nobody waits: time jumps.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from stream_app.backends.base import (
    CLIENT_NAME,
    Clock,
    Committed,
    Ends,
    Fetched,
    LogReader,
    TopicInfo,
    TopicPartition,
    Watermarks,
    given_partitions,
)
from stream_app.backends.partitioner import partition_of
from stream_app.errors import (
    DeliveryError,
    FencedError,
    OffsetGoneError,
    RecordTooLargeError,
    StateError,
    TopicError,
    TransactionAbortedError,
    UnstableOffsetsError,
)
from stream_app.records import UNREADABLE_HEADERS, Header, OutputRecords, RawRecords
from stream_app.serialization.left_out import Fields, batch_bytes

TRANSACTION_TIMEOUT_S = 10.0
"""`transaction.timeout.ms` of the application."""

MAX_POLL_INTERVAL_S = 300.0
"""Kafka's default: a member that does not poll for so long is out of the group."""

STABLE_TIMEOUT_S = 30.0
"""Longest wait for committed offsets that an open transaction holds: three times what it may stay open."""

_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "max.message.bytes": "1048588",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
}
"""Kafka's own, of the settings that somebody here asks for."""


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._passed_s = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._start_ms + int(self._passed_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds, never going back."""
        return self._passed_s

    def sleep(self, seconds: float) -> None:
        """Let this time pass, at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed_s += seconds


# The log --------------------------------------------------------------------------------------------------------------


class _State(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False, slots=True)
class _Open:
    """One transaction: where it wrote, and the offsets it carries by group."""

    started_s: float
    timeout_s: float
    state: _State = _State.OPEN
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)


class _Entry(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    transaction: _Open | None
    marker: bool = False


class _Partition:
    """One log. Entries are in offset order; compaction leaves gaps."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.low = 0
        self.high = 0
        self.open: dict[_Open, int] = {}

    def append(self, entry: _Entry) -> None:
        self.entries.append(entry)
        self.high = entry.offset + 1

    def stable(self) -> int:
        """The last stable offset: nothing behind it is given to a reader."""
        return min(self.open.values(), default=self.high)

    def read(self, position: int, limit: int, *, committed: bool = True) -> tuple[list[_Entry], int]:
        """At most `limit` records from here on, committed ones or all, and where the next read begins."""
        found: list[_Entry] = []
        stable = self.stable() if committed else self.high
        for index in range(self.index(position), len(self.entries)):
            entry = self.entries[index]
            if entry.offset >= stable:
                break
            if len(found) == limit:
                return found, entry.offset
            if _visible(entry) or not (committed or entry.marker):
                found.append(entry)
        return found, max(position, stable)

    def index(self, offset: int) -> int:
        """Where the first entry from this offset on stands."""
        return bisect_left(self.entries, offset, key=_offset)


def _offset(entry: _Entry) -> int:
    return entry.offset


def _visible(entry: _Entry) -> bool:
    return not entry.marker and (entry.transaction is None or entry.transaction.state is _State.COMMITTED)


def _columns(entries: Sequence[_Entry]) -> RawRecords:
    return RawRecords(
        offsets=np.array([entry.offset for entry in entries], np.int64),
        timestamps=np.array([entry.timestamp for entry in entries], np.int64),
        keys=[entry.key for entry in entries],
        values=[entry.value for entry in entries],
        headers={row: _readable(entry.headers) for row, entry in enumerate(entries) if entry.headers},
    )


def _readable(headers: Sequence[Header]) -> Sequence[Header]:
    """As a client gives them; in a name that is not UTF-8, lone surrogates stand for the bytes (PEP 383)."""
    return headers if all(name.isascii() or _is_utf8(name) for name, _ in headers) else UNREADABLE_HEADERS


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Member:
    """One member of a group, and what it was given."""

    def __init__(self, name: str, topics: Sequence[str], polled_s: float, client_id: str) -> None:
        self.name = name
        self.client_id = client_id
        self.topics = tuple(topics)
        self.polled_s = polled_s
        self.joined = 0  # the rebalance that it has joined
        self.assigned: tuple[TopicPartition, ...] = ()


class _Group:
    """A consumer group; `rebalance` counts what made its members join again, `generation` completed assignments."""

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.names = 0
        self.rebalance = 0
        self.generation = 0
        self.completed = 0  # the rebalance that the generation's assignment answered
        self.offsets: dict[TopicPartition, Committed] = {}


class GroupMetadata(NamedTuple):
    """What ties offsets to one generation of a group."""

    group_id: str
    member: str
    generation: int


class EmbeddedBroker:
    """Topics, groups and transactional ids; every client of it is one of the classes below.

    Args:
        clock: Times transactions and members out. With a `ManualClock`, waiting moves it and takes no time.
        max_poll_interval_s: A member that does not poll for so long is out of its group.
    """

    def __init__(self, clock: Clock, max_poll_interval_s: float = MAX_POLL_INTERVAL_S) -> None:
        self.clock = clock
        self._max_poll_interval_s = max_poll_interval_s
        self.changed = threading.Condition(threading.RLock())
        self._topics: dict[str, TopicInfo] = {}
        self._created = 0
        self._logs: dict[TopicPartition, _Partition] = {}
        self._groups: dict[str, _Group] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, _Open] = {}

    # Topics and logs ------------------------------------------------------------------------------------------------

    def create_topic(self, topic: TopicInfo) -> None:
        """Create it, unless it is there."""
        with self.changed:
            if topic.name not in self._topics:
                self._created += 1
                topic_id = f"embedded-topic-{self._created}"
                self._topics[topic.name] = replace(topic, settings={**_DEFAULTS, **topic.settings}, topic_id=topic_id)
                for number in range(topic.partitions):
                    self._logs[TopicPartition(topic.name, number)] = _Partition()

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Change settings, as `kafka-configs.sh` does."""
        with self.changed:
            topic = self.topic(name)
            self._topics[name] = replace(topic, settings={**topic.settings, **settings})

    def delete_topic(self, name: str) -> None:
        """Delete it with its records, and with what any group has committed of it, as Kafka does; no member reads it.

        Raises:
            TopicError: There is none.
        """
        with self.changed:
            for number in range(self.topic(name).partitions):
                del self._logs[TopicPartition(name, number)]
            del self._topics[name]
            for group in self._groups.values():
                group.offsets = {place: known for place, known in group.offsets.items() if place.topic != name}

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give it more partitions; groups whose members read it are rebalanced.

        Raises:
            TopicError: There is no such topic.
        """
        with self.changed:
            topic = self.topic(name)
            for number in range(topic.partitions, partitions):
                self._logs[TopicPartition(name, number)] = _Partition()
            self._topics[name] = replace(topic, partitions=partitions)
            for group in self._groups.values():
                group.rebalance += any(name in member.topics for member in group.members.values())
            self.changed.notify_all()

    def topic(self, name: str) -> TopicInfo:
        """A topic by name.

        Raises:
            TopicError: There is none.
        """
        with self.changed:
            if name not in self._topics:
                raise TopicError(f"{name}: there is no such topic")
            return self._topics[name]

    def topics(self) -> Mapping[str, TopicInfo]:
        """All there are."""
        with self.changed:
            return dict(self._topics)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """First offset, and the one behind the last entry."""
        with self.changed:
            self.expire()
            log = self._log(partition)
            return Watermarks(log.low, log.high)

    def ends(self, partition: TopicPartition) -> Ends:
        """The last stable offset, and the one behind the last entry."""
        with self.changed:
            self.expire()
            log = self._log(partition)
            return Ends(log.stable(), log.high)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """What retention does: forget what lies below this offset."""
        with self.changed:
            log = self._log(partition)
            log.low = max(log.low, min(offset, log.high))
            del log.entries[: log.index(log.low)]

    def compact(self, partition: TopicPartition) -> None:
        """What the cleaner of a compacted topic does: keep the last committed record of each key."""
        with self.changed:
            log = self._log(partition)
            stable = log.stable()
            last = {e.key: e.offset for e in log.entries if e.offset < stable and _visible(e)}
            log.entries = [e for e in log.entries if e.offset >= stable or last.get(e.key) == e.offset]

    def _log(self, partition: TopicPartition) -> _Partition:
        self.topic(partition.topic)
        if partition not in self._logs:
            raise TopicError(f"{partition.topic}: there is no partition {partition.partition}")
        return self._logs[partition]

    def append(
        self,
        partition: TopicPartition,
        records: Iterable[tuple[bytes | None, bytes | None, int, Sequence[Header]]],
        transaction: _Open | None = None,
    ) -> range:
        """Write (key, value, timestamp, headers); their offsets.

        Raises:
            RecordTooLargeError: One is larger than the topic's `max.message.bytes`.
        """
        with self.changed:
            log = self._log(partition)
            settings = self._topics[partition.topic].settings
            largest = int(settings["max.message.bytes"])
            created = settings["message.timestamp.type"] == "CreateTime"
            first = log.high
            rows = list(records)
            for key, value, _, headers in rows:
                size = batch_bytes(Fields(key, value, _readable(headers)))
                if size > largest:
                    raise RecordTooLargeError(
                        f"{partition.topic}[{partition.partition}]: {size} bytes, at most {largest} fit"
                    )
            for key, value, timestamp, headers in rows:
                log.append(_Entry(log.high, timestamp if created else -1, key, value, tuple(headers), transaction))
            if transaction is not None and log.high > first and partition not in transaction.partitions:
                transaction.partitions[partition] = first
                log.open[transaction] = first
            self.changed.notify_all()
            return range(first, log.high)

    def read(
        self, partition: TopicPartition, position: int, limit: int, *, committed: bool = True
    ) -> tuple[RawRecords, int, bool]:
        """Records from `position` on, committed ones or all; where the next read begins, and whether that is the end.

        Raises:
            OffsetGoneError: The offset is gone, or lies behind the end.
        """
        with self.changed:
            self.expire()
            log = self._log(partition)
            if not log.low <= position <= log.high:
                raise OffsetGoneError(
                    f"{partition.topic}[{partition.partition}]: offset {position} is gone, "
                    f"there are {log.low} to {log.high}",
                    partition,
                )
            entries, following = log.read(position, limit, committed=committed)
            return _columns(entries), following, following >= (log.stable() if committed else log.high)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change (the lock is held); whether there may have been one."""
        if timeout_s <= 0:
            return False
        if isinstance(self.clock, ManualClock):
            self.clock.advance(timeout_s)
            return False
        return self.changed.wait(timeout_s)

    # Transactions ---------------------------------------------------------------------------------------------------

    def initialise(self, transactional_id: str) -> int:
        """Raise the epoch and abort what is open; the epoch."""
        with self.changed:
            self.end(transactional_id, _State.ABORTED)
            self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
            return self._epochs[transactional_id]

    def check_epoch(self, transactional_id: str, epoch: int) -> None:
        """Refuse all but the newest.

        Raises:
            FencedError: There is a newer epoch.
        """
        with self.changed:
            self.expire()
            current = self._epochs.get(transactional_id)
            if current != epoch:
                raise FencedError(f"transaction of {transactional_id}: epoch {epoch} is fenced by {current}")

    def begin(self, transactional_id: str, timeout_s: float) -> _Open:
        """Open a transaction."""
        with self.changed:
            transaction = _Open(self.clock.monotonic_s(), timeout_s)
            self._open[transactional_id] = transaction
            return transaction

    def end(self, transactional_id: str, state: _State) -> None:
        """Commit or abort what this id has open, if anything."""
        with self.changed:
            transaction = self._open.pop(transactional_id, None)
            if transaction is None:
                return
            transaction.state = state
            for partition in transaction.partitions:
                log = self._logs[partition]
                del log.open[transaction]
                log.append(_Entry(log.high, -1, None, None, (), transaction, marker=True))
            if state is _State.COMMITTED:
                for group_id, offsets in transaction.offsets.items():
                    self._group(group_id).offsets.update(offsets)
            self.changed.notify_all()

    def expire(self) -> None:
        """Abort what was open for too long, and fence its owner."""
        with self.changed:
            now_s = self.clock.monotonic_s()
            for transactional_id, transaction in list(self._open.items()):
                if now_s - transaction.started_s > transaction.timeout_s:
                    self.initialise(transactional_id)

    # Groups ---------------------------------------------------------------------------------------------------------

    def _group(self, group_id: str) -> _Group:
        return self._groups.setdefault(group_id, _Group())

    def join(self, group_id: str, topics: Sequence[str], client_id: str = CLIENT_NAME) -> str:
        """Add a member; its name. The group is rebalanced."""
        with self.changed:
            group = self._group(group_id)
            group.names += 1
            name = f"member-{group.names:06d}"
            group.members[name] = _Member(name, topics, self.clock.monotonic_s(), client_id)
            group.rebalance += 1
            self.changed.notify_all()
            return name

    def leave(self, group_id: str, name: str) -> None:
        """Remove a member. The group is rebalanced."""
        with self.changed:
            group = self._group(group_id)
            if group.members.pop(name, None) is not None:
                group.rebalance += 1
                self.changed.notify_all()

    def must_rejoin(self, group_id: str, name: str) -> bool:
        """Whether this member has to give up what it holds; it is heard of by asking, and those not heard of leave."""
        with self.changed:
            group = self._group(group_id)
            if name in group.members:
                group.members[name].polled_s = self.clock.monotonic_s()
            self._remove_silent(group_id)
            member = group.members.get(name)
            return member is None or member.joined != group.rebalance

    def _remove_silent(self, group_id: str) -> None:
        now_s = self.clock.monotonic_s()
        members = self._group(group_id).members.values()
        for name in [member.name for member in members if now_s - member.polled_s > self._max_poll_interval_s]:
            self.leave(group_id, name)

    def rejoin(self, group_id: str, name: str, topics: Sequence[str], client_id: str) -> str:
        """Join the running rebalance; the last member to do so ends it. The name, a new one for who was removed."""
        with self.changed:
            group = self._group(group_id)
            if name not in group.members:
                name = self.join(group_id, topics, client_id)
            group.members[name].joined = group.rebalance
            if all(member.joined == group.rebalance for member in group.members.values()):
                self._assign(group)
            return name

    def _assign(self, group: _Group) -> None:
        group.generation += 1
        group.completed = group.rebalance
        given: dict[str, list[TopicPartition]] = {name: [] for name in group.members}
        for topic in sorted({topic for member in group.members.values() for topic in member.topics}):
            takers = sorted(name for name, member in group.members.items() if topic in member.topics)
            share, more = divmod(self.topic(topic).partitions, len(takers))
            start = 0
            for place, name in enumerate(takers):
                stop = start + share + (place < more)
                given[name] += [TopicPartition(topic, number) for number in range(start, stop)]
                start = stop
        for name, partitions in given.items():
            group.members[name].assigned = tuple(partitions)
        self.changed.notify_all()

    def assignment(self, group_id: str, name: str) -> tuple[int, tuple[TopicPartition, ...]] | None:
        """Generation and partitions of a member; None while the group is being rebalanced."""
        with self.changed:
            group = self._group(group_id)
            if group.completed != group.rebalance or name not in group.members:
                return None
            return group.generation, group.members[name].assigned

    def add_offsets(
        self, transaction: _Open, offsets: Mapping[TopicPartition, Committed], metadata: GroupMetadata
    ) -> str | None:
        """Put offsets into a transaction; why not, if the group has moved on."""
        with self.changed:
            group = self._group(metadata.group_id)
            if metadata.member:  # who never was one is not fenced, in Kafka neither
                if metadata.member not in group.members:
                    return f"{metadata.member} is no member of {metadata.group_id}"
                if metadata.generation != group.generation:
                    return f"generation {metadata.generation} of {metadata.group_id} is over, now {group.generation}"
            transaction.offsets.setdefault(metadata.group_id, {}).update(offsets)
            return None

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition], timeout_s: float = STABLE_TIMEOUT_S
    ) -> Mapping[TopicPartition, Committed | None]:
        """The group's committed offsets, once no open transaction holds any of them.

        Raises:
            UnstableOffsetsError: A transaction still does after this time.
        """
        with self.changed:
            deadline_s = self.clock.monotonic_s() + timeout_s
            while self._held(group_id, partitions):
                if self.clock.monotonic_s() > deadline_s:
                    raise UnstableOffsetsError(f"{group_id}: offsets are held by an open transaction")
                self.wait(0.1)
                self.expire()
            offsets = self._group(group_id).offsets
            return {partition: offsets.get(partition) for partition in partitions}

    def member_count(self, group_id: str) -> int:
        """How many members a group has now."""
        return len(self.members(group_id))

    def members(self, group_id: str) -> Sequence[str]:
        """The `client.id` of each member that a group has now."""
        with self.changed:
            self._remove_silent(group_id)
            return [member.client_id for member in self._group(group_id).members.values()]

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets without being a member.

        Raises:
            StateError: There are members.
        """
        with self.changed:
            group = self._group(group_id)
            self._remove_silent(group_id)
            if group.members:
                raise StateError(f"{group_id}: the group has members; stop all of them first")
            group.offsets.update(offsets)
            self.changed.notify_all()

    def _held(self, group_id: str, partitions: Sequence[TopicPartition]) -> bool:
        return any(
            partition in transaction.offsets.get(group_id, {})
            for transaction in self._open.values()
            for partition in partitions
        )


# The clients ----------------------------------------------------------------------------------------------------------


class EmbeddedSource:
    """`ports.Source` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker, group_id: str, client_id: str = CLIENT_NAME) -> None:
        self._broker = broker
        self._group_id = group_id
        self._client_id = client_id
        self._topics: tuple[str, ...] = ()
        self._partitions = 0
        self._name = ""
        self._generation = 0
        self._on_assign: Callable[[Sequence[TopicPartition]], None] = _nothing
        self._on_revoke: Callable[[Sequence[TopicPartition]], None] = _nothing
        self._assigned: tuple[TopicPartition, ...] = ()
        self._has_assignment = False
        self._next: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._told_end: dict[TopicPartition, int] = {}
        self._turn = 0

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group."""
        self._topics = tuple(topics)
        self._partitions = partitions
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._name = self._broker.join(self._group_id, topics, self._client_id)

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these from these offsets on.

        Raises:
            ValueError: One of them is not assigned.
        """
        strangers = sorted(set(offsets) - set(self._assigned))
        if strangers:
            raise ValueError(f"not assigned: {strangers}")
        self._next.update(offsets)
        self._paused.difference_update(offsets)
        for partition in offsets:
            self._told_end.pop(partition, None)

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these, until `start_at`."""
        for partition in partitions:
            self._next.pop(partition, None)
            self._paused.discard(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no more of these for now."""
        self._paused.update(partition for partition in partitions if partition in self._next)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on behind the last record that `poll` gave."""
        for partition in partitions:
            self._paused.discard(partition)
            self._told_end.pop(partition, None)

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """At most `max_records` records, as soon as there is any news."""
        deadline_s = self._broker.clock.monotonic_s() + timeout_s
        while True:
            self._follow_group()
            with self._broker.changed:
                fetched = self._fetch(max_records)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if fetched or left_s <= 0:
                    return fetched
                if not self._group_waits():
                    self._broker.wait(left_s)

    def _group_waits(self) -> bool:
        """Whether the group has something for this member to do."""
        if not self._topics:
            return False
        if self._broker.must_rejoin(self._group_id, self._name):
            return True
        return not self._has_assignment and self._broker.assignment(self._group_id, self._name) is not None

    def _follow_group(self) -> None:
        """Give up what must be given up, join again, take what is given."""
        if not self._topics:
            return
        if self._broker.must_rejoin(self._group_id, self._name):
            self._give_up()
            self._name = self._broker.rejoin(self._group_id, self._name, self._topics, self._client_id)
        if not self._has_assignment:
            given = self._broker.assignment(self._group_id, self._name)
            if given is not None:
                self._generation, assigned = given
                self._assigned = tuple(given_partitions(assigned, self._topics, self._partitions))
                self._has_assignment = True
                self._on_assign(self._assigned)

    def _give_up(self) -> None:
        if self._has_assignment:
            self._has_assignment = False
            try:
                self._on_revoke(self._assigned)
            finally:
                self._assigned = ()
                self._next.clear()
                self._paused.clear()
                self._told_end.clear()

    def _fetch(self, max_records: int) -> list[Fetched]:
        """One round over the partitions, beginning with another one each time."""
        reading = sorted(partition for partition in self._next if partition not in self._paused)
        self._turn += 1
        result: list[Fetched] = []
        left = max_records
        for place in range(len(reading)):
            partition = reading[(place + self._turn) % len(reading)]
            if left <= 0:
                break
            try:
                records, following, at_end = self._broker.read(partition, self._next[partition], left)
            except OffsetGoneError:
                if not result:
                    raise
                break  # it is told once the others have what came
            news = at_end and self._told_end.get(partition) != following
            self._next[partition] = following
            if len(records) or news:
                left -= max(1, len(records))
                result.append(Fetched(partition, records, at_end=at_end))
                self._told_end[partition] = following if at_end else -1
        return result

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float = STABLE_TIMEOUT_S
    ) -> Mapping[TopicPartition, Committed | None]:
        """The group's stable committed offsets."""
        return self._broker.committed(self._group_id, partitions, timeout_s)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """First offset, and the one behind the last entry."""
        return self._broker.watermarks(partition)

    def group_metadata(self) -> object:
        """Our generation."""
        return GroupMetadata(self._group_id, self._name, self._generation)

    def close(self) -> None:
        """Leave the group; `on_revoke` runs."""
        self._give_up()
        self._broker.leave(self._group_id, self._name)
        self._topics = ()


def _nothing(_: Sequence[TopicPartition]) -> None:
    return


class EmbeddedTransaction:
    """`ports.Transaction` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker, transactional_id: str, timeout_s: float = TRANSACTION_TIMEOUT_S) -> None:
        self._broker = broker
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._epoch = -1
        self._open: _Open | None = None

    def initialise(self) -> None:
        """Fence older producers of this id and abort what they left open; does nothing where that was done."""
        if self._epoch < 0:
            self._epoch = self._broker.initialise(self._id)

    def begin(self) -> None:
        """Open a transaction."""
        self._broker.check_epoch(self._id, self._epoch)
        self._open = self._broker.begin(self._id, self._timeout_s)

    @contextmanager
    def _current(self) -> Iterator[_Open]:
        """The open transaction, if we are not fenced; the lock is held."""
        with self._broker.changed:
            self._broker.check_epoch(self._id, self._epoch)
            if self._open is None:
                raise AssertionError("no transaction is open")
            yield self._open

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Write the records."""
        with self._current() as transaction:
            headers = records.headers
            rows = enumerate(zip(records.keys, records.values, records.timestamps, strict=True))
            named = ((key, value, timestamp, headers.get(row, ())) for row, (key, value, timestamp) in rows)
            try:
                written = self._broker.append(partition, named, transaction)
            except RecordTooLargeError:
                self.abort()
                raise
            if offsets is not None:
                offsets.extend(written)

    def flush(self) -> None:
        """All is written at once."""

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: object) -> None:
        """Make the group's offsets part of the transaction."""
        if not isinstance(group, GroupMetadata):
            raise TypeError("the group's metadata come from EmbeddedSource.group_metadata")
        with self._current() as transaction:
            problem = self._broker.add_offsets(transaction, offsets, group)
            if problem:
                self.abort()
                raise TransactionAbortedError(f"transaction of {self._id}: {problem}")

    def commit(self) -> None:
        """Commit."""
        with self._current():
            self._broker.end(self._id, _State.COMMITTED)
            self._open = None

    def abort(self) -> None:
        """Give the transaction up."""
        if self._open is not None:
            with self._current():
                self._broker.end(self._id, _State.ABORTED)
                self._open = None

    def close(self) -> None:
        """Abort what is open."""
        try:
            self.abort()
        except FencedError:
            self._open = None


class EmbeddedLogReader:
    """`ports.LogReader` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker, partition: TopicPartition, *, committed: bool = True) -> None:
        self._broker = broker
        self._partition = partition
        self._committed = committed
        self._next = 0
        self._told_end = -1
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Go on reading from this offset, or from the first if that is larger."""
        self._next = max(offset, self._broker.watermarks(self._partition).low)
        self._told_end = -1

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """The next records, or None when there was no news in time."""
        deadline_s = self._broker.clock.monotonic_s() + timeout_s
        with self._broker.changed:
            while True:
                self._next = max(self._next, self._broker.watermarks(self._partition).low)
                records, self._next, at_end = self._broker.read(
                    self._partition, self._next, max_records, committed=self._committed
                )
                if len(records) or (at_end and self._told_end != self._next):
                    self._told_end = self._next if at_end else -1
                    return Fetched(self._partition, records, at_end=at_end)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if left_s <= 0:
                    return None
                self._broker.wait(left_s)

    def close(self) -> None:
        """Nothing is held."""


class EmbeddedCluster:
    """`ports.Cluster` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Those of the named topics that exist."""
        existing = self._broker.topics()
        return {name: existing[name] for name in names if name in existing}

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics. There is one copy of everything, whatever is asked for."""
        wrong = [
            f"{topic.name}: cannot be created: {topic.partitions} partitions"
            for topic in topics
            if topic.partitions < 1
        ]
        if wrong or replication == 0:
            raise TopicError(wrong or "a topic has at least one replica")
        for topic in topics:
            self._broker.create_topic(topic)

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """A reader of one partition, at its first offset."""
        return EmbeddedLogReader(self._broker, partition, committed=committed)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """First offset, and the one behind the last record."""
        return self._broker.watermarks(partition)

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Up to where committed records may be read, and the end of the log."""
        return {partition: self._broker.ends(partition) for partition in partitions}

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None]:
        """A group's committed offsets, asked by somebody who is no member of it.

        Raises:
            UnknownOutcomeError: An open transaction held one for `STABLE_TIMEOUT_S`.
        """
        return self._broker.committed(group_id, partitions)

    def members(self, group_id: str) -> Sequence[str]:
        """The `client.id` of each consumer that the group has now."""
        return self._broker.members(group_id)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets for a group that nobody is a member of.

        Raises:
            StateError: The group has members.
        """
        self._broker.commit_offsets(group_id, offsets)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete what lies below this offset; the first offset then."""
        self._broker.delete_before(partition, before)
        return self._broker.watermarks(partition).low


class EmbeddedSender:
    """`ports.Sender` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker, partitions: int | None = None) -> None:
        self._broker = broker
        self._partitions = partitions
        self._without_key = 0
        self._written: dict[TopicPartition, Watermarks] = {}

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """Write one record."""
        partitions = self._broker.topic(topic).partitions
        if partition is None and key is None:
            partition = self._without_key % partitions
            self._without_key += 1
        elif partition is None and key is not None:
            partition = partition_of(key, self._partitions or partitions)
        place = TopicPartition(topic, partition or 0)
        try:
            offsets = self._broker.append(place, [(key, value, timestamp_ms, headers)])
        except RecordTooLargeError as error:
            raise DeliveryError(str(error)) from None
        first = self._written[place].low if place in self._written else offsets.start
        self._written[place] = Watermarks(first, offsets.stop)

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:  # noqa: ARG002  (the port's)
        """Where this sender has written; all is written at once."""
        return dict(self._written)

    def close(self) -> None:
        """Nothing is held."""
