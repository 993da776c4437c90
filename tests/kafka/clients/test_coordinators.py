"""The coordinator of a group is away for a while: a transaction finds it again, and nothing is aborted."""

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # re-exported, but not marked so

from ops.local_kafka import processes
from ops.local_kafka.cluster import start
from ops.local_kafka.plan import broker_properties
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.librdkafka.group_metadata import empty_group
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.topic_setup import create_topics
from tests.support.kafka.application import App
from tests.support.kafka.processes import worker_of
from tests.support.kafka.waiting import DEADLINE_S

pytestmark = [pytest.mark.kafka, pytest.mark.slow(40)]

WITHOUT_COORDINATOR_S = 3.0
"""Time for which a new cluster has no coordinator of any group."""

LONGEST_S = 5.0
"""From the coordinator's answer to the end of the first call that needs it."""

OUTAGES = 3

PLACE = TopicPartition("in", 0)


def test_the_first_transaction_on_a_new_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In half of the starts on a new broker, the first transaction hung for 10 s: the client asked three times in 5 ms.

    Here the topic of the offsets comes late: it needs two brokers, until the test creates it with one copy.
    """
    monkeypatch.setattr(
        processes,
        "broker_properties",
        lambda *given: {**broker_properties(*given), "offsets.topic.replication.factor": 2},
    )
    with start(1) as kafka:
        app = App(kafka.bootstrap_servers, "new-", tmp_path, {"streams": {"pumps": {"features": 2}}})
        create_topics(app.config, 1, 1)
        transaction = KafkaTransaction(kafka.bootstrap_servers, app.config.transactional_id)
        before = transaction._producer
        worker = worker_of(app.config, transaction)
        created: list[float] = []

        def create() -> None:
            time.sleep(WITHOUT_COORDINATOR_S)
            offsets = NewTopic("__consumer_offsets", 4, 1, config={"cleanup.policy": "compact"})
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            for future in admin.create_topics([offsets]).values():
                future.result(DEADLINE_S)
            created.append(time.monotonic())

        thread = threading.Thread(target=create)
        thread.start()
        try:
            worker.start()
            assert created, "it waits for the coordinator"
            assert time.monotonic() - created[0] < LONGEST_S
            assert transaction._producer is before, "a client that does not return is replaced"
        finally:
            thread.join()
            worker._close()


def test_the_first_transaction_after_an_outage() -> None:
    """After each outage of all brokers, the first transaction hung for 10 s, was aborted, and its tasks were restored.

    The client gives up the object of a broker, but its cache of coordinators keeps the object.
    """
    with start(1) as kafka:
        servers = kafka.bootstrap_servers
        KafkaCluster(servers).create([TopicInfo("in", 1, {})], 1)
        outages = Outages()
        source, transaction = KafkaSource(servers, "g", {}, outages), KafkaTransaction(servers, "t", {}, outages)
        with closing(source), closing(transaction):
            assigned: list[TopicPartition] = []
            source.subscribe(["in"], assigned.extend, lambda _: assigned.clear(), 1)
            transaction.initialise()
            for number in range(1 + OUTAGES):
                if number:
                    kafka.kill(1)
                    back = threading.Thread(target=kafka.restart, args=(1,))
                    back.start()
                deadline = time.monotonic() + DEADLINE_S
                while not assigned or outages.is_suspected or (number and back.is_alive()):
                    source.poll(10, 0.1)
                    assert time.monotonic() < deadline, f"outage {number}"
                begun_s = time.monotonic()
                transaction.begin()
                transaction.send_offsets({PLACE: number}, source.group_metadata())
                transaction.commit()
                assert time.monotonic() - begun_s < LONGEST_S


def test_an_open_transaction_does_not_hide_the_coordinator(kafka: Any, prefix: str) -> None:  # noqa: ANN401
    """A transaction that an outage had left hanging held the group's offsets, so that no worker saw the outage end."""
    place = TopicPartition(prefix + "in", 0)
    KafkaCluster(kafka.bootstrap_servers).create([TopicInfo(place.topic, 1, {})], 1)
    with (
        closing(KafkaSource(kafka.bootstrap_servers, prefix + "group")) as source,
        closing(KafkaTransaction(kafka.bootstrap_servers, prefix + "id")) as transaction,
    ):
        assert source.finds_group(place, DEADLINE_S)
        transaction.initialise()
        transaction.begin()
        transaction.send_offsets({place: 1}, empty_group(prefix + "group"))
        assert source.finds_group(place, 0.0)
