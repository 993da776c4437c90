"""`areba explain` of an example with values by column: what each column did, and the kept examples near it."""

from collections.abc import Mapping
from typing import Any

import pytest

from stream_app.admin.explain import explain
from stream_app.records import Example, Label, Prediction, Value
from stream_app.serialization import codec
from tests.support.world import World, all_at, make_config, started, take_turns

COLUMNS: Mapping[str, Any] = {
    "amount": {"missing": "mean"},
    "age": "number",
    "country": {"category": {"most": 2}, "missing": "mean"},
}

LAST = 30


RELAY: Mapping[str, Any] = {"method": "relay"}


def _areba(scaler: str) -> Mapping[str, Any]:
    return {"method": "areba", "budget": 6, "scaler": scaler}


def _world(learner: Mapping[str, Any], last: Mapping[str, Value]) -> World:
    """Return an application that has learned from payments, and predicted one more in the middle of a batch."""
    config = make_config(learners={learner["method"]: learner}, streams={"s0": {"columns": COLUMNS}})
    world = World(config)
    for number in range(LAST + 5):
        country = "DE" if number % 3 else "FR"
        values: Mapping[str, Value] = {"amount": number % 7, "age": number % 4, "country": country}
        example = Example("s0", f"pay-{number}", values=last if number == LAST else values)
        world.put("examples", 0, b"s0", codec.encode(example), 2 * number + 1)
        label = Label("s0", f"pay-{number}", int(country == "FR"))
        world.put("labels", 0, b"s0", codec.encode(label), 2 * number + 2)
    member = started(world.worker(config))
    count = LAST + 5
    take_turns(member, until=lambda: (0, (count, count)) in [(task.number, task.offsets) for task in member.tasks])
    return world


def _score(world: World) -> float:
    """Return the published score of the last payment."""
    records = [codec.decode_one(value) for _, value, _, _ in world.rows("predictions", 0)]
    [score] = [one.score for one in records if isinstance(one, Prediction) and one.id == f"pay-{LAST}"]
    return score


@pytest.mark.parametrize("scaler", ["none", "standard"])
def test_the_effect_of_a_column_is_exact(scaler: str) -> None:
    """Whoever blocks a payment must be able to say why: what the score would have been without this value."""
    last: Mapping[str, Value] = {"amount": 6.5, "age": 1, "country": "FR"}
    world = _world(_areba(scaler), last)
    found = explain(world.application(), "s0", f"pay-{LAST}", 0)
    assert found.is_same, "the batch is cut at the example, which must not change a bit"
    assert found.influence is not None
    effects = {one.column: one for one in found.influence.columns}
    assert set(effects) == set(COLUMNS)
    assert effects["country"].features == {"country=FR": 1.0}
    assert effects["amount"].features == {"amount": 6.5}
    for name in ("amount", "country"):  # the same history, and the value was missing
        without = _score(_world(_areba(scaler), {**last, name: None}))
        assert effects[name].effect == _score(world) - without
    assert abs(effects["country"].effect) > 0.01
    assert list(found.influence.columns) == sorted(found.influence.columns, key=lambda one: -abs(one.effect))


@pytest.mark.parametrize("learner", [_areba("standard"), _areba("none"), RELAY], ids=["standard", "none", "relay"])
def test_the_kept_examples_near_it(learner: Mapping[str, Any]) -> None:
    """A past payment that looks the same says more to an analyst than a weight."""
    world = _world(learner, {"amount": 6, "age": 1, "country": "FR"})
    found = explain(world.application(), "s0", f"pay-{LAST}", 0)
    assert found.influence is not None
    near = found.influence.nearest
    assert {one.label for one in near} == {0, 1}
    assert all(one.id.startswith("pay-") and int(one.id[4:]) < LAST for one in near)
    for label in (0, 1):
        own = [one.distance for one in near if one.label == label]
        assert own == sorted(own)
    assert all((int(one.id[4:]) % 3 == 0) == (one.label == 1) for one in near)
    lines = list(found.lines())
    assert any(line.startswith("column country = 'FR' (country=FR 1): ") for line in lines)
    assert found.to_plain()["influence"]["learner"] == learner["method"]


def test_a_stream_without_columns_has_no_influence() -> None:
    """Its features have no names, and the line of features stays."""
    config = make_config()
    world = World(config)
    world.send(5)
    member = started(world.worker(config))
    take_turns(member, until=all_at(member, 5))
    found = explain(world.application(), "s0", "3", 0)
    assert found.influence is None
    assert any(line.startswith("features ") for line in found.lines())
