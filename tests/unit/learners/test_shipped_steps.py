"""On every shipped stream, at its own learning rate, the compiled step is autograd's."""

import numpy as np
import pytest

from producers import datasets
from producers.sources import parse_source
from tests.support.learner_steps import single_step_differences

STEPS = 5_000
TOLERANCE = 2e-6

SYNTHETIC = ("sine:drift=posterior,length=5000", "circle:drift=likelihood,length=5000", "sea:drift=prior,length=5000")


@pytest.mark.slow
@pytest.mark.parametrize("source", [*datasets.RECIPES, *SYNTHETIC])
def test_each_step_of_a_shipped_stream_agrees_with_autograd(source: str) -> None:
    """A kernel that is off by more than rounding would learn something else than the paper's network."""
    data = parse_source(source).data
    rows = np.arange(STEPS) % len(data)  # Cervical and Credit are shorter: once more from the start
    differences = single_step_differences(
        np.ascontiguousarray(data.features[rows]), data.labels[rows], data.learning_rate, data.l2, data.hidden
    )
    assert max(differences.values()) <= TOLERANCE, differences
