"""What RELAY's short memory is worth, and what RELAY's page says about it."""

import numpy as np
import pytest

from study.relay.short import FIGURES, NAMES, REPETITIONS, RESULTS, RUNS, lines_of, measured, read
from study.run.experiment import load_all
from tests.support.documents import ROOT


def test_the_lowest_figure_is_that_after_the_drift() -> None:
    """A start at 0 would hide how deep a drift reaches; so would sums that start again."""
    experiments = {experiment.name: experiment for experiment in load_all()}
    drifting, steady = (measured(experiments[name], 0) for name in ("sine-1-posterior", "sine-1-stationary"))
    assert drifting.shape == (len(NAMES), len(FIGURES))
    assert (drifting[:, 2] < drifting[:, 0]).all()
    assert (drifting[:, 2] > 0.0).any()
    assert np.isnan(steady[:, 2]).all()


def test_the_page_has_the_tables_of_the_committed_figures() -> None:
    """Otherwise the page would say something about the short memory that no committed figure shows."""
    pytest.importorskip("scipy")
    figures = read(RESULTS)
    assert list(figures) == list(RUNS)
    assert all(own.shape == (REPETITIONS, len(NAMES), len(FIGURES)) for own in figures.values())
    page = (ROOT / "study" / "relay.md").read_text(encoding="utf-8").splitlines()
    assert set(lines_of(figures)) <= set(page)
