"""Figures as the paper draws them: mean curves with a band of one standard error, and final figures with error bars."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from study.scores import METRICS
from study.summary import RunSummary

MAX_POINTS = 500
"""Points drawn a line; a panel is about 500 pixels wide."""

INK, GREY, GRID = "#222222", "#6b6b6b", "#e4e4e4"
DRIFT_COLOUR = "#9e1b5c"

COLOURS: Mapping[str, str] = {
    "areba_20": "#0b5fa5",
    "areba_50": "#1b9e9e",
    "areba_2": "#6baed6",
    "qbr_20": "#e08214",
    "oob": "#3a8f6f",
    "oob_single": "#7fbf5b",
    "uob": "#b8860b",
    "adaptive_cs": "#8f5ea8",
    "sliding": "#d1495b",
    "baseline": "#7a7a7a",
}
"""A learner has the same colour in every figure; those that are not here take `MORE_COLOURS` in order."""

MORE_COLOURS = ("#0b5fa5", "#e08214", "#3a8f6f", "#8f5ea8", "#d1495b", "#7a7a7a", "#b8860b", "#1b9e9e", "#222222")

METRIC_NAMES = dict(zip(METRICS, ("recall", "specificity", "G-mean"), strict=True))

PANEL_INCHES = (4.2, 2.7)
TITLE_INCHES = 0.8
LEGEND_ROW_INCHES = 0.2
DOTS_PER_INCH = 110


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Learning curves of one run.

    Attributes:
        title: Above it.
        summary: The run.
        metric: One of `METRICS`.
        learners: Those that are drawn; empty: all.
    """

    title: str
    summary: RunSummary
    metric: str = "gmean"
    learners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelPanel:
    """Some figure of each learner at a few levels of something.

    Attributes:
        title: Above it.
        levels: Names of the levels, from left to right.
        values: By learner, one mean for each level; NaN where there is none.
        errors: By learner, the standard errors.
        x_label: What the levels are.
        y_label: What the figure is.
        logarithmic: Whether the figure's axis is.
        connected: Whether lines go from level to level: not where levels have no order.
    """

    title: str
    levels: Sequence[str]
    values: Mapping[str, Sequence[float]]
    errors: Mapping[str, Sequence[float]]
    x_label: str
    y_label: str = "G-mean at the end"
    logarithmic: bool = False
    connected: bool = True


Panel = CurvePanel | LevelPanel


def colours_of(learners: Sequence[str]) -> dict[str, str]:
    """A colour for each learner, all different as far as there are colours."""
    taken = [COLOURS[name] for name in learners if name in COLOURS]
    free = iter([colour for colour in MORE_COLOURS if colour not in taken] + list(MORE_COLOURS) * 3)
    return {name: COLOURS[name] if name in COLOURS else next(free) for name in learners}


def draw(rows: Sequence[Sequence[Panel]], path: Path, title: str) -> Path:
    """Write panels in rows as a PNG, and return its path."""
    width, height = max(len(row) for row in rows), len(rows)
    learners = list(dict.fromkeys(name for row in rows for panel in row for name in _names(panel)))
    columns = max(1, min(len(learners), int(PANEL_INCHES[0] * width / 1.35)))
    title_inches = TITLE_INCHES + LEGEND_ROW_INCHES * (math.ceil(len(learners) / columns) - 1)
    size = (PANEL_INCHES[0] * width, PANEL_INCHES[1] * height + title_inches)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(height, width, squeeze=False)
    figure.subplots_adjust(
        left=0.6 / size[0],
        right=1 - 0.4 / size[0],
        bottom=0.5 / size[1],
        top=1 - (title_inches + 0.1) / size[1],
        wspace=0.2,
        hspace=0.45,
    )
    colours = colours_of(learners)
    for row, line in zip(axes, rows, strict=True):
        for axis, panel in zip(row, line, strict=False):
            if isinstance(panel, CurvePanel):
                _draw_curves(axis, panel, colours)
            else:
                _draw_levels(axis, panel, colours)
            _dress(axis, panel)
        for axis in row[len(line) :]:
            axis.set_visible(False)
    figure.text(0.6 / size[0], 1 - 0.14 / size[1], title, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.legend(
        handles=[Line2D([], [], color=colours[name], linewidth=2, label=name) for name in learners],
        loc="upper left",
        bbox_to_anchor=(0.6 / size[0], 1 - 0.38 / size[1]),
        borderaxespad=0,
        borderpad=0,
        ncols=columns,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        columnspacing=1.4,
        handlelength=1.8,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    return path


def _names(panel: Panel) -> Sequence[str]:
    if isinstance(panel, CurvePanel):
        return panel.learners or tuple(panel.summary.learners)
    return tuple(panel.values)


def _draw_curves(axis: Axes, panel: CurvePanel, colours: Mapping[str, str]) -> None:
    row = METRICS.index(panel.metric)
    for name in _names(panel):
        learner = panel.summary.learners[name]
        stride = max(1, len(learner.points) // MAX_POINTS)
        chosen = np.unique(np.append(np.arange(0, len(learner.points), stride), len(learner.points) - 1))
        steps, means, errors = learner.points[chosen], learner.means[row][chosen], learner.errors[row][chosen]
        axis.plot(steps, means, color=colours[name], linewidth=1.3)
        axis.fill_between(steps, means - errors, means + errors, color=colours[name], alpha=0.2, linewidth=0)
    for step in panel.summary.run.experiment.stream.resets(panel.summary.length):
        axis.axvline(step, color=DRIFT_COLOUR, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
    axis.set_xlim(0, panel.summary.length)
    axis.locator_params(axis="x", nbins=5)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_levels(axis: Axes, panel: LevelPanel, colours: Mapping[str, str]) -> None:
    places = np.arange(len(panel.levels))
    width = (0.3 if panel.connected else 0.7) / max(1, len(panel.values))
    for number, (name, values) in enumerate(panel.values.items()):
        shifted = places + (number - len(panel.values) / 2) * width
        axis.errorbar(
            shifted,
            values,
            yerr=panel.errors.get(name),
            color=colours[name],
            linewidth=1.2 if panel.connected else 0,
            elinewidth=1.2,
            marker="o",
            markersize=3.5 if panel.connected else 5,
            capsize=2,
        )
    axis.set_xticks(places, panel.levels)
    axis.set_xlim(-0.5, len(panel.levels) - 0.5)
    if panel.logarithmic:
        axis.set_yscale("log")


def _dress(axis: Axes, panel: Panel) -> None:
    axis.set_title(panel.title, loc="left", fontsize=9.5, fontweight="bold", color=INK)
    share = isinstance(panel, CurvePanel) or not panel.logarithmic
    if share:
        axis.set_ylim(-0.02, 1.02)
        axis.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axis.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GREY)
    axis.tick_params(colors=GREY, labelsize=8, length=2.5)
    x_label, y_label = (
        ("step", METRIC_NAMES[panel.metric])
        if isinstance(panel, CurvePanel)
        else (
            panel.x_label,
            panel.y_label,
        )
    )
    axis.set_xlabel(x_label, color=GREY, fontsize=8, labelpad=1)
    axis.set_ylabel(y_label, color=GREY, fontsize=8)
