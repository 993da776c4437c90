"""The moments by which features are standardised: they fade, and the influence of one example is bounded.

Each feature has a mean and a variance, which are those of Welford (1962) for the first `_MEMORY` examples and fade with
this memory from then on. Three rules make them robust; ordinary data meet none of them:

- A value counts as at most `LIMIT` deviations from the mean when it enters the moments. So one example moves the mean
  by at most `LIMIT / n` deviations and multiplies the variance by at most `1 + LIMIT**2 / n`, however large its value
  is. Here n is the number of examples that the feature remembers: after the first 1,000, it is 0.005 and 1.025.
- A standardised value is at most `LIMIT`. A network never sees more, and a rare value does not decide a step alone.
- A feature whose unit or level has changed begins anew. Its trend is the fading mean, over about `TREND_MEMORY`
  examples, of the squared distance from the mean in deviations, each at most `TREND_LIMIT`; it is about 1. While it is
  outside `TREND_LOW` to `TREND_HIGH`, the feature remembers `_RESTART` examples only. Both moments then grow or shrink
  exponentially: 200 examples after a change of the unit by a factor of 100, or of the level by 1,000 deviations, the
  moments are those of the new values. So the first example of a stream may be an outlier, too.

A single value, or a share of outliers of 2 %, does not move a trend that far. A rare value is at the limit: a flag that
one example in 100 has becomes 0 or 5. A feature that has never changed becomes 0.

`moments` is float64 `[4 * d]`: of each feature the number of examples that it remembers, then of each the mean, then
the variance, then the trend. All are finite for any finite float32 values.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer

LIMIT = 5.0
"""The most deviations from the mean, of a value that enters the moments and of a standardised value."""

_MEMORY = 1000.0
"""The most examples that a feature remembers: older ones have faded by 1/e."""

TREND_MEMORY, TREND_LIMIT = 16.0, 4.0
TREND_LOW, TREND_HIGH = 0.1, 3.3

_RESTART = 4.0
"""The examples that a feature remembers while its trend is out of bounds."""

RESOLUTION, SMALLEST = 1e-7, 1e-30
"""The least deviation: the first by the mean (float32 has no finer differences), and never less than the second."""

MOMENT_NAMES = ("scaler.examples", "scaler.mean", "scaler.variance", "scaler.trend")
"""The names of the four parts of the moments in a snapshot."""

_LIMIT_SQUARED = LIMIT * LIMIT


def new_moments(features: int) -> NDArray[np.float64]:
    """Return the moments of so many features before the first example: float64 `[4 * features]`."""
    moments = np.zeros(4 * features)
    moments[3 * features :] = 1.0
    return moments


def moments_by_name(moments: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the parts of the moments by their names in a snapshot, float64 `[features]` each, not copied."""
    return dict(zip(MOMENT_NAMES, moments.reshape(4, -1), strict=True))


@compiled
def _remembered(moments: Pointer, width: int, i: int, ratio: float) -> float:
    """Count one more example of a feature, whose squared distance has this ratio to the variance; return the count."""
    trend = 3 * width + i
    moments[trend] += (min(ratio, TREND_LIMIT) - moments[trend]) / TREND_MEMORY
    if moments[trend] < TREND_LOW or moments[trend] > TREND_HIGH:
        moments[i] = min(moments[i], _RESTART)
    count: float = moments[i]
    return count


@compiled
def take_into_moments(moments: Pointer, width: int, source: Pointer, start: int) -> None:
    """Take the example at `source[start:]`, of `width` features, into the moments."""
    for i in range(width):
        mean, variance = moments[width + i], moments[2 * width + i]
        distance = np.float64(source[start + i]) - mean
        square = distance * distance
        moments[i] = min(moments[i] + 1.0, _MEMORY)
        share = 1.0 / moments[i]
        if variance > 0.0:
            share = 1.0 / _remembered(moments, width, i, square / variance)
            if square > _LIMIT_SQUARED * variance:
                square = _LIMIT_SQUARED * variance
                distance = np.sqrt(square) if distance > 0.0 else -np.sqrt(square)
        mean += share * distance
        variance += share * ((1.0 - share) * square - variance)
        moments[width + i] = mean
        if variance > 0.0:
            least = RESOLUTION * RESOLUTION * mean * mean + SMALLEST * SMALLEST
            moments[2 * width + i] = max(variance, least)


@compiled
def factor_of(moments: Pointer, width: int, i: int) -> float:
    """Return the inverse of a feature's deviation, 0 if the feature never changed."""
    variance = moments[2 * width + i]
    factor: float = 1.0 / np.sqrt(variance) if variance > 0.0 else 0.0
    return factor


@compiled
def within_limit(deviations: float) -> float:
    """Return a standardised value, at most `LIMIT` either way."""
    value: float = min(max(deviations, -LIMIT), LIMIT)
    return value
