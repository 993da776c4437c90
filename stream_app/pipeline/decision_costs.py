"""What decisions have cost, as sums that fade at every label: the costs, and the labels whose costs are known.

A false positive and a false negative have a cost each, a right decision has none. All labels fade together, since a
class that comes rarely costs rarely. `prequential` holds the sums, two numbers that follow each other.
"""

import numpy as np

from stream_app.arrays import Floats
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer


@inlined_without_refcounts
def cost_of(label: Number, predicted: Number, costs: Floats, row: Number) -> tuple[float, bool]:
    """Return what a decision costs, and whether the costs of the example are known; `costs` are float32 `[n, 2]`."""
    if np.isnan(costs[row, 0]):
        return 0.0, False
    return 0.0 if predicted == label else np.float64(costs[row, label]), True


@inlined_without_refcounts
def count_cost(sums: Pointer, fading: float, cost: float, is_known: bool) -> None:
    """Take the cost of a decision into the sums."""
    sums[0] = fading * sums[0] + cost
    sums[1] = fading * sums[1] + (1.0 if is_known else 0.0)


@inlined_without_refcounts
def correct_cost(sums: Pointer, weight: float, label: Number, predicted: Number, costs: Floats, row: Number) -> None:
    """Change the cost of a decision, which has this weight by now, to that for another label."""
    new, _ = cost_of(label, predicted, costs, row)
    old, _ = cost_of(1 - label, predicted, costs, row)
    sums[0] = max(sums[0] + weight * (new - old), 0.0)
