"""Records of tools and replays, written outside of transactions."""

from collections.abc import Mapping, Sequence

from stream_app.backends.base import TopicPartition, Watermarks
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.partitioner import partition_of
from stream_app.errors import DeliveryError, TransactionAbortedError
from stream_app.records import Header


class EmbeddedSender:
    """`base.Sender` over an `EmbeddedBroker`.

    Keys are spread over `partitions`; None: over all that the topic has.
    """

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
        """Write one record at once.

        Raises:
            DeliveryError: The record is too large or too old for the topic.
            TopicError: The topic does not exist.
        """
        partitions = self._broker.topic(topic).partitions
        if partition is None and key is None:
            partition = self._without_key % partitions
            self._without_key += 1
        elif partition is None and key is not None:
            partition = partition_of(key, self._partitions or partitions)
        place = TopicPartition(topic, partition or 0)
        try:
            offsets = self._broker.append(place, [(key, value, timestamp_ms, headers)])
        except TransactionAbortedError as error:
            raise DeliveryError(str(error)) from None
        first = self._written[place].low if place in self._written else offsets.start
        self._written[place] = Watermarks(first, offsets.stop)

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:  # noqa: ARG002  (the port's)
        """Return for each partition the first offset written, and the last one plus 1."""
        return dict(self._written)

    def close(self) -> None:
        """Do nothing: the sender holds no resources."""
