"""A model of a stream with columns is exported with them, and continues only where its features mean the same."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from stream_app.admin.saved_models.export_models import export
from stream_app.admin.saved_models.import_model import import_model
from stream_app.config import Config
from stream_app.errors import StateError
from stream_app.records import Example, Label
from stream_app.serialization import codec
from tests.support.world import MAX_POLL_INTERVAL_S, World, make_config, started, take_turns

COLUMNS: Mapping[str, Any] = {"amount": "number", "country": {"category": {"most": 2}, "missing": "mean"}}
NAMES = ["amount", "country=DE", "country=FR", "country: others", "country is missing"]


def _config(name: str = "app", columns: Mapping[str, Any] = COLUMNS) -> Config:
    return make_config(application={"id": name}, streams={"s0": {"columns": columns}})


def _ran(config: Config, countries: str) -> World:
    """Return the world of an application that has learned from payments of these countries."""
    world = World(config)
    _pay(world, config, countries)
    return world


def _pay(world: World, config: Config, countries: str) -> Any:  # noqa: ANN401  (a worker)
    for number, country in enumerate(countries.split()):
        example = Example("s0", f"{number}", values={"amount": number, "country": country})
        world.put("examples", 0, b"s0", codec.encode(example), number + 1)
        world.put("labels", 0, b"s0", codec.encode(Label("s0", f"{number}", number % 2)), number + 1)
    member = started(world.worker(config))
    count = len(countries.split())
    take_turns(member, until=lambda: (0, (count, count)) in [(task.number, task.offsets) for task in member.tasks])
    return member


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Export a model."""
    path = tmp_path / "model.safetensors"
    world = _ran(_config(), "DE DE FR US DE FR")
    export(world.application(_config()), "s0", "areba", path, 0, None)
    return path


def test_the_features_have_names(saved: Path) -> None:
    """Whoever uses the model elsewhere must know which number is which."""
    with safe_open(saved, framework="numpy") as file:
        assert json.loads(file.metadata()["feature_names"]) == NAMES
        assert "columns.texts" in file.keys()  # noqa: SIM118  (not a mapping)


def test_the_categories_come_with_the_model(saved: Path) -> None:
    """Weights that meet other categories than those that they were learned for would predict nonsense."""
    config = _config("second")
    world = World(config)
    list(import_model(world.application(config), saved, "s0", "areba", 0))
    list(import_model(world.application(config), saved, "s0", "areba", 0))  # as a second learner would come
    member = _pay(world, config, "US FR")
    [task] = [owned.live.task for owned in member.tasks if owned.number == 0]
    preparation = task.stream("s0").preparation
    assert preparation is not None
    assert list(preparation.feature_names()) == NAMES


@pytest.mark.parametrize(
    ("columns", "countries", "problem"),
    [
        ({"amount": "number", "country": {"category": {"hashed": 4}}}, "", "other columns"),
        ({"country": COLUMNS["country"], "amount": "number"}, "", "other columns"),
        (COLUMNS, "IT IT", "other categories or means"),
    ],
)
def test_a_model_of_other_features_is_refused(
    saved: Path, columns: Mapping[str, Any], countries: str, problem: str
) -> None:
    """An import that silently gave weights to other features would look like a bad model."""
    config = _config("second", columns)
    world = World(config)
    if countries:
        _pay(world, config, countries)
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)  # the group has noticed that its member is dead
    with pytest.raises(StateError, match=problem):
        list(import_model(world.application(config), saved, "s0", "areba", 0))
