"""The parts of the report on differences: what a repetition varies, variants, other ways of scoring."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from study.paper import PAPER_REPETITIONS, TableFigure, table_figures
from study.report.page import CONCEPTS, DRIFTS, OUTSIDE, SMALLEST_DIFFERENCE, Context, cell, signed
from study.report.summary import LearnerSummary, RunSummary, mean_and_error
from study.report.tables import markdown
from study.run.experiment import VARIES_TEXT
from study.statistics import ALPHA, fisher

MOST_ROWS = 15
"""The most rows of a table of differences; the largest differences come first."""

DEAD_BELOW = 0.1
"""A start is dead if AREBA's G-mean, first in the paper's table, ends below this: its networks have no gradient."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between our figure and the paper's.

    Attributes:
        size: Ours less the paper's.
        error: Standard error of the difference of the means.
        deviation: Standard deviation of our single repetitions. All repetitions of the authors' program start from one
            seed, so the paper's mean is a single draw of the initial weights and has at least this uncertainty.
    """

    size: float
    error: float
    deviation: float

    @property
    def beyond_errors(self) -> bool:
        """Whether the difference is larger than two standard errors."""
        return abs(self.size) > max(OUTSIDE * self.error, SMALLEST_DIFFERENCE)

    @property
    def draws(self) -> float:
        """The size of the difference in standard deviations of our single repetitions."""
        if abs(self.size) <= SMALLEST_DIFFERENCE:
            return 0.0
        return abs(self.size) / self.deviation if self.deviation > 0.0 else math.inf

    @property
    def beyond_draws(self) -> bool:
        """Whether a single draw would be more than two standard deviations away."""
        return self.draws > OUTSIDE


def gap(figure: TableFigure, mean: float, deviation: float, repetitions: int) -> Gap:
    """Compare a mean of ours, and its standard deviation over repetitions, with a figure of the paper's table."""
    errors = deviation / math.sqrt(repetitions), figure.standard_deviation / math.sqrt(PAPER_REPETITIONS)
    return Gap(mean - figure.mean, math.hypot(*errors), deviation)


def varies(context: Context) -> list[str]:
    """Write the part that compares experiments in which data, weights or both vary."""
    rows = []
    for name, summary in context.summaries.items():
        own = context.summaries.get(summary.run.experiment.name)
        if own is None or name == own.run.name:
            continue
        for learner in summary.learners:
            one, two = own.learners[learner].figures[own.last][2], summary.learners[learner].figures[summary.last][2]
            (mean, _, error), (other, _, other_error) = mean_and_error(one), mean_and_error(two)
            is_outside = abs(mean - other) > OUTSIDE * math.hypot(error, other_error)
            rows.append((own.run, summary.run, learner, mean, error, other, other_error, is_outside))
    if not rows:
        return []
    outside = [row for row in rows if row[-1]]
    table = [
        [
            row[0].name,
            row[2],
            row[0].varies,
            f"{row[3]:.4f} ({row[4]:.4f})",
            row[1].varies,
            f"{row[5]:.4f} ({row[6]:.4f})",
            signed(row[5] - row[3]),
        ]
        for row in sorted(outside, key=lambda row: -abs(row[5] - row[3]))
    ]
    headings = ("experiment", "learner", "varies", "G-mean", "varies", "G-mean", "difference")
    ways = Counter(f"*{row[0].varies}* against *{row[1].varies}*" for row in rows)
    beyond = Counter(f"*{row[0].varies}* against *{row[1].varies}*" for row in outside)
    return [
        "## What a repetition varies",
        "",
        (
            "The authors' program draws other data in each repetition and starts every network from the same seed, so"
            " its standard errors say nothing of the initial weights, and its figures hold for one start. The sound way"
            " varies both. On the synthetic streams we run *both* and, as the authors do, *data* alone; on the data"
            " sets we run *weights* alone, with the rows in their published order, and *both*: another order of the"
            " rows and, if the publisher's files are there, other images of MNIST. In every way, all learners of a"
            " repetition start from the same weights, so no learner owes its figure to a luckier start than the others"
            " have."
        ),
        "",
        (
            "Pairs of figures that differ by more than two standard errors of the difference (chance alone makes about"
            f" 5 % of them differ): {'; '.join(f'{way}: {beyond[way]} of {count}' for way, count in ways.items())}."
        ),
        "",
        *(markdown(headings, table[:MOST_ROWS], left=3) if table else []),
        *([f"({len(table) - MOST_ROWS} more are in `final.csv`.)", ""] if len(table) > MOST_ROWS else []),
    ]


def differences(context: Context) -> list[str]:
    """Write the part on variants, which were tried to explain where our figures differ from the paper's."""
    tried = {base: rows for base in _experiments() if (rows := _rows(context, base))}
    other = [
        summary
        for summary in context.summaries.values()
        if summary.run.experiment.group == "variant" and summary.run.experiment.variant_of not in _experiments()
    ]
    if not tried and not other:
        return []
    lines = [
        "## Where our figures differ: what was tried",
        "",
        (
            "A variant changes one thing of the study, or two where its line says so, and is reported as a variant: the"
            " settings of the study are the paper's. Each column is ours less the paper's figure, **bold** where it is"
            " within two standard errors; the distance is the mean of their sizes. In brackets: the difference in"
            " standard deviations of our single repetitions, because the paper's figure is one draw of the weights;"
            " a large deviation makes this an easy test. A start is dead if AREBA's G-mean ends below"
            f" {DEAD_BELOW:g}; the paper's one start was not, so a variant with dead starts has a second row without"
            " them. Of two budgets, where the paper does not say which it used, the nearer one counts."
        ),
        "",
    ]
    for base, rows in tried.items():
        lines += _distances(context.summaries[base].run.experiment.title, rows)
    if other:
        lines += ["### Parts of the method, tried where the paper has no table", ""]
    for summary in other:
        finals = "; ".join(
            f"{name} {cell(learner.figures[summary.last][2])}" for name, learner in summary.learners.items()
        )
        test = context.fisher[summary.run.name]
        verdict = "these differ" if test.p_value < ALPHA else "these do not differ"
        lines.append(
            f"- `{summary.run.name}`, {summary.repetitions} repetitions: {summary.run.experiment.note}: {finals}:"
            f" {verdict} (ANOVA, p = {test.p_value:.2g})."
        )
    return [*lines, *([""] if other else [])]


@dataclass(frozen=True, slots=True)
class _Tried:
    """A row of the table: a run, or a way of scoring, compared with the paper's figures of a data set."""

    name: str
    what: str
    repetitions: int
    gaps: tuple[Gap, ...]

    @property
    def distance(self) -> float:
        return sum(abs(gap.size) for gap in self.gaps) / len(self.gaps)

    @property
    def beyond_errors(self) -> int:
        return sum(gap.beyond_errors for gap in self.gaps)

    @property
    def beyond_draws(self) -> int:
        return sum(gap.beyond_draws for gap in self.gaps)


def _experiments() -> list[str]:
    return sorted({figure.experiment for figure in table_figures()})


def _rows(context: Context, base: str) -> list[_Tried]:
    """Return the row of the study's own run, then the rows of all that was tried."""
    own = context.summaries.get(base)
    if own is None:
        return []
    figures = [figure for figure in table_figures() if figure.experiment == base]
    found = [_held(base, "the study", figures, own, _final)]
    for summary in context.summaries.values():
        experiment = summary.run.experiment
        if summary is not own and base in {experiment.name, experiment.variant_of}:
            what = experiment.note or f"varies {VARIES_TEXT[summary.run.varies]}"
            found.append(_held(summary.run.name, what, figures, summary, _final))
            if (living := _living(summary, figures[0])) is not None:
                starts = f"{living.repetitions} of {summary.repetitions} starts, which are not dead"
                found.append(_held(summary.run.name, f"{what}; {starts}", figures, living, _final))
    scorings: tuple[tuple[str, Scoring], ...] = (
        ("scored over all examples, without fading", _unfaded),
        ("the G-mean averaged over the stream, not that at its end", _average),
        ("the G-mean of the mean recall and the mean specificity", _of_means),
    )
    found += [_held(base, what, figures, own, scoring) for what, scoring in scorings]
    return [row for row in found if row is not None]


def _living(summary: RunSummary, figure: TableFigure) -> RunSummary | None:
    """Return the repetitions in which a learner of this figure lives; None if all of them or none do."""
    names = [name for name in figure.learners if name in summary.learners]
    finals = np.array([summary.learners[name].figures[summary.last][2] for name in names])
    alive = np.flatnonzero((finals >= DEAD_BELOW).any(axis=0)).tolist()
    if len(alive) in {0, summary.repetitions}:
        return None
    learners = {
        name: replace(learner, figures={summary.last: learner.figures[summary.last][:, alive]})
        for name, learner in summary.learners.items()
    }
    return replace(summary, numbers=[summary.numbers[place] for place in alive], learners=learners)


Scoring = Callable[[RunSummary, LearnerSummary], tuple[float, float]]
"""A function that returns a learner's figure, and its standard deviation over single repetitions."""


def _final(summary: RunSummary, learner: LearnerSummary) -> tuple[float, float]:
    return mean_and_error(learner.figures[summary.last][2])[:2]


def _unfaded(_: RunSummary, learner: LearnerSummary) -> tuple[float, float]:
    return mean_and_error(learner.unfaded)[:2]


def _average(_: RunSummary, learner: LearnerSummary) -> tuple[float, float]:
    return mean_and_error(learner.averages)[:2]


def _of_means(summary: RunSummary, learner: LearnerSummary) -> tuple[float, float]:
    recall, specificity, _ = learner.figures[summary.last].mean(axis=1)
    return math.sqrt(recall * specificity), _final(summary, learner)[1]


def _held(name: str, what: str, figures: Sequence[TableFigure], summary: RunSummary, scoring: Scoring) -> _Tried | None:
    """Compare a run with the paper's figures; None if one of the methods was not run."""
    gaps = []
    for figure in figures:
        scored = [scoring(summary, summary.learners[one]) for one in figure.learners if one in summary.learners]
        if not scored:
            return None
        found = [gap(figure, mean, deviation, summary.repetitions) for mean, deviation in scored]
        gaps.append(min(found, key=lambda one: abs(one.size)))
    return _Tried(name, what, summary.repetitions, tuple(gaps))


def _distances(title: str, rows: Sequence[_Tried]) -> list[str]:
    own, others = rows[0], rows[1:]
    methods = [figure.row for figure in table_figures() if figure.experiment == own.name]
    outside = [place for place, one in enumerate(own.gaps) if one.beyond_errors]
    said = []
    for place in outside:
        by = [f"{row.what} (`{row.name}`)" for row in others if not row.gaps[place].beyond_errors]
        said.append(
            f"- {methods[place]} ({signed(own.gaps[place].size)}): within two standard errors with {_or_nothing(by)}."
        )
    closest = min(rows, key=lambda row: row.distance)
    first = (
        f"{len(outside)} of {len(methods)} rows are outside two standard errors" if outside else "All rows are inside"
    )
    first += f", {own.beyond_draws} more than two standard deviations of a single draw away. "
    first += (
        f"Nothing comes closer over all rows than the study itself ({own.distance:.4f})."
        if own.distance - closest.distance < SMALLEST_DIFFERENCE
        else f"Closest over all rows: {closest.what} (`{closest.name}`), {closest.distance:.4f} in the place of"
        f" {own.distance:.4f}; it leaves {closest.beyond_errors} outside two standard errors and"
        f" {closest.beyond_draws} more than two deviations away."
    )
    table = [
        [
            f"`{row.name}`",
            row.what,
            str(row.repetitions),
            f"{row.distance:.4f}",
            str(row.beyond_errors),
            str(row.beyond_draws),
            *(_gap_cell(one) for one in row.gaps),
        ]
        for row in (own, *sorted(others, key=lambda row: row.distance))
    ]
    tail = ["", *said] if said else []
    headings = ("run", "what it is", "repetitions", "distance", "beyond 2 SE", "beyond 2 draws", *methods)
    return [f"### {title}", "", first, *tail, "", *markdown(headings, table, left=2)]


def _gap_cell(one: Gap) -> str:
    size = signed(one.size)
    return f"{size if one.beyond_errors else f'**{size}**'} ({one.draws:.1f})"


def _or_nothing(texts: Sequence[str]) -> str:
    return "; ".join(texts) if texts else "nothing that was tried"


def scoring(context: Context) -> list[str]:
    """Write the part on the reset of the sums at a known drift: how it changes the figures."""
    own = context.some(f"{concept}-1-{kind}" for concept in CONCEPTS for kind in DRIFTS)
    if not own:
        return []
    names = list(own[0].learners)
    rows = [
        [
            summary.run.name,
            *(
                f"{summary.learners[n].mean(summary.last):.3f} / {summary.learners[n].unreset.mean():.3f}"
                for n in names
            ),
        ]
        for summary in own
    ]
    changed = [summary for summary in own if _best(summary, reset=True) != _best(summary, reset=False)]
    best = [sum("areba_20" in _best(summary, reset=reset) for summary in own) for reset in (True, False)]
    return [
        "## What the reset at a drift does to the figures",
        "",
        (
            "G-mean at the end with sums that restart at the drift, as in the authors' program and everywhere else"
            " on this page / with sums that do not, as the running application has them:"
        ),
        "",
        *markdown(("experiment", *names), rows),
        f"AREBA_20 is best, or not significantly worse by Fisher's least significant difference, in {best[0]} of"
        f" {len(own)} with the reset and in {best[1]} without; who is best changes in {len(changed)}"
        + (f" ({', '.join(summary.run.name for summary in changed)})." if changed else "."),
        "",
    ]


def _best(summary: RunSummary, *, reset: bool) -> frozenset[str]:
    columns = [one.figures[summary.last][2] if reset else one.unreset for one in summary.learners.values()]
    return fisher(np.column_stack(columns), list(summary.learners)).best
