"""The store of finished repetitions, one `.npz` file each, so that an interrupted run can continue.

    FOLDER/RUN/KEY/REPETITION.npz

KEY is the digest of everything that changes a result: the experiment, what varies, the engine, and the user's own
modules. A file is complete or missing. Nothing is pickled.
"""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

import stream_app
from stream_app.errors import StateError
from study.run.experiment import Run
from study.run.replaced_file import replacing
from study.run.runs import Repetition
from study.run.streams import source_of

KEY_CHARACTERS = 16
"""64 bits of the digest are enough to distinguish the few versions of an experiment."""

ENGINE = Path(__file__).with_name("runs.py")
"""The module that computes a repetition; it and everything that it imports decide the result."""


def engine_sources(start: Path = ENGINE) -> Sequence[Path]:
    """Return a source file and all of our source files that it imports, directly or indirectly, sorted by name."""
    root = start.parents[2]
    packages = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    found, open_ = {start}, [start]
    while open_:
        for name in _imports(open_.pop()):
            parts = name.split(".")
            for end in range(1, len(parts) + 1) if parts[0] in packages else ():
                place = root.joinpath(*parts[:end])
                for path in (place.with_suffix(".py"), place / "__init__.py"):
                    if path.exists() and path not in found:
                        found.add(path)
                        open_.append(path)
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def _imports(path: Path) -> Iterator[str]:
    """Yield the full names of the modules that a file imports anywhere, and of the names that it takes from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def engine_version(start: Path = ENGINE) -> str:
    """Return the version of areba and a digest of the sources that decide results, without comments and docstrings."""
    digest = hashlib.sha256()
    for file in engine_sources(start):
        digest.update(f"{file.relative_to(start.parents[2]).as_posix()} {_code_of(file)}".encode())
    return f"{stream_app.__version__}+{digest.hexdigest()[:12]}"


def _code_of(file: Path) -> str:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [part for part in body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
            node.body = kept  # type: ignore[attr-defined]  # all nodes with a body lose their docstrings
    return ast.dump(tree)


def own_code(run: Run) -> str:
    """Return digests of the modules of generators, own learners and own networks; empty if there are none."""
    names = [name for one in run.experiment.methods.values() for name in (one.method, one.network or "")]
    places = {name.partition(":")[0] for name in (*names, run.experiment.stream.source) if ":" in name}
    files = {place: Path(spec.origin) for place in sorted(places) if (spec := find_spec(place)) and spec.origin}
    return " ".join(
        f"{place} {hashlib.sha256(_module_code(file).encode()).hexdigest()[:12]}" for place, file in files.items()
    )


def _module_code(file: Path) -> str:
    """Return the code of a module, or of all modules of a package."""
    return "".join(_code_of(part) for part in (sorted(file.parent.glob("*.py")) if file.stem == "__init__" else [file]))


@dataclass(frozen=True, slots=True)
class Stored:
    """A repetition as it is stored: the classes that all learners predicted and the true classes, without scores.

    Attributes:
        classes: int8 `[learners, n]`.
        labels: int8 `[n]`.
        seconds: The duration.
        rankings: float32 `[learners, 3]` by `ranking.RANKINGS`; None for synthetic streams.
    """

    classes: NDArray[np.int8]
    labels: NDArray[np.int8]
    seconds: float
    rankings: NDArray[np.float32] | None


class Store:
    """The finished repetitions in one folder.

    Args:
        folder: The folder; the first repetition creates it.
        engine: The version of the engine, from `engine_version()`.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine

    def _path(self, run: Run, repetition: int) -> Path:
        engine = f"{self._engine} {source_of(run.experiment.stream)} {own_code(run)}".rstrip()
        key = run.digest(engine)[:KEY_CHARACTERS]
        return self._folder / run.name / key / f"{repetition}.npz"

    def finished(self, run: Run) -> Sequence[int]:
        """Return the numbers of the stored repetitions, ascending."""
        names = (path.stem for path in self._path(run, 0).parent.glob("*.npz"))
        return sorted(int(name) for name in names if name.isdecimal())

    def put(self, run: Run, repetition: int, result: Repetition) -> None:
        """Store a repetition; a killed process leaves a complete file or none."""
        path = self._path(run, repetition)
        rankings: dict[str, Any] = {} if run.experiment.stream.is_synthetic else {"rankings": result.rankings}
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez_compressed(
                file,
                classes=np.packbits(result.classes == 1, axis=1),
                labels=np.packbits(result.labels == 1),
                shape=np.array(result.classes.shape, np.int64),
                seconds=np.array([result.seconds]),
                **rankings,
            )

    def get(self, run: Run, repetition: int) -> Stored:
        """Return a stored repetition.

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
                rankings = file.get("rankings")
        except (OSError, KeyError, ValueError, BadZipFile) as error:
            raise StateError(f"{path}: cannot be read ({error}); remove it, and run the experiment again") from error
        if len(classes) != learners:
            raise StateError(f"{path}: has {len(classes)} learners, not {learners}; remove it")
        return Stored(classes, labels, seconds, rankings)
