"""Figures as the paper draws them: mean curves with a band of one standard error, and final figures with error bars."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from stream_app.monitor.colours import METHOD_COLOURS
from study.report.rivals.colours import rivals_colour
from study.report.scores import METRICS
from study.report.summary import RunSummary

MAX_POINTS = 500
"""Points of a line; a panel is about 500 pixels wide."""

INK, GREY, GRID = "#222222", "#6b6b6b", "#e4e4e4"
DRIFT_COLOUR = "#9e1b5c"

COLOURS: Mapping[str, str] = {
    "areba_20": METHOD_COLOURS["areba"],
    "areba_50": "#1b9e9e",
    "areba_2": "#6baed6",
    "qbr_20": METHOD_COLOURS["qbr"],
    "oob": METHOD_COLOURS["oob"],
    "oob_single": METHOD_COLOURS["oob_single"],
    "uob": METHOD_COLOURS["uob"],
    "adaptive_cs": METHOD_COLOURS["adaptive_cs"],
    "sliding": METHOD_COLOURS["sliding"],
    "baseline": METHOD_COLOURS["baseline"],
    "B = 2": "#6baed6",
    "B = 20": "#0b5fa5",
    "B = 50": "#1b9e9e",
    "B = 100": "#e08214",
    "B = 500": "#d1495b",
    "B = 1000": "#5b2a86",
    "10 %": "#0b5fa5",
    "1 %": "#e08214",
    "0.1 %": "#7a7a7a",
}
"""Colours of learners, budgets and imbalances, the same in every figure; other names take `MORE_COLOURS`."""

MORE_COLOURS = ("#0b5fa5", "#e08214", "#3a8f6f", "#8f5ea8", "#d1495b", "#7a7a7a", "#b8860b", "#1b9e9e", "#222222")

METRIC_NAMES = dict(zip(METRICS, ("recall", "specificity", "G-mean"), strict=True))

PANEL_INCHES = (4.2, 2.7)
TITLE_INCHES = 0.8
LEGEND_ROW_INCHES = 0.2
DOTS_PER_INCH = 110
FONT = "DejaVu Sans"
"""A font that comes with matplotlib, so that figures are the same on every machine."""

PALETTE_COLOURS = 128
"""Colours of a picture's palette: readers do not see the difference, and the file takes a third of the bytes."""

ERROR_ROWS = 2
"""Rows of an error array whose lower and upper errors differ."""


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Learning curves of one run.

    Attributes:
        title: The title above the panel.
        summary: The run.
        metric: One of `METRICS`.
        learners: The learners that are drawn; empty: all.
        by_budget: Whether legend and colour show the budget, at the end of the learner's name.
        last_step: Where the axis ends; 0: at the end of the stream.
    """

    title: str
    summary: RunSummary
    metric: str = "gmean"
    learners: tuple[str, ...] = ()
    by_budget: bool = False
    last_step: int = 0

    @property
    def lines(self) -> Mapping[str, str]:
        """Names in the legend, by learner."""
        names = self.learners or tuple(self.summary.learners)
        return {name: f"B = {name.rpartition('_')[2]}" if self.by_budget else name for name in names}


@dataclass(frozen=True, slots=True)
class LevelPanel:
    """A figure of each learner at several levels of something.

    Attributes:
        title: The title above the panel.
        levels: Names of the levels, from left to right.
        values: By learner, one mean for each level; NaN: there is no figure.
        errors: By learner, the standard errors, `[levels]`, or how far bars go down and up, `[2, levels]`.
        x_label: Label of the axis of the levels.
        y_label: Label of the axis of the figure.
        logarithmic: Whether the figure's axis is logarithmic.
        connected: Whether lines connect the levels; not if the levels have no order.
        limits: Limits of the figure's axis; None: 0 and 1, or the range of the figures if the axis is logarithmic.
        beyond: By learner, levels whose value is only a lower bound; they are drawn as hollow triangles.
        own_legend: Whether the panel has a separate legend, because it does not show learners.
    """

    title: str
    levels: Sequence[str]
    values: Mapping[str, Sequence[float]]
    errors: Mapping[str, Sequence[float] | Sequence[Sequence[float]]]
    x_label: str
    y_label: str = "G-mean at the end"
    logarithmic: bool = False
    connected: bool = True
    limits: tuple[float, float] | None = None
    beyond: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    own_legend: bool = False

    @property
    def lines(self) -> Mapping[str, str]:
        """Names in the legend, by learner."""
        return {name: name for name in self.values}


Panel = CurvePanel | LevelPanel


def colours_of(learners: Sequence[str]) -> dict[str, str]:
    """Return a colour for each learner, all different as long as there are enough colours."""
    fixed = {name: colour for name in learners if (colour := COLOURS.get(name) or rivals_colour(name))}
    free = iter([colour for colour in MORE_COLOURS if colour not in fixed.values()] + list(MORE_COLOURS) * 3)
    return {name: fixed[name] if name in fixed else next(free) for name in learners}


def draw(rows: Sequence[Sequence[Panel]], path: Path, title: str) -> Path:
    """Write panels in rows as a PNG, and return its path."""
    width, height = max(len(row) for row in rows), len(rows)
    names = _legend(rows)
    columns = max(1, min(len(names), int(PANEL_INCHES[0] * width / 1.25)))
    title_inches = TITLE_INCHES + LEGEND_ROW_INCHES * (math.ceil(len(names) / columns) - 1)
    size = (PANEL_INCHES[0] * width, PANEL_INCHES[1] * height + title_inches)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(height, width, squeeze=False)
    figure.subplots_adjust(
        left=0.6 / size[0],
        right=1 - 0.3 / size[0],
        bottom=0.5 / size[1],
        top=1 - (title_inches + 0.1) / size[1],
        wspace=0.12,
        hspace=0.34,
    )
    colours = colours_of(list(dict.fromkeys(line for row in rows for panel in row for line in panel.lines.values())))
    for down, (row, line) in enumerate(zip(axes, rows, strict=True)):
        for along, (axis, panel) in enumerate(zip(row, line, strict=False)):
            if isinstance(panel, CurvePanel):
                _draw_curves(axis, panel, colours)
            else:
                _draw_levels(axis, panel, colours)
            below = rows[down + 1][along] if down + 1 < height and along < len(rows[down + 1]) else None
            _dress(axis, panel, below, first=along == 0)
        for axis in row[len(line) :]:
            axis.set_visible(False)
    _head(figure, title, {name: colours[name] for name in names}, columns)
    _write(figure, path)
    return path


def _legend(rows: Sequence[Sequence[Panel]]) -> Sequence[str]:
    """Return the names in the figure's legend, in the order of the panels."""
    shared = [panel for row in rows for panel in row if isinstance(panel, CurvePanel) or not panel.own_legend]
    return list(dict.fromkeys(line for panel in shared for line in panel.lines.values()))


def _head(figure: Figure, title: str, colours: Mapping[str, str], columns: int) -> None:
    width, height = figure.get_size_inches()
    font = {"family": FONT, "size": 13.0, "weight": "bold"}
    figure.text(0.6 / width, 1 - 0.14 / height, title, fontdict=font, color=INK, va="top")
    figure.legend(
        handles=[Line2D([], [], color=colour, linewidth=2, label=name) for name, colour in colours.items()],
        loc="upper left",
        bbox_to_anchor=(0.6 / width, 1 - 0.38 / height),
        borderaxespad=0,
        borderpad=0,
        ncols=columns,
        frameon=False,
        prop={"family": FONT, "size": 8.5},
        labelcolor=INK,
        columnspacing=1.4,
        handlelength=1.8,
    )


def _write(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG with a palette."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = BytesIO()
    figure.savefig(raw, metadata={"Software": None})
    with Image.open(raw) as picture:
        few = picture.convert("RGB").quantize(PALETTE_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _draw_curves(axis: Axes, panel: CurvePanel, colours: Mapping[str, str]) -> None:
    row = METRICS.index(panel.metric)
    end = panel.last_step or panel.summary.length
    for name, line in panel.lines.items():
        learner = panel.summary.learners[name]
        count = max(1, int(np.searchsorted(learner.points, end, side="right")))
        stride = max(1, count // MAX_POINTS)
        chosen = np.unique(np.append(np.arange(0, count, stride), count - 1))
        steps, means, errors = learner.points[chosen], learner.means[row][chosen], learner.errors[row][chosen]
        axis.plot(steps, means, color=colours[line], linewidth=1.3)
        axis.fill_between(steps, means - errors, means + errors, color=colours[line], alpha=0.2, linewidth=0)
    for step in panel.summary.run.experiment.stream.resets(panel.summary.length):
        axis.axvline(step, color=DRIFT_COLOUR, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    axis.set_xlim(0, end)
    axis.locator_params(axis="x", nbins=5)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _draw_levels(axis: Axes, panel: LevelPanel, colours: Mapping[str, str]) -> None:
    places = np.arange(len(panel.levels))
    width = (0.3 if panel.connected else 0.8) / max(1, len(panel.values))
    for number, (name, values) in enumerate(panel.values.items()):
        shifted = places + (number - (len(panel.values) - 1) / 2) * width
        bounds = np.array(panel.beyond.get(name, [False] * len(places)))
        axis.errorbar(
            shifted,
            np.where(bounds, np.nan, values),
            yerr=panel.errors.get(name),
            color=colours[name],
            linewidth=1.2 if panel.connected else 0,
            elinewidth=1.2,
            marker="o",
            markersize=3.5 if panel.connected else 4.5,
            capsize=2,
            label=name,
        )
        axis.plot(
            shifted[bounds], np.array(values)[bounds], color=colours[name], linewidth=0, marker="^", fillstyle="none"
        )
    axis.set_xticks(places, panel.levels)
    axis.set_xlim(-0.5, len(panel.levels) - 0.5)
    if panel.logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if panel.own_legend:
        axis.legend(prop={"family": FONT, "size": 8}, labelcolor=INK, frameon=False, ncols=len(panel.values))


def _dress(axis: Axes, panel: Panel, below: Panel | None, *, first: bool) -> None:
    """Draw titles and axes, without labels that the panel to the left or below already has."""
    axis.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", color=INK, fontfamily=FONT)
    if isinstance(panel, LevelPanel) and panel.limits is not None:
        axis.set_ylim(*panel.limits)
    elif isinstance(panel, CurvePanel) or not panel.logarithmic:
        axis.set_ylim(-0.02, 1.02)
        axis.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axis.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GREY)
    axis.tick_params(colors=GREY, labelsize=8, length=2.5, labelfontfamily=FONT)
    font: dict[str, Any] = {"color": GREY, "size": 8, "family": FONT}
    if below is None or _x_label(below) != _x_label(panel):
        axis.set_xlabel(_x_label(panel), labelpad=1, fontdict=font)
    if first:
        axis.set_ylabel(METRIC_NAMES[panel.metric] if isinstance(panel, CurvePanel) else panel.y_label, fontdict=font)


def _x_label(panel: Panel) -> str:
    return "step" if isinstance(panel, CurvePanel) else panel.x_label
