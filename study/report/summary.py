"""Summaries of the repetitions of a run: figures at chosen steps, mean curves with their errors, time to recover."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from study.report.scores import METRICS, curves_of
from study.run.experiment import Run
from study.run.store import Store, Stored

STEPS = (500, 1_000, 2_500, 5_000)
"""Steps whose figures are published, in addition to the last step, if the stream is long enough."""

MAX_POINTS = 5_000
"""Points of a stored curve: every step of the paper's short streams."""

RECOVERED_SHARE = 0.9
"""A learner has recovered when its G-mean is back at this share of its value before the drift."""

LOWEST_BEFORE = 0.1
"""A learner whose G-mean is lower than this before a drift has nothing to recover."""

RESAMPLES = 200
"""Resamples of the repetitions, for the interval of the time to recover."""

MAX_RESAMPLED_STEPS = 50_000
"""Longer stretches are not resampled, because the products would take gigabytes."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery of a learner after a drift, by the mean over repetitions; steps count from the drift.

    Attributes:
        drift_step: The first example after the drift.
        before: G-mean directly before it.
        steps: Steps until the G-mean has recovered; None: not before the next drift or the end.
        low: Lower bound of a 95 % interval over resampled repetitions; None: not computed or not recovered.
        high: Upper bound of the interval; None: as for `low`.
    """

    drift_step: int
    before: float
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
        averages: float64 `[R]`, the G-mean averaged over all steps.
        points: Steps of the curve, int64 `[p]`; point s has the figure after s examples. They include the points
            directly before and after each known drift.
        means: float32 `[3, p]`.
        errors: float32 `[3, p]`, standard errors; zero for one repetition.
        recoveries: A recovery for each known drift.
    """

    name: str
    figures: Mapping[int, Doubles]
    unfaded: Doubles
    unreset: Doubles
    averages: Doubles
    points: NDArray[np.int64]
    means: NDArray[np.float32]
    errors: NDArray[np.float32]
    recoveries: Sequence[Recovery]

    def mean(self, step: int, metric: str = "gmean") -> float:
        """Return the mean over repetitions after `step` examples."""
        return float(self.figures[step][METRICS.index(metric)].mean())

    def first_at(self, level: float) -> int | None:
        """Return the first step, after the first 20, whose mean G-mean reaches `level`; None if no step does."""
        found = np.flatnonzero((self.means[2] >= level) & (self.points > 20))
        return int(self.points[found[0]]) if len(found) else None


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
    resets = run.experiment.stream.resets(length)
    steps = published_steps(length)
    learners = {}
    for row, name in enumerate(run.experiment.methods):
        gmeans = np.empty((len(stored), length))
        total, squares = np.zeros((3, length)), np.zeros((3, length))
        figures = {step: np.empty((3, len(stored))) for step in steps}
        otherwise = np.empty((2, len(stored)))
        for place, repetition in enumerate(stored):
            curves = curves_of(repetition.classes[row], repetition.labels, resets, run.experiment.fading)
            stack = np.vstack([curves.recall, curves.specificity, curves.gmean])
            gmeans[place] = curves.gmean
            total += stack
            squares += stack * stack
            for step in steps:
                figures[step][:, place] = stack[:, step - 1]
            otherwise[:, place] = _otherwise(repetition, row, curves.gmean[-1], resets, run.experiment.fading)
        learners[name] = _learner(name, figures, otherwise, total, squares, gmeans, resets)
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


def _otherwise(stored: Stored, row: int, final: float, resets: Sequence[int], fading: float) -> tuple[float, float]:
    """Return the last G-mean without fading, and the last G-mean without resets."""
    right = stored.classes[row] == stored.labels
    shares = [float(right[stored.labels == of].mean()) if (stored.labels == of).any() else 1.0 for of in (0, 1)]
    unreset = float(curves_of(stored.classes[row], stored.labels, (), fading).gmean[-1]) if resets else final
    return math.sqrt(shares[0] * shares[1]), unreset


def _learner(
    name: str,
    figures: Mapping[int, Doubles],
    otherwise: Doubles,
    total: Doubles,
    squares: Doubles,
    gmeans: Doubles,
    resets: Sequence[int],
) -> LearnerSummary:
    count, length = gmeans.shape
    means = total / count
    variance = np.maximum(squares - count * means * means, 0.0) / max(count - 1, 1)
    stride = max(1, math.ceil(length / MAX_POINTS))
    drifts = [place for reset in resets for place in (reset - 1, reset)]
    points = np.unique([*range(0, length, stride), *drifts, length - 1])
    return LearnerSummary(
        name=name,
        figures=figures,
        unfaded=otherwise[0],
        unreset=otherwise[1],
        averages=gmeans.mean(axis=1),
        points=points + 1,
        means=means[:, points].astype(np.float32),
        errors=np.sqrt(variance / count)[:, points].astype(np.float32),
        recoveries=[recovery(gmeans, reset, end) for reset, end in pairwise([*resets, length])],
    )


def recovery(gmeans: Doubles, drift_step: int, end: int) -> Recovery:
    """Compute how many examples a learner needs to recover after a drift.

    Args:
        gmeans: float64 `[R, n]`, with sums that restart at the drift.
        drift_step: The first example after the drift.
        end: The step of the next drift, or the end of the stream.
    """
    before = float(gmeans[:, drift_step - 1].mean())
    if before < LOWEST_BEFORE:
        return Recovery(drift_step, before, None, None, None)
    steps = _back_after(gmeans[:, drift_step:end].mean(axis=0), before)
    count = len(gmeans)
    if steps is None or count < 2 or end - drift_step > MAX_RESAMPLED_STEPS:
        return Recovery(drift_step, before, steps, None, None)
    draws = np.random.Generator(np.random.Philox(0)).integers(0, count, (RESAMPLES, count))
    weights = np.apply_along_axis(np.bincount, 1, draws, minlength=count) / count
    after, befores = weights @ gmeans[:, drift_step:end], weights @ gmeans[:, drift_step - 1]
    found = sorted(
        end - drift_step if (back := _back_after(row, value)) is None else back
        for row, value in zip(after, befores, strict=True)
    )
    return Recovery(drift_step, before, steps, found[round(0.025 * RESAMPLES)], found[round(0.975 * RESAMPLES) - 1])


def _back_after(gmeans: Doubles, before: float) -> int | None:
    found = np.flatnonzero(gmeans >= RECOVERED_SHARE * before)
    return int(found[0]) + 1 if len(found) else None
