"""Damaged and hidden snapshots: a restore takes an older snapshot, waits, or names what is missing."""

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from stream_app.backends.base import Fetched, LogReader, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.log import LogTransaction, TransactionState
from stream_app.errors import ErrorCode, StateError
from stream_app.progress_records import SNAPSHOT, Act, Commit
from stream_app.recovery.restore import OPEN_TRANSACTION_S
from stream_app.serialization import codec
from stream_app.snapshot.format import SNAPSHOT_KEY, snapshots_text
from stream_app.task_state import TaskState
from tests.support.changelog import (
    EVERY,
    changelog_of,
    die_unnamed,
    manifest_at,
    saved_world,
    snapshot_world,
    snapshots_of,
)
from tests.support.world import (
    BREAKER,
    MAX_POLL_INTERVAL_S,
    PARTITIONS,
    World,
    all_at,
    make_config,
    never,
    started,
    take_turns,
    undisturbed_outputs,
)


def _entry_at(world: World, number: int, offset: int) -> int:
    return world.broker._log(changelog_of(world, number)).index(offset)


def _remove(world: World, number: int, offset: int) -> None:
    del world.broker._log(changelog_of(world, number)).entries[_entry_at(world, number, offset)]


def _flip(world: World, number: int, offset: int) -> None:
    entries = world.broker._log(changelog_of(world, number)).entries
    at = _entry_at(world, number, offset)
    value = bytearray(entries[at].value or b"")
    value[len(value) // 2] ^= 1
    entries[at] = entries[at]._replace(value=bytes(value))


def _cut(world: World, number: int, offset: int) -> None:
    entries = world.broker._log(changelog_of(world, number)).entries
    at = _entry_at(world, number, offset)
    entries[at] = entries[at]._replace(value=(entries[at].value or b"")[:-1])


def _core_of(world: World, number: int, offset: int) -> int:
    """Return the place of the core that the manifest at this offset lists."""
    entries = manifest_at(world, number, offset).entries
    return next(entry.offset for entry in entries if entry.kind == "core")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_remove, _flip, _cut])
@pytest.mark.parametrize("of_core", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_damaged_snapshots(
    damage: Callable[[World, int, int], None], of_core: bool, both: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A restore uses the previous snapshot or none, gives the same bits, and logs offset and cause."""
    world = saved_world(21)
    newest, before = snapshots_of(world, 0)
    again_at = sum(manifest_at(world, 0, before.manifest.offset).offsets)
    for snapshot in (newest, before) if both else (newest,):
        offset = snapshot.manifest.offset
        damage(world, 0, _core_of(world, 0, offset) if of_core else offset)
    world.send(9, first=21)
    with caplog.at_level(logging.ERROR, "areba.worker"):
        again = started(world.worker())
        take_turns(again, until=lambda: len(again.tasks) == 2)
        world.clock.advance(OPEN_TRANSACTION_S)  # or it might only be hidden
        take_turns(again, until=all_at(again, 30))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2 if both else 1
    assert all(line.startswith("damaged task=0: changelog[0] offset ") for line in lines)
    assert again.tasks[0].report.reprocessed_records == 42 - (0 if both else again_at)
    assert again.tasks[1].report.reprocessed_records == 0
    assert world.outputs() == undisturbed_outputs(7, 7, 7, 9)


class _Hidden(EmbeddedCluster):
    """Let another worker die with open records among the snapshots; their end is hidden until this time."""

    def __init__(self, world: World, end: int, until_s: float) -> None:
        super().__init__(world.broker)
        self._world, self._end, self._until_s = world, end, until_s

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Return a reader whose log ends there."""
        found = super().reader(partition, committed=committed)
        if partition.topic != self._world.config.topics.changelog:
            return found
        return _Stopping(found, self._end, lambda: self._world.clock.monotonic_s() < self._until_s)


class _Stopping:
    """A reader for which the log temporarily ends early."""

    def __init__(self, reader: LogReader, end: int, is_hidden: Callable[[], bool]) -> None:
        self._reader, self._end, self._is_hidden = reader, end, is_hidden
        self._place = 0
        self._is_reported = False  # that this is the end
        self.close = reader.close

    def seek(self, offset: int) -> None:
        """Continue at this offset."""
        self._place, self._is_reported = offset, False
        self._reader.seek(offset)

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Poll the records that are not hidden."""
        fetched = self._reader.poll(max_records, timeout_s)
        if fetched is None or not self._is_hidden():
            return fetched
        rows = int(np.searchsorted(fetched.records.offsets, self._end))
        position = min(self._end, self._place if not rows else int(fetched.records.offsets[rows - 1]) + 1)
        self._reader.seek(position)
        self._is_reported, was_reported = True, self._is_reported
        shown = Fetched(fetched.partition, fetched.records.rows(0, rows), at_end=True, position=position)
        return shown if not was_reported else None


@pytest.mark.parametrize(("hidden_s", "snapshots"), [(20.0, "newest"), (100.0, "older")])
def test_a_snapshot_after_an_open_transaction_is_waited_for(hidden_s: float, snapshots: str) -> None:
    """A dead worker's transaction hides a named snapshot until it times out; until then the snapshot is not damaged."""
    world = saved_world()
    newest = snapshots_of(world, 0)[0]
    dead_s = world.clock.monotonic_s() + MAX_POLL_INTERVAL_S + 1  # then the group knows
    hidden = _Hidden(world, newest.manifest.offset, dead_s + hidden_s)
    member = started(world.worker(cluster=hidden))
    seen = world.clock.monotonic_s() + 60.0
    while not all_at(member, 18)() and world.clock.monotonic_s() < seen:
        member.turn()
        world.clock.advance(0.1)
    [task] = [task for task in member.tasks if task.number == 0]
    assert bool(task.report.damage) == (snapshots == "older")
    assert task.state is TaskState.LIVE


def test_no_snapshot_and_no_inputs() -> None:
    """The error for what cannot be repaired names its cause first and the remedy last."""
    world = saved_world(21)
    for number in range(PARTITIONS):
        for snapshot in snapshots_of(world, number):
            _remove(world, number, snapshot.manifest.offset)
        world.broker.delete_before(TopicPartition(world.config.topics.labels, number), 3)
    with pytest.raises(StateError, match=ErrorCode.INPUTS_DELETED):
        world.worker().run(never())


def test_a_stop_by_the_breaker_outlives_a_snapshot() -> None:
    """A stream that the breaker stopped stays stopped, and its count of malformed records continues."""
    world = World(make_config(worker=EVERY, **BREAKER))
    world.send(6)
    world.garbage(0, 2)
    member = world.worker()
    member.run(lambda: len(member.tasks) == 2 and member.tasks[0].offsets == (8, 6))
    again = started(world.worker())
    take_turns(again, until=lambda: len(again.tasks) == 2 and again.tasks[0].state is TaskState.LIVE)
    assert again.tasks[0].report.reprocessed_records == 0
    world.garbage(0, 1)
    take_turns(again, until=lambda: again.tasks[0].offsets == (9, 6))
    world.send(1, first=6)
    take_turns(again, until=lambda: again.tasks[0].offsets == (10, 7))
    assert again.tasks[0].live.task.stopped
    again.run(lambda: True)  # a clean stop
    once_more = started(world.worker())
    take_turns(once_more, until=lambda: len(once_more.tasks) == 2 and once_more.tasks[0].state is TaskState.LIVE)
    assert once_more.tasks[0].report.reprocessed_records == 0
    assert once_more.tasks[0].live.task.stopped
    world.resume(0)
    world.send(3, first=20)
    take_turns(once_more, until=lambda: once_more.tasks[0].offsets == (14, 10))
    last = started(world.worker())
    take_turns(last, until=partial(lambda m: len(m.tasks) == 2 and m.tasks[0].state is TaskState.LIVE, last))
    assert not last.tasks[0].live.task.stopped


def test_a_snapshot_of_another_history_is_refused() -> None:
    """A changelog copied from another application matches in all but its digest, and its models must not be loaded."""
    world, other = saved_world(), saved_world(first=1)
    for number in range(PARTITIONS):
        mine, theirs = snapshots_of(world, number), snapshots_of(other, number)
        assert [snapshot.progress_offset for snapshot in mine] == [snapshot.progress_offset for snapshot in theirs]
        world.broker._logs[changelog_of(world, number)] = other.broker._logs[changelog_of(other, number)]
        act = Act(world.progress(number)[-1].sequence + 1, SNAPSHOT, "0", snapshots_text(theirs))
        world.put("progress", number, SNAPSHOT_KEY, codec.encode(act))
    before = world.outputs()
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        world.worker().run(never())
    assert world.outputs() == before


def test_the_first_commit_lost_its_marker_in_progress() -> None:
    """An empty progress beside a snapshot is no loss, if the records are there for those who look for them."""
    world = snapshot_world()
    world.send(5)
    die_unnamed(world)
    aborted = LogTransaction(0.0, 0.0, TransactionState.ABORTED)
    for number in range(PARTITIONS):
        log = world.broker._log(TopicPartition(world.config.topics.progress, number))
        log.entries[:] = [entry._replace(transaction=aborted) for entry in log.entries]
        assert world.progress(number) == []
    again = started(world.worker())
    take_turns(again, until=all_at(again, 5))
    assert world.outputs() == undisturbed_outputs(5)
    assert any(isinstance(record, Commit) for record in world.progress(0))
