"""The parts of the report that follow the paper; a part whose experiments were not run is left out.

Code makes the sentences from the figures, so they never claim what was not measured.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from study.paper import PAPER_REPETITIONS, TableFigure, table_figures
from study.report.differences import gap
from study.report.figures import METRIC_NAMES, CurvePanel, LevelPanel, Panel
from study.report.page import CONCEPTS, DRIFTS, Context, finals_table, marked, signed
from study.report.summary import LearnerSummary, RunSummary, mean_and_error
from study.report.tables import markdown
from study.statistics import Comparison, fisher, friedman

IMBALANCES = ("10", "1", "0.1")
REAL = ("cervical", "fraud", "credit", "mnist", "forest")

FOREST_STEPS = 20_000
"""Steps that the picture shows, of 202,000: after them every learner is at 1."""


def real_table(context: Context) -> list[str]:
    """Write Table I: our figures next to the paper's."""
    rows: list[list[str]] = []
    compared = {name: _compared(summary) for name, summary in context.summaries.items() if name in _measured()}
    for figure in table_figures():
        summary = context.summaries.get(figure.experiment)
        if summary is None:
            continue
        tests = compared[figure.experiment]
        rows.extend(_table_row(tests, summary, name, figure) for name in figure.learners)
    if not rows:
        return []
    errors, draws = (table_counts(context, draws=draws) for draws in (False, True))
    headings = (
        *("row", "data set", "ours is", "paper: mean (sd)", "ours: mean (sd)", "difference", "beyond 2 SE"),
        "in sd of one draw",
    )
    return [
        "## The paper's table (`tab:real`): final G-mean on the real data sets",
        "",
        (
            "The paper gives standard deviations in brackets here, and does not say for Fraud and MNIST whether its"
            " AREBA_20/50 is 20 or 50: both are shown. Our bold and dagger: among these methods alone, as in the paper"
            " ([explained](method.md)). *Beyond 2 SE*: the difference is larger than twice its standard error,"
            f" made of both standard deviations and numbers of repetitions ({PAPER_REPETITIONS} in the paper)."
            " *In sd of one draw*: the difference divided by the standard deviation of our single repetitions, **bold**"
            " beyond 2. The authors' program starts all repetitions from one seed (the paper's standard deviation on"
            " Fraud is 0.0000 for four methods), so the paper's mean is one draw of the initial weights: this is the"
            " fairer yardstick, and a weak one where our deviation is large."
        ),
        "",
        *markdown(headings, rows, left=3),
        (
            f"{errors.outside} of {errors.compared} figures lie outside two standard errors, {draws.outside} more than"
            f" two standard deviations of a single draw away; {errors.perfect} are 1.0000 in both, and cannot differ."
            " A figure of AREBA_20/50 counts once. See [what was tried](differences.md)."
        ),
        "",
    ]


class TableCounts(NamedTuple):
    """Figures of the paper's table: how many lie outside, how many were compared, and how many are 1.0000 in both."""

    outside: int = 0
    compared: int = 0
    perfect: int = 0


def _measured() -> dict[str, list[str]]:
    """Return the learners of the table's rows, by experiment."""
    found: dict[str, list[str]] = {}
    for figure in table_figures():
        found.setdefault(figure.experiment, []).extend(figure.learners)
    return found


def _compared(summary: RunSummary) -> tuple[Comparison, Comparison]:
    """Test the learners of the table's rows alone."""
    names = list(dict.fromkeys(_measured()[summary.run.name]))
    values = np.column_stack([summary.learners[name].figures[summary.last][2] for name in names])
    return fisher(values, names), friedman(values, names)


def _table_row(tests: tuple[Comparison, Comparison], summary: RunSummary, name: str, figure: TableFigure) -> list[str]:
    mean, deviation, _ = mean_and_error(summary.learners[name].figures[summary.last][2])
    found = gap(figure, mean, deviation, summary.repetitions)
    theirs = f"{figure.mean:.4f} ({figure.standard_deviation:.4f})"
    ours = marked(*tests, summary.repetitions, name, f"{mean:.4f} ({deviation:.4f})")
    draws = f"{found.draws:.1f}"
    return [
        *(figure.row, figure.column, name, f"**{theirs}**" if figure.bold else theirs, ours, signed(found.size)),
        "yes" if found.beyond_errors else "",
        f"**{draws}**" if found.beyond_draws else draws,
    ]


def table_counts(context: Context, *, draws: bool = False) -> TableCounts:
    """Count the figures of the paper's table.

    Each counts once: where the paper leaves open which learner it means, it lies outside if it does for each of them.

    Args:
        context: The results.
        draws: Whether outside means more than two standard deviations of a single draw, not two standard errors.
    """
    counts = TableCounts()
    for figure in table_figures():
        summary = context.summaries.get(figure.experiment)
        if summary is None:
            continue
        is_outside, is_perfect = True, True
        for name in figure.learners:
            mean, deviation, _ = mean_and_error(summary.learners[name].figures[summary.last][2])
            found = gap(figure, mean, deviation, summary.repetitions)
            is_outside &= found.beyond_draws if draws else found.beyond_errors
            is_perfect &= f"{mean:.4f}" == f"{figure.mean:.4f}" == "1.0000"
        counts = TableCounts(counts.outside + is_outside, counts.compared + 1, counts.perfect + is_perfect)
    return counts


def budget(context: Context) -> list[str]:
    """Write the part that compares QBR and AREBA by budget."""
    stationary = context.some(f"budget-circle-{imbalance}-stationary" for imbalance in IMBALANCES)
    drifting = context.some(f"budget-{c}-{i}-posterior" for c in CONCEPTS for i in IMBALANCES)
    if not (stationary or drifting):
        return []
    lines = ["## The role of the budget", ""]
    rows: list[list[Panel]] = [
        [
            CurvePanel(
                f"{method.upper()}, {_percent(summary)}",
                summary,
                learners=tuple(name for name in summary.learners if name.startswith(method)),
                by_budget=True,
            )
            for summary in stationary
        ]
        for method in ("qbr", "areba")
    ]
    if stationary:
        lines += context.figure("budget-circle-stationary", "Circle, stationary: QBR and AREBA by B", rows, stationary)
        lines += finals_table(context, stationary, [_percent(summary) for summary in stationary])
    for concept in CONCEPTS:
        own = context.some(f"budget-{concept}-{imbalance}-posterior" for imbalance in IMBALANCES)
        if own:
            title = f"{concept.title()}, posterior drift: AREBA by B"
            curves: list[Panel] = [CurvePanel(_percent(summary), summary, by_budget=True) for summary in own]
            lines += [f"### {title}", ""]
            lines += context.figure(f"budget-{concept}-posterior", title, [curves, _before_and_after(own)], own)
            lines += finals_table(context, own, [_percent(summary) for summary in own])
    return lines


def _percent(summary: RunSummary) -> str:
    return f"{summary.run.experiment.stream.imbalance:g} %"


def _before_and_after(summaries: Sequence[RunSummary]) -> list[Panel]:
    """Return panels of the final figures before and after the drift by budget: the last two of the paper's figures."""
    panels: list[Panel] = []
    for title in ("before the drift", "after the drift"):
        values, errors = {}, {}
        for summary in summaries:
            column = [_at_drift(learner, summary, title) for learner in summary.learners.values()]
            values[_percent(summary)] = [mean for mean, _ in column]
            errors[_percent(summary)] = [error for _, error in column]
        levels = [name.removeprefix("areba_") for name in summaries[0].learners]
        panels.append(LevelPanel(title, levels, values, errors, "B", "G-mean"))
    return panels


def _at_drift(learner: LearnerSummary, summary: RunSummary, when: str) -> tuple[float, float]:
    step = learner.recoveries[0].drift_step if when.startswith("before") else summary.last
    place = int(np.searchsorted(learner.points, step))
    return float(learner.means[2][place]), float(learner.errors[2][place])


def stationary(context: Context) -> list[str]:
    """Write the part on the three synthetic streams without drift."""
    lines: list[str] = []
    for concept in CONCEPTS:
        own = context.some(f"{concept}-{imbalance}-stationary" for imbalance in IMBALANCES)
        if not own:
            continue
        rows: list[list[Panel]] = [
            [
                CurvePanel(f"{METRIC_NAMES[metric]}, {_percent(summary)}", summary, metric)
                for metric in ("gmean", "recall", "specificity")
            ]
            for summary in own
        ]
        title = f"{concept.title()}, stationary"
        lines += [f"### {title}", "", *context.figure(f"{concept}-stationary", title, rows, own)]
        lines += finals_table(context, own, [_percent(summary) for summary in own])
    return ["## Stationary streams", "", *lines] if lines else []


def drift(context: Context) -> list[str]:
    """Write the part on the three kinds of drift, with and without label noise."""
    lines: list[str] = []
    for concept, tail in (*((concept, "") for concept in CONCEPTS), ("sea", "-long")):
        clean = context.some(f"{concept}-1-{kind}{tail}" for kind in DRIFTS)
        noisy = context.some(f"{concept}-1-{kind}{tail}-noise" for kind in DRIFTS)
        if not clean + noisy:
            continue
        rows: list[list[Panel]] = [[CurvePanel(_kind(summary), summary) for summary in own] for own in (clean, noisy)]
        title = f"{concept.title()}, 1 % positive, drift" + (", 20,000 steps" if tail else "")
        lines += [f"### {title}", "", *context.figure(f"{concept}{tail}-drift", title, rows, clean + noisy)]
        lines += finals_table(context, clean + noisy, [_kind(summary) for summary in clean + noisy])
    return ["## Drift, with and without noise in the labels", "", *lines] if lines else []


def _kind(summary: RunSummary) -> str:
    choice = summary.run.experiment.stream
    return f"{choice.drift}" + (", noise" if choice.noise else "")


def real(context: Context) -> list[str]:
    """Write the part on the real data sets."""
    own = context.some(f"real-{name}" for name in REAL)
    if not own:
        return []
    headings = [summary.run.experiment.stream.source for summary in own]
    sizes = [
        f"- {summary.run.experiment.title}: {summary.length:,} examples, {summary.positive_percent:.4g} % positive."
        for summary in own
    ]
    return [
        "## Real data sets",
        "",
        *sizes,
        "",
        *real_figure(context),
        *finals_table(context, own, headings),
    ]


def real_figure(context: Context) -> list[str]:
    """Draw the curves on the real data sets, with the paper's final figures; return the lines that show the picture."""
    own = context.some(f"real-{name}" for name in REAL)
    panels: list[Panel] = [_real_panel(summary) for summary in own]
    rows = [panels[:3], panels[3:]]
    return context.figure("real", "Real data sets", rows, own, note="diamond: the paper's final figure")


def _real_panel(summary: RunSummary) -> CurvePanel:
    """Return the panel of a data set with the paper's methods."""
    marks = {
        name: figure.mean
        for figure in table_figures()
        if figure.experiment == summary.run.name
        for name in figure.learners
        if name in summary.learners
    }
    drawn = [name for name in summary.learners if name in marks]
    title, end = summary.run.experiment.title, 0
    if summary.run.experiment.stream.source == "forest" and summary.length > FOREST_STEPS:
        title, end = f"{title}, the first {FOREST_STEPS:,}", FOREST_STEPS
    return CurvePanel(title, summary, learners=tuple(drawn), last_step=end, marks=marks)


def tests(context: Context) -> list[str]:
    """Write the table of the omnibus tests."""
    rows = [
        [
            name,
            f"{one.statistic:.4g}",
            f"{one.p_value:.2g}",
            f"{two.statistic:.4g}",
            f"{two.p_value:.2g}",
            ", ".join(sorted(one.best)),
            ", ".join(sorted(two.best)) if one.best != two.best else "the same",
        ]
        for name in context.summaries
        for one, two in ((context.fisher[name], context.friedman[name]),)
    ]
    if not rows:
        return []
    disagree = sum(row[-1] != "the same" for row in rows)
    headings = ("experiment", "ANOVA F", "p", "Friedman", "p", "best by Fisher's LSD", "best by Wilcoxon and Holm")
    return [
        "## Tests",
        "",
        (
            "On the final G-means; all pairs are in `tests.csv`. The two ways name other learners as best in"
            f" {disagree} of {len(rows)} runs."
        ),
        "",
        *markdown(headings, rows),
    ]
