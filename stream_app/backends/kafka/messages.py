"""From the client's messages to the columns of `RawRecords`, and between the two kinds of partition objects."""

import itertools
import logging
from collections.abc import Iterable, Sequence

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from stream_app import log_lines
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.errors import AUTO_OFFSET_RESET, REFUSED_CODES, refusal_text
from stream_app.errors import ConfigurationError, FencedError, OffsetGoneError, TopicError
from stream_app.record_columns import RawRecords
from stream_app.records import UNREADABLE_HEADERS, Header

LOGGER = logging.getLogger("areba.kafka")

NO_RECORDS = RawRecords.of(np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())


def client_partitions(partitions: Iterable[TopicPartition]) -> list[ClientPartition]:
    """Return the partitions as the client's objects."""
    return [ClientPartition(*partition) for partition in partitions]


def drain(consumer: Consumer, max_records: int, timeout_s: float) -> list[Message]:
    """Return the messages that the client has; if it has none, wait for the first and return what came with it.

    (`consume` alone waits until it has `max_records` messages, or for the whole timeout.)
    """
    messages: list[Message] = consumer.consume(max_records, 0)
    if messages or timeout_s <= 0:
        return messages
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    if max_records > 1:
        return [first, *consumer.consume(max_records - 1, 0)]
    return [first]


def by_partition(messages: list[Message]) -> dict[TopicPartition, list[Message]]:
    """Split a batch by partition and keep the order. Messages come in long runs of one partition."""
    places = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    groups: dict[TopicPartition, list[Message]] = {}
    start = 0
    for place, run in itertools.groupby(places):
        stop = start + len(list(run))
        groups.setdefault(TopicPartition(*place), []).extend(messages[start:stop])  # type: ignore[arg-type]
        start = stop
    return groups


def columns(messages: Sequence[Message]) -> RawRecords:
    """Return the records of one partition in columns, each of which is read in one pass in C."""
    count = len(messages)
    stamps = np.fromiter(itertools.chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count)
    kinds, times = stamps[0::2], stamps[1::2]
    return RawRecords.of(
        offsets=np.fromiter(map(Message.offset, messages), np.int64, count),
        timestamps=np.select(
            [kinds == TIMESTAMP_CREATE_TIME, kinds == TIMESTAMP_LOG_APPEND_TIME], [np.maximum(times, -1), -times], -1
        ),
        keys=list(map(Message.key, messages)),
        values=list(map(Message.value, messages)),
        headers=_headers_by_row(messages),
    )


def _headers_by_row(messages: Sequence[Message]) -> dict[int, Sequence[Header]]:
    """Return the headers of the messages that have any.

    Each message is asked once only: the client raises for a name that is not UTF-8, and crashes if it is asked again.
    """
    asked = map(Message.headers, messages)
    found: list[Sequence[Header] | None] = []
    while len(found) < len(messages):
        try:
            found.extend(asked)  # type: ignore[arg-type]  # what came before an error stays in the list
        except SystemError:
            found.append(UNREADABLE_HEADERS)
    return {row: headers for row, headers in enumerate(found) if headers} if any(found) else {}


def raise_read_error(
    partition: TopicPartition, error: KafkaError, position: int, group_id: str, *, is_member: bool = True
) -> None:
    """Raise an error after which reading cannot continue; log any other error, which the client retries.

    `position` is the offset that was to be read.

    Raises:
        ConfigurationError: Reading in this group is not permitted.
        OffsetGoneError: The offset was deleted, or is larger than the end of the partition.
        TopicError: The broker refuses to let us read the topic.
        FencedError: The client reports a fatal error.
    """
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise ConfigurationError(
            refusal_text(error, "consumer", f"group {group_id}", "Read" if is_member else "Describe")
        )
    place = f"{partition.topic}[{partition.partition}]"
    if error.code() == AUTO_OFFSET_RESET:
        raise OffsetGoneError(f"{place}: offset {position} does not exist ({error.str()})", partition)
    if error.code() in REFUSED_CODES:
        raise TopicError(refusal_text(error, place, f"topic {partition.topic}", "Read"))
    if error.fatal():
        raise FencedError(f"consumer: {error.str()}")
    log_lines.FETCH_FAILED.log(LOGGER, partition=place, problem=error.str())
