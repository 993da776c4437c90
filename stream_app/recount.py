"""The metrics of one task, counted again from its predictions and outcomes; pure, and written apart from `evaluate`.

A record of metrics says how many labels its learner had accepted. These are the stream's `joined` outcomes up to there,
each with the class that the label told; what the learner had answered is in its prediction of that example. So the
prequential sums, recall, specificity and G-mean are told by the other topics, to the bit.

A learner whose predictions are not published (`predictions: champion`) cannot be counted again; those are numbered.

Memory: predictions of examples that are not closed yet, and a byte for each label of a learner until its next metric.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.books import Output, grouped
from stream_app.records import Metric, Outcome, Prediction

MAX_OPEN_EXAMPLES = 500_000
"""Predictions that are held, by example: what five streams may have pending at once, some 200 MB."""

SUMS = ("positive_correct", "positive_total", "negative_correct", "negative_total")
SCORES = ("recall", "specificity", "gmean")


@dataclass(slots=True)
class _Learner:
    """Sums after `labelled` labels, and what came since: 2 x class + correct, a byte a label. None: not published."""

    sums: list[float] = field(default_factory=lambda: [0.0] * len(SUMS))
    labelled: int = 0
    since: deque[int] | None = field(default_factory=deque)

    def count_to(self, labelled: int, fading: float) -> bool:
        """Take in labels up to there; whether all of them are known."""
        if self.since is None or labelled < self.labelled or labelled > self.labelled + len(self.since):
            return False
        for _ in range(labelled - self.labelled):
            code = self.since.popleft()
            column = 0 if code > 1 else 2
            self.sums[column] = fading * self.sums[column] + (code & 1)
            self.sums[column + 1] = fading * self.sums[column + 1] + 1.0
        self.labelled = labelled
        return True


@dataclass(slots=True)
class _Stream:
    labelled: int = 0
    learners: dict[str, _Learner] = field(default_factory=dict)


class Recount:
    """What the metrics of one partition should be.

    Args:
        fading: The fading factor of the configuration.
        predictions: The predictions of the partition, in offset order.
        outcomes: Its outcomes.
    """

    def __init__(
        self, fading: float, predictions: Iterable[Output[Prediction]], outcomes: Iterable[Output[Outcome]]
    ) -> None:
        self.unknown = 0
        self._fading = fading
        self._groups = grouped(predictions)
        self._outcomes = iter(outcomes)
        self._answers: dict[tuple[str, str], deque[Mapping[str, int]]] = {}
        self._streams: dict[str, _Stream] = {}

    def fault(self, metric: Metric) -> str | None:
        """What is wrong with this metric, the next one of the topic; None too when that cannot be told (`unknown`)."""
        stream = self._streams.setdefault(metric.stream, _Stream())
        while stream.labelled < metric.labelled:
            outcome = next(self._outcomes, None)
            if outcome is None:
                return f"tells of {metric.labelled:,} labels; there are {stream.labelled:,} joined outcomes"
            self._take(outcome.content)
        learner = stream.learners.setdefault(
            metric.learner, _Learner() if not stream.labelled else _Learner(since=None)
        )
        if not learner.count_to(metric.labelled, self._fading):
            self.unknown += 1
            return None
        return "; ".join(_differences(metric, learner.sums)) or None

    def _take(self, outcome: Outcome) -> None:
        if outcome.outcome not in ("joined", "unlabelled", "evicted"):
            return
        answers = self._answers_to(outcome.stream, outcome.id)
        if outcome.outcome != "joined":
            return
        stream = self._streams.setdefault(outcome.stream, _Stream())
        for name in answers:
            if name not in stream.learners:
                stream.learners[name] = _Learner() if not stream.labelled else _Learner(since=None)
        stream.labelled += 1
        for name, learner in stream.learners.items():
            if name not in answers:
                learner.since = None
            elif learner.since is not None:
                learner.since.append(2 * (outcome.label or 0) + (answers[name] == outcome.label))

    def _answers_to(self, stream: str, id_: str) -> Mapping[str, int]:
        """The class that each learner predicted for this example; none when there is no prediction."""
        while (stream, id_) not in self._answers and len(self._answers) < MAX_OPEN_EXAMPLES:
            group = next(self._groups, None)
            if group is None:
                break
            first = group[0].content
            answers = {output.content.learner: output.content.label for output in group}
            self._answers.setdefault((first.stream, first.id), deque()).append(answers)
        found = self._answers.get((stream, id_))
        if found is None:
            return {}
        answers = dict(found.popleft())
        if not found:
            del self._answers[stream, id_]
        return answers


def _differences(metric: Metric, sums: list[float]) -> Iterator[str]:
    for name, value in zip(SUMS, sums, strict=True):
        if getattr(metric, name) != value:
            yield f"{name} is {getattr(metric, name)}, predictions and labels give {value}"
    for name, score in zip(SCORES, _scores(sums), strict=True):
        if getattr(metric, name) != score:
            yield f"{name} is {getattr(metric, name)}, predictions and labels give {score}"


def _scores(sums: list[float]) -> tuple[float | None, float | None, float | None]:
    if not (sums[1] and sums[3]):
        return None, None, None
    recall, specificity = sums[0] / sums[1], sums[2] / sums[3]
    return recall, specificity, math.sqrt(recall * specificity)
