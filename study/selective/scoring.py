"""Scores predictions by the true labels, whatever the method was shown."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from study.report.scores import average_from_both, curves_of

FADING = 0.99


class Figures(NamedTuple):
    """The figures of one repetition, over all examples that are scored.

    Attributes:
        gmean_end: Faded G-mean after the last example; its sums restart at a known drift, as in the study.
        gmean_average: The mean of this G-mean over all steps from the first on by which both classes have come.
        kappa: Cohen's kappa.
        found: The share of the positive examples that were predicted positive.
        alerts: The share of all examples that were predicted positive.
    """

    gmean_end: float
    gmean_average: float
    kappa: float
    found: float
    alerts: float


def figures_of(
    predicted: NDArray[np.int8], truth: NDArray[np.int8], resets: Sequence[int] = (), first: int = 0
) -> Figures:
    """Return the figures.

    Args:
        predicted: int8 `[n]`.
        truth: int8 `[n]`; each class must occur.
        resets: Where the sums of G-mean restart.
        first: The number of the first example that is scored, before the resets.
    """
    gmean = curves_of(predicted, truth, resets, FADING, first).gmean
    average = average_from_both(gmean, truth, first)
    said, true = predicted[first:] == 1, truth[first:] == 1
    return Figures(float(gmean[-1]), average, kappa(said, true), float(said[true].mean()), float(said.mean()))


def kappa(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Return Cohen's kappa: the agreement beyond what chance gives to the same numbers of positives; 1 is perfect."""
    agreement = float((said == true).mean())
    share, true_share = float(said.mean()), float(true.mean())
    by_chance = share * true_share + (1.0 - share) * (1.0 - true_share)
    return 0.0 if by_chance == 1.0 else (agreement - by_chance) / (1.0 - by_chance)
