"""Measure the downtime of a task whose worker is killed: from SIGKILL to the next commit, with default timeouts.

There are three brokers, a steady flow of records, and a new interpreter for each worker. `tests.chaos.restarts` kills
the workers and measures.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.rows import Row, below
from ops.keeper import temporary_folder
from tests.chaos.restarts import STREAMS, measure

RESTARTS = 25
"""Restarts of each kind; all of them take six minutes."""

SAME_S, OTHER_S = 2.0, 30.0
"""Limits of the 99th percentile: the same instance comes back, or another takes over."""


def rows() -> list[Row]:
    """Return the median and the 99th percentile of both kinds of restart."""
    with temporary_folder("areba-restarts-") as folder:
        times = measure(folder / "run", RESTARTS)
    return [
        *_rows("the same instance comes back", times.same_ms, SAME_S),
        *_rows("another takes over", times.other_ms, OTHER_S),
    ]


def _rows(what: str, times_ms: Sequence[int], most_s: float) -> list[Row]:
    widest = max(stream.features for stream in STREAMS)
    name = f"from SIGKILL to the next commit, {what}, {len(times_ms)} kills"
    half, nearly_all = (float(value) / 1000 for value in np.percentile(times_ms, (50, 99), method="higher"))
    return [
        Row(f"{name}: p50", widest, half, None, None, "printed", None, "s"),
        below(f"{name}: p99", widest, nearly_all, "s", most_s),
    ]
