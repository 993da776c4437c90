"""The built wheel in an empty environment: what a user gets without extras, and with the extra `worker`."""

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources."""
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
    return next(folder.glob("areba-*.whl"))


def _install(wheel: Path, extras: str) -> Path:
    """Install the wheel in an environment of its own, and return the folder with its commands."""
    commands = wheel.parent / f"venv{extras}" / "bin"
    _run(sys.executable, "-m", "venv", commands.parent)
    pip = (commands / "python", "-m", "pip", "install", "-q", "--progress-bar", "off")
    _run(*pip, "-c", ROOT / "requirements.txt", f"{wheel}{extras}")
    return commands


@pytest.fixture(scope="module")
def client(wheel: Path) -> Path:
    """Install the wheel without extras."""
    return _install(wheel, "")


@pytest.fixture(scope="module")
def worker(wheel: Path) -> Path:
    """Install the wheel with the extra `worker`."""
    return _install(wheel, "[worker]")


def test_a_subscriber_installs_fastavro_alone(client: Path) -> None:
    """A subscriber's team installs no extra, and has no compiler and no client of Kafka that it does not use."""
    listed = _run(client / "python", "-m", "pip", "list", "--format=freeze").lower()
    assert {line.partition("==")[0] for line in listed.split()} <= {"areba", "fastavro", "pip", "setuptools"}
    golden = ROOT / "schemas" / "golden" / "prediction.v1.bin"
    assert _run(client / "python", "-c", DECODE, golden).strip()
    shown = _run(client / "areba", "--help", status=2)
    assert "areba[worker]" in shown
    assert "Traceback" not in shown


def test_the_commands_work(worker: Path) -> None:
    """An operator's or a producer's team installs the extra `worker`, which has no Torch."""
    assert "torch==" not in _run(worker / "python", "-m", "pip", "list", "--format=freeze").lower()
    shown = _run(worker / "areba", "--help")
    for command in ("run", "acls", "topics", "inspect", "verify"):
        assert f"\n  {command} " in shown
    assert "Usage" in _run(worker / "areba-replay", "--help")
