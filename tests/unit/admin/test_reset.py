"""`areba reset` restarts a stream: its open records get a counted outcome, and every restore gives the same bits."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from stream_app.admin.models import Application, rebuild
from stream_app.admin.reset import reset
from stream_app.backends.memory.sender import EmbeddedSender
from stream_app.backends.partitioner import partition_of
from stream_app.cli.main import cli
from stream_app.errors import ConfigurationError, StateError
from stream_app.lanes import lane_names
from stream_app.live.buffers import NO_RECORDS
from stream_app.pipeline.task import Task
from stream_app.progress_records import RESET, Act
from stream_app.records import Example, Label, Mark, MarkKind, Metric, Outcome
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, make_config, started, take_turns

RIGHT = 3
"""Features of the examples that are right; the first one has 1."""


def _application(world: World) -> Application:
    return world.application()


def _reset(world: World, stream: str = "s0", *, dry_run: bool = False) -> list[str]:
    return list(reset(_application(world), stream, 0, dry_run=dry_run))


def _kill(world: World) -> None:
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)


def _reaches(world: World, offsets: tuple[int, int]) -> Worker:
    """Start a worker and run it until task 0 is at these offsets and its snapshots are written."""
    member = started(world.worker())
    take_turns(
        member,
        until=lambda: any(
            task.number == 0 and task.offsets == offsets and task.state is TaskState.LIVE for task in member.tasks
        ),
    )
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    return member


def _examples(world: World, first: int, count: int, features: int = RIGHT, time_ms: int = 100) -> None:
    for number in range(first, first + count):
        value = codec.encode(Example("s0", f"x{number}", [float(number % 2)] * features))
        world.put("examples", 0, b"s0", value, time_ms + number)


def _labels(world: World, first: int, count: int, time_ms: int = 100) -> None:
    for number in range(first, first + count):
        world.put("labels", 0, b"s0", codec.encode(Label("s0", f"x{number}", number % 2)), time_ms + number)


def _wrong_dimension(snapshot_after_ms: int) -> World:
    """Send one example with a wrong dimension, then five right ones, which are refused, and whose labels wait."""
    world = World(make_config(streams={"s0": {}}, worker={"snapshot_after_ms": snapshot_after_ms}))
    _examples(world, 0, 1, features=1)
    _examples(world, 1, 5)
    _labels(world, 1, 5)
    _reaches(world, (6, 5))
    _kill(world)
    return world


def _digests(member: Worker) -> object:
    [task] = [owned.live.task for owned in member.tasks if owned.number == 0]
    return task.model_digests()


@pytest.mark.parametrize("snapshot_after_ms", [0, 3_600_000])
def test_a_wrong_first_example(snapshot_after_ms: int) -> None:
    """A first example with a wrong dimension makes all right ones be refused, until the stream is reset.

    After the reset they are accepted, open examples are closed and counted once, and a fresh run gives the same bits.
    """
    world = _wrong_dimension(snapshot_after_ms)
    first, second = _reset(world)
    assert (first, second.split(" (")[0]) == (
        "stream 's0' of task 0 (1 features) starts again",
        "its next batch closes 1 pending examples",
    )
    _examples(world, 10, 4)
    _labels(world, 10, 4, time_ms=150)
    member = _reaches(world, (10, 9))
    assert member.tasks[0].live.task.stream("s0").features == RIGHT
    outcomes = [codec.decode_one(value) for _, value, _, _ in world.rows("outcomes", 0)]
    assert Counter(one.outcome for one in outcomes if isinstance(one, Outcome)) == {"evicted": 1, "joined": 4}
    reasons = Counter(dict(headers)["areba.reason"] for _, _, _, headers in world.rows("dead-letters", 0))
    assert reasons == {b"wrong-dimension": 5, b"orphan-label": 5}
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    digests = _digests(member)
    for _ in range(2):
        _kill(world)
        again = _reaches(world, (10, 9))
        assert _digests(again) == digests
        assert rebuild(_application(world), 0, None).task.model_digests() == digests


def test_a_process_that_dies_between_the_act_and_its_batch() -> None:
    """Every restore applies the act, before and after the batch that closes what the reset left open."""
    world = _wrong_dimension(0)
    _reset(world)
    for _ in range(2):
        _reaches(world, (6, 5))
        _kill(world)
    assert not world.rows("outcomes", 0)
    _examples(world, 10, 1, time_ms=150)
    _reaches(world, (7, 5))
    _kill(world)
    _examples(world, 11, 1, time_ms=150)
    _reaches(world, (8, 5))
    assert len(world.rows("outcomes", 0)) == 1
    assert verify(world.cluster, world.config, rerun=True).ok


def test_two_resets_and_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after a reset has the complete stream: it must not list segments of older snapshots."""
    monkeypatch.setattr("stream_app.snapshot.segments.CLOSED_ROWS", 4)
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    world.send(30)
    _reaches(world, (30, 30))
    _kill(world)
    _reset(world)
    _reset(world)
    world.send(5, first=30)
    member = _reaches(world, (35, 35))
    _kill(world)
    again = _reaches(world, (35, 35))
    assert again.tasks[0].report.reprocessed_records == 0
    assert _digests(again) == _digests(member)
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings


def test_metrics_restart() -> None:
    """Earlier counts belong to a discarded model, and `verify` does not report them as lost."""
    world = World(make_config(metrics={"every_labels": 2}))
    world.send(10)
    _reaches(world, (10, 10))
    _kill(world)
    _reset(world)
    world.send(10, first=10)
    _reaches(world, (20, 20))
    found = [codec.decode_one(value) for _, value, _, _ in world.rows("metrics", 0)]
    labelled = [metric.labelled for metric in found if isinstance(metric, Metric)]
    assert max(labelled) <= 10
    assert labelled != sorted(labelled)
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings


def test_a_reset_that_closes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds examples and labels that stay open although their stream was reset."""
    world = _wrong_dimension(0)
    _reset(world)
    monkeypatch.setattr("stream_app.pipeline.task.close", lambda *_: None)
    _examples(world, 10, 1, time_ms=150)
    _reaches(world, (7, 5))
    report = verify(world.cluster, world.config)
    closing = (Code.MISSING_OUTCOME, Code.MISSING_DEAD_LETTER)
    assert sum(finding.code in closing for finding in report.findings) == 6


def test_reset_writes_one_act_for_the_named_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line names the stream that starts again, and writes one act."""
    world = _wrong_dimension(0)
    file = tmp_path / "areba.yaml"
    file.write_text("{}")
    monkeypatch.setattr("stream_app.cli.clients.open_application", lambda _: _application(world))
    monkeypatch.setattr("stream_app.cli.clients.open_sender", lambda _: _closable(world))
    result = CliRunner().invoke(cli, ["reset", "s0", "-c", str(file), "--task", "0"])
    assert result.exit_code == 0, result.output
    assert "stream 's0' of task 0 (1 features) starts again\n" in result.output
    assert [act.text for act in world.progress(0) if isinstance(act, Act) and act.kind == RESET] == ["s0"]


def _closable(world: World) -> Any:  # noqa: ANN401
    """Return a sender with a `close` method."""
    sender = EmbeddedSender(world.broker)
    return SimpleNamespace(send=sender.send, flush=sender.flush, close=lambda: None)


def test_a_stream_that_holds_more_than_a_transaction_is_not_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record after the reset would close millions of examples, and no transaction could take them."""
    monkeypatch.setattr("stream_app.admin.reset.MAX_HELD", 3)
    world = World(make_config(streams={"s0": {}}))
    _examples(world, 0, 4)
    _reaches(world, (4, 0))
    _kill(world)
    before = world.rows("progress", 0)
    with pytest.raises(ConfigurationError, match=r"'s0' of task 0 has 4 pending examples.*`advance` marks"):
        _reset(world)
    assert world.rows("progress", 0) == before
    mark = codec.encode(Mark("s0", MarkKind.ADVANCE, time_ms=102))
    for topic in ("examples", "labels"):
        world.put(topic, 0, b"s0", mark, 110)
    _reaches(world, (5, 1))
    _kill(world)
    assert "starts again" in _reset(world)[0]


def test_a_refused_reset_writes_nothing_and_says_why() -> None:
    """A refused command writes nothing; its error says why, with control characters of names escaped."""
    world = World(make_config())
    with pytest.raises(ConfigurationError, match=r"task 0 has no stream 's0'; it has none yet"):
        _reset(world)
    world.send(3)
    _reaches(world, (3, 3))
    before = world.rows("progress", 0)
    with pytest.raises(StateError, match=r"workers are running.*\[in-use"):
        _reset(world)
    assert _reset(world, dry_run=True)[0] == "stream 's0' of task 0 (1 features) would start again"
    _kill(world)
    with pytest.raises(ConfigurationError, match=r"has no stream '\\x1b\[31m'; it has 's0'"):
        _reset(world, "\x1b[31m")
    assert world.rows("progress", 0) == before
    task = Task(0, world.config.task_settings(), ("examples", "labels"))
    task.apply(Act(1, RESET, "0", "s0"))
    assert len(task.step(NO_RECORDS, NO_RECORDS).topics["outcomes"]) == 0


def test_all_lanes_of_a_stream_start_again() -> None:
    """A lane that keeps the wrong number of features would refuse its part of the examples for ever."""
    world = World(make_config(streams={"s0": {"lanes": 3}, "s1": {"lanes": 2}}))
    begun = lane_names("s0", 3)[:2]
    homes = {name: partition_of(name.encode(), PARTITIONS) for name in begun}
    for name, home in homes.items():
        world.put("examples", home, name.encode(), codec.encode(Example(name, "1", [1.0])), 100)
    member = started(world.worker())
    ends = Counter(homes.values())
    wanted = {number: (ends[number], 0) for number in range(PARTITIONS)}
    take_turns(member, until=lambda: {task.number: task.offsets for task in member.tasks} == wanted)
    _kill(world)
    lines = list(reset(_application(world), "s0", None))
    assert [line for line in lines if "starts again" in line] == [
        f"stream {name!r} of task {home} (1 features) starts again" for name, home in homes.items()
    ]
    assert len(ends) == 1, "both lanes are in one task"
    task = rebuild(_application(world), homes[begun[0]], None).task
    assert [task.stream(name).features for name in begun] == [0, 0]
    with pytest.raises(ConfigurationError, match=r"has no stream 's1\.1of2"):
        list(reset(_application(world), "s1", None))
