"""Whether a learner without a scaler meets features that are too large for it; no result depends on it.

A network learns features of order 1 well. On Sine with 5 % positives and features between 0 and 100, AREBA_20 has a
G-mean of 0.86, and of 0.93 with a scaler; with features of order 1e5, it has 0.49 and 0.93.
"""

import numpy as np

from stream_app.config import has_setting
from stream_app.join.constants import Counter
from stream_app.pipeline.stream import Stream

ENOUGH = 1_000
"""Examples of a stream before its features are judged, and the most that are looked at."""

LARGE = 100.0
"""A feature is large if the mean of its absolute values exceeds this."""


def unscaled_learners(stream: Stream) -> list[str]:
    """Return the learners of a stream that could have a scaler and have none."""
    return [
        name
        for name, learner in stream.settings.learners.items()
        if has_setting(learner.method, "scaler") and learner.scaler == "none"
    ]


def largest_feature(stream: Stream) -> tuple[int, float] | None:
    """Return the largest feature of a stream and the mean of its absolute values; None before `ENOUGH` examples.

    The examples are those that wait for their labels, and some that did: their places are not cleared at once.
    """
    state = stream.join.arrays()
    if stream.features == 0 or state["counters"][Counter.EXAMPLES] < ENOUGH:
        return None
    rows = state["features"][:ENOUGH]
    used = rows[rows.any(axis=1)]
    if not len(used):
        return 0, 0.0
    sizes = np.abs(used.astype(np.float64)).mean(axis=0)
    number = int(sizes.argmax())
    return number, float(sizes[number])
