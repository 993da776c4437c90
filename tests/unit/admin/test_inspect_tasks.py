"""`areba inspect` reports each task to an operator, from the topics and the group alone."""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_app.admin import inspect_tasks, standstill
from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.inspection import Inspection
from stream_app.admin.problems import ProblemCode
from stream_app.admin.progress import reading
from stream_app.backends import held_back, progress
from stream_app.backends.base import Cluster, LogReader, TopicPartition
from stream_app.backends.reading import Take, read_in_steps
from stream_app.cli import clients
from stream_app.cli.main import cli
from stream_app.errors import ConfigurationError, ErrorCode, OffsetGoneError, TopicError
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import OutputRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from tests.support.damages.world import (
    COUNT,
    empty_progress,
    lose_examples,
    lose_progress,
    processed_world,
    recreate_progress,
    stopped_world,
)
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, make_config, started, take_turns


def test_a_healthy_application() -> None:
    """The report says where every task is, its lag, and its snapshot, before, during and after a run."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    world.send(3)
    nothing = inspect(world.cluster, world.config)
    assert (nothing.ok, nothing.workers) == (False, 0)
    assert [(view.state, view.sequence, view.engine, view.inputs[0].lag) for view in nothing.tasks] == [
        (TaskState.NEW, -1, None, 3)
    ] * PARTITIONS

    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    world.send(2, first=3, partitions=[1])
    found = inspect(world.cluster, world.config, clock=world.clock)
    assert (found.ok, found.workers) == (True, 1)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING] * PARTITIONS
    assert [[(one.topic, one.committed, one.high, one.lag) for one in view.inputs] for view in found.tasks] == [
        [("examples", 3, 3, 0), ("labels", 3, 3, 0)],
        [("examples", 3, 5, 2), ("labels", 3, 5, 2)],
    ]
    assert [view.sequence for view in found.tasks] == [task.position.anchor.sequence for task in member.tasks]
    assert [view.snapshot_sequence for view in found.tasks] == [view.sequence for view in found.tasks]
    assert all(view.engine and view.snapshots > 0 and view.problem is None for view in found.tasks)

    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    dead = inspect(world.cluster, world.config, [1])
    assert (dead.ok, dead.workers, [(view.task, view.state) for view in dead.tasks]) == (
        False,
        0,
        [(1, TaskState.IDLE)],
    )


def test_markers_are_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `areba dlq resend` an input ends with a marker, which a commit passes: nothing is left to process."""
    world = World()
    monkeypatch.setattr(held_back, "WATCH_S", 1.0)
    example = codec.encode(Example("s0", "0", [1.0]))
    place = TopicPartition("examples", 0)
    member = started(world.worker())

    def lag() -> int:
        return inspect(world.cluster, world.config, [0], clock=world.clock).tasks[0].inputs[0].lag

    resend = world.open_transaction("resend")
    resend.initialise()
    for turn in range(2):
        resend.begin()
        resend.produce(place, OutputRecords.of([b"s0"], [example], [turn + 1]))
        assert lag() > 0, "a transaction that is open may be committed"
        resend.commit()
        assert lag() > 0
        take_turns(member, until=lambda: lag() == 0)
        known = inspect(world.cluster, world.config, [0]).tasks[0].inputs[0]
        assert known.committed == 2 * turn + 2
        assert known.high == 2 * turn + 2


def test_an_input_that_an_open_transaction_holds_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the partition, the offset and what waits; a transaction that ends in time is no problem."""
    world = World()
    monkeypatch.setattr(held_back, "WATCH_S", 2.0)
    world.send(3)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    other = world.open_transaction("other")
    other.initialise()
    other.begin()
    labels = OutputRecords.of([b"s1"] * 4, [codec.encode(Label("s1", str(number), 1)) for number in range(4)], [1] * 4)
    other.produce(TopicPartition("labels", 1), labels)
    found = inspect(world.cluster, world.config, clock=world.clock)
    assert [[one.held_from for one in view.inputs] for view in found.tasks] == [[None, None], [None, 3]]
    assert [one.lag for one in found.tasks[1].inputs] == [0, 4]
    [problem] = found.problems()
    assert (problem.code, problem.task) == (ProblemCode.HELD_BACK, 1)
    assert "labels[1] back at offset 3: 4 offsets wait" in problem.text
    assert "describe-producers --topic labels --partition 1" in problem.text
    assert json.loads(found.to_json())["tasks"][1]["labels"]["held_from"] == 3

    ended = []

    class Ending:
        """A clock in whose first pause the transaction ends."""

        now_ms, monotonic_s = world.clock.now_ms, world.clock.monotonic_s

        @staticmethod
        def sleep(seconds: float) -> None:
            other.commit()
            ended.append(seconds)

    assert inspect(world.cluster, world.config, clock=Ending()).ok
    assert len(ended) == 1


STOPPED = (
    "stream-stopped task 0: stream 's0': 3 malformed examples in a row (limit 3); fix the producer, then: areba resume "
    "s0"
)


def _stopped(found: Inspection) -> list[str]:
    """Return the lines about streams that the breaker stopped."""
    return [str(problem) for problem in found.problems() if problem.code is ProblemCode.STREAM_STOPPED]


def test_a_task_that_commits_nothing_although_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging step, a worker that waits for a schema registry: the group has its member, and nothing moves."""
    monkeypatch.setattr(held_back, "WATCH_S", 1.0)
    monkeypatch.setattr(standstill, "QUIET_MS", 4_000)  # less than the session of a worker that is never asked
    world = World()
    world.send(3)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    world.send(1, first=3, partitions=[1])
    assert inspect(world.cluster, world.config, clock=world.clock).ok, "it has just committed"
    world.clock.advance(4.0)
    found = inspect(world.cluster, world.config, clock=world.clock)
    assert [(one.code, one.task) for one in found.problems()] == [(ProblemCode.NO_COMMIT, 1)]

    class Working:
        """A clock in whose first pause the worker commits."""

        now_ms, monotonic_s = world.clock.now_ms, world.clock.monotonic_s

        @staticmethod
        def sleep(seconds: float) -> None:
            take_turns(member, until=lambda: member.tasks[1].offsets == (4, 4))
            world.clock.sleep(seconds)

    assert inspect(world.cluster, world.config, clock=Working()).ok, "the first records after a pause"


def test_a_stream_that_the_breaker_stopped() -> None:
    """Reason and command, until the task has processed the mark; the task itself runs."""
    world, member = stopped_world()
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert [view.state for view in found.tasks] == [TaskState.RUNNING, TaskState.RUNNING]
    assert found.tasks[0].stopped == {"s0": "3 malformed examples in a row (limit 3)"}
    assert _stopped(found) == [STOPPED]
    world.resume(0)
    assert _stopped(inspect(world.cluster, world.config)) == [STOPPED]
    take_turns(member, until=lambda: member.tasks[0].offsets == (11, 7))
    assert _stopped(inspect(world.cluster, world.config)) == []


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lose_examples, ErrorCode.INPUTS_DELETED),
        (lose_progress, ErrorCode.PROGRESS_LOST),
    ],
)
def test_without_a_snapshot(damage: Callable[[World], None], code: ErrorCode) -> None:
    """Without a snapshot, a restore needs all inputs from the first offset on."""
    world = World()
    world.send(20)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 20))
    found = inspect(world.cluster, world.config)
    assert found.ok
    assert all(view.engine and (view.snapshots, view.snapshot_sequence) == (0, -1) for view in found.tasks)
    damage(world)
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    broken = inspect(world.cluster, world.config)
    assert [view.state for view in broken.tasks] == [TaskState.PARKED] * PARTITIONS
    assert broken.tasks[0].code is code


def test_a_live_task_whose_inputs_were_deleted_is_saved_by_a_clean_stop() -> None:
    """`state skip` would throw the model away that the worker has in memory; SIGTERM saves it."""
    world = World()
    world.send(20)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 20))
    lose_examples(world)
    found = inspect(world.cluster, world.config)
    assert not found.ok
    assert [(view.state, view.code, view.command) for view in found.tasks] == [
        (TaskState.RUNNING, ErrorCode.INPUTS_DELETED, None)
    ] * PARTITIONS
    lines = [problem.text for problem in found.problems() if problem.code is ProblemCode.RETENTION_USED]
    assert len(lines) == PARTITIONS
    assert all("SIGTERM" in line and "skip" not in line for line in lines)
    member.run(lambda: True)
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)
    assert {view.state for view in inspect(world.cluster, world.config).tasks} == {TaskState.IDLE}


@pytest.mark.parametrize("limit", ["retention.ms", "retention.bytes"])
def test_the_age_of_what_a_restore_needs(limit: str) -> None:
    """Half of the retention is used, and no snapshot was taken: something prevents it, and nobody looks at alerts."""
    world = World(make_config(worker={"snapshot_after_ms": 3_600_000}))
    world.send(20)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 20))
    assert [view.retention_used for view in inspect(world.cluster, world.config).tasks] == [0.0] * PARTITIONS
    age_ms, size = world.clock.now_ms(), 20 * 40
    kept = {"retention.ms": age_ms, "retention.bytes": size}[limit]
    for share, is_late in ((0.4, False), (0.9, True)):
        world.broker.alter_topic("examples", {limit: str(int(kept / share))})
        found = inspect(world.cluster, world.config, clock=world.clock)
        assert found.ok is not is_late
        assert found.tasks[0].retention_used == pytest.approx(share, rel=0.3)
        assert json.loads(found.to_json())["tasks"][0]["retention_used"] == pytest.approx(share, rel=0.3)


def test_progress_that_is_another_one() -> None:
    """An operator learns it before a restart: progress is empty beside a snapshot, or has foreign records."""
    for damage in (empty_progress, recreate_progress):
        world, _ = processed_world()
        damage(world)
        views = inspect(world.cluster, world.config).tasks
        assert [(view.state, view.code) for view in views] == [(TaskState.PARKED, ErrorCode.PROGRESS_LOST)] * PARTITIONS
    world, _ = processed_world()
    world.put("progress", 1, None, b"not ours")
    found = inspect(world.cluster, world.config)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING, TaskState.PARKED]
    assert found.tasks[1].code is ErrorCode.STATE_UNUSABLE


def test_a_worker_that_continues_meanwhile_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at different moments never looks like offsets that were reset."""
    world, member = processed_world()
    read = reading.progress_tail
    count = COUNT

    def later(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
        nonlocal count
        found: list[Commit | Act] = []
        for _ in range(2):  # once before progress is read, once after
            world.send(3, first=count)
            count += 3
            take_turns(member, until=all_at(member, count))
            found = found or read(cluster, progress)
        return found

    monkeypatch.setattr(inspect_tasks, "progress_tail", later)
    found = inspect(world.cluster, world.config)
    assert [view.state for view in found.tasks] == [TaskState.RUNNING] * PARTITIONS, list(found.problems())


@pytest.mark.parametrize("lasts", [False, True])
def test_a_worker_that_trims_progress_meanwhile_is_no_damage(lasts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An alarm at night would be about a record that a restore no longer needs; what stays deleted is reported."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    world.send(3)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 3))
    place, looks = TopicPartition(world.config.topics.progress, 0), list[int]()

    def tail(cluster: Cluster, partition: TopicPartition) -> list[Commit | Act]:
        looks.append(partition.partition)
        if partition == place and (lasts or looks.count(0) == 1):
            raise OffsetGoneError(f"{place}: offset 12 does not exist", place)
        return reading.progress_tail(cluster, partition)

    monkeypatch.setattr(inspect_tasks, "progress_tail", tail)
    view = inspect(world.cluster, world.config, [0], clock=world.clock).tasks[0]
    assert looks == [0, 0]
    assert (view.code, view.state) == (
        (ErrorCode.OFFSET_GONE, TaskState.PARKED) if lasts else (None, TaskState.RUNNING)
    )


def test_only_the_tail_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads progress from its end, only as far as it needs to find the last commit."""
    monkeypatch.setattr(progress, "TAIL_OFFSETS", 2)
    world, member = processed_world()
    starts = []

    def noting(reader: LogReader, start: int, end: int, take: Take) -> Generator[bool, None, None]:
        starts.append(start)
        return read_in_steps(reader, start, end, take)

    monkeypatch.setattr(progress, "read_in_steps", noting)
    assert inspect(world.cluster, world.config, [0]).ok
    high = world.cluster.watermarks(TopicPartition(world.config.topics.progress, 0)).high
    assert starts
    assert min(starts) >= high - 22
    assert inspect(world.cluster, world.config, [0]).tasks[0].sequence == member.tasks[0].position.anchor.sequence


def _world_without(topic: str) -> World:
    world = World()
    del world.broker._topics[topic]
    return world


def test_inspect_names_a_missing_topic_or_task() -> None:
    """A mistake of the operator gives one line, not a traceback."""
    world = World()
    with pytest.raises(ConfigurationError, match="there is no task 2: the application has 2"):
        inspect(world.cluster, world.config, [2])
    with pytest.raises(TopicError, match="app-progress: the topic does not exist"):
        inspect(_world_without("app-progress").cluster, world.config)


def test_inspect_ends_with_1_if_action_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Operators and scripts call it: exit status 1 if action is needed."""
    world, _ = stopped_world()
    monkeypatch.setattr(clients, "connect", lambda _: world.cluster)
    file = tmp_path / "areba.yaml"
    file.write_text("application: {id: app, instance: w}\nstreams: {s0: {features: 1}, s1: {features: 1}}\n")
    monkeypatch.setenv("COLUMNS", "120")
    shown = CliRunner().invoke(cli, ["inspect", "-c", str(file)])
    assert shown.exit_code == 1
    assert "app: 1 worker" in shown.output
    assert STOPPED in shown.output.replace("\n", " ")
    assert CliRunner().invoke(cli, ["inspect", "-c", str(file), "--task", "1"]).exit_code == 0
    result = CliRunner().invoke(cli, ["inspect", "-c", str(file), "--json"])
    assert result.exit_code == 1
    plain = json.loads(result.stdout)
    assert (plain["application"], plain["workers"], plain["ok"]) == ("app", 1, False)
    assert plain["tasks"][0] == {
        "task": 0,
        "state": "running",
        "problem": None,
        "code": None,
        "command": None,
        "examples": {"topic": "examples", "committed": 10, "end": 10, "lag": 0, "held_from": None},
        "labels": {"topic": "labels", "committed": 7, "end": 7, "lag": 0, "held_from": None},
        "sequence": plain["tasks"][0]["sequence"],
        "snapshots": 0,
        "snapshot_sequence": None,
        "snapshot_bytes": None,
        "engine": plain["tasks"][0]["engine"],
        "stopped_streams": 1,
        "stopped": {"s0": "3 malformed examples in a row (limit 3)"},
        "dead_letters": plain["tasks"][0]["dead_letters"],
        "retention_used": 0.0,
        "dead_letters_are_all": True,
        "label_flow": plain["tasks"][0]["label_flow"],
    }
    assert [one["stream"] for one in plain["tasks"][0]["label_flow"]] == ["s0"]
    assert plain["tasks"][1]["state"] == "running"


def test_offsets_beyond_the_end() -> None:
    """Inputs that were deleted and created again are not those that were read."""
    world, _ = processed_world()
    log = world.broker._logs[TopicPartition("labels", 1)]
    log.entries.clear()
    log.low = log.high = 0
    found = inspect(world.cluster, world.config)
    assert [view.code for view in found.tasks] == [None, ErrorCode.INPUTS_REPLACED]
