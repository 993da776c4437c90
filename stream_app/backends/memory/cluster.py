"""Administration of an in-process broker."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from stream_app.backends.base import (
    NO_MEMBER,
    Answer,
    Ends,
    LogReader,
    TopicInfo,
    TopicPartition,
    Watermarks,
)
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.groups import GroupMetadata
from stream_app.backends.memory.log_reader import EmbeddedLogFollower, EmbeddedLogReader
from stream_app.backends.questions import KeptRecords, Retention
from stream_app.errors import TopicError
from stream_app.record_columns import log_time_ms


class EmbeddedCluster:
    """`base.Cluster` over an `EmbeddedBroker`; its partitions can be followed (`following.FollowableCluster`)."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def ask(self, question: Callable[[Self], Answer]) -> Callable[[], Answer | None]:
        """Ask a question; the answer is there at once."""
        answer = question(self)
        return lambda: answer

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicInfo]:
        """Return the named topics that exist."""
        existing = self._broker.topics()
        return {name: existing[name] for name in names if name in existing}

    def create(self, topics: Sequence[TopicInfo], replication: int) -> None:
        """Create topics. Every partition has one copy; `replication` is ignored.

        Raises:
            TopicError: A topic would have no partition, or no replica.
        """
        wrong = [
            f"{topic.name}: cannot be created: {topic.partitions} partitions"
            for topic in topics
            if topic.partitions < 1
        ]
        if wrong or replication == 0:
            raise TopicError(wrong or "a topic has at least one replica")
        for topic in topics:
            self._broker.create_topic(topic)

    def grow(self, names: Sequence[str], partitions: int) -> None:
        """Give topics this number of partitions."""
        for name in names:
            self._broker.grow_topic(name, partitions)

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader of one partition, positioned at its first offset."""
        return EmbeddedLogReader(self._broker, partition, committed=committed)

    def follow(self, offsets: Mapping[TopicPartition, int]) -> EmbeddedLogFollower:
        """Return a follower of these partitions that begins at these offsets."""
        return EmbeddedLogFollower(self._broker, offsets)

    def offsets_since(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Return for each partition the first offset whose record is not older than `time_ms`, or else the end."""
        return {partition: self._offset_since(partition, time_ms) for partition in partitions}

    def _offset_since(self, partition: TopicPartition, time_ms: int) -> int:
        low, high = self._broker.watermarks(partition)
        records, _, _ = self._broker.read(partition, low, high - low, committed=False)
        rows = zip(records.offsets.tolist(), records.timestamps.tolist(), strict=True)
        return next((offset for offset, timestamp in rows if log_time_ms(timestamp) >= time_ms), high)

    def watermarks(self, partition: TopicPartition) -> Watermarks:
        """Return the first offset and the end of a partition's log."""
        return self._broker.watermarks(partition)

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        """Return the last stable offset and the end of each partition's log."""
        return {partition: self._broker.ends(partition) for partition in partitions}

    def kept(self, partitions: Sequence[TopicPartition]) -> KeptRecords:
        """Return what is kept of these partitions."""
        topics = dict.fromkeys(partition.topic for partition in partitions)
        retentions = {name: Retention.of(self._broker.topic(name).settings) for name in topics}
        return KeptRecords(retentions, {one: self._broker.watermarks(one).low for one in partitions})

    def committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return a group's committed offsets."""
        return self._broker.committed(group_id, partitions)

    def members(self, group_id: str) -> Sequence[str]:
        """Return the `client.id` of each member that the group has now."""
        return self._broker.groups.members(group_id)

    def empty_group(self, group_id: str) -> object:
        """Return the metadata of a group without members, for `EmbeddedTransaction.send_offsets`."""
        return GroupMetadata(group_id, NO_MEMBER, -1)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete the records below this offset and return the new first offset."""
        self._broker.delete_before(partition, before)
        return self._broker.watermarks(partition).low
