"""Snapshots on the changelog topic: a worker comes back from the newest that is whole, and none is left to rot."""

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from stream_app.backends.base import Committed, Fetched, LogReader, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.errors import ErrorCode, StateError, TransactionAbortedError, UnknownOutcomeError
from stream_app.records import Example
from stream_app.recovery import snapshot_writer
from stream_app.recovery.buffers import rows_of
from stream_app.recovery.commit_point import RestoreTarget, parse_metadata
from stream_app.recovery.restore import OPEN_TRANSACTION_S
from stream_app.serialization import codec
from stream_app.snapshot.format import Manifest, read_manifest
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.world import (
    BREAKER,
    MAX_POLL_INTERVAL_S,
    PARTITIONS,
    World,
    _all_at,
    _all_beyond,
    _config,
    _Dying,
    _Failing,
    _never,
    _started,
    _turns,
    _undisturbed,
)

EVERY = {"snapshot_after_ms": 0}
"""A snapshot behind every commit, as soon as the one before is whole."""


def _world(**sections: object) -> World:
    worker = {**EVERY, **(sections.pop("worker", {}) or {})}  # type: ignore[dict-item]
    return World(_config(worker=worker, **sections))


def _changelog(world: World, number: int) -> TopicPartition:
    return TopicPartition(world.config.topics.changelog, number)


def _target(world: World, number: int) -> RestoreTarget:
    """What the committed offsets of a task say."""
    place = TopicPartition(world.config.topics.examples, number)
    known = world.cluster.committed("app", [place])[place]
    assert known is not None
    return parse_metadata(known.metadata, "test")


def _manifest_at(world: World, number: int, offset: int) -> Manifest:
    records, *_ = world.broker.read(_changelog(world, number), offset, 1)
    return read_manifest(records.values[0] or b"", "test")


def _idle(*members: Worker) -> Callable[[], bool]:
    """Whether no snapshot is under way."""
    return lambda: not any(task.is_saving for member in members for task in member.tasks)


def _saved(count: int = 20, lives: int = 3, first: int = 0) -> World:
    """So many records were processed by some workers, and the newest snapshot is behind the last commit."""
    world = _world()
    for life in range(lives):
        world.send(count // lives, first=first + life * (count // lives))
        member = _started(world.worker())
        _turns(member, until=_all_at(member, (life + 1) * (count // lives)))
        _turns(member, until=_idle(member))
    return world


def test_a_clean_stop_leaves_nothing_to_do_again() -> None:
    """SIGTERM, an update, SIGTERM: no record is processed twice, however long the application has run."""
    world = World()
    world.send(40)
    member = world.worker()
    member.run(_all_at(member, 40))
    world.send(5, first=40)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 45))
    assert [task.report.replayed_records for task in again.tasks] == [0, 0]
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    assert world.outputs() == _undisturbed(40, 5)


def test_a_revoked_task_is_saved_for_its_next_owner() -> None:
    """Joining and leaving costs no re-processing."""
    world = World()
    world.send(40)
    one = _started(world.worker())
    _turns(one, until=_all_at(one, 40))
    two = _started(world.worker(_config(application={"instance": "two"}), joins=True))
    world.send(5, first=40)
    _turns(one, two, until=lambda: [task.offsets for m in (one, two) for task in m.tasks] == [(45, 45)] * 2)
    assert [task.report.replayed_records for m in (one, two) for task in m.tasks] == [0, 0]
    assert world.outputs() == _undisturbed(40, 5)


@pytest.mark.parametrize("lives", [2, 7])
def test_a_killed_worker_does_again_what_its_last_snapshot_does_not_have(lives: int) -> None:
    """Bit for bit what one life gives; and only the last records, not all, are processed twice."""
    world = _world()
    world.send(70)
    for life in range(lives):
        member = _started(world.worker())
        _turns(member, until=_all_beyond(member, 70 * (life + 1) // lives))
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 70))
    assert world.outputs() == _undisturbed(70)
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]
    assert all(task.report.loaded_sequence > 0 and task.report.replayed_records < 100 for task in again.tasks)


def test_a_large_snapshot_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction grows with the state; a worker that is killed between two pieces leaves no half snapshot."""
    monkeypatch.setattr(snapshot_writer, "TRANSACTION_RECORDS", 1)
    monkeypatch.setattr("stream_app.snapshot.format.CHUNK_BYTES", 500)
    world = _world()
    world.send(70)
    for life in range(8):
        member = _started(world.worker())
        _turns(member, until=_all_beyond(member, 8 * (life + 1)))
    _turns(member, until=_all_at(member, 70))
    _turns(member, until=_idle(member))
    assert world.outputs() == _undisturbed(70)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 70))
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_an_abort_takes_its_part_of_a_snapshot_along() -> None:
    """The next owner of the state knows nothing of chunks that were never committed."""
    world = _world()
    world.send(60)
    failing = _Failing(world.broker, dict.fromkeys((2, 3, 5, 8, 9, 10, 14), TransactionAbortedError))
    member = _started(world.worker(transaction=failing))
    _turns(member, until=_all_at(member, 60))
    assert failing.commits > 14
    assert world.outputs() == _undisturbed(60)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 60))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def _living_keys(world: World, number: int) -> set[bytes]:
    """Keys whose last record is no tombstone: what compaction keeps for good."""
    world.broker.compact(_changelog(world, number))
    return {key for key, value, *_ in world.rows("changelog", number) if value is not None}


def test_nothing_is_left_in_the_changelog_for_good() -> None:
    """Whenever a writer dies, compaction in the end keeps what the two newest snapshots list, and not a key more."""
    world = _world()
    for commits in range(1, 12):
        world.send(30, first=30 * (commits - 1))
        dying = world.worker(transaction=_Dying(world, commits))
        with pytest.raises(UnknownOutcomeError):
            dying.run(_never())
    member = _started(world.worker())
    total = 30 * 11
    _turns(member, until=_all_at(member, total))
    for more in range(4):  # what was dropped gets its tombstones with a later snapshot
        world.send(1, first=total + more)
        _turns(member, until=_all_at(member, total + more + 1))
        _turns(member, until=_idle(member))
    for number in range(PARTITIONS):
        values = {key: value for key, value, *_ in world.rows("changelog", number)}
        wanted: set[bytes] = set()
        dropped: set[bytes] = set()
        for snapshot in _target(world, number).snapshots:
            manifest = _manifest_at(world, number, snapshot.manifest.offset)
            wanted |= {f"{entry.key}/{chunk}".encode() for entry in manifest.entries for chunk in range(entry.chunks)}
            wanted.add(f"{manifest.sequence}/manifest/0".encode())
            dropped |= {f"{name}/{chunk}".encode() for name, chunks in manifest.dropped for chunk in range(chunks)}
        living = _living_keys(world, number)
        assert wanted <= living <= wanted | dropped
        assert len(values) > len(living)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, total + 4))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_compaction_while_running() -> None:
    """The cleaner may come at any moment: what it removes is never what a restore needs."""
    world = _world()
    for life in range(6):
        world.send(10, first=10 * life)
        member = _started(world.worker())
        _turns(member, until=_all_beyond(member, 10 * life + 6))
        for number in range(PARTITIONS):
            world.broker.compact(_changelog(world, number))
    _turns(member, until=_all_at(member, 60))
    assert world.outputs() == _undisturbed(60)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 60))
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)


def test_a_quiet_stream_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """What no record touches is written once, and all later snapshots live on it."""
    world = _world(streams={"s0": {"features": 1}, "s1": {"features": 1}, "quiet": {"features": 1}})
    world.put("examples", 0, b"quiet", codec.encode(Example("quiet", "1", [1.0])), 1)
    world.send(40)
    member = _started(world.worker())
    _turns(member, until=lambda: [task.offsets for task in member.tasks] == [(41, 40), (40, 40)])
    _turns(member, until=_idle(member))
    world.broker.compact(_changelog(world, 0))
    newest = _manifest_at(world, 0, _target(world, 0).snapshots[0].manifest.offset)
    written = {entry.stream: entry.offset for entry in newest.entries}
    assert written["quiet"] < written["s0"] - 4
    with caplog.at_level(logging.ERROR, "areba.worker"):
        again = _started(world.worker())
        _turns(again, until=lambda: len(again.tasks) == 2 and again.tasks[0].offsets == (41, 40))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert again.tasks[0].report.loaded_sequence == newest.sequence


def test_inputs_may_be_deleted_behind_a_snapshot() -> None:
    """Retention is short, the application runs for years: what a snapshot has is not asked for again."""
    world = _saved(21)
    for number in range(PARTITIONS):
        for topic in (world.config.topics.examples, world.config.topics.labels):
            world.broker.delete_before(TopicPartition(topic, number), 21)
    world.send(9, first=21)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 30))
    assert world.outputs() == _undisturbed(7, 7, 7, 9)


# Damage ---------------------------------------------------------------------------------------------------------------


def _entry_at(world: World, number: int, offset: int) -> int:
    return world.broker._log(_changelog(world, number)).index(offset)


def _remove(world: World, number: int, offset: int) -> None:
    del world.broker._log(_changelog(world, number)).entries[_entry_at(world, number, offset)]


def _flip(world: World, number: int, offset: int) -> None:
    entries = world.broker._log(_changelog(world, number)).entries
    at = _entry_at(world, number, offset)
    value = bytearray(entries[at].value or b"")
    value[len(value) // 2] ^= 1
    entries[at] = entries[at]._replace(value=bytes(value))


def _cut(world: World, number: int, offset: int) -> None:
    entries = world.broker._log(_changelog(world, number)).entries
    at = _entry_at(world, number, offset)
    entries[at] = entries[at]._replace(value=(entries[at].value or b"")[:-1])


def _core_of(world: World, number: int, offset: int) -> int:
    """Where the core is that the manifest at this offset lists."""
    entries = _manifest_at(world, number, offset).entries
    return next(entry.offset for entry in entries if entry.kind == "core")


@pytest.mark.parametrize("damage", [_remove, _flip, _cut])
@pytest.mark.parametrize("of_core", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_damaged_snapshots(
    damage: Callable[[World, int, int], None], of_core: bool, both: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The one before is used, or everything is re-processed: the same bits, and a line that names offset and cause."""
    world = _saved(21)
    newest, before = _target(world, 0).snapshots
    again_at = sum(_manifest_at(world, 0, before.manifest.offset).offsets)
    for snapshot in (newest, before) if both else (newest,):
        offset = snapshot.manifest.offset
        damage(world, 0, _core_of(world, 0, offset) if of_core else offset)
    world.send(9, first=21)
    with caplog.at_level(logging.ERROR, "areba.worker"):
        again = _started(world.worker())
        _turns(again, until=lambda: len(again.tasks) == 2)
        world.clock.advance(OPEN_TRANSACTION_S)  # or it might only be hidden
        _turns(again, until=_all_at(again, 30))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 if both else 1
    assert all(line.startswith("damaged task=0: changelog[0] offset ") for line in lines)
    assert again.tasks[0].report.replayed_records == 42 - (0 if both else again_at)
    assert again.tasks[1].report.replayed_records == 0
    assert world.outputs() == _undisturbed(7, 7, 7, 9)


class _Hidden(EmbeddedCluster):
    """Another worker died with records of its own among the snapshots: until this time their end is not to be seen."""

    def __init__(self, world: World, end: int, until_s: float) -> None:
        super().__init__(world.broker)
        self._world, self._end, self._until_s = world, end, until_s

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """One that stops there."""
        found = super().reader(partition, committed=committed)
        if partition.topic != self._world.config.topics.changelog:
            return found
        return _Stopping(found, self._end, lambda: self._world.clock.monotonic_s() < self._until_s)


class _Stopping:
    """A reader for which a log ends early, for a while."""

    def __init__(self, reader: LogReader, end: int, is_hidden: Callable[[], bool]) -> None:
        self._reader, self._end, self._is_hidden = reader, end, is_hidden
        self._place = 0
        self._is_told = False  # that this is the end
        self.close = reader.close

    def seek(self, offset: int) -> None:
        """Go on there."""
        self._place, self._is_told = offset, False
        self._reader.seek(offset)

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """What may be seen."""
        fetched = self._reader.poll(max_records, timeout_s)
        if fetched is None or not self._is_hidden():
            return fetched
        rows = int(np.searchsorted(fetched.records.offsets, self._end))
        self._reader.seek(min(self._end, self._place if not rows else int(fetched.records.offsets[rows - 1]) + 1))
        self._is_told, was_told = True, self._is_told
        return Fetched(fetched.partition, rows_of(fetched.records, 0, rows), at_end=True) if not was_told else None


@pytest.mark.parametrize(("hidden_s", "snapshots"), [(20.0, "newest"), (100.0, "older")])
def test_a_snapshot_behind_an_open_transaction_is_waited_for(hidden_s: float, snapshots: str) -> None:
    """It is committed and named; a dead worker's transaction hides it until it times out. It is no damage till then."""
    world = _saved()
    target = _target(world, 0)
    newest = target.snapshots[0]
    dead_s = world.clock.monotonic_s() + MAX_POLL_INTERVAL_S + 1  # then the group knows
    hidden = _Hidden(world, newest.manifest.offset, dead_s + hidden_s)
    member = _started(world.worker(cluster=hidden))
    seen = world.clock.monotonic_s() + 60.0
    while not _all_at(member, 18)() and world.clock.monotonic_s() < seen:
        member.turn()
        world.clock.advance(0.1)
    [task] = [task for task in member.tasks if task.number == 0]
    assert bool(task.report.damage) == (snapshots == "older")
    assert task.state is TaskState.LIVE


def test_no_snapshot_and_no_inputs() -> None:
    """The one thing that cannot be mended is said with its cause before it and the way out behind it."""
    world = _saved(21)
    for number in range(PARTITIONS):
        for snapshot in _target(world, number).snapshots:
            _remove(world, number, snapshot.manifest.offset)
        world.broker.delete_before(TopicPartition(world.config.topics.labels, number), 3)
    with pytest.raises(StateError, match=ErrorCode.INPUTS_DELETED):
        world.worker().run(_never())


def test_a_stop_by_the_breaker_outlives_a_snapshot() -> None:
    """A task that the breaker stopped stays stopped, and its count of malformed records goes on where it was."""
    world = World(_config(worker=EVERY, **BREAKER))
    world.send(6)
    world.put("examples", 0, None, b"garbage", 100)
    world.put("examples", 0, None, b"garbage", 100)
    member = world.worker()
    member.run(lambda: len(member.tasks) == 2 and member.tasks[0].offsets == (8, 6))
    again = _started(world.worker())
    _turns(again, until=lambda: len(again.tasks) == 2 and again.tasks[0].state is TaskState.LIVE)
    assert again.tasks[0].report.replayed_records == 0
    world.put("examples", 0, None, b"garbage", 100)
    _turns(again, until=lambda: again.tasks[0].state is TaskState.TRIPPED)
    once_more = _started(world.worker())
    _turns(once_more, until=lambda: len(once_more.tasks) == 2 and once_more.tasks[0].state is TaskState.TRIPPED)
    world.resume(0, once_more.tasks[0].point.sequence + 1)
    world.send(3, first=20)
    _turns(once_more, until=lambda: once_more.tasks[0].offsets == (12, 9))
    last = _started(world.worker())
    _turns(last, until=partial(lambda m: len(m.tasks) == 2 and m.tasks[0].state is TaskState.LIVE, last))
    assert last.tasks[0].offsets == (12, 9)


def test_a_snapshot_of_another_history_is_refused() -> None:
    """A changelog that was copied from another application fits in every number but one: models would be another's."""
    world, other = _saved(), _saved(first=1)
    for number in range(PARTITIONS):
        mine, theirs = _target(world, number), _target(other, number)
        assert [snapshot.progress_offset for snapshot in mine.snapshots] == [
            snapshot.progress_offset for snapshot in theirs.snapshots
        ]
        world.broker._logs[_changelog(world, number)] = other.broker._logs[_changelog(other, number)]
        for topic in (world.config.topics.examples, world.config.topics.labels):
            place = TopicPartition(topic, number)
            known = world.cluster.committed("app", [place])[place]
            assert known is not None
            renamed = Committed(known.offset, mine.point.metadata(theirs.snapshots))
            world.broker.groups.group("app").offsets[place] = renamed
    before = world.outputs()
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        world.worker().run(_never())
    assert world.outputs() == before
