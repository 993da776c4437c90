"""On every shipped stream, at its own learning rate, the compiled step agrees with autograd's."""

import numpy as np
import pytest

from stream_app.producers import datasets
from stream_app.producers.sources import parse_source
from tests.support.learner_steps import single_step_differences

STEPS = 5_000
WIDE_STEPS = 1_000
"""Steps on MNIST, whose 784 features make a step 30 times as long as a step on Fraud."""
TOLERANCE = 2e-6

SYNTHETIC = ("sine:drift=posterior,length=5000", "circle:drift=likelihood,length=5000", "sea:drift=prior,length=5000")


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        *(pytest.param(name, marks=pytest.mark.slow(40)) if name == "mnist" else name for name in datasets.RECIPES),
        *SYNTHETIC,
    ],
)
def test_each_step_of_a_shipped_stream_agrees_with_autograd(source: str) -> None:
    """A kernel whose error exceeds rounding would not learn the paper's network."""
    data = parse_source(source).data
    steps = WIDE_STEPS if source == "mnist" else STEPS
    rows = np.arange(steps) % len(data)  # Cervical and Credit are shorter, so they are repeated
    differences = single_step_differences(
        np.ascontiguousarray(data.features[rows]), data.labels[rows], data.learning_rate, data.l2, data.hidden
    )
    assert max(differences.values()) <= TOLERANCE, differences
