"""Feature trends: a kept example moves along with features that grow, such as a clock or a counter.

A method that keeps as many examples of a rare class as of a frequent class keeps them from different spans of time. A
feature that grows then tells the classes apart by their age alone: whatever is recent is in the frequent class. So the
trend of each feature, its change from one example to the next, is the slope of a least-squares line through the kept
examples, within each class and with one slope for both. A kept example is then read as it would be today: its value
plus the slope times the number of examples that were predicted since its own prediction (labels may come at any time).

A slope counts as far as it is certain. With the share R**2 of the variance within the classes that the line explains,
and m examples that carry the line (the spread of their times, by the largest), the slope is multiplied by
`max(0, 1 - CERTAIN (1 - R**2) / (m R**2))`. So features without a trend are used as they come, bit by bit, and a single
outlier, wherever it is, makes no slope.

A trend must last for as long as the examples of the rarer class are kept. Cycles that are shorter are not followed.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import Queues
from stream_app.learners.methods.relay.state import RelayState
from stream_app.learners.queues import row_of_age

_CERTAIN = 30.0
"""The squared t-statistic of a slope, by the examples that carry the line, from which the slope counts."""

RESOLUTION = 1e-12
"""The least share of the variance that a line leaves: values are float32."""

SUMS = 5
"""Sums of each feature: of one class, values, their products with time, and their squares; of both, the last two."""


@compiled
def _sum_class(own: RelayState, queues: Queues, label: int, now: float) -> tuple[float, float]:
    """Fill the sums of a class, of differences from today; return the sums of the times and of their squares."""
    width, sums = own.width, own.sums
    for i in range(3 * width):
        sums[i] = 0.0
    times, squares = 0.0, 0.0
    for age in range(queues.lengths[label]):
        row = row_of_age(queues, label, age)
        time = np.float64(queues.arrivals[row]) - now
        times += time
        squares += time * time
        for i in range(width):
            value = np.float64(queues.examples[row * width + i]) - own.moments[width + i]
            sums[i] += value
            sums[width + i] += value * time
            sums[2 * width + i] += value * value
    return times, squares


@compiled
def _largest_distance(queues: Queues, label: int, mean: float) -> float:
    """Return the largest squared distance of a kept example's arrival from the mean of its class."""
    largest = 0.0
    for age in range(queues.lengths[label]):
        distance = np.float64(queues.arrivals[row_of_age(queues, label, age)]) - mean
        largest = max(largest, distance * distance)
    return largest


@compiled
def update_trends(own: RelayState, queues: Queues, now: int) -> None:
    """Compute the slopes from the examples in the queues.

    Args:
        own: RELAY's own state.
        queues: Its queues.
        now: The number of examples that were predicted.
    """
    width, sums = own.width, own.sums
    for i in range(3 * width, SUMS * width):
        sums[i] = 0.0
    spread, largest = 0.0, 0.0
    for label in range(2):
        count = np.float64(queues.lengths[label])
        if count < 2.0:
            continue
        times, squares = _sum_class(own, queues, label, np.float64(now))
        spread += squares - times * times / count
        largest = max(largest, _largest_distance(queues, label, now + times / count))
        for i in range(width):
            sums[3 * width + i] += sums[width + i] - times * sums[i] / count
            sums[4 * width + i] += sums[2 * width + i] - sums[i] * sums[i] / count
    for i in range(width):
        product, variance = sums[3 * width + i], sums[4 * width + i]
        own.slopes[i] = 0.0
        if largest > 0.0 and spread > 0.0 and variance > 0.0:
            explained = product * product / spread
            left = max(variance - explained, RESOLUTION * variance)
            certain = _CERTAIN * left * largest
            if explained * spread > certain:
                own.slopes[i] = product / spread * (1.0 - certain / (explained * spread))


@compiled
def age_of_row(queues: Queues, row: int, now: int) -> float:
    """Return how many examples were predicted since a kept example was."""
    age: float = np.float64(now - queues.arrivals[row])
    return age
