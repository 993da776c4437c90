"""The figures of a window that follow from its prequential sums and the prevalence, of a stream or of its lanes."""

import math

from stream_app.records import MetricWindow


def window_of_sums(
    fading_factor: float,
    sums: tuple[float, float, float, float],
    prevalence: float,
    *,
    roc_auc: float | None = None,
    average_precision: float | None = None,
    cost_per_example: float | None,
) -> MetricWindow:
    """Return the window with these sums.

    With prevalence p, recall r and specificity s, precision is p r / (p r + (1 - p) (1 - s)); see
    `pipeline.window_figures`.

    Args:
        fading_factor: Of the window.
        sums: `positive_correct`, `positive_total`, `negative_correct` and `negative_total`.
        prevalence: The share of class 1; it does not count before both classes were seen.
        roc_auc: None: not known.
        average_precision: Likewise.
        cost_per_example: Likewise.
    """
    positive_correct, positive_total, negative_correct, negative_total = sums
    recall = specificity = gmean = share = precision = f1 = kappa = None
    if positive_total > 0.0 and negative_total > 0.0:
        recall, specificity = positive_correct / positive_total, negative_correct / negative_total
        gmean = math.sqrt(recall * specificity)
        share = prevalence
        hits, rest = share * recall, 1.0 - share
        alarms = hits + rest * (1.0 - specificity)
        precision = hits / alarms if alarms > 0.0 else None
        f1 = 2.0 * hits / (alarms + share) if share > 0.0 else None
        chance = share * alarms + rest * (1.0 - alarms)
        kappa = (hits + rest * specificity - chance) / (1.0 - chance) if chance < 1.0 else None
    return MetricWindow(
        fading_factor=fading_factor,
        recall=recall,
        specificity=specificity,
        gmean=gmean,
        prevalence=share,
        precision=precision,
        f1=f1,
        kappa=kappa,
        roc_auc=roc_auc,
        average_precision=average_precision,
        cost_per_example=cost_per_example,
        positive_correct=positive_correct,
        positive_total=positive_total,
        negative_correct=negative_correct,
        negative_total=negative_total,
    )
