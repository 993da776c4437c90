"""Sigmoid, LeakyReLU, and the errors that go back through them, for vectors of float32."""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.networks.dense_networks import ONE_F32, WIDTH, ZERO_F32
from stream_app.learners.networks.simd import (
    Vector,
    below_is_zero,
    clip,
    fill8,
    fill_like,
    load8,
    store,
    two_to,
    where_positive,
)

LEAK = np.float32(0.01)
"""The slope of LeakyReLU below 0."""

TINY = np.float32(1e-30)
"""Errors and moments below this become zero: 1e8 times the smallest normal number, 1e23 times below Adam's epsilon.

A converged network would otherwise work on denormal numbers, which take many times as long; a mode of the CPU that
suppresses them would change the results of other code in the process.
"""

LARGEST = np.float32(1e6)
"""The largest magnitude of a feature that enters a network and of a weight; in wide networks, of all activations too.

So no sum or product in a network is infinite: of d <= 1e6 features a unit's sum is at most 1e18, and a gradient at most
1e24 (`adam.LARGEST_GRADIENT` limits it before it is squared).
"""

_LIMIT = np.float32(80)
"""The sigmoid of -80 is 1.8e-35, far from denormal; beyond it nothing changes."""

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUND = np.float32(12582912)
"""1.5 * 2**23: adding it rounds to a whole number, which is in the low bits of the sum."""

_E2, _E3, _E4 = np.float32(1 / 2), np.float32(1 / 6), np.float32(1 / 24)
_E5, _E6, _E7 = np.float32(1 / 120), np.float32(1 / 720), np.float32(1 / 5040)


@compiled
def sigmoid(x: Vector) -> Vector:
    """Return 1 / (1 + e**-x), within 2e-7 of the true value; NaN where x is NaN.

    e**y = 2**k * e**r with k whole and |r| <= ln(2) / 2, where seven terms of the series are exact to float32. ln(2) is
    subtracted in two parts, the first with so few bits that k times it is exact.
    """
    one, rounding = fill_like(ONE_F32, x), fill_like(_ROUND, x)
    y = clip(fill_like(ZERO_F32, x) - x, -_LIMIT, _LIMIT)
    shifted = y * fill_like(_LOG2_E, x) + rounding
    k = shifted - rounding
    r = (y - k * fill_like(_LN2_HIGH, x)) - k * fill_like(_LN2_LOW, x)
    series = fill_like(_E6, x) + r * fill_like(_E7, x)
    series = fill_like(_E4, x) + r * (fill_like(_E5, x) + r * series)
    series = one + r * (one + r * (fill_like(_E2, x) + r * (fill_like(_E3, x) + r * series)))
    return one / (one + series * two_to(shifted))


@compiled
def leaky_relu(x: Vector) -> Vector:
    """Return x if it is positive, else `LEAK` times x."""
    return where_positive(x, x, fill_like(LEAK, x) * x)


@compiled
def leaky_relu_error(activation: Vector, error: Vector) -> Vector:
    """Return the error before a LeakyReLU, given the error after it and its output, which has the sign of its input."""
    return below_is_zero(where_positive(activation, error, fill_like(LEAK, error) * error), TINY)


@compiled
def zero_below(x: np.float32, limit: np.float32) -> np.float32:
    """Return x, or 0 if its magnitude is below the limit."""
    return ZERO_F32 if abs(x) < limit else x


@compiled
def within_largest(x: np.float32) -> np.float32:
    """Return x, or the nearest number that is at most `LARGEST` either way."""
    return min(max(x, -LARGEST), LARGEST)


@compiled
def errors_of_logits(work: Pointer, at: int, targets: Pointer, count: int, share_of_one: np.float32) -> None:
    """Turn the logits z at `work[at:]` into errors of the cross-entropy: (sigmoid(z) - target) * share_of_one.

    For target 1 the code computes -sigmoid(-z) * share_of_one: in sigmoid(z) - 1, a z far from 0 would lose its digits.
    """
    share, one = fill8(share_of_one), fill8(ONE_F32)
    for e in range(0, count, WIDTH):
        target = load8(targets, e)
        sign = one - (target + target)
        error = sign * sigmoid(sign * load8(work, at + e)) * share
        store(work, at + e, below_is_zero(error, TINY))
