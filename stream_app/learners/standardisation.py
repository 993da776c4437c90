"""The standardisation of a method that keeps examples as they came: running moments of each feature (Welford 1962).

`MethodState.moments` has the number of predicted examples, the mean of each feature, and the sum of squared distances
of each feature from its mean. The scaler (`learners.scaler`) keeps each example as it was scaled on its arrival; here,
an old example is standardised again whenever it is learned, by all that was seen since.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.method_state import MethodStateView

LIMIT = 5.0
"""The most deviations that a standardised feature is from the mean: a rare value must not decide a step alone."""


@compiled
def take_into_moments(state: MethodStateView, source: Pointer, start: int) -> None:
    """Take the example at `source[start:]` into the moments."""
    moments, width = state.moments, state.width
    moments[0] += 1.0
    share = 1.0 / moments[0]
    for i in range(width):
        x = np.float64(source[start + i])
        distance = x - moments[1 + i]
        moments[1 + i] += distance * share
        moments[1 + width + i] += distance * (x - moments[1 + i])


@compiled
def fill_factors(state: MethodStateView) -> None:
    """Fill `factors` with the inverse of each feature's deviation, 0 if the feature never changed."""
    moments, width = state.moments, state.width
    for i in range(width):
        squares = moments[1 + width + i]
        state.factors[i] = np.sqrt(moments[0] / squares) if squares > 0.0 else 0.0


@compiled
def standardised(state: MethodStateView, source: Pointer, start: int, feature: int) -> float:
    """Return a feature of the example at `source[start:]`, standardised by `factors`."""
    scaled = (np.float64(source[start + feature]) - state.moments[1 + feature]) * state.factors[feature]
    value: float = min(max(scaled, -LIMIT), LIMIT)
    return value


@compiled
def standardise(state: MethodStateView, source: Pointer, start: int, into: int) -> None:
    """Write the example at `source[start:]` to `batch[into:]`, standardised by `factors`."""
    for i in range(state.width):
        state.batch[into + i] = np.float32(standardised(state, source, start, i))
