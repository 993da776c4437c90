"""Learners without a scaler that meet large features learn badly, and a line of the log says so."""

from typing import Any

import pytest

from stream_app.pipeline.watched.feature_sizes import ENOUGH, LARGE
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from tests.support.world import World, make_config, reaches, started, take_turns

PLAIN, SCALED = {"method": "areba"}, {"method": "areba", "scaler": "standard"}


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.__dict__ for record in caplog.records]
    lines: list[dict[str, Any]] = [one["fields"] for one in found if one.get("event") == "features-unscaled"]
    return [line["streams"] for line in lines]


def _lines_of(caplog: pytest.LogCaptureFixture, learners: dict[str, Any], count: int, amount: float) -> list[str]:
    """Return the lines after this many examples with labels, looked at for some minutes."""
    caplog.set_level("WARNING", "areba")
    config = make_config(learners=learners, streams={"s0": {"columns": {"age": "number", "amount": "number"}}})
    world = World(config)
    member = started(world.worker())
    for number in range(count):
        example = Example("s0", str(number), values={"age": number % 7, "amount": amount + number % 3})
        world.put("examples", 0, b"s0", codec.encode(example), 2 * number + 1)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", str(number), number % 2)), 2 * number + 2)
    take_turns(member, until=lambda: reaches(member, (count, count)))
    for _ in range(4):
        world.clock.advance(WARNING_INTERVAL_S)
        member.turn()
    return _lines(caplog)


def test_a_large_column_of_a_learner_without_a_scaler(caplog: pytest.LogCaptureFixture) -> None:
    """Without the line, a G-mean of 0.49 in place of 0.93 looks like a hard problem."""
    [line] = _lines_of(caplog, {"areba": PLAIN, "scaled": SCALED}, ENOUGH, 1e5)
    assert "'s0': column 'amount' is 100,001 on average" in line
    assert line.endswith(": areba")


@pytest.mark.parametrize(
    ("learners", "count", "amount"),
    [
        ({"areba": PLAIN}, ENOUGH, LARGE / 2),
        ({"areba": PLAIN}, ENOUGH - 1, 1e5),
        ({"scaled": SCALED, "relay": {"method": "relay"}}, ENOUGH, 1e5),
    ],
)
def test_nothing_to_report(
    caplog: pytest.LogCaptureFixture, learners: dict[str, Any], count: int, amount: float
) -> None:
    """A line about a stream that is in order would be learned to be overlooked."""
    assert _lines_of(caplog, learners, count, amount) == []
