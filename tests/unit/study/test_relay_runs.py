"""RELAY against AREBA_20: which runs there are, and how they are counted."""

from pathlib import Path

import numpy as np
import pytest

from study.relay import LEARNERS, RESULTS, Score, read_results, runs, verdicts, write_results


def test_the_registered_runs_are_all_there() -> None:
    """A run that silently leaves the list would change the counts that the claims are about."""
    found = list(runs())
    assert len({run.name for run, _ in found}) == len(found) == 55
    assert all(tuple(run.experiment.methods) == LEARNERS for run, _ in found)
    assert set(read_results(RESULTS)) == {run.name for run, _ in found}


def test_verdicts_have_holms_correction() -> None:
    """Of 55 tests at 5 %, three would find a difference where there is none."""
    pytest.importorskip("scipy")
    noise = np.array([0.01, -0.01, 0.02, -0.02, 0.0, 0.01, -0.01, 0.02])
    clear = np.column_stack([0.5 + 0 * noise, 0.7 + noise])
    doubtful = np.column_stack([0.5 + 0 * noise, 0.511 + noise])  # p is .037 alone, .074 beside another
    assert [one.result for one in verdicts([doubtful])] == ["better"]
    both = verdicts([doubtful, clear, doubtful])
    assert [one.result for one in both] == ["not told apart", "better", "not told apart"]
    assert [one.result for one in verdicts([clear[:, ::-1]])] == ["worse"]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The committed file is what a reader can check the claims with."""
    score = Score(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0.5, 0.6], [0.7, 0.8]]))
    write_results({"sine": score}, tmp_path / "relay.csv")
    found = read_results(tmp_path / "relay.csv")["sine"]
    assert np.array_equal(found.final, score.final)
    assert np.array_equal(found.average, score.average)
