"""What the worker needs of the world: a source, a transaction, a log reader, a clock. No implementation here.

`kafka.py` and `embedded.py` both keep these contracts; tests/contract runs one suite over the two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stream_app import __version__
from stream_app.records import OutputRecords, RawRecords

MAX_BATCH_BYTES = 1_000_000
"""The largest batch that a transaction sends, but for a record that is larger alone; a broker's limit is on batches."""
CLIENT_FAMILY = "areba/"
"""Begins the `client.id` of every client of ours; those of areba 0.x had none."""

CLIENT_NAME = f"{CLIENT_FAMILY}{__version__}"
"""Stands before the `client.id` of the configuration, if there is one."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Committed(NamedTuple):
    """A committed offset of the group and the string that was stored with it."""

    offset: int
    metadata: str


class Watermarks(NamedTuple):
    """The first offset that a partition still has, and the one behind its last record."""

    low: int
    high: int


class Ends(NamedTuple):
    """The offset up to which committed records may be read (what is open lies behind it), and that of the log's end."""

    stable: int
    high: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one partition gave in one poll.

    Attributes:
        partition: Where the records come from.
        records: Rows in offset order; may be empty.
        at_end: Whether, behind these records, the partition was read to its end (an end-of-partition event came after
            the last of them). A partition is absent from a poll that has no news of it.
    """

    partition: TopicPartition
    records: RawRecords
    at_end: bool


class Source(Protocol):
    """A member of a consumer group that reads committed records. Not thread-safe.

    The group gives out the partitions of the first topic, eagerly, and a member reads the same partitions of the other
    topics. (The `range` assignor gives out those alike only while all topics have as many.)
    """

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group. Both callbacks run inside `poll` (or `close`); revoke also when partitions were lost.

        Of each topic only the first `partitions` are given; there may be more.

        After `on_assign` no partition is read until `start_at` has been called for it.
        """

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these assigned partitions from these offsets on; what was fetched of them before is dropped."""

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these, until `start_at`."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these for now; nothing that was not yet given by `poll` is lost for good."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on behind the last record that `poll` gave."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """At most `max_records` records, as soon as there is any news, else nothing after `timeout_s`.

        Raises:
            OffsetGoneError: One that was to be read was deleted; of other partitions the next poll gives all.
        """

    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float = 30.0
    ) -> Mapping[TopicPartition, Committed | None]:
        """The group's committed offsets, once no open transaction holds any of them.

        Raises:
            UnstableOffsetsError: A transaction still does after this time, or no broker answers.
            TopicError: The broker refuses us.
        """

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Asked of the broker, not remembered."""

    def group_metadata(self) -> object:
        """What `Transaction.send_offsets` needs to fence members of an older generation."""

    def close(self) -> None:
        """Leave the group."""


class Transaction(Protocol):
    """A transactional producer. Not thread-safe. One transaction at a time."""

    def initialise(self) -> None:
        """Fence older producers of this transactional id and abort what they left open; bounded.

        Does nothing where that was done and the client was not replaced since.

        Raises:
            FencedError: A newer one fenced us meanwhile.
            UnknownOutcomeError: The broker did not answer in time.
        """

    def begin(self) -> None:
        """Open a transaction."""

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Queue the records, in order. Once `commit` has returned, `offsets` has grown by where they are, in order.

        Raises:
            TransactionAbortedError: The transaction cannot be committed any more (`abort` has been done).
            FencedError: A newer producer has our id.
        """

    def flush(self) -> None:
        """Wait until the broker has what was produced. Raises as `commit` does."""

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: object) -> None:
        """Make the group's offsets part of the transaction. Raises as `commit` does."""

    def commit(self) -> None:
        """Commit, waiting for all records.

        Raises:
            TransactionAbortedError: It was given up. It may have been committed all the same where the client had to be
                replaced: once the new one is initialised, the group's committed offsets tell. `RecordTooLargeError`
                where a topic did not take a record for its size.
            FencedError: A newer producer has our id.
            UnknownOutcomeError: Nobody can say; start again.
        """

    def abort(self) -> None:
        """Give the transaction up. Raises as `commit` does, except TransactionAbortedError."""

    def close(self) -> None:
        """Release the client; an open transaction is aborted if the broker answers in time."""


class LogReader(Protocol):
    """Reads one partition of one topic from any offset on, committed records only. Not thread-safe."""

    def seek(self, offset: int) -> None:
        """Go on reading from this offset (0 and everything below the first offset: from the first)."""

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """The next records, or None when there was no news in time. `at_end` as in `Fetched`."""

    def close(self) -> None:
        """Release the client."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What start-up checks of a topic.

    Attributes:
        name: Its full name.
        partitions: How many.
        settings: The broker's effective ones, by Kafka's names.
        topic_id: What the broker drew when it created the topic (KIP-516); empty: not known.
        replication: Copies of the partition that has the fewest; None where that is not known.
    """

    name: str
    partitions: int
    settings: Mapping[str, str]
    topic_id: str = ""
    replication: int | None = None


class Cluster(Protocol):
    """Administration: what topics there are. All calls are bounded in time."""

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Those of the named topics that exist."""

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics; one that exists already is left as it is.

        Raises:
            TopicError: The broker refused one.
        """

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """A reader of one partition, at its first offset; `committed=False`: of aborted and open records, too."""

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Asked of the broker; records of open transactions lie below `high`."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Asked of the broker.

        Raises:
            UnknownOutcomeError: It does not answer.
        """

    def committed(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed | None]:
        """A group's stable committed offsets, asked by somebody who is no member of it."""

    def members(self, group_id: str) -> Sequence[str]:
        """The `client.id` of each consumer that the group has now."""

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit offsets for a group that nobody is a member of.

        Raises:
            StateError: The group has members.
            TopicError: The broker refuses us.
        """

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete what lies below this offset, for good; the first offset then.

        Raises:
            TopicError: The broker refuses: a permission is lacking.
            UnknownOutcomeError: It does not answer.
        """


class Clock(Protocol):
    """Wall time for logs and deadlines; no result ever depends on it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def monotonic_s(self) -> float:
        """Seconds, never going back."""

    def sleep(self, seconds: float) -> None:
        """Let this time pass."""


class Sender(Protocol):
    """An idempotent producer (acks=all) for tools and replayers. Not thread-safe.

    A sender that is made with `partitions` sends a key where Java's default partitioner would if every topic had so
    many: for topics that have grown since the application began.
    """

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Queue one record; without `partition` it goes where Java's default partitioner sends its key.

        Blocks, bounded, while the queue is full.

        Raises:
            DeliveryError: An earlier record failed, or the queue stayed full.
        """

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:
        """Wait for all records; the offsets that this sender has written so far: first, and behind the last.

        Raises:
            DeliveryError: Some were not delivered; the message counts them and has the first reason.
        """

    def close(self) -> None:
        """Release the client."""


def given_partitions(
    assigned: Iterable[TopicPartition], topics: Sequence[str], partitions: int
) -> list[TopicPartition]:
    """What a member reads, sorted, which the group assigned these partitions: see `Source.subscribe`."""
    numbers = {place.partition for place in assigned if place.topic == topics[0] and place.partition < partitions}
    return sorted(TopicPartition(topic, number) for topic in topics for number in numbers)


def pair(offsets: tuple[int, int]) -> str:
    """Offsets of examples and labels, for people."""
    return f"{offsets[0]}/{offsets[1]}"
