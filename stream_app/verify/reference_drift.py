"""The drift of a stream in plain Python, from its examples and published scores; written apart from `pipeline.drift`.

The reference join sees the examples in the order of the task. At the end of each window it computes what features say,
and notes which of the champion's scores belong to reference and window: `metrics.drift` takes the scores
from the predictions. Features of a stream with columns are prepared by what was learned of the columns; the reference
join does not prepare them, so only a fresh run checks their figures.

Memory: the features of the reference and of a window; four bytes for each example of a stream with `drift`.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from stream_app.config import DriftSettings, StreamSettings

_BINS = 10
_ADDED = 0.0001


class ScoreRange(NamedTuple):
    """Which scores of the champion are compared: by number among all of the stream, resets or not, from 0."""

    reference: int
    window: int


class ExpectedDrift(NamedTuple):
    """What a record of metrics must say; `features` are the indices of the features, None: not known."""

    examples: int
    features: Sequence[float] | None
    scores: ScoreRange | None
    settings: DriftSettings


def stability_index(reference: Sequence[float], window: Sequence[float]) -> float:
    """Return the population stability index of two samples."""
    ordered = sorted(reference)
    edges = [_edge(ordered, len(ordered) * k // _BINS, k) for k in range(1, _BINS)]
    p, q = (_shares(sample, edges) for sample in (reference, window))
    return math.fsum((b - a) * math.log(b / a) for a, b in zip(p, q, strict=True))


def _edge(ordered: Sequence[float], place: int, number: int) -> float:
    """Return the largest value before a quantile, or before the end of the run of equal values around the quantile."""
    value = ordered[place]
    first, end = bisect_left(ordered, value), bisect_right(ordered, value)
    if first == 0 and end == len(ordered):
        return math.nextafter(value, -math.inf) if number == 1 else value
    takes_first = first > 0 and (end == len(ordered) or place - first <= end - place)
    return ordered[(first if takes_first else end) - 1]


def _shares(sample: Sequence[float], edges: Sequence[float]) -> list[float]:
    counts = Counter(bisect_left(edges, value) for value in sample)
    return [(counts[k] / len(sample) + _ADDED) / (1 + _BINS * _ADDED) for k in range(_BINS)]


@dataclass
class StreamDrift:
    """The references and the window of a stream.

    Attributes:
        settings: Its settings.
        has_features: Whether examples have arrays of features.
        expected: The figures of the last whole window.
    """

    settings: DriftSettings
    has_features: bool
    expected: ExpectedDrift | None = None
    _champion: str = ""
    _scores_since: int = -1
    _reference: list[Sequence[float]] = field(default_factory=list)
    _window: list[Sequence[float]] = field(default_factory=list)

    @classmethod
    def of(cls, settings: StreamSettings) -> Self | None:
        """Return the drift of a stream that begins here; None: it is not looked for."""
        return None if settings.drift is None else cls(settings.drift, has_features=not settings.columns)

    def observe(self, features: bytes, champion: str, earlier: int, examples: int, labels: int) -> None:
        """Take in an example.

        Args:
            features: Its features, float32.
            champion: The champion that predicted it.
            earlier: Examples of the stream before it was reset.
            examples: Examples since then, with this one.
            labels: Labels since then.
        """
        size, each = self.settings.reference_examples, self.settings.window_examples
        is_reference = len(self._reference) < size
        (self._reference if is_reference else self._window).append(array("f", features if self.has_features else b""))
        if champion != self._champion:
            self._champion, self._scores_since = champion, -1
            if self.expected is not None:
                self.expected = self.expected._replace(scores=None)
        if self._scores_since < 0 and labels >= size:
            self._scores_since = earlier + examples - 1
        if self.ends_window(examples):
            if len(self._window) == each:
                self.expected = self._expected(earlier, examples)
            self._window.clear()

    def ends_window(self, examples: int) -> bool:
        """Say whether a window ends with the example of this number."""
        return examples % self.settings.window_examples == 0

    def _expected(self, earlier: int, examples: int) -> ExpectedDrift:
        each = self.settings.window_examples
        columns = zip(zip(*self._reference, strict=True), zip(*self._window, strict=True), strict=True)
        features = [stability_index(*column) for column in columns] or None
        begin = earlier + examples - each
        has_scores = 0 <= self._scores_since <= begin - self.settings.reference_examples
        scores = ScoreRange(self._scores_since, begin) if has_scores else None
        return ExpectedDrift(examples, features, scores, self.settings)
