"""The in-process log in cases that take time or luck on Kafka; the contract suite has the other cases."""

import pytest

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.partitioner import murmur2
from stream_app.errors import FencedError, RecordTooLargeError, TransactionAbortedError
from stream_app.record_columns import OutputRecords
from tests.support.brokers import AdministeredBroker

PLACE = TopicPartition("in", 0)


def _broker(settings: dict[str, str] | None = None, partitions: int = 1) -> AdministeredBroker:
    broker = AdministeredBroker(ManualClock())
    broker.create_topic(TopicInfo("in", partitions, settings or {}))
    return broker


def _advance(broker: AdministeredBroker, seconds: float) -> None:
    assert isinstance(broker.clock, ManualClock)
    broker.clock.advance(seconds)


def _records(*values: bytes) -> OutputRecords:
    return OutputRecords.of([b"k"] * len(values), values, [1] * len(values))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, hashed: int) -> None:
    """The values of Kafka's unit test: a stream would be split if two producers hashed its key differently."""
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_waiting_moves_a_manual_clock() -> None:
    """A simulation of hours would take hours, or wait for a thread that does not exist."""
    broker = _broker()
    source = EmbeddedSource(broker, "group")
    assert not source.poll(10, 3600.0)
    assert broker.clock.monotonic_s() == pytest.approx(3600.0)


def test_a_transaction_times_out_by_the_clock() -> None:
    """A worker that was frozen for longer and commits when it wakes would duplicate outputs."""
    broker = _broker()
    transaction = EmbeddedTransaction(broker, "a", timeout_s=10.0)
    transaction.initialise()
    transaction.begin()
    transaction.produce(PLACE, _records(b"slow"))
    _advance(broker, 10.5)
    with pytest.raises(FencedError):
        transaction.commit()
    (fetched,) = [EmbeddedCluster(broker).reader(PLACE).poll(10, 0.0)]
    assert fetched is not None
    assert (len(fetched.records), fetched.at_end) == (0, True)


def test_a_member_that_does_not_poll_loses_its_partitions() -> None:
    """A stuck worker would block its tasks for longer than `max.poll.interval.ms`, or commit after it lost them."""
    broker = _broker(partitions=2)
    given: dict[str, int] = {}
    stuck, other = EmbeddedSource(broker, "group"), EmbeddedSource(broker, "group")
    stuck.subscribe(["in"], lambda p: given.update(stuck=len(p)), lambda _: given.update(stuck=0), 100)
    stuck.poll(1, 0.0)
    old = stuck.group_metadata()
    other.subscribe(["in"], lambda p: given.update(other=len(p)), lambda _: given.update(other=0), 100)
    other.poll(1, 0.0)
    assert "other" not in given, "the group waits for the stuck member"
    _advance(broker, 301.0)
    other.poll(1, 0.0)
    other.poll(1, 0.0)
    assert given["other"] == 2
    transaction = EmbeddedTransaction(broker, "a")
    transaction.initialise()
    transaction.begin()
    with pytest.raises(TransactionAbortedError, match="no member"):
        transaction.send_offsets({PLACE: 1}, old)
    for _ in range(3):
        stuck.poll(1, 0.0)
        other.poll(1, 0.0)
    assert given == {"stuck": 1, "other": 1}, "it is welcome again"


def test_compaction_leaves_gaps_and_an_end() -> None:
    """A reader of a compacted changelog would never reach its end if the last offsets were compacted away."""
    broker = _broker({"cleanup.policy": "compact"})
    transaction = EmbeddedTransaction(broker, "a")
    transaction.initialise()
    for number in range(5):
        transaction.begin()
        records = OutputRecords.of([b"x", b"y%d" % number], [b"%d" % number, b""], [1, 1])
        transaction.produce(PLACE, records)
        transaction.commit()
    broker.compact(PLACE)
    reader = EmbeddedCluster(broker).reader(PLACE)
    fetched = reader.poll(100, 0.0)
    assert fetched is not None
    assert fetched.records.offsets.tolist() == [1, 4, 7, 10, 12, 13]
    assert fetched.at_end
    assert broker.watermarks(PLACE) == (0, 15)


def test_a_refused_record_leaves_nothing_behind() -> None:
    """Half of a batch would block all readers of the partition."""
    broker = _broker({"max.message.bytes": "110"})
    transaction = EmbeddedTransaction(broker, "a")
    transaction.initialise()
    transaction.begin()
    with pytest.raises(RecordTooLargeError, match=r"in\[0\]: 112 bytes"):
        transaction.produce(PLACE, _records(b"fits", b"much-longer"))
    assert broker.watermarks(PLACE) == (0, 0)
    transaction.abort()
    EmbeddedSender(broker).send("in", b"k", b"next", 1)
    assert broker.watermarks(PLACE) == (0, 1)
