"""The costs of an example: of a false positive, and of a false negative, each a float32, in one word of 64 bits.

NaN stands for costs that are not known: the stream had none when the example came.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts

UNKNOWN_COSTS = int(np.full(2, np.nan, np.float32).view(np.int64)[0])
"""Both costs of an example that has none."""

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@inlined_without_refcounts
def packed_costs(false_positive: np.float32, false_negative: np.float32) -> np.int64:
    """Return both costs as one word."""
    low = np.uint64(np.float32(false_positive).view(np.uint32))
    return np.int64(low | (np.uint64(np.float32(false_negative).view(np.uint32)) << _HALF))


@inlined_without_refcounts
def unpacked_costs(word: np.int64) -> tuple[np.float32, np.float32]:
    """Return the cost of a false positive, and of a false negative."""
    bits = np.uint64(word)
    return np.uint32(bits & _LOW).view(np.float32), np.uint32(bits >> _HALF).view(np.float32)
