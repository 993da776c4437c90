"""The table at the end of the demo, and a line for each challenger."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from statistics import fmean

from rich.table import Table

from ops.figure import Curve
from stream_app.monitor.table import UNKNOWN, share
from stream_app.records import Metric
from stream_app.terminal import simple_table

HEADINGS = ("stream", "learner", "examples", "labelled", "unlab.", "recall", "specif.", "G-mean", "delay")

CAPTION = "* champion; the delay of labels is the median"

MARGIN = 0.01
"""G-means that differ by no more are called equal: one run cannot tell them apart."""


def duration(milliseconds: int | None) -> str:
    """Format a delay in a suitable unit: `250 ms`, `12.0 s`, `3.5 min`, `2.1 h`."""
    if milliseconds is None:
        return UNKNOWN
    for bound, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min")):
        if milliseconds < bound:
            return f"{milliseconds} ms" if divisor == 1 else f"{milliseconds / divisor:.1f} {unit}"
    return f"{milliseconds / 3_600_000:.1f} h"


def final_table(metrics: Sequence[Metric]) -> Table:
    """Return the table of the last metric of each learner, in the given order."""
    table = simple_table("Every stream and learner", HEADINGS, [CAPTION], names=2)
    stream = None
    for metric in metrics:
        table.add_row(
            metric.stream if metric.stream != stream else "",
            f"{metric.learner} *" if metric.champion else metric.learner,
            f"{metric.examples:,}",
            f"{metric.labelled:,}",
            f"{metric.unlabelled:,}",
            share(metric.main_window.recall),
            share(metric.main_window.specificity),
            share(metric.main_window.gmean),
            duration(metric.delay_ms_p50),
        )
        stream = metric.stream
    return table


def comparisons(streams: Sequence[Sequence[Curve]]) -> list[str]:
    """Compare each challenger with the champion.

    Args:
        streams: The learners' curves on each stream; one of them is the champion's.

    Returns:
        A line for each challenger: on how many streams its G-mean is higher, equal and lower.
    """
    ends: dict[str, Counter[int]] = {}
    averages: dict[str, Counter[int]] = {}
    for curves in streams:
        champions = [curve for curve in curves if curve.champion]  # none if the stream has no metric
        for champion, curve in product(champions, curves):
            if curve is not champion:
                ends.setdefault(curve.learner, Counter())[_order(_end(curve), _end(champion))] += 1
                averages.setdefault(curve.learner, Counter())[_order(_average(curve), _average(champion))] += 1
    return [
        f"G-mean of {learner} against the champion's on {len(streams)} streams: {_counts(ends[learner])} at the end; "
        f"{_counts(averages[learner])} on average (equal: within {MARGIN:g})"
        for learner in ends
    ]


def _end(curve: Curve) -> float:
    """Return the last G-mean; 0 if there is none."""
    return (curve.gmeans[-1] if curve.gmeans else None) or 0.0


def _average(curve: Curve) -> float:
    """Return the mean along the stream, from the first G-mean on; 0 if there is none."""
    return fmean([gmean for gmean in curve.gmeans if gmean is not None] or [0.0])


def _order(ours: float, champions: float) -> int:
    """Return 1, 0 or -1 for higher, equal or lower."""
    return 0 if abs(ours - champions) <= MARGIN else 1 if ours > champions else -1


def _counts(orders: Counter[int]) -> str:
    return f"{orders[1]} higher, {orders[0]} equal, {orders[-1]} lower"
