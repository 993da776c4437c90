"""A model that was exported as ONNX, used without areba."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from stream_app.admin.saved_models.onnx_model import onnx_model
from stream_app.config import LearnerSettings
from stream_app.errors import ConfigurationError
from stream_app.records import Operation
from stream_app.snapshot.model_file import ModelFile
from tests.support.learner_steps import ids, in_turn, learner, operations, stream

FEATURES, EXAMPLES, OFFSET = 5, 400, 1_000.0

SETTINGS: list[dict[str, Any]] = [
    {"method": "areba"},
    {"method": "areba", "hidden": (5, 3), "scaler": "standard"},
    {"method": "baseline", "hidden": (), "scaler": "standard"},
    {"method": "oob", "ensemble_size": 3, "scaler": "standard"},
    {"method": "relay"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_the_model_predicts_what_the_learner_predicts(settings: dict[str, Any]) -> None:
    """A service that scores with the file must not decide otherwise than the application, also far from the origin."""
    examples, labels = stream(EXAMPLES, FEATURES, positives=0.2)
    if settings.get("scaler") == "standard" or settings["method"] == "relay":
        examples[:, 0] += np.float32(OFFSET)  # the scaling must be exact to more digits than float32 has
    examples[:, 1] = 1.0  # never varies
    which = learner(FEATURES, **settings)
    which.run(operations(in_turn(labels)), examples, ids(EXAMPLES))
    scores = []
    for row in range(20):  # a scaler learns from the example that is predicted: the file is made after each
        asked = which.run(operations([(int(Operation.PREDICT), row, -1)]), examples, ids(EXAMPLES))
        file = ModelFile(dict(which.arrays()), LearnerSettings(**settings), FEATURES, {"learner": "own"})
        (found,) = _session(file).run(["score"], {"features": examples[row : row + 1]})
        assert found == pytest.approx(asked.scores, abs=1e-6)
        scores.append(float(asked.scores[0]))
    assert np.ptp(scores) > 0.01


def test_a_network_of_a_users_own_is_refused() -> None:
    """Its layers are unknown; a file without them would be useless."""
    file = ModelFile(
        {"parameters": np.zeros(3, np.float32)},
        LearnerSettings(method="areba", network="nets:Net"),
        2,
        {"learner": "own"},
    )
    with pytest.raises(ConfigurationError, match="own"):
        onnx_model(file)


def _session(file: ModelFile) -> onnxruntime.InferenceSession:
    session = onnxruntime.InferenceSession(onnx_model(file), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["feature_names"] == '["0", "1", "2", "3", "4"]'
    return session
