"""What records of metrics say about drift, against the examples as the reference join saw them and published scores."""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator

from stream_app.config import DriftSettings
from stream_app.records import Metric, Prediction
from stream_app.verify.output_checks import Output
from stream_app.verify.reference_drift import ExpectedDrift, ScoreRange, stability_index

_CLOSE = 1e-9
"""Logarithms of Python's library and of the task differ by a few units in the last place."""


class DriftScores:
    """The champion's scores of the streams with drift, from the predictions of a partition, in offset order."""

    def __init__(self, predictions: Iterable[Output[Prediction]]) -> None:
        self._predictions = iter(predictions)
        self._scores: defaultdict[str, array[float]] = defaultdict(lambda: array("f"))

    def index(self, stream: str, scores: ScoreRange, settings: DriftSettings) -> float | None:
        """Return the index of these scores; None if predictions are missing."""
        found, end = self._scores[stream], scores.window + settings.window_examples
        while len(found) < end:
            output = next(self._predictions, None)
            if output is None:
                return None
            if output.content.champion:
                self._scores[output.content.stream].append(output.content.score)
        reference = found[scores.reference : scores.reference + settings.reference_examples]
        return stability_index(reference, found[scores.window : end])


def drift_faults(metric: Metric, expected: ExpectedDrift | None, scores: DriftScores) -> Iterator[str]:
    """Yield what is wrong with the figures about drift."""
    published = (metric.score_psi, metric.largest_feature_psi, metric.largest_feature, metric.features_drifted)
    if expected is None:
        if (metric.drift_examples, *published) != (None,) * 5:
            yield "figures about drift without a whole window"
        return
    if metric.drift_examples != expected.examples:
        yield f"drift_examples is {metric.drift_examples}, the examples give {expected.examples}"
    index = None if expected.scores is None else scores.index(metric.stream, expected.scores, expected.settings)
    if not _agree(metric.score_psi, index):
        yield f"score_psi is {metric.score_psi}, predictions give {index}"
    if expected.features is None:
        return
    largest = max(expected.features)
    if not _agree(metric.largest_feature_psi, largest):
        yield f"largest_feature_psi is {metric.largest_feature_psi}, examples give {largest}"
    number = metric.largest_feature
    if number is None or number >= len(expected.features) or not _agree(expected.features[number], largest):
        yield f"largest_feature is {number}, examples give {expected.features.index(largest)}"
    threshold = expected.settings.threshold
    least, most = (sum(each > threshold + margin for each in expected.features) for margin in (_CLOSE, -_CLOSE))
    if metric.features_drifted is None or not least <= metric.features_drifted <= most:
        yield f"features_drifted is {metric.features_drifted}, examples give {least}"


def _agree(one: float | None, two: float | None) -> bool:
    if one is None or two is None:
        return one is two
    return math.isclose(one, two, rel_tol=_CLOSE, abs_tol=_CLOSE)
