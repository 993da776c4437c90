"""The content of an installation: the packages, their types and dependencies, and a quick import."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

IMPORT_LIMIT_S = 0.3


def test_the_package_has_types() -> None:
    """Without the marker, a type checker ignores the annotations."""
    assert (ROOT / "stream_app" / "py.typed").is_file()
    assert PROJECT["tool"]["setuptools"]["package-data"]["stream_app"] == ["py.typed"]


def test_the_versions_that_are_tested_lie_in_the_ranges_that_are_allowed() -> None:
    """Otherwise `make setup` and `pip install areba` would give two different applications."""
    pins = {}
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        pins[canonicalize_name(name)] = version
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(line for lines in extras.values() for line in lines)]
    wanted += PROJECT["build-system"]["requires"]
    for line in wanted:
        requirement = Requirement(line)
        if requirement.name != "areba":
            assert pins[canonicalize_name(requirement.name)] in requirement.specifier, line


def test_heavy_packages_belong_to_extras() -> None:
    """A worker whose networks are dense needs no GB of Torch."""
    extras = PROJECT["project"]["optional-dependencies"]
    needed = {Requirement(line).name for line in extras["worker"]}
    assert needed.isdisjoint({"torch", "matplotlib", "river", "pandas", "scipy"})
    assert [Requirement(line).name for line in extras["torch"]] == ["torch"]


WITHOUT_EXTRAS = """
import importlib.abc, sys
from pathlib import Path

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        allowed = {"stream_app", "fastavro"} | sys.stdlib_module_names
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def _without_extras(code: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_EXTRAS + code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_client_needs_fastavro_alone() -> None:
    """A subscriber's team installs a decoder, and not a compiler of 400 MB."""
    assert [Requirement(line).name for line in PROJECT["project"]["dependencies"]] == ["fastavro"]
    read = "from stream_app.client import decode; print(decode(Path('schemas/golden/metric.v1.bin').read_bytes()))"
    done = _without_extras(read)
    assert done.stdout.startswith("Metric(stream="), done.stderr


@pytest.mark.parametrize("package", ["cli", "producers"])
def test_a_command_without_its_packages_names_the_extra(package: str) -> None:
    """Without the name of the extra, a user would install one package after the other."""
    done = _without_extras(f"from stream_app.{package}.__main__ import main; main()")
    assert done.returncode == 2
    assert "areba[worker]" in done.stderr
    assert "Traceback" not in done.stderr


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from stream_app.errors import ConfigurationError
from stream_app.testing import InProcess

def predictions(**settings):
    application = InProcess(streams={"pumps": {"features": 1}}, **settings)
    application.send_example("pumps", "1", [1.0])
    application.send_label("pumps", "1", True)
    application.run()
    return len(application.predictions())

print(predictions())
try:
    predictions(learners={"own": {"method": "areba", "network": "nets:Net"}})
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.slow(5)
def test_a_network_of_a_users_own_alone_needs_torch() -> None:
    """Every documented learner works without Torch; the error of the others says what to install."""
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    predicted, error = done.stdout.splitlines()
    assert predicted == "1"
    assert "areba[torch]" in error


@pytest.mark.parametrize("attempts", [5])
def test_the_package_is_imported_quickly(attempts: int) -> None:
    """`areba --help` and users' own tests take this time at each start; the best of a few attempts counts."""
    code = (
        "import sys, time; start = time.perf_counter(); import stream_app; "
        "print(time.perf_counter() - start, *(name for name in ('torch', 'numba') if name in sys.modules))"
    )
    best = float("inf")
    for _ in range(attempts):
        command = [sys.executable, "-c", code]
        seconds, *loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        assert loaded == []
        best = min(best, float(seconds))
        if best < IMPORT_LIMIT_S:
            break
    assert best < IMPORT_LIMIT_S


def test_the_licence_is_there() -> None:
    """Without a licence, the code may not be used."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"
