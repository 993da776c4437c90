"""Figures that rate scores, not classes: average precision, recall at a fixed alert budget, and Brier score."""

import numpy as np
from numpy.typing import NDArray

RANKINGS = ("average_precision", "recall_at_budget", "brier")

BLOCK_EXAMPLES = 1_000
"""The alert budget is spent in each block of so many examples, as a team spends it each day."""

ALERTS_PER_POSITIVE = 2.0
"""The alert budget of a stream: so many alerts for each positive example that it has."""


def rankings_of(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> NDArray[np.float32]:
    """Compute the figures of all learners.

    Args:
        scores: float32 `[learners, n]`, P(class 1) on arrival.
        labels: int8 `[n]`.

    Returns:
        float32 `[learners, 3]` by `RANKINGS`; NaN if a class does not occur.
    """
    if not 0 < int(labels.sum()) < len(labels):
        return np.full((len(scores), len(RANKINGS)), np.nan, np.float32)
    rows = [(average_precision(row, labels), recall_at_budget(row, labels), brier(row, labels)) for row in scores]
    return np.array(rows, np.float32)


def average_precision(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> float:
    """Return the area below the precision-recall curve: precision at each distinct score, weighted by added recall."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    found = np.cumsum(labels[order], dtype=np.int64)[ends]
    added = np.diff(found, prepend=0)
    return float((added * found / (ends + 1)).sum() / found[-1])


def recall_at_budget(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> float:
    """Return the share of positives among the alerts: the examples of each block with the highest scores.

    Of equal scores at the edge of the budget each is an alert with the same probability.
    """
    positives = int(labels.sum())
    share = min(1.0, ALERTS_PER_POSITIVE * positives / len(labels))
    hits = 0.0
    for first in range(0, len(labels), BLOCK_EXAMPLES):
        own, truth = scores[first : first + BLOCK_EXAMPLES], labels[first : first + BLOCK_EXAMPLES]
        _, groups, sizes = np.unique(own, return_inverse=True, return_counts=True)
        expected = (np.bincount(groups, truth) / sizes)[groups][np.argsort(-own, kind="stable")]
        budget = share * len(own)
        whole = int(budget)
        hits += float(expected[:whole].sum())
        if whole < len(own):
            hits += (budget - whole) * float(expected[whole])
    return hits / positives


def brier(scores: NDArray[np.float32], labels: NDArray[np.int8]) -> float:
    """Return the mean squared difference between score and class; 0 is perfect."""
    return float(((scores.astype(np.float64) - labels) ** 2).mean())
