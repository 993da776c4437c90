"""Two acts with one sequence, as commands wrote that did not fence one another: both hold, and the task continues."""

from collections.abc import Sequence

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.models import rebuild
from stream_app.admin.reset import reset
from stream_app.backends.partitioner import partition_of
from stream_app.errors import ErrorCode
from stream_app.records import RESET, Act, Example, Label
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, make_config, started, take_turns

COUNT = 20

OTHER = next(name for name in map("other{}".format, range(9)) if not partition_of(name.encode(), PARTITIONS))


def _world(snapshot_after_ms: int) -> World:
    """Return a world whose task 0 has two streams."""
    world = World(make_config(streams={OTHER: {"features": 1}}, worker={"snapshot_after_ms": snapshot_after_ms}))
    for number in range(COUNT // 2):
        for stream in ("s0", OTHER):
            time_ms = 10 * number + 1
            world.put("examples", 0, stream.encode(), codec.encode(Example(stream, str(number), [1.0])), time_ms)
            world.put("labels", 0, stream.encode(), codec.encode(Label(stream, str(number), number % 2)), time_ms + 5)
    world.send(COUNT, partitions=[1])
    take_turns(member := started(world.worker()), until=all_at(member, COUNT))
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    return world


def _write(world: World, acts: Sequence[tuple[int, str]]) -> int:
    """Write resets with sequences relative to the next sequence; return the next sequence."""
    following = world.progress(0)[-1].sequence + 1
    for more, stream in acts:
        world.put("progress", 0, None, codec.encode(Act(following + more, RESET, "0", stream)))
    return following


@pytest.mark.parametrize("snapshot_after_ms", [0, 3_600_000])
@pytest.mark.parametrize(
    ("acts", "is_next"),
    [
        ([(0, "s0"), (0, OTHER)], 1),
        ([(0, "s0"), (0, "s0")], 1),
        ([(0, "s0"), (1, OTHER), (0, OTHER)], 2),
        ([(0, "s0"), (0, OTHER), (1, "s0"), (1, OTHER)], 2),
    ],
)
def test_both_acts_hold(snapshot_after_ms: int, acts: Sequence[tuple[int, str]], is_next: int) -> None:
    """All models of the partition were lost to the application: no command brought the task back."""
    world = _world(snapshot_after_ms)
    following = _write(world, acts)
    assert [view.problem for view in inspect(world.cluster, world.config).tasks] == [None, None]
    assert verify(world.cluster, world.config, rerun=True).ok
    assert "would start again" in next(iter(reset(world.place(), "s0", 0, dry_run=True)))
    world.send(5, first=COUNT)
    member = started(world.worker())
    take_turns(member, until=all_at(member, COUNT + 5))
    assert world.progress(0)[following + len(acts) :][0].sequence == following + is_next
    held = member.tasks[0].live.task
    assert held.stream("s0").learners[0].arrays()["updates"].sum() > 0
    digests = held.model_digests()
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    assert rebuild(world.place(), 0, None).task.model_digests() == digests
    take_turns(again := started(world.worker()), until=all_at(again, COUNT + 5))
    assert again.tasks[0].live.task.model_digests() == digests
    assert verify(world.cluster, world.config, rerun=True).ok


@pytest.mark.parametrize("more", [-1, 2])
def test_a_task_that_cannot_be_restored_is_reported_before_a_start(more: int) -> None:
    """An operator who looks after two commands, and before a worker starts, sees the task that would be parked."""
    world = _world(0)
    _write(world, [(more, "s0")])
    found = inspect(world.cluster, world.config)
    assert [(view.state, view.code) for view in found.tasks] == [
        (TaskState.PARKED, ErrorCode.STATE_UNUSABLE),
        (TaskState.IDLE, None),
    ]
    assert not found.ok
    assert Code.WRONG_SEQUENCE in {finding.code for finding in verify(world.cluster, world.config).findings}
    member = started(world.worker())
    take_turns(member, until=lambda: [task.state for task in member.tasks] == [TaskState.PARKED, TaskState.LIVE])
