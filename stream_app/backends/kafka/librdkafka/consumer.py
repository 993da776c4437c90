"""A consumer that returns the records of a batch in columns."""

import ctypes
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.librdkafka.client import Callbacks, Client, milliseconds
from stream_app.backends.kafka.librdkafka.group_metadata import encoded
from stream_app.backends.kafka.librdkafka.library import CONSUMER, REBALANCE_CALLBACK
from stream_app.backends.kafka.librdkafka.messages import Fetch, FetchError, MessageReader
from stream_app.backends.kafka.librdkafka.partitions import elements_of, partition_list

_ASSIGN = int(KafkaError._ASSIGN_PARTITIONS)  # noqa: SLF001

_END = -1
"""The end of a partition, in a question for offsets (`RD_KAFKA_OFFSET_SPEC_LATEST`)."""

_SEEK_TIMEOUT_S = 5.0
"""Longest wait for the threads that fetch; they answer without a request to a broker."""

_LEAVE_S = 1.0
"""Longest wait until a member that leaves its group has given up its partitions."""

_FINAL_RECORDS = 1_000
"""Messages that are discarded at once meanwhile."""

_SIGNALS_S = 0.2
"""Longest wait within librdkafka, so that Python can handle a signal."""

Assigned = Callable[[list[TopicPartition]], None]


class ColumnConsumer:
    """A member of a consumer group. Not thread-safe.

    Raises:
        KafkaException: librdkafka does not know a setting, or does not accept its value.
    """

    def __init__(self, settings: Mapping[str, object], callbacks: Callbacks) -> None:
        self._on_assign: Assigned | None = None
        self._on_revoke: Assigned | None = None
        rebalance = REBALANCE_CALLBACK(self._on_rebalance)
        self._client = Client(CONSUMER, settings, callbacks._replace(rebalance=rebalance))
        self._lib = self._client.lib
        self._queue: int = self._lib.queue_get_consumer(self._client.handle)
        self._reader = MessageReader(self._lib)

    def subscribe(self, topics: Sequence[str], on_assign: Assigned, on_revoke: Assigned) -> None:
        """Join the group; return without waiting for an assignment.

        Args:
            topics: What to read.
            on_assign: Called inside of `consume` with the partitions of a new assignment; it must call `assign`.
            on_revoke: Called inside of `consume` and `close` with partitions that were revoked or lost; it must call
                `unassign`.
        """
        self._on_assign, self._on_revoke = on_assign, on_revoke
        with partition_list(self._lib, [TopicPartition(topic, -1) for topic in topics]) as elements:
            self._lib.check(self._lib.subscribe(self._client.handle, elements))

    def _on_rebalance(self, _: int, code: int, partitions: Any, __: int) -> None:  # noqa: ANN401  (a pointer)
        call = self._on_assign if code == _ASSIGN else self._on_revoke
        if call is not None:
            places = [element.partition for element in elements_of(partitions)]
            self._client.keeping_errors(lambda: call(places))

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from its offset."""
        with partition_list(self._lib, offsets) as elements:
            self._lib.check(self._lib.assign(self._client.handle, elements))

    def unassign(self) -> None:
        """Read no partition."""
        self._lib.check(self._lib.assign(self._client.handle, None))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these partitions; what was fetched of them is discarded."""
        with partition_list(self._lib, partitions) as elements:
            self._lib.check(self._lib.pause_partitions(self._client.handle, elements))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch these partitions again, at once.

        A thread that fetches sleeps for up to a second while all of its partitions are paused, and a resume does not
        wake it (`rd_kafka_broker_consumer_serve`). Any request to its broker does, so ask for the ends of the
        partitions; nobody reads the answer.
        """
        if not partitions:
            return
        with partition_list(self._lib, dict.fromkeys(partitions, _END)) as elements:
            self._lib.check(self._lib.resume_partitions(self._client.handle, elements))
            answers = self._lib.queue_new(self._client.handle)
            self._lib.ListOffsets(self._client.handle, elements, None, answers)
            self._lib.queue_destroy(answers)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets, and discard what was fetched of these partitions.

        Raises:
            KafkaException: A partition accepts no seek.
        """
        with partition_list(self._lib, offsets) as elements:
            error = self._lib.seek_partitions(self._client.handle, elements, milliseconds(_SEEK_TIMEOUT_S))
            self._lib.raise_error(error)
            for element in elements_of(elements):
                self._lib.check(element.code)

    def consume(self, max_records: int, timeout_s: float) -> tuple[list[Fetch], list[FetchError]]:
        """Return what has come: at most `max_records` records, ends of partitions, and errors.

        If nothing has come, wait for at most `timeout_s` for the first message, and return what came with it.

        Raises:
            RuntimeError: The client is closed.
        """
        self._client.require_open()
        found = self._take(max_records, 0.0)
        if not len(found) and timeout_s > 0:
            found = self._take(1, min(timeout_s, _SIGNALS_S))
            if len(found) and max_records > 1:
                found = np.concatenate([found, self._take(max_records - 1, 0.0)])
        fetched = self._reader.read(found) if len(found) else ([], [])
        self._client.checked()
        return fetched

    def _take(self, count: int, timeout_s: float) -> Any:  # noqa: ANN401  (an array)
        """Return the addresses of the next messages: int64 `[n]`."""
        messages = np.empty(count, np.int64)
        taken = self._lib.consume_batch_queue(self._queue, milliseconds(timeout_s), messages.ctypes.data, count)
        return messages[: max(0, taken)]

    def committed(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int | None]:
        """Return the group's committed offsets; None: never committed.

        Raises:
            KafkaException: The request failed, or the answer for a partition is an error.
        """
        with partition_list(self._lib, partitions) as elements:
            self._lib.check(self._lib.committed(self._client.handle, elements, milliseconds(timeout_s)))
            found = elements_of(elements)
        for element in found:
            if element.code:
                raise KafkaException(KafkaError(element.code, f"committed offset of {element.partition.topic}"))
        return {e.partition: e.offset if e.offset >= 0 else None for e in found}

    def fatal_error(self) -> KafkaError | None:
        """Return the error after which the client does nothing any more; None without such an error."""
        return self._client.fatal_error()

    def known_end(self, partition: TopicPartition) -> int:
        """Return the end of a partition as its last fetch saw it; below 0: unknown."""
        low, high = ctypes.c_int64(), ctypes.c_int64(-1)
        topic, number = partition.topic.encode(), partition.partition
        references = ctypes.byref(low), ctypes.byref(high)
        code = self._lib.get_watermark_offsets(self._client.handle, topic, number, *references)
        return -1 if code else high.value

    def group_metadata(self) -> bytes:
        """Return generation and member id, as librdkafka encodes them; empty: not a member of a group."""
        metadata = self._lib.consumer_group_metadata(self._client.handle)
        return encoded(self._lib, metadata) if metadata else b""

    def reaches_broker(self, timeout_s: float) -> bool:
        """Say whether a broker answers within this time."""
        return self._client.reaches_broker(timeout_s)

    def _leave(self) -> None:
        """Leave the group now: a static member that only closes stays in it until its session times out."""
        if self._lib.unsubscribe(self._client.handle):
            return  # a client that has ended is no member any more
        until_s = time.monotonic() + _LEAVE_S
        while self._has_member_id() and time.monotonic() < until_s:  # librdkafka forgets it when it sends the request
            self._reader.read(self._take(_FINAL_RECORDS, 0.01))

    def _has_member_id(self) -> bool:
        text = self._lib.memberid(self._client.handle)
        found = bool(text) and bool(ctypes.string_at(text))
        if text:
            self._lib.mem_free(None, text)
        return found

    def close(self) -> None:
        """Leave the group, which calls `on_revoke`, and release the client; do nothing if that was done."""
        if self._client.is_destroyed:
            return
        self._leave()
        self._lib.consumer_close(self._client.handle)
        self._lib.queue_destroy(self._queue)
        self._client.destroy()
        self._client.checked()
