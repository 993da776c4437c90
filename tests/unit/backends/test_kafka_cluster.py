"""Administration of a cluster whose brokers do not agree yet, or do not answer."""

from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.errors import TopicError, UnknownOutcomeError

ASKED_BEFORE_KNOWN = 3


class _Admin:
    """A fake admin client: brokers answer in turn, not all of them know the new topic, which has no leader at first."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self._lists = iter((["old"], ["old", "new"], ["old"], ["old"], ["old", "new"]))
        self._leaders = iter((False, False, True))

    def create_topics(self, topics: list[Any], **_: float) -> dict[str, Future[None]]:
        done = Future[None]()
        done.set_result(None)
        return {topic.topic: done for topic in topics}

    def list_topics(self, **_: float) -> SimpleNamespace:
        topic = SimpleNamespace(error=None, partitions={0: SimpleNamespace(replicas=[1, 2])})
        return SimpleNamespace(topics=dict.fromkeys(next(self._lists), topic))

    def list_offsets(self, places: dict[ClientPartition, Any], **_: object) -> dict[ClientPartition, Future[Any]]:
        if next(self._leaders, True):
            return dict.fromkeys(places, _answered(SimpleNamespace(offset=0)))
        return dict.fromkeys(places, _failed(KafkaError.NOT_LEADER_FOR_PARTITION))

    def describe_topics(self, topics: Any, **_: float) -> dict[str, Future[Any]]:  # noqa: ANN401  (the client's own)
        answers: dict[str, Future[Any]] = {name: Future() for name in topics.topic_names}
        for name, future in answers.items():
            future.set_result(SimpleNamespace(topic_id=f"id of {name}", authorized_operations=None))
        return answers

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


def _answered(answer: object) -> Future[Any]:
    done = Future[Any]()
    done.set_result(answer)
    return done


def test_a_topic_that_not_all_brokers_know_yet_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`areba topics create` reads back what it has created, and would sometimes fail on three brokers.

    A broker needs longer than a request may take before it serves thousands of new partitions.
    """
    cluster = KafkaCluster("127.0.0.1:1")
    admin = _Admin()
    monkeypatch.setattr(cluster, "_admin", admin)
    with monkeypatch.context() as impatient:
        impatient.setattr(timeouts, "REQUEST_S", 0.0)
        cluster.create([TopicInfo("new", 1, {})], 3)
    found = cluster.topics(["old", "new", "none"])
    assert {name: topic.settings for name, topic in found.items()} == {
        "old": {"retention.ms": "old"},
        "new": {"retention.ms": "new"},
    }
    assert admin.asked == [["old", "new"], ["new"], ["new"]]


def _failed(code: int) -> Future[Any]:
    failed = Future[Any]()
    failed.set_exception(KafkaException(KafkaError(code, "injected")))
    return failed


@pytest.mark.parametrize(
    ("code", "expected"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, TopicError), (KafkaError.REQUEST_TIMED_OUT, UnknownOutcomeError)],
)
def test_a_refusal_is_distinguished_from_silence(
    code: int, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing permission to delete records cannot be fixed by a retry; a broker that is down can."""
    cluster, place = KafkaCluster("127.0.0.1:1"), TopicPartition("progress", 3)
    admin = SimpleNamespace(delete_records=lambda places, **_: {places[0]: _failed(code)}, poll=lambda _: None)
    monkeypatch.setattr(cluster, "_admin", admin)
    with pytest.raises(expected, match=r"progress\[3\]: records below offset 7 cannot be deleted: injected"):
        cluster.delete_records(place, 7)


@pytest.mark.parametrize("ask", ["watermarks", "ends", "delete_records", "members"])
def test_a_process_that_was_frozen_while_it_asked_restarts(monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    """When it wakes, its timeout has passed, and it would end with a traceback instead of restarting."""
    for patience in ("LEADER_REQUEST_S", "REQUEST_S"):
        monkeypatch.setattr(timeouts, patience, -1.0)
    place = TopicPartition("examples", 0)
    silent: Future[Any] = Future()
    answers = {ClientPartition(*place): silent, "app": silent}
    asked = ("list_offsets", "delete_records", "describe_consumer_groups")
    cluster = KafkaCluster("127.0.0.1:1")
    admin = SimpleNamespace(**dict.fromkeys(asked, lambda *_, **__: answers), poll=lambda _: None)
    monkeypatch.setattr(cluster, "_admin", admin)
    monkeypatch.setattr(cluster, "_new_admin", lambda: nullcontext(admin))
    acts: dict[str, Any] = {
        "watermarks": lambda: cluster.watermarks(place),
        "ends": lambda: cluster.ends([place]),
        "delete_records": lambda: cluster.delete_records(place, 1),
        "members": lambda: cluster.members("app"),
    }
    with pytest.raises(UnknownOutcomeError, match="no answer"):
        acts[ask]()


def test_a_missing_topic_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one of many topics was deleted while a worker ran, the last line said "open transactions" and no topic."""
    monkeypatch.setattr(timeouts, "REQUEST_S", -1.0)
    cluster = KafkaCluster("127.0.0.1:1")
    places = [TopicPartition("outcomes", 0), TopicPartition("progress", 3)]

    def list_offsets(asked: dict[ClientPartition, Any], **_: object) -> dict[ClientPartition, Future[Any]]:
        found = {place: Future[Any]() for place in asked}
        for place, future in found.items():
            if place.topic == "progress":
                future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown")))
            else:
                future.set_result(SimpleNamespace(offset=1))
        return found

    monkeypatch.setattr(cluster, "_admin", SimpleNamespace(list_offsets=list_offsets))
    with pytest.raises(
        TopicError, match=r"progress\[3\]: open transactions in outcomes, progress: .*areba topics create"
    ):
        cluster.ends(places)
