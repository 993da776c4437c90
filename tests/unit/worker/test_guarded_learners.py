"""Values that a network cannot take as they stand are counted and logged: at most one line a minute."""

from typing import Any

import pytest

from stream_app.records import Example
from stream_app.serialization import codec
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.worker import Worker
from tests.support.world import World, make_config, reaches, started, take_turns

LEARNERS = {
    "areba": {"method": "areba"},
    "other": {"method": "baseline"},
    "scaled": {"method": "areba", "scaler": "standard"},
}


def _send(world: World, member: Worker, numbers: range, feature: float) -> None:
    for number in numbers:
        world.put("examples", 0, b"s0", codec.encode(Example("s0", str(number), [feature])), 10 * number + 1)
    take_turns(member, until=lambda: reaches(member, (numbers.stop, 0)))


def _look(world: World, member: Worker, seconds: float) -> None:
    """Let time pass, and the worker look at its streams."""
    world.clock.advance(seconds)
    for _ in range(4):
        world.clock.advance(1.0)
        member.turn()


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int]]:
    found = [record.__dict__ for record in caplog.records]
    lines: list[dict[str, Any]] = [one["fields"] for one in found if one.get("event") == "values-limited"]
    return [(line["learner"], line["examples"]) for line in lines]


def test_values_that_are_limited_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A mark such as 3.4e38 would go unnoticed for ever: the example is predicted like any other."""
    caplog.set_level("WARNING", "areba")
    world = World(make_config(learners=LEARNERS))
    member = started(world.worker())
    _send(world, member, range(20), 1.0)
    _look(world, member, WARNING_INTERVAL_S)
    assert _lines(caplog) == []
    _send(world, member, range(20, 23), 3.4e38)
    _look(world, member, 0)
    assert _lines(caplog) == [("areba", 3)]
    _look(world, member, WARNING_INTERVAL_S)
    assert _lines(caplog) == [("areba", 3), ("other", 3)]
    _look(world, member, WARNING_INTERVAL_S)
    assert len(_lines(caplog)) == 2
