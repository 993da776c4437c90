"""Check statements against the figures of a run: what was found, and whether the statement is true.

above       the learner's mean is higher: by at least the value if there is one, else significantly by the paired t-test
above_other the mean of the same learner is higher than in another experiment
best        no other learner's mean is higher, or none is significantly higher
within      the two means differ by at most the value
about       the mean is within `ABOUT` of the value
ratio       the mean is at least the value times the other mean
overtakes   the learner's mean curve first reaches the other's at the value, give or take `EARLY_LATE`
reaches     the learner's mean curve first reaches the value at the step, give or take `EARLY_LATE`
recovers    the mean at the end is at least the value times the mean before the drift, less `ABOUT`
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from study.paper import Statement
from study.report.summary import LearnerSummary, RunSummary
from study.statistics import ALPHA, fisher, paired_difference

ABOUT = 0.1
"""The tolerance of `about`: the paper's numbers of this kind are read off figures."""

EARLY_LATE = 2.0
"""The factor within which a step that is read off a figure agrees with our step."""

LEVEL = 0.005
"""Two curves whose difference is smaller are level: no reader of a figure sees the difference."""

HELD_SHARE = 0.05
"""The share of the stream for which two learners must stay level, so that a chance crossing does not count."""

SETTLED_STEPS = 20
"""Curves begin at 1 by convention, so a crossing counts only from this step on."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        statement: The statement.
        found: Our numbers, as text.
        holds: Whether it is true here; None: it could not be checked.
    """

    statement: Statement
    found: str
    holds: bool | None


def check(statement: Statement, summaries: Mapping[str, RunSummary]) -> Finding:
    """Check a statement against the runs, given by name."""
    summary = summaries.get(statement.experiment)
    if summary is None or statement.learner not in summary.learners or not _compared(statement, summary):
        return Finding(statement, "not run", None)
    found, holds = _CHECKS[statement.relation](statement, summary, summaries)
    return Finding(statement, found, holds)


def _compared(statement: Statement, summary: RunSummary) -> bool:
    """Say whether the learner that the statement compares with was run, too."""
    return statement.relation not in {"above", "within", "ratio", "overtakes"} or statement.against in summary.learners


def _two(statement: Statement, summary: RunSummary) -> tuple[LearnerSummary, LearnerSummary, float, float]:
    one, two = summary.learners[statement.learner], summary.learners[statement.against]
    return one, two, one.mean(summary.last), two.mean(summary.last)


def _above(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    one, two, mine, other = _two(statement, summary)
    if statement.value is not None:
        return f"{mine:.4f} against {other:.4f}", mine - other >= statement.value
    p_value = paired_difference(one.figures[summary.last][2], two.figures[summary.last][2])
    return f"{mine:.4f} against {other:.4f}, p = {p_value:.2g}", mine > other and p_value < ALPHA


def _above_other(statement: Statement, summary: RunSummary, all_: Mapping[str, RunSummary]) -> tuple[str, bool | None]:
    other = all_.get(statement.against)
    if other is None:
        return "not run", None
    mine, theirs = (each.learners[statement.learner].mean(each.last) for each in (summary, other))
    return f"{mine:.4f} against {theirs:.4f}", mine > theirs


def _best(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    names = [name for name in summary.learners if fnmatchcase(name, statement.against or "*")]
    values = np.column_stack([summary.learners[name].figures[summary.last][2] for name in names])
    means = dict(zip(names, values.mean(axis=0).tolist(), strict=True))
    first = max(means, key=lambda name: means[name])
    mine = means[statement.learner]
    best = fisher(values, names).best
    text = f"{mine:.4f}; highest: {first} {means[first]:.4f}" if first != statement.learner else f"{mine:.4f}, highest"
    return text, statement.learner in best


def _within(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    _first, _second, mine, other = _two(statement, summary)
    return f"{mine:.4f} and {other:.4f}", abs(mine - other) <= (statement.value or 0.0)


def _about(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    mine = summary.learners[statement.learner].mean(summary.last)
    return f"{mine:.4f}", abs(mine - (statement.value or 0.0)) <= ABOUT


def _ratio(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    _first, _second, mine, other = _two(statement, summary)
    return f"{mine:.4f} against {other:.4f}", mine >= (statement.value or 0.0) * other


def _near(step: int | None, said: float, length: int) -> tuple[str, bool]:
    """Say whether a step agrees with the paper's; a step at the end of the paper's stream may be a little later."""
    if step is None:
        return f"not within {length:,} steps", said >= length
    return f"step {step:,}", said / EARLY_LATE <= step <= said * EARLY_LATE


def _overtakes(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    one, two, _mine, _other = _two(statement, summary)
    level = one.means[2] >= two.means[2] - LEVEL
    below = np.flatnonzero(~level & (one.points > SETTLED_STEPS))
    if not len(below):
        return "level from the start", (statement.value or 0.0) <= EARLY_LATE * SETTLED_STEPS
    held = max(1, round(HELD_SHARE * len(level)))
    stays = [place for place in range(int(below[0]), len(level)) if level[place : place + held].all()]
    step = int(one.points[stays[0]]) if stays else None
    return _near(step, statement.value or 0.0, summary.length)


def _reaches(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    step = summary.learners[statement.learner].first_at(statement.value or 0.0)
    return _near(step, float(statement.step), summary.length)


def _recovers(statement: Statement, summary: RunSummary, _: Mapping[str, RunSummary]) -> tuple[str, bool]:
    learner = summary.learners[statement.learner]
    before, after = learner.recoveries[0].before, learner.mean(summary.last)
    return f"{before:.4f} before, {after:.4f} at the end", after >= (statement.value or 1.0) * before - ABOUT


_CHECKS = {
    "above": _above,
    "above_other": _above_other,
    "best": _best,
    "within": _within,
    "about": _about,
    "ratio": _ratio,
    "overtakes": _overtakes,
    "reaches": _reaches,
    "recovers": _recovers,
}
