"""Adaptive_CS: one step on each labelled example alone, its loss times the cost of an error in its class.

The cost-sensitive loss of CSOGD (Wang, Zhao, Hoi 2014; the paper's equation of the cost) begins with 1 for a negative
and c = 0.95 / 0.05 = 19 for a positive. From the time-decayed class sizes (Wang, Minku, Yao 2013) the costs are set
again every 250 labels: the rarer class gets the ratio of the sizes, at most 50, the other 1.

Where the paper leaves a choice, the authors' code decides:

- The paper puts the cost on the positive class alone and keeps it between 1 and 50. The code puts it on the class that
  is rarer, and so do we: a stream whose positives become the majority then costs its negatives.
- Labels are counted from 0: the costs change with label 250, 500, ... (the 251st, 501st), from class sizes that have
  that label in them, before the step on it. Label 0 cannot change them, as the other class has not been seen.
- With equal sizes, or if a class was never seen, the costs do not change.
- The factor multiplies the cross-entropy, not the L2 term.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.jit.tables import new_table, view_of
from stream_app.learners.method import CLASS_SIZES, Functions, LearningMethod, RunningMethod, array_part
from stream_app.learners.method_state import NEGATIVE, POSITIVE, LearnerView, grow_sizes, new_tables
from stream_app.learners.queues import gather_one


class _Costs(NamedTuple):
    """The method's own state.

    Attributes:
        costs: float64 `[2]`, the cost of an error in each class.
        largest: The most that a cost may become.
        interval: Labels from one change of the costs to the next.
        labels: int64 `[1]`, labels so far.
    """

    costs: NDArray[np.float64]
    largest: float
    interval: int
    labels: Longs


_own = view_of(_Costs)


@compiled
def _adapt(own: _Costs, sizes: NDArray[np.float64]) -> None:
    if sizes[NEGATIVE] == sizes[POSITIVE] or sizes[NEGATIVE] == 0.0 or sizes[POSITIVE] == 0.0:
        return
    minority = POSITIVE if sizes[POSITIVE] < sizes[NEGATIVE] else NEGATIVE
    own.costs[minority] = min(sizes[1 - minority] / sizes[minority], own.largest)
    own.costs[1 - minority] = 1.0


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in, with the cost of its class; change the costs if it is time."""
    own, state = _own(learner.own), learner.state
    grow_sizes(state, label)
    if own.labels[0] % own.interval == 0:
        _adapt(own, state.sizes)
    own.labels[0] += 1
    state.weight[0] = np.float32(own.costs[label])
    return gather_one(learner, slot, label)


def _make(settings: LearnerSettings, features: int, _seed: bytes) -> RunningMethod:
    """Make the method; at first, an error in a positive has the cost of the settings, and one in a negative has 1."""
    own = new_table(
        _Costs,
        costs=np.array([1.0, settings.cost]),
        largest=settings.largest_cost,
        interval=settings.cost_interval_labels,
        labels=1,
    )
    parts = CLASS_SIZES, array_part("costs", "own.costs"), array_part("labels", "own.labels")
    return RunningMethod(new_tables(features, own, theta=settings.theta), parts)


ADAPTIVE_CS = LearningMethod("adaptive_cs", Functions(_admit), _make)
