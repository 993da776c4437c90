"""Tests of methods over streams: Friedman with Nemenyi (Demsar 2006), and the Bayesian signed-rank test.

A stream is a subject: a value is the mean of a method over the seeds of a stream. Ranks begin with 1 for the highest
value, and equal values share their ranks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare, rankdata, studentized_range

ALPHA = 0.05

ROPE = 0.01
"""Differences up to this size count as none: the region of practical equivalence."""

DRAWS = 10_000
"""Draws from the posterior."""

PRIOR_WEIGHT = 0.5
"""The weight of the pseudo-observation, a difference of 0, where each real one has 1 (Benavoli et al. 2017)."""

Doubles = NDArray[np.float64]


class Ranking(NamedTuple):
    """Friedman's test and what Nemenyi's test needs.

    Attributes:
        statistic: Friedman's chi-squared.
        p_value: Its p-value.
        ranks: The average rank of each method, float64 `[methods]`.
        critical_difference: Two methods differ at 5 % if their average ranks differ by more.
    """

    statistic: float
    p_value: float
    ranks: Doubles
    critical_difference: float


def ranking_of(values: Doubles) -> Ranking:
    """Return the tests of values, float64 `[streams, methods]` with at least three methods."""
    subjects, methods = values.shape
    result = friedmanchisquare(*values.T)
    quantile = float(studentized_range.ppf(1.0 - ALPHA, methods, np.inf)) / np.sqrt(2.0)
    distance = quantile * np.sqrt(methods * (methods + 1) / (6.0 * subjects))
    ranks: Doubles = rankdata(-values, axis=1).mean(axis=0)
    return Ranking(float(result.statistic), float(result.pvalue), ranks, float(distance))


class Posterior(NamedTuple):
    """How probable it is that a method is lower than another, practically the same, or higher; the sum is 1.

    Attributes:
        lower: That its difference is typically below -`ROPE`.
        same: That it lies between -`ROPE` and `ROPE`.
        higher: That it is above `ROPE`.
    """

    lower: float
    same: float
    higher: float


def signed_rank(differences: Doubles, seed: int = 0) -> Posterior:
    """Return the Bayesian signed-rank test (Benavoli, Corani, Demsar and Zaffalon, JMLR 2017).

    The distribution of differences has a Dirichlet process as its prior. A draw gives each difference, and a
    pseudo-observation of 0, a weight; the share of a region is the weight of all pairs whose mean difference lies in
    it. The probability of a region is the share of draws in which it has the largest share.

    Args:
        differences: One method less the other, float64 `[streams]`.
        seed: Of the draws.
    """
    own = np.append(0.0, differences)
    draws = np.random.default_rng(seed)
    weights = draws.standard_exponential((len(own), DRAWS))  # a Dirichlet distribution is of gamma ones, divided
    weights[0] = draws.standard_gamma(PRIOR_WEIGHT, DRAWS)
    order = np.argsort(own)
    own, weights = own[order], weights[order] / weights.sum(axis=0)
    below = np.vstack([np.zeros(DRAWS), np.cumsum(weights, axis=0)])
    lower = (weights * below[np.searchsorted(own, -2.0 * ROPE - own, side="left")]).sum(axis=0)
    higher = 1.0 - (weights * below[np.searchsorted(own, 2.0 * ROPE - own, side="right")]).sum(axis=0)
    largest = np.stack([lower, 1.0 - lower - higher, higher]).argmax(axis=0)
    shares = np.bincount(largest, minlength=3) / DRAWS
    return Posterior(*map(float, shares))
