"""Drift without labels: how far a window of examples is from a reference, by the population stability index (PSI).

For each feature, and for the champion's score, the reference is a histogram of the first examples. Its edges are about
the deciles of these examples; an edge never parts equal values, so that a feature with few values has a bin for each
frequent value. Each further example is counted in the histogram of the window. Windows follow one another: each ends
where the number of the stream's examples is a multiple of `drift.window_examples`. A window that the reference has
examples of, or that is not whole, is not compared.

With p and q, the shares of a bin in the reference and in the window, each after 0.0001 was added and divided by the sum
over the bins, PSI is the sum of (q - p) ln(q / p): the symmetric Kullback-Leibler divergence (Jeffreys 1946; Siddiqi,
Credit Risk Scorecards, 2006). Without drift, its mean is about (bins - 1) (1 / reference + 1 / window) (Yurdakul 2018).

The score's reference begins later, since the scores of a learner that has seen few labels move without any drift: after
as many labels as it has examples. It begins again with each champion.

An example costs a comparison for each edge of each feature; an example of the reference costs a copy. The reference's
values are kept until it is complete.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import DriftSettings
from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, address_of, column_at, offset_pointer

BINS = 10
EDGES = BINS - 1

SHARE = 1e-4
"""What is added to the share of each bin, so that PSI is finite with empty bins."""

# The head of the state: examples and labels of the stream so far, the champion, and how many examples the references
# of features and score and their windows have; how many examples there had been at the end of the last whole window.
_EXAMPLES, _LABELS, _CHAMPION, _KEPT, _KEPT_SCORES, _WINDOW, _SCORE_WINDOW, _CLOSED = range(8)
# Then the settings.
_REFERENCE_EXAMPLES, _WINDOW_EXAMPLES, _THRESHOLD, _FEATURES = 8, 9, 10, 11
_HEAD = 12

_NUMBERS, _REFERENCE = "numbers", "reference"

FIGURES = 5
"""What a report has: examples at the end of the last window, PSI of the score, the largest PSI of a feature, the number
of this feature, and how many features have drifted. NaN: not known."""

_LN2 = math.log(2.0)
_TERMS = 25
"""The last power of the logarithm's series; the next one adds less than a unit in the last place."""


class DriftFigures(NamedTuple):
    """The figures of the last whole window; None: there has been no such window.

    Attributes:
        examples: The stream's examples at its end.
        score_psi: PSI of the champion's scores; None also while they have no reference.
        feature_psi: The largest PSI of a feature.
        feature: The number of this feature, from 0.
        features_drifted: How many features have a PSI above the threshold.
    """

    examples: int | None = None
    score_psi: float | None = None
    feature_psi: float | None = None
    feature: int | None = None
    features_drifted: int | None = None


@inlined_without_refcounts
def _logarithm(value: float) -> float:
    """Return the natural logarithm by plain arithmetic, which has the same bits on every machine."""
    part, power = math.frexp(value)
    if part < 0.7071067811865476:
        part *= 2.0
        power -= 1
    ratio = (part - 1.0) / (part + 1.0)
    square, term, total, n = ratio * ratio, ratio, 0.0, 1
    while n <= _TERMS:
        total += term / n
        term *= square
        n += 2
    return 2.0 * total + power * _LN2


@inlined_without_refcounts
def _edges_at(own: Pointer, row: Number) -> Pointer:
    return offset_pointer(own, _HEAD + row * EDGES)


@inlined_without_refcounts
def _counts_at(own: Pointer, row: Number, current: Number) -> Pointer:
    """Return the counts of a row in the reference, or with `current` = 1 in the window."""
    rows = int(own[_FEATURES]) + 1
    return offset_pointer(own, _HEAD + rows * EDGES + (current * rows + row) * BINS)


@inlined_without_refcounts
def _bin_of(edges: Pointer, value: float) -> int:
    place = 0
    for k in range(EDGES):
        place += value > edges[k]
    return place


@compiled_without_refcounts
def _sort(values: NDArray[np.float64]) -> None:
    """Sort in place, by a heap: NumPy's sort would need memory of its own in compiled code."""
    count = len(values)
    for step in range(count // 2 + count - 1):
        is_built = step >= count // 2
        root, end = (0, count - 1 - (step - count // 2)) if is_built else (count // 2 - 1 - step, count)
        if is_built:
            values[0], values[end] = values[end], values[0]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[child] < values[child + 1]:
                child += 1
            if values[root] >= values[child]:
                break
            values[root], values[child] = values[child], values[root]
            root = child


@inlined_without_refcounts
def _begin_reference(own: Pointer, row: Number, values: NDArray[np.float64]) -> None:
    """Choose the edges of a row by its values in the reference, and count these; the values are sorted in place.

    An edge is the last value of its bin: each is at the end of a run of equal values, the one that is nearer to the
    quantile. A row with one value gets two edges around it.
    """
    _sort(values)
    count, edges, counts = len(values), _edges_at(own, row), _counts_at(own, row, 0)
    for k in range(EDGES):
        place = (k + 1) * count // BINS
        low, high = place, place
        value = values[place]
        while low > 0 and values[low - 1] == value:
            low -= 1
        while high < count and values[high] == value:
            high += 1
        cut = low if (place - low <= high - place and low > 0) or high == count else high
        if cut == 0:  # all values are equal
            edges[k] = value if k > 0 else np.nextafter(value, -np.inf)
        else:
            edges[k] = values[cut - 1]
    for k in range(count):
        counts[_bin_of(edges, values[k])] += 1.0


@inlined_without_refcounts
def _index_of(own: Pointer, row: Number) -> float:
    """Return the PSI of a row, from its counts in the reference and in the window."""
    before, now = _counts_at(own, row, 0), _counts_at(own, row, 1)
    total = 0.0
    for k in range(BINS):
        p = (before[k] / own[_REFERENCE_EXAMPLES] + SHARE) / (1.0 + BINS * SHARE)
        q = (now[k] / own[_WINDOW_EXAMPLES] + SHARE) / (1.0 + BINS * SHARE)
        if p != q:
            total += (q - p) * _logarithm(q / p)
    return total


@inlined_without_refcounts
def _end_window(own: Pointer) -> None:
    """Compare the window with the reference, if both are whole, and begin the next one."""
    features = int(own[_FEATURES])
    indices = _counts_at(own, features + 1, 1)
    if own[_WINDOW] == own[_WINDOW_EXAMPLES]:
        own[_CLOSED] = own[_EXAMPLES]
        for row in range(features):
            indices[row] = _index_of(own, row)
        whole = own[_SCORE_WINDOW] == own[_WINDOW_EXAMPLES]
        indices[features] = _index_of(own, features) if whole else np.nan
    counts = _counts_at(own, 0, 1)
    for k in range((features + 1) * BINS):
        counts[k] = 0.0
    own[_WINDOW] = own[_SCORE_WINDOW] = 0.0


@inlined_without_refcounts
def _meet_champion(own: Pointer, champion: Number) -> None:
    """Forget the scores of another champion."""
    if own[_CHAMPION] != champion:
        width = int(own[_FEATURES])
        own[_CHAMPION] = champion
        own[_KEPT_SCORES] = own[_SCORE_WINDOW] = 0.0
        _counts_at(own, width + 1, 1)[width] = np.nan
        for k in range(BINS):
            _counts_at(own, width, 0)[k] = 0.0
            _counts_at(own, width, 1)[k] = 0.0


@inlined_without_refcounts
def _observe_features(own: Pointer, kept: Pointer, features: Floats, slot: Number) -> None:
    size, width, at = int(own[_REFERENCE_EXAMPLES]), int(own[_FEATURES]), int(own[_KEPT])
    if at == size:
        for row in range(width):
            _counts_at(own, row, 1)[_bin_of(_edges_at(own, row), features[slot, row])] += 1.0
        own[_WINDOW] += 1.0
        return
    for row in range(width):
        kept[row * size + at] = features[slot, row]
    own[_KEPT] = at + 1
    if at + 1 == size:
        for row in range(width):
            _begin_reference(own, row, column_at(offset_pointer(kept, row * size), size))


@inlined_without_refcounts
def _observe_score(own: Pointer, kept: Pointer, score: float) -> None:
    size, width, at = int(own[_REFERENCE_EXAMPLES]), int(own[_FEATURES]), int(own[_KEPT_SCORES])
    if at == size:
        _counts_at(own, width, 1)[_bin_of(_edges_at(own, width), score)] += 1.0
        own[_SCORE_WINDOW] += 1.0
    elif own[_LABELS] >= size:
        kept[width * size + at] = score
        own[_KEPT_SCORES] = at + 1
        if at + 1 == size:
            _begin_reference(own, width, column_at(offset_pointer(kept, width * size), size))


@inlined_without_refcounts
def observe_example(
    own: Pointer, kept: Pointer, features: Floats, slot: Number, score: float, champion: Number
) -> None:
    """Take in an example that was predicted, in a row of `features`, with the champion's score."""
    own[_EXAMPLES] += 1.0
    _meet_champion(own, champion)
    _observe_features(own, kept, features, slot)
    _observe_score(own, kept, score)
    if int(own[_EXAMPLES]) % int(own[_WINDOW_EXAMPLES]) == 0:
        _end_window(own)


@inlined_without_refcounts
def observe_label(own: Pointer) -> None:
    """Count a label that was joined."""
    own[_LABELS] += 1.0


@inlined_without_refcounts
def report_drift(own: Pointer, report: NDArray[np.float64]) -> None:
    """Fill a report, float64 `[FIGURES]`."""
    report[:] = np.nan
    if own[_CLOSED] == 0.0:
        return
    width = int(own[_FEATURES])
    indices = _counts_at(own, width + 1, 1)
    largest, drifted = 0, 0
    for row in range(width):
        if indices[row] > indices[largest]:
            largest = row
        drifted += indices[row] > own[_THRESHOLD]
    report[0], report[1], report[2] = own[_CLOSED], indices[width], indices[largest]
    report[3], report[4] = largest, drifted


class InputDrift:
    """The references and windows of one stream.

    Args:
        settings: The settings of the stream.
        features: The number of features of an example.
        examples: The stream's examples so far.
        labels: Its labels so far.
    """

    def __init__(self, settings: DriftSettings, features: int, examples: int = 0, labels: int = 0) -> None:
        rows, size = features + 1, settings.reference_examples
        self._state = np.zeros(_HEAD + rows * (EDGES + 2 * BINS + 1))
        self._state[-rows:] = np.nan
        self._state[[_EXAMPLES, _LABELS, _CHAMPION]] = examples, labels, -1
        self._state[_REFERENCE_EXAMPLES:_HEAD] = size, settings.window_examples, settings.threshold, features
        self._kept = np.zeros((rows, size))

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of the state, for `steps.watch_inputs`; valid as long as this object exists."""
        return address_of(self._state), address_of(self._kept)

    @property
    def figures(self) -> DriftFigures:
        """The figures of the last whole window."""
        if self._state[_CLOSED] == 0.0:
            return DriftFigures()
        *indices, score = self._state[-len(self._kept) :].tolist()
        drifted = sum(index > self._state[_THRESHOLD] for index in indices)
        largest = max(indices)
        examples, known = int(self._state[_CLOSED]), None if math.isnan(score) else score
        return DriftFigures(examples, known, largest, indices.index(largest), int(drifted))

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the state."""
        return self._state.nbytes + self._kept.nbytes

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state; the values of a reference only until it is complete."""
        return {_NUMBERS: self._state.copy(), _REFERENCE: np.concatenate([part.ravel() for part in self._incomplete()])}

    def _incomplete(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values that incomplete references have so far: of the features, and of the score."""
        size = self._kept.shape[1]
        kept, scores = (int(self._state[k]) for k in (_KEPT, _KEPT_SCORES))
        return self._kept[:-1, : kept if kept < size else 0], self._kept[-1, : scores if scores < size else 0]

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: It is not the state of such a stream.
        """
        numbers, reference = arrays.get(_NUMBERS), arrays.get(_REFERENCE)
        if numbers is None or numbers.shape != self._state.shape or numbers.dtype != self._state.dtype:
            raise StateError(f"drift: numbers {list(self._state.shape)} are missing")
        state, size = np.asarray(numbers, np.float64), self._kept.shape[1]
        head, counted = state[:_REFERENCE_EXAMPLES], state[: -len(self._kept)]
        if not np.isfinite(counted).all() or (head < -1).any() or (head[1:2] < 0).any() or (head % 1).any():
            raise StateError("drift: the numbers are not counts")
        if (state[_REFERENCE_EXAMPLES:_HEAD] != self._state[_REFERENCE_EXAMPLES:_HEAD]).any():
            raise StateError("drift: the settings are those of another stream")
        if ((head[[_KEPT, _KEPT_SCORES]] < 0) | (head[[_KEPT, _KEPT_SCORES]] > size)).any():
            raise StateError("drift: a reference has more examples than it may have")
        self._state[...] = state
        rows, scores = self._incomplete()
        if reference is None or reference.shape != (rows.size + scores.size,) or reference.dtype != self._kept.dtype:
            raise StateError("drift: the values of the reference are missing")
        rows[...] = np.asarray(reference[: rows.size], np.float64).reshape(rows.shape)
        scores[...] = reference[rows.size :]
