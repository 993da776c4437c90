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

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method import CLASS_SIZES, COSTS, LABELS, Method
from stream_app.learners.method_state import (
    ADAPTIVE_CS,
    NEGATIVE,
    POSITIVE,
    Costs,
    MethodStateView,
    grow_sizes,
    new_method_state,
)
from stream_app.learners.queues import gather_one
from stream_app.learners.scaler import ScalerView


@compiled
def _adapt_costs(state: MethodStateView) -> None:
    sizes = state.sizes
    if sizes[NEGATIVE] == sizes[POSITIVE] or sizes[NEGATIVE] == 0.0 or sizes[POSITIVE] == 0.0:
        return
    minority = POSITIVE if sizes[POSITIVE] < sizes[NEGATIVE] else NEGATIVE
    state.costs[minority] = min(sizes[1 - minority] / sizes[minority], state.largest_cost)
    state.costs[1 - minority] = 1.0


@compiled
def admit_adaptive_cs(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Take a labelled example in, with the cost of its class; change the costs if it is time."""
    grow_sizes(state, label)
    if state.labels[0] % state.interval == 0:
        _adapt_costs(state)
    state.labels[0] += 1
    state.weight[0] = np.float32(state.costs[label])
    return gather_one(state, scaler, slot, label)


def adaptive_cs(cost: float, largest_cost: float, interval: int, theta: float, features: int) -> Method:
    """Make the method.

    Args:
        cost: Of an error in a positive at first; of one in a negative it is 1.
        largest_cost: The most that a cost may become.
        interval: Labels from one change of the costs to the next.
        theta: Decay of the class sizes, between 0 and 1.
        features: Numbers in an example.
    """
    state = new_method_state(ADAPTIVE_CS, features, theta=theta, costs=Costs((1.0, cost), largest_cost, interval))
    return Method(state, CLASS_SIZES, COSTS, LABELS)
