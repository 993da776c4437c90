"""Feature gates: standardised features in which the classes differ count more, others hardly.

A network that learns from few positives finds differences in irrelevant features that are chance. So each standardised
feature is multiplied by a gate between a floor and 1, and by one factor for all, so that the squares of the products
have the mean 1. The gate of a feature is `(t / (t + h))**2`, where t is the larger of two squared t-statistics with the
classes' common variance: of the difference between the classes' means of the feature, and of its square.
`h = 2 (1 + 1/2 + ... + 1/d)` is about what the largest t of d irrelevant features reaches by chance.

The means are those of the examples in the queues of both classes, standardised by all that was seen since, so they
forget what the queues forget, and a correction counts. The gates are computed again whenever about an eighth as many
labels came as examples are kept, so that a label costs the same at any length.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import NEGATIVE, POSITIVE, WITH_GATES, MethodStateView
from stream_app.learners.queues import row_of_age
from stream_app.learners.standardisation import standardised

FEWEST_OF_A_CLASS = 4
"""With fewer examples of a class, all gates are 1."""

LEAST_FLOOR, FLOOR_FEATURES = 0.03, 4.0
"""The floor is the second number by the squared number of features, at least the first and at most 1."""

KEPT_PER_LABEL = 8
"""Kept examples that are summed for each label, at least; less than twice as many."""

TINY = 1e-9
"""The least variance: a feature may be constant in both classes."""

MOMENTS = 3
"""Sums of each feature in each class: of its values, their squares, and their fourth powers."""


@compiled
def _floor(width: int) -> float:
    floor: float = min(1.0, max(LEAST_FLOOR, FLOOR_FEATURES / (width * width)))
    return floor


def has_gates(features: int) -> bool:
    """Say whether gates can do anything with so many features: otherwise the floor is 1."""
    return FLOOR_FEATURES / features**2 < 1.0


@compiled
def _sum_class(state: MethodStateView, label: int) -> None:
    """Fill the sums of a class."""
    width, sums, at = state.width, state.sums, MOMENTS * state.width * label
    for i in range(MOMENTS * width):
        sums[at + i] = 0.0
    for age in range(state.lengths[label]):
        start = row_of_age(state, label, age) * width
        for i in range(width):
            value = standardised(state, state.examples, start, i)
            square = value * value
            sums[at + i] += value
            sums[at + width + i] += square
            sums[at + 2 * width + i] += square * square


@compiled
def _statistic(state: MethodStateView, first: int, second: int) -> float:
    """Return the squared t-statistic of the difference between the classes' means.

    Args:
        state: Of the method, with the sums filled.
        first: The place of the sum of the values in the negative class.
        second: The place of the sum of their squares there.
    """
    other = MOMENTS * state.width
    negatives, positives = np.float64(state.lengths[NEGATIVE]), np.float64(state.lengths[POSITIVE])
    mean_n, mean_p = state.sums[first] / negatives, state.sums[first + other] / positives
    variance_n = max(state.sums[second] / negatives - mean_n * mean_n, 0.0)
    variance_p = max(state.sums[second + other] / positives - mean_p * mean_p, 0.0)
    variance = (negatives * variance_n + positives * variance_p) / (negatives + positives)
    difference = mean_p - mean_n
    statistic: float = difference * difference / (max(variance, TINY) * (1.0 / negatives + 1.0 / positives))
    return statistic


@compiled
def is_gate_due(state: MethodStateView, labels: int) -> bool:
    """Say whether the gates are to be computed again after so many labels: at multiples of a power of two."""
    kept, period = state.lengths[NEGATIVE] + state.lengths[POSITIVE], 1
    while 2 * period * KEPT_PER_LABEL <= kept:
        period *= 2
    return labels % period == 0


@compiled
def update_gates(state: MethodStateView) -> None:
    """Compute the gates from the examples in the queues; `factors` are those of the standardisation."""
    width, gates = state.width, state.gates
    if min(state.lengths[NEGATIVE], state.lengths[POSITIVE]) < FEWEST_OF_A_CLASS:
        for i in range(width):
            gates[i] = np.float32(1.0)
        return
    _sum_class(state, NEGATIVE)
    _sum_class(state, POSITIVE)
    chance, floor, squares = 0.0, _floor(width), 0.0
    for i in range(width):
        chance += 2.0 / (i + 1)
    for i in range(width):
        statistic = max(_statistic(state, i, width + i), _statistic(state, width + i, 2 * width + i))
        share = statistic / (statistic + chance)
        gate = max(floor, share * share)
        state.sums[i] = gate
        squares += gate * gate
    factor = np.sqrt(width / squares)
    for i in range(width):
        gates[i] = np.float32(state.sums[i] * factor)


@compiled
def pass_gates(state: MethodStateView, at: int) -> None:
    """Multiply the standardised example at `batch[at:]` by the gates."""
    if state.mechanisms & WITH_GATES != 0:
        for i in range(state.width):
            state.batch[at + i] *= state.gates[i]
