"""The ports: everything that the worker and the tools need of a log of records, as Protocols.

`backends.kafka` and `backends.memory` implement them; tests/contract runs one suite over both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

from stream_app import __version__
from stream_app.record_columns import OutputRecords, RawRecords

MAX_BATCH_BYTES = 1_000_000
"""The largest batch that a transaction sends, unless one record alone is larger. Brokers limit the size of batches."""

CLIENT_NAME = f"areba/{__version__}"
"""The `client.id`; a `client.id` in the configuration is appended to it."""


Answer = TypeVar("Answer")

NO_MEMBER = "areba-tools"
"""A member id that no group has, see `Cluster.empty_group`."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Watermarks(NamedTuple):
    """The first offset that a partition still has, and its end: the offset of the last record plus 1."""

    low: int
    high: int


class Ends(NamedTuple):
    """The last stable offset of a partition, and its end.

    Committed records below `stable` may be read. Records of open transactions are at or above it.
    """

    stable: int
    high: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The records of one partition from one poll.

    Attributes:
        partition: The partition.
        records: Records in offset order; may be empty.
        at_end: Whether the partition was read to its end, that is, an end-of-partition event came after the last of
            these records.
        position: The offset at which the next poll continues. It is after the last record, and also after markers and
            records of aborted transactions as far as the client has passed over them: at the end, over all of them.
    """

    partition: TopicPartition
    records: RawRecords
    at_end: bool
    position: int


class Source(Protocol):
    """A member of a consumer group that reads committed records. Not thread-safe.

    The group assigns the partitions of the first topic, eagerly, and a member reads the same partition numbers of the
    other topics. (The `range` assignor assigns equal numbers only as long as all topics have equally many partitions.)
    """

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
        partitions: int,
    ) -> None:
        """Join the group; return without waiting for an assignment.

        Args:
            topics: What to read; the first topic decides the assignment.
            on_assign: Called inside `poll` with the sorted partitions of all topics. None of them is read until
                `start_at` is called for it.
            on_revoke: Called inside `poll` or `close` with the same partitions, also if they were lost.
            partitions: Number of partitions of each topic that are returned, from the first on; topics may have more.
        """

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets; records that were fetched of them before are discarded.

        Raises:
            ValueError: A partition is not assigned.
        """

    def stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions until `start_at` is called for them."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of these partitions until `resume`; no record is lost."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue after the last record that `poll` returned of these partitions."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return at most `max_records` records as soon as there are any, or the ends of partitions.

        Blocks for at most `timeout_s`, apart from the callbacks of `subscribe`, which may run inside. May return
        nothing earlier, after a rebalance. A partition without news is absent from the result.

        Raises:
            OffsetGoneError: The next offset of a partition was deleted, or is larger than its end. The next poll
                returns the records of the other partitions; none of them is lost.
            TopicError: The broker refuses to let us read a topic.
            ConfigurationError: The broker refuses to let us read in this group.
            FencedError: The group has another member in our place.
        """

    def finds_group(self, partition: TopicPartition, timeout_s: float) -> bool:
        """Wait until the coordinator of the group answers; say whether it has answered within this time.

        A new cluster, or a broker that has just started, has no coordinator for some seconds.

        Args:
            partition: A partition that the group reads; the coordinator is asked about its topic.
            timeout_s: The longest wait.
        """

    def known_end(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as its last fetch saw it, without a request; None: there was no fetch yet.

        The end includes open transactions and their markers. It does not move while the partition is not fetched.
        """

    def group_metadata(self) -> object:
        """Return what `Transaction.send_offsets` needs to refuse offsets of members of an older generation."""

    def close(self) -> None:
        """Leave the group; `on_revoke` is called first."""


class Transaction(Protocol):
    """A transactional producer. Not thread-safe. It has at most one transaction open."""

    def initialise(self) -> None:
        """Fence older producers of this transactional id and end the transaction that they left open.

        Does nothing if that was done and the client was not replaced since. Blocks within a bound.

        Raises:
            FencedError: A newer producer has our id.
            UnknownOutcomeError: The broker did not answer in time.
            ConfigurationError: The broker refuses.
        """

    def begin(self) -> None:
        """Open a transaction. Raises as `commit` and `initialise` do."""

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Queue the records in order; block within a bound while the queue is full.

        Args:
            partition: Where to write.
            records: What to write.
            offsets: Is extended by the records' offsets, in order, by the time that `commit` returns.

        Raises:
            TransactionAbortedError: The transaction cannot be committed any more; it is aborted already.
            FencedError: A newer producer has our id.
        """

    def serve(self) -> None:
        """Hand over what the client reports while no transaction is open, without waiting. Raises nothing."""

    def flush(self) -> None:
        """Wait until the broker has all records. Raises as `commit` does."""

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        """Make a group's offsets part of the transaction. Raises as `commit` does, also where the group has changed.

        `group` comes from `Source.group_metadata` or `Cluster.empty_group`.
        """

    def commit(self) -> None:
        """Commit once all records are written; block within a bound.

        Raises:
            TransactionAbortedError: The transaction was given up. Where the client had to be replaced, it may have
                been committed nevertheless: once the new client is initialised, the logs show it.
            RecordTooLargeError: The transaction was aborted, because a topic did not accept a record for its size.
            FencedError: A newer producer has our id.
            UnknownOutcomeError: The outcome is unknown and cannot be found out; restart the process.
            ConfigurationError: The broker refuses.
        """

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Start work that calls this transaction, in a thread of its own if there is one, and return without waiting.

        Until the work has ended, nothing else may call the transaction, except `close`, which waits for its end.

        Returns:
            A function that waits for the end, and returns the result of the work or raises its error.
        """

    def abort(self) -> None:
        """Abort the transaction if one is open. Raises as `commit` does, except `TransactionAbortedError`."""

    def close(self) -> None:
        """Release the client; an open transaction is aborted if the broker answers in time. Raises nothing."""


class LogReader(Protocol):
    """A reader of one partition from any offset, without a group. Not thread-safe."""

    def seek(self, offset: int) -> None:
        """Continue at this offset, or at the first offset of the partition if that is larger; ask nobody."""

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return at most `max_records` records, or None if there was no news for `timeout_s`.

        Reading continues at the first offset if retention has deleted the position.

        Raises:
            OffsetGoneError: The position is larger than the end of the partition.
        """

    def close(self) -> None:
        """Release the client."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic, as start-up checks it and as it is created.

    Attributes:
        name: Its full name.
        partitions: The number of its partitions.
        settings: The settings in effect on the broker, by Kafka's names.
        topic_id: The id that the broker drew when it created the topic (KIP-516); empty: unknown.
        replication: Copies of the partition that has the fewest; None: unknown.
    """

    name: str
    partitions: int
    settings: Mapping[str, str]
    topic_id: str = ""
    replication: int | None = None


class Cluster(Protocol):
    """Administration. Every call but `ask` blocks within a bound, and asks the broker instead of a cache.

    Unless a method says otherwise, it raises `UnknownOutcomeError` if no broker answers in time, and `TopicError` if
    the broker refuses.
    """

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Begin to ask a question, and return at once; several questions may be open.

        Args:
            question: Calls this cluster, and returns something other than None. It may run in another thread.

        Returns:
            A function that never waits: it returns what the question returns, None as long as there is no answer, or
            raises what the question raises.
        """

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist."""

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics with this number of copies; a topic that exists is left as it is.

        Raises:
            TopicError: The broker refused a topic.
        """

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader at the first offset; with `committed=False` it also reads aborted and open records."""

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return the first offset and the end of a partition; `high` includes open transactions."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Return the last stable offset and the end of each partition."""

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return a group's committed offsets, without those of open transactions; None: never committed, or expired.

        Raises:
            UnknownOutcomeError: No broker answers.
        """

    def members(self, group_id: str) -> Sequence[str]:
        """Return the `client.id` of each member; a dead member counts until its session times out."""

    def empty_group(self, group_id: str) -> object:
        """Return what `Transaction.send_offsets` needs to refuse the offsets if the group has members; ask nobody."""

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records below this offset permanently and return the new first offset.

        Raises:
            TopicError: The broker refuses: a permission is missing.
        """


class Clock(Protocol):
    """Wall time for logs, monotonic time for deadlines; no result depends on either."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start, which never decrease."""

    def sleep(self, seconds: float) -> None:
        """Let this time pass."""


class Sender(Protocol):
    """An idempotent producer (acks=all) for tools and replays. Not thread-safe.

    A key goes to the partition to which Java's default partitioner sends it. A sender that is created with `partitions`
    computes this as if every topic had this number: for topics that have grown since the application began.
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
        """Queue one record for `partition`, else for the partition of its key; block, bounded, while the queue is full.

        Raises:
            DeliveryError: An earlier record failed, this one was refused, or the queue stayed full.
        """

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:
        """Wait until all records are delivered; return the offsets that this sender has written so far.

        Returns:
            For each partition the first offset written, and the last one plus 1.

        Raises:
            DeliveryError: Records were not delivered; the message counts them and gives the first reason.
        """

    def close(self) -> None:
        """Release the client; records that were not flushed may be lost."""


def given_partitions(
    assigned: Iterable[TopicPartition], topics: Sequence[str], partitions: int
) -> list[TopicPartition]:
    """Return the partitions that a member reads, sorted, from those that its group assigned; see `Source.subscribe`."""
    numbers = {place.partition for place in assigned if place.topic == topics[0] and place.partition < partitions}
    return sorted(TopicPartition(topic, number) for topic in topics for number in numbers)


def pair(offsets: tuple[int, int]) -> str:
    """Return the offsets of examples and labels as text for people."""
    return f"{offsets[0]}/{offsets[1]}"
