"""The threshold that a given share of the scores exceeds, so that a stream has as many alerts as people can look at.

Each arrival is first counted in a histogram of the learner's scores (`join.score_bins`), which fades at every arrival
by `metrics.prevalence_fading_factor`. From the highest bin down, the threshold is the place at which the share is
reached, interpolated within its bin. What is left of the share is carried over: each example that is no alert lowers
the threshold a little, each alert raises it, together by up to four bins. So the share is also met where scores drift
with what is learned, or crowd at one number, such as 1.0, which no fixed threshold could part: some of them are alerts.
Only a score of 0 never is, since no threshold is below it.

Measured on 20,000 scores each that are uniform, crowd near 0 or 1, are all equal, or drift slowly: of shares of 1 %,
10 % and 50 %, 0.965 to 1.035 times the share are alerts, most within 0.5 %. After a jump of all scores there are more
or fewer alerts until the histogram has followed.

The first examples have little to be compared with: the share holds for them, too, with fewer alerts at first. A new
threshold begins with an empty histogram, as does a new learner.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import StateError
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, address_of, offset_pointer
from stream_app.join.score_bins import BIN_EDGES, BINS, score_bin
from stream_app.pipeline.prequential import kept_small

_PER_BIN = 8.0
"""Alerts that move the threshold by one bin: fewer would make it jump."""

_MOST_CARRIED = 32.0
"""Alerts that are carried over at most: with 8, a fifth of the share was missed while a learner's scores drifted."""

_WEIGHT, _CARRIED, _SCORES = 0, 1, 2
"""The weight of the newest arrival; alerts that are carried over; the histogram, `BINS` numbers."""

_WIDTH = 2 + BINS

_NAME = "alert_scores"


@inlined_without_refcounts
def threshold_of_share(own: Pointer, share: float, fading: float, score: np.float32) -> np.float32:
    """Count the score of an arrival; return the threshold that this share of the scores exceeds."""
    scores = offset_pointer(own, _SCORES)
    own[_WEIGHT] = kept_small(scores, BINS, own[_WEIGHT] / fading)
    scores[score_bin(score)] += own[_WEIGHT]
    total = 0.0
    for row in range(BINS):
        total += scores[row]
    left, row = share * total, BINS - 1
    while row > 0 and scores[row] < left:
        left -= scores[row]
        row -= 1
    inside = left / scores[row] if scores[row] > 0.0 else 0.0
    place = min(max(row + 1.0 - inside - own[_CARRIED] / _PER_BIN, 0.0), float(BINS))
    row = min(int(place), BINS - 1)
    return np.float32(BIN_EDGES[row] + (place - row) * (BIN_EDGES[row + 1] - BIN_EDGES[row]))


@inlined_without_refcounts
def carry_over(own: Pointer, share: float, decided: Number) -> None:
    """Note whether the example was an alert."""
    own[_CARRIED] = min(max(own[_CARRIED] + share - decided, -_MOST_CARRIED), _MOST_CARRIED)


class AlertShare:
    """The scores of one learner on one stream, under a threshold `alerts`.

    Attributes:
        address: The address of the state, for `steps.calibrate`; valid as long as this object exists.
    """

    def __init__(self) -> None:
        self._state = np.zeros(_WIDTH)
        self.address = address_of(self._state)
        self.begin()

    def begin(self) -> None:
        """Forget all scores."""
        self._state[...] = 0.0
        self._state[_WEIGHT] = 1.0

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return a copy of the state."""
        return {_NAME: self._state.copy()}

    @staticmethod
    def are_right(states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say of each of n states, float64 `[n, ...]`, whether its numbers can be those of alerts."""
        scores, weights = states[:, _SCORES:], states[:, _WEIGHT]
        numbers = (np.isfinite(scores) & (scores >= 0)).all(1) & (weights > 0) & (weights < np.inf)
        return np.asarray(numbers & (np.abs(states[:, _CARRIED]) <= _MOST_CARRIED))

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state.

        Raises:
            StateError: The state is not a weight, a number of alerts and a histogram.
        """
        state = arrays.get(_NAME)
        if state is None or state.shape != self._state.shape or state.dtype != self._state.dtype:
            raise StateError(f"the scores of alerts must be numbers {list(self._state.shape)} by the name {_NAME}")
        numbers = np.asarray(state, np.float64)
        if not self.are_right(numbers[None])[0]:
            raise StateError("the scores of alerts must be finite and not negative")
        self._state[...] = numbers
