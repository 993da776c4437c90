"""Tests that find out which learners differ: the paper's tests, and tests that do not assume sphericity.

The paper uses a one-way repeated-measures ANOVA (statsmodels' `AnovaRM`), and if it finds a difference, Fisher's least
significant difference: pairwise t-tests on the same repetitions (SciPy's `ttest_rel`) without a correction for multiple
comparisons. We also use Friedman's test, and if it finds a difference, Wilcoxon's signed-rank tests on all pairs with
Holm's correction. A repetition is a subject: all learners saw the same data in it.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05

Pairs = Mapping[tuple[str, str], float]
"""The p-values by pairs of learners, in the order of the learners."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An omnibus test with its pairwise tests.

    Attributes:
        statistic: F or chi-squared; NaN if nothing differs at all.
        p_value: The p-value of the omnibus test.
        pairs: p-values of the pairwise tests.
        best: The learner with the highest mean, and all that are not significantly worse.
    """

    statistic: float
    p_value: float
    pairs: Pairs
    best: frozenset[str]


def fisher(values: NDArray[np.float64], learners: Sequence[str]) -> Comparison:
    """Compare learners by a repeated-measures ANOVA and Fisher's least significant difference.

    Args:
        values: float64 `[repetitions, learners]`.
        learners: Their names.
    """
    from scipy.stats import ttest_rel  # noqa: PLC0415  (an optional extra)

    statistic, p_value = _anova(values, learners)
    pairs = {
        (learners[one], learners[two]): _p_value(ttest_rel, values[:, one], values[:, two])
        for one, two in combinations(range(len(learners)), 2)
    }
    return Comparison(statistic, p_value, pairs, _best(values, learners, p_value, pairs))


def paired_difference(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the p-value of Fisher's test of a single pair: two learners on the same repetitions."""
    from scipy.stats import ttest_rel  # noqa: PLC0415  (an optional extra)

    return _p_value(ttest_rel, one, two)


def friedman(values: NDArray[np.float64], learners: Sequence[str]) -> Comparison:
    """Compare learners by Friedman's test and Wilcoxon's signed-rank tests with Holm's correction; see `fisher`."""
    from scipy.stats import friedmanchisquare, wilcoxon  # noqa: PLC0415  (an optional extra)
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415

    statistic, p_value = float("nan"), 1.0
    if len(learners) > 2 and len(values) > 1 and (values != values[:, :1]).any():
        result = friedmanchisquare(*values.T)
        statistic, p_value = float(result.statistic), float(result.pvalue)
    elif len(learners) == 2:
        p_value = _p_value(wilcoxon, values[:, 0], values[:, 1])
    names = [(learners[one], learners[two]) for one, two in combinations(range(len(learners)), 2)]
    raw = [_p_value(wilcoxon, values[:, one], values[:, two]) for one, two in combinations(range(len(learners)), 2)]
    corrected = multipletests(raw, method="holm")[1].tolist() if raw else []
    pairs = dict(zip(names, corrected, strict=True))
    return Comparison(statistic, p_value, pairs, _best(values, learners, p_value, pairs))


class OneDraw(NamedTuple):
    """A joint test of one draw: its squared Mahalanobis distance D² from the mean of other draws, and the p-value."""

    distance: float
    p_value: float


def one_draw(values: NDArray[np.float64], drawn: Sequence[float]) -> OneDraw:
    """Test whether a vector is another draw of the normal distribution that n vectors were drawn from.

    Hotelling's T² for a single further observation: D² n (n - d) / ((n + 1) d (n - 1)) is F-distributed with d and
    n - d degrees of freedom. Components that are the same in all n vectors are left out if the vector has the same
    value there; otherwise it cannot be another draw.

    Args:
        values: float64 `[n, d]`, the draws; n > d.
        drawn: The vector.
    """
    from scipy.stats import f  # noqa: PLC0415  (an optional extra)

    given = np.asarray(drawn, float)
    varies = (values != values[:1]).any(axis=0)
    if (given[~varies] != values[0, ~varies]).any():
        return OneDraw(float("inf"), 0.0)
    if not varies.any():
        return OneDraw(0.0, 1.0)
    values, given = values[:, varies], given[varies]
    count, width = values.shape
    away = given - values.mean(axis=0)
    distance = float(away @ np.linalg.solve(np.atleast_2d(np.cov(values, rowvar=False)), away))
    statistic = distance * count * (count - width) / ((count + 1) * width * (count - 1))
    return OneDraw(distance, float(f.sf(statistic, width, count - width)))


def _anova(values: NDArray[np.float64], learners: Sequence[str]) -> tuple[float, float]:
    """Return F and p of the ANOVA; NaN and 1 if there is nothing to test."""
    import pandas as pd  # noqa: PLC0415  (an optional extra)
    from statsmodels.stats.anova import AnovaRM  # noqa: PLC0415

    count, width = values.shape
    if count < 2 or width < 2 or (values == values[:, :1]).all():
        return float("nan"), 1.0
    if (values == values[:1]).all():
        return float("inf"), 0.0  # no repetition differs from another, but the learners do
    table = pd.DataFrame(
        {
            "repetition": np.repeat(np.arange(count), width),
            "learner": np.tile(np.array(learners, object), count),
            "value": values.reshape(-1),
        }
    )
    row = AnovaRM(table, "value", "repetition", within=["learner"]).fit().anova_table.iloc[0]
    return float(row["F Value"]), float(row["Pr > F"])


def _p_value(test: object, one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the p-value of a paired test; 1 if all pairs are equal, 0 if all differ by the same amount."""
    difference = one - two
    if len(difference) < 2 or not difference.any():
        return 1.0
    if (difference == difference[0]).all() and getattr(test, "__name__", "") == "ttest_rel":
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # SciPy warns about ties and tiny variances, but its p-values are the ones to use
        return float(test(one, two).pvalue)  # type: ignore[operator]  # SciPy's tests share no published type


def _best(values: NDArray[np.float64], learners: Sequence[str], p_value: float, pairs: Pairs) -> frozenset[str]:
    first = learners[int(values.mean(axis=0).argmax())]
    if not p_value < ALPHA:
        return frozenset(learners)
    together = {name for pair, p in pairs.items() if first in pair and not p < ALPHA for name in pair}
    return frozenset({first} | together)
