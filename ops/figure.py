"""Draw the G-mean along each stream as a PNG: a panel per stream, a line per learner, marks for drift and kills."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stream_app.monitor.colours import LearnerColours

COLUMNS = 3
"""Panels in a row: six streams make two rows on a wide screen."""

MAX_POINTS = 600
"""Points of a line: a panel is about 450 pixels wide, so more points would only be drawn over one another."""

INK, GREY, GRID = "#222222", "#6b6b6b", "#e4e4e4"
DRIFT_COLOUR, KILL_COLOUR = "#5b2a86", "#222222"

NO_METHODS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Curve:
    """A learner's G-mean by the number of examples (`positions`); None until both classes were seen."""

    learner: str
    champion: bool
    positions: Sequence[int]
    gmeans: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Panel:
    """One stream.

    Attributes:
        stream: Its name.
        curves: One curve for each learner.
        drifts: Number of examples before each drift, by the kind of drift: `{"posterior": 10000}`.
        kills: Numbers of examples when a worker was killed.
        note: A remark next to the name, about imbalance and delay.
    """

    stream: str
    curves: Sequence[Curve]
    drifts: Mapping[str, int] = field(default_factory=dict)
    kills: Sequence[int] = ()
    note: str = ""


def thinned(curve: Curve) -> tuple[list[int], list[float]]:
    """Return at most `MAX_POINTS` points of a curve, evenly chosen and including the last; a missing G-mean is NaN."""
    points = list(zip(curve.positions, curve.gmeans, strict=True))
    step = max(1, math.ceil(len(points) / MAX_POINTS))
    chosen = points[::step] + ([points[-1]] if points and (len(points) - 1) % step else [])
    return [x for x, _ in chosen], [math.nan if y is None else y for _, y in chosen]


def draw(
    panels: Sequence[Panel], path: Path, title: str, subtitle: str = "", methods: Mapping[str, str] = NO_METHODS
) -> Path:
    """Write the figure to `path` (PNG, 150 dots per inch) and return the path; no display is needed.

    Args:
        panels: The streams.
        path: The file.
        title: The first line above the panels.
        subtitle: The second line.
        methods: The method of each learner, which decides its colour as on the dashboard.
    """
    columns = min(COLUMNS, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure = Figure(figsize=(4.6 * columns, 2.9 * rows + 1.1), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    height = figure.get_figheight()
    axes = figure.subplots(rows, columns, sharey=True, squeeze=False)
    figure.subplots_adjust(
        left=0.62 / figure.get_figwidth(),
        right=1 - 0.32 / figure.get_figwidth(),
        bottom=0.55 / height,
        top=1 - 1.18 / height,
        wspace=0.09,
        hspace=0.46,
    )
    learners = list(dict.fromkeys(curve.learner for panel in panels for curve in panel.curves))
    known = LearnerColours(methods)
    colours = {learner: known.of(learner) for learner in learners}
    flat = [axes[row][column] for row in range(rows) for column in range(columns)]
    for axis, panel in zip(flat, panels, strict=False):
        _draw_panel(axis, panel, colours)
    for axis in flat[len(panels) :]:
        axis.set_visible(False)
    for row in axes:
        row[0].set_ylabel("G-mean", color=GREY, fontsize=9)
    left = 0.62 / figure.get_figwidth()
    figure.text(left, 1 - 0.16 / height, title, fontsize=14, fontweight="bold", color=INK, va="top")
    figure.text(left, 1 - 0.44 / height, subtitle, fontsize=9, color=GREY, va="top")
    _legend(figure, panels, colours)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _legend(figure: Figure, panels: Sequence[Panel], colours: Mapping[str, str]) -> None:
    champions = {curve.learner for panel in panels for curve in panel.curves if curve.champion}
    handles = [
        Line2D([], [], color=colour, linewidth=2, label=name + (" (champion)" if name in champions else ""))
        for name, colour in colours.items()
    ]
    if any(panel.drifts for panel in panels):
        handles.append(Line2D([], [], color=DRIFT_COLOUR, linewidth=1.2, linestyle=(0, (4, 2)), label="drift"))
    if any(panel.kills for panel in panels):
        handles.append(
            Line2D([], [], color=KILL_COLOUR, linewidth=1.2, linestyle=(0, (1, 1.5)), label="a worker killed")
        )
    if not handles:
        return
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.62 / figure.get_figwidth(), 1 - 0.66 / figure.get_figheight()),
        borderaxespad=0,
        borderpad=0,
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        handlelength=2.2,
        columnspacing=2.2,
        labelcolor=INK,
    )


def _draw_panel(axis: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    end = max((position for curve in panel.curves for position in curve.positions), default=0)
    for curve in sorted(panel.curves, key=lambda curve: curve.champion):
        positions, gmeans = thinned(curve)
        axis.plot(
            positions,
            gmeans,
            color=colours[curve.learner],
            linewidth=1.5 if curve.champion else 1.1,
            zorder=3 if curve.champion else 2,
        )
    for kind, position in panel.drifts.items():
        axis.axvline(position, color=DRIFT_COLOUR, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1)
        crowded = any(0 <= kill - position < 0.3 * end for kill in panel.kills)
        is_right = position < 0.3 * end or (position < 0.7 * end and not crowded)
        axis.annotate(
            f"{kind} drift",
            (position, 0.03),
            xytext=(4 if is_right else -4, 0),
            textcoords="offset points",
            ha="left" if is_right else "right",
            color=DRIFT_COLOUR,
            fontsize=8,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            zorder=4,
        )
    for position in panel.kills:
        axis.axvline(position, color=KILL_COLOUR, linewidth=1.2, linestyle=(0, (1, 1.5)), zorder=1)
    _style_axis(axis, panel, end)


def _style_axis(axis: Axes, panel: Panel, end: int) -> None:
    axis.set_title(panel.stream, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=6)
    axis.set_title(panel.note, loc="right", fontsize=8, color=GREY, pad=6)
    axis.set_ylim(-0.04, 1.02)  # the axis does not hide a line at 0
    axis.set_xlim(0, max(end, 1) * 1.01)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axis.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GREY)
    axis.tick_params(colors=GREY, labelsize=8, length=2.5)
    axis.tick_params(axis="y", length=0)
    axis.locator_params(axis="x", nbins=5)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.set_xlabel("examples", color=GREY, fontsize=8, labelpad=1)
    if not any(y is not None for curve in panel.curves for y in curve.gmeans):
        axis.annotate("no G-mean yet", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY, fontsize=9)
