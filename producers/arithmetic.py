"""Sine, exponential and logarithm, computed only with additions, multiplications and divisions.

The functions of the C library and of NumPy differ in the last bit between machines. IEEE 754 defines every bit of the
four basic operations, of the square root and of splitting a number into mantissa and exponent, so functions that use
only these give the same bits everywhere. NumPy rounds after each operation on a whole array, so no two operations are
contracted into a fused multiply-add.
"""

import math

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

TWO_PI = 6.283185307179586
LN_2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476

SINE_TERMS = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(11))
"""Taylor's series to the 21st power: the remainder is below 2e-18 up to a quarter turn."""

EXPONENTIAL_TERMS = tuple(1.0 / math.factorial(k) for k in range(15))
"""Taylor's series to the 14th power: the remainder is below 1e-19 up to ln(2) / 2."""

LOGARITHM_TERMS = tuple(2.0 / (2 * k + 1) for k in range(12))
"""The series of 2 artanh(s) to the 23rd power: the remainder is below 1e-19 up to s = 0.172."""


def _polynomial(terms: tuple[float, ...], x: Doubles) -> Doubles:
    result = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        result = result * x + term
    return result


def sine_of_turns(turns: Doubles) -> Doubles:
    """Return sin(2 pi t) for t in [0, 1], within 1e-15."""
    lower = turns >= 0.5
    half = np.where(lower, turns - 0.5, turns)
    angle = np.where(half > 0.25, 0.5 - half, half) * TWO_PI
    sine = angle * _polynomial(SINE_TERMS, angle * angle)
    return np.where(lower, -sine, sine)


def exponential(x: Doubles) -> Doubles:
    """Return the exponential of x in [-700, 700], with a relative error of at most 1e-15 times |x|."""
    halvings = np.rint(x / LN_2)
    return np.ldexp(_polynomial(EXPONENTIAL_TERMS, x - halvings * LN_2), halvings.astype(np.int32))


def logarithm(x: Doubles) -> Doubles:
    """Return the natural logarithm of x > 0, with a relative or an absolute error of at most 1e-15."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < SQRT_HALF
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return s * _polynomial(LOGARITHM_TERMS, s * s) + (exponent - small) * LN_2


def normal(first: Doubles, second: Doubles) -> Doubles:
    """Return standard normal numbers from two rows of uniform numbers in [0, 1) (Box and Muller, 1958)."""
    radius = np.sqrt(-2.0 * logarithm(1.0 - first))
    return radius * sine_of_turns(second)
