"""Check the claims of the paper's text against the repetitions: each holds, fails, or is undecided.

A claim consists of cases: one for each experiment and pair of learners that it names. It holds if all of its cases
hold, fails if one fails, and is undecided otherwise. A case holds if the 95 % interval of its figure lies in the range
that the statement allows, and fails if the interval lies outside of it; for a claim of k cases, failing asks for an
interval of 1 - 0.05 / k, because one case refutes the claim. `FIGURES` has the figure and range of each relation.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

import numpy as np

from study.paper import Statement
from study.report.claims.intervals import (
    CONFIDENCE,
    Doubles,
    Interval,
    Verdict,
    mean_interval,
    unpaired_interval,
    verdict,
)
from study.report.claims.steps import STEP_RELATIONS, Curves, step_interval
from study.report.summary import RunSummary

ALIKE = 0.05
"""Margin of `alike` and `recovers`: means that differ by less end alike."""

ABOUT = 0.1
"""Margin of `about`: the paper's numbers of this kind are read off figures."""

NEGLIGIBLE = 0.01
"""A learner that is shown to be less than this above another is not above it."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a claim.

    Attributes:
        statement: The statement.
        experiment: The run.
        learner: The learner.
        against: The learner or run that it is compared with; empty for statements about a single figure.
    """

    statement: Statement
    experiment: str
    learner: str
    against: str

    @property
    def text(self) -> str:
        """The case in words."""
        words = RELATIONS[self.statement.relation]
        value = "" if self.statement.value is None else f"{self.statement.value:,g}"
        if value and self.statement.relation == "above":
            value = f"by more than {value}"
        step = STEPS.get(self.statement.step, self.statement.step)
        return " ".join(words.format(learner=self.learner, against=self.against, value=value, step=step).split())


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a case: our figure with its interval as text, and the verdict."""

    case: Case
    found: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper with the findings of its cases."""

    text: str
    source: str
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        """Holds if all cases hold, fails if one fails; not run if a case was not run and none fails."""
        found = {finding.verdict for finding in self.findings}
        for one in (Verdict.FAILS, Verdict.NOT_RUN, Verdict.UNDECIDED):
            if one in found:
                return one
        return Verdict.HOLDS

    def count(self, wanted: Verdict) -> int:
        """Return the number of cases with this verdict."""
        return sum(finding.verdict == wanted for finding in self.findings)


RELATIONS: Mapping[str, str] = {
    "above": "{learner} {step} above {against} {value}",
    "above_other": "{learner} above itself in {against}",
    "above_before": "{learner} at the end above itself before the drift",
    "recovers": "{learner} at the end no lower than before the drift",
    "alike": "{learner} and {against} alike",
    "about": "{learner} at about {value}",
    "times": "{learner} above {value} times {against}",
    "overtakes": "{learner} reaches {against} at about step {value}",
    "reaches": "{learner} reaches {value} at about step {step}",
}


STEPS = {"last": "at the end", "average": "on average", "after": "on average after the drift"}


def check(statements: Sequence[Statement], summaries: Mapping[str, RunSummary], curves: Curves) -> list[Claim]:
    """Check all claims.

    Args:
        statements: The statements; those of one claim follow each other.
        summaries: The finished runs by name.
        curves: Returns the curves of all repetitions of a learner; see `steps.Curves`.
    """
    claims = []
    for (text, source), own in groupby(statements, key=lambda statement: (statement.claim, statement.source)):
        cases = [case for statement in own for case in _cases(statement, summaries)]
        findings = [_checked(case, len(cases), summaries, curves) for case in cases]
        claims.append(Claim(text, source, findings))
    return claims


def _cases(statement: Statement, summaries: Mapping[str, RunSummary]) -> Iterator[Case]:
    for experiment in statement.experiments:
        summary = summaries.get(experiment)
        for learner in statement.learners:
            name = _chosen(learner, summary)
            for against in _matching(statement, summary) if statement.against else [""]:
                other = _chosen(against, summary)
                if other != name:
                    yield Case(statement, experiment, name, other)


def _chosen(name: str, summary: RunSummary | None) -> str:
    """Return the learner that `a|b` stands for: that with the higher mean."""
    names = [one for one in name.split("|") if summary is not None and one in summary.learners]
    return max(names, key=lambda one: summary.learners[one].mean(summary.last)) if summary and names else name


def _matching(statement: Statement, summary: RunSummary | None) -> list[str]:
    names = list(summary.learners) if summary is not None else []
    found = [[one for one in names if fnmatchcase(one, given)] or [given] for given in statement.against]
    return list(dict.fromkeys(one for group in found for one in group))


def _checked(case: Case, cases: int, summaries: Mapping[str, RunSummary], curves: Curves) -> Finding:
    summary, relation = summaries.get(case.experiment), case.statement.relation
    against = case.against
    known = summaries if relation == "above_other" else (summary.learners if summary is not None else {})
    if summary is None or case.learner not in summary.learners or (against and against not in known):
        return Finding(case, "", Verdict.NOT_RUN)
    if relation in STEP_RELATIONS:
        return Finding(case, *step_interval(case.statement, case.learner, against, summary, curves))
    figure = FIGURES[relation](case, summary, summaries)
    wide = figure.interval(1.0 - (1.0 - CONFIDENCE) / cases)
    interval = figure.interval(CONFIDENCE)
    found = f"{figure.mean:+.4f} ({interval.low:+.4f} to {interval.high:+.4f})"
    return Finding(case, found, verdict(interval, wide, figure.low, figure.high, figure.negligible))


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a case, and the range that the statement allows.

    Attributes:
        values: One value for each repetition: float64 `[R]`.
        low: Lower end of the range.
        high: Upper end of the range.
        negligible: What the figure must exceed the lower end by, for the statement not to fail.
        less: Values that are subtracted, of other repetitions; None: `values` are the figure itself.
    """

    values: Doubles
    low: float
    high: float = math.inf
    negligible: float = 0.0
    less: Doubles | None = None

    @property
    def mean(self) -> float:
        """The mean over the repetitions."""
        return float(self.values.mean() - (self.less.mean() if self.less is not None else 0.0))

    def interval(self, confidence: float) -> Interval:
        """Return the interval of the mean."""
        if self.less is not None:
            return unpaired_interval(self.values, self.less, confidence)
        return mean_interval(self.values, confidence)


def _values(case: Case, name: str, summary: RunSummary) -> Doubles:
    """Return a learner's figure in each repetition at the step of the statement."""
    learner = summary.learners[name]
    by_step = {"average": learner.averages, "after": learner.afters}
    return np.asarray(by_step.get(case.statement.step, learner.figures[summary.last][2]))


def _difference(case: Case, summary: RunSummary, times: float = 1.0) -> Doubles:
    return np.asarray(_values(case, case.learner, summary) - times * _values(case, case.against, summary))


def _above(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    value = case.statement.value
    return Figure(_difference(case, summary), value or 0.0, negligible=NEGLIGIBLE if value is None else 0.0)


def _times(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    return Figure(_difference(case, summary, case.statement.value or 1.0), 0.0)


def _alike(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    return Figure(_difference(case, summary), -ALIKE, ALIKE)


def _about(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    value = case.statement.value or 0.0
    return Figure(_values(case, case.learner, summary), value - ABOUT, value + ABOUT)


def _above_other(case: Case, summary: RunSummary, all_: Mapping[str, RunSummary]) -> Figure:
    theirs = _values(case, case.learner, all_[case.against])
    return Figure(_values(case, case.learner, summary), 0.0, negligible=NEGLIGIBLE, less=theirs)


def _change(case: Case, summary: RunSummary) -> Doubles:
    """Return the figure at the end less that before the drift."""
    return np.asarray(_values(case, case.learner, summary) - summary.learners[case.learner].befores)


def _above_before(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    return Figure(_change(case, summary), 0.0, negligible=NEGLIGIBLE)


def _recovers(case: Case, summary: RunSummary, _: Mapping[str, RunSummary]) -> Figure:
    return Figure(_change(case, summary), -ALIKE)


FIGURES: Mapping[str, Callable[[Case, RunSummary, Mapping[str, RunSummary]], Figure]] = {
    "above": _above,
    "times": _times,
    "alike": _alike,
    "about": _about,
    "above_other": _above_other,
    "above_before": _above_before,
    "recovers": _recovers,
}
