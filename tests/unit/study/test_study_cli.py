"""`python -m study` as a user runs it: a folder of the user's own, progress, Ctrl-C, and a continued run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.keeper import KeptProcess

ROOT = Path(__file__).parents[3]

DEADLINE_S = 300.0
"""Time for child processes, which may have to compile first."""

EXPERIMENT = """\
title: A small one
group: drift
stream: {source: sine, length: 2000, imbalance: 10, drift: prior}
methods:
  areba_20: {method: areba, budget: 20}
  baseline:
repetitions: 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one experiment."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "small.yaml").write_text(EXPERIMENT)
    return tmp_path


def _command(folder: Path, *arguments: str) -> list[str]:
    own = ["--experiments", str(folder / "experiments"), "--store", str(folder / "store")]
    return [sys.executable, "-m", "study", *arguments, *own]


def _study(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        _command(folder, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def _files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "store").rglob("*.npz")}


def test_a_name_that_is_not_there_is_a_line(folder: Path) -> None:
    """The exit status is 2 with a line that says what to do, before anything is compiled."""
    result = _study(folder, "run", "smal")
    assert (result.returncode, result.stderr.strip()) == (
        2,
        "smal: no such experiment; `python -m study list` names them",
    )


def test_a_report_of_ones_own_does_not_replace_the_studys(folder: Path) -> None:
    """The committed report took hours; a forgotten option must not write another over it."""
    found = _study(folder, "report")
    assert found.returncode == 2
    assert "--results" in found.stderr


@pytest.mark.slow
def test_ctrl_c_loses_nothing(folder: Path) -> None:
    """Finished repetitions are kept and not run again, and the same command continues to the end."""
    process = KeptProcess(
        _command(folder, "run", "small", "--reps", "5000", "--jobs", "1"),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not _files(folder):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "the same command continues from there" in " ".join(said.split())
    before = _files(folder)
    wanted = len(before) + 2
    result = _study(folder, "run", "small", "--reps", str(wanted), "--jobs", "2")
    assert result.returncode == 0, result.stderr
    after = _files(folder)
    assert len(after) == wanted
    assert {path: after[path] for path in before} == before
    assert f"{wanted}/2" in _study(folder, "list").stdout
    assert "every repetition is finished" in _study(folder, "run", "small").stderr
