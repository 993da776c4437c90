"""Count the scores of predictions again, and say between which numbers a threshold of `alerts` must be; pure.

Written from the rule and apart from `pipeline.alert_share`. The count of each bin fades with every prediction by
`metrics.prevalence_fading_factor`. From the highest score down, the counts are added up to the share of the whole. Each
prediction of class 0 lowers the threshold by the share, in eighths of a bin, and each of class 1 raises it by what is
left of one eighth; both together move it by at most four bins.

A threshold follows from all predictions of the learner since the threshold came into force. Where a prediction is
missing, was deleted or was never published, it is not known until the next such moment.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from stream_app.records import Prediction
from stream_app.verify.reference_state import Predicted

HALF_BINS: Final = 32
"""Bins on each side of the score 0.5."""

_PER_BIN: Final = 8.0
"""Alerts that move the threshold by one bin."""

_MOST_BINS: Final = 4
"""How far alerts that are carried over move the threshold."""

_SUM_ERROR: Final = 1e-9
"""How far a sum of counts may be from another such sum, in relation to it."""


@dataclass
class _Scores:
    """What is known of the scores of a learner: how many there were, faded counts by bin, and alerts carried over."""

    number: int = 0
    counts: list[float] = field(default_factory=lambda: [0.0] * 2 * HALF_BINS)
    carried: float = 0.0

    def add(self, score: float, fading: float) -> None:
        """Count the score of one more prediction."""
        self.number += 1
        self.counts = [fading * count for count in self.counts]
        self.counts[bin_of(score)] += 1.0

    def threshold(self, share: float) -> float:
        """Return the number that this share of the scores exceeds, after what was carried over."""
        left = share * math.fsum(self.counts)
        place = 0.0
        for row in reversed(range(2 * HALF_BINS)):
            count = self.counts[row]
            if count and left <= count:
                place = row + 1 - left / count
                break
            left -= count
        return score_at(place - self.carried / _PER_BIN)


class AlertThresholds:
    """The thresholds of the learners of one task that have a share of alerts, prediction by prediction.

    Attributes:
        unknown: Number of thresholds that could not be computed again.
    """

    def __init__(self) -> None:
        self._scores: dict[tuple[str, str], _Scores] = {}
        self.unknown = 0

    def fault(self, event: Predicted, found: Prediction) -> str | None:
        """Count a prediction, and say what is wrong with its threshold; None if nothing is or if it is not known."""
        model, share, number = (event.stream, event.learner), event.threshold.alerts, found.threshold
        if share is None:
            return None
        if number is None or not 0.0 <= number <= 1.0:
            return f"threshold is {number}, must be a score"
        if event.number == 1:
            self._scores[model] = _Scores()
        scores = self._scores.get(model)
        if scores is None or scores.number != event.number - 1:
            self._scores.pop(model, None)
            self.unknown += 1
            return None
        scores.add(found.score, event.fading)
        low, high = (scores.threshold(share * (1.0 + error)) for error in (_SUM_ERROR, -_SUM_ERROR))
        most = _MOST_BINS * _PER_BIN
        scores.carried = min(max(scores.carried + share - found.predicted_class, -most), most)
        rounding = 1e-6 * min(high, 1.0 - low) + 1e-7 * high
        if low - rounding <= number <= high + rounding:
            return None
        del self._scores[model]  # what follows from a wrong record would be wrong, too
        return f"threshold is {number}, the scores so far give {high:.9g}"


def bin_of(score: float) -> int:
    """Return the bin of a score, from 0 up: half octaves of the distance to the nearer of 0 and 1."""
    mantissa, exponent = math.frexp(min(score, 1.0 - score))
    away = HALF_BINS - 1 if not mantissa else min(max(-2 * (exponent + 1) + (mantissa < 0.75), 0), HALF_BINS - 1)
    return HALF_BINS - 1 - away if score < 0.5 else HALF_BINS + away


def score_at(place: float) -> float:
    """Return the score at a place among the bins, such as 40.5, the middle of bin 40."""
    place = min(max(place, 0.0), 2.0 * HALF_BINS)
    away = abs(place - HALF_BINS)
    near = _edge(math.floor(away)) + (away % 1.0) * (_edge(math.floor(away) + 1) - _edge(math.floor(away)))
    return near if place < HALF_BINS else 1.0 - near


def _edge(number: int) -> float:
    """Return the distance from 0 or 1 at which a bin ends, counted from the middle."""
    if number >= HALF_BINS:
        return 0.0
    return math.ldexp((1.0, 0.75)[number % 2], -1 - number // 2)
