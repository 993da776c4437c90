"""A member of a group gets its partitions, from the offsets that it asks for, each record once and in order."""

import random
import time
from collections.abc import Callable

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.errors import ErrorCode, OffsetGoneError
from tests.contract.backends import (
    DEADLINE_S,
    START_MS,
    Backend,
    Member,
    Positions,
    numbered,
    outputs,
    poll_until,
    read,
    to_end,
)


def _filled(backend: Backend, name: str, partitions: int, count: int) -> None:
    sender = backend.sender()
    for partition in range(partitions):
        for number in range(count):
            sender.send(name, b"key", f"{partition}-{number}".encode(), START_MS + number, partition=partition)
    sender.flush(DEADLINE_S)


def _member(backend: Backend, prefix: str, *names: str) -> Member:
    member = Member(backend.source(prefix + "group"), names)
    poll_until([member], lambda: bool(member.assigned))
    return member


def _values(partition: TopicPartition, start: int, stop: int) -> list[bytes]:
    return [f"{partition.partition}-{number}".encode() for number in range(start, stop)]


def test_reading_begins_at_the_given_offset(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A task has to be restored first. An earlier record would be processed by an untrained model."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 100)
    member = _member(backend, prefix, name)
    for _ in range(5):
        assert not member.source.poll(1000, 0.05)
    first, second = member.assigned
    member.source.start_at({first: 40})
    seen = read(member.source, to_end(first))
    assert seen.values == {first: _values(first, 40, 100)}
    member.source.start_at({second: 99})
    assert read(member.source, to_end(second)).values == {second: _values(second, 99, 100)}


def test_start_at_inside_the_assignment(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A worker that knows the offset may name it inside the callback, without another poll."""
    name = topic("in")
    _filled(backend, name, 1, 50)
    place, source = TopicPartition(name, 0), backend.source(prefix + "group")
    source.subscribe([name], lambda _: source.start_at({place: 20}), lambda _: None, 100)
    assert read(source, to_end(place)).values == {place: _values(place, 20, 50)}


def test_a_partition_must_be_assigned_before_it_is_started(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Two workers would process the same partition."""
    member = _member(backend, prefix, topic("in"))
    with pytest.raises(ValueError, match="not assigned"):
        member.source.start_at({TopicPartition(prefix + "in", 7): 0})


def test_start_at_gives_nothing_stale(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """After an abort, the state belongs to the committed offset. A record from a later offset would be a silent gap."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 5_000)
    member = _member(backend, prefix, name)
    chance = random.Random(1)
    for _ in range(60):
        offsets = {partition: chance.randrange(5_000) for partition in member.assigned}
        chosen = dict(chance.sample(sorted(offsets.items()), chance.choice((1, 2))))
        member.source.start_at(chosen)
        seen = Positions()
        limit, enough = chance.choice((1, 10, 1_000)), chance.choice((1, 300))
        read(
            member.source,
            lambda seen=seen, chosen=chosen, enough=enough: all(  # type: ignore[misc]
                len(seen.offsets.get(p, ())) >= enough or seen.at_end.get(p, False) for p in chosen
            ),
            limit,
            seen,
        )
        for partition, offset in chosen.items():
            given = seen.offsets[partition]
            assert given == list(range(offset, offset + len(given)))
            assert seen.values[partition] == _values(partition, offset, offset + len(given))


def test_start_at_the_offset_where_it_is(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """After an abort at the end of a partition a worker waits for the end again, and without it would wait forever."""
    name = topic("in")
    _filled(backend, name, 1, 10)
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    for _ in range(3):
        member.source.start_at({place: 10})
        assert read(member.source, to_end(place)).values == {place: []}
    _filled(backend, name, 1, 1)
    assert read(member.source, lambda seen: bool(seen.offsets.get(place))).offsets == {place: [10]}


def test_stop_reading(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A stopped task must not be read, and the other tasks must continue."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 2_000)
    member = _member(backend, prefix, name)
    parked, other = member.assigned
    member.source.start_at({parked: 0, other: 0})
    read(member.source, lambda seen: bool(seen.offsets.get(parked)), max_records=10)
    member.source.stop_reading([parked])
    seen = read(member.source, to_end(other))
    assert parked not in seen.offsets
    for _ in range(3):
        assert not member.source.poll(1_000, 0.05)
    member.source.start_at({parked: 1_990})
    assert read(member.source, to_end(parked)).values == {parked: _values(parked, 1_990, 2_000)}


def test_pause_and_resume_lose_nothing(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Pausing discards what the client fetched ahead. A record that is not fetched again would be lost."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 3_000)
    member = _member(backend, prefix, name)
    held, other = member.assigned
    member.source.start_at({held: 0, other: 0})
    seen = Positions()
    for _ in range(5):
        count = len(seen.offsets.get(held, ()))
        read(member.source, lambda s, c=count: len(s.offsets.get(held, ())) > c, 50, seen)  # type: ignore[misc]
        member.source.pause([held])
        before = len(seen.offsets[held])
        for _ in range(3):
            seen.take(member.source.poll(50, 0.02))
        assert len(seen.offsets[held]) == before, "a paused partition gave a record"
        member.source.resume([held])
    read(member.source, to_end(held, other), positions=seen)
    assert seen.offsets == {held: list(range(3_000)), other: list(range(3_000))}


def test_a_pause_ends_with_the_assignment(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A partition that is assigned again and was paused before would never be read again."""
    name = topic("in")
    _filled(backend, name, 1, 10)
    place, source = TopicPartition(name, 0), backend.source(prefix + "group")
    source.subscribe([name], lambda assigned: source.start_at(dict.fromkeys(assigned, 4)), lambda _: None, 100)
    read(source, to_end(place))
    source.pause([place])
    other = Member(backend.source(prefix + "group"), [name])
    seen = Positions()
    deadline = time.monotonic() + DEADLINE_S
    while not seen.offsets.get(place):
        assert time.monotonic() < deadline
        seen.take(source.poll(10, 0.05))
        if other.assigned == (place,):
            other.source.close()
        elif other.events == []:
            other.source.poll(1, 0.05)
    assert seen.offsets == {place: list(range(4, 10))}


def test_the_end_is_reported_and_ends_with_the_next_record(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """The merge takes records of one side only while it knows that the other side is at its end."""
    name = topic("in")
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    member.source.start_at({place: 0})
    assert read(member.source, to_end(place)).values == {place: []}
    for number in range(5):
        _filled(backend, name, 1, 1)
        seen = Positions()
        read(member.source, to_end(place), positions=seen)
        assert seen.offsets == {place: [number]}
    _filled(backend, name, 1, 100)
    seen = Positions()
    while len(seen.offsets.get(place, ())) < 100:
        seen.take(member.source.poll(7, 0.5))
        if len(seen.offsets.get(place, ())) < 100:
            assert not seen.at_end.get(place, False), "more was there"


def test_poll_gives_what_is_there_at_once(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Waiting until a batch is full would delay predictions without a benefit."""
    name = topic("in")
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    member.source.start_at({place: 0})
    read(member.source, to_end(place))
    _filled(backend, name, 1, 3)
    start = time.monotonic()
    assert member.source.poll(10_000, DEADLINE_S)
    assert time.monotonic() - start < DEADLINE_S / 2


def test_members_share_equal_partition_numbers_of_all_topics(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Task p is partition p of both inputs: split between two members, no label would meet its example."""
    names = topic("examples", partitions=5), topic("labels", partitions=5)
    first = _member(backend, prefix, *names)
    assert first.assigned == tuple(sorted(TopicPartition(n, p) for n in names for p in range(5)))
    second = Member(backend.source(prefix + "group"), names)
    members = [first, second]
    poll_until(members, lambda: len(first.assigned) + len(second.assigned) == 10 and bool(second.assigned))
    numbers = [{p.partition for p in member.assigned} for member in members]
    for member, own in zip(members, numbers, strict=True):
        assert set(member.assigned) == {TopicPartition(n, p) for n in names for p in own}
    assert not numbers[0] & numbers[1]
    assert first.events == ["assign", "revoke", "assign"], "all is given up before anything is given"
    second.source.close()
    assert second.events[-1] == "revoke"
    poll_until([first], lambda: len(first.assigned) == 10)


def test_a_rebalance_in_mid_flow_gives_nothing_twice_or_stale(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Records fetched under the old assignment would be gaps or repeats under the new one."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 3_000)
    source = backend.source(prefix + "group")
    seen: dict[TopicPartition, Positions] = {}

    def on_assign(partitions: object) -> None:
        assert isinstance(partitions, tuple | list)
        seen.clear()
        for partition in partitions:
            seen[partition] = Positions()
        source.start_at(dict.fromkeys(partitions, 1_000))

    source.subscribe([name], on_assign, lambda _: seen.clear(), 100)
    deadline = time.monotonic() + DEADLINE_S
    others: list[Member] = []
    for round_ in range(6):
        count = 1 if len(others) % 2 else 2
        while not (len(seen) == count and all(p.offsets for p in seen.values())):
            assert time.monotonic() < deadline
            for fetched in source.poll(100, 0.05):
                seen[fetched.partition].take([fetched])
            for other in others:
                other.source.poll(1, 0)
        for partition, positions in seen.items():
            offsets = positions.offsets[partition]
            assert offsets == list(range(1_000, 1_000 + len(offsets)))
        if round_ % 2:
            others.pop().source.close()
        else:
            others.append(Member(backend.source(prefix + "group"), [name]))


def test_an_offset_that_is_gone_is_an_error(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Continuing at the first offset that exists would silently skip records that the state needs."""
    name = topic("in")
    _filled(backend, name, 1, 100)
    place = TopicPartition(name, 0)
    backend.delete_before(place, 60)
    member = _member(backend, prefix, name)
    assert backend.cluster().watermarks(place) == (60, 100)
    member.source.start_at({place: 30})
    with pytest.raises(OffsetGoneError, match=ErrorCode.OFFSET_GONE) as caught:
        read(member.source, to_end(place))
    assert caught.value.partition == place
    member.source.start_at({place: 60})
    assert read(member.source, to_end(place)).offsets == {place: list(range(60, 100))}


def test_an_offset_that_is_gone_costs_no_other_partition_a_record(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """Records of other partitions that came with the error would be lost if later polls did not return them."""
    name = topic("in", partitions=2)
    _filled(backend, name, 2, 500)
    gone, other = TopicPartition(name, 0), TopicPartition(name, 1)
    backend.delete_before(gone, 60)
    member = _member(backend, prefix, name)
    positions = Positions()
    member.source.start_at({other: 0, gone: 30})
    with pytest.raises(OffsetGoneError):
        read(member.source, to_end(gone, other), max_records=50, positions=positions)
    member.source.stop_reading([gone])
    read(member.source, to_end(other), positions=positions)
    assert positions.offsets == {other: list(range(500))}


def test_the_watermark_counts_records_that_are_not_yet_committed(
    backend: Backend, topic: Callable[..., str], prefix: str
) -> None:
    """A restore that stops at what can be read now would miss what an open transaction of a dead writer hides."""
    place = TopicPartition(topic("in"), 0)
    cluster = backend.cluster()
    assert cluster.watermarks(place) == (0, 0)
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.produce(place, outputs(numbered(5)))
    deadline = time.monotonic() + DEADLINE_S
    while cluster.watermarks(place) != (0, 5):
        assert time.monotonic() < deadline
    transaction.abort()
    while cluster.watermarks(place) != (0, 6):  # a marker takes an offset
        assert time.monotonic() < deadline


def test_times_that_the_broker_set_are_no_event_times(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """Append times differ from run to run, and results that used them would differ too."""
    name = topic("in", settings={"message.timestamp.type": "LogAppendTime"})
    _filled(backend, name, 1, 3)
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    member.source.start_at({place: 0})
    deadline = time.monotonic() + DEADLINE_S
    while not (batch := member.source.poll(10, 0.1)) or not len(batch[0].records):
        assert time.monotonic() < deadline
    times = -batch[0].records.timestamps
    assert (abs(times - SystemClock().now_ms()) < 600_000).all(), "negative: the log set them"


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("numbers", [(4, 2), (2, 4), (4, 4)])
def test_partitions_of_a_number_stay_together_in_topics_that_have_grown(
    backend: Backend, topic: Callable[..., str], prefix: str, numbers: tuple[int, int], members: int
) -> None:
    """The group assigns each topic separately: a label would be read by another worker than its example."""
    names = [topic(name, partitions=count) for name, count in zip(("a", "b"), numbers, strict=True)]
    for name in names:
        _filled(backend, name, 2, 10)
    joined = [Member(backend.source(prefix + "group"), names, partitions=2) for _ in range(members)]
    wanted = sorted(TopicPartition(name, number) for name in names for number in range(2))
    poll_until(
        joined,
        lambda: all(one.events for one in joined) and sorted(p for one in joined for p in one.assigned) == wanted,
    )
    for one in joined:
        if one.assigned:
            one.source.start_at(dict.fromkeys(one.assigned, 0))
            seen = read(one.source, to_end(*one.assigned))
            assert seen.values == {place: _values(place, 0, 10) for place in one.assigned}


def test_the_end_is_known_without_a_request(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """The lag that a worker publishes is the distance to this end."""
    name = topic("in")
    _filled(backend, name, 1, 100)
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    member.source.start_at({place: 40})
    read(member.source, to_end(place))
    assert member.source.known_end(place) == 100


def test_the_position_passes_over_what_is_no_record(backend: Backend, topic: Callable[..., str], prefix: str) -> None:
    """A commit must not end before a marker: with retention, a restore would take the marker for a deleted record.

    It must not pass over the records of an open transaction either.
    """
    name = topic("in")
    _filled(backend, name, 1, 10)
    member = _member(backend, prefix, name)
    (place,) = member.assigned
    member.source.start_at({place: 0})
    assert _position(member, 10) == 10
    open_one = backend.transaction(f"{prefix}other", 60.0)
    open_one.begin()
    open_one.produce(place, outputs([b"held"] * 5))
    open_one.flush()
    end_s = time.monotonic() + DEADLINE_S
    while member.source.known_end(place) != 15:
        assert time.monotonic() < end_s
        assert not any(one.position > 10 for one in member.source.poll(100, 0.1))
    open_one.abort()
    assert _position(member, 16) == 16, "five records and a marker"
    open_one.begin()
    open_one.produce(place, outputs([b"committed"] * 3))
    open_one.commit()
    assert _position(member, 20) == 20


def _position(member: Member, wanted: int) -> int:
    """Poll until the position of the only partition is there; return the last position."""
    end_s, position = time.monotonic() + DEADLINE_S, -1
    while position < wanted and time.monotonic() < end_s:
        for one in member.source.poll(100, 0.1):
            assert max([position - 1, *one.records.offsets.tolist()]) < one.position
            position = one.position
    return position
