"""The part on River's methods: the best of them on each stream against AREBA_20 and RELAY."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from study.relay.verdicts import BETTER, NOT_SIGNIFICANT, WORSE, p_text
from study.report.figures import CurvePanel, NamedDotPanel, Panel
from study.report.page import Context, cell, finals_table
from study.report.summary import RunSummary, mean_and_error
from study.report.tables import markdown
from study.statistics import ALPHA, paired_difference

OURS: Mapping[str, str] = {"areba_20": "AREBA_20", "relay": "RELAY"}

DRAWN_DIGITS = 4
"""Digits of a figure in the picture, which is the same from the repetitions and from their CSV file."""

PREFIX = "river-"
"""The beginning of the names of these experiments."""

TITLES = {
    "river_arf": "adaptive random forest",
    "river_hat": "Hoeffding adaptive tree",
    "river_lb": "leveraging bagging",
    "river_lr_over": "oversampled logistic regression",
    "river_lr_under": "undersampled logistic regression",
}


LEAST_REPETITIONS = 10
"""A stream with fewer repetitions is shown, and decides nothing: River's ensembles are slow."""

NOTE = "bars: one standard error on each side; hollow: too few repetitions (n) for a verdict"

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rivalry:
    """A stream on which River's methods were run: the best of them, and how ours compare with it.

    Attributes:
        run: The name of the run.
        title: The title of the experiment.
        averages: By learner, the average G-mean of each repetition.
        best: River's method with the highest average G-mean over stream and repetitions.
        p_values: By method of ours, the p-value of a paired t-test of the average G-mean against `best`.
    """

    run: str
    title: str
    averages: Mapping[str, Doubles]
    best: str
    p_values: Mapping[str, float]

    @property
    def repetitions(self) -> int:
        """The number of repetitions."""
        return len(self.averages[self.best])

    @property
    def counts(self) -> bool:
        """Whether there are enough repetitions for a verdict."""
        return self.repetitions >= LEAST_REPETITIONS

    def average(self, name: str) -> float:
        """Return a method's average G-mean."""
        return float(self.averages[name].mean())

    def result(self, name: str) -> str:
        """Return how a method of ours compares with the best of River's."""
        if not self.p_values[name] < ALPHA:
            return NOT_SIGNIFICANT
        return BETTER if self.average(name) > self.average(self.best) else WORSE


def rivalry(run: str, title: str, averages: Mapping[str, Doubles]) -> Rivalry | None:
    """Compare ours with the best of River's methods on a stream; None if none of River's was run."""
    rivers = [learner for learner in averages if learner in TITLES]
    if not rivers:
        return None
    best = max(rivers, key=lambda learner: float(averages[learner].mean()))
    p_values = {our: paired_difference(averages[our], averages[best]) for our in OURS if our in averages}
    return Rivalry(run, title, averages, best, p_values)


def rivalries(context: Context) -> list[Rivalry]:
    """Return the streams on which River's methods were run."""
    found = []
    for name, summary in context.summaries.items():
        if name.startswith(PREFIX) and name == summary.run.experiment.name:
            averages = {learner: one.averages for learner, one in summary.learners.items()}
            found.append(rivalry(name, summary.run.experiment.title, averages))
    return [one for one in found if one is not None]


def sentence(found: Sequence[Rivalry]) -> str:
    """Return who wins where: `AREBA_20 is better than ... on 5 of 9 streams and worse on 2 (...); RELAY ...`."""
    parts = []
    for name, title in OURS.items():
        asked = [one for one in found if name in one.p_values and one.counts]
        better, worse = ([one for one in asked if one.result(name) == result] for result in (BETTER, WORSE))
        against = " than the best of River's methods" if name == "areba_20" else ""
        if asked:
            on = f"on {len(better)} of {len(asked)} streams, and worse on {len(worse)}{_named(worse)}"
            parts.append(f"{title} is better{against} {on}")
    return "; ".join(parts)


def _named(lost: Sequence[Rivalry]) -> str:
    """Return the streams by winner, in brackets: `(Cervical Cancer and Credit Score: oversampled ...)`."""
    winners = dict.fromkeys(one.best for one in lost)
    said = [f"{' and '.join(one.title for one in lost if one.best == name)}: {TITLES[name]}" for name in winners]
    return f" ({'; '.join(said)})" if said else ""


def panel(found: Sequence[Rivalry]) -> NamedDotPanel:
    """Return the figure: on each stream the best of River's methods, and ours, with their standard errors."""
    rows, errors = {}, {}
    for one in found:
        title, names = f"{one.title} (n = {one.repetitions})", (one.best, *one.p_values)
        rows[title] = [(name, round(one.average(name), DRAWN_DIGITS)) for name in names]
        errors[title] = {name: round(mean_and_error(one.averages[name])[2], DRAWN_DIGITS) for name in names}
    few = frozenset(title for title, one in zip(rows, found, strict=True) if not one.counts)
    return NamedDotPanel("", rows, "average G-mean", hollow=few, limits=(0.0, 1.2), errors=errors)


def river(context: Context) -> list[str]:
    """Write the part on River's models, which were run on the same streams."""
    found = rivalries(context)
    if not found:
        return []
    own = [context.summaries[one.run] for one in found]
    panels: list[Panel] = [CurvePanel(summary.run.experiment.title, summary) for summary in own]
    headings = [summary.run.name.removeprefix("river-") for summary in own]
    return [
        "## What a user would pick instead: River",
        "",
        f"{sentence(found)}.",
        "",
        (
            "River's models are learners of the same task, with River's own settings: adaptive random forest (arf),"
            " Hoeffding adaptive tree (hat), leveraging bagging (lb), and logistic regression after a running"
            " standardiser with the rarer class oversampled (lr_over) or the other undersampled (lr_under). The best of"
            " River's is chosen on each stream by the average that is then compared, which favours River. *Better* and"
            " *worse*: a paired t-test of the average G-mean at 5 %, without a correction for several streams. RELAY"
            " standardises features itself, as River's logistic regression does; AREBA_20 and the other methods of the"
            f" paper get them as prepared. A stream with fewer than {LEAST_REPETITIONS} repetitions is not counted."
        ),
        "",
        *markdown(("stream", "repetitions", "best of River's", *OURS.values()), [_row(one) for one in found], left=1),
        *context.figure("river", "River's models beside ours", [panels[k : k + 3] for k in range(0, len(panels), 3)]),
        "G-mean averaged over the stream:",
        "",
        *markdown(("learner", *headings), _averages(own)),
        *finals_table(context, own, headings),
        *_standardised(context),
        "",
    ]


def _row(one: Rivalry) -> list[str]:
    cells = [
        f"{one.average(name):.3f}, {one.result(name)} ({p_text(one.p_values[name])})" if name in one.p_values else ""
        for name in OURS
    ]
    return [one.title, str(one.repetitions), f"{one.average(one.best):.3f}, {TITLES[one.best]}", *cells]


def _averages(own: Sequence[RunSummary]) -> list[list[str]]:
    names = list(dict.fromkeys(name for summary in own for name in summary.learners))
    rows = []
    for name in names:
        values = [s.learners[name].averages if name in s.learners else np.empty(0) for s in own]
        rows.append([name, *(cell(one) if len(one) else "" for one in values)])
    return rows


def _standardised(context: Context) -> list[str]:
    """Write how the paper's methods do with standardised features, which River's logistic regression computes."""
    lines = []
    for source in ("cervical", "credit"):
        summary = context.summaries.get(f"variant-{source}-standard-shuffled")
        if summary is not None and f"river-{source}" in context.summaries:
            means = {name: float(learner.averages.mean()) for name, learner in summary.learners.items()}
            best = max(means, key=lambda name: means[name])
            lines.append(
                f"- With features of {source} standardised beforehand, the best of the paper's methods is {best},"
                f" {means[best]:.3f} on average (`{summary.run.name}`)."
            )
    return lines
