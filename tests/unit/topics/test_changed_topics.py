"""Topics that an administrator deletes and creates again: each state has an outcome that a person reads."""

import logging
from collections.abc import Callable, Sequence

import pytest

from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.problems import ProblemCode
from stream_app.backends.base import TopicPartition
from stream_app.errors import ErrorCode, StateError, TopicError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.task_state import TaskState
from stream_app.worker.retention.topic_watch import ASK_INTERVAL_S
from stream_app.worker.worker import Worker
from tests.support.world import MAX_POLL_INTERVAL_S, World, make_config, started, take_turns

pytestmark = pytest.mark.slow

COUNT = 20
OUTPUTS = [name.replace("-", "_") for name in OUTPUT_TOPICS]


def _recreate(world: World, names: Sequence[str]) -> None:
    for name in names:
        topic = getattr(world.config.topics, name)
        world.broker.delete_topic(topic)
        world.add_topic(topic)


def _world(**worker: int) -> tuple[World, Worker]:
    world = World(make_config(worker=worker))
    for number in range(3):  # dead letters, too
        world.put("examples", 0, b"s0", b"no record", number)
    world.send(COUNT)
    member = started(world.worker())
    take_turns(member, until=lambda: sum(sum(task.offsets) for task in member.tasks) == 4 * COUNT + 3)
    return world, member


def _reaches(member: Worker, count: int) -> Callable[[], bool]:
    return lambda: (
        len(member.tasks) == 2
        and all(task.state is TaskState.LIVE for task in member.tasks)
        and sum(sum(task.offsets) for task in member.tasks) == 4 * count + 3
    )


@pytest.mark.parametrize("names", [["predictions"], ["outcomes", "metrics"], OUTPUTS])
@pytest.mark.parametrize("when", ["running", "idle", "killed", "stopped"])
def test_outputs_that_were_created_again(names: Sequence[str], when: str, caplog: pytest.LogCaptureFixture) -> None:
    """The task was parked for ever, although progress, snapshot and inputs are all there."""
    world, member = _world(snapshot_after_ms=3_600_000)
    digests = [task.live.task.model_digests() for task in member.tasks]
    if when == "stopped":
        member.run(lambda: True)
    if when in ("killed", "stopped"):
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    _recreate(world, names)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "areba.worker"):
        if when in ("killed", "stopped"):
            member = started(world.worker())
            take_turns(member, until=_reaches(member, COUNT))
            assert [task.live.task.model_digests() for task in member.tasks] == digests
        elif when == "idle":
            world.clock.advance(ASK_INTERVAL_S + 1)
            take_turns(member, until=lambda: "deleted and created again" in caplog.text)
        world.send(5, first=COUNT)
        take_turns(member, until=_reaches(member, COUNT + 5))
    for name in names:
        assert f"{name.replace('_', '-')} was deleted and created again" in caplog.text
    for name in {"predictions", "outcomes"} & set(names):
        assert len(world.rows(name, 0)) == 5
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)  # and a crash after it
    again = started(world.worker())
    world.send(5, first=COUNT + 5)
    take_turns(again, until=_reaches(again, COUNT + 10))
    assert all(view.problem is None for view in inspect(world.cluster, world.config).tasks)


@pytest.mark.parametrize("turns", range(1, 16, 2))
def test_outputs_that_are_created_again_while_tasks_are_restored(turns: int, caplog: pytest.LogCaptureFixture) -> None:
    """The restore began with offsets of the deleted topics; a new restore begins, and no task is parked."""
    world, member = _world(snapshot_after_ms=3_600_000)
    digests = [task.live.task.model_digests() for task in member.tasks]
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    member = started(world.worker())
    for _ in range(turns):
        member.turn()
    _recreate(world, OUTPUTS)
    world.clock.advance(ASK_INTERVAL_S + 1)
    take_turns(member, until=_reaches(member, COUNT))
    assert "parked" not in caplog.text
    assert [task.live.task.model_digests() for task in member.tasks] == digests


@pytest.mark.parametrize("names", [["examples"], ["labels"], ["examples", "labels"]])
def test_inputs_that_were_created_again_are_other_topics(
    names: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the application belongs to them: parked within seconds, with the command in the line."""
    world, member = _world()
    _recreate(world, names)
    world.clock.advance(ASK_INTERVAL_S + 1)
    with pytest.raises(StateError, match=ErrorCode.INPUTS_REPLACED):
        take_turns(member, until=lambda: False)
    assert "Another application.id" in caplog.text
    assert {view.code for view in inspect(world.cluster, world.config).tasks} == {ErrorCode.INPUTS_REPLACED}


@pytest.mark.parametrize("is_running", [True, False])
def test_progress_that_was_created_again(*, is_running: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The task cannot be restored; the line names the topic, at once."""
    world, member = _world(snapshot_after_ms=0)
    if not is_running:
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    _recreate(world, ["progress"])
    if not is_running:
        assert {view.code for view in inspect(world.cluster, world.config).tasks} == {ErrorCode.PROGRESS_LOST}
        member = started(world.worker())
    world.send(5, first=COUNT)
    began_s = world.clock.monotonic_s()
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        take_turns(member, until=lambda: False)
    assert world.clock.monotonic_s() < began_s + 30
    assert "parked task=0: progress[0]: records that were there are gone" in caplog.text


def test_a_changelog_that_was_created_again_gets_a_new_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    """The snapshots are gone, and progress begins after them: only the worker's memory has the state."""
    world, member = _world(snapshot_after_ms=0)
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    _recreate(world, ["changelog"])
    world.clock.advance(ASK_INTERVAL_S + 1)
    take_turns(member, until=lambda: world.rows("changelog", 0) != [] and world.rows("changelog", 1) != [])
    assert "changelog was deleted and created again" in caplog.text
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    digests = [task.live.task.model_digests() for task in member.tasks]
    for topic in ("examples", "labels"):
        for number in range(2):
            place = TopicPartition(topic, number)
            world.broker.delete_before(place, world.broker.watermarks(place).high)
    again = started(world.worker())
    take_turns(again, until=_reaches(again, COUNT))
    assert [task.live.task.model_digests() for task in again.tasks] == digests


def test_settings_that_change_under_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    """With `cleanup.policy=delete`, the broker deletes the snapshots: the models would be lost at the next restart."""
    world, member = _world()
    changelog = world.config.topics.changelog
    settings = dict(world.broker.topic(changelog).settings)
    assert not _codes(world)
    with caplog.at_level(logging.WARNING, "areba.worker"):
        for policy, lines in (("delete", 1), ("delete", 1), ("compact", 1)):
            world.broker.alter_topic(changelog, {**settings, "cleanup.policy": policy})
            world.clock.advance(ASK_INTERVAL_S + 1)
            _look(member)
            found = [line.getMessage() for line in caplog.records if vars(line).get("event") == "topics"]
            assert len(found) == lines, "once"
            assert changelog in found[0]
            assert _codes(world) == ([ProblemCode.TOPICS] if policy == "delete" else [])


def test_a_topic_that_is_missing_under_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    """The changelog is not written for hours in a quiet application: nobody would notice."""
    world, member = _world()
    world.clock.advance(ASK_INTERVAL_S + 1)
    _look(member)  # the first snapshot is written
    world.broker.delete_topic(world.config.topics.changelog)
    world.clock.advance(ASK_INTERVAL_S + 1)
    with caplog.at_level(logging.WARNING, "areba.worker"):
        _look(member)
    found = [line.getMessage() for line in caplog.records if vars(line)["event"] == "topics"]
    assert len(found) == 1
    assert world.config.topics.changelog in found[0]
    with pytest.raises(TopicError, match=world.config.topics.changelog):
        inspect(world.cluster, world.config)


def _codes(world: World) -> list[ProblemCode]:
    """Return the codes of what is wrong; there are dead letters in each world."""
    return [
        one.code for one in inspect(world.cluster, world.config).problems() if one.code is not ProblemCode.DEAD_LETTERS
    ]


def _look(member: Worker) -> None:
    """Let the worker ask for its topics, and take the answer."""
    for _ in range(10):
        member.turn()
