"""The built wheel in an empty virtual environment: what a user gets who installs it without extras."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT

pytestmark = pytest.mark.ops

SOURCES = ("stream_app", "producers", "schemas", "pyproject.toml", "README.md", "LICENSE")

DECODE = """
import sys
from pathlib import Path
from stream_app.client import decode
print(decode(Path(sys.argv[1]).read_bytes()).stream)
print(*sorted({"torch", "numba"} & set(sys.modules)))
"""


def _run(*command: object, status: int = 0) -> str:
    """Run a command outside of the checkout, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AREBA"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, install it, and return the folder with its commands."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, checkout)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, checkout)
    (wheel,) = folder.glob("areba-*.whl")
    _run(sys.executable, "-m", "venv", folder / "venv")
    commands = folder / "venv" / "bin"
    _run(
        commands / "python",
        "-m",
        "pip",
        "install",
        "-q",
        "--progress-bar",
        "off",
        "-c",
        ROOT / "requirements.txt",
        wheel,
    )
    return commands


def test_the_installation_has_no_torch(installed: Path) -> None:
    """Otherwise the following tests would show nothing."""
    listed = _run(installed / "python", "-m", "pip", "list", "--format=freeze").lower()
    assert "areba==" in listed
    assert "torch==" not in listed
    assert "prometheus" not in listed


def test_the_commands_and_the_client_work(installed: Path) -> None:
    """A subscriber's or a producer's team installs no extra."""
    shown = _run(installed / "areba", "--help")
    for command in ("run", "acls", "topics", "inspect", "verify"):
        assert f"\n  {command} " in shown
    assert "Usage" in _run(installed / "areba-replay", "--help")
    golden = ROOT / "schemas" / "golden" / "prediction.v1.bin"
    stream, modules = _run(installed / "python", "-c", DECODE, golden).split("\n")[:2]
    assert stream
    assert modules == ""


def test_a_command_that_needs_an_extra_names_it(installed: Path, tmp_path: Path) -> None:
    """A user who starts a worker from such an installation reads what to install, without a traceback."""
    file = tmp_path / "areba.yaml"
    file.write_text("worker: {http_port: 0}\n")
    shown = _run(installed / "areba", "run", "-c", file, status=2)
    assert "areba[worker]" in shown
    assert "Traceback" not in shown
