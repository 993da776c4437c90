"""systemd reads the shipped unit without a complaint, and finds little that the worker could do to the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ops import keeper

pytestmark = pytest.mark.ops

UNIT = Path(keeper.__file__).parent / "systemd" / "areba@.service"

EXPOSURE = 20
"""The largest exposure that is accepted, in tenths; a service without any hardening has 96."""


@pytest.fixture
def analyze() -> str:
    """Return the path of systemd-analyze; skip on a developer's machine without it, fail on a build server."""
    found = shutil.which("systemd-analyze")
    if found is None:
        reason = "systemd-analyze is not installed (apt-get install systemd)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Return the unit with the program of this installation."""
    program = Path(sys.executable).parent / "areba"
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/areba/bin/areba", str(program)))
    return path


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_every_setting_is_known(analyze: str, unit: Path) -> None:
    """Systemd ignores a setting that it does not know, with a line that nobody reads."""
    done = _run(analyze, "verify", str(unit))
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("RestartSec", "RestartSecs"))
    assert "RestartSecs" in _run(analyze, "verify", str(unit)).stderr


def test_a_worker_can_do_little_to_the_machine(analyze: str, unit: Path) -> None:
    """A learner of somebody else's runs in the worker."""
    arguments = ("security", "--offline=yes", f"--threshold={EXPOSURE}")
    assert _run(analyze, *arguments, str(unit)).returncode == 0
    unit.write_text(unit.read_text().replace("CapabilityBoundingSet=\n", ""))
    assert _run(analyze, *arguments, str(unit)).returncode != 0
