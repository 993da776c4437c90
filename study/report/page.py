"""The parts that all pages of the report share: the context, marks, and tables of final G-means."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from study.report.claims.check import Claim
from study.report.figures import CurvePanel, LevelPanel, Panel, draw
from study.report.scores import METRICS
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown
from study.statistics import Comparison

CONCEPTS = ("sine", "circle", "sea")
DRIFTS = ("prior", "likelihood", "posterior")

OUTSIDE = 2.0
"""A figure is marked if it differs by more than this many standard errors of the difference."""

SMALLEST_DIFFERENCE = 0.00005
"""The paper prints four decimals, so a smaller difference does not count."""


@dataclass(frozen=True, slots=True)
class Context:
    """The data that the parts of the report are written from.

    Attributes:
        summaries: All runs with a finished repetition, by name.
        fisher: The paper's tests on the final G-means, by run.
        friedman: The tests that do not assume sphericity, by run.
        claims: The claims of the paper's text, checked.
        folder: The folder of the figures.
    """

    summaries: Mapping[str, RunSummary]
    fisher: dict[str, Comparison]
    friedman: dict[str, Comparison]
    claims: list[Claim]
    folder: Path

    def some(self, names: Iterable[str]) -> list[RunSummary]:
        """Return the summaries of these runs, without those that were not run."""
        return [self.summaries[name] for name in names if name in self.summaries]

    def figure(
        self,
        name: str,
        title: str,
        rows: Sequence[Sequence[Panel]],
        shown: Sequence[RunSummary] = (),
        *,
        note: str = "",
        width_inches: float = 0.0,
    ) -> list[str]:
        """Draw the panels; return the lines that show the figure and name the paper's, or no lines without panels."""
        rows = [row for row in rows if row]
        if not rows:
            return []
        notes = "; ".join(filter(None, (note, *_spreads(rows))))
        draw(rows, self.folder / f"{name}.png", title, notes, width_inches)
        labels = dict.fromkeys(label for summary in shown for label in (summary.run.experiment.paper or "").split())
        named = ", ".join(f"`{label}`" for label in labels)
        return [f"![{title}]({name}.png)", "", *([f"In the paper: {named}.", ""] if named else [])]


def _spreads(rows: Sequence[Sequence[Panel]]) -> Iterator[str]:
    """Yield what the bands and bars of the panels are."""
    curves = [panel for row in rows for panel in row if isinstance(panel, CurvePanel)]
    if any(panel.summary.repetitions > 1 for panel in curves):
        yield "bands: standard error over the repetitions"
    single = [panel.title or panel.summary.run.name for panel in curves if panel.summary.repetitions == 1]
    if single:
        yield f"one run, so without a band: {', '.join(single)}"
    if any(isinstance(panel, LevelPanel) for row in rows for panel in row):
        yield "bars: standard error over the repetitions"


def cell(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """Return mean and, in brackets, standard error as text."""
    mean, _, error = mean_and_error(values)
    return f"{mean:.4f} ({error:.4f})"


def signed(difference: float) -> str:
    """Return a difference with its sign, or zero if four decimals do not show it."""
    return f"{difference:+.4f}" if abs(difference) >= SMALLEST_DIFFERENCE else "0.0000"


def marked(one: Comparison, two: Comparison, repetitions: int, name: str, text: str) -> str:
    """Return a text with the marks of Fisher's and of Friedman's tests; a single repetition distinguishes nothing."""
    if repetitions < 2:
        return text
    if name in one.best:
        text = f"**{text}**"
    return f"{text} †" if name in two.best else text


def finals_table(context: Context, summaries: Sequence[RunSummary], headings: Sequence[str]) -> list[str]:
    """Return a table of final G-means: a row per learner, a column per run, the best ones marked."""
    names = list(dict.fromkeys(name for summary in summaries for name in summary.learners))
    rows = []
    for name in names:
        row = [name]
        for summary in summaries:
            learner = summary.learners.get(name)
            text = "" if learner is None else cell(learner.figures[summary.last][METRICS.index("gmean")])
            tests = context.fisher[summary.run.name], context.friedman[summary.run.name]
            row.append(marked(*tests, summary.repetitions, name, text) if text else "")
        rows.append(row)
    counts = sorted({summary.repetitions for summary in summaries})
    repetitions = " or ".join(str(count) for count in counts)
    return [
        f"G-mean after the last step, {repetitions} repetitions:",
        "",
        *markdown(("learner", *headings), rows),
    ]
