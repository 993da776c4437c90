"""Classes from the application's calibrated probability, at one half and at the threshold that Kappa asks for.

The probability is that of `stream_app.pipeline.calibration`, with the default fading factor. Labels come at once.

Cohen's kappa is 2 (t - pi q) / (pi + q - 2 pi q), with the share pi of positives, q of examples that are predicted
positive, and t of examples that are both. If an example with the probability p is predicted positive, the numerator
grows by 2 (p - pi) and the denominator by 1 - 2 pi, each divided by the number of examples. So the best threshold is
pi + kappa (1 - 2 pi) / 2, where kappa is the best value itself (Dinkelbach 1967, for the maximum of a ratio): one half
if the classes can be told apart perfectly, and the share of positives if not at all. Here pi and kappa are those of
the decisions so far; their sums fade like the counts of the calibration.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import MetricSettings
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.memory import doubles_at
from stream_app.join.score_bins import BINS, score_bin
from stream_app.pipeline.calibration import Calibration, count_label, probability_of

HALF = 0.5


class Decisions(NamedTuple):
    """What the calibrated probability says about n examples on their arrival.

    Attributes:
        probabilities: float32 `[n]`, of class 1.
        half: int8 `[n]`, 1 where the probability is above one half.
        kappa: int8 `[n]`, 1 where the probability is above the threshold for Kappa.
    """

    probabilities: NDArray[np.float32]
    half: NDArray[np.int8]
    kappa: NDArray[np.int8]


def decisions_of(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> Decisions:
    """Return the decisions for a stream whose labels come directly after their examples.

    Args:
        scores: float32 `[n]`, P(class 1) as a learner says it.
        labels: int8 `[n]`.
    """
    own, fading = Calibration(), MetricSettings().prevalence_fading_factor
    probabilities, thresholds = np.empty_like(scores), np.empty_like(scores)
    _calibrate(own.address, scores, labels, fading, np.empty((3, BINS)), probabilities, thresholds)
    half = (probabilities > np.float32(HALF)).astype(np.int8)
    return Decisions(probabilities, half, (probabilities > thresholds).astype(np.int8))


@compiled_without_refcounts
def _calibrate(
    address: int,
    scores: NDArray[np.float32],
    labels: NDArray[np.int8],
    fading: float,
    scratch: NDArray[np.float64],
    probabilities: NDArray[np.float32],
    thresholds: NDArray[np.float32],
) -> None:
    """Fill in probability and threshold for Kappa of each example; its label is counted after both are known."""
    own = doubles_at(address)
    count = positives = alerts = both = 0.0
    for row in range(len(scores)):
        probability = probability_of(own, scores[row])
        threshold = np.float32(_threshold(count, positives, alerts, both))
        probabilities[row], thresholds[row] = probability, threshold
        count_label(own, fading, labels[row], score_bin(scores[row]), probability, scratch)
        alert = 1.0 if probability > threshold else 0.0
        count = fading * count + 1.0
        positives = fading * positives + labels[row]
        alerts = fading * alerts + alert
        both = fading * both + alert * labels[row]


@compiled_without_refcounts
def _threshold(count: float, positives: float, alerts: float, both: float) -> float:
    """Return the threshold for the sums so far; one half before the first label."""
    if count == 0.0:
        return HALF
    share, alerted = positives / count, alerts / count
    by_chance = share * alerted
    spread = share + alerted - 2.0 * by_chance
    kappa = 2.0 * (both / count - by_chance) / spread if spread > 0.0 else 0.0
    return share + max(kappa, 0.0) * (1.0 - 2.0 * share) / 2.0
