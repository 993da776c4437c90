"""The snapshots of a task are those that the last act `snapshot` of its progress names."""

import pytest

from stream_app.admin.progress.reading import named_snapshots
from stream_app.backends.base import TopicPartition
from stream_app.backends.progress import TAIL_OFFSETS
from stream_app.errors import StateError
from stream_app.progress_records import SNAPSHOT, Act
from stream_app.serialization import codec
from stream_app.snapshot.format import CHUNK_BYTES, SNAPSHOT_KEY, Location, Snapshot, parse_snapshots, snapshots_text
from tests.support.world import World

PROGRESS = TopicPartition("app-progress", 0)
ONE = Snapshot(Location(12, 1, 300, "a" * 64), 7)
TWO = Snapshot(Location(3, 64, 2, "b" * 64), 5)

_LARGEST_BYTES = 100_000 * 12 * 300
"""Of the list of a task with the most streams, whose queues are full and whose names are long: 12 blobs a stream."""


@pytest.fixture
def world() -> World:
    """Return a world whose progress names two snapshots after others."""
    made = World()
    _name(made, TWO)
    _name(made, ONE, TWO)
    return made


def _name(world: World, *snapshots: Snapshot) -> None:
    act = Act(0, SNAPSHOT, "0", snapshots_text(snapshots))
    world.put("progress", 0, SNAPSHOT_KEY, codec.encode(act))


def _found(world: World) -> tuple[Snapshot, ...]:
    return named_snapshots(world.cluster, PROGRESS)


@pytest.mark.parametrize("records", [0, 1, TAIL_OFFSETS - 1, TAIL_OFFSETS, 12 * TAIL_OFFSETS])
def test_the_last_act_is_found_however_many_records_follow(world: World, records: int) -> None:
    """A stream that takes a snapshot every few hours has far more commits after it than a search reads at once."""
    world.broker.append(PROGRESS, [(None, b"a commit", 1, ())] * records)
    assert _found(world) == (ONE, TWO)


def test_progress_that_names_no_snapshot() -> None:
    """A new task begins with its first record, also after the beginning of progress was deleted."""
    world = World()
    assert _found(world) == ()
    world.broker.append(PROGRESS, [(None, b"a commit", 1, ())] * (TAIL_OFFSETS + 2))
    assert _found(world) == ()
    world.broker.delete_before(PROGRESS, TAIL_OFFSETS)
    assert _found(world) == ()


@pytest.mark.parametrize("value", [None, b"", b"nothing", codec.encode(Act(0, SNAPSHOT, "0", "1:2"))])
def test_an_act_that_cannot_be_read(world: World, value: bytes | None) -> None:
    """To begin with an older snapshot, or with none, could give other models."""
    world.put("progress", 0, SNAPSHOT_KEY, value)
    with pytest.raises(StateError):
        _found(world)


def test_the_text_of_an_act() -> None:
    """It is parsed as it was written."""
    largest = Snapshot(Location(7, _LARGEST_BYTES // CHUNK_BYTES + 1, _LARGEST_BYTES, "0" * 64), 8)
    for snapshots in ((), (ONE,), (ONE, TWO), (largest,)):
        assert parse_snapshots(snapshots_text(snapshots)) == snapshots
