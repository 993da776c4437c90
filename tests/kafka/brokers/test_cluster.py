"""Brokers die and return during transactions: what is committed stays complete, in order, and unique."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from ops.local_kafka.cluster import LocalKafka
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.held_back import open_ends
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import FencedError, RestartNeededError, TransactionAbortedError
from stream_app.lost_markers.open_transactions import OpenTransactions
from stream_app.lost_markers.sweeps import sweep
from stream_app.record_columns import OutputRecords
from tests.contract.backends import Member, log_values, poll_until
from tests.support.kafka.markers import LEAVES_OUT_MARKERS
from tests.support.kafka.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

ROUND_RECORDS = 50

MAX_KILLS = 3

TIMED_OUT_S = 12.0
"""`transaction.timeout.ms`, and a little more."""

FOREVER = {"retention.ms": "-1"}
"""The records of these tests are old, and retention would delete them within half a minute."""


def _outputs(number: int, side: int) -> OutputRecords:
    values = [f"{number}-{side}-{row}".encode() for row in range(ROUND_RECORDS)]
    return OutputRecords.of([b"k"] * ROUND_RECORDS, values, [1_700_000_000_000 + number] * ROUND_RECORDS)


def _start(transaction: KafkaTransaction, servers: str, written: list[TopicPartition]) -> None:
    """Start a producer as a worker does."""
    transaction.initialise()
    still_open = OpenTransactions(KafkaCluster(servers), SystemClock())
    found = open_ends(KafkaCluster(servers), written)
    sweep(transaction, "id", found)
    still_open.add(found)
    wait_until(lambda: not still_open.look() and not still_open.places, "all that was open has ended")


class _Rounds:
    """The worker's protocol without its work: each round writes to two partitions and commits an offset.

    If an outcome is unknown, the log says which round comes next.
    """

    def __init__(self, servers: str, prefix: str) -> None:
        self._servers, self._prefix = servers, prefix
        self.out = [TopicPartition(prefix + "out", number) for number in range(2)]
        self._input = TopicPartition(prefix + "in", 0)
        self.next = 0
        self.doubts = 0
        self._member = Member(KafkaSource(servers, prefix + "group"), [self._input.topic])
        poll_until([self._member], lambda: bool(self._member.assigned))
        self._transaction = KafkaTransaction(self._servers, self._prefix + "a")
        self._begin_again()

    def _begin_again(self) -> None:
        _start(self._transaction, self._servers, self.out)
        self.next = len(log_values(KafkaCluster(self._servers), self.out[0])) // ROUND_RECORDS

    def run(self) -> Iterator[None]:
        """Run one round for each `next()`; it yields between the records of the round."""
        while True:
            transaction = self._transaction
            try:
                transaction.begin()
                transaction.produce(self.out[0], _outputs(self.next, 0))
                yield
                transaction.produce(self.out[1], _outputs(self.next, 1))
                offsets = {self._input: self.next + 1}
                transaction.send_offsets(offsets, self._member.source.group_metadata())
                transaction.commit()
                self.next += 1
            except (TransactionAbortedError, RestartNeededError, FencedError) as error:
                self.doubts += 1
                if isinstance(error, FencedError):  # a worker ends here, and its supervisor starts a new process
                    transaction.close()
                    self._transaction = KafkaTransaction(self._servers, self._prefix + "a")
                self._wait_for_brokers()
                self._begin_again()
            self._member.source.poll(1, 0)

    def _wait_for_brokers(self) -> None:
        """Poll until a broker answers, as the worker does."""
        cluster = KafkaCluster(self._servers)
        wait_until(lambda: cluster.broker_count(1.0) > 0, "a broker")

    def close(self) -> None:
        self._transaction.close()
        self._member.source.close()

    def check(self, servers: str) -> None:
        """Check that all rounds are there, complete, in order, once."""
        for side, partition in enumerate(self.out):
            expected = [value for number in range(self.next) for value in _outputs(number, side).values]
            assert log_values(KafkaCluster(servers), partition) == expected


def test_rounds_stay_whole_while_brokers_die(kafka3: LocalKafka, prefix: str) -> None:
    """Exactly-once survives the kill of a broker during a transaction: of the leader, coordinator or controller."""
    servers = kafka3.bootstrap_servers
    cluster, names = KafkaCluster(servers), [prefix + "in", prefix + "out"]
    cluster.create([TopicInfo(names[0], 1, FOREVER), TopicInfo(names[1], 2, FOREVER)], -1)
    assert {topic.replication for topic in cluster.topics(names).values()} == {3}, "the brokers' default"
    with closing(_Rounds(servers, prefix)) as rounds:
        running = rounds.run()
        for broker in (1, 2):
            for _ in range(20):
                next(running)
            kafka3.kill(broker)
            for _ in range(20):
                next(running)
            kafka3.restart(broker)
        before = rounds.next
        while rounds.next < before + 20:
            next(running)
        rounds.check(servers)


def test_rounds_stay_whole_while_the_only_broker_is_gone(own_kafka: LocalKafka, prefix: str) -> None:
    """An outage that is longer than a transaction may take loses and duplicates nothing."""
    servers = own_kafka.bootstrap_servers
    KafkaCluster(servers).create([TopicInfo(prefix + "in", 1, FOREVER), TopicInfo(prefix + "out", 2, FOREVER)], 1)
    with closing(_Rounds(servers, prefix)) as rounds:
        running = rounds.run()
        for _ in range(20):
            next(running)
        own_kafka.kill(1)
        back = threading.Timer(12, own_kafka.restart, [1])
        back.start()
        before = rounds.next
        while rounds.next < before + 20:
            next(running)
        back.join()
        rounds.check(servers)


def _kill_in_transaction(
    kafka: LocalKafka, source: KafkaSource, name: str, read: TopicPartition, written: TopicPartition
) -> None:
    """Commit one transaction of this id, and leave a second one open that times out while the broker is down."""
    servers = kafka.bootstrap_servers
    with closing(KafkaTransaction(servers, name)) as transaction:
        _start(transaction, servers, [written])
        before = KafkaCluster(servers).watermarks(written).high
        for offset in (1, 2):
            transaction.begin()
            transaction.produce(written, _outputs(offset, 0))
            transaction.send_offsets({read: offset}, source.group_metadata())
            if offset == 1:
                transaction.commit()
        transaction.flush()
        assert KafkaCluster(servers).watermarks(written).high >= before + 2 * ROUND_RECORDS
        kafka.kill(1)
        killed_s = time.monotonic()
        wait_until(lambda: time.monotonic() - killed_s > TIMED_OUT_S, "the transaction times out")
        kafka.restart(1)
        with pytest.raises(TransactionAbortedError):
            transaction.commit()


@pytest.mark.skipif(not LEAVES_OUT_MARKERS, reason="this version of Kafka leaves no transaction hanging")
def test_a_hanging_transaction_of_a_killed_broker_is_not_committed(own_kafka: LocalKafka, prefix: str) -> None:
    """The commit of a restarted worker must not commit dead records.

    A broker that starts slowly may write its markers; then no transaction hangs, and the broker is killed again.
    """
    servers = own_kafka.bootstrap_servers
    KafkaCluster(servers).create([TopicInfo(prefix + "in", 1, FOREVER), TopicInfo(prefix + "out", 1, FOREVER)], 1)
    read, written = TopicPartition(prefix + "in", 0), TopicPartition(prefix + "out", 0)
    kills, hangs = 0, False
    with closing(KafkaSource(servers, prefix + "group")) as source:
        while not hangs:
            assert kills < MAX_KILLS, "the broker has written its markers: nothing hangs that could be ended"
            kills += 1
            _kill_in_transaction(own_kafka, source, f"{prefix}a{kills}", read, written)
            stable, high = KafkaCluster(servers).ends([written])[written]
            hangs = stable < high
        with closing(KafkaTransaction(servers, f"{prefix}a{kills}")) as transaction:
            _start(transaction, servers, [written])
            transaction.begin()
            transaction.produce(written, _outputs(3, 0))
            transaction.send_offsets({written: 1}, source.group_metadata())
            transaction.commit()
    expected = [*(list(_outputs(1, 0).values) * kills), *_outputs(3, 0).values]
    assert log_values(KafkaCluster(servers), written) == expected
