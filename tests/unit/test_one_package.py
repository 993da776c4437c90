"""The wheel and the editable install have one import package: files of a user's folder cannot take its modules' places.

In the checkout, the folders `producers` and `schemas` lie beside `stream_app`, which has links to them.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.documents import ROOT

SOURCES = ("stream_app", "producers", "schemas", "pyproject.toml", "README.md", "LICENSE")

HOSTILE = "raise SystemExit('a file of the user was imported')\n"

LIBRARY = """
from stream_app.client import decode
from stream_app.records import Example
from stream_app.serialization.codec import encode
from stream_app.testing import InProcess

example = Example("pumps", "1", (1.0,))
assert decode(encode(example)) == example
application = InProcess(streams={"pumps": {"features": 1}})
application.send_example("pumps", "1", [1.0])
application.send_label("pumps", "1", True)
application.run()
print(len(application.predictions()))
"""

REPLAY = "from stream_app.producers.cli import main; main()"

CONFIGURATION = "kafka: {bootstrap_servers: '127.0.0.1:1'}\nstreams: {pumps: {features: 1}}\n"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, and return a folder with its content."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder)
    subprocess.run([*pip, *build], check=True, timeout=300, capture_output=True)
    (wheel,) = folder.glob("areba-*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.slow(30)
def test_the_wheel_has_one_package_with_all_of_its_files(unpacked: Path) -> None:
    """Another name would take the place of a user's module; a missing data set would end `areba-replay`."""
    names = {path.name for path in unpacked.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"stream_app"}
    for folder, pattern in (
        ("schemas", "*.avsc"),
        ("schemas", "*.schema.json"),
        ("producers/datasets/shipped", "*.xz"),
        ("producers", "*.py"),
    ):
        shipped = {path.name for path in (unpacked / "stream_app" / folder).glob(pattern)}
        assert shipped == {path.name for path in (ROOT / folder).glob(pattern)}
        assert shipped


@pytest.mark.slow(30)
@pytest.mark.parametrize("installation", ["wheel", "editable"])
@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (("-m", "stream_app.cli", "--help"), 0, "Commands:"),
        (("-m", "stream_app.cli", "config", "-c", "my.yaml"), 0, "streams.pumps"),
        (("-m", "stream_app.cli", "config", "--check", "-c", "my.yaml"), 2, "127.0.0.1:1"),
        (("-m", "stream_app.cli", "compile", "-c", "my.yaml"), 0, "compiled"),
        (("-c", REPLAY, "list"), 0, "fraud"),
        (("-c", LIBRARY), 0, "1"),
    ],
    ids=["help", "show", "check", "compile", "replay", "library"],
)
def test_files_of_a_user_with_the_names_of_our_folders(
    unpacked: Path, tmp_path: Path, installation: str, arguments: Sequence[str], status: int, expected: str
) -> None:
    """Many services have a `schemas.py`, and `PYTHONPATH` is how areba finds a learner of a user's own."""
    for name in ("schemas", "producers"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "my.yaml").write_text(CONFIGURATION)
    path = [tmp_path, unpacked] if installation == "wheel" else [tmp_path]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert expected in done.stdout


def test_nothing_imports_a_folder_beside_the_package() -> None:
    """Under two names, a module would be two modules in one process, whose classes differ."""
    wrong = [
        path.relative_to(ROOT).as_posix()
        for top in ("stream_app", "producers", "schemas", "ops", "study", "benchmarks", "tests")
        for path in sorted((ROOT / top).rglob("*.py"))
        if re.search(r"^\s*(from|import) (producers|schemas)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert wrong == []


def test_the_commands_begin_in_the_package() -> None:
    """The commands of an installation import what the wheel has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name: target.partition(".")[0] for name, target in project["scripts"].items()} == {
        "areba": "stream_app",
        "areba-replay": "stream_app",
    }
