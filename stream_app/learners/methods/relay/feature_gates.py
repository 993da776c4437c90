"""Feature gates: standardised features in which the classes differ count more, others hardly.

A network that learns from few positives finds differences in irrelevant features that are chance. So each standardised
feature is multiplied by a gate between a floor and 1, and by one factor for all, so that the squares of the products
have the mean 1. The gate of a feature is `(t / (t + h))**2`, where t is the larger of two squared t-statistics with the
classes' common variance: of the difference between the classes' means of the feature, and of its square.
`h = 2 (1 + 1/2 + ... + 1/d)` is about what the largest t of d irrelevant features reaches by chance.

The means are those of the examples in the queues of both classes, as they would be today, so they forget what the
queues forget, and a correction counts. They are also computed of the newest `NEWEST` of each class alone, and the
larger t counts: where a concept turns or returns, a feature may have begun to matter lately. The gates are computed
again whenever about an eighth as many labels came as examples are kept, so that a label costs the same at any length.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.method_state import NEGATIVE, POSITIVE, Queues
from stream_app.learners.methods.relay.feature_trends import age_of_row
from stream_app.learners.methods.relay.standardisation import standardised_today
from stream_app.learners.methods.relay.state import WITH_GATES, RelayState
from stream_app.learners.queues import row_of_age

_FEWEST_OF_A_CLASS = 4
"""With fewer examples of a class, all gates are 1."""

LEAST_FLOOR, FLOOR_FEATURES = 0.03, 4.0
"""The floor is the second number by the squared number of features, at least the first and at most 1."""

_KEPT_PER_LABEL = 8
"""Kept examples that are summed for each label, at least; less than twice as many."""

TINY = 1e-9
"""The least variance: a feature may be constant in both classes."""

NEWEST = 100
"""The examples of each class that are also looked at alone."""

_MOMENTS = 3
"""Sums of each feature in each class: of its values, their squares, and their fourth powers."""


@compiled
def _floor(width: int) -> float:
    floor: float = min(1.0, max(LEAST_FLOOR, FLOOR_FEATURES / (width * width)))
    return floor


def has_gates(features: int) -> bool:
    """Say whether gates can do anything with so many features: otherwise the floor is 1."""
    return FLOOR_FEATURES / features**2 < 1.0


@compiled
def _sum_class(own: RelayState, queues: Queues, label: int, most: int, now: int) -> None:
    """Fill the sums of a class, of its newest examples, at most so many."""
    width, sums, at = own.width, own.sums, _MOMENTS * own.width * label
    for i in range(_MOMENTS * width):
        sums[at + i] = 0.0
    kept = queues.lengths[label]
    for age in range(max(kept - most, 0), kept):
        row = row_of_age(queues, label, age)
        old = age_of_row(queues, row, now)
        for i in range(width):
            value = standardised_today(own, queues, row, old, i)
            square = value * value
            sums[at + i] += value
            sums[at + width + i] += square
            sums[at + 2 * width + i] += square * square


@compiled
def _statistic(own: RelayState, counts: tuple[float, float], first: int, second: int) -> float:
    """Return the squared t-statistic of the difference between the classes' means.

    Args:
        own: RELAY's own state, with the sums filled.
        counts: How many examples of each class were summed.
        first: The place of the sum of the values in the negative class.
        second: The place of the sum of their squares there.
    """
    other = _MOMENTS * own.width
    negatives, positives = counts
    mean_n, mean_p = own.sums[first] / negatives, own.sums[first + other] / positives
    variance_n = max(own.sums[second] / negatives - mean_n * mean_n, 0.0)
    variance_p = max(own.sums[second + other] / positives - mean_p * mean_p, 0.0)
    variance = (negatives * variance_n + positives * variance_p) / (negatives + positives)
    difference = mean_p - mean_n
    statistic: float = difference * difference / (max(variance, TINY) * (1.0 / negatives + 1.0 / positives))
    return statistic


@compiled
def _raise_statistics(own: RelayState, queues: Queues, most: int, now: int) -> None:
    """Raise each feature's statistic to that of the newest examples of each class, at most so many."""
    width, sums = own.width, own.sums
    _sum_class(own, queues, NEGATIVE, most, now)
    _sum_class(own, queues, POSITIVE, most, now)
    counts = (
        np.float64(min(queues.lengths[NEGATIVE], most)),
        np.float64(min(queues.lengths[POSITIVE], most)),
    )
    for i in range(width):
        statistic = max(_statistic(own, counts, i, width + i), _statistic(own, counts, width + i, 2 * width + i))
        place = 2 * _MOMENTS * width + i
        sums[place] = max(sums[place], statistic)


@compiled
def is_update_due(queues: Queues, labels: int) -> bool:
    """Say whether gates and trends are to be computed again after so many labels: at multiples of a power of two."""
    kept, period = queues.lengths[NEGATIVE] + queues.lengths[POSITIVE], 1
    while 2 * period * _KEPT_PER_LABEL <= kept:
        period *= 2
    return labels % period == 0


@compiled
def update_gates(own: RelayState, queues: Queues, now: int) -> None:
    """Compute the gates from the examples in the queues; `factors` are those of the standardisation.

    Args:
        own: RELAY's own state.
        queues: Its queues.
        now: The number of examples that were predicted.
    """
    width, gates = own.width, own.gates
    if min(queues.lengths[NEGATIVE], queues.lengths[POSITIVE]) < _FEWEST_OF_A_CLASS:
        for i in range(width):
            gates[i] = np.float32(1.0)
        return
    chance, floor, squares, largest = 0.0, _floor(width), 0.0, 2 * _MOMENTS * width
    for i in range(width):
        chance += 2.0 / (i + 1)
        own.sums[largest + i] = 0.0
    kept = max(queues.lengths[NEGATIVE], queues.lengths[POSITIVE])
    _raise_statistics(own, queues, kept, now)
    if kept > NEWEST:
        _raise_statistics(own, queues, NEWEST, now)
    for i in range(width):
        statistic = own.sums[largest + i]
        share = statistic / (statistic + chance)
        gate = max(floor, share * share)
        own.sums[i] = gate
        squares += gate * gate
    factor = np.sqrt(width / squares)
    for i in range(width):
        gates[i] = np.float32(own.sums[i] * factor)


@compiled
def pass_gates(own: RelayState, batch: Pointer, at: int) -> None:
    """Multiply the standardised example at `batch[at:]` by the gates."""
    if own.mechanisms & WITH_GATES != 0:
        for i in range(own.width):
            batch[at + i] *= own.gates[i]
