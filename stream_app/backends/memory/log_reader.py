"""One partition, read from any offset without a group."""

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker


class EmbeddedLogReader:
    """`base.LogReader` over an `EmbeddedBroker`, positioned at the first offset of its partition.

    Args:
        broker: The broker.
        partition: What to read.
        committed: False: records of open and aborted transactions are read, too.
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
                    return Fetched(self._partition, records, at_end=at_end)
                left_s = deadline_s - self._broker.clock.monotonic_s()
                if left_s <= 0:
                    return None
                self._broker.wait(left_s)

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""
