"""RELAY as an operator has it: a challenger that is promoted, restored, explained and exported."""

from pathlib import Path

import pytest

from stream_app.admin.explain import explain
from stream_app.admin.saved_models.export_models import export
from stream_app.learners.moments import LIMIT
from stream_app.records import Example, Mark, MarkKind, Prediction
from stream_app.serialization import codec
from tests.support.world import World, all_beyond, make_config, started, take_turns

# isort: split
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.slow

HALF, TASK, STREAM = 40, 0, "s0"
LEARNERS = {"areba": {"method": "areba"}, "relay": {"method": "relay", "replay_per_class": 6}}


def promoted(lives: int) -> World:
    """Promote RELAY after half of the records; this number of workers, all but the last of which die, process them."""
    config = make_config(learners=LEARNERS, worker={"snapshot_after_ms": 0})
    world = World(config.model_copy(update={"predictions": "all"}))
    world.send(HALF)
    mark = codec.encode(Mark(STREAM, MarkKind.PROMOTE, learner="relay"))
    world.put("examples", TASK, STREAM.encode(), mark, 10 * HALF)
    world.send(HALF, first=HALF)
    for life in range(lives):
        member = started(world.worker())
        take_turns(member, until=all_beyond(member, 2 * HALF * (life + 1) // lives))
    while member.tasks[TASK].offsets != (2 * HALF + 1, 2 * HALF):
        member.turn()
    return world


def predictions(world: World, learner: str) -> list[Prediction]:
    """Return the published predictions of a learner."""
    records = [codec.decode_one(row[1]) for row in world.rows("predictions", TASK)]
    return [record for record in records if isinstance(record, Prediction) and record.learner == learner]


def test_a_promoted_relay_stays_champion_after_any_crash() -> None:
    """An operator promotes the better learner once; neither a crash nor the learner's long memory may undo it."""
    worlds = [promoted(lives) for lives in (1, 7)]
    assert worlds[0].outputs() == worlds[1].outputs()
    for learner, expected in (("areba", [True] * HALF + [False] * HALF), ("relay", [False] * HALF + [True] * HALF)):
        assert [one.champion for one in predictions(worlds[1], learner)] == expected


@pytest.mark.parametrize("number", [0, HALF - 1, HALF, 2 * HALF - 1])
def test_a_prediction_of_relay_is_made_again(number: int) -> None:
    """A prediction that cannot be explained cannot be defended; draws, averages and queues must be those of then."""
    world = promoted(3)
    found = explain(world.application(), STREAM, str(number), TASK)
    assert found.is_same
    assert [(one.learner, one.champion) for one in found.again] == [("areba", number < HALF), ("relay", number >= HALF)]


def test_an_exported_relay_predicts_in_plain_torch(tmp_path: Path) -> None:
    """The documentation says how to use the file without areba: another of RELAY's seven networks would be wrong."""
    world = promoted(1)
    world.put("examples", TASK, STREAM.encode(), codec.encode(Example(STREAM, "last", [0.7])), 20 * HALF)
    member = started(world.worker())
    take_turns(member, until=lambda: len(predictions(world, "relay")) > 2 * HALF)
    export(world.application(), STREAM, "relay", tmp_path / "relay", TASK, None)
    tensors = load_file(tmp_path / "relay")
    model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.LeakyReLU(0.01), torch.nn.Linear(8, 1))
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    scaled = ((torch.tensor([0.7]) - tensors["input.mean"]) / tensors["input.deviation"]).clamp(-LIMIT, LIMIT)
    assert float(torch.sigmoid(model(scaled)).detach()) == pytest.approx(
        predictions(world, "relay")[-1].score, abs=1e-6
    )
