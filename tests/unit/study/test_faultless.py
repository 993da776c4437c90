"""What a classifier that never errs needs after a drift."""

import numpy as np
import pytest

from study.faultless import PAGE, faultless, first_of_both, measured
from study.run.experiment import load_all, runs_of


def test_the_wait_counts_from_the_drift_until_both_classes_have_come() -> None:
    """Examples before the drift do not count, and without one of the classes the wait lasts to the end."""
    labels = np.array([1, 0, 0, 0, 1, 0], np.int8)
    assert first_of_both(labels, 0) == 2
    assert first_of_both(labels, 1) == 4
    assert first_of_both(labels, 5) == 1


@pytest.mark.slow(3)
def test_the_page_has_the_wait_of_the_studys_streams() -> None:
    """If it fails, run `python -m study.faultless` and read the page again."""
    run = next(run for run in runs_of(load_all()) if run.name == "sea-1-posterior")
    wait = faultless(run, measured()[run.name].level)
    assert f"| `{run.name}` | {measured()[run.name].level:.2f} | {wait:,} |" in PAGE.read_text(encoding="utf-8")
