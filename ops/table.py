"""The two tables of the demo: one is live while it runs, the other is printed at its end."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from stream_app.records import Metric


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One learner of a stream while the demo runs; `lag` counts the input records that are not committed yet."""

    metric: Metric
    lag: int


@dataclass(frozen=True, slots=True)
class FinalRow:
    """One learner of a stream at the end: its last metric, and the number of its predictions in the topic."""

    metric: Metric
    predictions: int


def percentage(value: float | None) -> str:
    """Format a share as a percentage, such as `97.3`; a dash if both classes were not seen yet."""
    return "-" if value is None else f"{100 * value:.1f}"


def duration(milliseconds: int | None) -> str:
    """Format a delay in a suitable unit: `250 ms`, `12.0 s`, `3.5 min`, `2.1 h`."""
    if milliseconds is None:
        return "-"
    for bound, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min")):
        if milliseconds < bound:
            return f"{milliseconds} ms" if divisor == 1 else f"{milliseconds / divisor:.1f} {unit}"
    return f"{milliseconds / 3_600_000:.1f} h"


def _name(metric: Metric) -> str:
    return f"{metric.learner} *" if metric.champion else metric.learner


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title_justify="left",
        title_style="bold",
        caption="* champion; recall, specificity and G-mean in percent",
        caption_justify="left",
    )
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=index < 2)
    return table


def live(rows: Sequence[LiveRow]) -> Table:
    """Return the table that is shown while the demo runs, with the rows in the given order."""
    headings = ("stream", "learner", "examples", "labelled", "recall", "specif.", "G-mean", "updates", "lag")
    table = _table("", headings)
    stream = None
    for row in rows:
        metric = row.metric
        first = metric.stream != stream
        stream = metric.stream
        table.add_row(
            metric.stream if first else "",
            _name(metric),
            f"{metric.examples:,}",
            f"{metric.labelled:,}",
            percentage(metric.recall),
            percentage(metric.specificity),
            percentage(metric.gmean),
            f"{metric.updates:,}",
            f"{row.lag:,}" if first else "",
        )
    return table


def final(rows: Sequence[FinalRow]) -> Table:
    """Return the table that is shown at the end, with the rows in the given order."""
    headings = (
        *("stream", "learner", "examples", "predicted", "labelled", "unlabelled"),
        *("recall", "specif.", "G-mean", "median delay"),
    )
    table = _table("Every stream and learner", headings)
    stream = None
    for row in rows:
        metric = row.metric
        table.add_row(
            metric.stream if metric.stream != stream else "",
            _name(metric),
            f"{metric.examples:,}",
            f"{row.predictions:,}",
            f"{metric.labelled:,}",
            f"{metric.unlabelled:,}",
            percentage(metric.recall),
            percentage(metric.specificity),
            percentage(metric.gmean),
            duration(metric.delay_ms_p50),
        )
        stream = metric.stream
    return table


def plain(rows: Sequence[LiveRow]) -> str:
    """Return one line about the champions, for logs and pipes: `fraud 12,000 labelled G-mean 91.2; ...`."""
    return "; ".join(
        f"{row.metric.stream} {row.metric.labelled:,} labelled G-mean {percentage(row.metric.gmean)}"
        for row in rows
        if row.metric.champion
    )
