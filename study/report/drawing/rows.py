"""Panels with a named row for each method or stream: dots with intervals, bars of counts, and named dots."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from study.report.drawing.colours import GREY, INK, colour_of
from study.report.drawing.ends import FONT, LABEL_POINTS

MARKERS = ("o", "s", "^")

ROW_INCHES = 0.21

BEYOND_SHARE = 1.25
"""Figures that lie beyond the end of the axis are drawn here, as a multiple of the end."""


def _name_rows(axis: Axes, names: Sequence[str], *, coloured: bool) -> None:
    """Write the names of rows, the first one at the top."""
    axis.set_yticks(range(len(names)), list(names))
    axis.set_ylim(len(names) - 0.5, -0.5)
    for name, label in zip(names, axis.get_yticklabels(), strict=True):
        label.set_color(colour_of(name) if coloured else INK)
        label.set_fontfamily(FONT)
        label.set_fontsize(LABEL_POINTS)
    axis.grid(visible=False, axis="y")


@dataclass(frozen=True, slots=True)
class Dot:
    """A figure with its interval; `value` is None if it lies beyond the end of the axis."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class DotPanel:
    """A row for each learner, with a dot for each of up to three series, on a logarithmic axis.

    Attributes:
        title: The title above the panel.
        dots: By learner, by series.
        series: Names of the series, in the order of `MARKERS`.
        x_label: Label of the axis.
        end: Where the axis ends; dots without a value are drawn after it, hollow.
    """

    title: str
    dots: Mapping[str, Mapping[str, Dot]]
    series: Sequence[str]
    x_label: str
    end: float
    y_label: str = ""

    @property
    def height_inches(self) -> float:
        """The height of all rows."""
        return len(self.dots) * ROW_INCHES

    def draw(self, axis: Axes) -> None:
        """Draw the dots and name the rows."""
        for row, (name, own) in enumerate(self.dots.items()):
            for number, series in enumerate(self.series):
                dot = own.get(series)
                if dot is None:
                    continue
                y = row + (number - (len(self.series) - 1) / 2.0) * 0.26
                x = self.end * BEYOND_SHARE if dot.value is None else dot.value
                if dot.low is not None and dot.high is not None:
                    axis.plot([dot.low, min(dot.high, self.end)], [y, y], color=colour_of(name), linewidth=1)
                fill = "none" if dot.value is None else "full"
                axis.plot([x], [y], color=colour_of(name), marker=MARKERS[number], markersize=4.2, fillstyle=fill)
        axis.set_xscale("log")
        axis.set_xlim(30, self.end * BEYOND_SHARE * 1.25)
        axis.axvline(self.end, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.grid(visible=True, axis="x", color="#eeeeee", linewidth=0.8)
        _name_rows(axis, list(self.dots), coloured=True)


@dataclass(frozen=True, slots=True)
class BarPanel:
    """A row for each learner with counts as parts of one bar: full colour, light, outline.

    Attributes:
        title: The title above the panel.
        counts: By learner, the counts.
        parts: Names of the counts.
        x_label: Label of the axis.
    """

    title: str
    counts: Mapping[str, Sequence[int]]
    parts: Sequence[str]
    x_label: str
    y_label: str = ""

    @property
    def height_inches(self) -> float:
        """The height of all rows."""
        return len(self.counts) * ROW_INCHES

    def draw(self, axis: Axes) -> None:
        """Draw the bars with their counts."""
        shades = (1.0, 0.4, 0.08)
        unnamed = set(range(len(self.parts)))
        for row, (name, counts) in enumerate(self.counts.items()):
            left = 0
            for number, count in enumerate(counts):
                axis.barh([row], [count], left=left, height=0.72, color=colour_of(name), alpha=shades[number])
                if count:
                    text = f"{count} {self.parts[number]}" if number in unnamed else str(count)
                    unnamed.discard(number)
                    ink = "white" if number == 0 else INK
                    axis.text(
                        left + count / 2.0, row, text, ha="center", va="center", fontsize=7, color=ink, fontfamily=FONT
                    )
                left += count
        axis.set_xlim(0, max(sum(counts) for counts in self.counts.values()))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        _name_rows(axis, list(self.counts), coloured=True)


@dataclass(frozen=True, slots=True)
class RankPanel:
    """A row for each learner with its average rank, the best on top, and half the critical difference on both sides.

    Two learners differ significantly if their lines do not overlap.

    Attributes:
        title: The title above the panel.
        ranks: By learner.
        critical_difference: The least difference of two ranks that is significant.
        hollow: Learners whose dots are hollow.
    """

    title: str
    ranks: Mapping[str, float]
    critical_difference: float
    hollow: frozenset[str] = frozenset()
    x_label: str = "average rank"
    y_label: str = ""

    @property
    def height_inches(self) -> float:
        """The height of all rows."""
        return len(self.ranks) * ROW_INCHES

    def draw(self, axis: Axes) -> None:
        """Draw the ranks and name the rows."""
        names, half = sorted(self.ranks, key=lambda name: self.ranks[name]), self.critical_difference / 2.0
        for row, name in enumerate(names):
            rank, colour = self.ranks[name], colour_of(name)
            axis.plot([rank - half, rank + half], [row, row], color=colour, linewidth=1.4)
            fill = "white" if name in self.hollow else colour
            axis.plot([rank], [row], marker="o", markersize=5, color=colour, markerfacecolor=fill)
        axis.set_xlim(0.0, len(names) + 1.0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(visible=True, axis="x", color="#eeeeee", linewidth=0.8)
        _name_rows(axis, names, coloured=True)


APART = 0.08
"""A dot with an error between two others is this part of a row above the middle, and they below: none hides another."""

NAME_ROOM = 0.45
"""A dot at a higher figure has room for a name on its left."""


@dataclass(frozen=True, slots=True)
class NamedDotPanel:
    """A row for each stream with a dot for each of two or three learners, joined by a line.

    Attributes:
        title: The title above the panel.
        rows: By stream, the learners and their figures.
        x_label: Label of the axis.
        hollow: Streams whose dots are hollow.
        only_first: Whether only the first row with room has the names and figures of its learners; else all rows do.
        limits: Limits of the axis; None: from the figures.
        errors: By stream and learner, the standard error of a figure, drawn on both sides of its dot.
    """

    title: str
    rows: Mapping[str, Sequence[tuple[str, float]]]
    x_label: str
    hollow: frozenset[str] = frozenset()
    only_first: bool = False
    limits: tuple[float, float] | None = None
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    y_label: str = ""

    @property
    def height_inches(self) -> float:
        """The height of all rows; a name above the middle one of three dots needs more of it."""
        return len(self.rows) * (0.165 if self.only_first else 0.36)

    def draw(self, axis: Axes) -> None:
        """Draw the dots, and the names of their learners beside them."""
        lowest = [min(value for _, value in dots) for dots in self.rows.values()]
        named = next((row for row, value in enumerate(lowest) if value > NAME_ROOM), 0)
        for row, (stream, dots) in enumerate(self.rows.items()):
            ordered = sorted(dots, key=lambda dot: dot[1])
            axis.plot([dot[1] for dot in ordered], [row] * len(ordered), color="#c8c8c8", linewidth=2, zorder=1)
            for place, (name, value) in enumerate(ordered):
                fill = "white" if stream in self.hollow else colour_of(name)
                error = self.errors.get(stream, {}).get(name, 0.0)
                is_between = 0 < place < len(ordered) - 1
                y = row + (APART * (-1 if is_between else 1) if self.errors else 0.0)
                axis.plot([value - error, value + error], [y, y], color=colour_of(name), linewidth=1.4)
                axis.plot([value], [y], marker="o", markersize=5, color=colour_of(name), markerfacecolor=fill)
                if row == named or not self.only_first:
                    end = value + {0: -error, len(ordered) - 1: error}.get(place, 0.0)
                    _name_dot(axis, f"{name} {value:.2f}", (end, y), place, len(ordered) - 1)
        values = np.array([value for dots in self.rows.values() for _, value in dots])
        low, high = self.limits or (math.floor(10 * values.min()) / 10 - 0.2, 1.2)
        axis.set_xlim(low, high)
        axis.set_xticks(np.arange(math.ceil(10 * low + (0 if self.limits else 2)) / 10, min(high, 1.0) + 0.01, 0.1))
        axis.grid(visible=True, axis="x", color="#eeeeee", linewidth=0.8)
        _name_rows(axis, list(self.rows), coloured=False)


def _name_dot(axis: Axes, text: str, dot: tuple[float, float], place: int, last: int) -> None:
    """Write a text to the left of the first dot of a row, to the right of the last, above all others."""
    shift, align = {0: ((-6, 0), "right"), last: ((6, 0), "left")}.get(place, ((0, 8), "center"))
    axis.annotate(
        text,
        dot,
        xytext=shift,
        textcoords="offset points",
        ha=align,
        va="center",
        fontsize=LABEL_POINTS,
        fontfamily=FONT,
        color=colour_of(text.partition(" ")[0]),
    )
