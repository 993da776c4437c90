"""When a learner predicts class 1: its score, or its probability, is above the threshold of its stream.

`majority` leaves the class as the learner gives it: 1 if the score is above 0.5, and of an ensemble the class of most
networks. Another threshold is a number. It is compared as the float32 that predictions publish, so that everyone who
reads a prediction finds the same class. A score or probability that equals the threshold is class 0.

A threshold decides nothing that a learner learns.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.records import ThresholdKind

_PROBABILITY = int(ThresholdKind.PROBABILITY)


@inlined_without_refcounts
def decide(kind: Number, threshold: np.float32, score: np.float32, probability: np.float32) -> int:
    """Return the class of a prediction, under a threshold of another kind than `majority`."""
    compared = probability if kind == _PROBABILITY else score
    return 1 if compared > threshold else 0
