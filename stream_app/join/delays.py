"""The histogram of label delays: exact below 64 ms, then 32 buckets to each doubling, so within 3.2 % of any int64."""

import numpy as np

from stream_app.arrays import NO_LONG, Longs
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number

EXACT_DELAYS_MS = 64
"""Each delay below this has a bucket of its own."""

DELAY_STEPS = 32
"""Buckets to each doubling above."""

DELAY_BUCKETS = EXACT_DELAYS_MS + 58 * DELAY_STEPS
"""Enough for every int64."""


@inlined_without_refcounts
def bucket_of(delay_ms: Number) -> Number:
    """Return the bucket of a delay; a negative delay counts as 0."""
    if delay_ms < EXACT_DELAYS_MS:
        return max(delay_ms, 0)
    doublings = 0
    while delay_ms >= 2 * DELAY_STEPS:
        delay_ms >>= 1
        doublings += 1
    return EXACT_DELAYS_MS + (doublings - 1) * DELAY_STEPS + delay_ms - DELAY_STEPS


@inlined_without_refcounts
def _bucket_middle(bucket: Number) -> Number:
    """Return the delay in the middle of a bucket, in milliseconds."""
    if bucket < EXACT_DELAYS_MS:
        return bucket
    doublings = (bucket - EXACT_DELAYS_MS) // DELAY_STEPS + 1
    step = (bucket - EXACT_DELAYS_MS) % DELAY_STEPS + DELAY_STEPS
    return (step << doublings) + (1 << (doublings - 1))


@inlined_without_refcounts
def quantile(delays: Longs, total: Number, share: float) -> Number:
    """Return a quantile of the histogram in milliseconds; `NO_LONG` if the histogram is empty.

    Args:
        delays: int64 `[DELAY_BUCKETS]`, the histogram.
        total: The sum of its buckets.
        share: The part of all delays that are at most the quantile.
    """
    if total == 0:
        return NO_LONG
    wanted = int(np.ceil(share * total))
    seen = 0
    for bucket in range(len(delays)):
        seen += delays[bucket]
        if seen >= wanted and seen > 0:
            return _bucket_middle(bucket)
    return NO_LONG
