"""Records of metrics as rows: the numbers of all learners at the reports of a stretch, and what follows from them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import NO_LONG, Doubles, Longs
from stream_app.join.constants import OutputKind
from stream_app.join.output import JoinOutput
from stream_app.pipeline.steps.evaluate import Scores
from stream_app.pipeline.steps.join_and_learn import LearnerAnswers
from stream_app.pipeline.steps.kept_records import segments_of
from stream_app.pipeline.steps.output_rows import Owners
from stream_app.pipeline.window_figures import windows_of
from stream_app.record_columns import METRIC_ROW, NO_INTEGER, MetricRows, Rows

_COUNTS = (
    "labelled",
    "examples",
    "unlabelled",
    "evicted",
    "duplicates",
    "pending",
    "waiting",
    "delay_ms_p50",
    "delay_ms_p90",
    "delay_ms_p99",
)
"""The columns that take the numbers of a row of `JoinOutput.reports`, in their order."""

_QUEUES = ("positive_queue", "negative_queue", "positive_capacity", "negative_capacity")
"""The columns that take the last numbers of a row of `LearnerAnswers.reports`."""

_EXAMPLES = _COUNTS.index("examples")

_LARGEST = 2.0**53
"""The largest count: only a damaged state has a larger one."""


def metric_rows(
    owners: Owners, out: JoinOutput, answers: LearnerAnswers, scores: Scores, drifts: Doubles, factors: Sequence[float]
) -> MetricRows:
    """Return the metrics of all learners at the reports of a stretch, in merge order.

    A stream that has no example yet has no metrics: it may have no learner, and where a batch was cut must not show.

    Args:
        owners: The streams and learners of s segments.
        out: The results of the join.
        answers: The answers of the learners.
        scores: Their figures at the reports.
        drifts: float64 `[reports, drift.FIGURES]`.
        factors: The fading factors of the windows.
    """
    streams, learners, numbers = owners
    segments = np.array(segments_of(out, OutputKind.REPORTS), np.int64)
    has_examples = out.reports[: len(segments), _EXAMPLES] > 0
    counts = np.where(has_examples, learners[segments], 0)
    report = np.repeat(np.arange(len(segments)), counts)
    learner = np.arange(len(report)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.argsort(scores.positions[report], kind="stable")
    report, learner = report[order], learner[order]
    own, rows = segments[report], np.empty(len(report), METRIC_ROW)
    rows["position"] = scores.positions[report]
    rows["stream"], rows["learner"] = streams[own], numbers[own, learner]
    rows["champion"] = learner == out.champions[own]
    for column, name in enumerate(_COUNTS):
        rows[name] = out.reports[report, column]
    rows["calibration_error"] = answers.calibration_errors[learner, report]
    _put_learners(rows, answers.reports[learner, report])
    _put_changes(rows, scores.changes[learner, report])
    _put_drifts(rows, drifts[report])
    return MetricRows(rows, windows_of(factors, scores.windows[learner, report]))


def _put_learners(rows: Rows, reports: Doubles) -> None:
    """Fill what learners report: float64 `[n, 7]`, updates, the sizes of both classes, and their queues."""
    rows["updates"], rows["positive_size"], rows["negative_size"] = reports[:, 0], reports[:, 1], reports[:, 2]
    has_queues = reports[:, 5] + reports[:, 6] > 0  # the capacity of a queue is at least 1
    for column, name in enumerate(_QUEUES, 3):
        rows[name] = np.where(has_queues, reports[:, column], NO_INTEGER)


def _put_changes(rows: Rows, changes: Doubles) -> None:
    """Fill the last change of each learner: float64 `[n, 5]`, by `degradation.REPORT_COLUMNS`; zeros: no change."""
    has_changed = changes[:, 0] > 0
    rows["changes"] = np.clip(np.nan_to_num(changes[:, 0]), 0.0, _LARGEST)
    rows["change_flagged"] = _longs(changes[:, 1], has_changed)
    rows["change_began"] = _longs(changes[:, 2], has_changed)
    rows["gmean_before"] = np.where(has_changed, changes[:, 3], np.nan)
    rows["labels_to_recover"] = _longs(changes[:, 4], has_changed)


def _put_drifts(rows: Rows, drifts: Doubles) -> None:
    """Fill the figures of the last window of inputs: float64 `[n, 5]`, see `drift.FIGURES`; NaN: no window yet."""
    has_window = ~np.isnan(drifts[:, 0])
    rows["drift_examples"] = _longs(drifts[:, 0], has_window)
    rows["score_psi"] = np.where(has_window, drifts[:, 1], np.nan)
    rows["largest_feature_psi"] = np.where(has_window, drifts[:, 2], np.nan)
    for column, name in ((3, "largest_feature"), (4, "features_drifted")):
        rows[name] = np.where(has_window, np.nan_to_num(drifts[:, column]), NO_INTEGER)


def _longs(numbers: Doubles, known: NDArray[np.bool_]) -> Longs:
    """Return whole numbers as they are, and `NO_LONG` where they are NaN or not known."""
    written = known & ~np.isnan(numbers)
    longs = np.clip(np.where(written, numbers, 0.0), 0.0, _LARGEST).astype(np.int64)
    longs[~written] = NO_LONG
    return longs
