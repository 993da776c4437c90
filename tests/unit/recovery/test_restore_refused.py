"""Tasks that cannot be restored: each is parked with the code of its problem, and the others continue."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.backends.base import Committed, LogReader, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.errors import (
    ErrorCode,
    StateError,
)
from stream_app.records import Commit
from stream_app.recovery.commit_point import CommitPoint, RestoreTarget, committed_target, parse_metadata
from stream_app.serialization import codec
from stream_app.snapshot.format import Place, Snapshot
from stream_app.task_state import TaskState
from tests.support.damages.world import (
    _commit_offsets,
    _foreign_offsets,
    _last,
    _lose_examples,
    _lose_labels_of,
    _lose_offsets,
    _lose_progress,
    _metadata,
    _new_topic,
    _newer_format,
    _older_offsets,
    _other_digest,
)
from tests.support.world import (
    MAX_POLL_INTERVAL_S,
    PARTITIONS,
    World,
    _all_at,
    _config,
    _never,
    _started,
    _turns,
    _undisturbed,
    _world_after,
)


def test_a_zombie_that_wakes_while_restoring_is_no_damage() -> None:
    """It reads commits of the next owner, which is no damage: an operator would find nothing wrong."""
    world = World(_config(worker={"max_batch_records": 1}))
    world.send(4)
    zombie = _started(world.worker())
    zombie._poll(0.0)
    zombie._owned.own_new()
    other = _started(world.worker(_config(application={"instance": "two"})))
    _turns(other, until=_all_at(other, 4))
    zombie._restorer.run_slice()
    assert not zombie.tasks
    two = (zombie, other)
    _turns(*two, until=lambda: [task.offsets for member in two for task in member.tasks] == [(4, 4)] * 2)
    assert world.outputs() == _undisturbed(4)


def test_one_parked_task_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The line names the task and the remedy; the other task continues, and the worker ends with status 0."""
    world = _world_after()
    world.put("progress", 0, None, b"not ours")
    world.broker.delete_before(TopicPartition(world.config.topics.examples, 1), 0)
    member = world.worker()
    world.send(5, first=30)
    with caplog.at_level(logging.ERROR, "areba.worker"):
        member.run(lambda: any(task.offsets == (25, 25) for task in member.tasks))
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("parked task=0: progress[0] offset ")
    assert line.endswith(f"[{ErrorCode.STATE_UNUSABLE}]")


def _forged(world: World, number: int, **changed: Any) -> bytes:  # noqa: ANN401  (fields of a commit record)
    last = _last(world, number)
    values = {name: getattr(last, name) for name in Commit.__slots__}
    starts = {"examples_start": last.examples_end, "labels_start": last.labels_end}
    return codec.encode(Commit(**{**values, **starts, "sequence": last.sequence + 1, **changed}))


def _unequal_offsets(world: World) -> None:
    place = TopicPartition(world.config.topics.labels, 0)
    world.broker.groups.group("app").offsets[place] = Committed(20, "1 0 00")
    _lose_labels_of(world, 1)


def _forge_commit(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, digest=b"\1" * 32))
    _commit_offsets(world, lambda number: (_metadata(world, number), (20, 20)))


def _forge_ranges(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, examples_start=3, digest=b"\1" * 32))
    _commit_offsets(world, lambda number: (_metadata(world, number), (20, 20)))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_lose_offsets, ErrorCode.OFFSETS_LOST),
        (_lose_examples, ErrorCode.INPUTS_DELETED),
        (_lose_progress, ErrorCode.SNAPSHOT_MISSING),
        (_new_topic, ErrorCode.INPUTS_REPLACED),
        (_other_digest, ErrorCode.OFFSETS_RESET),
        (_older_offsets, ErrorCode.OFFSETS_RESET),
        (_foreign_offsets, ErrorCode.OFFSETS_RESET),
        (_newer_format, ErrorCode.FORMAT_UNKNOWN),
        (_unequal_offsets, ErrorCode.OFFSETS_RESET),
        (_forge_commit, ErrorCode.DIGEST_DIFFERS),
        (_forge_ranges, ErrorCode.STATE_UNUSABLE),
    ],
)
def test_state_that_does_not_fit(
    damage: Callable[[World], None], code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends with status 3 and one line with both numbers, and writes no record."""
    monkeypatch.setattr("stream_app.recovery.progress_script.MAX_UNNAMED_COMMITS", 0)
    world = _world_after()
    damage(world)
    before = world.outputs()
    with pytest.raises(StateError) as caught:
        world.worker().run(_never())
    assert caught.value.code is code
    assert "\n" not in str(caught.value)
    assert world.outputs() == before


@pytest.mark.parametrize("damage", [_lose_offsets, _older_offsets])
def test_offsets_whose_markers_were_lost_are_committed_again(damage: Callable[[World], None]) -> None:
    """A few commits in a row may have lost the markers of their offsets: progress has them."""
    world = _world_after()
    before = world.broker.committed("app", list(world.broker.groups.group("app").offsets))
    outputs = world.outputs()
    damage(world)
    again = _started(world.worker())
    _turns(again, until=lambda: len(again.tasks) == PARTITIONS and all(t.state is TaskState.LIVE for t in again.tasks))
    assert {place: known and known.offset for place, known in world.broker.committed("app", list(before)).items()} == {
        place: known and known.offset for place, known in before.items()
    }
    assert world.outputs() == outputs


def test_metadata() -> None:
    """The metadata of offsets is parsed as it was written; any other text is refused."""
    point = CommitPoint(7, bytes(range(32)))
    snapshots = (Snapshot(Place(12, 1, 300, "a" * 64), 7), Snapshot(Place(3, 64, 2, "b" * 64), 5))
    target = RestoreTarget(point, snapshots)
    assert parse_metadata(point.metadata(snapshots), "task 0") == target
    assert parse_metadata(f"1 7 {point.digest.hex()}", "of the first releases") == RestoreTarget(point)
    words = " ".join(["2 7", point.digest.hex(), *map(str, snapshots)])
    assert parse_metadata(words, "of areba 0.x") == target
    ids = ("hwuN0cXkTnuGmqm1VQYhKw", "4yVGZmaRSAKLhlPgYiPUwA")
    assert parse_metadata(point.metadata(snapshots, ids), "task 0") == RestoreTarget(point, snapshots, ids)
    inputs = (TopicPartition("examples", 0), TopicPartition("labels", 0))
    assert committed_target(inputs, {}) is None
    committed = {place: Committed(3, point.metadata(snapshots)) for place in inputs}
    assert committed_target(inputs, committed) == target
    with pytest.raises(StateError):
        committed_target(inputs, {inputs[0]: Committed(3, point.metadata()), inputs[1]: None})
    for wrong in ("", "3", f"3 7 {point.digest.hex()}", f"3 7 {point.digest.hex()} a,b,c", f"4 7 {point.digest.hex()}"):
        with pytest.raises(StateError):
            parse_metadata(wrong, "task 0")


class _Silent(EmbeddedCluster):
    """Its readers of this topic have nothing to say once a start has asked progress for the number of tasks."""

    def __init__(self, broker: EmbeddedBroker, topic: str = "progress") -> None:
        super().__init__(broker)
        self._topic = topic
        self._left = topic == "progress"  # a start reads how many tasks there are

    def answers_once(self) -> None:
        """Let the next reader answer."""
        self._left = True

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader; it stays silent on the chosen topic unless the next answer is due."""
        reader = super().reader(partition, committed=committed)
        if partition.topic.endswith(self._topic) and not self._left:
            reader.poll = lambda *_: None  # type: ignore[method-assign]
        self._left = False
        return reader


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["progress", "changelog"])
def test_a_restore_without_progress_is_given_up(topic: str) -> None:
    """A task must not wait forever: after the timeout, the error says how far it came and what is missing."""
    world = _world_after()
    start_s = world.clock.monotonic_s()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        world.worker(cluster=_Silent(world.broker, topic)).run(_never())
    assert 60 < world.clock.monotonic_s() - start_s < MAX_POLL_INTERVAL_S + 63


def test_an_outage_is_no_fault_of_the_state() -> None:
    """Time in which no broker can be reached does not count."""
    world = _world_after()
    member = world.worker(cluster=_Silent(world.broker), is_cut_off=lambda: True)
    member.run(lambda: world.clock.monotonic_s() > 1_000)
    assert [task.state for task in member.tasks] == []


@pytest.mark.slow
def test_a_process_that_was_frozen_has_not_waited() -> None:
    """A process that was paused during a restore continues where it was."""
    world = _world_after()
    cluster = _Silent(world.broker)
    member = _started(world.worker(cluster=cluster))
    for _ in range(5):
        member.turn()
    world.clock.advance(MAX_POLL_INTERVAL_S - 5)
    member.turn()
    assert [task.state for task in member.tasks] == [TaskState.READING] * PARTITIONS
    cluster.answers_once()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        _turns(*[member] * 20, until=lambda: False)
