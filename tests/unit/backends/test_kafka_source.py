"""The Kafka source with messages in an order that a real broker cannot be made to send."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.librdkafka.messages import Fetch, FetchError
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.source import KafkaSource
from stream_app.errors import ErrorCode, FencedError, OffsetGoneError, OutageError, StateError
from stream_app.record_columns import RawRecords

FIRST, SECOND = TopicPartition("examples", 0), TopicPartition("labels", 0)

Batch = tuple[list[Fetch], list[FetchError]]


class _Client:
    """A fake consumer: returns the given batches and records the seeks."""

    def __init__(self) -> None:
        self.is_cut_off = False
        self.batches: list[Callable[[], Batch]] = []
        self.sought: list[tuple[TopicPartition, int]] = []
        self.fatal: KafkaError | None = None
        self.is_closed = False

    def fatal_error(self) -> KafkaError | None:
        """Return the error with which the client has ended."""
        return self.fatal

    def reaches_broker(self, timeout_s: float) -> bool:
        """Answer as a broker does, or not."""
        assert timeout_s > 0
        return not self.is_cut_off

    def list_topics(self, timeout: float) -> None:
        """Answer as `reaches_broker`, in the terms of a client for administration."""
        if not self.reaches_broker(timeout):
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def consume(self, _count: int, _timeout_s: float) -> Batch:
        return self.batches.pop(0)() if self.batches else ([], [])

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.sought += offsets.items()

    def subscribe(
        self,
        _topics: Sequence[str],
        on_assign: Callable[[Sequence[TopicPartition]], None],
        on_revoke: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.assigned = dict(offsets)

    def pause(self, _partitions: object) -> None:
        """Do nothing: the fake fetches nothing in the background."""

    resume = pause

    def unassign(self) -> None:
        self.assigned = {}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> _Client:
    """Replace the client of every source in a test."""
    made = _Client()
    monkeypatch.setattr("stream_app.backends.kafka.source.ColumnConsumer", lambda *_: made)
    return made


@pytest.fixture
def source(client: _Client) -> Iterator[KafkaSource]:
    """Return a source that owns both partitions and reads them from the start."""
    made = KafkaSource("127.0.0.1:1", "group")
    made.subscribe(["examples", "labels"], lambda given: made.start_at(dict.fromkeys(given, 0)), lambda _: None, 100)
    client.on_assign([FIRST, SECOND])
    assert made.poll(10, 0) == ()
    yield made
    made.close()


def _fetch(place: TopicPartition, *offsets: int, end: int = -1) -> Fetch:
    nothing = [None] * len(offsets)
    times = np.zeros(len(offsets), np.int64)
    return Fetch(place, RawRecords.of(np.array(offsets, np.int64), times, nothing, nothing), end)


def _gone(place: TopicPartition, offset: int) -> FetchError:
    return FetchError(place, offset, KafkaError(KafkaError._AUTO_OFFSET_RESET))


def test_an_end_counts_until_the_next_record(client: _Client, source: KafkaSource) -> None:
    """An end-of-partition event before a record of its partition is outdated; the merge would proceed too early."""
    client.batches = [
        lambda: ([_fetch(FIRST, 0, 1, end=1), _fetch(SECOND, end=0)], []),
        lambda: ([_fetch(FIRST, end=4), _fetch(SECOND, 0, end=1)], []),
    ]
    assert [(f.partition, len(f.records), f.at_end) for f in source.poll(10, 0)] == [
        (FIRST, 2, False),
        (SECOND, 0, True),
    ]
    assert [(f.partition, len(f.records), f.at_end) for f in source.poll(10, 0)] == [
        (FIRST, 0, True),
        (SECOND, 1, True),
    ]


def test_a_batch_with_a_rebalance_in_its_midst_is_read_again(client: _Client, source: KafkaSource) -> None:
    """Its first half belongs to the old assignment; under the new one it would be a gap or a repeat."""

    def rebalanced() -> Batch:
        client.on_revoke([FIRST, SECOND])
        client.on_assign([FIRST])
        return [_fetch(FIRST, 70, 0)], []

    client.batches = [rebalanced, lambda: ([_fetch(FIRST, 0)], [])]
    assert source.poll(10, 0) == ()
    assert sorted(client.sought) == [(FIRST, 0), (SECOND, 0)], "the labels follow their examples"
    (fetched,) = source.poll(10, 0)
    assert fetched.records.offsets.tolist() == [0]


def test_errors_of_partitions_that_are_not_read_are_dropped(client: _Client, source: KafkaSource) -> None:
    """The partition of a stopped task may be in any state, and must not stop the other tasks."""
    source.stop_reading([FIRST])
    client.batches = [lambda: ([_fetch(FIRST, 0, end=1), _fetch(SECOND, 0)], [_gone(FIRST, 1)])]
    (fetched,) = source.poll(10, 0)
    assert fetched.partition == SECOND
    client.batches = [lambda: ([], [_gone(SECOND, 1)])]
    with pytest.raises(StateError, match=ErrorCode.OFFSET_GONE):
        source.poll(10, 0)


def test_an_error_of_one_partition_costs_the_others_no_record(client: _Client, source: KafkaSource) -> None:
    """Records that the client returned together with the error would otherwise be lost."""
    client.batches = [lambda: ([_fetch(SECOND, 0, 1)], [_gone(FIRST, 1)])]
    with pytest.raises(OffsetGoneError, match=ErrorCode.OFFSET_GONE) as caught:
        source.poll(10, 0)
    assert caught.value.partition == FIRST
    assert client.sought == [(SECOND, 0)]


def test_an_error_from_before_a_seek_is_no_error(client: _Client, source: KafkaSource) -> None:
    """A task that continues after a gap would stop at the gap again, or wait for records that nobody fetches."""
    source.start_at({FIRST: 60})
    client.sought.clear()
    client.batches = [
        lambda: ([_fetch(FIRST, 60, 61), _fetch(SECOND, 0)], [_gone(FIRST, 30)]),
        lambda: ([_fetch(FIRST, 60, 61)], []),
    ]
    (fetched,) = source.poll(10, 0)
    assert fetched.partition == SECOND
    assert client.sought == [(FIRST, 60)], "the client stops at an error, also at one from before the seek"
    (fetched,) = source.poll(10, 0)
    assert fetched.records.offsets.tolist() == [60, 61], "once"


@pytest.mark.parametrize("new_client_is_cut_off", [True, False])
def test_a_client_that_lost_its_broker_for_good(monkeypatch: pytest.MonkeyPatch, new_client_is_cut_off: bool) -> None:
    """A worker whose client does not find a restarted broker again would wait forever, although others work."""
    member, new = _Client(), _Client()
    member.is_cut_off, new.is_cut_off = True, new_client_is_cut_off
    monkeypatch.setattr("stream_app.backends.kafka.source.ColumnConsumer", lambda *_: member)
    monkeypatch.setattr("stream_app.backends.kafka.source.AdminClient", lambda _: new)
    monkeypatch.setattr(timeouts, "PROBE_INTERVAL_S", 0.0)
    monkeypatch.setattr(timeouts, "LOST_CLIENT_S", 0.0)
    outages = Outages()
    source = KafkaSource("broker:9092", "group", outages=outages)
    outages.suspect("all brokers are down")
    assert not source.poll(10, 0.0)
    assert outages.is_confirmed, "no broker answered, so it is an outage; its length decides about the client"
    if new_client_is_cut_off:
        assert not source.poll(10, 0.0)
        member.is_cut_off = False
        assert not source.poll(10, 0.0)
        assert not outages.is_confirmed
    else:
        with pytest.raises(OutageError):
            source.poll(10, 0.0)


def _ended(members: Sequence[_Client], at: int, code: int) -> None:
    """Let a client end in the batch that revokes its partitions, which hides the error from a caller of `consume`."""

    def revoked() -> Batch:
        members[at].fatal = KafkaError(code, "fenced", fatal=True)
        members[at].on_revoke([FIRST, SECOND])
        return [], []

    members[at].batches = [revoked]


def test_a_member_that_was_fenced_by_itself_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a frozen coordinator, librdkafka's late heartbeat ended the client, and the worker stood still for ever."""
    members = [_Client() for _ in range(3)]
    made = iter(members)
    monkeypatch.setattr("stream_app.backends.kafka.source.ColumnConsumer", lambda *_: next(made))
    assigned: list[Sequence[TopicPartition]] = []
    source = KafkaSource("127.0.0.1:1", "group")
    source.subscribe(["examples", "labels"], assigned.append, lambda _: None, 100)
    _ended(members, 0, KafkaError.FENCED_INSTANCE_ID)
    assert source.poll(10, 0) == ()
    assert members[0].is_closed
    members[1].on_assign([FIRST, SECOND])
    assert assigned == [[FIRST, SECOND]]
    _ended(members, 1, KafkaError.FENCED_INSTANCE_ID)
    with pytest.raises(FencedError):  # so soon only because of a rival
        source.poll(10, 0)


def test_another_fatal_error_ends_the_member(client: _Client, source: KafkaSource) -> None:
    """Nothing is known about it, so the process restarts."""
    _ended([client], 0, KafkaError._FATAL)
    with pytest.raises(FencedError):
        source.poll(10, 0)
