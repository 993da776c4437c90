"""The table at the end of the demo."""

from collections.abc import Sequence

from rich.table import Table

from stream_app.monitor.table import UNKNOWN, share
from stream_app.records import Metric
from stream_app.terminal import simple_table

HEADINGS = ("stream", "learner", "examples", "labelled", "unlab.", "recall", "specif.", "G-mean", "delay")

CAPTION = "* champion; the delay of labels is the median"


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
            share(metric.recall),
            share(metric.specificity),
            share(metric.gmean),
            duration(metric.delay_ms_p50),
        )
        stream = metric.stream
    return table
