"""How many tasks of a worker are restored at the same time."""

import pytest

from stream_app.backends.base import LogReader, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.task_state import TaskState
from stream_app.worker import restorer
from tests.support.world import World, all_at, started, take_turns, undisturbed_outputs, world_after


def test_few_tasks_are_restored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each restore reads with a client of its own: those of 256 tasks kept the broker busy for minutes."""
    monkeypatch.setattr(restorer, "RESTORES_AT_ONCE", 1)
    monkeypatch.setattr(restorer, "RESTORE_SLICE_S", -1.0)
    world = world_after(4)
    member, seen = started(world.worker()), list[list[TaskState]]()

    def is_live() -> bool:
        seen.append([task.state for task in member.tasks])
        return all_at(member, 4)()

    take_turns(member, until=is_live)
    restoring = [sum(state.is_restoring for state in states) for states in seen]
    assert max(restoring) == 1
    assert any(TaskState.ASSIGNED in states and TaskState.READING in states for states in seen)
    assert world.outputs() == undisturbed_outputs(4)


class _FirstTaskIsSilent(EmbeddedCluster):
    """Its readers of the first task's changelog have nothing to say."""

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader."""
        reader = super().reader(partition, committed=committed)
        if partition.topic.endswith("changelog") and partition.partition == 0:
            reader.poll = lambda *_: None  # type: ignore[method-assign]
        return reader


def test_a_restore_without_a_broker_keeps_no_other_task_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader of a task's topics may be away for long; the other tasks are restored meanwhile."""
    monkeypatch.setattr(restorer, "RESTORES_AT_ONCE", 1)
    world: World = world_after(4)
    member = started(world.worker(cluster=_FirstTaskIsSilent(world.broker)))

    def one_is_live() -> bool:
        world.clock.advance(0.5)
        return TaskState.LIVE in [task.state for task in member.tasks]

    take_turns(member, until=one_is_live)
    assert [task.state for task in member.tasks] == [TaskState.LOADING, TaskState.LIVE]
