"""A log that areba 0.1 left on a broker (commit 7af97ba): continued after a SIGTERM, unharmed after a SIGKILL."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.memory.broker import TRANSACTION_TIMEOUT_S
from stream_app.errors import ErrorCode, StateError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Example, Label
from stream_app.serialization.codec import encode
from stream_app.testing.local_kafka.cluster import LocalKafka
from stream_app.verify.verify import verify
from tests.support.kafka.processes import run_to, run_until, worker_of
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import DEADLINE_S
from tests.support.old_logs import OLD_TRANSACTIONAL_ID, OldLog, OldRecord
from tests.support.rows import Read

pytestmark = pytest.mark.kafka

STREAMS = (("pumps", 2), ("valves", 3), ("doors", 1))

PARTITIONS = 2


@contextmanager
def _written(log: OldLog, servers: str) -> Iterator[KafkaCluster]:
    """Write the log to a broker: each record gets its old offset, and open transactions are open during the block."""
    cluster = KafkaCluster(servers)
    topics = Counter(place.topic for place in log.high)
    cluster.create([TopicInfo(name, count, {"retention.ms": "-1"}) for name, count in topics.items()], 1)
    plain, own = Producer({"bootstrap.servers": servers}), _transactional(servers, OLD_TRANSACTIONAL_ID)
    inputs = log.config.topics[:2]
    for place, high in log.high.items():
        for run in _runs(log.records(place)):
            if place.topic in inputs:
                _produce(plain, place, run)
            elif run[0].state != "open":
                own.begin_transaction()
                _produce(own, place, run)
                own.commit_transaction(DEADLINE_S)
        assert not plain.flush(DEADLINE_S)
        if place.topic in inputs:
            assert cluster.watermarks(place).high == high
    own.begin_transaction()
    for place in log.high:
        _produce(own, place, [record for record in log.records(place) if record.state == "open"])
    assert not own.flush(DEADLINE_S)
    _commit_offsets(log, servers)
    for place in log.high:
        kept = [record.offset for record in log.records(place) if record.state == "committed"]
        assert [read.offset for read in read_topic(cluster, place)] == kept
    try:
        yield cluster
    finally:
        plain.close()
        with suppress(KafkaException):  # a worker that ended the transaction has fenced this producer
            own.close()


def _transactional(servers: str, transactional_id: str) -> Producer:
    timeout_ms = int(1000 * TRANSACTION_TIMEOUT_S)
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
    producer = Producer({"bootstrap.servers": servers, **settings})
    producer.init_transactions(DEADLINE_S)
    return producer


def _runs(records: list[OldRecord]) -> list[list[OldRecord]]:
    """Split the records where a marker lay between two of them, and where the transaction's state changes."""
    runs: list[list[OldRecord]] = []
    for record in records:
        last = runs[-1][-1] if runs else None
        if last is None or record.offset != last.offset + 1 or record.state != last.state:
            assert last is None or record.offset <= last.offset + 2
            runs.append([])
        runs[-1].append(record)
    return runs


def _produce(producer: Producer, place: TopicPartition, records: list[OldRecord]) -> None:
    for record in records:
        producer.produce(
            place.topic,
            record.value,
            record.key,
            place.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )


def _commit_offsets(log: OldLog, servers: str) -> None:
    offsets = [ClientPartition(*place, known.offset, known.metadata) for place, known in log.committed.items()]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": log.config.group_id})
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _old_log(name: str, servers: str) -> OldLog:
    log = OldLog(f"7af97ba/{name}", servers)
    assert {place.topic for place in log.high} == set(log.config.topics)
    return log


def _outputs(log: OldLog, cluster: KafkaCluster) -> dict[TopicPartition, list[Read]]:
    names = [getattr(log.config.topics, name.replace("-", "_")) for name in OUTPUT_TOPICS]
    places = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
    return {place: read_topic(cluster, place) for place in places}


def _send(log: OldLog, servers: str, count: int) -> None:
    """Send as many more examples and labels of each stream, with the current time."""
    sender, now_ms = KafkaSender(servers, partitions=PARTITIONS), int(time.time() * 1000) - 10_000
    examples, labels = log.config.topics[:2]
    for stream, features in STREAMS:
        for number in range(count):
            time_ms = now_ms + 2 * number
            example = Example(stream, f"new-{number}", [float(number % 3)] * features)
            sender.send(examples, stream.encode(), encode(example), time_ms)
            sender.send(labels, stream.encode(), encode(Label(stream, f"new-{number}", number % 2)), time_ms + 1)
    sender.flush(DEADLINE_S)
    sender.close()


def test_a_log_that_ended_by_sigterm_is_continued(own_kafka: LocalKafka) -> None:
    """Every task has a snapshot of everything that it processed: published outputs stay, and new ones follow."""
    servers = own_kafka.bootstrap_servers
    log = _old_log("sigterm", servers)
    with _written(log, servers) as cluster:
        before = _outputs(log, cluster)
        _send(log, servers, 20)
        ends = {
            number: tuple(cluster.watermarks(TopicPartition(name, number)).high for name in log.config.topics[:2])
            for number in range(PARTITIONS)
        }
        run_to(log.config, ends)  # type: ignore[arg-type]
        after = _outputs(log, cluster)
        assert {place: after[place][: len(rows)] for place, rows in before.items()} == before
        assert sum(map(len, after.values())) >= sum(map(len, before.values())) + 3 * 20 * 2
        report = verify(cluster, log.config)
        assert report.ok, report.findings


def test_a_log_that_ended_by_sigkill_is_left_as_it_is(own_kafka: LocalKafka) -> None:
    """The last commits come after the newest snapshots and have older rules: only the older version can finish them."""
    servers = own_kafka.bootstrap_servers
    log = _old_log("sigkill", servers)
    with _written(log, servers) as cluster:
        before = _outputs(log, cluster)
        with pytest.raises(StateError, match=ErrorCode.OTHER_RULES):
            run_until(worker_of(log.config), lambda _: False)
        assert _outputs(log, cluster) == before
        known = cluster.committed(log.config.group_id, list(log.committed))
        assert {place: found and found.offset for place, found in known.items()} == {
            place: found.offset for place, found in log.committed.items()
        }
