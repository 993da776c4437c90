"""Repetitions that are finished, one `.npz` file each, so that a run that was stopped goes on where it was.

    FOLDER/RUN/KEY/REPETITION.npz

KEY is the digest of all that changes a result: the experiment, what varies, the engine, modules of one's own. A file is
complete or not there. Nothing is pickled.
"""

import ast
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import producers
import stream_app
from stream_app.errors import StateError
from study.experiment import Run
from study.runs import Repetition
from study.streams import source_of

KEY_CHARACTERS = 16
"""64 bits of the digest tell the few versions of one experiment apart."""

ENGINE_PATHS = (
    "stream_app/addresses.py",
    "stream_app/autograd.py",
    "stream_app/batch.py",
    "stream_app/codec.py",
    "stream_app/evaluate.py",
    "stream_app/join.py",
    "stream_app/kernels.py",
    "stream_app/lanes.py",
    "stream_app/learners",
    "stream_app/network.py",
    "stream_app/order.py",
    "stream_app/outputs.py",
    "stream_app/stream.py",
    "stream_app/streams.py",
    "stream_app/task.py",
    "producers/arithmetic.py",
    "producers/datasets",
    "producers/draws.py",
    "producers/label_delay.py",
    "producers/replay.py",
    "producers/synthetic.py",
    "study/runs.py",
    "study/streams.py",
)
"""The sources that decide what a repetition gives."""


def engine_version() -> str:
    """The version of areba and a digest of the sources that decide results; comments and docstrings do not count."""
    roots = {"stream_app": stream_app.__file__, "producers": producers.__file__, "study": __file__}
    digest = hashlib.sha256()
    for name in ENGINE_PATHS:
        package, _, rest = name.partition("/")
        path = Path(str(roots[package])).parent / rest
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.name} {_code_of(file)}".encode())
    return f"{stream_app.__version__}+{digest.hexdigest()[:12]}"


def _code_of(file: Path) -> str:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [part for part in body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
            node.body = kept  # type: ignore[attr-defined]  # whatever has a body may lose its docstrings
    return ast.dump(tree)


def own_code(run: Run) -> str:
    """Digests of the modules that learners and networks of one's own come from; empty without any."""
    settings = run.experiment.methods.values()
    places = {name.partition(":")[0] for one in settings for name in (one.method, one.network or "") if ":" in name}
    files = {place: Path(spec.origin) for place in sorted(places) if (spec := find_spec(place)) and spec.origin}
    return " ".join(
        f"{place} {hashlib.sha256(_code_of(file).encode()).hexdigest()[:12]}" for place, file in files.items()
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """A repetition as it is kept: the answers of all learners and the classes; scores are not kept."""

    classes: NDArray[np.int8]
    labels: NDArray[np.int8]
    seconds: float


class Store:
    """Finished repetitions below one folder.

    Args:
        folder: Made when the first repetition is put there.
        engine: `engine_version()`.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine

    def _path(self, run: Run, repetition: int) -> Path:
        engine = f"{self._engine} {source_of(run.experiment.stream)} {own_code(run)}".rstrip()
        key = run.digest(engine)[:KEY_CHARACTERS]
        return self._folder / run.name / key / f"{repetition}.npz"

    def finished(self, run: Run) -> Sequence[int]:
        """Numbers of the repetitions that are there, ascending."""
        names = (path.stem for path in self._path(run, 0).parent.glob("*.npz"))
        return sorted(int(name) for name in names if name.isdecimal())

    def put(self, run: Run, repetition: int, result: Repetition) -> None:
        """Keep a repetition; a process that is killed leaves none or the whole of it."""
        path = self._path(run, repetition)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                classes=np.packbits(result.classes == 1, axis=1),
                labels=np.packbits(result.labels == 1),
                shape=np.array(result.classes.shape, np.int64),
                seconds=np.array([result.seconds]),
            )
        partial.replace(path)

    def get(self, run: Run, repetition: int) -> Stored:
        """A repetition that is there.

        Raises:
            StateError: The file is damaged.
        """
        path = self._path(run, repetition)
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                learners, examples = (int(size) for size in file["shape"])
                classes = np.unpackbits(file["classes"], axis=1, count=examples).astype(np.int8)
                labels = np.unpackbits(file["labels"], count=examples).astype(np.int8)
                seconds = float(file["seconds"][0])
        except (OSError, KeyError, ValueError, BadZipFile) as error:
            raise StateError(f"{path}: cannot be read ({error}); remove it, and run the experiment again") from error
        if len(classes) != learners:
            raise StateError(f"{path}: has {len(classes)} learners, not {learners}; remove it")
        return Stored(classes, labels, seconds)
