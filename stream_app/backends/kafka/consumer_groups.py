"""Consumer groups, administered by clients that are not members."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import (
    NO_COORDINATOR_CODES,
    REFUSED_CODES,
    failed_request,
    kafka_error,
)
from stream_app.backends.kafka.messages import client_partitions
from stream_app.backends.kafka.requests import answer
from stream_app.errors import UnknownOutcomeError


def committed_offsets(
    consumer: Consumer, group_id: str, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int | None]:
    """Return the group's committed offsets; see `base.Cluster.committed`.

    The admin client has the same request, but librdkafka 2.16 follows a null pointer, which ends the process, when a
    coordinator that is loading or moving answers an admin client.

    Args:
        consumer: A consumer with this group id that has not joined the group and reads uncommitted records: it
            does not wait for the end of transactions.
        group_id: The group.
        partitions: What to ask for.
    """
    deadline = time.monotonic() + timeouts.REQUEST_S
    while True:
        try:
            answers = consumer.committed(client_partitions(partitions), timeout=timeouts.REQUEST_S)
        except KafkaException as problem:
            if time.monotonic() > deadline or kafka_error(problem).code() in REFUSED_CODES:
                raise failed_request(problem, f"committed offsets of {group_id}", f"group {group_id}") from None
            failed = True
        else:
            failed = any(one.error is not None for one in answers)
        if not failed:
            break
        if time.monotonic() > deadline:
            raise UnknownOutcomeError(
                f"group {group_id}: its coordinator does not know its offsets yet; try again later"
            )
        time.sleep(10 * timeouts.RETRY_PAUSE_S)
    return {TopicPartition(a.topic, a.partition): a.offset if a.offset >= 0 else None for a in answers}


def member_client_ids(admin: AdminClient, group_id: str) -> Sequence[str]:
    """Return the `client.id` of each member; see `base.Cluster.members`."""
    deadline = time.monotonic() + timeouts.REQUEST_S
    while True:
        futures = admin.describe_consumer_groups([group_id], request_timeout=timeouts.REQUEST_S)
        try:
            return [member.client_id for member in answer(futures[group_id], timeouts.REQUEST_S).members]
        except KafkaException as problem:
            code = kafka_error(problem).code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return ()
            if code not in NO_COORDINATOR_CODES or time.monotonic() > deadline:
                raise failed_request(problem, f"members of {group_id}", f"group {group_id}", "Describe") from None
        time.sleep(10 * timeouts.RETRY_PAUSE_S)
