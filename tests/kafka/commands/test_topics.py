"""The checks of start-up against the settings that a real broker reports."""

import json
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends import topics
from stream_app.backends.base import TopicInfo
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.config import Config
from tests.support.kafka.application import App
from tests.support.kafka.processes import areba

pytestmark = pytest.mark.kafka

LIMITS = {"max_clock_lead_ms": 3_600_000, "max_record_bytes": 1_000_000}


def _config(prefix: str) -> Config:
    return Config.model_validate({"application": {"id": "app"}, "kafka": {"topic_prefix": prefix}})


def _cluster(kafka: Broker) -> KafkaCluster:
    assert kafka.bootstrap_servers is not None
    return KafkaCluster(kafka.bootstrap_servers)


def test_created_topics_pass_and_missing_ones_are_named(kafka: Broker, prefix: str) -> None:
    """An operator's first two commands: a start that names what is missing, and the command that creates it."""
    names, cluster = _config(prefix).topics, _cluster(kafka)
    lines = topics.check(cluster.topics(names), names, **LIMITS)
    assert lines == [f"{name}: the topic does not exist; `areba topics create` creates it" for name in names]
    cluster.create(topics.plan(names, 3, **LIMITS), 1)
    assert topics.check(cluster.topics(names), names, **LIMITS) == []


def test_everything_wrong_is_said_at_once(kafka: Broker, prefix: str) -> None:
    """All wrong settings of topics with Kafka's defaults, or with an operator's own settings, are reported together."""
    names, cluster = _config(prefix).topics, _cluster(kafka)
    wrong = [
        TopicInfo(names.examples, 2, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}),
        TopicInfo(names.labels, 3, {"message.timestamp.after.max.ms": "7200000", "max.message.bytes": "500000"}),
        TopicInfo(names.predictions, 3, {"message.timestamp.type": "LogAppendTime"}),
        TopicInfo(names.outcomes, 3, {"message.timestamp.before.max.ms": "1000"}),
        TopicInfo(names.metrics, 3, {"max.message.bytes": "1000", "cleanup.policy": "compact"}),
        TopicInfo(names.dead_letters, 3, {}),
        TopicInfo(names.changelog, 3, {}),
        TopicInfo(names.progress, 3, {}),
    ]
    cluster.create(wrong, 1)
    lines = topics.check(cluster.topics(names), names, **LIMITS)
    expected = [
        (names.examples, "has 2 partitions"),
        (names.examples, "message.timestamp.type is LogAppendTime"),
        (names.examples, "cleanup.policy is compact"),
        (names.labels, "message.timestamp.after.max.ms is 7200000"),
        (names.labels, "max.message.bytes is 500000"),
        (names.outcomes, "message.timestamp.type is CreateTime"),
        (names.metrics, "max.message.bytes is 1000"),
        (names.metrics, "cleanup.policy is compact"),
        (names.metrics, "message.timestamp.type is CreateTime"),
        (names.dead_letters, "message.timestamp.type is CreateTime"),
        (names.changelog, "cleanup.policy is delete"),
        (names.progress, "message.timestamp.type is CreateTime"),
        (names.progress, "retention.ms is 604800000"),
    ]
    for name, said in expected:
        assert any(line.startswith(f"{name}: {said}") for line in lines), (name, said, lines)
    assert len(lines) == len(expected), lines


def test_the_check_before_a_start(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The same command says what is missing before `create`, and that nothing is wrong after it."""
    assert kafka.bootstrap_servers is not None
    file = App(kafka.bootstrap_servers, prefix, tmp_path, {}).file("w")
    before = areba(file, "topics", "check", "--json")
    wrong = [one["check"] for one in map(json.loads, before.stdout.splitlines()) if one["level"] == "wrong"]
    assert (before.returncode, wrong) == (1, ["topics"] * 8)
    assert areba(file, "topics", "create").returncode == 0
    after = areba(file, "topics", "check", "--json")
    results = [json.loads(line) for line in after.stdout.splitlines()]
    assert (after.returncode, after.stderr) == (0, "")
    assert not [one for one in results if one["level"] == "wrong"]
    assert {"connection", "topics", "rights", "reading", "clock", "identity"} <= {one["check"] for one in results}
