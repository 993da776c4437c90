"""When a learner predicts class 1: its score, or its probability, is above the threshold of its stream.

`majority` leaves the class as the learner gives it: 1 if the score is above 0.5, and of an ensemble the class of most
networks. Another threshold is a number. It is compared as the float32 that predictions publish, so that everyone who
reads a prediction finds the same class. A score or probability that equals the threshold is class 0.

With `costs`, class 1 is the cheaper decision if probability * false_negative > (1 - probability) * false_positive, that
is, if the probability is above false_positive / (false_positive + false_negative). If a false negative costs nothing,
the class is 0.

With `alerts`, the score is compared with the number that a share of all scores exceeds (`alert_share`).

A threshold decides nothing that a learner learns.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.records import ThresholdKind

_PROBABILITY, _COSTS = int(ThresholdKind.PROBABILITY), int(ThresholdKind.COSTS)


@inlined_without_refcounts
def threshold_of_costs(false_positive: np.float32, false_negative: np.float32) -> np.float32:
    """Return the probability above which class 1 costs less; 1 if the costs are not known."""
    both = np.float64(false_positive) + np.float64(false_negative)
    return np.float32(np.float64(false_positive) / both) if both > 0.0 else np.float32(1.0)


@inlined_without_refcounts
def decide(kind: Number, threshold: np.float32, score: np.float32, probability: np.float32) -> int:
    """Return the class of a prediction, under a threshold of another kind than `majority`."""
    compared = probability if kind in (_PROBABILITY, _COSTS) else score
    return 1 if compared > threshold else 0
