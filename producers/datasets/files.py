"""Files of data sets: where they are, and that they are what they should be. Nothing is ever unpickled."""

import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError

DATA_DIR_VARIABLE = "AREBA_DATA_DIR"
"""The folder with the publishers' own files; preferred when it is set."""

SHIPPED = Path(__file__).parent / "shipped"

UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
}
"""Containers that a publisher's file may come in, by the end of its name."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A publisher's file.

    Attributes:
        folder: Folder below `AREBA_DATA_DIR`.
        name: Its name, unpacked.
        sha256: Of the unpacked bytes, so any container will do.
        urls: Where `areba-replay fetch` finds it, tried in order: the file itself, or packed as its name's end says.
    """

    folder: str
    name: str
    sha256: str
    urls: tuple[str, ...]

    def path_in(self, data_dir: Path) -> Path | None:
        """The file, in whatever container it is there; None when it is not."""
        paths = (data_dir / self.folder / f"{self.name}{ending}" for ending in UNPACKERS)
        return next((path for path in paths if path.is_file()), None)

    def read(self, data_dir: Path) -> bytes:
        """The unpacked bytes.

        Raises:
            DataSetError: It is not there, cannot be unpacked, or has another checksum.
        """
        path = self.path_in(data_dir)
        if path is None:
            wanted = data_dir / self.folder / self.name
            raise DataSetError(f"{wanted}[.xz|.gz]: no such file; fetch it, or unset {DATA_DIR_VARIABLE}")
        content = unpack(path)
        check(path, content, self.sha256)
        return content


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file that comes with this package, packed by xz.

    Attributes:
        name: Its name in the folder `shipped`.
        sha256: Of the file as it is.
        content_sha256: Of the unpacked bytes; another version of liblzma may pack them differently.
    """

    name: str
    sha256: str
    content_sha256: str

    def read(self, folder: Path = SHIPPED) -> bytes:
        """The unpacked bytes. Raises `DataSetError` as `PublishedFile.read` does."""
        path = folder / self.name
        if not path.is_file():
            raise DataSetError(f"{path}: no such file; the installation is not complete")
        check(path, path.read_bytes(), self.sha256)
        return unpack(path)


def data_dir_from_environment() -> Path | None:
    """The folder named by `AREBA_DATA_DIR`, or None.

    Raises:
        DataSetError: It names no folder.
    """
    name = os.environ.get(DATA_DIR_VARIABLE)
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise DataSetError(f"{DATA_DIR_VARIABLE}={name}: no such folder")
    return folder


def unpack(path: Path) -> bytes:
    """The bytes inside a file that may be packed by xz or gzip.

    Raises:
        DataSetError: The container is damaged.
    """
    try:
        return UNPACKERS.get(path.suffix, bytes)(path.read_bytes())
    except (lzma.LZMAError, OSError, EOFError, zlib.error) as error:
        raise DataSetError(f"{path}: cannot be unpacked: {error}") from error


def check(path: Path, content: bytes, expected: str) -> None:
    """Compare a SHA-256 checksum.

    Raises:
        DataSetError: It differs.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataSetError(f"{path}: wrong checksum: SHA-256 is {found}, expected {expected}")


def read_array(content: bytes) -> NDArray[np.generic]:
    """An array in NumPy's own plain format (`.npy`), never a pickled one."""
    array: NDArray[np.generic] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return array


def array_bytes(array: NDArray[np.generic]) -> bytes:
    """The array as a `.npy` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()
