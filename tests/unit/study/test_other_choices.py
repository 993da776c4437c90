"""The joint test of one draw, and the page that is made of the committed csv files."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("statsmodels", reason="the optional extra `study` is not installed")

from scipy.stats import t

from study import other_choices
from study.statistics import one_draw


def test_one_figure_is_the_test_of_a_further_observation() -> None:
    """With d = 1, T² is the square of Student's t of a new observation against n others."""
    drawn = np.array([[1.0], [2.0], [4.0], [5.0]])
    expected = 2 * t.sf((7.0 - 3.0) / (drawn.std(ddof=1) * np.sqrt(1 + 1 / 4)), 3)
    assert one_draw(drawn, [7.0]).p_value == pytest.approx(expected)


def test_a_true_further_draw_is_rejected_as_often_as_the_level_says() -> None:
    """Six figures that belong together, twenty repetitions: 5 % of true draws have p < 0.05."""
    random = np.random.default_rng(1)
    mixing = random.normal(size=(6, 6))
    tests = 2_000
    rejected = 0
    for _ in range(tests):
        values = random.normal(size=(21, 6)) @ mixing
        rejected += one_draw(values[:20], values[20].tolist()).p_value < 0.05
    assert rejected / tests == pytest.approx(0.05, abs=0.015)


def test_figures_that_never_vary() -> None:
    """Forest is 1.0000 in every repetition of every method: 1.0000 is such a draw, and 0.9999 is none."""
    ones = np.ones((10, 2))
    assert one_draw(ones, [1.0, 1.0]).p_value == 1.0
    assert one_draw(ones, [1.0, 0.9999]).p_value == 0.0


def test_the_page_has_what_the_csv_files_say() -> None:
    """If it fails, run `python -m study.other_choices` and read the page again."""
    page = Path(other_choices.PAGE).read_text(encoding="utf-8")
    for table in other_choices.tables():
        assert table in page
