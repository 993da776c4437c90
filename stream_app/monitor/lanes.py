"""The metric of a stream with lanes: the sum of the newest metrics of its lanes.

The prequential sums of a window are counts, so those of the lanes add up, and recall, specificity and G-mean follow
from them as in a single stream. Each lane fades its own labels, so eight lanes remember eight times as many. The
prevalence and the costs are means over faded labels: a lane counts by how many it has. What follows from histograms of
scores, from delays, or from the course of one lane is unknown of the sum (None): another figure would mislead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from stream_app.config import Config
from stream_app.metric_windows import figures_of_sums, window_of
from stream_app.records import Metric, MetricWindow


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of streams, and what their sums need.

    Attributes:
        names: The names of the lanes of each stream that has lanes.
        prevalence_fading: The setting `metrics.prevalence_fading_factor`.
    """

    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    prevalence_fading: float = 1.0

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the lanes of a configuration."""
        names = {stream: config.names_of(stream) for stream, settings in config.streams.items() if settings.lanes}
        return cls(names, config.metrics.prevalence_fading_factor)


NO_LANES = Lanes()

_COUNTS = ("labelled", "updates", "examples", "unlabelled", "evicted", "duplicates", "pending", "waiting", "changes")
_COUNTS_OF_QUEUES = ("positive_queue", "negative_queue", "positive_capacity", "negative_capacity")
_UNKNOWN = (
    "calibration_error",
    "delay_ms_p50",
    "delay_ms_p90",
    "delay_ms_p99",
    "change_flagged",
    "change_began",
    "gmean_before",
    "labels_to_recover",
    "drift_examples",
    "score_psi",
    "largest_feature_psi",
    "largest_feature",
    "features_drifted",
)


def sum_of_lanes(stream: str, lanes: Sequence[Metric], prevalence_fading: float) -> Metric:
    """Return the metric of a learner over the lanes of a stream.

    Args:
        stream: The stream.
        lanes: The newest metric of the learner in each lane that has one; at least one.
        prevalence_fading: The setting `metrics.prevalence_fading_factor`.
    """
    sums: dict[str, Any] = dict.fromkeys(_UNKNOWN)
    sums |= {name: sum(getattr(lane, name) for lane in lanes) for name in _COUNTS}
    sums |= {name: _sum_if_known([getattr(lane, name) for lane in lanes]) for name in _COUNTS_OF_QUEUES}
    labelled = [lane.labelled for lane in lanes]
    windows = zip(*(lane.windows for lane in lanes), strict=False)
    return replace(
        lanes[0],
        **sums,
        stream=stream,
        champion=all(lane.champion for lane in lanes),
        windows=tuple(_sum_of_windows(parts, labelled, prevalence_fading) for parts in windows),
        positive_size=sum(lane.positive_size for lane in lanes) / len(lanes),
        negative_size=sum(lane.negative_size for lane in lanes) / len(lanes),
        event_time_ms=max(lane.event_time_ms for lane in lanes),
    )


def _sum_if_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _sum_of_windows(windows: Sequence[MetricWindow], labelled: Sequence[int], prevalence_fading: float) -> MetricWindow:
    """Return the window of a stream from those of its lanes, which have so many labels each."""
    fading = windows[0].fading_factor
    weights = [_faded_labels(count, max(fading, prevalence_fading)) for count in labelled]
    right, positives, rejected, negatives = (
        sum(getattr(window, name) for window in windows)
        for name in ("positive_correct", "positive_total", "negative_correct", "negative_total")
    )
    cost = _mean(windows, weights, lambda window: window.cost_per_example)
    figures = figures_of_sums(
        fading,
        np.array([right, positives, rejected, negatives]),
        _mean(windows, weights, _prevalence) or 0.0,
        roc_auc=np.nan,
        average_precision=np.nan,
        cost_per_example=np.nan if cost is None else cost,
    )
    return window_of(figures)


def _faded_labels(count: int, fading: float) -> float:
    """Return what so many labels weigh together if each fades those before it."""
    return float(count) if fading >= 1.0 else (1.0 - fading**count) / (1.0 - fading)


def _prevalence(window: MetricWindow) -> float | None:
    """Return the share of class 1 in a lane, which does not publish it before it has seen both classes."""
    if window.prevalence is not None:
        return window.prevalence
    return None if window.positive_total == window.negative_total else float(window.positive_total > 0.0)


def _mean(
    windows: Sequence[MetricWindow], weights: Sequence[float], figure: Callable[[MetricWindow], float | None]
) -> float | None:
    """Return the weighted mean of a figure over the lanes that have it; None: no lane has it."""
    values = map(figure, windows)
    found = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    total = sum(weight for _, weight in found)
    return sum(value * weight for value, weight in found) / total if total > 0.0 else None
