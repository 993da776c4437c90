"""Statements on the step at which a mean curve reaches a level, or another curve."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from study.paper import Statement
from study.report.claims.intervals import Doubles, Interval, Verdict, verdict
from study.report.summary import RESAMPLES, RunSummary, resampling_weights

Curves = Callable[[RunSummary, str], tuple[NDArray[np.int64], Doubles]]
"""Returns the steps of a learner's curve, int64 `[p]`, and every repetition's G-mean there, float64 `[R, p]`."""

STEP_RELATIONS = ("overtakes", "reaches")

EARLY_LATE = 2.0
"""The factor within which a step that is read off a figure agrees with our step."""

LEVEL = 0.005
"""Two curves whose difference is smaller are level: no reader of a figure sees the difference."""

HELD_SHARE = 0.05
"""The share of the stream for which two learners must stay level, so that a chance crossing does not count."""

SETTLED_STEPS = 20
"""The first figures of a stream are those of a few examples, so a crossing counts only from this step on."""


def step_interval(
    statement: Statement, learner: str, against: str, summary: RunSummary, curves: Curves
) -> tuple[str, Verdict]:
    """Return the step with its interval over resampled repetitions as text, and the verdict.

    A step that lies after the end of the stream is not known: if the statement's range reaches beyond the end, the
    statement is undecided.
    """
    points, own = curves(summary, learner)
    other = curves(summary, against)[1] if against else None
    weights = np.vstack([np.full((1, len(own)), 1.0 / len(own)), resampling_weights(len(own))])
    means = _means(weights, own)
    if other is None:
        reached = means >= (statement.value or 0.0)
        said = float(statement.step)
    else:
        reached = means >= _means(weights, other) - LEVEL
        said = statement.value or 0.0
    held = 1 if other is None else max(1, round(HELD_SHARE * len(points)))
    steps = [_first(row, points, held) for row in reached]
    found, resampled = steps[0], sorted(steps[1:])
    interval = Interval(resampled[round(0.025 * RESAMPLES)], resampled[round(0.975 * RESAMPLES) - 1])
    text = f"step {_said(found)} ({_said(interval.low)} to {_said(interval.high)})"
    low, high = said / EARLY_LATE, said * EARLY_LATE
    if math.isinf(interval.high) and high > summary.length:
        return text, Verdict.UNDECIDED
    return text, verdict(interval, interval, low, high)


def _means(weights: Doubles, curves: Doubles) -> Doubles:
    """Return weighted mean curves over the repetitions that have a figure: float64 `[resamples, p]`."""
    present = ~np.isnan(curves)
    share = weights @ present
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ np.where(present, curves, 0.0)) / share)


def _first(reached: NDArray[np.bool_], points: NDArray[np.int64], held: int) -> float:
    """Return the first step from which a curve has reached the other for `held` points; infinite if there is none."""
    settled = reached & (points > SETTLED_STEPS)
    sums = np.concatenate([[0], np.cumsum(settled)])
    ends = np.minimum(np.arange(len(points)) + held, len(points))
    stays = np.flatnonzero(sums[ends] - sums[:-1] == ends - np.arange(len(points)))
    return float(points[stays[0]]) if len(stays) else math.inf


def _said(step: float) -> str:
    return "never" if math.isinf(step) else f"{step:,.0f}"
