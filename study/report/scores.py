"""Prequential recall, specificity and G-mean at every step, as the authors' program computes them.

The sums are those of `stream_app.pipeline.prequential`. A class without an example so far counts as 1.0. At a drift
whose step is known, the sums restart, and a class counts as 0.0 until its next example. The running application does
neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.pipeline.prequential import COLUMNS, Prequential

METRICS = ("recall", "specificity", "gmean")

BEFORE_FIRST, AFTER_RESET = 1.0, 0.0
"""The figure of a class that has no example yet: at the beginning, and after a reset."""


@dataclass(frozen=True, slots=True)
class Curves:
    """The figures after each of n steps, float64 `[n]`."""

    recall: NDArray[np.float64]
    specificity: NDArray[np.float64]
    gmean: NDArray[np.float64]


def first_of_both(labels: NDArray[np.int8], start: int = 0) -> int:
    """Return the index of the first example by which both classes have come; that of the last, if one does not come.

    Before it G-mean is 1.0 for a method that always names the class that has come, so an average begins there.

    Args:
        labels: int8 `[n]`, the clean classes.
        start: The first example that counts.
    """
    counted = labels[start:]
    return start + max(int((counted == of).argmax()) if (counted == of).any() else len(counted) - 1 for of in (0, 1))


def average_from_both(gmean: NDArray[np.float64], labels: NDArray[np.int8], start: int = 0) -> float:
    """Return the mean of a curve, float64 `[n]`, from `first_of_both` on."""
    return float(gmean[first_of_both(labels, start) :].mean())


def prequential_sums(
    predicted: NDArray[np.int8], labels: NDArray[np.int8], resets: Sequence[int], fading: float, first: int = 0
) -> NDArray[np.float64]:
    """Compute the sums after each step, float64 `[n, 4]` by `prequential.COLUMNS`; each reset begins new sums.

    The sums begin at index `first`, and are zero before it.
    """
    sums = np.zeros((len(labels), len(COLUMNS)))
    starts = [first, *resets]
    for start, end in zip(starts, [*resets, len(labels)], strict=True):
        sums[start:end] = Prequential((fading,)).run(predicted[start:end], labels[start:end])[0]
    return sums


def curves_of(
    predicted: NDArray[np.int8],
    labels: NDArray[np.int8],
    resets: Sequence[int] = (),
    fading: float = 0.99,
    first: int = 0,
) -> Curves:
    """Compute the figures at every step.

    Args:
        predicted: int8 `[n]`, the classes on arrival.
        labels: int8 `[n]`, the clean classes.
        resets: Steps of known drifts, ascending.
        fading: Fading factor of the sums.
        first: Index of the first example that is scored; it must lie before all resets.
    """
    sums = prequential_sums(predicted, labels, resets, fading, first)
    missing = np.full(len(labels), BEFORE_FIRST)
    if resets:
        missing[resets[0] :] = AFTER_RESET
    recall = np.divide(sums[:, 0], sums[:, 1], out=missing.copy(), where=sums[:, 1] > 0.0)
    specificity = np.divide(sums[:, 2], sums[:, 3], out=missing, where=sums[:, 3] > 0.0)
    return Curves(recall, specificity, np.sqrt(recall * specificity))
