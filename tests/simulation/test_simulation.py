"""A few dozen seeds, and proof that they can fail. `make simulate` runs thousands."""

import ast
import os
import subprocess
import sys

import pytest

from stream_app.learners.registry import METHODS
from tests.simulation.faults import Event, Fault
from tests.simulation.many import run_seed
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.hunt import hunt_one
from tests.simulation.mutants.mutant import ROOT, apply
from tests.simulation.worlds.shape import LEARNERS

FEW_SEEDS = 8
"""Some seconds of work."""


def test_some_seeds() -> None:
    """Committed outputs equal those of an undisturbed process, no matter what is killed, stalled, fenced or lost."""
    results = [run_seed(seed) for seed in range(FEW_SEEDS)]
    assert [(result.seed, result.wrong) for result in results if result.wrong] == []
    kinds_hit = {fault for result in results for fault, hits in result.hits.items() if hits}
    assert len(kinds_hit) > len(Fault) // 2, "faults are drawn, not only configured"


def test_a_seed_is_one_story() -> None:
    """A seed must reproduce its failure, otherwise it cannot be fixed."""
    assert _trace(3) == _trace(3)


@pytest.mark.slow
def test_a_seed_is_one_story_in_any_process() -> None:
    """The order of sets, which differs from process to process, must not matter."""
    code = "from tests.simulation.test_simulation import _trace; print(_trace(3))"
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    trace = traces.pop()
    assert "committed task=" in trace
    assert "restored task=" in trace, "the lines of the worker's own log"


def _trace(seed: int) -> list[str]:
    lines: list[str] = []
    result = run_seed(seed, say=lines.append)
    return [*lines, str(result)]


def test_every_method_is_drawn_and_counted() -> None:
    """A learner that no seed uses is not tested in a restore."""
    drawn = {learner["method"] for learners in LEARNERS for learner in learners.values()}
    assert drawn == set(METHODS)
    counted = {kind.rpartition(" ")[2] for kind in Event if kind.startswith("learned by ")}
    assert counted == {name for learners in LEARNERS for name in learners}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_applies(name: str) -> None:
    """A mutant whose place no longer exists breaks nothing and proves nothing; neither do missing tests."""
    mutant = MUTANTS[name]
    assert apply(mutant) != ast.unparse(ast.parse(mutant.path.read_text()))
    for test in mutant.tests.split():
        file, *function = test.split("::")
        assert f"def {function[-1].partition('[')[0]}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.slow(10)
@pytest.mark.parametrize("name", ["offsets-one-short", "restore-skips"])
def test_a_blatant_mutant_is_found_at_once(name: str) -> None:
    """A hunt that finds nothing may be broken. `make mutants` hunts the other mutants."""
    found = hunt_one(name, 100, "")
    assert found.found_by, found.text


def test_settings_of_a_run() -> None:
    """Rarely used settings (small batches, many snapshots) can be tried on all seeds."""
    lines: list[str] = []
    assert not run_seed(0, {"worker": {"max_batch_records": 1}}, lines.append).wrong
    assert sum("committed task=" in line for line in lines) > 10
