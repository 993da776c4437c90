"""Prequential recall, specificity and G-mean with a fading factor (Gama, Sebastião, Rodrigues 2013), by class.

Each class has two sums: of its labels, and of its labels that were predicted right. Both start at 0, and fade only at a
label of that class: `sum = fading * sum + (1 or 0)`. So the figure of a class without labels does not change.
Each of `metrics.fading_factors` has sums of its own, a *window*; no window depends on the others.

A correction moves the contribution of its example, and nothing else. With N_c labels of class c so far, n_c of them up
to the example's own, all as they came, the pair of sums of class c is the sum of `f ** (N_c - n_c) * (right or not, 1)`
over the examples of class c. The corrected example leaves the pair of its old class with `f ** (N_old - n_old)`, and
enters the pair of its new class with `f ** (N_new - n_new)`, the weight of the last label of that class before it. The
fading that its label caused is not undone, so a second correction cancels the first. Without fading, the figures are
the figures of the corrected labels. The time does not depend on how long ago the label came. The result is exact except
for rounding, which is bounded: if a class has no example left, both of its sums are 0, and no class has more right
predictions than labels.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import PREFETCH_DISTANCE, Pointer, address_of, doubles_at, prefetch_all
from stream_app.records import Longs, MetricWindow

COLUMNS = ("positive_correct", "positive_total", "negative_correct", "negative_total")
"""The columns of the sums of a window, all faded."""

MAIN_WINDOW = 0
"""The window that the change detector and most readers use."""

_ROW_BYTES = 8 * len(COLUMNS)

_NAME = "prequential_sums"


CORRECTED = 2
"""Added to the class of an entry of `Labelled.labels` that is a correction, not a label."""

UNPREDICTED = -1
"""The predicted class of a learner that was added after the example came: the example does not count for it."""

ROUNDING = 1e-12
"""What rounding may leave of a sum when its only weight is subtracted, relative to that weight."""


class Labelled(NamedTuple):
    """k labels or corrections of p streams, one stream after the other.

    Attributes:
        labels: int8 `[k]`, the class, 0 or 1; of a correction, `CORRECTED` plus the new class.
        bounds: int64 `[p + 1]`, where each stream's begin, and the end.
        seen: int64 `[r]`, how many of all k labels come before each report.
        reports: int64 `[p + 1]`, where each stream's reports begin, and the end.
        ages: int64 `[c, 3]`, of each correction: labels of the old class since the example's label, labels of the new
            one, and how many examples of the old class are left.
        corrections: int64 `[p + 1]`, where each stream's corrections begin, and the end.
    """

    labels: NDArray[np.int8]
    bounds: Longs
    seen: Longs
    reports: Longs
    ages: Longs
    corrections: Longs


@inlined_without_refcounts
def _power(fading: float, age: int) -> float:
    """Return `fading ** age`, by squaring: the functions of libraries round differently."""
    power = 1.0
    while age > 0:
        if age % 2 == 1:
            power *= fading
        fading *= fading
        age //= 2
    return power


@inlined_without_refcounts
def _correct(own: Pointer, fading: float, ages: Longs, row: int, label: int, predicted: int) -> None:
    """Move an example from the other class to this class; see the module."""
    if predicted == UNPREDICTED:
        return
    new, old = (0, 2) if label == 1 else (2, 0)
    weight = _power(fading, ages[row, 0])
    rest = own[old + 1] - weight
    total = rest if ages[row, 2] > 0 and rest > ROUNDING * weight else 0.0
    right = own[old] - (weight if predicted != label else 0.0)
    own[old] = min(max(right, 0.0), total)
    own[old + 1] = total
    weight = _power(fading, ages[row, 1])
    own[new] += weight if predicted == label else 0.0
    own[new + 1] += weight


@inlined_without_refcounts
def _count(own: Pointer, fading: float, label: int, predicted: int) -> None:
    """Take a label into the sums; see the module."""
    if predicted == UNPREDICTED:
        return
    column = 0 if label == 1 else 2
    own[column] = fading * own[column] + (1.0 if predicted == label else 0.0)
    own[column + 1] = fading * own[column + 1] + 1.0


@compiled_without_refcounts
def run(
    sums: Longs,
    factors: NDArray[np.float64],
    labelled: Labelled,
    predicted: NDArray[np.int8],
    after: NDArray[np.float64],
    reported: NDArray[np.float64],
) -> None:
    """Take the labels of p streams into the sums of one learner of each stream.

    Args:
        sums: int64 `[p]`, addresses of the learners' sums, `[w, 4]`; 0: the stream has no such learner.
        factors: float64 `[w]`, the fading factor of each window.
        labelled: The labels.
        predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
        after: float64 `[w, k, 4]`, filled: the sums after each label or correction.
        reported: float64 `[r, w, 4]`, filled: the sums at each report.
    """
    for stream in range(len(sums)):
        prefetch_all(sums[min(stream + PREFETCH_DISTANCE, len(sums) - 1)], _ROW_BYTES * len(factors))
        if sums[stream] == 0:
            continue
        for window in range(len(factors)):
            own, fading = doubles_at(sums[stream] + _ROW_BYTES * window), factors[window]
            report, end = labelled.reports[stream], labelled.reports[stream + 1]
            correction = labelled.corrections[stream]
            for k in range(labelled.bounds[stream], labelled.bounds[stream + 1] + 1):
                while report < end and labelled.seen[report] == k:
                    for column in range(4):
                        reported[report, window, column] = own[column]
                    report += 1
                if k == labelled.bounds[stream + 1]:
                    break
                if labelled.labels[k] < CORRECTED:
                    _count(own, fading, labelled.labels[k], predicted[k])
                else:
                    _correct(own, fading, labelled.ages, correction, labelled.labels[k] - CORRECTED, predicted[k])
                    correction += 1
                for column in range(4):
                    after[window, k, column] = own[column]


class Prequential:
    """The prequential sums of one learner on one stream.

    Args:
        factors: The fading factor of each window, in (0, 1]; 0.99 in the paper; 1 gives all labels the same weight.
    """

    def __init__(self, factors: Sequence[float] = (0.99,)) -> None:
        if not factors or not all(0.0 < fading <= 1.0 for fading in factors):
            raise ValueError(f"fading factors are in (0, 1], not {list(factors)}")
        self._factors = np.array(factors, np.float64)
        self._sums = np.zeros((len(factors), len(COLUMNS)))

    def run(self, predicted: NDArray[np.int8], labels: NDArray[np.int8]) -> NDArray[np.float64]:
        """Take k labels into the sums, one after the other.

        Args:
            predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
            labels: int8 `[k]`, the class, 0 or 1.

        Returns:
            float64 `[w, k, 4]`, the sums of each window after each label, by `COLUMNS`.
        """
        windows, columns = self._sums.shape
        after, bounds = np.empty((windows, len(labels), columns)), np.array([0, len(labels)], np.int64)
        none, reported = np.zeros(2, np.int64), np.empty((0, windows, columns))
        labelled = Labelled(labels, bounds, none[:0], none, np.zeros((0, 3), np.int64), none)
        run(np.array([self.address], np.int64), self._factors, labelled, predicted, after, reported)
        return after

    def sums(self) -> NDArray[np.float64]:
        """Return a copy of the sums, float64 `[w, 4]`, by `COLUMNS`."""
        return self._sums.copy()

    @property
    def main_window(self) -> MetricWindow:
        """The figures of the main window."""
        return window_of(float(self._factors[MAIN_WINDOW]), self._sums[MAIN_WINDOW])

    @property
    def address(self) -> int:
        """The address of the sums, for `run`; valid as long as this object exists."""
        return address_of(self._sums)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state."""
        return {_NAME: self._sums.copy()}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: The state is not four sums for each window that are finite and not negative.
        """
        sums = arrays.get(_NAME)
        if sums is None or sums.shape != self._sums.shape:
            shape = list(self._sums.shape)
            raise StateError(f"the prequential sums must be numbers {shape} by the name {_NAME}")
        numbers = np.asarray(sums, np.float64)
        if sums.dtype != self._sums.dtype or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise StateError(f"the prequential sums cannot be {sums.tolist()}")
        self._sums[...] = numbers


def window_of(fading: float, sums: NDArray[np.float64]) -> MetricWindow:
    """Return the figures of one row of sums; some are None until both classes have had a label."""
    positive_correct, positive_total, negative_correct, negative_total = sums.tolist()
    recall = specificity = gmean = None
    if positive_total > 0.0 and negative_total > 0.0:
        recall, specificity = positive_correct / positive_total, negative_correct / negative_total
        gmean = math.sqrt(recall * specificity)
    return MetricWindow(
        fading_factor=fading,
        recall=recall,
        specificity=specificity,
        gmean=gmean,
        positive_correct=positive_correct,
        positive_total=positive_total,
        negative_correct=negative_correct,
        negative_total=negative_total,
    )
