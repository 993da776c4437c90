"""The folder that keeps compiled code, and the rule that says when compiled code is out of date.

Numba compares the source file of a function with the file that it compiled. A function is also out of date when a
function that it calls, or a constant that it read, has changed in another file. So each source file gets a folder whose
name is a digest of the file and of all files whose code or constants it compiles in. An edit recompiles what depends
on the edited file, and nothing else; two checkouts with the same sources share their compiled code.
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType

from stream_app.errors import ConfigurationError
from stream_app.jit import compiler  # noqa: F401  (sets the environment before Numba is imported)

# isort: split
from numba.core.caching import _CacheLocator

_VERSIONS_KEPT = 4
"""The number of versions of each source file whose compiled code is kept: enough to switch between branches."""

PACKAGE = Path(__file__).parents[1]

_CONSTANTS = (
    "record_columns.py",
    "arrays.py",
    "records.py",
    "join/constants.py",
    "join/input.py",
    "learners/api.py",
    "learners/methods/",
    "learners/registry.py",
    "pipeline/bound_columns.py",
    "pipeline/preparation/tables.py",
    "serialization/erased_ids.py",
    "serialization/wire_format.py",
)
"""Files and folders whose constants are compiled into other files: tests/unit/jit/test_native.py checks the list."""

_COMPILES = re.compile(rb"^@(compiled|inlined)(_without_refcounts)?$|^[ ]*(from|import) numba\b", re.MULTILINE)
"""Matches the text of a file that has compiled code: one of the decorators of `compiler`, or an import of Numba."""

_IMPORT = re.compile(r"^\s*from (stream_app[\w.]*) import (\([^)]*\)|[^(#\n]+)", re.MULTILINE)

_DIGEST_CHARACTERS = 16


def base_folder() -> Path:
    """Return the folder for all compiled code, below `AREBA_CACHE_DIR` or the user's cache; make it if necessary.

    A user who can write to this folder can run code as this user. The folder may belong to root, as in an image.

    Raises:
        ConfigurationError: Other users may write to it.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("AREBA_CACHE_DIR") or caches / "areba") / "compiled-code"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid not in {0, os.geteuid()} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"{folder}: others may write to the cache of compiled code; set AREBA_CACHE_DIR")
    return folder


def sources_of(path: Path, package: Path = PACKAGE) -> Sequence[Path]:
    """List a file and all files of this package whose code or constants it compiles in, in order of their paths."""
    found, unread = {path}, [path]
    while unread:
        new = _imported(unread.pop(), package) - found
        found |= new
        unread += new
    if package / "record_columns.py" in found:  # its constants are made from the schemas
        found.update(package.glob("schemas/*.avsc"))
    return sorted(found)


@cache
def _imported(path: Path, package: Path) -> frozenset[Path]:
    """Return the files with compiled code or compiled-in constants that a file imports."""
    sources: set[Path] = set()
    for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        folder = package.joinpath(*module.split(".")[1:])
        candidates = (folder, *(folder / name for name in re.findall(r"\w+", names)))
        sources.update(candidate.with_suffix(".py") for candidate in candidates)
    return frozenset(source for source in sources if source.is_file() and is_compiled_in(source, package))


@cache
def is_compiled_in(path: Path, package: Path = PACKAGE) -> bool:
    """Say whether compiled code can contain code or constants of this file of the package."""
    return (
        path.relative_to(package).as_posix().startswith(_CONSTANTS) or _COMPILES.search(path.read_bytes()) is not None
    )


def sources_digest(paths: Iterable[Path]) -> str:
    """Name the compiled code of these sources."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(_contents_digest(path))
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


@cache
def _contents_digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def is_read_only(folder: Path) -> bool:
    """Say whether this process cannot write to a folder, as in an image."""
    return not os.access(folder, os.W_OK)


@cache
def folder_of(path: Path) -> Path:
    """Return the folder for the compiled code of one source file, and forget versions that were not used lately."""
    inside = path.is_relative_to(PACKAGE)
    name = ".".join((path.relative_to(PACKAGE) if inside else Path(*path.parts[-2:])).with_suffix("").parts)
    versions = base_folder() / name
    folder = versions / sources_digest(sources_of(path))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_read_only(folder):
        return folder
    os.utime(folder)
    for old in sorted(versions.iterdir(), key=lambda version: version.stat().st_mtime)[:-_VERSIONS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


class SourcesCacheLocator(_CacheLocator):
    """Tells Numba where the compiled code of a function is (`NUMBA_CACHE_LOCATOR_CLASSES`)."""

    def __init__(self, folder: Path, line: int) -> None:
        self._folder = folder
        self._line = line

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> "SourcesCacheLocator | None":
        """Make the locator of a function, or None, so that Numba asks its other locators.

        None is for a function without a source file, and for a file that a read-only cache does not have.
        """
        path = Path(file)
        if not path.is_file():
            return None
        try:
            return cls(folder_of(path), function.__code__.co_firstlineno)
        except OSError:  # a file that is not in the cache of an image, such as a user's own
            return None

    def get_cache_path(self) -> str:
        """Return the folder of this function's source file."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return the digest in the folder's name: each version of the source has its own folder."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return the line of the function, which distinguishes functions with the same name."""
        return str(self._line)
