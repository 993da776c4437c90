"""The Kafka source with messages in an order that a real broker cannot be made to send."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from stream_app.backends.base import TopicPartition
from stream_app.backends.kafka import timeouts
from stream_app.backends.kafka.outages import Outages
from stream_app.backends.kafka.source import KafkaSource
from stream_app.errors import ErrorCode, OffsetGoneError, OutageError, StateError

FIRST, SECOND = TopicPartition("examples", 0), TopicPartition("labels", 0)


class _Client:
    """A fake consumer: returns the given batches and records the seeks."""

    def __init__(self) -> None:
        self.is_cut_off = False
        self.batches: list[Callable[[], list[Message]]] = []
        self.sought: list[tuple[TopicPartition, int]] = []

    def list_topics(self, timeout: float) -> None:
        """Answer as a broker does, or not."""
        assert timeout > 0
        if self.is_cut_off:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def consume(self, _count: int, _timeout_s: float) -> list[Message]:
        return self.batches.pop(0)() if self.batches else []

    def poll(self, _timeout_s: float) -> None:
        return None

    def seek(self, place: ClientPartition) -> None:
        self.sought.append((TopicPartition(place.topic, place.partition), place.offset))

    def subscribe(self, _topics: Sequence[str], **callbacks: Callable[..., None]) -> None:
        self.on_assign, self.on_revoke = callbacks["on_assign"], callbacks["on_revoke"]

    def assign(self, partitions: Sequence[ClientPartition]) -> None:
        self.assigned = [(TopicPartition(p.topic, p.partition), p.offset) for p in partitions]

    def pause(self, _partitions: object) -> None:
        """Do nothing: the fake fetches nothing in the background."""

    resume = pause

    def unassign(self) -> None:
        self.assigned = []

    def close(self) -> None:
        """Do nothing: the fake has nothing to release."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> _Client:
    """Replace the client of every source in a test."""
    made = _Client()
    monkeypatch.setattr("stream_app.backends.kafka.source.Consumer", lambda _: made)
    return made


@pytest.fixture
def source(client: _Client) -> Iterator[KafkaSource]:
    """Return a source that owns both partitions and reads them from the start."""
    made = KafkaSource("127.0.0.1:1", "group")
    made.subscribe(["examples", "labels"], lambda given: made.start_at(dict.fromkeys(given, 0)), lambda _: None, 100)
    client.on_assign(client, [ClientPartition(*FIRST), ClientPartition(*SECOND)])
    assert made.poll(10, 0) == ()
    yield made
    made.close()


def _message(place: TopicPartition, offset: int, **more: Any) -> Message:  # noqa: ANN401  (Message's own)
    settings: dict[str, Any] = {"value": b"v", "timestamp": (TIMESTAMP_CREATE_TIME, 1000 + offset), **more}
    return Message(topic=place.topic, partition=place.partition, offset=offset, **settings)


def _end(place: TopicPartition, offset: int) -> Message:
    return _message(place, offset, error=KafkaError(KafkaError._PARTITION_EOF))


def test_a_mixed_batch_is_split_in_order(client: _Client, source: KafkaSource) -> None:
    """A record with the headers or the position of another would be a wrong record."""
    client.batches = [
        lambda: [
            _message(FIRST, 0),
            _message(SECOND, 0, headers=[("a", b"1")]),
            _message(FIRST, 3, key=b"k", timestamp=(TIMESTAMP_LOG_APPEND_TIME, 5)),
            _message(SECOND, 1, value=None),
            _message(SECOND, 2, headers=[("b", None)]),
        ]
    ]
    first, second = source.poll(10, 0)
    assert (first.partition, second.partition) == (FIRST, SECOND)
    assert first.records.offsets.tolist() == [0, 3]
    assert first.records.timestamps.tolist() == [1000, -1]
    assert first.records.keys == [None, b"k"]
    assert first.records.headers == {}
    assert second.records.values == [b"v", None, b"v"]
    assert second.records.headers == {0: [("a", b"1")], 2: [("b", None)]}
    assert not first.at_end
    assert not second.at_end


def test_an_end_counts_until_the_next_record(client: _Client, source: KafkaSource) -> None:
    """An end-of-partition event before a record of its partition is outdated; the merge would proceed too early."""
    client.batches = [
        lambda: [_message(FIRST, 0), _end(FIRST, 1), _message(FIRST, 1), _end(SECOND, 0)],
        lambda: [_end(FIRST, 4), _message(SECOND, 0), _end(SECOND, 1)],
    ]
    assert [(f.partition, len(f.records), f.at_end) for f in source.poll(10, 0)] == [
        (FIRST, 2, False),
        (SECOND, 0, True),
    ]
    assert [(f.partition, len(f.records), f.at_end) for f in source.poll(10, 0)] == [
        (SECOND, 1, True),
        (FIRST, 0, True),
    ]


def test_a_batch_with_a_rebalance_in_its_midst_is_read_again(client: _Client, source: KafkaSource) -> None:
    """Its first half belongs to the old assignment; under the new one it would be a gap or a repeat."""

    def rebalanced() -> list[Message]:
        client.on_revoke(client, [ClientPartition(*FIRST), ClientPartition(*SECOND)])
        client.on_assign(client, [ClientPartition(*FIRST)])
        return [_message(FIRST, 70), _message(FIRST, 0)]

    client.batches = [rebalanced, lambda: [_message(FIRST, 0)]]
    assert source.poll(10, 0) == ()
    assert sorted(client.sought) == [(FIRST, 0), (SECOND, 0)], "the labels follow their examples"
    (fetched,) = source.poll(10, 0)
    assert fetched.records.offsets.tolist() == [0]


def test_what_is_not_read_is_dropped_with_its_errors(client: _Client, source: KafkaSource) -> None:
    """The partition of a stopped task may be in any state, and must not stop the other tasks."""
    source.stop_reading([FIRST])
    gone = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    client.batches = [lambda: [_message(FIRST, 0), _message(FIRST, 1, error=gone), _end(FIRST, 1), _message(SECOND, 0)]]
    (fetched,) = source.poll(10, 0)
    assert fetched.partition == SECOND
    client.batches = [lambda: [_message(SECOND, 1, error=gone)]]
    with pytest.raises(StateError, match=ErrorCode.OFFSET_GONE):
        source.poll(10, 0)


def test_an_error_of_one_partition_costs_the_others_no_record(client: _Client, source: KafkaSource) -> None:
    """Records that the client returned together with the error would otherwise be lost."""
    gone = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    client.batches = [lambda: [_message(SECOND, 0), _message(FIRST, 1, error=gone), _message(SECOND, 1)]]
    with pytest.raises(OffsetGoneError, match=ErrorCode.OFFSET_GONE) as caught:
        source.poll(10, 0)
    assert caught.value.partition == FIRST
    assert client.sought == [(SECOND, 0)]


@pytest.mark.parametrize("new_client_is_cut_off", [True, False])
def test_a_client_that_lost_its_broker_for_good(monkeypatch: pytest.MonkeyPatch, new_client_is_cut_off: bool) -> None:
    """A worker whose client does not find a restarted broker again would wait forever, although others work."""
    member, new = _Client(), _Client()
    member.is_cut_off, new.is_cut_off = True, new_client_is_cut_off
    monkeypatch.setattr("stream_app.backends.kafka.source.Consumer", lambda _: member)
    monkeypatch.setattr("stream_app.backends.kafka.source.AdminClient", lambda _: new)
    monkeypatch.setattr(timeouts, "PROBE_INTERVAL_S", 0.0)
    monkeypatch.setattr(timeouts, "LOST_CLIENT_S", 0.0)
    outages = Outages()
    source = KafkaSource("broker:9092", "group", outages=outages)
    outages.suspect("all brokers are down")
    assert source.poll(10, 0.0) == ()
    assert outages.is_confirmed, "no broker answered, so it is an outage; its length decides about the client"
    if new_client_is_cut_off:
        assert source.poll(10, 0.0) == ()
        member.is_cut_off = False
        assert source.poll(10, 0.0) == ()
        assert not outages.is_confirmed
    else:
        with pytest.raises(OutageError):
            source.poll(10, 0.0)
