"""Prequential recall, specificity and G-mean with a fading factor (Gama, Sebastião, Rodrigues 2013), by class.

Each class has two sums, of its labels and of those that were predicted right. Both start at 0, and fade only at a label
of that class: `sum = fading * sum + (1 or 0)`. So a class that stays away keeps its figure.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import StateError
from stream_app.native import compiled

COLUMNS = ("positive_correct", "positive_total", "negative_correct", "negative_total")
"""The columns of the sums."""

_NAME = "prequential_sums"


@compiled
def _run(
    sums: NDArray[np.float64],
    fading: float,
    predicted: NDArray[np.int8],
    labels: NDArray[np.int8],
    after: NDArray[np.float64],
) -> None:
    for k in range(len(labels)):
        column = 0 if labels[k] == 1 else 2
        sums[column] = fading * sums[column] + (1.0 if predicted[k] == labels[k] else 0.0)
        sums[column + 1] = fading * sums[column + 1] + 1.0
        after[k, :] = sums


class Prequential:
    """The sums of one learner on one stream.

    Args:
        fading: The factor, in (0, 1]; 0.99 in the paper, 1 counts all labels alike.
    """

    def __init__(self, fading: float = 0.99) -> None:
        if not 0.0 < fading <= 1.0:
            raise ValueError(f"a fading factor is in (0, 1], not {fading}")
        self._fading = fading
        self._sums = np.zeros(len(COLUMNS))

    def run(self, predicted: NDArray[np.int8], labels: NDArray[np.int8]) -> NDArray[np.float64]:
        """Take in k labels, one after the other.

        Args:
            predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
            labels: int8 `[k]`, the class, 0 or 1.

        Returns:
            float64 `[k, 4]`, the sums after each label, by `COLUMNS`.
        """
        after = np.empty((len(labels), len(COLUMNS)))
        _run(self._sums, self._fading, predicted, labels, after)
        return after

    def sums(self) -> NDArray[np.float64]:
        """float64 `[4]`, a copy of the sums as they are now, by `COLUMNS`."""
        return self._sums.copy()

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """A copy of the state."""
        return {_NAME: self._sums.copy()}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Go on from these.

        Raises:
            StateError: They are not four sums.
        """
        sums = arrays.get(_NAME)
        if sums is None or sums.shape != self._sums.shape:
            raise StateError(f"the prequential sums must be {len(COLUMNS)} numbers by the name {_NAME}")
        self._sums[...] = sums


def scores_of(sums: NDArray[np.float64]) -> tuple[float | None, float | None, float | None]:
    """Recall, specificity and G-mean of one row of sums; all None until both classes were seen."""
    positive_correct, positive_total, negative_correct, negative_total = sums.tolist()
    if positive_total == 0.0 or negative_total == 0.0:
        return None, None, None
    recall, specificity = positive_correct / positive_total, negative_correct / negative_total
    return recall, specificity, math.sqrt(recall * specificity)
