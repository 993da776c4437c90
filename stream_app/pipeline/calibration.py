"""What a score has meant so far: the probability of class 1, by the labels of examples with such a score.

A learner that rebalances the classes says how much an example looks like class 1, not how probable class 1 is. For each
bin of scores (`join.score_bins`), a calibration counts the labels of class 1 and of class 0. All counts fade at every
label by `metrics.prevalence_fading_factor`, as in `prequential`: the weight of the newest label grows. Every
`_EVERY` labels, the share of class 1 in each bin becomes the new map: pooled with its neighbours where it would fall as
the score rises (pool adjacent violators; Ayer et al. 1955, Zadrozny and Elkan 2002), and `_PRIOR` of a label with the
score itself as its class, so that a bin without labels has a value. Between the centres of two bins, a probability is
interpolated.

Measured on nine streams of `producers.synthetic` with 1 % and 10 % of class 1 and four learners each: the expected
calibration error after 10,000 labels, over 15 groups of equal size of the next 10,000 predictions, is 0.003 on average
(of the score: 0.061) and no more than 0.005 on streams without noise; 10,000 labels after a drift it is 0.004. Numbers
that were drawn with these very probabilities have about the same error. Platt scaling with forgetting (two parameters,
and three of beta calibration) has 0.007 and 0.006, histograms that fade by class 0.005.

The calibration error is that of the probabilities as they were published. A correction moves its example from one
count to the other, with the weight that it has by now.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import StateError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, address_of, doubles_at, offset_pointer
from stream_app.join.score_bins import BIN_CENTRES, BINS, score_place
from stream_app.pipeline.prequential import kept_small

GROUPS = 15
"""Groups of about equal size, of neighbouring bins, over which the calibration error is the mean."""

_EVERY = 32
"""Labels between two maps: with 16 or 64, the calibration error is the same to 0.0003."""

_PRIOR = 0.01
"""The weight of the score itself in each bin, in labels; with 0.001 or 0.05, the calibration error is the same."""

_WEIGHT, _SINCE = 0, 1
"""The weight of the newest label; labels since the map was made."""

_ZEROS, _ONES, _PROMISED, _MAP = 2, 2 + BINS, 2 + 2 * BINS, 2 + 3 * BINS
"""Counts of labels of class 0 and 1, sums of the published probabilities, and the map: `BINS` numbers each."""

_WIDTH = 2 + 4 * BINS

_NAME = "calibration"


@inlined_without_refcounts
def probability_of(own: Pointer, score: np.float32) -> np.float32:
    """Return the probability of class 1 of an example with this score."""
    place = min(max(score_place(score) - 0.5, 0.0), BINS - 1.0)
    row = min(int(place), BINS - 2)
    low = own[_MAP + row]
    return np.float32(low + (place - row) * (own[_MAP + row + 1] - low))


@inlined_without_refcounts
def count_label(
    own: Pointer,
    fading: float,
    label: Number,
    score_bin: Number,
    probability: np.float32,
    scratch: NDArray[np.float64],
) -> None:
    """Count a label of an example with a score in this bin, for which this probability was published."""
    weight = kept_small(offset_pointer(own, _ZEROS), _MAP - _ZEROS, own[_WEIGHT] / fading)
    own[_WEIGHT] = weight
    own[(_ONES if label == 1 else _ZEROS) + score_bin] += weight
    own[_PROMISED + score_bin] += weight * np.float64(probability)
    own[_SINCE] += 1.0
    if own[_SINCE] == _EVERY:
        own[_SINCE] = 0.0
        _make_map(own, scratch)


@inlined_without_refcounts
def correct_label(own: Pointer, power: float, label: Number, score_bin: Number) -> None:
    """Move a label to this class; `power` is the fading factor to the power of the labels since."""
    weight = own[_WEIGHT] * power
    old, new = (_ZEROS, _ONES) if label == 1 else (_ONES, _ZEROS)
    own[old + score_bin] = max(own[old + score_bin] - weight, 0.0)
    own[new + score_bin] += weight


@inlined_without_refcounts
def _make_map(own: Pointer, scratch: NDArray[np.float64]) -> None:
    """Make the map from the counts; `scratch`, float64 `[3, BINS]`, takes value, weight and size of each pool."""
    prior = _PRIOR * own[_WEIGHT]
    pools = 0
    for row in range(BINS):
        weight = own[_ZEROS + row] + own[_ONES + row] + prior
        value = (own[_ONES + row] + prior * BIN_CENTRES[row]) / weight
        size = 1.0
        while pools > 0 and scratch[0, pools - 1] >= value:
            pools -= 1
            before = scratch[1, pools]
            value = (scratch[0, pools] * before + value * weight) / (before + weight)
            weight += before
            size += scratch[2, pools]
        scratch[0, pools] = value
        scratch[1, pools] = weight
        scratch[2, pools] = size
        pools += 1
    row = 0
    for pool in range(pools):
        for _ in range(int(scratch[2, pool])):
            own[_MAP + row] = scratch[0, pool]
            row += 1


@inlined_without_refcounts
def calibration_error(own: Pointer) -> float:
    """Return the expected calibration error over `GROUPS` groups of neighbouring bins; NaN before the first label."""
    total = 0.0
    for row in range(BINS):
        total += own[_ZEROS + row] + own[_ONES + row]
    if not total > 0.0:
        return np.nan
    error = gap = passed = 0.0
    group = 1.0
    for row in range(BINS):
        gap += own[_PROMISED + row] - own[_ONES + row]
        passed += own[_ZEROS + row] + own[_ONES + row]
        if passed * GROUPS >= group * total:
            error += abs(gap)
            gap = 0.0
            group = np.floor(passed * GROUPS / total) + 1.0
    return (error + abs(gap)) / total


@compiled_without_refcounts
def _error_at(address: int) -> float:
    return calibration_error(doubles_at(address))


class Calibration:
    """The calibration of one learner on one stream.

    Attributes:
        address: The address of the state, for `steps.calibrate`; valid as long as this object exists.
    """

    def __init__(self) -> None:
        self._state = np.zeros(_WIDTH)
        self.address = address_of(self._state)
        self._state[_WEIGHT] = 1.0
        self._state[_MAP:] = BIN_CENTRES

    @property
    def error(self) -> float | None:
        """The expected calibration error; None before the first label."""
        error = float(_error_at(self.address))
        return None if math.isnan(error) else error

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state."""
        return {_NAME: self._state.copy()}

    @staticmethod
    def are_right(states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say of each of n states, float64 `[n, ...]`, whether its numbers can be those of a calibration."""
        numbers = (np.isfinite(states) & (states >= 0)).all(1)
        return np.asarray(numbers & (states[:, _WEIGHT] != 0) & (states[:, _MAP:] <= 1).all(1))

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: The state is not counts, sums and a map that are finite and not negative.
        """
        state = arrays.get(_NAME)
        if state is None or state.shape != self._state.shape or state.dtype != self._state.dtype:
            raise StateError(f"a calibration must be numbers {list(self._state.shape)} by the name {_NAME}")
        numbers = np.asarray(state, np.float64)
        if not self.are_right(numbers[None])[0]:
            raise StateError("the numbers of a calibration must be finite and not negative, and its map at most 1")
        self._state[...] = numbers
