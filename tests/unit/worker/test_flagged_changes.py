"""A change that a detector flags has a line in the log: once, not again after a restore, and at most a few a minute."""

from typing import Any

import pytest

from stream_app.records import Example, Label, Metric
from stream_app.serialization import codec
from stream_app.worker.reports.log import CHANGES_PER_INTERVAL, WARNING_INTERVAL_S
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, reaches, started, take_turns

PHASE = 400
"""Examples between two drifts."""

LEARNERS = CHANGES_PER_INTERVAL + 3


def _world(learners: int) -> World:
    settings = {f"l{number}": {"method": "baseline", "learning_rate": 0.1} for number in range(learners)}
    return World(make_config(learners=settings, worker={"max_batch_records": 50}))


def _send(world: World, phase: int) -> None:
    """Send one phase of a stream whose classes are swapped at the beginning of each phase."""
    for number in range(phase * PHASE, (phase + 1) * PHASE):
        positive = number % 2
        example = codec.encode(Example("s0", str(number), [2.0 * positive - 1.0]))
        label = codec.encode(Label("s0", str(number), positive if phase % 2 == 0 else 1 - positive))
        world.put("examples", 0, b"s0", example, 10 * number + 1)
        world.put("labels", 0, b"s0", label, 10 * number + 2)


def _process(world: World, member: Worker, phase: int) -> None:
    """Process a phase, and look at the streams after each of its batches."""
    _send(world, phase)
    end = (phase + 1) * PHASE

    def done() -> bool:
        world.clock.advance(1.0)
        return reaches(member, (end, end))

    take_turns(member, until=done)
    for _ in range(3):
        world.clock.advance(1.0)
        member.turn()


def _lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [record.__dict__ for record in caplog.records]
    return [record["fields"] for record in found if record.get("event") == "change-flagged"]


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the total of the topic `metrics`; a worker that restores the task does not repeat it."""
    caplog.set_level("INFO", "areba")
    world = _world(1)
    member = started(world.worker())
    _process(world, member, 0)
    assert _lines(caplog) == []
    _process(world, member, 1)
    newest = codec.decode_one(world.rows("metrics", 0)[-1][1])
    assert isinstance(newest, Metric)
    assert newest.change_flagged is not None
    [line] = _lines(caplog)
    assert (line["task"], line["stream"], line["learner"], line["left_out"]) == (0, "s0", "l0", 0)
    assert line["changes"] == newest.changes == 1
    assert 10 * (newest.change_flagged - 1) < line["event_time_ms"] <= 20 * PHASE
    restored = started(world.worker())
    for _ in range(3):
        world.clock.advance(1.0)
        restored.turn()
    assert len(_lines(caplog)) == 1


def test_a_task_that_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """A task can leave and come back without a restore, even in the middle of a pass over many streams."""
    caplog.set_level("INFO", "areba")
    world = _world(1)
    member = started(world.worker())
    _process(world, member, 0)
    _process(world, member, 1)
    assert len(_lines(caplog)) == 1
    watch, tasks = member._state_watch, member.tasks
    assert watch._left == []
    watch._begin_pass(tasks)
    for shown in ([], tasks, tasks):
        world.clock.advance(1.0)
        watch.look(shown)
    assert len(_lines(caplog)) == 1


def test_few_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Changes without a line are counted in the next line."""
    caplog.set_level("INFO", "areba")
    world = _world(LEARNERS)
    member = started(world.worker())
    _process(world, member, 0)
    _process(world, member, 1)
    assert len(_lines(caplog)) == CHANGES_PER_INTERVAL
    metrics = [codec.decode_one(value) for _, value, *_ in world.rows("metrics", 0)]
    newest = {metric.learner: metric.changes for metric in metrics if isinstance(metric, Metric)}
    left_out = sum(newest.values()) - CHANGES_PER_INTERVAL
    assert left_out > 0
    world.clock.advance(WARNING_INTERVAL_S)
    _process(world, member, 2)
    lines = _lines(caplog)
    assert len(lines) == 2 * CHANGES_PER_INTERVAL
    assert [line["left_out"] for line in lines[CHANGES_PER_INTERVAL:]] == [left_out, *[0] * (CHANGES_PER_INTERVAL - 1)]
