"""Summaries of the repetitions of a run: figures at chosen steps, mean curves with their errors, time to recover."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.label_delay import EVENTS, Distribution, parse_label_delay
from study.report.scores import METRICS, Curves, average_from_both, curves_of
from study.run.experiment import Run, StreamChoice
from study.run.store import Store, Stored

STEPS = (500, 1_000, 2_500, 5_000)
"""Steps whose figures are published, in addition to the last step, if the stream is long enough."""

MAX_POINTS = 5_000
"""Points of a stored curve: every step of the paper's short streams."""

RECOVERED_SHARE = 0.9
"""The common level that learners must reach after a drift: this share of the best learner's G-mean before it.

A share of a learner's own G-mean would reward weak learners: the less a learner knew, the sooner it is back.
"""

CURVE_SHARE = 0.5
"""A curve begins when this share of the repetitions has had a positive example."""

RESAMPLES = 200
"""Resamples of the repetitions, for the interval of the time to recover."""

MAX_RESAMPLED_STEPS = 50_000
"""Longer stretches are not resampled, because the products would take gigabytes."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The way of a learner to the common level after a drift, by the mean over repetitions; steps count from the drift.

    Attributes:
        drift_step: The first example after the drift.
        before: The learner's G-mean directly before it.
        level: The common level: `RECOVERED_SHARE` of the best learner's G-mean directly before the drift.
        steps: Steps until the G-mean reaches the level; None: not before the next drift or the end.
        low: Lower bound of a 95 % interval over resampled repetitions; None: not computed or level not reached.
        high: Upper bound of the interval; None: as for `low`.
    """

    drift_step: int
    before: float
    level: float
    steps: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class LearnerSummary:
    """A learner of a run.

    Attributes:
        name: Its name in the experiment.
        figures: float64 `[3, R]` by `METRICS`, for each step of `RunSummary.steps`.
        unfaded: float64 `[R]`, the G-mean over all examples, without fading and without resets.
        unreset: float64 `[R]`, the G-mean after the last step where the sums do not restart at a drift.
        averages: float64 `[R]`, the G-mean averaged over all steps from the first on by which both classes have come.
        befores: float64 `[R]`, the G-mean directly before the first known drift; empty without drift.
        afters: float64 `[R]`, the G-mean averaged over the steps since the last known drift; empty without drift.
        points: Steps of the curve, int64 `[p]`; point s has the figure after s examples. They include the points
            directly before and after each known drift.
        means: float32 `[3, p]`, over the repetitions that have had a positive example; NaN while these are fewer than
            `CURVE_SHARE` of all.
        errors: float32 `[3, p]`, standard errors; zero for one repetition.
        recoveries: A recovery for each known drift.
        rankings: float64 `[R, 3]`, figures of the scores by `ranking.RANKINGS`; None for synthetic streams.
    """

    name: str
    figures: Mapping[int, Doubles]
    unfaded: Doubles
    unreset: Doubles
    averages: Doubles
    befores: Doubles
    afters: Doubles
    points: NDArray[np.int64]
    means: NDArray[np.float32]
    errors: NDArray[np.float32]
    recoveries: Sequence[Recovery]
    rankings: Doubles | None

    def mean(self, step: int, metric: str = "gmean") -> float:
        """Return the mean over repetitions after `step` examples."""
        return float(self.figures[step][METRICS.index(metric)].mean())


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The figures of a run.

    Attributes:
        run: The run.
        numbers: The numbers of the finished repetitions.
        length: Number of examples of the stream.
        positive_percent: Share of class 1 in the clean labels, over all repetitions.
        steps: Steps whose figures are published.
        learners: The learners, in the experiment's order.
        seconds: Duration of all repetitions together, on one core.
    """

    run: Run
    numbers: Sequence[int]
    length: int
    positive_percent: float
    steps: tuple[int, ...]
    learners: Mapping[str, LearnerSummary]
    seconds: float

    @property
    def repetitions(self) -> int:
        """Number of finished repetitions."""
        return len(self.numbers)

    @property
    def last(self) -> int:
        """The last step."""
        return self.length

    def finals(self, metric: str = "gmean") -> Doubles:
        """Return each repetition's figure after the last step, float64 `[R, learners]`."""
        row = METRICS.index(metric)
        return np.column_stack([learner.figures[self.last][row] for learner in self.learners.values()])


def mean_and_error(values: Doubles) -> tuple[float, float, float]:
    """Return mean, standard deviation (of a sample) and standard error of the mean."""
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), deviation, deviation / math.sqrt(len(values))


def published_steps(length: int) -> tuple[int, ...]:
    """Return the steps of `STEPS` within the stream, and the last step."""
    return (*(step for step in STEPS if step < length), length)


def summarise(run: Run, store: Store) -> RunSummary | None:
    """Compute everything that the report needs of a run; None if no repetition is finished.

    Raises:
        StateError: A stored repetition is damaged.
    """
    numbers = store.finished(run)
    if not numbers:
        return None
    stored = [store.get(run, number) for number in numbers]
    length = len(stored[0].labels)
    scoring = Scoring(run, length)
    steps = published_steps(length)
    levels = _levels(stored, scoring)
    learners = {}
    for row, name in enumerate(run.experiment.methods):
        gmeans = np.empty((len(stored), length))
        total, squares = np.zeros((3, length)), np.zeros((3, length))
        seen = np.zeros(length)
        figures = {step: np.empty((3, len(stored))) for step in steps}
        otherwise = np.empty((3, len(stored)))
        for place, repetition in enumerate(stored):
            curves = scoring.curves(repetition, row)
            stack = np.vstack([curves.recall, curves.specificity, curves.gmean])
            gmeans[place] = curves.gmean
            first = scoring.first_positive(repetition)
            total[:, first:] += stack[:, first:]
            squares[:, first:] += stack[:, first:] ** 2
            seen[first:] += 1
            for step in steps:
                figures[step][:, place] = stack[:, step - 1]
            otherwise[:, place] = _otherwise(repetition, row, curves.gmean, scoring)
        drawn = _curve(total, squares, seen, scoring)
        learner = _learner(name, figures, otherwise, drawn, gmeans, scoring, levels)
        learners[name] = replace(learner, rankings=_rankings(stored, row))
    positives = sum(int(repetition.labels.sum()) for repetition in stored)
    return RunSummary(
        run=run,
        numbers=numbers,
        length=length,
        positive_percent=100.0 * positives / (length * len(stored)),
        steps=steps,
        learners=learners,
        seconds=sum(repetition.seconds for repetition in stored),
    )


class Scoring:
    """How the repetitions of a run are scored: from the first label on, with sums that restart at known drifts.

    Args:
        run: The run.
        length: Number of examples of the stream.
    """

    def __init__(self, run: Run, length: int) -> None:
        self.length = length
        self.resets = run.experiment.stream.resets(length)
        self.start = min(examples_before_first_label(run.experiment.stream), (*self.resets, length)[0] - 1)
        self.fading = run.experiment.fading

    @property
    def points(self) -> NDArray[np.int64]:
        """The steps that a curve keeps, less one: int64 `[p]`, the indices of the arrays of all steps."""
        stride = max(1, math.ceil(self.length / MAX_POINTS))
        drifts = [place for reset in self.resets for place in (reset - 1, reset)]
        return np.unique([*range(0, self.length, stride), *drifts, self.length - 1])

    def curves(self, stored: Stored, row: int) -> Curves:
        """Compute a learner's figures after every step of a repetition."""
        return curves_of(stored.classes[row], stored.labels, self.resets, self.fading, self.start)

    def first_positive(self, stored: Stored) -> int:
        """Return the index of the first positive example that is scored; the length if there is none."""
        found = np.flatnonzero(stored.labels[self.start :] == 1)
        return self.start + int(found[0]) if len(found) else self.length


def examples_before_first_label(choice: StreamChoice) -> int:
    """Return how many examples arrive before the first label: the fixed delay in events, else 0."""
    delay = parse_label_delay(choice.label_delay).positive
    return int(delay.first.amount) if delay.distribution is Distribution.FIXED and delay.first.unit == EVENTS else 0


def gmeans_of(run: Run, learner: str, store: Store) -> tuple[NDArray[np.int64], Doubles]:
    """Return the points of a learner's curve, and every repetition's G-mean there, NaN before its first positive.

    Returns:
        The steps, int64 `[p]`, and float64 `[R, p]`.
    """
    row = list(run.experiment.methods).index(learner)
    stored = [store.get(run, number) for number in store.finished(run)]
    scoring = Scoring(run, len(stored[0].labels))
    points = scoring.points
    values = np.empty((len(stored), len(points)))
    for place, repetition in enumerate(stored):
        values[place] = scoring.curves(repetition, row).gmean[points]
        values[place, points < scoring.first_positive(repetition)] = np.nan
    return points + 1, values


def _levels(stored: Sequence[Stored], scoring: Scoring) -> list[float]:
    """Return the common level of each known drift."""
    if not scoring.resets:
        return []
    places = np.array(scoring.resets) - 1
    befores = np.zeros((len(stored[0].classes), len(places)))
    for row in range(len(befores)):
        befores[row] = np.mean([scoring.curves(repetition, row).gmean[places] for repetition in stored], axis=0)
    return [float(level) for level in RECOVERED_SHARE * befores.max(axis=0)]


def _otherwise(stored: Stored, row: int, gmean: Doubles, scoring: Scoring) -> tuple[float, float, float]:
    """Return the last G-mean without fading, the last G-mean without resets, and the average G-mean."""
    labels, right = stored.labels[scoring.start :], (stored.classes[row] == stored.labels)[scoring.start :]
    shares = [float(right[labels == of].mean()) if (labels == of).any() else 1.0 for of in (0, 1)]
    unreset = gmean[-1]
    if scoring.resets:
        unreset = curves_of(stored.classes[row], stored.labels, (), scoring.fading, scoring.start).gmean[-1]
    average = average_from_both(gmean, stored.labels, scoring.start)
    return math.sqrt(shares[0] * shares[1]), float(unreset), average


def _rankings(stored: Sequence[Stored], row: int) -> Doubles | None:
    found = [repetition.rankings[row] for repetition in stored if repetition.rankings is not None]
    return np.array(found, np.float64) if len(found) == len(stored) else None


def _curve(total: Doubles, squares: Doubles, seen: Doubles, scoring: Scoring) -> tuple[Doubles, Doubles]:
    """Return means and standard errors at the points of the curve, float64 `[3, p]` each."""
    points = scoring.points
    count = seen[points]
    count[count < max(CURVE_SHARE * seen[-1], 1.0)] = np.nan
    means = total[:, points] / count
    variance = np.maximum(squares[:, points] - count * means * means, 0.0) / np.maximum(count - 1, 1)
    return means, np.sqrt(variance / count)


def _learner(
    name: str,
    figures: Mapping[int, Doubles],
    otherwise: Doubles,
    drawn: tuple[Doubles, Doubles],
    gmeans: Doubles,
    scoring: Scoring,
    levels: Sequence[float],
) -> LearnerSummary:
    resets = scoring.resets
    spans = zip(levels, pairwise([*resets, scoring.length]), strict=True)
    return LearnerSummary(
        name=name,
        figures=figures,
        unfaded=otherwise[0],
        unreset=otherwise[1],
        averages=otherwise[2],
        befores=gmeans[:, resets[0] - 1].copy() if resets else np.empty(0),
        afters=gmeans[:, resets[-1] :].mean(axis=1) if resets else np.empty(0),
        points=scoring.points + 1,
        means=drawn[0].astype(np.float32),
        errors=drawn[1].astype(np.float32),
        recoveries=[recovery(gmeans, level, reset, end) for level, (reset, end) in spans],
        rankings=None,
    )


def recovery(gmeans: Doubles, level: float, drift_step: int, end: int) -> Recovery:
    """Compute how many examples a learner needs after a drift to reach a level.

    Args:
        gmeans: float64 `[R, n]`, with sums that restart at the drift.
        level: The G-mean to reach.
        drift_step: The first example after the drift.
        end: The step of the next drift, or the end of the stream.
    """
    before = float(gmeans[:, drift_step - 1].mean())
    steps = _reached_after(gmeans[:, drift_step:end].mean(axis=0), level)
    count = len(gmeans)
    if steps is None or count < 2 or end - drift_step > MAX_RESAMPLED_STEPS:
        return Recovery(drift_step, before, level, steps, None, None)
    after = resampling_weights(count) @ gmeans[:, drift_step:end]
    found = sorted(end - drift_step if (step := _reached_after(row, level)) is None else step for row in after)
    return Recovery(
        drift_step, before, level, steps, found[round(0.025 * RESAMPLES)], found[round(0.975 * RESAMPLES) - 1]
    )


def resampling_weights(count: int) -> Doubles:
    """Return the weights of `count` repetitions in each resample: float64 `[RESAMPLES, count]`, rows of sum 1."""
    draws = np.random.Generator(np.random.Philox(0)).integers(0, count, (RESAMPLES, count))
    return np.apply_along_axis(np.bincount, 1, draws, minlength=count) / count


def _reached_after(gmeans: Doubles, level: float) -> int | None:
    found = np.flatnonzero(gmeans >= level)
    return int(found[0]) + 1 if len(found) else None
