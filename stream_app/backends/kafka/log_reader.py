"""One partition, read from any offset without a group."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.kafka.errors import AUTO_OFFSET_RESET, PARTITION_EOF
from stream_app.backends.kafka.messages import NO_RECORDS, columns, drain, raise_read_error
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.requests import query_watermarks
from stream_app.backends.kafka.settings import (
    CONSUMER_GUARANTEES,
    CONSUMER_TUNING,
    READER_GROUP,
    client_settings,
    create_client,
)


class KafkaLogReader:
    """`base.LogReader`, positioned at the first offset of its partition.

    Args:
        bootstrap_servers: Addresses of brokers, separated by commas.
        partition: What to read.
        admin: The client that is asked for the first offset; it stays open.
        settings: Further settings of librdkafka.
        group_id: A group that the user may read in; the reader does not join it.
        committed: False: records of open and aborted transactions are read, too.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        partition: TopicPartition,
        admin: AdminClient,
        settings: Mapping[str, str] | None = None,
        group_id: str = READER_GROUP,
        *,
        committed: bool = True,
    ) -> None:
        self._partition = partition
        self._admin = admin
        self._group_id = group_id
        own = {"group.id": group_id} | ({} if committed else {"isolation.level": "read_uncommitted"})
        layers = (CONSUMER_TUNING, settings or {}, CONSUMER_GUARANTEES, own)
        self._consumer: Consumer = create_client(Consumer, client_settings(bootstrap_servers, Outages(), *layers))
        self._next = 0
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Continue at this offset, or at the first offset of the partition if that is larger.

        Raises:
            TopicError: The broker refuses.
            UnknownOutcomeError: No broker answered in time.
        """
        self._next = max(offset, query_watermarks(self._admin, self._partition).low)
        self._consumer.assign([ClientPartition(*self._partition, self._next)])

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records, or None if neither a record nor the end of the partition came in time.

        Raises:
            OffsetGoneError: The offset is larger than the end of the partition.
            TopicError: The broker refuses.
        """
        messages = drain(self._consumer, max_records, timeout_s)
        if not messages:
            return None
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == PARTITION_EOF:
                end = message.offset() or 0
            elif not self._skipped_deleted(error):
                raise_read_error(message, error, self._next, self._group_id)
        messages = [message for message in messages if message.error() is None]
        if not messages and end < 0:
            return None
        records = columns(messages) if messages else NO_RECORDS
        after_records = int(records.offsets[-1]) + 1 if messages else self._next
        self._next = max(after_records, end)
        return Fetched(self._partition, records, at_end=end >= after_records)

    def _skipped_deleted(self, error: KafkaError) -> bool:
        """Continue at the first offset if retention has deleted ours; say whether that was the case."""
        if error.code() != AUTO_OFFSET_RESET or self._next >= query_watermarks(self._admin, self._partition).low:
            return False
        self.seek(self._next)
        return True

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()
