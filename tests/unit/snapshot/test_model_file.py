"""A model file of RELAY, used without areba."""

from pathlib import Path

import numpy as np
import pytest

from stream_app.config import LearnerSettings
from stream_app.learners.methods.relay.state import IS_SHORT
from stream_app.records import Operation
from stream_app.snapshot.model_file import ModelFile
from tests.support.learner_steps import ids, in_turn, learner, operations, stream

# isort: split
import torch
from safetensors.torch import load_file


@pytest.mark.parametrize("changed", [False, True])
def test_relays_file_predicts_in_plain_torch(tmp_path: Path, *, changed: bool) -> None:
    """Standardisation and feature gates must be in the file, of either memory: else the weights mean another model."""
    examples, labels = stream(400, 5, positives=0.2)
    if changed:
        labels[330:] = 1 - labels[330:]
    which = learner(5, method="relay")
    which.run(operations(in_turn(labels)), examples, ids(400))
    score = float(which.run(operations([(int(Operation.PREDICT), 7, -1)]), examples, ids(400)).scores[0])
    state = dict(which.arrays())
    assert state["gates"].std() > 0.1
    assert int(state["tallies"][IS_SHORT]) == int(changed)
    path = tmp_path / "model.safetensors"
    path.write_bytes(ModelFile(state, LearnerSettings(method="relay"), 5, {}).to_bytes())
    tensors = load_file(path)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.LeakyReLU(0.01), torch.nn.Linear(8, 1))
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    inputs = (torch.from_numpy(examples[7]) - tensors["input.mean"]) / tensors["input.deviation"]
    predicted = torch.sigmoid(model(inputs.clamp(-5, 5))).item()
    assert abs(predicted - score) < 1e-5
    assert np.array_equal(tensors["state.gates"].numpy(), state["gates"])
