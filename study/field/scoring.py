"""The measures of one repetition.

Every measure is the mean over consecutive windows of 1,000 examples. The first window begins at the first example by
which both classes have come; examples before it give no credit, and a last window that is not full is left out. So is
a window without an example of both classes. The survey's windows have 500 examples, in which 1 % are five.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from study.report.scores import curves_of, first_of_both
from study.run.ranking import average_precision
from study.selective.scoring import kappa

WINDOW = 1_000


class Measures(NamedTuple):
    """The measures, from 0 (Kappa: -1) to 1.

    Attributes:
        gmean: The geometric mean of recall and specificity.
        kappa: Cohen's kappa.
        roc_auc: The area under the ROC curve; NaN for a method that only gives classes.
        average_precision: The area under the precision-recall curve; NaN for a method that only gives classes.
        gmean_faded: The study's G-mean, faded by 0.99 at each example, on average over all scored examples.
    """

    gmean: float
    kappa: float
    roc_auc: float
    average_precision: float
    gmean_faded: float


def measures_of(classes: NDArray[np.int8], scores: NDArray[np.float32] | None, labels: NDArray[np.int8]) -> Measures:
    """Return the measures.

    Args:
        classes: int8 `[n]`, what was predicted on arrival.
        scores: float32 `[n]`, what ranks the examples; None: the method only gives classes.
        labels: int8 `[n]`, the true classes; both must occur in some window.
    """
    first = first_of_both(labels)
    true = _windows(labels, first) == 1
    chosen = true.any(axis=1) & ~true.all(axis=1)
    true, said = true[chosen], _windows(classes, first)[chosen] == 1
    auc = precision = float("nan")
    if scores is not None:
        own = _windows(scores, first)[chosen]
        auc = float(roc_aucs(own, true).mean())
        precision = float(np.mean([average_precision(*window) for window in zip(own, true, strict=True)]))
    faded = curves_of(classes, labels, first=first).gmean[first:].mean()
    agreed = float(np.mean([kappa(*window) for window in zip(said, true, strict=True)]))
    return Measures(float(_gmeans(said, true).mean()), agreed, auc, precision, float(faded))


def _windows(values: NDArray[Any], first: int) -> NDArray[Any]:
    """Return the windows of n values from one of them on, `[windows, WINDOW]`."""
    return values[first : len(values) - (len(values) - first) % WINDOW].reshape(-1, WINDOW)


def _gmeans(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> NDArray[np.float64]:
    recall = (said & true).sum(axis=1) / true.sum(axis=1)
    gmeans: NDArray[np.float64] = np.sqrt(recall * (~said & ~true).sum(axis=1) / (~true).sum(axis=1))
    return gmeans


def roc_aucs(scores: NDArray[np.float32], true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the area under the ROC curve of each window, float64 `[windows]`.

    It is the share of pairs of both classes whose positive example has the higher score; equal scores count half.

    Args:
        scores: float32 `[windows, WINDOW]`.
        true: bool `[windows, WINDOW]`; both classes occur in each window.
    """
    positives = true.sum(axis=1)
    above = (rankdata(scores, axis=1) * true).sum(axis=1) - positives * (positives + 1) / 2.0
    areas: NDArray[np.float64] = above / (positives * (true.shape[1] - positives))
    return areas
