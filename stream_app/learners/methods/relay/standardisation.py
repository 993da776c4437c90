"""The standardisation of a method that keeps examples as they came, by the moments in its state (`learners.moments`).

The scaler (`learners.scaler`) keeps each example as it was standardised on its arrival; here, an old example is moved
along the trends of its features and standardised again whenever it is learned, by all that was seen since.
"""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.method_state import Queues
from stream_app.learners.methods.relay.feature_trends import age_of_row
from stream_app.learners.methods.relay.state import RelayState
from stream_app.learners.moments import factor_of, within_limit


@compiled
def fill_factors(own: RelayState) -> None:
    """Fill `factors` with the inverse of each feature's deviation."""
    for i in range(own.width):
        own.factors[i] = factor_of(own.moments, own.width, i)


@compiled
def _standardised(own: RelayState, value: float, feature: int) -> float:
    """Return a value of a feature, standardised by `factors`."""
    distance = value - own.moments[own.width + feature]
    scaled: float = within_limit(distance * own.factors[feature])
    return scaled


@compiled
def standardise(own: RelayState, source: Pointer, start: int, into: Pointer) -> None:
    """Write the example at `source[start:]`, as it comes, to the beginning of `into`, standardised by `factors`."""
    for i in range(own.width):
        into[i] = np.float32(_standardised(own, np.float64(source[start + i]), i))


@compiled
def standardised_today(own: RelayState, queues: Queues, row: int, age: float, feature: int) -> float:
    """Return a feature of a kept example of this age, moved to today and standardised by `factors`."""
    value = np.float64(queues.examples[row * own.width + feature]) + own.slopes[feature] * age
    scaled: float = _standardised(own, value, feature)
    return scaled


@compiled
def standardise_row(own: RelayState, queues: Queues, row: int, now: int, batch: Pointer, at: int) -> None:
    """Write a kept example to `batch[at:]`, moved to today and standardised by `factors`."""
    age = age_of_row(queues, row, now)
    for i in range(own.width):
        batch[at + i] = np.float32(standardised_today(own, queues, row, age, i))
