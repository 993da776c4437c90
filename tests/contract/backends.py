"""The two worlds that keep the contract, and helpers that wait for a condition, with a bound."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.embedded import (
    EmbeddedBroker,
    EmbeddedCluster,
    EmbeddedSender,
    EmbeddedSource,
    EmbeddedTransaction,
)
from stream_app.kafka import KafkaCluster, KafkaSender, KafkaSource, KafkaTransaction, SystemClock
from stream_app.ports import Cluster, Fetched, LogReader, Sender, Source, TopicPartition, Transaction
from stream_app.records import OutputRecords

DEADLINE_S = 60.0
"""Everything waited for here happens within a second or two, unless the machine is busy."""

START_MS = 1_700_000_000_000


class Backend(Protocol):
    """Makes clients of one world; `close` releases what a test left open."""

    def source(self, group_id: str) -> Source:
        """A member of a group."""

    def transaction(self, transactional_id: str, timeout_s: float = 10.0) -> Transaction:
        """A transactional producer, initialised."""

    def sender(self) -> Sender:
        """An idempotent producer."""

    def cluster(self) -> Cluster:
        """Administration."""

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """What retention does."""

    def close(self) -> None:
        """Release all clients."""


class EmbeddedBackend:
    """The in-process log."""

    def __init__(self) -> None:
        self._broker = EmbeddedBroker(SystemClock())
        self._closing: list[Callable[[], None]] = []

    def source(self, group_id: str) -> Source:
        source = EmbeddedSource(self._broker, group_id)
        self._closing.append(source.close)
        return source

    def transaction(self, transactional_id: str, timeout_s: float = 10.0) -> Transaction:
        transaction = EmbeddedTransaction(self._broker, transactional_id, timeout_s)
        transaction.initialise()
        self._closing.append(transaction.close)
        return transaction

    def sender(self) -> Sender:
        return EmbeddedSender(self._broker)

    def cluster(self) -> Cluster:
        return EmbeddedCluster(self._broker)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        self._broker.delete_before(partition, offset)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()


class KafkaBackend:
    """A real broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._closing: list[Callable[[], None]] = []

    def source(self, group_id: str) -> Source:
        source = KafkaSource(self._servers, group_id)
        self._closing.append(source.close)
        return source

    def transaction(self, transactional_id: str, timeout_s: float = 10.0) -> Transaction:
        settings = {"transaction.timeout.ms": str(int(timeout_s * 1000))}
        transaction = KafkaTransaction(self._servers, transactional_id, settings, timeout_s=30.0)
        transaction.initialise()
        self._closing.append(transaction.close)
        return transaction

    def sender(self) -> Sender:
        sender = KafkaSender(self._servers)
        self._closing.append(sender.close)
        return sender

    def cluster(self) -> Cluster:
        return KafkaCluster(self._servers)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers})
        for future in admin.delete_records([ClientPartition(*partition, offset)]).values():
            future.result(DEADLINE_S)

    def close(self) -> None:
        for close in reversed(self._closing):
            close()


# Waiting --------------------------------------------------------------------------------------------------------------


class Positions:
    """What a source has given so far, checked for order as it comes."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, list[int]] = {}
        self.values: dict[TopicPartition, list[bytes | None]] = {}
        self.at_end: dict[TopicPartition, bool] = {}

    def take(self, batch: Sequence[Fetched]) -> None:
        for fetched in batch:
            assert len(fetched.records) or fetched.at_end, "a partition without news is absent"
            offsets = self.offsets.setdefault(fetched.partition, [])
            new = fetched.records.offsets.tolist()
            assert sorted(set(offsets + new)) == offsets + new, "a record came twice or out of order"
            offsets += new
            self.values.setdefault(fetched.partition, []).extend(fetched.records.values)
            self.at_end[fetched.partition] = fetched.at_end


def read(
    source: Source, until: Callable[[Positions], bool], max_records: int = 1_000, positions: Positions | None = None
) -> Positions:
    """Poll until the condition holds."""
    seen = positions or Positions()
    deadline = time.monotonic() + DEADLINE_S
    while not until(seen):
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s; seen so far: {seen.offsets}, {seen.at_end}"
        batch = source.poll(max_records, 0.1)
        assert sum(len(fetched.records) for fetched in batch) <= max_records
        seen.take(batch)
    return seen


def to_end(*partitions: TopicPartition) -> Callable[[Positions], bool]:
    """The condition that all of these were read to their ends."""
    return lambda positions: all(positions.at_end.get(partition, False) for partition in partitions)


def read_log(reader: LogReader, max_records: int = 1_000) -> list[Fetched]:
    """Everything a reader gives up to the end."""
    found: list[Fetched] = []
    deadline = time.monotonic() + DEADLINE_S
    while not (found and found[-1].at_end):
        assert time.monotonic() < deadline, f"no end within {DEADLINE_S} s"
        fetched = reader.poll(max_records, 0.1)
        if fetched is not None:
            assert len(fetched.records) <= max_records
            found.append(fetched)
    return found


def log_values(cluster: Cluster, partition: TopicPartition) -> list[bytes | None]:
    """All committed values of a partition."""
    reader = cluster.reader(partition)
    try:
        return [value for fetched in read_log(reader) for value in fetched.records.values]
    finally:
        reader.close()


class Member:
    """A member of a group that takes note of what it is given and what is taken away."""

    def __init__(self, source: Source, topics: Sequence[str]) -> None:
        self.source = source
        self.assigned: tuple[TopicPartition, ...] = ()
        self.events: list[str] = []
        source.subscribe(topics, self._on_assign, self._on_revoke)

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = tuple(partitions)
        self.events.append("assign")

    def _on_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        assert sorted(partitions) == sorted(self.assigned)
        self.assigned = ()
        self.events.append("revoke")


def settle(members: Sequence[Member], until: Callable[[], bool]) -> None:
    """Let all members poll, in turn, until the condition holds. None of them has been told where to read."""
    deadline = time.monotonic() + DEADLINE_S
    while not until():
        assert time.monotonic() < deadline, f"not settled: {[(m.assigned, m.events) for m in members]}"
        for member in members:
            assert not member.source.poll(100, 0.05), "nothing is read before `start_at`"


def outputs(
    values: Sequence[bytes | None],
    timestamps: Sequence[int] | None = None,
    headers: Mapping[int, Sequence[tuple[str, bytes | None]]] | None = None,
) -> OutputRecords:
    """Records with the same key."""
    times = timestamps or [START_MS + row for row in range(len(values))]
    return OutputRecords([b"key"] * len(values), values, times, headers or {})


def numbered(count: int, prefix: str = "") -> list[bytes | None]:
    """Values that tell their place."""
    return [f"{prefix}{number}".encode() for number in range(count)]
