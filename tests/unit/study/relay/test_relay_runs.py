"""RELAY against AREBA_20: which runs there are, and how they are counted."""

from pathlib import Path

import numpy as np
import pytest

from study.relay.__main__ import main
from study.relay.runs import RESULTS, RUNS, runs
from study.relay.verdicts import LEARNERS, Score, learners_of, read_results, verdicts, write_results


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
    assert [one.result for one in both] == ["not significant", "better", "not significant"]
    assert [one.result for one in verdicts([clear[:, ::-1]])] == ["worse"]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The committed file is what a reader can check the claims with."""
    score = Score(np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0.5, 0.6], [0.7, 0.8]]))
    write_results({"sine": score}, tmp_path / "relay.csv")
    found = read_results(tmp_path / "relay.csv")["sine"]
    assert np.array_equal(found.final, score.final)
    assert np.array_equal(found.average, score.average)
    assert learners_of(tmp_path / "relay.csv") == list(LEARNERS)


def _scores(gain: float, less: tuple[str, ...] = (), repetitions: int = 20) -> dict[str, Score]:
    """Return figures of all runs: RELAY is better by `gain`, and worse by as much on the runs in `less`."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(repetitions, 2))
    found = {}
    for name, _ in RUNS:
        figures = 0.5 + noise + [0.0, -gain if name in less else gain]
        found[name] = Score(figures, figures)
    return found


def test_claims_fail_when_the_figures_do() -> None:
    """A page whose claims hold whatever the figures are would be an advertisement."""
    pytest.importorskip("scipy")
    from study.report.rivals.relay import claims  # noqa: PLC0415  (matplotlib takes a second)

    unseen = {f"kind {number}": Score(np.array([[0.5, 0.6]]), np.array([[0.5, 0.6]])) for number in range(6)}
    assert [holds for _, _, holds in claims(_scores(0.2), unseen)] == [True] * 6
    lost = tuple(name for name, _ in RUNS if name.startswith(("sine", "real")))
    found = claims(_scores(0.2, lost), unseen)
    assert {count for _, count, _ in found[:3]} == {str(55 - len(lost))}
    assert [holds for _, _, holds in found] == [False, 55 - len(lost) >= 30, False, False, False, True]
    assert not claims(_scores(0.2), {name: Score(one.final[:, ::-1], one.average) for name, one in unseen.items()})[5][
        2
    ]


@pytest.mark.slow(20)
def test_the_page_has_every_run_and_its_losses(tmp_path: Path) -> None:
    """A reader must find each run that RELAY loses, and the first result beside the second."""
    pytest.importorskip("scipy")
    from study.relay.unseen_streams import kinds  # noqa: PLC0415  (as above)
    from study.report.rivals.relay import write_relay  # noqa: PLC0415  (matplotlib takes a second)

    assert not write_relay(tmp_path, tmp_path)
    write_results(_scores(0.2, ("share-1",), 30), tmp_path / "relay.csv")
    write_results(_scores(-0.2), tmp_path / "relay_first.csv")
    unseen = {name: Score(np.full((2, 4), 0.5), np.full((2, 4), 0.5)) for name in kinds()}
    learners = ("areba_20", "relay", "relay_without_challenger", "relay_without_gates")
    write_results(unseen, tmp_path / "relay_unseen.csv", learners)
    assert write_relay(tmp_path, tmp_path)
    text = (tmp_path / "relay.md").read_text(encoding="utf-8")
    assert sum(f"| {name} (30) |" in text for name, _ in RUNS) == 55
    assert "higher at the end on share-1 (" in text
    assert all(text.count(f"| {name} (2) |") == (1 if kind.group == "real" else 3) for name, kind in kinds().items())
    assert "| 2: better at the end on at least 30 runs | **fails**: 0 | holds: 54 |" in text
    assert (tmp_path / "relay.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_gives_the_committed_figures(tmp_path: Path) -> None:
    """AREBA's figures on the page are those of this program; RELAY's are of RELAY before it changed (relay.md)."""
    pytest.importorskip("scipy")
    path = tmp_path / "relay.csv"
    assert main(["sine-1-prior", "--repetitions", "1", "--store", str(tmp_path), "--results", str(path)]) == 0
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == 2
    with pytest.raises(SystemExit):
        main(["sine-1-priors"])
    committed = RESULTS.read_text(encoding="utf-8").splitlines()
    assert lines[0] in committed
    (relay,) = (line for line in committed if line.startswith("sine-1-prior,0,relay,"))
    for now, before in zip(lines[1].split(",")[3:], relay.split(",")[3:], strict=True):
        assert float(now) == pytest.approx(float(before), abs=0.03)
