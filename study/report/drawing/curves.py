"""Learning curves of one run: means with a band of one standard error, from the first positive example on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from study.report.drawing.colours import DRIFT_COLOUR, GREY, colour_of, dashes_of
from study.report.drawing.ends import label_ends
from study.report.scores import METRICS
from study.report.summary import RunSummary

MAX_POINTS = 500
"""Points of a line; a panel is about 350 pixels wide."""

METRIC_NAMES = dict(zip(METRICS, ("recall", "specificity", "G-mean"), strict=True))


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Learning curves of one run.

    Attributes:
        title: The title above the panel.
        summary: The run.
        metric: One of `METRICS`.
        learners: The learners that are drawn; empty: all.
        by_budget: Whether label and colour show the budget, at the end of the learner's name.
        last_step: Where the axis ends; 0: at the end of the stream.
        marks: Figures of another source for the end of some learners' curves.
        show_level: Whether a line shows the common level that counts as recovered.
    """

    title: str
    summary: RunSummary
    metric: str = "gmean"
    learners: tuple[str, ...] = ()
    by_budget: bool = False
    last_step: int = 0
    marks: Mapping[str, float] = field(default_factory=dict)
    show_level: bool = False

    @property
    def lines(self) -> Mapping[str, str]:
        """Labels of the lines, by learner."""
        names = self.learners or tuple(self.summary.learners)
        return {name: f"B = {name.rpartition('_')[2]}" if self.by_budget else name for name in names}

    @property
    def x_label(self) -> str:
        """Label of the horizontal axis."""
        return "step"

    @property
    def y_label(self) -> str:
        """Label of the vertical axis."""
        return METRIC_NAMES[self.metric]

    def draw(self, axis: Axes) -> None:
        """Draw the curves, the drifts and the labels."""
        row = METRICS.index(self.metric)
        end = self.last_step or self.summary.length
        ends: dict[str, float] = {}
        for name, line in self.lines.items():
            learner = self.summary.learners[name]
            count = max(1, int(np.searchsorted(learner.points, end, side="right")))
            stride = max(1, count // MAX_POINTS)
            chosen = np.unique(np.append(np.arange(0, count, stride), count - 1))
            steps, means, errors = learner.points[chosen], learner.means[row][chosen], learner.errors[row][chosen]
            axis.plot(steps, means, color=colour_of(line), linewidth=1.3, linestyle=dashes_of(line))
            axis.fill_between(steps, means - errors, means + errors, color=colour_of(line), alpha=0.2, linewidth=0)
            ends[line] = float(means[-1]) if np.isfinite(means[-1]) else 0.0
        for step in self.summary.run.experiment.stream.resets(self.summary.length):
            axis.axvline(step, color=DRIFT_COLOUR, linewidth=1, linestyle=(0, (4, 2)), zorder=1)
        if self.show_level:
            back = next(iter(self.summary.learners.values())).recoveries[0]
            axis.hlines(back.level, back.drift_step, end, color=GREY, linewidth=1, linestyle=(0, (1, 1.5)), zorder=4)
        axis.set_xlim(0, end)
        axis.locator_params(axis="x", nbins=4)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        unit_axis(axis)
        label_ends(axis, ends, {self.lines[name]: value for name, value in self.marks.items() if name in self.lines})


def unit_axis(axis: Axes) -> None:
    """Let a vertical axis of figures go from 0 to 1."""
    axis.set_ylim(-0.02, 1.02)
    axis.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
