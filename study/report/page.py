"""What the parts of the report share: the figures they are written from, marks, tables of final G-means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from study.report.claims import Finding
from study.report.figures import Panel, draw
from study.report.scores import METRICS
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown
from study.statistics import Comparison

CONCEPTS = ("sine", "circle", "sea")
DRIFTS = ("prior", "likelihood", "posterior")

OUTSIDE = 2.0
"""Standard errors of the difference beyond which a figure is marked."""

SMALLEST_DIFFERENCE = 0.00005
"""The paper prints four decimals: nothing below is a difference."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the parts are written from.

    Attributes:
        summaries: Every run that has a repetition, by name.
        fisher: The paper's tests on the final G-means, by run.
        friedman: Those without sphericity, by run.
        findings: The paper's statements, checked.
        folder: Where figures go.
    """

    summaries: Mapping[str, RunSummary]
    fisher: dict[str, Comparison]
    friedman: dict[str, Comparison]
    findings: list[Finding]
    folder: Path

    def some(self, names: Iterable[str]) -> list[RunSummary]:
        """Those of these runs that there are."""
        return [self.summaries[name] for name in names if name in self.summaries]

    def figure(
        self, name: str, title: str, rows: Sequence[Sequence[Panel]], shown: Sequence[RunSummary] = ()
    ) -> list[str]:
        """Draw panels, and the lines that show them and name the paper's figures; nothing without panels."""
        rows = [row for row in rows if row]
        if not rows:
            return []
        draw(rows, self.folder / f"{name}.png", title)
        labels = dict.fromkeys(label for summary in shown for label in (summary.run.experiment.paper or "").split())
        named = ", ".join(f"`{label}`" for label in labels)
        return [f"![{title}]({name}.png)", "", *([f"In the paper: {named}.", ""] if named else [])]


def cell(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """Mean, and the standard error in brackets."""
    mean, _, error = mean_and_error(values)
    return f"{mean:.4f} ({error:.4f})"


def signed(difference: float) -> str:
    """With its sign, if four decimals show one."""
    return f"{difference:+.4f}" if abs(difference) >= SMALLEST_DIFFERENCE else "0.0000"


def marked(one: Comparison, two: Comparison, repetitions: int, name: str, text: str) -> str:
    """The text with its marks, of Fisher's and of Friedman's tests; one repetition tells nothing apart."""
    if repetitions < 2:
        return text
    if name in one.best:
        text = f"**{text}**"
    return f"{text} †" if name in two.best else text


def finals_table(context: Context, summaries: Sequence[RunSummary], headings: Sequence[str]) -> list[str]:
    """Final G-means: a row a learner, a column a run, the best ones marked."""
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
