"""The tests of the report against textbook figures, and in cases where there is nothing to test."""

import numpy as np
import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")

from study.statistics import fisher, friedman

ERRORS = np.array(
    [
        [45.0, 50.0, 55.0],
        [42.0, 42.0, 45.0],
        [36.0, 41.0, 43.0],
        [39.0, 35.0, 40.0],
        [51.0, 55.0, 59.0],
        [44.0, 49.0, 56.0],
    ]
)
"""A textbook's repeated-measures example: six people, before exercise, after three and after six months."""


@pytest.mark.slow(3)
def test_the_anova_is_that_of_the_textbook() -> None:
    """F(2, 10) = 12.53, p = 0.002: the repeated-measures ANOVA (an ordinary ANOVA has F = 1.5)."""
    result = fisher(ERRORS, ["before", "three", "six"])
    assert result.statistic == pytest.approx(12.534, abs=1e-3)
    assert result.p_value == pytest.approx(0.001886, abs=1e-5)


@pytest.mark.slow(1)
def test_fishers_differences_are_paired_and_not_corrected() -> None:
    """Before less six months within people: mean -6.8333, deviation 4.1673, so t(5) = -4.0165 and p = 0.0101."""
    result = fisher(ERRORS, ["before", "three", "six"])
    assert result.pairs["before", "six"] == pytest.approx(0.01015, abs=1e-5)
    assert result.best == {"six"}


def test_friedman_and_holm() -> None:
    """Rank sums 7.5, 10.5 and 18: 9.75, divided by 1 - 6 / 144 for the one tie; Holm triples the smallest p-value."""
    result = friedman(ERRORS, ["before", "three", "six"])
    assert result.statistic == pytest.approx(9.75 / (1 - 6 / 144))
    assert result.p_value == pytest.approx(np.exp(-result.statistic / 2))
    smallest = min(result.pairs.values())
    assert smallest == pytest.approx(3 * 0.03125)
    assert all(smallest <= p_value <= 1.0 for p_value in result.pairs.values())


def test_learners_that_are_all_alike_are_all_best() -> None:
    """Forest ends at 1.0 for every learner: no division by zero, no false winner."""
    values = np.ones((5, 3))
    for comparison in (fisher(values, ["a", "b", "c"]), friedman(values, ["a", "b", "c"])):
        assert comparison.best == {"a", "b", "c"}
        assert comparison.p_value == 1.0
        assert set(comparison.pairs.values()) == {1.0}


def test_a_learner_that_never_varies_is_still_told_apart() -> None:
    """Fraud's figures have a deviation of 0.0000 in the paper: a certain difference is significant."""
    values = np.column_stack([np.full(8, 0.9), np.full(8, 0.8), np.full(8, 0.8)])
    result = fisher(values, ["a", "b", "c"])
    assert result.best == {"a"}
    assert result.pairs["b", "c"] == 1.0
    assert result.pairs["a", "b"] == 0.0


def test_one_repetition_decides_nothing() -> None:
    """A first look with --reps 1 must not end in an error, or mark anything as best."""
    values = np.array([[0.1, 0.9, 0.5]])
    assert fisher(values, ["a", "b", "c"]).best == {"a", "b", "c"}
    assert friedman(values, ["a", "b", "c"]).best == {"a", "b", "c"}
