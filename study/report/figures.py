"""Figures of the study: panels in rows, written as a PNG. Labels at the ends of lines replace legends."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from study.report.drawing.colours import GREY, GRID, INK
from study.report.drawing.curves import METRIC_NAMES, CurvePanel
from study.report.drawing.ends import FONT, dress_text
from study.report.drawing.levels import LevelPanel
from study.report.drawing.pairs import PairPanel
from study.report.drawing.rows import BarPanel, DotPanel, NamedDotPanel, RankPanel

__all__ = [
    "METRIC_NAMES",
    "BarPanel",
    "CurvePanel",
    "DotPanel",
    "LevelPanel",
    "NamedDotPanel",
    "PairPanel",
    "Panel",
    "RankPanel",
    "draw",
]

Panel = CurvePanel | LevelPanel | DotPanel | BarPanel | NamedDotPanel | RankPanel | PairPanel

NAMED = (DotPanel, BarPanel, NamedDotPanel, RankPanel)
"""Panels with a named row for each learner or stream."""

PANEL_INCHES = (3.3, 2.2)
"""Size of a panel's axes, without labels."""

ENDS_INCHES = 1.15
"""Space to the right of a panel, for the labels at the ends of lines."""

NAMES_INCHES = 1.0
"""Space to the left of a panel whose rows have names."""

AXIS_INCHES = 0.55
DOWN_INCHES = 0.62
TITLE_INCHES = 0.7
DOTS_PER_INCH = 110

PALETTE_COLOURS = 256
"""Colours of a picture's palette: readers do not see the difference, and the file takes a third of the bytes."""


def draw(rows: Sequence[Sequence[Panel]], path: Path, title: str, note: str = "", width_inches: float = 0.0) -> Path:
    """Write panels in rows as a PNG, and return its path.

    Args:
        rows: The panels.
        path: Where the picture is written.
        title: The title above all panels.
        note: A line below the title.
        width_inches: Width of a panel's axes; 0: `PANEL_INCHES`.
    """
    across, down = max(len(row) for row in rows), len(rows)
    wide, high = width_inches or PANEL_INCHES[0], PANEL_INCHES[1]
    every = [panel for row in rows for panel in row]
    heights = [panel.height_inches for panel in every if isinstance(panel, (*NAMED, PairPanel))]
    named, high = any(isinstance(panel, NAMED) for panel in every), max([high, *heights])
    left, right = (NAMES_INCHES, 0.25) if named else (AXIS_INCHES, ENDS_INCHES)
    if named and isinstance(rows[0][0], (NamedDotPanel, RankPanel)):
        left *= 2.3
    between = left + right if named else right + 0.35
    size = (
        left + across * wide + (across - 1) * between + right,
        TITLE_INCHES + down * high + (down - 1) * DOWN_INCHES + 0.5,
    )
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False)
    figure.subplots_adjust(
        left=left / size[0],
        right=1 - right / size[0],
        bottom=0.45 / size[1],
        top=1 - (TITLE_INCHES - 0.05) / size[1],
        wspace=between / wide,
        hspace=DOWN_INCHES / high,
    )
    for row, (line, panels) in enumerate(zip(axes, rows, strict=True)):
        for along, (axis, panel) in enumerate(zip(line, panels, strict=False)):
            _dress(axis)
            panel.draw(axis)
            below = rows[row + 1][along] if row + 1 < down and along < len(rows[row + 1]) else None
            _name_axes(axis, panel, below, first=along == 0)
        for axis in line[len(panels) :]:
            axis.set_visible(False)
    inset = 0.12 if named else left
    figure.text(inset / size[0], 1 - 0.1 / size[1], title, color=INK, va="top", size=12, weight="bold", family=FONT)
    if note:
        figure.text(inset / size[0], 1 - 0.31 / size[1], note, color=GREY, va="top", size=8, family=FONT)
    _write(figure, path)
    return path


def _write(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG with a palette."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = BytesIO()
    figure.savefig(raw, metadata={"Software": None})
    with Image.open(raw) as picture:
        few = picture.convert("RGB").quantize(PALETTE_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _dress(axis: Axes) -> None:
    """Set grid, spines and ticks."""
    axis.grid(visible=True, axis="y", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(GREY)
    axis.tick_params(colors=GREY, labelsize=8, length=2.5, labelfontfamily=FONT)


def _name_axes(axis: Axes, panel: Panel, below: Panel | None, *, first: bool) -> None:
    """Write titles and axes' names, without those that the panel to the left or below already has."""
    axis.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", color=INK, fontfamily=FONT)
    if below is None or below.x_label != panel.x_label:
        axis.set_xlabel(panel.x_label, labelpad=1, fontdict=dress_text())
    if first and panel.y_label:
        axis.set_ylabel(panel.y_label, fontdict=dress_text())
