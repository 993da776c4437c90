"""The values of the metrics: written by the worker's thread between rounds, read by a server's at each scrape."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import NamedTuple, TypeAlias

from stream_app.worker.reports import metrics
from stream_app.worker.reports.metric_declaration import MetricDeclaration, MetricKind

Labels: TypeAlias = tuple[str, ...]
"""The values of a metric's labels, in the order of its declaration."""

Values: TypeAlias = Mapping[MetricDeclaration, Mapping[Labels, float]]

COMMIT_BOUNDS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
"""Upper bounds of the buckets of the commits' duration; a commit on a quiet broker takes 5 ms, the longest 15 s."""


class _Histogram(NamedTuple):
    """The cumulative counts of a histogram by upper bound, the last one without a bound, and the sum of all values."""

    buckets: Sequence[tuple[str, float]]
    total: float


class Figures:
    """The values of all declared metrics."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[MetricDeclaration, dict[Labels, float]] = {metric: {} for metric in metrics.METRICS}
        self._commits = [0] * (len(COMMIT_BOUNDS_S) + 1)
        self._commits_s = 0.0

    def add(self, metric: MetricDeclaration, amount: float, **labels: str | int) -> None:
        """Increase a counter; see `set`."""
        key = _values_of(metric, labels)
        with self._lock:
            values = self._values[metric]
            values[key] = values.get(key, 0.0) + amount

    def set(self, metric: MetricDeclaration, value: float, **labels: str | int) -> None:
        """Set the value of a gauge.

        Args:
            metric: A declared metric.
            value: Its value, in the metric's unit.
            labels: A value for each label of the metric, in any order.

        Raises:
            AssertionError: The labels are not those of the metric.
        """
        key = _values_of(metric, labels)
        with self._lock:
            self._values[metric][key] = value

    def unset(self, metric: MetricDeclaration, **labels: str | int) -> None:
        """Delete the value of a gauge, if it has one; see `set`."""
        key = _values_of(metric, labels)
        with self._lock:
            self._values[metric].pop(key, None)

    def observe_commit(self, seconds: float) -> None:
        """Add the duration of a commit to the histogram."""
        with self._lock:
            self._commits[bisect_left(COMMIT_BOUNDS_S, seconds)] += 1
            self._commits_s += seconds

    def drop_task(self, task: int) -> None:
        """Delete the gauges of a task, which another worker reports from now on; counters never fall."""
        self._drop(task, "task")

    def drop_streams(self, task: int) -> None:
        """Delete the values of the streams of a task, which is no longer live."""
        self._drop(task, "stream")

    def _drop(self, task: int, label: str) -> None:
        with self._lock:
            for metric, values in self._values.items():
                if "task" in metric.labels and label in metric.labels and not _is_kept(metric):
                    column = metric.labels.index("task")
                    for key in [key for key in values if key[column] == str(task)]:
                        del values[key]

    def values(self) -> Values:
        """Return a consistent copy of all values but the histogram's."""
        with self._lock:
            return {metric: dict(values) for metric, values in self._values.items()}

    def commits(self) -> _Histogram:
        """Return the histogram of the commits' duration."""
        with self._lock:
            counts, total = accumulate(self._commits), self._commits_s
            bounds = (*(f"{bound:g}" for bound in COMMIT_BOUNDS_S), "+Inf")
            return _Histogram([*zip(bounds, map(float, counts), strict=True)], total)


def _values_of(metric: MetricDeclaration, labels: Mapping[str, str | int]) -> Labels:
    """Return label values as printable text: names of streams are unchecked and may hold control characters."""
    if labels.keys() != {*metric.labels}:
        raise AssertionError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
    texts = tuple(str(labels[name]) for name in metric.labels)
    if "".join(texts).isprintable():
        return texts
    return tuple(text if text.isprintable() else repr(text) for text in texts)


def _is_kept(metric: MetricDeclaration) -> bool:
    """Say whether the values of a task that was revoked stay: counters do, but not by stream, which would pile up."""
    return metric.kind is MetricKind.COUNTER and "stream" not in metric.labels
