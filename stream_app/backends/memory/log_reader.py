"""Partitions read from any offset without a group: one partition, or many that are followed."""

from collections.abc import Mapping, Sequence

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.errors import OffsetGoneError, TopicError


class EmbeddedLogReader:
    """`base.LogReader` over an `EmbeddedBroker`, positioned at the first offset of its partition.

    Without `committed`, it also reads records of open and aborted transactions.
    """

    def __init__(self, broker: EmbeddedBroker, partition: TopicPartition, *, committed: bool = True) -> None:
        self._broker = broker
        self._partition = partition
        self._committed = committed
        self._next = 0
        self._reported_end = -1
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Continue at this offset, or at the first offset of the partition if that is larger."""
        self._next = max(offset, self._broker.watermarks(self._partition).low)
        self._reported_end = -1

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records, or None if neither a record nor the end of the partition came in time.

        Raises:
            OffsetGoneError: The offset is larger than the end of the partition.
        """
        deadline_s = self._broker.clock.monotonic_s() + timeout_s
        with self._broker.changed:
            while True:
                self._next = max(self._next, self._broker.watermarks(self._partition).low)
                records, self._next, at_end = self._broker.read(
                    self._partition, self._next, max_records, committed=self._committed
                )
                if len(records) or (at_end and self._reported_end != self._next):
                    self._reported_end = self._next if at_end else -1
                    return Fetched(self._partition, records, at_end=at_end, position=self._next)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if left_s <= 0:
                    return None
                self._broker.wait(left_s)

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""


class EmbeddedLogFollower:
    """`following.LogFollower` over an `EmbeddedBroker`."""

    def __init__(self, broker: EmbeddedBroker, offsets: Mapping[TopicPartition, int]) -> None:
        self._broker = broker
        self._next: dict[TopicPartition, int] = {}
        self._reported_ends: dict[TopicPartition, int] = {}
        self._refusals: dict[TopicPartition, str] = {}
        self.start_at(offsets)

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets; see `following.LogFollower.start_at`."""
        self._next.update(offsets)

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return the next records; see `following.LogFollower.poll`."""
        deadline_s = self._broker.clock.monotonic_s() + timeout_s
        with self._broker.changed:
            while True:
                found = self._available(max_records)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if found or left_s <= 0:
                    return found
                self._broker.wait(left_s)

    def _available(self, max_records: int) -> list[Fetched]:
        found: list[Fetched] = []
        for partition, position in self._next.items():
            left = max_records - sum(len(fetched.records) for fetched in found)
            if left <= 0:
                break
            try:
                fetched = self._read(partition, position, left)
            except TopicError as error:
                self._refusals[partition] = str(error)
                continue
            self._refusals.pop(partition, None)
            if fetched is not None:
                found.append(fetched)
        return found

    def _read(self, partition: TopicPartition, position: int, limit: int) -> Fetched | None:
        try:
            records, following, at_end = self._broker.read(partition, position, limit)
        except OffsetGoneError:
            first = self._broker.watermarks(partition).low
            records, following, at_end = self._broker.read(partition, first, limit)
        self._next[partition] = following
        if not len(records) and (not at_end or self._reported_ends.get(partition) == following):
            return None
        if at_end:
            self._reported_ends[partition] = following
        return Fetched(partition, records, at_end=at_end, position=following)

    @property
    def problems(self) -> Sequence[str]:
        """Return a line for each problem; see `following.LogFollower.problems`."""
        return tuple(dict.fromkeys(self._refusals.values()))

    def close(self) -> None:
        """Do nothing: the follower holds no resources."""
