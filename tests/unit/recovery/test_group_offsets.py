"""Progress alone says how far a task is: whatever becomes of the group's offsets has no effect on it."""

from collections.abc import Callable

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.problems import ProblemCode
from stream_app.backends.base import TopicPartition
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.damages.world import (
    COUNT,
    beyond_the_end,
    committed_offsets,
    lose_labels,
    lose_offsets,
    one_back,
    processed_world,
    to_the_first,
)
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, started, take_turns, undisturbed_outputs

pytestmark = pytest.mark.slow


def _digests(member: Worker) -> list[str]:
    return [task.live.model_digest() for task in member.tasks]


def _problems(world: World) -> list[ProblemCode]:
    return [problem.code for problem in inspect(world.cluster, world.config).problems()]


@pytest.mark.parametrize("after_ms", [0, 3_600_000], ids=["with snapshots", "without"])
@pytest.mark.parametrize("change", [lose_offsets, lose_labels, to_the_first, one_back, beyond_the_end])
def test_a_task_continues_with_the_same_bits(change: Callable[[World], None], after_ms: int) -> None:
    """A reset at the wrong group, a deletion or a holiday must not double outputs, or ask somebody for a command."""
    world, member = processed_world(after_ms=after_ms)
    before, offsets = _digests(member), committed_offsets(world)
    change(world)
    again = started(world.worker())
    take_turns(again, until=all_at(again, COUNT))
    assert _digests(again) == before
    assert all((task.report.loaded_sequence >= 0) == (after_ms == 0) for task in again.tasks)
    world.send(6, first=COUNT)
    take_turns(again, until=all_at(again, COUNT + 6))
    assert world.outputs() == undisturbed_outputs(COUNT, 6)
    assert committed_offsets(world) == {place: known + 6 for place, known in offsets.items()}, "the lag is right again"
    third = started(world.worker())
    take_turns(third, until=all_at(third, COUNT + 6))
    assert _digests(third) == _digests(again)


@pytest.mark.parametrize(
    ("change", "is_named"),
    [
        (to_the_first, True),
        (one_back, True),
        (beyond_the_end, True),
        (lose_offsets, False),  # they expire while no worker runs
        (lose_labels, False),
    ],
)
@pytest.mark.parametrize("has_workers", [False, True], ids=["stopped", "running"])
def test_inspect_names_a_change(change: Callable[[World], None], *, is_named: bool, has_workers: bool) -> None:
    """Somebody works on the group, and does not know that it has no effect."""
    world, member = processed_world()
    if not has_workers:
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    before = _problems(world)
    change(world)
    is_named &= not has_workers or change is beyond_the_end  # older offsets may just have been read too early
    assert _problems(world) == [ProblemCode.GROUP_OFFSETS] * (PARTITIONS if is_named else 0) + before
    views = inspect(world.cluster, world.config).tasks
    assert [(view.state, view.code, view.command) for view in views] == [
        (TaskState.RUNNING if has_workers else TaskState.IDLE, None, None)
    ] * PARTITIONS
    member = member if has_workers else started(world.worker())
    world.send(3, first=COUNT)
    take_turns(member, until=all_at(member, COUNT + 3))
    assert _problems(world) == []


def test_inputs_and_progress_were_deleted_meanwhile() -> None:
    """Retention continues in a pause of weeks: the snapshot that progress names is enough."""
    world, member = processed_world()
    before = _digests(member)
    lose_offsets(world)
    for number in range(PARTITIONS):
        for topic in ("examples", "labels"):
            world.broker.delete_before(TopicPartition(topic, number), member.tasks[number].offsets[0])
        world.broker.compact(TopicPartition(world.config.topics.changelog, number))
        world.broker.delete_before(
            TopicPartition(world.config.topics.progress, number), member.tasks[number].live.needed_progress or 0
        )
    again = started(world.worker())
    take_turns(again, until=all_at(again, COUNT))
    assert _digests(again) == before
