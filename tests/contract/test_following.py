"""Following many partitions together: what `areba watch` and `areba tail` rely on."""

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.following import FollowableCluster, LogFollower
from tests.contract.backends import DEADLINE_S, START_MS, Backend, Positions, numbered, outputs, wait_for_markers


@pytest.fixture
def cluster(backend: Backend) -> FollowableCluster:
    """Return administration of the backend."""
    return backend.cluster()


@pytest.fixture
def places(backend: Backend, topic: Callable[..., str]) -> list[TopicPartition]:
    """Return the partitions of two topics, with five records in each."""
    found = [TopicPartition(name, number) for name in (topic("one", partitions=2), topic("two")) for number in range(2)]
    found.pop()
    sender = backend.sender()
    for place in found:
        for number, value in enumerate(numbered(5)):
            sender.send(place.topic, b"k", value, START_MS + number, partition=place.partition)
    sender.flush(DEADLINE_S)
    return found


def _follow(follower: LogFollower, until: Callable[[Positions], bool], seen: Positions | None = None) -> Positions:
    positions = seen or Positions()
    deadline = time.monotonic() + DEADLINE_S
    while not until(positions):
        assert time.monotonic() < deadline, positions.offsets
        batch = follower.poll(3, 0.1)
        assert sum(len(fetched.records) for fetched in batch) <= 3
        positions.take(batch)
    return positions


def test_all_partitions_are_read_from_their_offsets(
    backend: Backend, cluster: FollowableCluster, places: list[TopicPartition]
) -> None:
    """A partition that is never read would look idle, and one that is read again would count twice."""
    starts = dict(zip(places, (0, 3, 5), strict=True))
    with closing(cluster.follow(starts)) as follower:
        seen = _follow(follower, lambda now: all(now.at_end.get(place) for place in places))
        assert {place: seen.offsets[place] for place in places} == {
            place: list(range(start, 5)) for place, start in starts.items()
        }
        sender = backend.sender()
        sender.send(places[2].topic, b"k", b"new", START_MS, partition=places[2].partition)
        sender.flush(DEADLINE_S)
        _follow(follower, lambda now: now.offsets[places[2]] == [5], seen)
        assert follower.problems == ()


def test_a_view_continues_at_the_given_offsets(cluster: FollowableCluster, places: list[TopicPartition]) -> None:
    """A view skips what it cannot read in time; the other partitions must not lose or repeat a record."""
    with closing(cluster.follow({places[0]: 0, places[1]: 0})) as follower:
        seen = _follow(
            follower, lambda now: len(now.offsets.get(places[0], ())) + len(now.offsets.get(places[1], ())) > 0
        )
        before = {place: seen.offsets.get(place, [])[-1:] for place in places[:2]}
        jumped = next(place for place in places[:2] if before[place] != [4])
        follower.start_at({jumped: 4})
        _follow(follower, lambda now: all(now.offsets.get(place, [])[-1:] == [4] for place in places[:2]), seen)
        other = next(place for place in places[:2] if place != jumped)
        assert seen.offsets[other] == list(range(5))


def test_an_offset_that_is_gone_stands_for_the_first(
    backend: Backend, cluster: FollowableCluster, places: list[TopicPartition]
) -> None:
    """Retention deletes records while a user watches; the view must not end."""
    backend.delete_before(places[0], 3)
    for start in (0, 1_000):
        with closing(cluster.follow({places[0]: start})) as follower:
            assert _follow(follower, lambda now: now.at_end.get(places[0], False)).offsets[places[0]] == [3, 4]


def test_open_and_aborted_records_are_not_followed(
    backend: Backend, cluster: FollowableCluster, places: list[TopicPartition], prefix: str
) -> None:
    """A view that shows what is then aborted shows predictions that never existed."""
    place = places[0]
    transaction = backend.transaction(prefix + "a")
    transaction.begin()
    transaction.produce(place, outputs([b"aborted"]))
    transaction.flush()
    transaction.abort()
    wait_for_markers(cluster, place)
    transaction.begin()
    transaction.produce(place, outputs([b"committed"]))
    transaction.commit()
    with closing(cluster.follow({place: 5})) as follower:
        seen = _follow(follower, lambda now: b"committed" in now.values.get(place, ()))
    assert seen.values[place] == [b"committed"]


def test_offsets_by_time(cluster: FollowableCluster, places: list[TopicPartition]) -> None:
    """`--since` would leave records out, or read a year of them."""
    wanted = {START_MS - 1: 0, START_MS + 2: 2, START_MS + 4: 4, START_MS + 5: 5}
    for time_ms, offset in wanted.items():
        assert cluster.offsets_since(places, time_ms) == dict.fromkeys(places, offset)
