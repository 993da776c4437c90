"""Prequential figures with a fading factor (Gama, Sebastião, Rodrigues 2013), by class.

Each class has two sums: of its labels, and of its labels that were predicted right. Both start at 0, and fade only at a
label of that class: `sum = fading * sum + (1 or 0)`. So the figure of a class without labels does not change.
Each of `metrics.fading_factors` has sums of its own, a *window*; no window depends on the others.

Each class also has a histogram of the scores of its labels, which fades as its sums do. It is not multiplied at each
label: the weight of the newest label grows by `1 / fading` instead, and when it exceeds `_MAX_WEIGHT`, the
histogram is divided by it. Only ratios of bins mean anything. Two further sums, of the labels of class 1 and of all
labels, fade at every label, by `metrics.prevalence_fading_factor` or by the fading factor of the window if that is
nearer to 1; their ratio is the prevalence. `window_figures` computes the figures.

A correction moves the contribution of its example, and nothing else. With N_c labels of class c so far, n_c of them up
to the example's own, all as they came, the pair of sums of class c is the sum of `f ** (N_c - n_c) * (right or not, 1)`
over the examples of class c. The corrected example leaves the pair of its old class with `f ** (N_old - n_old)`, and
enters the pair of its new class with `f ** (N_new - n_new)`, the weight of the last label of that class before it. Its
place in the histograms moves likewise, and the prevalence and the cost change by its weight among all labels. The
fading that its label caused is not undone, so a second correction cancels the first. Without fading, the figures are
the figures of the corrected labels. The time does not depend on how long ago the label came. The result is exact except
for rounding, which is bounded: if a class has no example left, its sums and its histogram are 0, and no class has more
right predictions than labels.

The cost of decisions fades as the prevalence does, since a class that comes rarely costs rarely: two more sums have the
costs of the decisions, and the labels whose costs are known.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Longs
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import (
    PREFETCH_DISTANCE,
    Number,
    Pointer,
    address_of,
    doubles_at,
    offset_pointer,
    prefetch_all,
)
from stream_app.join.score_bins import BINS, score_bins
from stream_app.metric_windows import window_of
from stream_app.pipeline.decision_costs import correct_cost, cost_of, count_cost
from stream_app.pipeline.window_figures import average_precision, roc_auc, windows_of
from stream_app.records import MetricWindow

COLUMNS = ("positive_correct", "positive_total", "negative_correct", "negative_total")
"""The columns of the sums of a window, all faded."""

MAIN_WINDOW = 0
"""The window that the change detector and most readers use."""

REPORT_COLUMNS = (*COLUMNS, "faded_positives", "faded_labels", "roc_auc", "average_precision", "costs", "costed")
"""The numbers of a window at a report: its sums, those of the prevalence, two figures (NaN: not known), and costs."""

_POSITIVES, _LABELS = 4, 5
"""The columns of the prevalence: labels of class 1 and all labels, both faded at every label."""

_WEIGHT = 6
"""The column of the weight of the newest label of class 0; class 1 has the next."""

_HISTOGRAMS = 8
"""The first column of the histogram of class 0, `BINS` columns; class 1 has the next."""

_COSTS, _COSTED = _HISTOGRAMS + 2 * BINS, _HISTOGRAMS + 2 * BINS + 1
"""The columns of the costs of decisions, and of the labels whose costs are known, both faded at every label."""

_WIDTH = _HISTOGRAMS + 2 * BINS + 2
_ROW_BYTES = 8 * _WIDTH
_SUMS_BYTES = 8 * _HISTOGRAMS
"""What is prefetched: a label needs one bin of the histograms besides."""

_MAX_WEIGHT = 2.0**32
"""With a fading factor of 0.99, counts are divided once in 2,207 labels."""

_LEAST_COUNT = 1e-30
"""What is less than this after a division becomes 0: arithmetic with denormal numbers is slow."""

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
        costs: float32 `[k, 2]`, of a false positive and of a false negative, NaN: not known; empty if none are known.
    """

    labels: NDArray[np.int8]
    bounds: Longs
    seen: Longs
    reports: Longs
    ages: Longs
    corrections: Longs
    costs: Floats


class PastAnswers(NamedTuple):
    """What a learner had predicted for k labels.

    Attributes:
        classes: int8 `[k]`, the class of the prediction made on the example's arrival, or `UNPREDICTED`.
        bins: uint8 `[k]`, the bin of its score, see `score_bins`.
    """

    classes: NDArray[np.int8]
    bins: Bytes


class Factors(NamedTuple):
    """The factors of a window: how its sums fade, 1 over that, and how the sums of its prevalence fade."""

    fading: float
    growth: float
    prevalence_fading: float


@lru_cache(maxsize=100)
def factors_of(factors: tuple[float, ...], prevalence_fading: float) -> NDArray[np.float64]:
    """Return the `Factors` of each window, float64 `[w, 3]`; callers share the array, and do not change it.

    The window of a fading factor nearer to 1 has the prevalence of all of its labels, so that its figures agree.
    """
    fading = np.array(factors, np.float64)
    with np.errstate(over="ignore"):
        growth = 1.0 / fading
    return np.column_stack([fading, growth, np.maximum(fading, prevalence_fading)])


@inlined_without_refcounts
def power(fading: float, age: int) -> float:
    """Return `fading ** age`, by squaring: the functions of libraries round differently."""
    result = 1.0
    while age > 0:
        if age % 2 == 1:
            result *= fading
        fading *= fading
        age //= 2
    return result


@inlined_without_refcounts
def kept_small(counts: Pointer, size: Number, weight: float) -> float:
    """Divide `size` counts by the weight of the newest label if it has become large; return the weight from then on."""
    if weight > _MAX_WEIGHT:
        for row in range(size):
            count = counts[row] / weight
            counts[row] = count if count > _LEAST_COUNT else 0.0
        weight = 1.0
    return weight


@inlined_without_refcounts
def _histogram(own: Pointer, label: Number) -> Pointer:
    """Return the histogram of a class."""
    return offset_pointer(own, _HISTOGRAMS + BINS * label)


@inlined_without_refcounts
def _correct(own: Pointer, factors: Factors, ages: Longs, row: int, label: int, predicted: int, score_bin: int) -> None:
    """Move an example from the other class to this class; see the module."""
    if predicted == UNPREDICTED:
        return
    new, old = (0, 2) if label == 1 else (2, 0)
    weight = power(factors.fading, ages[row, 0])
    rest = own[old + 1] - weight
    total = rest if ages[row, 2] > 0 and rest > ROUNDING * weight else 0.0
    right = own[old] - (weight if predicted != label else 0.0)
    own[old] = min(max(right, 0.0), total)
    own[old + 1] = total
    histogram = _histogram(own, 1 - label)
    histogram[score_bin] = max(histogram[score_bin] - weight * own[_WEIGHT + 1 - label], 0.0)
    if total == 0.0:
        for column in range(BINS):
            histogram[column] = 0.0
    weight = power(factors.fading, ages[row, 1])
    own[new] += weight if predicted == label else 0.0
    own[new + 1] += weight
    histogram = _histogram(own, label)
    histogram[score_bin] += weight * own[_WEIGHT + label]
    weight = power(factors.prevalence_fading, ages[row, 0] + ages[row, 1])
    positives = own[_POSITIVES] + (weight if label == 1 else -weight)
    own[_POSITIVES] = min(max(positives, 0.0), own[_LABELS])


@inlined_without_refcounts
def _count(own: Pointer, factors: Factors, label: int, predicted: int, score_bin: int) -> None:
    """Take a label into the sums; see the module."""
    if predicted == UNPREDICTED:
        return
    column = 0 if label == 1 else 2
    own[column] = factors.fading * own[column] + (1.0 if predicted == label else 0.0)
    own[column + 1] = factors.fading * own[column + 1] + 1.0
    own[_POSITIVES] = factors.prevalence_fading * own[_POSITIVES] + (1.0 if label == 1 else 0.0)
    own[_LABELS] = factors.prevalence_fading * own[_LABELS] + 1.0
    histogram = _histogram(own, label)
    weight = kept_small(histogram, BINS, own[_WEIGHT + label] * factors.growth)
    own[_WEIGHT + label] = weight
    histogram[score_bin] += weight


@inlined_without_refcounts
def _take_cost(own: Pointer, factors: Factors, labelled: Labelled, k: int, correction: int, predicted: int) -> None:
    """Take the cost of a decision, if costs are known, into the sums, or change it if the entry is a correction."""
    if len(labelled.costs) == 0 or predicted == UNPREDICTED:
        return
    sums, label = offset_pointer(own, _COSTS), labelled.labels[k]
    if label < CORRECTED:
        cost, is_known = cost_of(label, predicted, labelled.costs, k)
        count_cost(sums, factors.prevalence_fading, cost, is_known)
    else:
        age = labelled.ages[correction, 0] + labelled.ages[correction, 1]
        weight = power(factors.prevalence_fading, age)
        correct_cost(sums, weight, label - CORRECTED, predicted, labelled.costs, k)


@inlined_without_refcounts
def _report(own: Pointer, report: NDArray[np.float64], row: Number, window: Number) -> None:
    """Fill the numbers of a window, by `REPORT_COLUMNS`."""
    for column in range(_LABELS + 1):
        report[row, window, column] = own[column]
    area = average = np.nan
    if own[1] > 0.0 and own[3] > 0.0:
        positives, negatives = _histogram(own, 1), _histogram(own, 0)
        area = roc_auc(positives, negatives)
        average = average_precision(positives, negatives, own[_POSITIVES] / own[_LABELS])
    report[row, window, _LABELS + 1] = area
    report[row, window, _LABELS + 2] = average
    report[row, window, _LABELS + 3], report[row, window, _LABELS + 4] = own[_COSTS], own[_COSTED]


@compiled_without_refcounts
def run(
    sums: Longs,
    factors: NDArray[np.float64],
    labelled: Labelled,
    predicted: PastAnswers,
    after: NDArray[np.float64],
    reported: NDArray[np.float64],
) -> None:
    """Take the labels of p streams into the sums of one learner of each stream.

    Args:
        sums: int64 `[p]`, addresses of the learners' sums, `[w, _WIDTH]`; 0: the stream has no such learner.
        factors: float64 `[w, 3]`, the factors of each window, see `factors_of`.
        labelled: The labels.
        predicted: What the learner had predicted.
        after: float64 `[w, k, 4]`, filled: the sums after each label or correction, by `COLUMNS`.
        reported: float64 `[r, w, 10]`, filled: the numbers at each report, by `REPORT_COLUMNS`.
    """
    for stream in range(len(sums)):
        ahead = sums[min(stream + PREFETCH_DISTANCE, len(sums) - 1)]
        for window in range(len(factors)):
            prefetch_all(ahead + _ROW_BYTES * window, _SUMS_BYTES)
        if sums[stream] == 0:
            continue
        for window in range(len(factors)):
            own = doubles_at(sums[stream] + _ROW_BYTES * window)
            own_factors = Factors(factors[window, 0], factors[window, 1], factors[window, 2])
            report, end = labelled.reports[stream], labelled.reports[stream + 1]
            correction = labelled.corrections[stream]
            for k in range(labelled.bounds[stream], labelled.bounds[stream + 1] + 1):
                while report < end and labelled.seen[report] == k:
                    _report(own, reported, report, window)
                    report += 1
                if k == labelled.bounds[stream + 1]:
                    break
                label, predicted_class, score_bin = labelled.labels[k], predicted.classes[k], predicted.bins[k]
                _take_cost(own, own_factors, labelled, k, correction, predicted_class)
                if label < CORRECTED:
                    _count(own, own_factors, label, predicted_class, score_bin)
                else:
                    _correct(own, own_factors, labelled.ages, correction, label - CORRECTED, predicted_class, score_bin)
                    correction += 1
                for column in range(4):
                    after[window, k, column] = own[column]


class Prequential:
    """The prequential sums of one learner on one stream.

    Args:
        factors: The fading factor of each window, in (0, 1]; 0.99 in the paper; 1 gives all labels the same weight.
        prevalence_fading: The fading factor of the prevalence, in (0, 1].

    Attributes:
        address: The address of the sums, for `run`; valid as long as this object exists.
    """

    def __init__(self, factors: Sequence[float] = (0.99,), prevalence_fading: float = 1.0) -> None:
        if not factors or not all(0.0 < fading <= 1.0 for fading in (*factors, prevalence_fading)):
            raise ValueError(f"fading factors are in (0, 1], not {[*factors, prevalence_fading]}")
        self._factors = factors_of(tuple(factors), prevalence_fading)
        self._sums = np.zeros((len(factors), _WIDTH))
        self._sums[:, _WEIGHT:_HISTOGRAMS] = 1.0
        self.address = address_of(self._sums)

    def run(
        self, predicted: NDArray[np.int8], labels: NDArray[np.int8], scores: Floats | None = None
    ) -> NDArray[np.float64]:
        """Take k labels into the sums, one after the other.

        Args:
            predicted: int8 `[k]`, the class of the prediction made on the example's arrival.
            labels: int8 `[k]`, the class, 0 or 1.
            scores: float32 `[k]`, the scores of these predictions; None: the classes.

        Returns:
            float64 `[w, k, 4]`, the sums of each window after each label, by `COLUMNS`.
        """
        after = np.empty((len(self._sums), len(labels), len(COLUMNS)))
        bins = score_bins(predicted.astype(np.float32) if scores is None else scores)
        self._run(labels, PastAnswers(predicted, bins), after, 0)
        return after

    def report(self) -> NDArray[np.float64]:
        """Return the numbers of each window, float64 `[w, 10]`, by `REPORT_COLUMNS`."""
        nothing = np.zeros(0, np.int8)
        after = np.empty((len(self._sums), 0, len(COLUMNS)))
        [report] = self._run(nothing, PastAnswers(nothing, np.zeros(0, np.uint8)), after, 1)
        return np.asarray(report)

    def _run(
        self, labels: NDArray[np.int8], predicted: PastAnswers, after: NDArray[np.float64], reports: int
    ) -> NDArray[np.float64]:
        bounds, none = np.array([0, len(labels)], np.int64), np.zeros(2, np.int64)
        reported = np.empty((reports, len(self._sums), len(REPORT_COLUMNS)))
        seen, report_bounds = np.full(reports, len(labels), np.int64), np.array([0, reports], np.int64)
        costs = np.zeros((0, 2), np.float32)
        labelled = Labelled(labels, bounds, seen, report_bounds, np.zeros((0, 3), np.int64), none, costs)
        run(np.array([self.address], np.int64), self._factors, labelled, predicted, after, reported)
        return reported

    def sums(self) -> NDArray[np.float64]:
        """Return a copy of the sums, float64 `[w, 4]`, by `COLUMNS`."""
        return self._sums[:, : len(COLUMNS)].copy()

    def windows(self) -> Sequence[MetricWindow]:
        """Return the figures of each window."""
        return [window_of(figures) for figures in windows_of(self._factors[:, 0].tolist(), self.report())]

    @property
    def main_window(self) -> MetricWindow:
        """The figures of the main window."""
        return self.windows()[MAIN_WINDOW]

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state."""
        return {_NAME: self._sums.copy()}

    @staticmethod
    def are_right(sums: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say of each of n sums, float64 `[n, w, ...]`, whether they are finite and not negative."""
        numbers = (np.isfinite(sums) & (sums >= 0)).all((1, 2))
        return np.asarray(numbers & ~((sums[:, :, _LABELS] == 0) & sums[:, :, 1:4:2].any(2)).any(1))

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: The state is not sums, weights and histograms of each window that are finite and not negative.
        """
        sums = arrays.get(_NAME)
        if sums is None or sums.shape != self._sums.shape:
            shape = list(self._sums.shape)
            raise StateError(f"the prequential sums must be numbers {shape} by the name {_NAME}")
        numbers = np.asarray(sums, np.float64)
        if sums.dtype != self._sums.dtype or not self.are_right(numbers[None])[0]:
            raise StateError("the prequential sums must be finite and not negative")
        self._sums[...] = numbers
