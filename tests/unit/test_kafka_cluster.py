"""What the cluster's administration makes of brokers that do not know the same yet."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.kafka import KafkaCluster
from stream_app.ports import TopicInfo

ASKED_BEFORE_KNOWN = 3


class _Admin:
    """Stands in for the client: brokers answer in turn, and not all of them know the new topic."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self._lists = iter((["old", "new"], ["old"], ["old"], ["old", "new"]))

    def create_topics(self, topics: list[Any], **_: float) -> dict[str, Future[None]]:
        done = Future[None]()
        done.set_result(None)
        return {topic.topic: done for topic in topics}

    def list_topics(self, **_: float) -> SimpleNamespace:
        topic = SimpleNamespace(error=None, partitions={0: None})
        return SimpleNamespace(topics=dict.fromkeys(next(self._lists), topic))

    def describe_configs(self, resources: list[Any], **_: float) -> dict[Any, Future[Any]]:
        self.asked.append([resource.name for resource in resources])
        answers = {}
        for resource in resources:
            answers[resource] = future = Future[Any]()
            if resource.name == "new" and len(self.asked) < ASKED_BEFORE_KNOWN:
                future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown")))
            else:
                future.set_result({"retention.ms": SimpleNamespace(value=resource.name)})
        return answers


def test_a_topic_that_not_all_brokers_know_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`areba topics create` reads back what it has created: on three brokers it failed now and then."""
    cluster = KafkaCluster("127.0.0.1:1")
    admin = _Admin()
    monkeypatch.setattr(cluster, "_admin", admin)
    cluster.create([TopicInfo("new", 1, {})], 3)
    found = cluster.topics(["old", "new", "none"])
    assert {name: topic.settings for name, topic in found.items()} == {
        "old": {"retention.ms": "old"},
        "new": {"retention.ms": "new"},
    }
    assert admin.asked == [["old", "new"], ["new"], ["new"]]
