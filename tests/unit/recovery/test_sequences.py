"""Records of progress that do not follow one another: their task is parked, and an operator sees it beforehand."""

from collections.abc import Sequence

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.errors import ErrorCode
from stream_app.progress_records import RESET, Act
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from tests.support.world import MAX_POLL_INTERVAL_S, World, all_at, make_config, started, take_turns

COUNT = 20


@pytest.mark.parametrize("later", [(-1,), (2,), (0, 0), (0, 1, 1)])
def test_what_cannot_be_restored_is_reported_before_a_worker_starts(later: Sequence[int]) -> None:
    """Brokers refuse all writers but one, so a sequence that is missing or comes twice is damage: nobody may guess."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    world.send(COUNT)
    take_turns(member := started(world.worker()), until=all_at(member, COUNT))
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    following = world.progress(0)[-1].sequence + 1
    for more in later:
        world.put("progress", 0, None, codec.encode(Act(following + more, RESET, "0", "s0")))
    found = inspect(world.cluster, world.config)
    assert [(view.state, view.code) for view in found.tasks] == [
        (TaskState.PARKED, ErrorCode.STATE_UNUSABLE),
        (TaskState.IDLE, None),
    ]
    assert not found.ok
    assert Code.WRONG_SEQUENCE in {finding.code for finding in verify(world.cluster, world.config).findings}
    member = started(world.worker())
    take_turns(member, until=lambda: [task.state for task in member.tasks] == [TaskState.PARKED, TaskState.LIVE])
