"""A broker in this process: topics, transactional ids and consumer groups.

One lock guards everything; every change wakes all threads that wait. With a `ManualClock` no thread waits: the clock
jumps to the end of the wait.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stream_app.backends.base import Clock, Ends, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.groups import GroupCoordinator, GroupMetadata
from stream_app.backends.memory.log import (
    LogEntry,
    LogTransaction,
    PartitionLog,
    TransactionState,
    columns,
    readable_headers,
)
from stream_app.backends.retention import TIMES_BEFORE, refused_time_text
from stream_app.errors import (
    FencedError,
    OffsetGoneError,
    RecordTooLargeError,
    TopicError,
    TransactionAbortedError,
)
from stream_app.record_columns import RawRecords
from stream_app.records import Header
from stream_app.serialization.left_out import Fields, batch_bytes

TRANSACTION_TIMEOUT_S = 10.0
"""`transaction.timeout.ms` of the application."""

MAX_POLL_INTERVAL_S = 300.0
"""Kafka's default of `max.poll.interval.ms`: a member that does not poll for this long is removed from its group."""

_TOPIC_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "max.message.bytes": "1048588",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
}
"""Kafka's defaults of the topic settings that the application reads."""


class EmbeddedBroker:
    """Topics, groups and transactional ids in this process; the clients of this package work on it.

    A transactional id has an epoch, which `initialise` raises: a producer with a smaller epoch is fenced. A transaction
    that is open for too long is aborted, and its producer fenced.

    Args:
        clock: Times transactions and members out. With a `ManualClock`, waiting moves the clock and takes no time.
        max_poll_interval_s: A member that does not poll for this long is removed from its group.
        changed: The lock; it is notified of every change. None: a new one.

    Attributes:
        clock: As above.
        changed: As above.
        groups: The consumer groups.
    """

    def __init__(
        self,
        clock: Clock,
        max_poll_interval_s: float = MAX_POLL_INTERVAL_S,
        changed: threading.Condition | None = None,
    ) -> None:
        self.clock = clock
        self.changed = changed or threading.Condition(threading.RLock())
        self.groups = GroupCoordinator(
            self._now_s,
            self.changed,
            lambda name: self.topic(name).partitions,
            max_poll_interval_s,
        )
        self._topics: dict[str, TopicInfo] = {}
        self._created = 0
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, LogTransaction] = {}

    def _now_s(self) -> float:
        return self.clock.monotonic_s()  # of the clock that is set now: tests replace it

    # Topics and logs ------------------------------------------------------------------------------------------------

    def create_topic(self, topic: TopicInfo) -> None:
        """Create a topic; a topic that exists is left as it is."""
        with self.changed:
            if topic.name not in self._topics:
                self._created += 1
                topic_id = f"embedded-topic-{self._created}"
                settings = {**_TOPIC_DEFAULTS, **topic.settings}
                self._topics[topic.name] = replace(topic, settings=settings, topic_id=topic_id)
                for number in range(topic.partitions):
                    self._logs[TopicPartition(topic.name, number)] = PartitionLog()

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic this number of partitions, unless it has as many; groups that read it are rebalanced.

        Raises:
            TopicError: The topic does not exist.
        """
        with self.changed:
            topic = self.topic(name)
            for number in range(topic.partitions, partitions):
                self._logs[TopicPartition(name, number)] = PartitionLog()
            self._topics[name] = replace(topic, partitions=max(topic.partitions, partitions))
            self.groups.topic_grew(name)
            self.changed.notify_all()

    def topic(self, name: str) -> TopicInfo:
        """Return the topic of this name.

        Raises:
            TopicError: The topic does not exist.
        """
        with self.changed:
            if name not in self._topics:
                raise TopicError(f"{name}: the topic does not exist")
            return self._topics[name]

    def topics(self) -> Mapping[str, TopicInfo]:
        """Return all topics by name."""
        with self.changed:
            return dict(self._topics)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return the first offset and the end of a log."""
        with self.changed:
            self.expire()
            log = self._log(partition)
            return Watermarks(log.low, log.high)

    def ends(self, partition: TopicPartition) -> Ends:
        """Return the last stable offset and the end of a log."""
        with self.changed:
            self.expire()
            log = self._log(partition)
            return Ends(log.stable(), log.high)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Delete the records below this offset, as retention does."""
        with self.changed:
            self._log(partition).delete_before(offset)

    def _log(self, partition: TopicPartition) -> PartitionLog:
        self.topic(partition.topic)
        if partition not in self._logs:
            raise TopicError(f"{partition.topic}: it has no partition {partition.partition}")
        return self._logs[partition]

    def append(
        self,
        partition: TopicPartition,
        records: Iterable[tuple[bytes | None, bytes | None, int, Sequence[Header]]],
        transaction: LogTransaction | None = None,
    ) -> range:
        """Write records, or none of them if one is too large or too old; return their offsets.

        Args:
            partition: Where to write.
            records: (key, value, timestamp in milliseconds, headers) each.
            transaction: The transaction that they are part of; None: none.

        Raises:
            RecordTooLargeError: A record is larger than the topic's `max.message.bytes`.
            TransactionAbortedError: A record is older than the topic's `message.timestamp.before.max.ms` accepts.
            TopicError: The topic or the partition does not exist.
        """
        with self.changed:
            log = self._log(partition)
            settings = self._topics[partition.topic].settings
            largest = int(settings["max.message.bytes"])
            keeps_timestamps = settings["message.timestamp.type"] == "CreateTime"
            first = log.high
            rows = list(records)
            oldest_ms = self.clock.now_ms() - int(settings[TIMES_BEFORE]) if keeps_timestamps else -1
            for key, value, timestamp, headers in rows:
                _check_time(partition, timestamp, oldest_ms)
                size = batch_bytes(Fields(key, value, readable_headers(headers)))
                _check_size(partition, size, largest)
            for key, value, timestamp, headers in rows:
                time_ms = timestamp if keeps_timestamps else -self.clock.now_ms()
                log.append(LogEntry(log.high, time_ms, key, value, tuple(headers), transaction))
            if transaction is not None and log.high > first and partition not in transaction.partitions:
                transaction.partitions[partition] = first
                log.open[transaction] = first
            self.changed.notify_all()
            return range(first, log.high)

    def read(
        self, partition: TopicPartition, position: int, limit: int, *, committed: bool = True
    ) -> tuple[RawRecords, int, bool]:
        """Read at most `limit` records from `position`, committed ones or all.

        Returns:
            The records, the position of the next read, and whether that position is the end.

        Raises:
            OffsetGoneError: The position was deleted, or is larger than the end.
        """
        with self.changed:
            self.expire()
            log = self._log(partition)
            if not log.low <= position <= log.high:
                raise OffsetGoneError(
                    f"{partition.topic}[{partition.partition}]: offset {position} does not exist; "
                    f"the log has {log.low} to {log.high}",
                    partition,
                )
            entries, following = log.read(position, limit, committed=committed)
            return columns(entries), following, following >= (log.stable() if committed else log.high)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change, while holding the lock; say whether there may have been one."""
        if timeout_s <= 0:
            return False
        if isinstance(self.clock, ManualClock):
            self.clock.advance(timeout_s)
            return False
        return self.changed.wait(timeout_s)

    # Transactions ---------------------------------------------------------------------------------------------------

    def initialise(self, transactional_id: str) -> int:
        """Abort what this id has open, raise its epoch, and return the new epoch."""
        with self.changed:
            self.end(transactional_id, TransactionState.ABORTED)
            self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
            return self._epochs[transactional_id]

    def check_epoch(self, transactional_id: str, epoch: int) -> None:
        """Refuse any epoch but the newest.

        Raises:
            FencedError: There is a newer epoch.
        """
        with self.changed:
            self.expire()
            current = self._epochs.get(transactional_id)
            if current != epoch:
                raise FencedError(f"transaction of {transactional_id}: epoch {epoch} is fenced by {current}")

    def begin(self, transactional_id: str, timeout_s: float) -> LogTransaction:
        """Open a transaction, which is aborted after `timeout_s`."""
        with self.changed:
            transaction = LogTransaction(self.clock.monotonic_s(), timeout_s)
            self._open[transactional_id] = transaction
            return transaction

    def end(self, transactional_id: str, state: TransactionState) -> None:
        """Commit or abort the open transaction of this id, if there is one."""
        with self.changed:
            transaction = self._open.pop(transactional_id, None)
            if transaction is None:
                return
            transaction.state = state
            for partition in transaction.partitions:
                log = self._logs[partition]
                del log.open[transaction]
                log.append(LogEntry(log.high, -1, None, None, (), transaction, is_marker=True))
            if state is TransactionState.COMMITTED:
                for group_id, offsets in transaction.offsets.items():
                    self.groups.group(group_id).offsets.update(offsets)
            self.changed.notify_all()

    def expire(self) -> None:
        """Abort each transaction that was open for too long, and fence its producer."""
        with self.changed:
            now_s = self.clock.monotonic_s()
            for transactional_id, transaction in list(self._open.items()):
                if now_s - transaction.started_s > transaction.timeout_s:
                    self.initialise(transactional_id)

    def add_offsets(
        self, transaction: LogTransaction, offsets: Mapping[TopicPartition, int], metadata: GroupMetadata
    ) -> str | None:
        """Add a group's offsets to a transaction; return the reason if they are refused, else None."""
        with self.changed:
            problem = self.groups.offsets_problem(metadata)
            if problem is None:
                transaction.offsets.setdefault(metadata.group_id, {}).update(offsets)
            return problem

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return a group's committed offsets, without those of open transactions."""
        with self.changed:
            offsets = self.groups.group(group_id).offsets
            return {partition: offsets.get(partition) for partition in partitions}


def _check_size(partition: TopicPartition, size: int, largest: int) -> None:
    if size > largest:
        raise RecordTooLargeError(f"{partition.topic}[{partition.partition}]: {size} bytes, at most {largest} fit")


def _check_time(partition: TopicPartition, timestamp_ms: int, oldest_ms: int) -> None:
    if timestamp_ms < oldest_ms:
        raise TransactionAbortedError(refused_time_text(f"{partition.topic}[{partition.partition}]", timestamp_ms))
