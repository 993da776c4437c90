"""The parts of the report, in its order; a part whose experiments were not run is left out.

Sentences are made by code from the figures: what is not measured is not said.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from study.claims import Finding
from study.experiment import VARIES_TEXT
from study.figures import CurvePanel, LevelPanel, Panel, draw
from study.paper import PAPER_REPETITIONS, TableFigure, table_figures
from study.scores import METRICS
from study.statistics import ALPHA, Comparison
from study.summary import LearnerSummary, RunSummary, mean_and_error
from study.tables import markdown

CONCEPTS = ("sine", "circle", "sea")
IMBALANCES = ("10", "1", "0.1")
DRIFTS = ("prior", "likelihood", "posterior")
REAL = ("cervical", "fraud", "credit", "mnist", "forest")
BUDGETS = (2, 20, 50, 100, 500, 1000)

OUTSIDE = 2.0
"""Standard errors of the difference beyond which a figure is marked."""


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

    def figure(self, name: str, title: str, rows: Sequence[Sequence[Panel]]) -> list[str]:
        """Draw panels, and the lines that show them; nothing without panels."""
        rows = [row for row in rows if row]
        if not rows:
            return []
        draw(rows, self.folder / f"{name}.png", title)
        return [f"![{title}]({name}.png)", ""]


def cell(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """Mean, and the standard error in brackets."""
    mean, _, error = mean_and_error(values)
    return f"{mean:.4f} ({error:.4f})"


def _marked(context: Context, summary: RunSummary, name: str, text: str) -> str:
    """The text with its marks; one repetition tells nothing apart."""
    if summary.repetitions < 2:
        return text
    if name in context.fisher[summary.run.name].best:
        text = f"**{text}**"
    return f"{text} †" if name in context.friedman[summary.run.name].best else text


def finals_table(context: Context, summaries: Sequence[RunSummary], headings: Sequence[str]) -> list[str]:
    """Final G-means: a row a learner, a column a run, the best ones marked."""
    names = list(dict.fromkeys(name for summary in summaries for name in summary.learners))
    rows = []
    for name in names:
        row = [name]
        for summary in summaries:
            learner = summary.learners.get(name)
            text = "" if learner is None else cell(learner.figures[summary.last][METRICS.index("gmean")])
            row.append(_marked(context, summary, name, text) if text else "")
        rows.append(row)
    counts = sorted({summary.repetitions for summary in summaries})
    repetitions = " or ".join(str(count) for count in counts)
    return [
        f"G-mean after the last step, {repetitions} repetitions:",
        "",
        *markdown(("learner", *headings), rows),
    ]


# The paper ------------------------------------------------------------------------------------------------------------


def real_table(context: Context) -> list[str]:
    """Table I, ours beside the paper's."""
    rows, outside, asked = [], 0, 0
    for figure in table_figures():
        summary = context.summaries.get(figure.experiment)
        if summary is None:
            continue
        for name in figure.learners:
            text, is_outside = _table_row(context, summary, name, figure)
            rows.append(text)
            outside += is_outside
            asked += 1
    if not rows:
        return []
    headings = ("row", "data set", "ours is", "paper: mean (sd)", "ours: mean (sd)", "difference", "beyond 2 SE")
    return [
        "## The paper's table (`tab:real`): final G-mean on the real data sets",
        "",
        (
            "The paper gives standard deviations in brackets here, and does not say for Fraud and MNIST whether its"
            " AREBA_20/50 is 20 or 50: both are shown. *Beyond 2 SE*: the difference is larger than twice its standard"
            " error, made of both standard deviations and numbers of repetitions"
            f" ({PAPER_REPETITIONS} in the paper)."
        ),
        "",
        *markdown(headings, rows, left=3),
        f"{outside} of {asked} figures lie outside two standard errors; what explains them stands below.",
        "",
    ]


def _table_row(context: Context, summary: RunSummary, name: str, figure: TableFigure) -> tuple[list[str], bool]:
    mean, deviation, error = mean_and_error(summary.learners[name].figures[summary.last][2])
    difference = mean - figure.mean
    paper_error = figure.standard_deviation / math.sqrt(PAPER_REPETITIONS)
    outside = abs(difference) > max(OUTSIDE * math.hypot(error, paper_error), 0.00005)
    theirs = f"{figure.mean:.4f} ({figure.standard_deviation:.4f})"
    ours = _marked(context, summary, name, f"{mean:.4f} ({deviation:.4f})")
    row = [figure.row, figure.column, name, f"**{theirs}**" if figure.bold else theirs, ours, f"{difference:+.4f}"]
    return [*row, "yes" if outside else ""], outside


def statements(context: Context) -> list[str]:
    """What the paper's text says, checked."""
    asked = [finding for finding in context.findings if finding.holds is not None]
    if not asked:
        return []
    holds = sum(finding.holds is True for finding in asked)
    rows = [
        [
            f"`{finding.statement.source}`",
            finding.statement.text,
            finding.statement.experiment,
            finding.found,
            "yes" if finding.holds else "**no**",
        ]
        for finding in asked
    ]
    return [
        "## What the paper's text says",
        "",
        (
            f"{holds} of {len(asked)} statements hold here. Numbers are G-means at the end unless a step is named."
            f" *Above*"
            " asks for p < 0.05; *best* for nothing that the tests find higher; *about* for 0.1; *alike* for 0.05; a"
            " step"
            " read off a figure for a factor of two."
        ),
        "",
        *markdown(("figure", "the paper says", "experiment", "found here", "holds"), rows, left=4),
    ]


def budget(context: Context) -> list[str]:
    """QBR against AREBA over B."""
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
            )
            for summary in stationary
        ]
        for method in ("qbr", "areba")
    ]
    if stationary:
        lines += context.figure("budget-circle-stationary", "Circle, stationary: QBR and AREBA by B", rows)
        lines += finals_table(context, stationary, [_percent(summary) for summary in stationary])
    for concept in CONCEPTS:
        own = context.some(f"budget-{concept}-{imbalance}-posterior" for imbalance in IMBALANCES)
        if own:
            title = f"{concept.title()}, posterior drift: AREBA by B"
            curves: list[Panel] = [CurvePanel(_percent(summary), summary) for summary in own]
            lines += [f"### {title}", ""]
            lines += context.figure(f"budget-{concept}-posterior", title, [curves, _before_and_after(own)])
            lines += finals_table(context, own, [_percent(summary) for summary in own])
    return lines


def _percent(summary: RunSummary) -> str:
    return f"{summary.run.experiment.stream.imbalance:g} %"


def _before_and_after(summaries: Sequence[RunSummary]) -> list[Panel]:
    """Final figures before and after the drift, by B: the last two panels of the paper's figures."""
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
    """The three synthetic streams without drift."""
    lines: list[str] = []
    for concept in CONCEPTS:
        own = context.some(f"{concept}-{imbalance}-stationary" for imbalance in IMBALANCES)
        if not own:
            continue
        rows: list[list[Panel]] = [
            [CurvePanel(f"{_percent(summary)}", summary, metric) for metric in ("gmean", "recall", "specificity")]
            for summary in own
        ]
        title = f"{concept.title()}, stationary"
        lines += [f"### {title}", "", *context.figure(f"{concept}-stationary", title, rows)]
        lines += finals_table(context, own, [_percent(summary) for summary in own])
    return ["## Stationary streams", "", *lines] if lines else []


def drift(context: Context) -> list[str]:
    """The three kinds of drift, with and without label noise."""
    lines: list[str] = []
    for concept, tail in (*((concept, "") for concept in CONCEPTS), ("sea", "-long")):
        clean = context.some(f"{concept}-1-{kind}{tail}" for kind in DRIFTS)
        noisy = context.some(f"{concept}-1-{kind}{tail}-noise" for kind in DRIFTS)
        if not clean + noisy:
            continue
        rows: list[list[Panel]] = [[CurvePanel(_kind(summary), summary) for summary in own] for own in (clean, noisy)]
        title = f"{concept.title()}, 1 % positive, drift" + (", 20,000 steps" if tail else "")
        lines += [f"### {title}", "", *context.figure(f"{concept}{tail}-drift", title, rows)]
        lines += finals_table(context, clean + noisy, [_kind(summary) for summary in clean + noisy])
    return ["## Drift, with and without noise in the labels", "", *lines] if lines else []


def _kind(summary: RunSummary) -> str:
    choice = summary.run.experiment.stream
    return f"{choice.drift}" + (", noise" if choice.noise else "")


def real(context: Context) -> list[str]:
    """The real data sets."""
    own = context.some(f"real-{name}" for name in REAL)
    if not own:
        return []
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title, summary) for summary in own]
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
        *context.figure("real", "Real data sets", [panels[:3], panels[3:]]),
        *finals_table(context, own, headings),
    ]


def varies(context: Context) -> list[str]:
    """The same experiments with another thing varied."""
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
            f"{row[5] - row[3]:+.4f}",
        ]
        for row in sorted(outside, key=lambda row: -abs(row[5] - row[3]))
    ]
    headings = ("experiment", "learner", "varies", "G-mean", "varies", "G-mean", "difference")
    return [
        "## What a repetition varies",
        "",
        (
            "The authors' program draws other data in each repetition and starts every network from the same seed,"
            " so its"
            " standard errors say nothing of the initial weights. The sound way varies both. Ours runs both ways on the"
            " synthetic streams; on the data sets the rows keep their published order and the weights vary, and beside"
            " that both vary."
        ),
        "",
        f"In {len(outside)} of {len(rows)} pairs the two ways differ by more than two standard errors of the"
        " difference" + (":" if outside else "."),
        "",
        *(markdown(headings, table[:40], left=3) if table else []),
        *([f"({len(table) - 40} more are in `final.csv`.)", ""] if len(table) > 40 else []),
    ]


def differences(context: Context) -> list[str]:
    """Variants that were tried to explain where our figures are not the paper's."""
    tried = _tried(context)
    other = [
        summary
        for summary in context.summaries.values()
        if summary.run.experiment.group == "variant" and summary.run.experiment.variant_of not in _paper_experiments()
    ]
    if not any(len(candidates) > 1 for candidates in tried.values()) and not other:
        return []
    lines = [
        "## Where our figures differ: what was tried",
        "",
        (
            "Variants change one thing each and are reported as variants; the settings of the study are the paper's."
            " The"
            " distance is the mean absolute difference to the paper's figures of the same data set."
        ),
        "",
    ]
    for base, candidates in tried.items():
        if len(candidates) > 1:
            lines += _distances(context, base, candidates)
    for summary in other:
        finals = "; ".join(
            f"{name} {cell(learner.figures[summary.last][2])}" for name, learner in summary.learners.items()
        )
        p_value = context.fisher[summary.run.name].p_value
        verdict = "explains a difference" if p_value < ALPHA else "explains nothing"
        lines += [f"- `{summary.run.name}`: {summary.run.experiment.note}: {finals}; p = {p_value:.2g}: it {verdict}."]
    return [*lines, ""]


def _paper_experiments() -> set[str]:
    return {figure.experiment for figure in table_figures()}


def _tried(context: Context) -> dict[str, list[RunSummary]]:
    """The runs that can be held against the paper's figures, by the experiment that they vary."""
    tried: dict[str, list[RunSummary]] = {}
    for base in sorted(_paper_experiments()):
        if base in context.summaries:
            tried[base] = [
                summary
                for summary in context.summaries.values()
                if base in {summary.run.experiment.name, summary.run.experiment.variant_of}
            ]
    return tried


def _distances(context: Context, base: str, candidates: Sequence[RunSummary]) -> list[str]:
    figures = [figure for figure in table_figures() if figure.experiment == base]
    rows: list[tuple[float, list[str]]] = []
    for summary in candidates:
        gaps = {figure.row: gap for figure in figures if (gap := _gap(figure, summary)) is not None}
        if len(gaps) == len(figures):
            distance = sum(abs(gap) for gap in gaps.values()) / len(gaps)
            experiment = summary.run.experiment
            what = experiment.note or ("the study" if summary.run.name == base else VARIES_TEXT[summary.run.varies])
            cells = [f"{gaps[figure.row]:+.4f}" for figure in figures]
            rows.append((distance, [f"`{summary.run.name}`", what, f"{distance:.4f}", *cells]))
    rows.sort(key=lambda row: row[0])
    own = next((distance for distance, row in rows if row[0] == f"`{base}`"), None)
    closest = rows[0]
    if own is None:
        return []
    said = (
        f"The study itself is closest ({own:.4f}); no variant explains more."
        if closest[1][0] == f"`{base}`"
        else f"Closest: {closest[1][0]} ({closest[1][1]}), at {closest[0]:.4f} in the place of {own:.4f}."
    )
    headings = ("run", "what it is", "distance", *(figure.row for figure in figures))
    title = context.summaries[base].run.experiment.title
    return [f"### {title}", "", said, "", *markdown(headings, [row for _, row in rows], left=2)]


def _gap(figure: TableFigure, summary: RunSummary) -> float | None:
    """Ours less the paper's; of two budgets the nearer one, where the paper does not say which it used."""
    gaps = [
        summary.learners[name].mean(summary.last) - figure.mean for name in figure.learners if name in summary.learners
    ]
    return min(gaps, key=abs) if gaps else None


# Beyond the paper -----------------------------------------------------------------------------------------------------


def latency(context: Context) -> list[str]:
    """G-mean by verification latency."""
    own = {
        level: context.summaries[f"latency-{level}"]
        for level in (0, 10, 100, 1_000, 10_000)
        if f"latency-{level}" in context.summaries
    }
    return _levels(context, "Verification latency", "latency", own, "events from an example to its label", "latency")


def shares(context: Context) -> list[str]:
    """G-mean by the share of labels that come."""
    runs = {100: "latency-0", 50: "share-50", 10: "share-10", 1: "share-1"}
    own = {level: context.summaries[name] for level, name in runs.items() if name in context.summaries}
    return _levels(context, "Share of labels that come", "shares", own, "labels that come, in percent", "share")


def _levels(
    context: Context, title: str, name: str, own: Mapping[int, RunSummary], x_label: str, what: str
) -> list[str]:
    if len(own) < 2:
        return []
    learners = list(next(iter(own.values())).learners)
    ends, averages = _by_level(own, learners)
    levels = [f"{level:,}" for level in own]
    panels: list[Panel] = [
        LevelPanel("at the end", levels, *ends, x_label, "G-mean"),
        LevelPanel("averaged over the stream", levels, *averages, x_label, "G-mean"),
    ]
    first, last = next(iter(own)), list(own)[-1]
    means = averages[0]
    best = {level: max(learners, key=lambda n: means[n][k]) for k, level in enumerate(own)}
    lost = {learner: means[learner][0] - means[learner][-1] for learner in learners}
    able = [learner for learner in learners if means[learner][0] >= 0.3]
    least, most = min(able, key=lambda n: lost[n]), max(able, key=lambda n: lost[n])
    summary = own[first]
    rows = [
        [
            learner,
            *(f"{end:.3f} / {average:.3f}" for end, average in zip(ends[0][learner], means[learner], strict=True)),
        ]
        for learner in learners
    ]
    return [
        f"## {title}",
        "",
        (
            f"{summary.run.experiment.title}; {summary.repetitions} repetitions. All examples are scored, by the"
            f" prediction"
            " that was made on their arrival."
        ),
        "",
        *context.figure(name, title, [panels]),
        "G-mean at the end / averaged over the stream:",
        "",
        *markdown(("learner", *levels), rows),
        "- Best on average: "
        + "; ".join(
            f"{winner} at {what} {level:,} ({means[winner][k]:.3f})" for k, (level, winner) in enumerate(best.items())
        )
        + ".",
        (
            f"- From {what} {first:,} to {last:,} AREBA_20 goes from {means['areba_20'][0]:.3f} to"
            f" {means['areba_20'][-1]:.3f} on average, and from {ends[0]['areba_20'][0]:.3f} to"
            f" {ends[0]['areba_20'][-1]:.3f} at the end."
        ),
        (
            f"- Of the learners with 0.3 or more to lose, {least} loses least ({lost[least]:+.3f}) and {most} most"
            f" ({lost[most]:+.3f})."
        ),
        "",
    ]


Series = tuple[dict[str, list[float]], dict[str, list[float]]]


def _by_level(own: Mapping[int, RunSummary], learners: Sequence[str]) -> tuple[Series, Series]:
    ends: Series = ({}, {})
    averages: Series = ({}, {})
    for learner in learners:
        for series, pick in ((ends, True), (averages, False)):
            column = []
            for summary in own.values():
                found = summary.learners[learner]
                mean, _, error = mean_and_error(found.figures[summary.last][2] if pick else found.averages)
                column.append((mean, error))
            series[0][learner] = [mean for mean, _ in column]
            series[1][learner] = [error for _, error in column]
    return ends, averages


def recovery(context: Context) -> list[str]:
    """Examples after a drift until the G-mean is back."""
    panels: list[list[Panel]] = []
    rows: list[list[str]] = []
    runs: dict[str, RunSummary] = {}
    for noise in ("", "-noise"):
        line: list[Panel] = []
        for concept in CONCEPTS:
            own = {kind: s for kind in DRIFTS if (s := context.summaries.get(f"{concept}-1-{kind}{noise}"))}
            if own:
                line.append(_recovery_panel(f"{concept.title()}{', noise' if noise else ''}", own))
                runs.update({f"{concept} {kind}{noise}": summary for kind, summary in own.items()})
        panels.append(line)
    if not runs:
        return []
    learners = list(next(iter(runs.values())).learners)
    for title, summary in runs.items():
        rows.append([title, *(_recovery_text(summary.learners[name]) for name in learners)])
    return [
        "## Time to recover",
        "",
        (
            "Labelled examples after the drift until the mean G-mean (sums anew from the drift) is back at 90 % of"
            " its value"
            " before; in brackets a 95 % interval over resampled repetitions. *never*: not within the stream; *-*: the"
            " G-mean before was below 0.1, there is nothing to recover."
        ),
        "",
        *context.figure("recovery", "Examples to recover after a drift", panels),
        *markdown(("stream and drift", *learners), rows),
        *_recovery_conclusions(runs, learners),
        "",
    ]


def _recovery_panel(title: str, own: Mapping[str, RunSummary]) -> Panel:
    names = list(next(iter(own.values())).learners)
    values = {
        name: [float(back) if (back := s.learners[name].recoveries[0].steps) else math.nan for s in own.values()]
        for name in names
    }
    return LevelPanel(title, list(own), values, {}, "drift", "examples to recover", logarithmic=True, connected=False)


def _recovery_text(learner: LearnerSummary) -> str:
    back = learner.recoveries[0]
    if back.before < 0.1:
        return "-"
    if back.steps is None:
        return "never"
    return f"{back.steps:,}" + (f" ({back.low:,}-{back.high:,})" if back.low is not None else "")


def _recovery_conclusions(runs: Mapping[str, RunSummary], learners: Sequence[str]) -> list[str]:
    asked = [(title, name, s.learners[name].recoveries[0]) for title, s in runs.items() for name in learners]
    able = [item for item in asked if item[2].before >= 0.1]
    never = [f"{name} ({title})" for title, name, back in able if back.steps is None]
    lines = []
    for kind in DRIFTS:
        mine = {title: s.learners["areba_20"].recoveries[0].steps for title, s in runs.items() if f" {kind}" in title}
        times = [steps for steps in mine.values() if steps is not None]
        range_ = f"{min(times):,} to {max(times):,} examples" if times else "never"
        missed = f"; not in {len(mine) - len(times)} of {len(mine)} cases" if len(times) < len(mine) else ""
        lines.append(f"- {kind.title()} drift: AREBA_20 is back after {range_}{missed}.")
    fastest: dict[str, int] = {}
    for title in runs:
        times_of = {name: back.steps for t, name, back in able if t == title and back.steps is not None}
        if times_of:
            first = min(times_of, key=lambda name: times_of[name])
            fastest[first] = fastest.get(first, 0) + 1
    order = ", ".join(f"{name} in {count}" for name, count in sorted(fastest.items(), key=lambda item: -item[1]))
    lines.append(f"- First back (of those with a G-mean of 0.1 or more before): {order} of {len(runs)} cases.")
    lines.append(f"- {len(never)} of {len(able)} pairs of learner and drift were not back within the stream.")
    return lines


def scale(context: Context) -> list[str]:
    """Long, wide, rare and recurring streams."""
    names = ("long-sine", "long-recurring", "rare-sine", "wide-sine")
    own = context.some(names)
    if not own:
        return []
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title.split(":")[0], summary) for summary in own]
    lines = [
        "## Long and wide",
        "",
        *(
            f"- `{s.run.name}`: {s.run.experiment.title}; {s.length:,} examples, {s.repetitions} repetitions,"
            f" {s.seconds / s.repetitions:.0f} s each on one core with all learners."
            for s in own
        ),
        "",
        *context.figure("scale", "Long, recurring, rare, wide", [panels[:2], panels[2:]]),
        *finals_table(context, own, [s.run.name for s in own]),
    ]
    for summary in own:
        means = {name: learner.mean(summary.last) for name, learner in summary.learners.items()}
        averages = {name: float(learner.averages.mean()) for name, learner in summary.learners.items()}
        first, steady = max(means, key=lambda n: means[n]), max(averages, key=lambda n: averages[n])
        lines.append(
            f"- `{summary.run.name}`: highest at the end {first} ({means[first]:.3f}), on average {steady}"
            f" ({averages[steady]:.3f}); AREBA_20 {means['areba_20']:.3f} and {averages['areba_20']:.3f}."
        )
    return [*lines, ""]


def river(context: Context) -> list[str]:
    """River's models on the same streams."""
    own = [summary for name, summary in context.summaries.items() if name.startswith("river-")]
    if not own:
        return []
    theirs = [name for name in own[0].learners if own[0].run.experiment.methods[name].method.startswith("study.")]
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title, summary) for summary in own]
    wins = []
    for summary in own:
        best = max(theirs, key=lambda name: summary.learners[name].mean(summary.last))
        ours = max(
            (name for name in summary.learners if name not in theirs),
            key=lambda name: summary.learners[name].mean(summary.last),
        )
        one, two = summary.learners[best].mean(summary.last), summary.learners[ours].mean(summary.last)
        pairs = context.fisher[summary.run.name].pairs
        p_value = pairs.get((best, ours), pairs.get((ours, best), 1.0))
        verdict = "**River wins**" if one > two else "River does not win"
        if p_value >= ALPHA:
            verdict = "not told apart"
        wins.append(
            f"- {summary.run.experiment.title}: {verdict}: {best} {one:.3f}, the best of ours {ours} {two:.3f}"
            f" (p = {p_value:.2g})."
        )
    return [
        "## What a user would pick instead: River",
        "",
        f"River's models as learners of the same task, with River's own settings; {own[0].repetitions} repetitions.",
        "",
        *context.figure("river", "River's models beside ours", [panels[k : k + 3] for k in range(0, len(panels), 3)]),
        *finals_table(context, own, [summary.run.name.removeprefix("river-") for summary in own]),
        *wins,
        "",
    ]


def tests(context: Context) -> list[str]:
    """The omnibus tests."""
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
