"""What a broker stores of a group: `benchmarks.scale_model` counts these bytes for applications of any size."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from benchmarks.scale_model import Application, group_metadata_bytes, offset_commit_bytes
from stream_app.backends.base import CLIENT_NAME, TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from tests.contract.backends import Member, poll_until

pytestmark = pytest.mark.kafka

OFFSETS = "__consumer_offsets"
PARTITIONS = 4
WORKERS = 2
DEADLINE_S = 30.0

OFFSET_KEY, GROUP_KEY = 1, 2
"""The versions of keys: an offset of a partition, and the metadata of a group."""

BATCH, RECORD, MARKER = 61, 7, 78


def _records(servers: str, group: str) -> Iterator[tuple[int, int, int]]:
    """Yield the version of the key, the size of the key, and the size of the value of all records of a group."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    with closing(consumer):
        numbers = consumer.list_topics(OFFSETS, DEADLINE_S).topics[OFFSETS].partitions
        consumer.assign([Place(OFFSETS, number, 0) for number in numbers])
        ended, until_s = 0, time.monotonic() + DEADLINE_S
        while ended < len(numbers) and time.monotonic() < until_s:
            for message in consumer.consume(1_000, 0.5):
                ended += message.error() is not None
                key = message.key() or b""
                if message.error() is None and group.encode() in key:
                    yield int.from_bytes(key[:2], "big"), len(key), len(message.value() or b"")


def test_a_group_takes_the_bytes_that_the_model_counts(kafka: Any, prefix: str) -> None:  # noqa: ANN401
    """An operator learns from the model how many workers fit into one group."""
    servers, group, topics = kafka.bootstrap_servers, prefix + "group", [prefix + "examples", prefix + "labels"]
    KafkaCluster(servers).create([TopicInfo(topic, PARTITIONS, {}) for topic in topics], 1)
    with ExitStack() as stack:
        members = []
        for number in range(WORKERS):
            named = {"client.id": f"worker-{number}", "group.instance.id": f"worker-{number}"}
            source = KafkaSource(servers, group, named)
            stack.enter_context(closing(source))
            members.append(Member(source, topics, PARTITIONS))
        poll_until(members, lambda: all(len(one.assigned) == PARTITIONS for one in members))
        found = members[0].assigned[0].partition
        with closing(KafkaTransaction(servers, prefix + "id")) as transaction:
            transaction.initialise()
            transaction.begin()
            offsets = {TopicPartition(topic, found): 1_000_000 for topic in topics}
            transaction.send_offsets(offsets, members[0].source.group_metadata())
            transaction.commit()
        records = list(_records(servers, group))
    app = Application(
        workers=WORKERS,
        partitions=PARTITIONS,
        group=group,
        instance="worker-0",
        client=f"{CLIENT_NAME}/worker-0",
        host="/127.0.0.1",
        inputs=tuple(topics),
    )
    assert group_metadata_bytes(app) in [value for version, _, value in records if version == GROUP_KEY]
    sizes = [key + value + RECORD for version, key, value in records if version == OFFSET_KEY]
    assert len(sizes) == len(topics)
    assert BATCH + sum(sizes) + MARKER == offset_commit_bytes(app)
