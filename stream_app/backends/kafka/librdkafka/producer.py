"""A transactional producer that takes whole columns of records."""

import ctypes
from collections.abc import Mapping
from functools import cache

from confluent_kafka import KafkaError, KafkaException

from stream_app.arrays import Longs
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.librdkafka.client import Callbacks, Client, milliseconds
from stream_app.backends.kafka.librdkafka.connections import ClosedConnections
from stream_app.backends.kafka.librdkafka.library import PRODUCER, Library
from stream_app.backends.kafka.librdkafka.partitions import partition_list
from stream_app.backends.kafka.librdkafka.sending import Target, collect_offset, send_rows
from stream_app.record_columns import OutputRecords

QUEUE_FULL = int(KafkaError._QUEUE_FULL)  # noqa: SLF001
_PURGE_ALL = 3
"""Discard queued records and records in flight (`RD_KAFKA_PURGE_F_QUEUE` and `..._INFLIGHT`)."""


@cache
def _delivery_callback() -> int:
    """Return the address of the compiled function that gets delivery reports."""
    return int(collect_offset().address)


class ColumnProducer:
    """A transactional producer. Only `flush`, `poll` and the calls of transactions may run in another thread.

    Raises:
        KafkaException: librdkafka does not know a setting, or does not accept its value.
    """

    def __init__(self, settings: Mapping[str, object], callbacks: Callbacks) -> None:
        self._connections = ClosedConnections()
        compiled = callbacks._replace(delivery=_delivery_callback(), connections=self._connections)
        self._client = Client(PRODUCER, settings, compiled)
        self._lib: Library = self._client.lib
        self._topics: dict[str, int] = {}
        self._produceva = self._lib.address("produceva")

    @property
    def closed_connections(self) -> int:
        """How many connections to brokers have ended so far."""
        return self._connections.count

    def __len__(self) -> int:
        return int(self._lib.outq_len(self._client.handle))

    def produce(self, partition: TopicPartition, records: OutputRecords, first: int, written: Longs | None) -> int:
        """Queue records, from row `first` on, until the queue is full.

        Args:
            partition: Where to write.
            records: What to write.
            first: The first row that is not queued yet.
            written: int64 `[1 + n]`: the number of records that are delivered so far, and then their offsets. It must
                live until `flush` or `destroy`; None: nobody needs the offsets.

        Returns:
            The first row that is not queued yet: n, if all are.

        Raises:
            KafkaException: librdkafka refuses a record.
        """
        where = 0 if written is None else written.ctypes.data
        target = Target(self._produceva, self._client.handle, self._topic(partition.topic), partition.partition, where)
        row, error = send_rows(target, records, first)
        if error:
            if self._lib.error_code(error) != QUEUE_FULL:
                self._lib.raise_error(error)
            self._lib.error_destroy(error)
        return row

    def _topic(self, name: str) -> int:
        """Return the handle of a topic, which lives as long as the client."""
        if name not in self._topics:
            handle = self._lib.topic_new(self._client.handle, name.encode(), None)
            if not handle:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"topic {name!r}"))  # noqa: SLF001
            self._topics[name] = handle
        return self._topics[name]

    def poll(self, timeout_s: float) -> None:
        """Serve the callbacks, for at most this time.

        Raises:
            KafkaException: The client reports a fatal error.
        """
        self._lib.poll(self._client.handle, milliseconds(timeout_s))
        self._client.checked()

    def flush(self, timeout_s: float) -> int:
        """Wait until the broker has all records; return the number of those that it does not have after this time."""
        self._lib.flush(self._client.handle, milliseconds(timeout_s))
        self._client.checked()
        return len(self)

    def init_transactions(self, timeout_s: float) -> None:
        """See `rd_kafka_init_transactions`; raise its error as a KafkaException, as the following methods do."""
        self._lib.raise_error(self._lib.init_transactions(self._client.handle, milliseconds(timeout_s)))

    def begin_transaction(self) -> None:
        """See `rd_kafka_begin_transaction`."""
        self._lib.raise_error(self._lib.begin_transaction(self._client.handle))

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: bytes, timeout_s: float) -> None:
        """See `rd_kafka_send_offsets_to_transaction`; `group` is from the module `group_metadata`."""
        metadata = ctypes.c_void_p()
        self._lib.raise_error(self._lib.consumer_group_metadata_read(ctypes.byref(metadata), group, len(group)))
        try:
            with partition_list(self._lib, offsets) as elements:
                error = self._lib.send_offsets_to_transaction(
                    self._client.handle, elements, metadata, milliseconds(timeout_s)
                )
                self._lib.raise_error(error)
        finally:
            self._lib.consumer_group_metadata_destroy(metadata)

    def commit_transaction(self, timeout_s: float) -> None:
        """See `rd_kafka_commit_transaction`."""
        self._lib.raise_error(self._lib.commit_transaction(self._client.handle, milliseconds(timeout_s)))

    def abort_transaction(self, timeout_s: float) -> None:
        """See `rd_kafka_abort_transaction`."""
        self._lib.raise_error(self._lib.abort_transaction(self._client.handle, milliseconds(timeout_s)))

    def destroy(self) -> None:
        """Discard what is queued, and release the client; no other call may be running. Do nothing if that was done."""
        if self._client.is_destroyed:
            return
        self._lib.purge(self._client.handle, _PURGE_ALL)
        for handle in self._topics.values():
            self._lib.topic_destroy(handle)
        self._topics.clear()
        self._client.destroy()
