"""Requests of a transaction that reach the broker late, after the client has repeated them (KIP-890)."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.errors import FencedError
from stream_app.record_columns import OutputRecords
from tests.support.kafka.waiting import wait_until
from tests.support.kafka.wire import Request, Wire, kafka_on_wire

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

ID = "worker-1"


@pytest.fixture(scope="module")
def on_wire() -> Iterator[tuple[KafkaCluster, str, Wire]]:
    """Yield a broker, its address through a proxy, and the proxy."""
    with kafka_on_wire() as (servers, through_wire, wire):
        yield KafkaCluster(servers), through_wire, wire


def place_of(cluster: KafkaCluster, name: str) -> TopicPartition:
    """Return the partition of a new topic."""
    cluster.create([TopicInfo(name, 1, {})], 1)
    return TopicPartition(name, 0)


def write(transaction: KafkaTransaction, place: TopicPartition, value: bytes) -> None:
    """Write one record in a new transaction, which stays open."""
    transaction.begin()
    transaction.produce(place, OutputRecords.of([None], [value], [0]))
    transaction.flush()


def committed(cluster: KafkaCluster, place: TopicPartition) -> list[bytes | None]:
    """Return the values that a reader of committed records gets."""
    stable, values = cluster.ends([place])[place].stable, []
    with closing(cluster.reader(place)) as reader:
        while True:
            fetched = reader.poll(100, 10.0)
            assert fetched is not None
            values += fetched.records.values.tolist()
            if fetched.at_end and fetched.position >= stable:
                return values


def nothing_is_open(cluster: KafkaCluster, place: TopicPartition) -> bool:
    """Say whether every transaction of the partition has ended, and is marked so."""
    ends = cluster.ends([place])[place]
    return ends.stable == ends.high


def settled(cluster: KafkaCluster, place: TopicPartition) -> list[bytes | None]:
    """Return the values that a reader of committed records gets once nothing is open."""
    wait_until(lambda: nothing_is_open(cluster, place), "the marker of the transaction")
    return committed(cluster, place)


def test_an_end_that_comes_late_does_not_end_the_next_transaction(
    on_wire: tuple[KafkaCluster, str, Wire],
) -> None:
    """Readers would get outputs of a batch of which the progress, and the offsets, are not written yet."""
    cluster, servers, wire = on_wire
    place = place_of(cluster, "late-end")
    with closing(KafkaTransaction(servers, ID)) as transaction:
        transaction.initialise()
        write(transaction, place, b"first")
        wire.hold(Request.END_TXN)
        transaction.commit()
        wire.wait_held()
        write(transaction, place, b"second")
        wire.release()
        assert committed(cluster, place) == [b"first"]
        assert not nothing_is_open(cluster, place), "the late end has ended the next transaction"
        transaction.abort()
        write(transaction, place, b"third")
        transaction.commit()
        assert settled(cluster, place) == [b"first", b"third"]


def test_records_that_come_late_belong_to_no_transaction(on_wire: tuple[KafkaCluster, str, Wire]) -> None:
    """A record after the end of its transaction would be read once more, or hide all that follows."""
    cluster, servers, wire = on_wire
    place = place_of(cluster, "late-record")
    with closing(KafkaTransaction(servers, ID)) as transaction:
        transaction.initialise()
        wire.hold(Request.PRODUCE)
        write(transaction, place, b"first")
        transaction.abort()
        wire.release()
        write(transaction, place, b"second")
        transaction.commit()
        assert settled(cluster, place) == [b"second"]
        wire.hold(Request.PRODUCE)
        write(transaction, place, b"third")
        transaction.commit()
        wire.release()
        assert settled(cluster, place) == [b"second", b"third"]


def test_an_abort_without_a_broken_connection_keeps_the_epoch(on_wire: tuple[KafkaCluster, str, Wire]) -> None:
    """A new epoch fences whoever has begun meanwhile: of three commands at once, none would come to its end."""
    cluster, servers, _ = on_wire
    place = place_of(cluster, "aborted")
    with closing(KafkaTransaction(servers, ID)) as transaction, closing(KafkaTransaction(servers, ID)) as newer:
        write(transaction, place, b"first")
        transaction.abort()
        newer.initialise()
        with pytest.raises(FencedError):
            write(transaction, place, b"second")
        write(newer, place, b"third")
        newer.commit()
        assert settled(cluster, place) == [b"third"]
