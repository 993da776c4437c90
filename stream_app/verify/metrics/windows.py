"""The sums of a window of metrics, and its figures, written apart from `pipeline.prequential` and `window_figures`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from stream_app.config import MetricSettings
from stream_app.records import MetricWindow, Prediction
from stream_app.verify.metrics.joined_costs import UNKNOWN
from stream_app.verify.reference_state import ErrorCosts

_ROUNDING = 1e-12
"""When the only weight of a sum is taken out, rounding may leave up to this share of it."""

_BINS = 64
"""Half octaves of the distance of a score to the nearer of 0 and 1, half of them for each end."""

_GROUPS = 15
"""Groups of about equal size, of neighbouring bins, over which the calibration error is the mean."""

_MAX_WEIGHT, _LEAST_COUNT = 2.0**32, 1e-30
"""When a histogram is divided by the weight of its newest label, and what is then left out."""


class Answer(NamedTuple):
    """What a learner had predicted: the class, the bin of the score, the probability; and the costs of the example."""

    predicted_class: int
    score_bin: int
    probability: float
    costs: ErrorCosts = UNKNOWN

    def cost(self, label: int) -> float:
        """Return what the decision costs, if this is the label and the costs are known."""
        return 0.0 if self.predicted_class == label or math.isnan(self.costs[0]) else self.costs[label]


class Ages(NamedTuple):
    """Labels since that of a corrected example: of its old class, of its new class; and what is left of the old."""

    old: int
    new: int
    left: int


def answer_of(prediction: Prediction) -> Answer:
    """Return what a prediction says."""
    low = prediction.score < 0.5
    mantissa, exponent = math.frexp(prediction.score if low else 1.0 - prediction.score)
    octaves = -2 * (exponent + 1) + (mantissa < 0.75) if mantissa else _BINS
    distance = min(max(octaves, 0), _BINS // 2 - 1)
    score_bin = _BINS // 2 - 1 - distance if low else _BINS // 2 + distance
    return Answer(prediction.predicted_class, score_bin, prediction.probability)


def _faded(fading: float, age: int) -> float:
    """Return `fading ** age` by squaring, as `prequential` does, since the bits are compared."""
    power = 1.0
    while age:
        power *= fading if age & 1 else 1.0
        fading *= fading
        age >>= 1
    return power


def _kept_small(weight: float, *counts: list[float]) -> float:
    """Divide counts by the weight of the newest label if it has become large; return the weight from then on."""
    if weight <= _MAX_WEIGHT:
        return weight
    for numbers in counts:
        shares = [number / weight for number in numbers]
        numbers[:] = [share if share > _LEAST_COUNT else 0.0 for share in shares]
    return 1.0


@dataclass(slots=True)
class _Class:
    """The labels of one class: right predictions and all, faded; and the histogram of the scores."""

    right: float = 0.0
    total: float = 0.0
    weight: float = 1.0
    histogram: list[float] = field(default_factory=lambda: [0.0] * _BINS)


@dataclass(slots=True)
class WindowSums:
    """The sums of one learner for one fading factor.

    Attributes:
        fading: The fading factor.
        prevalence_fading: How all labels fade.
        classes: The sums of class 0 and class 1.
        positives: Labels of class 1, faded at every label.
        labels: All labels, faded at every label.
        costs: The costs of the decisions, faded at every label.
        costed: The labels whose costs are known, faded at every label.
    """

    fading: float
    prevalence_fading: float
    classes: tuple[_Class, _Class] = field(default_factory=lambda: (_Class(), _Class()))
    positives: float = 0.0
    labels: float = 0.0
    costs: float = 0.0
    costed: float = 0.0

    @classmethod
    def of(cls, fading: float, settings: MetricSettings) -> "WindowSums":
        """Return the empty sums of one of the windows."""
        return cls(fading, max(fading, settings.prevalence_fading_factor))

    def count(self, label: int, answer: Answer) -> None:
        """Add a label."""
        own = self.classes[label]
        own.right = self.fading * own.right + (answer.predicted_class == label)
        own.total = self.fading * own.total + 1.0
        self.positives = self.prevalence_fading * self.positives + label
        self.labels = self.prevalence_fading * self.labels + 1.0
        self.costs = self.prevalence_fading * self.costs + answer.cost(label)
        self.costed = self.prevalence_fading * self.costed + (not math.isnan(answer.costs[0]))
        own.weight = _kept_small(own.weight * (1.0 / self.fading), own.histogram)
        own.histogram[answer.score_bin] += own.weight

    def move(self, label: int, answer: Answer, ages: Ages) -> None:
        """Move a corrected example to this class."""
        old, new = self.classes[1 - label], self.classes[label]
        right = answer.predicted_class == label
        weight = _faded(self.fading, ages.old)
        rest = old.total - weight
        total = rest if ages.left and rest > _ROUNDING * weight else 0.0
        old.right = min(max(old.right - (0.0 if right else weight), 0.0), total)
        old.total = total
        old.histogram[answer.score_bin] = max(old.histogram[answer.score_bin] - weight * old.weight, 0.0)
        if not total:
            old.histogram = [0.0] * _BINS
        weight = _faded(self.fading, ages.new)
        new.right += weight if right else 0.0
        new.total += weight
        new.histogram[answer.score_bin] += weight * new.weight
        weight = _faded(self.prevalence_fading, ages.old + ages.new)
        self.positives = min(max(self.positives + (weight if label else -weight), 0.0), self.labels)
        if not math.isnan(answer.costs[0]):
            self.costs = max(self.costs + weight * (answer.cost(label) - answer.cost(1 - label)), 0.0)

    def figures(self) -> MetricWindow:
        """Return the figures."""
        negative, positive = self.classes
        sums = positive.right, positive.total, negative.right, negative.total
        cost = self.costs / self.costed if self.costed else None
        if not (positive.total and negative.total):
            return _window(self.fading, (*(None,) * 9, cost), sums)
        recall, specificity = positive.right / positive.total, negative.right / negative.total
        prevalence = self.positives / self.labels
        hits, rest = prevalence * recall, 1.0 - prevalence
        alarms = hits + rest * (1.0 - specificity)
        chance = prevalence * alarms + rest * (1.0 - alarms)
        figures = (
            recall,
            specificity,
            math.sqrt(recall * specificity),
            prevalence,
            hits / alarms if alarms else None,
            2.0 * hits / (alarms + prevalence) if prevalence else None,
            (hits + rest * specificity - chance) / (1.0 - chance) if chance < 1.0 else None,
            _roc_auc(positive.histogram, negative.histogram),
            _average_precision(positive.histogram, negative.histogram, prevalence),
            cost,
        )
        return _window(self.fading, figures, sums)


@dataclass(slots=True)
class CalibrationSums:
    """What the calibration error of a learner is computed from: counts by class and bin, and sums of probabilities."""

    fading: float
    weight: float = 1.0
    counts: tuple[list[float], list[float]] = field(default_factory=lambda: ([0.0] * _BINS, [0.0] * _BINS))
    promised: list[float] = field(default_factory=lambda: [0.0] * _BINS)

    def count(self, label: int, answer: Answer) -> None:
        """Add a label."""
        self.weight = _kept_small(self.weight / self.fading, *self.counts, self.promised)
        self.counts[label][answer.score_bin] += self.weight
        self.promised[answer.score_bin] += self.weight * answer.probability

    def move(self, label: int, answer: Answer, ages: Ages) -> None:
        """Move a corrected example to this class."""
        weight = self.weight * _faded(self.fading, ages.old + ages.new)
        old, new = self.counts[1 - label], self.counts[label]
        old[answer.score_bin] = max(old[answer.score_bin] - weight, 0.0)
        new[answer.score_bin] += weight

    def error(self) -> float | None:
        """Return the expected calibration error; None before the first label."""
        zeros, ones = self.counts
        total = 0.0
        for zero, one in zip(zeros, ones, strict=True):
            total += zero + one
        if not total:
            return None
        error = gap = passed = 0.0
        group = 1.0
        for zero, one, promised in zip(zeros, ones, self.promised, strict=True):
            gap += promised - one
            passed += zero + one
            if passed * _GROUPS >= group * total:
                error, gap = error + abs(gap), 0.0
                group = math.floor(passed * _GROUPS / total) + 1.0
        return (error + abs(gap)) / total


def _window(fading: float, figures: Sequence[float | None], sums: Sequence[float]) -> MetricWindow:
    """Return a window of figures and sums in the order of its fields."""
    names = [each.name for each in fields(MetricWindow)]
    return MetricWindow(**dict(zip(names, (fading, *figures, *sums), strict=True)))  # type: ignore[arg-type]


def _roc_auc(positives: Sequence[float], negatives: Sequence[float]) -> float | None:
    area = positive = negative = 0.0
    for ones, zeros in zip(positives, negatives, strict=True):
        area += ones * (negative + 0.5 * zeros)
        positive += ones
        negative += zeros
    return area / (positive * negative) if positive and negative else None


def _average_precision(positives: Sequence[float], negatives: Sequence[float], prevalence: float) -> float | None:
    positive = negative = 0.0  # in the order of the bins: `sum` rounds otherwise
    for ones, zeros in zip(positives, negatives, strict=True):
        positive += ones
        negative += zeros
    if not (positive and negative):
        return None
    hit, alarm = prevalence / positive, (1.0 - prevalence) / negative
    total = above = below = 0.0
    for ones, zeros in zip(reversed(positives), reversed(negatives), strict=True):
        if ones and hit:
            hits, alarms = hit * (above + 0.5 * ones), alarm * (below + 0.5 * zeros)
            total += ones * (hits / (hits + alarms))
        above += ones
        below += zeros
    return total / positive
