"""Tasks that cannot be restored: each is parked with the code of its problem, and the others continue."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.backends.base import LogReader, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.errors import (
    ErrorCode,
    StateError,
)
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker import restorer
from tests.support.damages.world import (
    empty_progress,
    last_commit,
    lose_examples,
    lose_progress,
    processed_world,
    recreate_progress,
)
from tests.support.world import (
    MAX_POLL_INTERVAL_S,
    PARTITIONS,
    World,
    all_at,
    make_config,
    never,
    started,
    take_turns,
    undisturbed_outputs,
    world_after,
)


def test_a_zombie_that_wakes_while_restoring_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner has saved the task, and inputs were deleted: an operator would find nothing wrong."""
    world = World(make_config(worker={"max_batch_records": 1, "snapshot_after_ms": 0}))
    world.send(4)
    zombie = started(world.worker())
    zombie._poll(0.0)
    monkeypatch.setattr(restorer, "RESTORE_SLICE_S", -1.0)
    take_turns(zombie, until=lambda: [task.state for task in zombie.tasks] == [TaskState.READING] * PARTITIONS)
    monkeypatch.undo()
    other = started(world.worker(make_config(application={"instance": "two"}, worker={"snapshot_after_ms": 0})))
    take_turns(other, until=lambda: all_at(other, 4)() and not any(task.is_saving for task in other.tasks))
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.examples, number), 4)
    for _ in range(20):
        zombie._restorer.run_slice()
    assert not zombie.tasks, "neither is parked"
    two = (zombie, other)
    take_turns(*two, until=lambda: [task.offsets for member in two for task in member.tasks] == [(4, 4)] * 2)
    assert world.outputs() == undisturbed_outputs(4)


def test_one_parked_task_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The line names the task and the remedy; the other task continues, and the worker ends with status 0."""
    world = world_after()
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
    last = last_commit(world, number)
    values = {name: getattr(last, name) for name in Commit.__slots__}
    starts = {"examples_start": last.examples_end, "labels_start": last.labels_end}
    return codec.encode(Commit(**{**values, **starts, "sequence": last.sequence + 1, **changed}))


def _forge_commit(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, digest=b"\1" * 32))


def _forge_ranges(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, examples_start=3, digest=b"\1" * 32))


def _forge_end(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, examples_end=99))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lose_examples, ErrorCode.INPUTS_DELETED),
        (lose_progress, ErrorCode.PROGRESS_LOST),
        (_forge_end, ErrorCode.INPUTS_REPLACED),
        (_forge_commit, ErrorCode.DIGEST_DIFFERS),
        (_forge_ranges, ErrorCode.STATE_UNUSABLE),
    ],
)
def test_state_that_does_not_fit(damage: Callable[[World], None], code: ErrorCode) -> None:
    """The worker ends with status 3 and one line with both numbers, and writes no record."""
    world = world_after()
    damage(world)
    _check_parked(world, code)


@pytest.mark.parametrize("damage", [empty_progress, recreate_progress])
def test_progress_that_is_empty_beside_a_snapshot(damage: Callable[[World], None]) -> None:
    """A task that began again would publish every output a second time, with models that have forgotten all."""
    world, _ = processed_world()
    damage(world)
    _check_parked(world, ErrorCode.PROGRESS_LOST)


def _check_parked(world: World, code: ErrorCode) -> None:
    """Check that a worker parks all tasks with this code, and writes no output."""
    before = world.outputs()
    with pytest.raises(StateError) as caught:
        world.worker().run(never())
    assert caught.value.code is code
    assert "\n" not in str(caught.value)
    assert world.outputs() == before


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
    world = world_after()
    start_s = world.clock.monotonic_s()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        world.worker(cluster=_Silent(world.broker, topic)).run(never())
    assert 60 < world.clock.monotonic_s() - start_s < MAX_POLL_INTERVAL_S + 63


def test_an_outage_is_no_fault_of_the_state() -> None:
    """Time in which no broker can be reached does not count."""
    world = world_after()
    member = world.worker(cluster=_Silent(world.broker), is_cut_off=lambda: True)
    member.run(lambda: world.clock.monotonic_s() > 1_000)
    assert [task.state for task in member.tasks] == []


@pytest.mark.slow
def test_a_process_that_was_frozen_has_not_waited() -> None:
    """A process that was paused during a restore continues where it was."""
    world = world_after()
    cluster = _Silent(world.broker)
    member = started(world.worker(cluster=cluster))
    for _ in range(5):
        member.turn()
    world.clock.advance(MAX_POLL_INTERVAL_S - 5)
    member.turn()
    assert [task.state for task in member.tasks] == [TaskState.LOADING] * PARTITIONS
    cluster.answers_once()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        take_turns(*[member] * 20, until=lambda: False)
