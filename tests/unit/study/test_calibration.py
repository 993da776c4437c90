"""The calibration error of predictions."""

import numpy as np
import pytest

from study.calibration import GROUPS, SHOWN, STREAMS, calibration_error, errors


def test_right_probabilities_have_no_error_and_others_have_theirs() -> None:
    """An error that averaged away differences of both signs would call every prediction calibrated."""
    labels = np.tile([1, 0, 0, 0], 25 * GROUPS).astype(np.int8)
    assert calibration_error(np.full(len(labels), 0.25, np.float32), labels) == 0.0
    assert calibration_error(np.full(len(labels), 0.75, np.float32), labels) == pytest.approx(0.5)
    two = np.repeat([0.0, 1.0], len(labels) // 2).astype(np.float32)
    assert calibration_error(two, labels) == pytest.approx((0.25 + 0.75) / 2, abs=0.02)


def test_a_probability_is_nearer_to_the_shares_than_a_score() -> None:
    """The table of docs/operations.md says so of each of its streams."""
    score, probability = errors(STREAMS[-1], SHOWN["AREBA"])[0]
    assert probability < 0.1 * score
