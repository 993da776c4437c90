"""A partition that was not read is fetched at once where librdkafka alone would sleep for up to a second."""

import time
from contextlib import closing
from typing import Any

import pytest

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.kafka.source import KafkaSource
from tests.contract.backends import Member, poll_until

pytestmark = pytest.mark.kafka

ATTEMPTS = 5

ASLEEP_S = 0.2
"""Time without a fetch after which the thread that fetches sleeps, for the rest of a second."""

AT_ONCE_S = 0.4
"""Less than a client that sleeps takes. On a busy machine some of the times are longer, so the shortest one counts."""


def test_a_partition_that_was_not_read_is_fetched_at_once(kafka: Any, prefix: str) -> None:  # noqa: ANN401
    """Otherwise each restore of a task waits for up to a second before it reads its inputs."""
    servers, place = kafka.bootstrap_servers, TopicPartition(prefix + "in", 0)
    KafkaCluster(servers).create([TopicInfo(place.topic, 1, {})], 1)
    with closing(KafkaSender(servers)) as sender:
        sender.send(place.topic, b"key", b"value", int(time.time() * 1000))
        sender.flush(AT_ONCE_S * 100)
    times_s = []
    with closing(KafkaSource(servers, prefix + "group")) as source:
        member = Member(source, [place.topic], 1)
        poll_until([member], lambda: place in member.assigned)
        for _ in range(ATTEMPTS):
            source.stop_reading([place])
            until_s = time.monotonic() + ASLEEP_S
            while time.monotonic() < until_s:
                source.poll(1, ASLEEP_S)
            source.start_at({place: 0})
            begun_s = time.monotonic()
            while not any(len(found.records) for found in source.poll(1, AT_ONCE_S)):
                assert time.monotonic() < begun_s + 100 * AT_ONCE_S
            times_s.append(time.monotonic() - begun_s)
    assert min(times_s) < AT_ONCE_S
