"""The figures of a window, from its sums: compiled code computes what needs the histograms, Python the rest.

Recall, specificity and the histograms belong to one class each, and say nothing of how often a class comes. Figures of
an alert as a whole (precision, F1, kappa, average precision) also need the prevalence, the share of class 1. With
prevalence p, recall r and specificity s, the share of examples that are right alarms is p r, and that of false alarms
(1 - p) (1 - s): precision is p r / (p r + (1 - p) (1 - s)). So these figures use all labels of each class that the
window has, and not only the few of the rare class among its last labels. Without fading, they are the figures of the
confusion matrix.

ROC AUC (Fawcett 2006) is the chance that an example of class 1 has a higher score than an example of class 0. Average
precision is the mean, over the examples of class 1, of the precision at their own score as the threshold. In both, half
of the other scores in the same bin count as higher.
"""

from collections.abc import Sequence

import numpy as np

from stream_app.arrays import Doubles
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Pointer
from stream_app.join.score_bins import BINS
from stream_app.metric_windows import figures_of_sums


@inlined_without_refcounts
def roc_auc(positives: Pointer, negatives: Pointer) -> float:
    """Return the area below the ROC curve of two histograms of scores; NaN if one of them is empty."""
    area = positive = negative = 0.0
    for row in range(BINS):
        area += positives[row] * (negative + 0.5 * negatives[row])
        positive += positives[row]
        negative += negatives[row]
    return area / (positive * negative) if positive > 0.0 and negative > 0.0 else np.nan


@inlined_without_refcounts
def average_precision(positives: Pointer, negatives: Pointer, prevalence: float) -> float:
    """Return the average precision of two histograms of scores at a prevalence; NaN if one of them is empty."""
    positive = negative = 0.0
    for row in range(BINS):
        positive += positives[row]
        negative += negatives[row]
    if not (positive > 0.0 and negative > 0.0):
        return np.nan
    hit, alarm = prevalence / positive, (1.0 - prevalence) / negative
    total = above = below = 0.0
    for k in range(BINS):
        row = BINS - 1 - k
        if positives[row] > 0.0 and hit > 0.0:
            hits, alarms = hit * (above + 0.5 * positives[row]), alarm * (below + 0.5 * negatives[row])
            total += positives[row] * (hits / (hits + alarms))
        above += positives[row]
        below += negatives[row]
    return total / positive


def windows_of(factors: Sequence[float], reports: Doubles) -> Doubles:
    """Return the figures of windows, `[..., w, WINDOW_COLUMNS]`, from their numbers at reports.

    Args:
        factors: The w fading factors.
        reports: float64 `[..., w, 10]`, by `prequential.REPORT_COLUMNS`.
    """
    sums, (positives, labels, area, average, costs, costed) = reports[..., :4], np.moveaxis(reports[..., 4:], -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        prevalence = np.where(labels > 0.0, positives / labels, 0.0)
        cost = np.where(costed > 0.0, costs / costed, np.nan)
    return figures_of_sums(
        np.array(factors), sums, prevalence, roc_auc=area, average_precision=average, cost_per_example=cost
    )
