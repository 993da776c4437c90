"""A figure of each learner at several levels of something, such as the delay of labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from study.report.drawing.colours import colour_of, dashes_of
from study.report.drawing.curves import unit_axis
from study.report.drawing.ends import label_ends

ROOM = 0.7
"""The part of a level that unconnected learners share."""


@dataclass(frozen=True, slots=True)
class LevelPanel:
    """A figure of each learner at several levels.

    Attributes:
        title: The title above the panel.
        levels: Names of the levels, from left to right.
        values: By learner, one mean for each level; NaN: not run there. Its name is beside its last one.
        errors: By learner, the standard errors, `[levels]`.
        x_label: Label of the axis of the levels.
        y_label: Label of the axis of the figure.
        connected: Whether lines connect the levels; not if the levels have no order. The learners then are beside one
            another, so that none hides another.
    """

    title: str
    levels: Sequence[str]
    values: Mapping[str, Sequence[float]]
    errors: Mapping[str, Sequence[float]]
    x_label: str
    y_label: str = "G-mean at the end"
    connected: bool = True

    def draw(self, axis: Axes) -> None:
        """Draw a line for each learner with its error bars and its label."""
        places = np.arange(len(self.levels))
        apart = 0.0 if self.connected else ROOM / len(self.values)
        for number, (name, values) in enumerate(self.values.items()):
            axis.errorbar(
                places + apart * (number - (len(self.values) - 1) / 2.0),
                values,
                yerr=self.errors.get(name),
                color=colour_of(name),
                linewidth=1.2,
                linestyle=dashes_of(name) if self.connected else "none",
                elinewidth=1.0,
                marker="o",
                markersize=3.5,
                capsize=2,
            )
        axis.set_xticks(places, self.levels)
        beside = 0.15 if self.connected else 0.5
        axis.set_xlim(-beside, len(self.levels) - 1.0 + max(beside - 0.1, 0.05))
        unit_axis(axis)
        label_ends(
            axis, {name: [value for value in values if np.isfinite(value)][-1] for name, values in self.values.items()}
        )
