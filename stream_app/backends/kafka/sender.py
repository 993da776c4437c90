"""Records of tools and replays, written outside of transactions."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_app.backends.base import TopicPartition, Watermarks
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import error_text, refusal_text
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.settings import PRODUCER_GUARANTEES, SENDER_TUNING, client_settings, create_client
from stream_app.backends.partitioner import partition_of
from stream_app.backends.retention import refused_time_text
from stream_app.errors import DeliveryError
from stream_app.records import Header

_TIME_CODES = frozenset({KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""Codes of a batch with a record whose timestamp is refused: the broker gives all its records the same code."""

_DEFAULT_AFTER_MAX_MS = 3_600_000
"""A refused record that is nearer to the present was refused for another reason, or because of another record."""


class KafkaSender:
    """Sends records to Kafka as an idempotent producer (the port `base.Sender`).

    Args:
        bootstrap_servers: Addresses of brokers, separated by commas.
        settings: Further settings of librdkafka; they replace our tuning, but not what delivery depends on.
        partitions: The number of partitions that keys are spread over; None: all that the topic has.
    """

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, str] | None = None, partitions: int | None = None
    ) -> None:
        self._partitions = partitions
        layers = (SENDER_TUNING, settings or {}, PRODUCER_GUARANTEES)
        self._producer: Producer = create_client(Producer, client_settings(bootstrap_servers, Outages(), *layers))
        self._sent = 0
        self._failed = 0
        self._first_failure = ""
        self._refused = (0, 0, "")  # distance from now, event time and place of the record that is farthest from now
        self._written: dict[tuple[str | None, int | None], list[int]] = {}

    def _on_delivery(self, timestamp_ms: int, error: KafkaError | None, message: Message) -> None:
        """Take the result of one record; a message that failed does not have its timestamp any more."""
        if error is not None:
            self._failed += 1
            place = f"{message.topic()}[{message.partition()}]"
            self._first_failure = self._first_failure or refusal_text(error, place, f"topic {message.topic()}")
            if error.code() in _TIME_CODES:
                self._refused = max(
                    self._refused, (abs(time.time_ns() // 1_000_000 - timestamp_ms), timestamp_ms, place)
                )
            return
        offset = message.offset() or 0
        place_key = (message.topic(), message.partition())
        span = self._written.get(place_key)
        if span is None:
            self._written[place_key] = [offset, offset + 1]
        elif offset >= span[1]:
            span[1] = offset + 1

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """Queue one record; block while the queue is full, for at most `timeouts.QUEUE_ROOM_S`.

        Raises:
            DeliveryError: An earlier record failed, the client refused this one, or the queue stayed full.
        """
        if self._failed:
            self._raise_failed()
        if partition is None and key is not None and self._partitions is not None:
            partition = partition_of(key, self._partitions)
        number = -1 if partition is None else partition
        on_delivery = partial(self._on_delivery, timestamp_ms)
        deadline = 0.0
        while True:
            try:
                if headers:
                    self._producer.produce(
                        topic, value, key, number, on_delivery, timestamp=timestamp_ms, headers=list(headers)
                    )
                else:
                    self._producer.produce(topic, value, key, number, on_delivery, None, timestamp_ms)
            except BufferError:
                deadline = deadline or time.monotonic() + timeouts.QUEUE_ROOM_S
                if time.monotonic() > deadline:
                    raise DeliveryError(f"{topic}: the send queue was full for {timeouts.QUEUE_ROOM_S:.0f} s") from None
                self._producer.poll(timeouts.RETRY_PAUSE_S)
            except KafkaException as problem:
                raise DeliveryError(f"{topic}: {error_text(problem)}") from None
            else:
                break
        self._sent += 1
        if self._sent % 1_000 == 0:
            self._producer.poll(0)

    def _raise_failed(self) -> NoReturn:
        distance_ms, time_ms, place = self._refused
        is_time = distance_ms > _DEFAULT_AFTER_MAX_MS
        text = refused_time_text(place, time_ms) if is_time else f"first: {self._first_failure}"
        raise DeliveryError(f"{self._failed} of {self._sent} records were not delivered; {text}")

    def flush(self, timeout_s: float) -> Mapping[TopicPartition, Watermarks]:
        """Wait until all records are delivered; return the offsets that this sender has written so far.

        Returns:
            For each partition the first offset written, and the last one plus 1.

        Raises:
            DeliveryError: A record failed, or some were not delivered in time.
        """
        left = self._producer.flush(timeout_s)
        if self._failed:
            self._raise_failed()
        if left:
            raise DeliveryError(f"{left} of {self._sent} records were not delivered within {timeout_s:g} s")
        return {TopicPartition(*place): Watermarks(*span) for place, span in self._written.items()}  # type: ignore[arg-type]

    def close(self) -> None:
        """Release the client; records that were not flushed are discarded."""
        self._producer.close()
