"""Requests of the admin client: waiting for an answer, and the offsets of partitions."""

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from stream_app.backends.base import Ends, TopicPartition, Watermarks
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import NO_LEADER_CODES, TIMED_OUT, failed_request, kafka_error
from stream_app.backends.kafka.messages import client_partitions
from stream_app.backends.questions import KeptRecords, Retention
from stream_app.errors import UnknownOutcomeError

_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""A topic id of zeros (KIP-516): the broker has no id for the topic."""


def answer(future: Future[Any], timeout_s: float) -> Any:  # noqa: ANN401  (each request has its own type of answer)
    """Return the answer to a request that the client gives up after `timeout_s`.

    A process that was frozen meanwhile may time out here although the client has an answer.

    Raises:
        KafkaException: The broker refuses, or (code `_TIMED_OUT`) there is no answer.
    """
    try:
        return future.result(timeout_s + 1)
    except TimeoutError:
        raise KafkaException(KafkaError(TIMED_OUT, "no answer", retriable=True)) from None


def reaches_broker(client: Consumer | AdminClient) -> bool:
    """Say whether a broker answers this client within `timeouts.PROBE_S`."""
    try:
        client.list_topics(timeout=timeouts.PROBE_S)
    except KafkaException:
        return False
    return True


def query_watermarks(admin: AdminClient, partition: TopicPartition) -> Watermarks:
    """Ask the broker for the first offset of a partition and for the end of its log, committed or not.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    what = "first and last offset"
    kinds = [(spec, IsolationLevel.READ_UNCOMMITTED) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]  # type: ignore[no-untyped-call]
    [low], [high] = _query_offsets(admin, [ClientPartition(*partition)], kinds, what)
    return Watermarks(low, high)


def query_ends(admin: AdminClient, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Ends]:
    """Ask the broker for the last stable offset and for the end of each partition's log.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    last = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    kinds = [(last, IsolationLevel.READ_COMMITTED), (last, IsolationLevel.READ_UNCOMMITTED)]
    names = ", ".join(dict.fromkeys(partition.topic for partition in partitions))
    stable, high = _query_offsets(admin, client_partitions(partitions), kinds, f"open transactions in {names}")
    return dict(zip(partitions, map(Ends, stable, high), strict=True))


def wait_for_leaders(admin: AdminClient, partitions: Sequence[TopicPartition]) -> None:
    """Wait until a broker serves each of these new partitions: a broker needs seconds to open thousands of logs.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: A partition has no leader in time, or no broker answered.
    """
    kinds = [(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)]  # type: ignore[no-untyped-call]
    what = "last offset of a new partition"
    _query_offsets(admin, client_partitions(partitions), kinds, what, timeout_s=timeouts.NEW_PARTITIONS_S)


def query_offsets_since(
    admin: AdminClient, partitions: Sequence[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    """Ask the broker for the first offset of each partition whose record is not older than `time_ms`; else for the end.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    level = IsolationLevel.READ_UNCOMMITTED
    kinds = [(OffsetSpec.for_timestamp(time_ms), level), (OffsetSpec.latest(), level)]  # type: ignore[no-untyped-call]
    first, ends = _query_offsets(admin, client_partitions(partitions), kinds, "offsets by time", may_be_absent=True)
    chosen = (end if offset < 0 else offset for offset, end in zip(first, ends, strict=True))
    return dict(zip(partitions, chosen, strict=True))


def query_newest_timestamp(admin: AdminClient, partitions: Sequence[TopicPartition]) -> int | None:
    """Ask the broker for the largest timestamp in the partitions (KIP-734); None if there are no records.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    places = client_partitions(partitions)
    spec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=timeouts.LEADER_REQUEST_S)
    try:
        found = [answer(futures[place], timeouts.LEADER_REQUEST_S).timestamp for place in places]
    except KafkaException as problem:
        raise failed_request(problem, "newest timestamp", f"topic {places[0].topic}", "Describe") from None
    return max((timestamp for timestamp in found if timestamp >= 0), default=None)


def topic_id_text(found: object) -> str:
    """Return a topic id as Kafka's tools print it, in URL-safe base64; empty for brokers before KIP-516."""
    text = str(found)
    return "" if text == _NO_TOPIC_ID else text.replace("+", "-").replace("/", "_")


def query_kept(admin: AdminClient, partitions: Sequence[TopicPartition]) -> KeptRecords:
    """Ask for the retention of the topics and for the first offset of each partition.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    names = list(dict.fromkeys(partition.topic for partition in partitions))
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=timeouts.REQUEST_S)
    first = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_UNCOMMITTED
    [starts] = _query_offsets(admin, client_partitions(partitions), [(first, level)], "first offset")
    try:
        found = {resource.name: answer(future, timeouts.REQUEST_S) for resource, future in futures.items()}
    except KafkaException as problem:
        raise failed_request(problem, "what is kept", f"topics {', '.join(names)}", "DescribeConfigs") from None
    values = {
        name: {key: entry.value for key, entry in entries.items() if entry.value is not None}
        for name, entries in found.items()
    }
    retentions = {name: Retention.of(known) for name, known in values.items()}
    return KeptRecords(retentions, dict(zip(partitions, starts, strict=True)))


def _without_offset(places: Sequence[ClientPartition], found: Sequence[Sequence[int]]) -> str:
    """Return the first partition for which a leader has not answered with an offset."""
    lowest = [min(offsets) for offsets in zip(*found, strict=True)]
    place = places[lowest.index(min(lowest))]
    return f"{place.topic}[{place.partition}]"


def _query_offsets(
    admin: AdminClient,
    places: Sequence[ClientPartition],
    kinds: Sequence[tuple[OffsetSpec, IsolationLevel]],
    what: str,
    *,
    may_be_absent: bool = False,
    timeout_s: float | None = None,
) -> list[list[int]]:
    """Return for each kind the offsets of all partitions; ask again, within a bound, while leaders are missing.

    With `may_be_absent`, all kinds but the last may have no offset, which is then -1.

    Raises:
        TopicError: The broker refuses.
        UnknownOutcomeError: No broker answered in time.
    """
    deadline = time.monotonic() + (timeouts.REQUEST_S if timeout_s is None else timeout_s)
    attempt_s = timeouts.LEADER_REQUEST_S
    while True:
        asked = [
            admin.list_offsets(dict.fromkeys(places, spec), isolation_level=level, request_timeout=attempt_s)
            for spec, level in kinds
        ]
        found: list[list[int]] = [[] for _ in kinds]
        place = places[0]
        try:
            for offsets, futures in zip(found, asked, strict=True):
                for place in places:
                    offsets.append(answer(futures[place], attempt_s).offset)
        except KafkaException as problem:
            if kafka_error(problem).code() not in NO_LEADER_CODES or time.monotonic() > deadline:
                where = f"{place.topic}[{place.partition}]: {what}"
                raise failed_request(problem, where, f"topic {place.topic}", "Describe") from None
        else:
            if min(map(min, found[-1:] if may_be_absent else found)) >= 0:
                return found
            if time.monotonic() > deadline:  # an answer without an offset: the leader that the client knew has gone
                raise UnknownOutcomeError(f"{_without_offset(places, found)}: {what}: the partition has no leader")
        time.sleep(10 * timeouts.RETRY_PAUSE_S)
        with contextlib.suppress(KafkaException):
            # makes the client learn who the new leader is; a question about one topic would create a topic that is gone
            admin.list_topics(timeout=attempt_s)
