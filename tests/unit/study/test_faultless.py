"""What a classifier that never errs needs after a drift."""

import pytest

from study.faultless import PAGE, faultless, measured
from study.run.experiment import load_all, runs_of


@pytest.mark.slow(3)
def test_the_page_has_the_wait_of_the_studys_streams() -> None:
    """If it fails, run `python -m study.faultless` and read the page again."""
    run = next(run for run in runs_of(load_all()) if run.name == "sea-1-posterior")
    wait = faultless(run, measured()[run.name].level)
    assert f"| `{run.name}` | {measured()[run.name].level:.2f} | {wait:,} |" in PAGE.read_text(encoding="utf-8")
