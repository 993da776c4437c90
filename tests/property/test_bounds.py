"""No index leaves its array: tests of tasks and of all forms of values, with every index of compiled code checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHECKED = (
    "tests/property/test_task.py",
    "tests/property/test_task_cuts.py",
    "tests/unit/serialization/test_json_form.py",
    "tests/unit/pipeline/test_columns.py",
)
"""The tests in which compiled code reads values that others have written, in each form."""

LIMIT_S = 2_400
"""All kernels are compiled again, which takes a minute of one core, or more on a busy machine."""


@pytest.mark.slow(140)
@pytest.mark.timeout(LIMIT_S + 30)
def test_no_index_leaves_its_array(tmp_path: Path) -> None:
    """Compiled code checks no index; one that is out of bounds changes another stream's memory, or ends the process.

    Accesses by a bare address (a learner's own arrays) are not checked. All of the join, the tables of outputs, the
    evaluation and the decoder are checked: there the number of rows depends on the input.
    """
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "AREBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    arguments = ["-q", "-x", "-p", "no:cacheprovider", f"--timeout={LIMIT_S}", *CHECKED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4_000:]
