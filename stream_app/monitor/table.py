"""The figures of a running application as a table of at most 80 columns in which no name is cut."""

from collections.abc import Iterable

from rich.console import Group
from rich.text import Text

from stream_app.monitor.figures import LiveFigures, StreamFigures
from stream_app.records import Metric
from stream_app.terminal import printable, simple_table

COLUMNS = ("stream", "learner", "G-mean", "recall", "precis.", "labels/s", "lag s", "pending", "dead", "changes")
"""`labels/s`, `lag s`, `pending` and `dead` belong to the stream and are in the row of its first learner."""

CAPTION = "* champion; lag in event time"

UNKNOWN = "-"

MAX_DRIFTED = 5
"""Streams whose drift has a line below the table, so that the table keeps its room."""

LINES_AROUND = 6
"""Lines of a terminal that title, headings, caption and prompt take."""


def share(value: float | None) -> str:
    """Format a metric from 0 to 1, such as `0.973`; a dash for None: the class has not been seen yet."""
    return UNKNOWN if value is None else f"{value:.3f}"


def count(number: float | None) -> str:
    """Format a number in at most six characters: `0.4`, `99,999`, `123k`, `45.6M`; a dash for None."""
    if number is None:
        return UNKNOWN
    if number < 10 and number != int(number):
        return f"{number:.1f}"
    if round(number) < 100_000:
        return f"{number:,.0f}"
    divisor, unit = next(scale for scale in ((1e3, "k"), (1e6, "M"), (1e9, "G")) if number < 999.5 * scale[0])
    return f"{number / divisor:.3g}{unit}"


def figures_table(figures: LiveFigures, title: str, lines: int | None = None) -> Group:
    """Return the table, and a line below it for everything that the table does not show.

    Streams that do not fit into the `lines` of the terminal are left out; None: all are shown.
    """
    notes = [*figures.notes(), *_drifted(figures.streams)]
    shown = list(_fitting(figures.streams, None if lines is None else lines - LINES_AROUND - len(notes)))
    hidden = len(figures.streams) - len(shown)
    if hidden:
        notes.append(f"{hidden:,} of {len(figures.streams):,} streams are not shown; --stream NAME chooses")
    table = simple_table(title, COLUMNS, [CAPTION], names=2)
    for stream in shown:
        own = (
            count(stream.labelled_per_s),
            count(None if stream.lag_ms is None else stream.lag_ms / 1000),
            count(stream.pending),
            count(stream.dead_letters) + ("" if stream.dead_letters_are_all else "+"),
        )
        for number, learner in enumerate(stream.learners or (None,)):
            first = number == 0
            metrics = _metric_cells(learner)
            table.add_row(
                stream.stream if first else "", *metrics[:-1], *(own if first else ("", "", "", "")), metrics[-1]
            )
    return Group(table, *(Text(printable(note)) for note in notes))


def _drifted(streams: Iterable[StreamFigures]) -> list[str]:
    """Return a line for each of the first streams that have drifted, and one for the others."""
    found = [(each.stream, each.drift.text) for each in streams if each.drift is not None and each.drift.text]
    lines = [f"drift of {name}, by PSI: {text}" for name, text in found[:MAX_DRIFTED]]
    left_out = len(found) - len(lines)
    return [*lines, f"drift of {left_out:,} more streams"] if left_out else lines


def _fitting(streams: Iterable[StreamFigures], lines: int | None) -> Iterable[StreamFigures]:
    """Yield the first streams that fit into this many lines, and one stream at least."""
    used = 0
    for number, stream in enumerate(streams):
        used += max(1, len(stream.learners))
        if lines is not None and used > lines and number:
            return
        yield stream


def _metric_cells(metric: Metric | None) -> tuple[str, ...]:
    """Return the name of a learner, its G-mean, recall and precision, and the number of changes."""
    if metric is None:
        return (UNKNOWN,) * 5
    name = f"{metric.learner} *" if metric.champion else metric.learner
    window = metric.main_window
    shares = map(share, (window.gmean, window.recall, window.precision))
    return (name, *shares, count(metric.changes))
