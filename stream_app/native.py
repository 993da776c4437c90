"""The one door to Numba: our settings are in the environment before it (or Torch) is imported.

The cache of compiled code is a folder of our own, since whoever can write to it can run code as us.
"""

import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from stream_app.errors import ConfigurationError

Function = TypeVar("Function", bound=Callable[..., Any])

CACHES_KEPT = 4
"""Versions whose compiled code is kept (some 20 MB each): enough to go back and forth between two."""

CONSTANTS = ("records.py", "outputs.py", "base.py")
"""Files that compile nothing themselves but whose constants and tuples are compiled in (tests/unit/test_native.py)."""

COMPILES = re.compile(rb"^@(compiled|inlined|bare|bare_inlined)$|^(from|import) numba\b", re.MULTILINE)
"""What a file with compiled code has in it."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""One thread: sums over several depend on how many there are."""


def cache_folder() -> Path:
    """Where the compiled code of these sources is kept: below `AREBA_CACHE_DIR`, else the user's cache.

    Raises:
        ConfigurationError: Somebody else may write to it.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(os.environ.get("AREBA_CACHE_DIR") or caches / "areba") / "compiled"
    folder = base / digest_of(sources())
    for part in (base, folder):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = part.stat()
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigurationError(f"{part}: others may write to the cache of compiled code; set AREBA_CACHE_DIR")
    _forget_old(base)
    return folder


def sources(package: Path = Path(__file__).parent) -> Sequence[Path]:
    """All files that decide what compiled code does.

    Numba looks at a function's own file only; what it calls, or took a constant from, may have changed elsewhere.
    """
    return [
        path for path in sorted(package.rglob("*.py")) if path.name in CONSTANTS or COMPILES.search(path.read_bytes())
    ]


def digest_of(paths: Iterable[Path]) -> str:
    """The name of the folder for code that was compiled from these."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _forget_old(base: Path) -> None:
    """Remove the code of sources that nobody used lately."""
    folders = sorted(base.iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in folders[:-CACHES_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def prepare_environment() -> None:
    """Set what Numba and Torch read once, when they are imported."""
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    if "numba" not in sys.modules:
        os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
        os.environ["NUMBA_SLP_VECTORIZE"] = "1"


prepare_environment()

import numba  # noqa: E402  (after the environment is set)
from numba.core import event  # noqa: E402

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}


def _compile(function: Function, **options: Any) -> Function:  # noqa: ANN401  (options that Numba's types leave out)
    compile_with: Any = numba.njit(**_OPTIONS, **options)
    result: Function = compile_with(function)
    return result


@contextmanager
def reporting_compiled(progressed: Callable[[], None]) -> Iterator[None]:
    """Call this whenever Numba begins or ends to compile a function."""

    class _Listener(event.Listener):
        def on_start(self, _: object) -> None:
            progressed()

        def on_end(self, _: object) -> None:
            progressed()

    with event.install_listener("numba:compile", _Listener()):
        yield


def compiled(function: Function) -> Function:
    """Compile for the machine, strict IEEE order, GIL released, cached on disk."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """A compiled function that is put in the place of its call: passing a named tuple copies it."""
    return _compile(function, forceinline=True)


def bare(function: Function) -> Function:
    """As `compiled`, for loops that make no array: without reference counts.

    Counting the references of the arrays of a named tuple in every helper took three quarters of the join's time. What
    is called from such a function must be bare too.
    """
    return _compile(function, _nrt=False)


def bare_inlined(function: Function) -> Function:
    """A bare function that is put in the place of its call: passing a named tuple copies it."""
    return _compile(function, _nrt=False, forceinline=True)
