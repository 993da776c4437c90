"""What the page shows of single predictions of a stream's champion, and of what its probabilities have meant.

Pure, and bounded in memory: `MAX_SHOWN` predictions of each kind, and `len(_ENDS)` groups of probabilities.
"""

from bisect import bisect_left
from collections import OrderedDict
from itertools import pairwise
from typing import NamedTuple, TypeVar

from stream_app.monitor.model import JOINED
from stream_app.records import Outcome, OutcomeKind, Prediction

Kept = TypeVar("Kept")

MAX_SHOWN = 10
"""Newest alerts, and newest examples of class 1 that were missed, that are kept of a stream."""

_ENDS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 1.0)
"""Upper ends of the groups of probabilities: finer where examples of rare classes are."""

_FADING = 0.9995
"""How each label fades the labels before: the groups show the last 2,000 or so."""

_CORRECTION = OutcomeKind.CORRECTION.name.lower()


class ShownPrediction(NamedTuple):
    """A prediction of the champion.

    Attributes:
        id: Id of the example.
        time_ms: Event time of the example, or of its label where only the outcome is known.
        probability: Probability of class 1.
        label: The class; None while it is not known.
    """

    id: str
    time_ms: int
    probability: float
    label: int | None


class ReliabilityGroup(NamedTuple):
    """Labelled examples with neighbouring probabilities.

    Attributes:
        low: Probabilities are above this.
        high: They are at most this.
        labels: Labels, faded.
        probability: The mean of their probabilities; None without labels.
        share: The share of class 1 among them; None without labels.
    """

    low: float
    high: float
    labels: float
    probability: float | None
    share: float | None


class StreamDecisions:
    """Newest alerts, newest misses, and reliability of one stream."""

    def __init__(self) -> None:
        self._alerts: OrderedDict[str, ShownPrediction] = OrderedDict()
        self._missed: OrderedDict[str, ShownPrediction] = OrderedDict()
        self._labels = [0.0] * len(_ENDS)
        self._promised = [0.0] * len(_ENDS)
        self._positives = [0.0] * len(_ENDS)
        self._early: OrderedDict[str, int] = OrderedDict()  # labels of outcomes that were read before the prediction

    def add_prediction(self, prediction: Prediction) -> None:
        """Add a prediction; only alerts of the champion are kept."""
        if prediction.champion and prediction.predicted_class == 1:
            label = self._early.get(prediction.id)
            _keep(self._alerts, prediction.id, _shown(prediction, prediction.probability, label))

    def add_outcome(self, outcome: Outcome) -> None:
        """Add an outcome; only a label of a predicted example counts."""
        if outcome.label is None or outcome.outcome not in {JOINED, _CORRECTION}:
            return
        known = self._alerts.get(outcome.id)
        if known is not None:
            self._alerts[outcome.id] = known._replace(label=outcome.label)
        elif outcome.predicted_class == 1 or outcome.id in self._early:
            _keep(self._early, outcome.id, outcome.label)
        if outcome.label == 0:
            self._missed.pop(outcome.id, None)
        if outcome.probability is not None:  # not of a correction, which has no prediction
            if outcome.label == 1 and outcome.predicted_class == 0:
                _keep(self._missed, outcome.id, _shown(outcome, outcome.probability, 1))
            self._count(outcome.probability, outcome.label)

    def _count(self, probability: float, label: int) -> None:
        group = min(bisect_left(_ENDS, probability), len(_ENDS) - 1)
        for counts in (self._labels, self._promised, self._positives):
            counts[:] = [count * _FADING for count in counts]
        self._labels[group] += 1.0
        self._promised[group] += probability
        self._positives[group] += label

    def alerts(self) -> list[ShownPrediction]:
        """Return the newest alerts, the newest first."""
        return list(reversed(self._alerts.values()))

    def missed(self) -> list[ShownPrediction]:
        """Return the newest examples of class 1 that were predicted as class 0, the newest first."""
        return list(reversed(self._missed.values()))

    def reliability(self) -> list[ReliabilityGroup]:
        """Return the groups of probabilities, from low to high."""
        rows = zip(pairwise((0.0, *_ENDS)), self._labels, self._promised, self._positives, strict=True)
        return [
            ReliabilityGroup(low, high, labels, *((promised / labels, positives / labels) if labels else (None, None)))
            for (low, high), labels, promised, positives in rows
        ]


def _shown(record: Prediction | Outcome, probability: float, label: int | None) -> ShownPrediction:
    return ShownPrediction(record.id, record.event_time_ms, probability, label)


def _keep(kept: OrderedDict[str, Kept], name: str, value: Kept) -> None:
    """Add a value as the newest, and forget the oldest beyond `MAX_SHOWN`."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > MAX_SHOWN:
        kept.popitem(last=False)
