"""Transactions that a dead broker left open are not committed by later ones.

`tests/kafka/brokers/test_cluster.py` kills a real broker.
"""

from collections.abc import Callable, Mapping, Sequence

import pytest

from stream_app.backends.base import Ends, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.errors import TransactionAbortedError
from stream_app.lost_markers.open_transactions import HANGS_AFTER_S, LOOK_INTERVAL_S, OpenTransactions
from stream_app.lost_markers.sweeps import sweep
from stream_app.record_columns import OutputRecords

ONE, TWO = TopicPartition("predictions", 0), TopicPartition("predictions", 1)


class _Cluster(EmbeddedCluster):
    """A cluster with the given ends."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(EmbeddedBroker(clock))
        self.found: dict[TopicPartition, Ends] = {ONE: Ends(5, 5), TWO: Ends(5, 5)}
        self.asked = 0

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
        self.asked += 1
        return {partition: self.found[partition] for partition in partitions}


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stops until it is advanced."""
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> _Cluster:
    """Return a cluster on which nothing is open."""
    return _Cluster(clock)


@pytest.fixture
def waiting(cluster: _Cluster, clock: ManualClock) -> OpenTransactions:
    """Return the open transactions of two partitions, before the first check."""
    made = OpenTransactions(cluster, clock)
    made.add([ONE, TWO])
    return made


def test_no_batch_is_committed_before_open_transactions_are_known(waiting: OpenTransactions) -> None:
    """The first batch of a task may be ready before the worker knows whether a transaction is open."""
    assert waiting.holds(0)
    assert waiting.holds(1)
    assert not waiting.look()
    assert not waiting.holds(0)
    assert not waiting.holds(1)


def test_an_open_transaction_holds_only_its_own_partition(
    cluster: _Cluster, clock: ManualClock, waiting: OpenTransactions
) -> None:
    """Other tasks must continue, and a later transaction of another writer must not make the task wait longer."""
    cluster.found[TWO] = Ends(3, 5)
    assert not waiting.look()
    assert (waiting.holds(0), waiting.holds(1)) == (False, True)
    cluster.found[TWO] = Ends(5, 9)
    assert not waiting.look(), "too soon"
    assert cluster.asked == 1
    assert waiting.holds(1)
    clock.advance(LOOK_INTERVAL_S)
    assert not waiting.look()
    assert waiting.places == ()
    assert not waiting.look()
    assert cluster.asked == 2, "nothing to look at"


def test_a_transaction_that_does_not_end_is_reported_now_and_then(
    cluster: _Cluster, clock: ManualClock, waiting: OpenTransactions
) -> None:
    """A sweep whose markers were lost as well has to be repeated, but not in each turn of the loop."""
    cluster.found[ONE] = Ends(3, 5)
    reported: list[TopicPartition] = []
    for _ in range(int(3.5 * HANGS_AFTER_S)):
        reported += waiting.look()
        clock.advance(1.0)
    assert reported == [ONE] * 3
    assert waiting.holds(0)


class _Recorder:
    """A transaction that records its calls."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[str] = []
        self._refuses = refuses

    def initialise(self) -> None:
        """Do nothing: no transaction is open."""

    def begin(self) -> None:
        self.asked.append("begin")

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        del offsets
        self.asked.append(f"{partition.topic}[{partition.partition}]: {len(records)}")

    def serve(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        if self._refuses:
            raise TransactionAbortedError("a broker has aborted it")
        self.asked.append("flush")

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        raise NotImplementedError

    def abort(self) -> None:
        self.asked.append("abort")

    def close(self) -> None:
        raise NotImplementedError


def test_a_sweep_has_reached_every_partition_before_it_is_aborted() -> None:
    """A broker writes markers only to partitions of which it knows a record; others would stay open."""
    transaction = _Recorder()
    assert sweep(transaction, "id", [ONE, TWO])
    assert transaction.asked == [
        "begin",
        "predictions[0]: 1",
        "predictions[1]: 1",
        "flush",
        "abort",
    ]


def test_a_sweep_that_is_aborted_by_itself_is_none() -> None:
    """The caller must know that a partition may have got no record: what hangs there has not ended."""
    transaction = _Recorder(refuses=True)
    assert not sweep(transaction, "id", [ONE])
    assert transaction.asked == ["begin", "predictions[0]: 1"]
