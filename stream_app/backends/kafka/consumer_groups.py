"""Consumer groups, administered by clients that are not members."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from stream_app.backends.base import Committed, TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.errors import (
    GROUP_CHANGED_CODES,
    NO_COORDINATOR_CODES,
    REFUSED_CODES,
    error_text,
    failed_request,
    kafka_error,
)
from stream_app.backends.kafka.messages import client_partitions
from stream_app.backends.kafka.requests import answer
from stream_app.errors import ErrorCode, StateError, UnknownOutcomeError


def committed_offsets(
    consumer: Consumer, group_id: str, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Committed | None]:
    """Return the group's stable committed offsets; see `base.Cluster.committed`.

    The admin client has the same request, but librdkafka 2.16 follows a null pointer, which ends the process, when a
    coordinator that is loading or moving answers an admin client.

    Args:
        consumer: A consumer with this group id that has not joined the group and reads only committed records.
        group_id: The group.
        partitions: What to ask for.
    """
    deadline = time.monotonic() + timeouts.STABLE_OFFSETS_S
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
            raise UnknownOutcomeError(f"group {group_id}: an open transaction holds its offsets; try again later")
        time.sleep(10 * timeouts.RETRY_PAUSE_S)
    return {
        TopicPartition(a.topic, a.partition): Committed(a.offset, a.metadata or "") if a.offset >= 0 else None
        for a in answers
    }


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


def commit_offsets(admin: AdminClient, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commit offsets for a group without members; see `base.Cluster.commit_offsets`."""
    wanted = [ClientPartition(*place, known.offset, known.metadata) for place, known in offsets.items()]
    request = ConsumerGroupTopicPartitions(group_id, wanted)
    futures = admin.alter_consumer_group_offsets([request], request_timeout=timeouts.REQUEST_S)
    try:
        answers = answer(futures[group_id], timeouts.REQUEST_S).topic_partitions
    except KafkaException as problem:
        failure: KafkaException | None = problem
    else:
        failure = next((KafkaException(one.error) for one in answers if one.error is not None), None)
    if failure is None:
        return
    if kafka_error(failure).code() in GROUP_CHANGED_CODES:
        text = f"{group_id}: the group has members; stop all of them first ({error_text(failure)})"
        raise StateError(text, ErrorCode.WORKERS_RUNNING)
    is_topic = kafka_error(failure).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    resource = f"topic {' or '.join({place.topic: None for place in offsets})}" if is_topic else f"group {group_id}"
    raise failed_request(failure, f"offsets of {group_id} cannot be committed", resource, "Read")
