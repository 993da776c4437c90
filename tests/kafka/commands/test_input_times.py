"""A real broker refuses records that retention would delete too early, unless the topics were created for history."""

import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.errors import DeliveryError
from stream_app.records import Example
from stream_app.serialization.codec import encode
from tests.support.kafka.application import App
from tests.support.kafka.processes import areba

pytestmark = pytest.mark.kafka

OF_2013_MS = 1_380_000_000_000


def _send(servers: str, topic: str, *times_ms: int) -> None:
    with closing(KafkaSender(servers)) as sender:
        for time_ms in times_ms:
            sender.send(topic, b"s", encode(Example("s", "1", [1.0, 2.0])), time_ms)
        sender.flush(30)


def test_old_records_are_refused_to_their_producer(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """1,000 records of 2013 were acknowledged, and gone at the broker's next check, while every command said ok."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {})
    file = app.file("w")
    assert areba(file, "topics", "create").returncode == 0
    topic = app.config.topics.examples
    now_ms, seconds = time.time_ns() // 1_000_000, 1_800_000_000
    for times_ms in ((OF_2013_MS,), (seconds, seconds), (now_ms, OF_2013_MS, now_ms)):
        with pytest.raises(DeliveryError) as caught:
            _send(kafka.bootstrap_servers, topic, *times_ms)
        time_ms = min(times_ms)
        for named in (topic, str(time_ms), TIMES_BEFORE, "INVALID_TIMESTAMP", "--retention"):
            assert named in str(caught.value)
    checked = areba(file, "topics", "check", "--json")
    levels = {one["check"]: one["level"] for one in map(json.loads, checked.stdout.splitlines())}
    assert (levels["retention"], levels["unread records"]) == ("ok", "ok")
    other = areba(file, "topics", "create", "--retention", "365d")
    assert other.returncode == 2, "an existing topic is never changed"
    assert f"{topic}: it exists with retention.ms=" in other.stderr


def test_topics_for_history_keep_any_event_time(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Topics for history take any time, and keep it."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, {})
    file = app.file("w")
    assert areba(file, "topics", "create", "--retention", "unlimited").returncode == 0
    topic = app.config.topics.examples
    _send(kafka.bootstrap_servers, topic, OF_2013_MS)
    places = [TopicPartition(topic, number) for number in range(4)]
    ends = KafkaCluster(kafka.bootstrap_servers).ends(places)
    assert sum(end.high for end in ends.values()) == 1
    checked = areba(file, "topics", "check", "--json")
    levels = {one["check"]: one["level"] for one in map(json.loads, checked.stdout.splitlines())}
    assert (levels["retention"], levels["unread records"]) == ("ok", "ok")
