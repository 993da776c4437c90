"""Two figures of each method against each other: a path of points for each method, with standard errors."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from study.report.drawing.colours import colour_of
from study.report.drawing.ends import label_ends


class Spot(NamedTuple):
    """A point with the standard errors of its two figures."""

    x: float
    y: float
    x_error: float
    y_error: float


@dataclass(frozen=True, slots=True)
class PairPanel:
    """A path for each learner; its first point is full, further ones are hollow.

    Attributes:
        title: The title above the panel.
        paths: By learner.
        x_label: Label of the horizontal axis.
        y_label: Label of the vertical axis.
    """

    title: str
    paths: Mapping[str, Sequence[Spot]]
    x_label: str
    y_label: str

    @property
    def height_inches(self) -> float:
        """The height of the panel."""
        return 3.4

    def draw(self, axis: Axes) -> None:
        """Draw the paths, and the names of the learners on the right, at the height of their last points."""
        for name, path in self.paths.items():
            colour = colour_of(name)
            axis.plot([spot.x for spot in path], [spot.y for spot in path], color=colour, linewidth=1.0, alpha=0.45)
            for number, spot in enumerate(path):
                axis.errorbar(
                    [spot.x], [spot.y], [spot.y_error], [spot.x_error], marker="o", markersize=5, color=colour,
                    markerfacecolor="white" if number else colour, elinewidth=0.7,
                )  # fmt: skip
        for values, limit, ticks in (
            ([spot.x for path in self.paths.values() for spot in path], axis.set_xlim, axis.set_xticks),
            ([spot.y for path in self.paths.values() for spot in path], axis.set_ylim, axis.set_yticks),
        ):
            low, high = math.floor(10 * min(values) - 0.4) / 10, math.ceil(10 * max(values) + 0.4) / 10
            limit(low, high)
            ticks(np.arange(low, high + 0.05, 0.1))
        axis.grid(visible=True, axis="x", color="#eeeeee", linewidth=0.8)
        label_ends(axis, {name: path[-1].y for name, path in self.paths.items()}, {})
