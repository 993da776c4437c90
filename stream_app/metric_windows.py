"""The figures of a window that follow from its prequential sums and the prevalence, of a stream or of its lanes."""

import math
from dataclasses import fields
from typing import Any

import numpy as np

from stream_app.arrays import Doubles
from stream_app.records import MetricWindow

WINDOW_COLUMNS = tuple(field.name for field in fields(MetricWindow))
"""The figures of a window in a row of float64; NaN stands for None."""


def figures_of_sums(
    fading_factor: Doubles | float,
    sums: Doubles,
    prevalence: Doubles | float,
    *,
    roc_auc: Doubles | float,
    average_precision: Doubles | float,
    cost_per_example: Doubles | float,
) -> Doubles:
    """Return the figures of windows with these sums: float64 `[..., WINDOW_COLUMNS]`, NaN for what is not known.

    With prevalence p, recall r and specificity s, precision is p r / (p r + (1 - p) (1 - s)); see
    `pipeline.window_figures`. Without the columns of `sums`, the shapes of all arguments broadcast.

    Args:
        fading_factor: Of the windows.
        sums: `positive_correct`, `positive_total`, `negative_correct` and `negative_total`.
        prevalence: The share of class 1; it does not count before both classes were seen.
        roc_auc: NaN: not known.
        average_precision: Likewise.
        cost_per_example: Likewise.
    """
    positive_correct, positive_total, negative_correct, negative_total = np.moveaxis(sums, -1, 0)
    both = (positive_total > 0.0) & (negative_total > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall = np.where(both, positive_correct / positive_total, np.nan)
        specificity = np.where(both, negative_correct / negative_total, np.nan)
        share = np.where(both, prevalence, np.nan)
        hits, rest = share * recall, 1.0 - share
        alarms = hits + rest * (1.0 - specificity)
        chance = share * alarms + rest * (1.0 - alarms)
        figures = {
            "fading_factor": fading_factor,
            "recall": recall,
            "specificity": specificity,
            "gmean": np.sqrt(recall * specificity),
            "prevalence": share,
            "precision": np.where(alarms > 0.0, hits / alarms, np.nan),
            "f1": np.where(share > 0.0, 2.0 * hits / (alarms + share), np.nan),
            "kappa": np.where(chance < 1.0, (hits + rest * specificity - chance) / (1.0 - chance), np.nan),
            "roc_auc": roc_auc,
            "average_precision": average_precision,
            "cost_per_example": cost_per_example,
            "positive_correct": positive_correct,
            "positive_total": positive_total,
            "negative_correct": negative_correct,
            "negative_total": negative_total,
        }
    return np.stack(np.broadcast_arrays(*(figures[name] for name in WINDOW_COLUMNS)), axis=-1)


def window_of(figures: Doubles) -> MetricWindow:
    """Return one window from its row of figures, float64 `[WINDOW_COLUMNS]`."""
    plain: dict[str, Any] = {
        name: None if math.isnan(figure) else figure
        for name, figure in zip(WINDOW_COLUMNS, figures.tolist(), strict=True)
    }
    return MetricWindow(**plain)
