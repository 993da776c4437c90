"""`areba inspect` reports each task to an operator, from the topics and the group alone."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_app.admin import history, inspect_tasks
from stream_app.admin.history import records_of
from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.cli import clients
from stream_app.cli.main import cli
from stream_app.errors import ConfigurationError, ErrorCode, TopicError
from stream_app.record_columns import OutputRecords
from stream_app.records import RESUME, Act, Commit, Example
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from tests.support.damages.world import (
    COUNT,
    _foreign_offsets,
    _lose_examples,
    _lose_offsets,
    _lose_progress,
    _new_topic,
    _newer_format,
    _older_offsets,
    _other_digest,
    _other_offsets,
    _processed,
    _to_the_first,
    _tripped_world,
    _unequal_offsets,
)
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, _all_at, _config, _started, _turns

RECOMMIT = "areba state recommit"


def test_a_healthy_application() -> None:
    """The report says where every task is, its lag, and its snapshot, before, during and after a run."""
    world = World(_config(worker={"snapshot_after_ms": 0}))
    world.send(3)
    nothing = inspect(world.cluster, world.config)
    assert (nothing.ok, nothing.workers) == (False, 0)
    assert [(view.state, view.sequence, view.engine, view.inputs[0].lag) for view in nothing.tasks] == [
        (TaskState.NEW, -1, None, 3)
    ] * PARTITIONS

    member = _started(world.worker())
    _turns(member, until=_all_at(member, 3))
    _turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    world.send(2, first=3, partitions=[1])
    found = inspect(world.cluster, world.config)
    assert (found.ok, found.workers) == (True, 1)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING] * PARTITIONS
    assert [[(one.topic, one.committed, one.high, one.lag) for one in view.inputs] for view in found.tasks] == [
        [("examples", 3, 3, 0), ("labels", 3, 3, 0)],
        [("examples", 3, 5, 2), ("labels", 3, 5, 2)],
    ]
    assert [view.sequence for view in found.tasks] == [task.point.sequence for task in member.tasks]
    assert [view.snapshot_sequence for view in found.tasks] == [view.sequence for view in found.tasks]
    assert all(view.engine and view.snapshots > 0 and view.problem is None for view in found.tasks)

    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    dead = inspect(world.cluster, world.config, [1])
    assert (dead.ok, dead.workers, [(view.task, view.state) for view in dead.tasks]) == (
        False,
        0,
        [(1, TaskState.IDLE)],
    )


def test_markers_are_no_lag() -> None:
    """After `areba dlq replay` an input ends with a marker, which no commit passes: nothing is left to process."""
    world = World()
    example = codec.encode(Example("s0", "0", [1.0]))
    place = TopicPartition("examples", 0)
    member = _started(world.worker())

    def lag() -> int:
        return inspect(world.cluster, world.config, [0]).tasks[0].inputs[0].lag

    replay = world.open_transaction("replay")
    replay.initialise()
    for turn in range(2):
        replay.begin()
        replay.produce(place, OutputRecords.of([b"s0"], [example], [turn + 1]))
        assert lag() > 0, "a transaction that is open may be committed"
        replay.commit()
        assert lag() > 0
        _turns(member, until=lambda: lag() == 0)
        known = inspect(world.cluster, world.config, [0]).tasks[0].inputs[0]
        assert known.committed == 2 * turn + 1
        assert known.high == 2 * turn + 2


def test_a_task_that_the_breaker_stopped() -> None:
    """Reason and command, until the task is resumed; the act counts immediately, even before a worker reads it."""
    world, member = _tripped_world()
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert [view.state for view in found.tasks] == [TaskState.TRIPPED, TaskState.RUNNING]
    assert found.tasks[0].command == "areba resume --task 0"
    [line] = found.problems()
    assert line == (
        "task 0: tripped: 3 unreadable examples in a row (limit 3); fix the producer, then: areba resume --task 0"
    )
    sequence = member.tasks[0].point.sequence
    world.resume(0, sequence + 5)  # from an earlier stop: not for this one
    assert inspect(world.cluster, world.config).tasks[0].state is TaskState.TRIPPED
    world.put("progress", 0, None, codec.encode(Act(sequence + 1, RESUME, "0", "")))
    again = inspect(world.cluster, world.config)
    assert (again.ok, again.tasks[0].state) == (True, TaskState.RUNNING)
    _turns(member, until=lambda: member.tasks[0].state is TaskState.LIVE)
    world.send(2, first=30)
    _turns(member, until=lambda: member.tasks[0].offsets == (11, 8))
    assert inspect(world.cluster, world.config).ok


@pytest.mark.parametrize(
    ("damage", "code", "command"),
    [
        (_lose_offsets, ErrorCode.OFFSETS_LOST, RECOMMIT),
        (_foreign_offsets, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_to_the_first, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_older_offsets, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_other_offsets, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_unequal_offsets, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_other_digest, ErrorCode.OFFSETS_RESET, RECOMMIT),
        (_newer_format, ErrorCode.FORMAT_UNKNOWN, None),
    ],
)
def test_a_task_that_cannot_be_restored(damage: Callable[[World], None], code: ErrorCode, command: str | None) -> None:
    """An operator sees the problem and its remedy before the next rebalance parks the task."""
    world, _ = _processed()
    damage(world)
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert [view.state for view in found.tasks] == [TaskState.PARKED] * PARTITIONS
    for view, line in zip(found.tasks, found.problems(), strict=True):
        assert (view.code, view.command) == (code, command)
        assert line.startswith(f"task {view.task}: parked: ")
        assert line.endswith(f"[{code}]")


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_lose_examples, ErrorCode.INPUTS_DELETED),
        (_lose_progress, ErrorCode.SNAPSHOT_MISSING),
        (_new_topic, ErrorCode.OFFSETS_RESET),
    ],
)
def test_without_a_snapshot(damage: Callable[[World], None], code: ErrorCode) -> None:
    """Without a snapshot, a restore needs all inputs from the first offset on."""
    world = World()
    world.send(20)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, 20))
    found = inspect(world.cluster, world.config)
    assert found.ok
    assert all(view.engine and (view.snapshots, view.snapshot_sequence) == (0, -1) for view in found.tasks)
    damage(world)
    broken = inspect(world.cluster, world.config)
    assert [view.state for view in broken.tasks] == [TaskState.PARKED] * PARTITIONS
    assert broken.tasks[0].code is code


def test_progress_that_is_another_one() -> None:
    """A topic that was created again lacks what the group committed, and so does a topic with foreign records."""
    world, _ = _processed()
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.progress, number), 10**6)
    assert inspect(world.cluster, world.config).tasks[0].code is ErrorCode.OFFSETS_RESET
    world, _ = _processed()
    world.put("progress", 1, None, b"not ours")
    found = inspect(world.cluster, world.config)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING, TaskState.PARKED]
    assert found.tasks[1].code is ErrorCode.STATE_UNUSABLE


def test_a_worker_that_continues_meanwhile_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at different moments never looks like offsets that were reset."""
    world, member = _processed()
    read = history.progress_tail
    count = COUNT

    def later(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
        nonlocal count
        found: list[Commit | Act] = []
        for _ in range(2):  # once before progress is read, once after
            world.send(3, first=count)
            count += 3
            _turns(member, until=_all_at(member, count))
            found = found or read(cluster, progress)
        return found

    monkeypatch.setattr(inspect_tasks, "progress_tail", later)
    found = inspect(world.cluster, world.config)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING] * PARTITIONS, list(found.problems())


def test_only_the_tail_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads progress from its end, only as far as it needs to find the last commit."""
    monkeypatch.setattr(history, "TAIL_RECORDS", 2)
    world, member = _processed()
    starts = []

    def noting(cluster: Cluster, place: TopicPartition, begin: int = 0) -> Iterator[tuple[int, bytes | None]]:
        starts.append(begin)
        return records_of(cluster, place, begin)

    monkeypatch.setattr(history, "records_of", noting)
    assert inspect(world.cluster, world.config, [0]).ok
    high = world.cluster.watermarks(TopicPartition(world.config.topics.progress, 0)).high
    assert starts
    assert min(starts) >= high - 20
    for _ in range(3):
        world.resume(0, member.tasks[0].point.sequence + 1)
    assert inspect(world.cluster, world.config, [0]).tasks[0].sequence == member.tasks[0].point.sequence


def _world_without(topic: str) -> World:
    world = World()
    del world.broker._topics[topic]
    return world


def test_what_is_not_there_is_named() -> None:
    """A mistake of the operator gives one line, not a traceback."""
    world = World()
    with pytest.raises(ConfigurationError, match="there is no task 2: the application has 2"):
        inspect(world.cluster, world.config, [2])
    with pytest.raises(TopicError, match="app-progress: the topic does not exist"):
        inspect(_world_without("app-progress").cluster, world.config)


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Operators and scripts call it: exit status 1 if action is needed."""
    world, _ = _tripped_world()
    monkeypatch.setattr(clients, "connect", lambda _: world.cluster)
    file = tmp_path / "areba.yaml"
    file.write_text("application: {id: app, instance: w}\nstreams: {s0: {features: 1}, s1: {features: 1}}\n")
    monkeypatch.setenv("COLUMNS", "120")
    shown = CliRunner().invoke(cli, ["inspect", "-c", str(file)])
    assert shown.exit_code == 1
    assert "app: 1 worker" in shown.output
    assert shown.output.endswith("fix the producer, then: areba resume --task 0\n")
    assert CliRunner().invoke(cli, ["inspect", "-c", str(file), "--task", "1"]).exit_code == 0
    result = CliRunner().invoke(cli, ["inspect", "-c", str(file), "--json"])
    assert result.exit_code == 1
    plain = json.loads(result.stdout)
    assert (plain["application"], plain["workers"], plain["ok"]) == ("app", 1, False)
    assert plain["tasks"][0] == {
        "task": 0,
        "state": "tripped",
        "problem": "3 unreadable examples in a row (limit 3)",
        "code": None,
        "command": "areba resume --task 0",
        "examples": {"topic": "examples", "committed": 9, "end": 9, "lag": 0},
        "labels": {"topic": "labels", "committed": 6, "end": 6, "lag": 0},
        "sequence": plain["tasks"][0]["sequence"],
        "snapshots": 0,
        "snapshot_sequence": None,
        "snapshot_bytes": None,
        "engine": plain["tasks"][0]["engine"],
        "dead_letters": [{"reason": "wrong-schema", "records": 3, "offset": 2, "stream": ""}],
        "dead_letters_are_all": True,
        "label_flow": plain["tasks"][0]["label_flow"],
    }
    assert [one["stream"] for one in plain["tasks"][0]["label_flow"]] == ["s0"]
    assert plain["tasks"][1]["state"] == "running"


def test_offsets_beyond_the_end() -> None:
    """Inputs that were deleted and created again are not those that were read."""
    world, _ = _processed()
    log = world.broker._logs[TopicPartition("labels", 1)]
    log.entries.clear()
    log.low = log.high = 0
    found = inspect(world.cluster, world.config)
    assert [view.code for view in found.tasks] == [None, ErrorCode.INPUTS_REPLACED]
