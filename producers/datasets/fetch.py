"""Download publishers' files and check each against its known checksum."""

import gzip
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pooch

from stream_app.errors import DataSetError
from stream_app.producers.datasets.base import Recipe
from stream_app.producers.datasets.files import PublishedFile, check

CONNECT_TIMEOUT_S = 30
"""The longest wait for an answer, and between two parts of an answer."""

CHUNK_BYTES = 65_536

Tell = Callable[[str], None]


def default_folder() -> Path:
    """Return the default folder for fetched files, below the user's cache."""
    return Path(pooch.os_cache("areba")) / "data"


def fetch(recipe: Recipe, folder: Path, tell: Tell, progress: object = False) -> None:
    """Download all files of a data set into a folder with the layout of `AREBA_DATA_DIR`.

    Args:
        recipe: The data set.
        folder: The root of that layout; created if it does not exist.
        tell: Called with a line about each file.
        progress: A progress bar in the form that pooch expects, or False.

    Raises:
        DataSetError: No source of a file could be reached, or its file has another checksum.
    """
    for file in recipe.files:
        if file.path_in(folder) is not None:
            file.read(folder)
            tell(f"{file.name}: already present, checksum correct")
            continue
        content = _download(file, tell, progress)
        target = folder / file.folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_suffix(f".part-{os.getpid()}")
        half.write_bytes(content)
        half.rename(target)
        tell(f"{file.name}: {len(content):,} bytes, checksum correct")


def _download(file: PublishedFile, tell: Tell, progress: object) -> bytes:
    """Return the unpacked file from the first source that has it.

    Raises:
        DataSetError: No source could be used; the error has a line for each.
    """
    problems: list[str] = []
    pooch.get_logger().setLevel(logging.WARNING)  # at lower levels it prints a checksum of the container
    with tempfile.TemporaryDirectory() as folder:
        for url in file.urls:
            tell(f"{file.name}: from {url}")
            try:
                downloader = pooch.HTTPDownloader(
                    progressbar=progress, chunk_size=CHUNK_BYTES, timeout=CONNECT_TIMEOUT_S
                )
                name = Path(urlsplit(url).path).name
                path = Path(pooch.retrieve(url, known_hash=None, fname=name, path=folder, downloader=downloader))
                content = _unpacked(path, file.name)
                check(path, content, file.sha256)
            except (OSError, ValueError, zipfile.BadZipFile, zlib.error, DataSetError) as error:
                problems.append(f"{file.name}: {url}: {_reason(error)}")
            else:
                return content
    raise DataSetError([*problems, f"{file.name}: no source gave the file; check the network"])


def _unpacked(path: Path, name: str) -> bytes:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            member = _member(archive.namelist(), name)
            content = archive.read(member)
            return gzip.decompress(content) if member.endswith(".gz") else content
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def _member(names: Sequence[str], wanted: str) -> str:
    for name in names:
        if Path(name).name in {wanted, f"{wanted}.gz"}:
            return name
    raise ValueError(f"the archive has no {wanted}")


def _reason(error: Exception) -> str:
    name = type(error).__name__
    if name.endswith(("ConnectionError", "Timeout")):
        return "no connection"  # the full text has four nested causes on one line
    return (str(error).splitlines() or [name])[0]
