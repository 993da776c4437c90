"""Confidence intervals of means and differences, and what they say of a statement: holds, fails or undecided."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""A statement holds if this interval lies in the range that the statement allows.

For a range with two ends, these are two one-sided tests (equivalence) at 2.5 % each.
"""

Doubles = NDArray[np.float64]


class Verdict(StrEnum):
    """What the repetitions say of a statement."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that contains a figure with a given confidence."""

    low: float
    high: float


def mean_interval(values: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """Return Student's interval of a mean; unbounded for fewer than two values."""
    count = len(values)
    if count < 2:
        return Interval(-math.inf, math.inf)
    return _interval(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count), count - 1, confidence)


def unpaired_interval(one: Doubles, two: Doubles, confidence: float = CONFIDENCE) -> Interval:
    """Return Welch's interval of the difference of two means; unbounded for fewer than two values."""
    if min(len(one), len(two)) < 2:
        return Interval(-math.inf, math.inf)
    squares = [float(values.var(ddof=1)) / len(values) for values in (one, two)]
    error = math.sqrt(sum(squares))
    parts = sum(square**2 / (len(values) - 1) for square, values in zip(squares, (one, two), strict=True))
    freedom = error**4 / parts if parts else 1.0
    return _interval(float(one.mean() - two.mean()), error, freedom, confidence)


def _interval(centre: float, error: float, freedom: float, confidence: float) -> Interval:
    from scipy.stats import t  # noqa: PLC0415  (an optional extra)

    reach = float(t.ppf((1.0 + confidence) / 2.0, freedom)) * error
    return Interval(centre - reach, centre + reach)


def verdict(interval: Interval, wide: Interval, low: float, high: float, negligible: float = 0.0) -> Verdict:
    """Judge a statement that allows the range between `low` and `high`, both excluded.

    Args:
        interval: The interval that must lie in the range for the statement to hold.
        wide: The interval that must lie outside of the range for the statement to fail; it is wider if a claim has
            several cases, because a single one that fails refutes the claim.
        low: The lower end of the range.
        high: The upper end of the range.
        negligible: A statement also fails if the figure is shown to exceed the lower end by less than this.
    """
    if low < interval.low and interval.high < high:
        return Verdict.HOLDS
    if wide.high <= low + negligible or wide.low >= high:
        return Verdict.FAILS
    return Verdict.UNDECIDED
