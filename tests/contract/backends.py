"""The two implementations of the ports, and helpers that wait for a condition within a bound."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import (
    Cluster,
    Fetched,
    LogReader,
    Sender,
    Source,
    TopicPartition,
    Transaction,
)
from stream_app.backends.clock import SystemClock
from stream_app.backends.following import FollowableCluster
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.questions import RetentionCluster
from stream_app.record_columns import OutputRecords
from tests.support.raw import RawProducer, RawRecord

DEADLINE_S = 60.0
"""Everything waited for here happens within a second or two, unless the machine is busy."""

START_MS = 1_700_000_000_000


class Transactions(Protocol):
    """Creates a transactional producer, initialised unless a worker will do so."""

    def __call__(self, transactional_id: str, timeout_s: float = 10.0, *, initialised: bool = True) -> Transaction:
        """Create a producer; the broker aborts its transactions after `timeout_s`."""


class AnyCluster(FollowableCluster, RetentionCluster, Protocol):
    """What both backends implement."""


@dataclass(frozen=True)
class Backend:
    """One implementation: functions that create its clients. `closing` releases what a test left open.

    Attributes:
        source: A member of the group with this id.
        transaction: A transactional producer.
        sender: An idempotent producer.
        cluster: Administration.
        delete_before: Deletes the records below an offset, as retention does.
        send_raw: Write records, as one batch, whose header names may be any bytes.
    """

    source: Callable[[str], Source]
    transaction: Transactions
    sender: Callable[[], Sender]
    cluster: Callable[[], AnyCluster]
    delete_before: Callable[[TopicPartition, int], None]
    send_raw: Callable[[TopicPartition, Sequence[RawRecord]], None]
    closing: ExitStack


def embedded_backend() -> Backend:
    """Return the in-process log."""
    broker, closing = EmbeddedBroker(SystemClock()), ExitStack()

    def source(group_id: str) -> Source:
        return closing.enter_context(contextlib.closing(EmbeddedSource(broker, group_id)))

    def transaction(transactional_id: str, timeout_s: float = 10.0, *, initialised: bool = True) -> Transaction:
        made = closing.enter_context(contextlib.closing(EmbeddedTransaction(broker, transactional_id, timeout_s)))
        if initialised:
            made.initialise()
        return made

    def send_raw(partition: TopicPartition, records: Sequence[RawRecord]) -> None:
        for record in records:
            headers = [(name.decode(errors="surrogateescape"), value) for name, value in record.headers]
            broker.append(partition, [(record.key, record.value, record.timestamp_ms, headers)])

    return Backend(
        source=source,
        transaction=transaction,
        sender=lambda: EmbeddedSender(broker),
        send_raw=send_raw,
        cluster=lambda: EmbeddedCluster(broker),
        delete_before=broker.delete_before,
        closing=closing,
    )


def kafka_backend(servers: str) -> Backend:
    """Return a real broker."""
    closing = ExitStack()

    def source(group_id: str) -> Source:
        return closing.enter_context(contextlib.closing(KafkaSource(servers, group_id)))

    def transaction(transactional_id: str, timeout_s: float = 10.0, *, initialised: bool = True) -> Transaction:
        settings = {"transaction.timeout.ms": str(int(timeout_s * 1000))}
        client = KafkaTransaction(servers, transactional_id, settings, timeout_s=30.0)
        made = closing.enter_context(contextlib.closing(client))
        if initialised:
            made.initialise()
        return made

    def delete_before(partition: TopicPartition, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.delete_records([ClientPartition(*partition, offset)]).values():
            future.result(DEADLINE_S)

    def send_raw(partition: TopicPartition, records: Sequence[RawRecord]) -> None:
        with RawProducer(servers.split(",", maxsplit=1)[0]) as producer:
            assert producer.send(*partition, records) == 0

    return Backend(
        send_raw=send_raw,
        source=source,
        transaction=transaction,
        sender=lambda: closing.enter_context(contextlib.closing(KafkaSender(servers))),
        cluster=lambda: KafkaCluster(servers),
        delete_before=delete_before,
        closing=closing,
    )


# Waiting --------------------------------------------------------------------------------------------------------------


class Positions:
    """The records that a source has returned so far, whose order is checked as they come."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, list[int]] = {}
        self.values: dict[TopicPartition, list[bytes | None]] = {}
        self.at_end: dict[TopicPartition, bool] = {}

    def take(self, batch: Sequence[Fetched]) -> None:
        """Add what a poll gave."""
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
    """Poll until the condition is true."""
    seen = positions or Positions()
    deadline = time.monotonic() + DEADLINE_S
    while not until(seen):
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s; seen so far: {seen.offsets}, {seen.at_end}"
        batch = source.poll(max_records, 0.1)
        assert sum(len(fetched.records) for fetched in batch) <= max_records
        seen.take(batch)
    return seen


def to_end(*partitions: TopicPartition) -> Callable[[Positions], bool]:
    """Return the condition that all of these partitions were read to their ends."""
    return lambda positions: all(positions.at_end.get(partition, False) for partition in partitions)


def read_log(reader: LogReader, max_records: int = 1_000) -> list[Fetched]:
    """Return everything that a reader returns up to the end."""
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
    """Return all committed values of a partition."""
    reader = cluster.reader(partition)
    try:
        return [value for fetched in read_log(reader) for value in fetched.records.values]
    finally:
        reader.close()


def wait_for_values(cluster: Cluster, partition: TopicPartition, expected: Sequence[bytes | None]) -> None:
    """Wait until a partition has these committed values; readers may see a commit a moment after it has returned."""
    deadline = time.monotonic() + DEADLINE_S
    while (values := log_values(cluster, partition)) != expected:
        assert values == expected[: len(values)]
        assert time.monotonic() < deadline, f"only {len(values)} of {len(expected)} values"


def wait_for_offsets(cluster: Cluster, group_id: str, expected: Mapping[TopicPartition, int | None]) -> None:
    """Wait until a group has these committed offsets; they may be known a moment after a commit has returned."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := cluster.committed(group_id, list(expected))) != expected:
        assert time.monotonic() < deadline, f"{found}"
        time.sleep(0.01)


def wait_for_markers(cluster: Cluster, partition: TopicPartition) -> None:
    """Wait until no transaction is open in a partition; a broker may write the markers after a commit has returned."""
    deadline = time.monotonic() + DEADLINE_S
    while (ends := cluster.ends([partition])[partition]).stable < ends.high:
        assert time.monotonic() < deadline, f"a transaction is open in {partition}: {ends}"
        time.sleep(0.01)


def wait_for_records(backend: Backend, partition: TopicPartition, high: int) -> None:
    """Wait until a log has grown to this offset, committed or not; a producer sends in the background."""
    cluster = backend.cluster()
    deadline = time.monotonic() + DEADLINE_S
    while (found := cluster.watermarks(partition).high) < high:
        assert time.monotonic() < deadline, f"{found} of {high} records"
        time.sleep(0.01)


class Member:
    """A member of a group that records which partitions it is given and which are revoked."""

    def __init__(self, source: Source, topics: Sequence[str], partitions: int = 100) -> None:
        self.source = source
        self.assigned: tuple[TopicPartition, ...] = ()
        self.events: list[str] = []
        source.subscribe(topics, self._on_assign, self._on_revoke, partitions)

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = tuple(partitions)
        self.events.append("assign")

    def _on_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        assert sorted(partitions) == sorted(self.assigned)
        self.assigned = ()
        self.events.append("revoke")


def poll_until(members: Sequence[Member], until: Callable[[], bool]) -> None:
    """Let all members poll in turn until the condition is true. No member has positions yet."""
    deadline = time.monotonic() + DEADLINE_S
    while not until():
        assert time.monotonic() < deadline, f"not reached: {[(m.assigned, m.events) for m in members]}"
        for member in members:
            assert not member.source.poll(100, 0.05), "nothing is read before `start_at`"


def outputs(
    values: Sequence[bytes | None],
    timestamps: Sequence[int] | None = None,
    headers: Mapping[int, Sequence[tuple[str, bytes | None]]] | None = None,
) -> OutputRecords:
    """Return records with the same key."""
    times = timestamps or [START_MS + row for row in range(len(values))]
    return OutputRecords.of([b"key"] * len(values), values, times, headers or {})


def numbered(count: int, prefix: str = "") -> list[bytes | None]:
    """Return values that contain their position."""
    return [f"{prefix}{number}".encode() for number in range(count)]
