"""The programs that are compared: how each is built and started, and where it writes."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.inputs import EXAMPLES_BY_ID, LABELS_BY_ID, STREAM
from stream_app.config import Config

JAVA = Path(__file__).with_name("java")
QUIX = "quixstreams==3.28.1"
BUILD_S = 600.0
STREAMS_JOIN = "areba.peers.StreamsJoin"


@dataclass(frozen=True, slots=True)
class Run:
    """A program that is about to be started.

    Attributes:
        command: The command line of its process.
        outputs: The topics that it writes.
    """

    command: Sequence[str]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that joins both topics.

    Attributes:
        name: Its name in the table.
        does: What it does for each example and label.
        outputs: Records that it writes for each example with its label.
        pairs: Examples with labels that it is given; fewer for a slow program.
        prepare: Takes the brokers, the run's name and an empty folder, and returns what to start.
    """

    name: str
    does: str
    outputs: int
    pairs: int
    prepare: Callable[[str, str, Path], Run]


def configuration(servers: str, name: str, inputs: str = "peers.") -> Config:
    """Return areba's configuration with all defaults: one stream of 30 features, one learner.

    `inputs` is the beginning of the names of the input topics.
    """
    return Config.model_validate(
        {
            "application": {"id": name},
            "kafka": {"bootstrap_servers": servers, "input_prefix": inputs, "output_prefix": f"{name}."},
            "learners": {"areba": {"method": "areba"}},
            "streams": {STREAM: {"features": 30, "learning_rate": 0.0001}},
            "worker": {"http_port": 0},
        }
    )


def _areba(servers: str, name: str, folder: Path) -> Run:
    return areba(configuration(servers, name), folder)


def areba(config: Config, folder: Path) -> Run:
    """Return areba with this configuration; a folder gets its file."""
    file = folder / "areba.yaml"
    file.write_text(config.model_dump_json(exclude_defaults=True), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "stream_app.cli", "run", "-c", str(file)]
    return Run(command, (config.topics.predictions, config.topics.outcomes))


def _script(python: Path, script: str, *, has_state: bool = False) -> Callable[[str, str, Path], Run]:
    def prepare(servers: str, name: str, folder: Path) -> Run:
        folders = [str(folder)] if has_state else []
        file = str(Path(__file__).with_name(script))
        return Run([str(python), file, servers, EXAMPLES_BY_ID, LABELS_BY_ID, name, *folders], (name,))

    return prepare


def _java(classes: str, main: str) -> Callable[[str, str, Path], Run]:
    def prepare(servers: str, name: str, folder: Path) -> Run:
        return java(classes, main, servers, (EXAMPLES_BY_ID, LABELS_BY_ID), name, folder)

    return prepare


def java(classes: str, main: str, servers: str, inputs: tuple[str, str], output: str, folder: Path, *more: str) -> Run:
    """Return a Java program that joins these inputs; `more` are further arguments."""
    return Run(["java", "-cp", classes, main, servers, *inputs, output, str(folder), *more], (output,))


def _build(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {(done.stdout + done.stderr)[-2_000:]}")


def built_java(folder: Path) -> str:
    """Build the Java programs with Maven, and return their class path."""
    project = folder / "java"
    shutil.copytree(JAVA, project)
    _build(["mvn", "-q", "-B", "compile", "dependency:copy-dependencies", "-DoutputDirectory=lib"], project)
    return os.pathsep.join((str(project / "target" / "classes"), str(project / "lib" / "*")))


def _installed_quix(folder: Path) -> Path:
    """Install Quix Streams into an environment of its own, and return its Python."""
    venv.create(folder / "quix", with_pip=True)
    python = folder / "quix" / "bin" / "python"
    _build([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", QUIX], folder)
    return python


def programs(folder: Path, classes: str, pairs: int, pairs_of_quix: int) -> Mapping[str, Program]:
    """Return all programs by their names; `classes` are those that were built (`built_java`)."""
    loops = "join by a dictionary, no learning"
    found = (
        Program("areba", "join, predict, learn, evaluate", 2, pairs, _areba),
        Program("plain Python", loops, 2, pairs, _script(Path(sys.executable), "python_loop.py")),
        Program("plain Java", loops, 2, pairs, _java(classes, "areba.peers.PlainLoop")),
        Program("Kafka Streams", "join, no learning", 1, pairs, _java(classes, STREAMS_JOIN)),
        Program(
            "Quix Streams",
            "join, no learning",
            1,
            pairs_of_quix,
            _script(_installed_quix(folder), "quix_join.py", has_state=True),
        ),
    )
    return {program.name: program for program in found}
