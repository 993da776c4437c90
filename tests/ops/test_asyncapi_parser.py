"""asyncapi.yaml is valid for the reference parser, with the Avro schemas in it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ops.asyncapi import CHANNELS, FILE

pytestmark = pytest.mark.ops

TOOL = Path(__file__).parent / "asyncapi"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the parser with the versions of its lock file; no package runs a script of its own."""
    folder = tmp_path_factory.mktemp("asyncapi")
    shutil.copytree(TOOL, folder, dirs_exist_ok=True)
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def _validate(tool: Path, file: Path) -> subprocess.CompletedProcess[str]:
    command = ["node", "validate.mjs", str(file)]
    return subprocess.run(command, cwd=tool, capture_output=True, text=True, timeout=120, check=False)


def test_the_file_is_valid(tool: Path) -> None:
    """Generators of clients and documentation refuse a file that is not."""
    done = _validate(tool, FILE)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(CHANNELS)


@pytest.mark.parametrize(("right", "wrong"), [("action: send", "action: shout"), ("type: record", "type: recrod")])
def test_a_wrong_file_is_refused(tool: Path, tmp_path: Path, right: str, wrong: str) -> None:
    """The check must see both a fault of the document and a fault of a schema in it."""
    text = FILE.read_text(encoding="utf-8")
    assert right in text
    file = tmp_path / "asyncapi.yaml"
    file.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    assert _validate(tool, file).returncode == 1
