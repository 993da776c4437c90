"""The bins in which scores are counted, for figures that need more of a score than the class that it means.

Scores crowd near 0 and 1, so the bins are half octaves of the distance to the nearer end: 0.375 to 0.5, 0.25 to 0.375,
0.1875 to 0.25, and so on, `BINS / 2` on each side, at most 0.41 wide in the logit. The bin at each end has all that is
nearer than 2**-17 + 2**-18. The bits of a float are its place in these bins: no logarithm is computed, which
libraries round differently.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number

BINS = 64
"""Numbers from 0, which has the lowest scores, up."""

WORDS = 2
"""Number of int64 words that hold one bin of each learner, a byte each: `records.MAX_LEARNERS` is 16."""

_HALF = BINS // 2

BIN_CENTRES = np.array(
    [((0.375, 0.25)[k % 2] + 0.0625) * 2.0 ** -(k // 2) for k in range(_HALF - 1, -1, -1)]
    + [1.0 - ((0.375, 0.25)[k % 2] + 0.0625) * 2.0 ** -(k // 2) for k in range(_HALF)]
)
"""The score in the middle of each bin."""

BIN_EDGES = np.array(
    [0.0]
    + [(0.375, 0.25)[k % 2] * 2.0 ** -(k // 2) for k in range(_HALF - 2, -1, -1)]
    + [0.5]
    + [1.0 - (0.375, 0.25)[k % 2] * 2.0 ** -(k // 2) for k in range(_HALF - 1)]
    + [1.0]
)
"""Where the bins begin, and the end of the last one."""

_NEAREST_HALF = 251
"""The upper ten bits of the float32 numbers from 0.375 up to 0.5: exponent, and first bit of the mantissa."""

_ONE, _MIDDLE, _MANTISSA_BITS = np.float32(1.0), np.float32(0.5), np.uint32(22)

_FRACTION, _PER_FRACTION = np.uint32(2**22 - 1), 2.0**-22
"""The bits that say where in its bin a number is, and the part of the bin that each of them stands for."""


@inlined_without_refcounts
def _distance(near: np.float32) -> int:
    """Return how many bins a distance to the nearer end is away from the middle."""
    half = int(np.float32(near).view(np.uint32) >> _MANTISSA_BITS)
    return min(max(_NEAREST_HALF - half, 0), _HALF - 1)


@inlined_without_refcounts
def score_bin(score: np.float32) -> int:
    """Return the bin of a score."""
    if score < _MIDDLE:
        return _HALF - 1 - _distance(score)
    return _HALF + _distance(np.float32(_ONE - score))


@inlined_without_refcounts
def score_place(score: np.float32) -> float:
    """Return where a score is among the bins: the number of its bin, and how far it is in the bin, from 0 to `BINS`."""
    if score < _MIDDLE:
        return _HALF - _way(score)
    return _HALF + _way(np.float32(_ONE - score))


@inlined_without_refcounts
def _way(near: np.float32) -> float:
    """Return the way from the middle to a distance to the nearer end, in bins."""
    bits = np.float32(near).view(np.uint32)
    halves = _NEAREST_HALF + 1 - int(bits >> _MANTISSA_BITS)
    return min(halves - (bits & _FRACTION) * _PER_FRACTION, float(_HALF)) if halves > 0 else 0.0


def score_bins(scores: Floats) -> NDArray[np.uint8]:
    """Return the bin of each score, for Python: uint8 `[n]`."""
    low = scores < _MIDDLE
    near = np.where(low, scores, _ONE - scores).astype(np.float32)
    distances = np.clip(_NEAREST_HALF - (near.view(np.uint32) >> _MANTISSA_BITS).astype(np.int64), 0, _HALF - 1)
    return np.where(low, _HALF - 1 - distances, _HALF + distances).astype(np.uint8)


@inlined_without_refcounts
def packed_bin(score: np.float32, learner: Number) -> np.int64:
    """Return the bin of a learner's score at its place in word `learner // 8`."""
    return np.int64(np.int64(score_bin(score)) << np.int64(8 * (learner % 8)))


@inlined_without_refcounts
def unpacked_bin(word: np.int64, learner: Number) -> int:
    """Return the bin of a learner from word `learner // 8`."""
    return int((word >> np.int64(8 * (learner % 8))) & np.int64(255))
