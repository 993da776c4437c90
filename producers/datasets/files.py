"""Files of data sets: their places and checksums. No file is ever unpickled."""

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
"""Names the folder with the publishers' files; if it is set, shipped files are not used."""

SHIPPED = Path(__file__).parent / "shipped"

UNPACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
}
"""Functions that unpack a publisher's file, by the suffix of its name."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a publisher.

    Attributes:
        folder: The folder below `AREBA_DATA_DIR`.
        name: The name of the unpacked file.
        sha256: The checksum of the unpacked bytes, so that the file may be packed in any way.
        urls: Where `areba-replay fetch` tries to find it, in order; the suffix says how the file is packed.
    """

    folder: str
    name: str
    sha256: str
    urls: tuple[str, ...]

    def path_in(self, data_dir: Path) -> Path | None:
        """Return the path of the file, packed or not; None if it is missing."""
        paths = (data_dir / self.folder / f"{self.name}{ending}" for ending in UNPACKERS)
        return next((path for path in paths if path.is_file()), None)

    def read(self, data_dir: Path) -> bytes:
        """Return the unpacked bytes.

        Raises:
            DataSetError: The file is missing, cannot be unpacked, or has another checksum.
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
    """A file of this package, packed by xz.

    Attributes:
        name: The name in the folder `shipped`.
        sha256: The checksum of the packed file.
        content_sha256: The checksum of the unpacked bytes; another version of liblzma may pack them differently.
    """

    name: str
    sha256: str
    content_sha256: str

    def read(self, folder: Path = SHIPPED) -> bytes:
        """Return the unpacked bytes. Raises `DataSetError` as `PublishedFile.read` does."""
        path = folder / self.name
        if not path.is_file():
            raise DataSetError(f"{path}: no such file; install areba again")
        check(path, path.read_bytes(), self.sha256)
        return unpack(path)


def data_dir_from_environment() -> Path | None:
    """Return the folder that `AREBA_DATA_DIR` names; None if it is not set.

    Raises:
        DataSetError: The folder does not exist.
    """
    name = os.environ.get(DATA_DIR_VARIABLE)
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise DataSetError(f"{DATA_DIR_VARIABLE}={name}: no such folder")
    return folder


def unpack(path: Path) -> bytes:
    """Return the content of a file that may be packed by xz or gzip.

    Raises:
        DataSetError: The container is damaged.
    """
    try:
        return UNPACKERS.get(path.suffix, bytes)(path.read_bytes())
    except (lzma.LZMAError, OSError, EOFError, zlib.error) as error:
        raise DataSetError(f"{path}: cannot be unpacked: {error}") from error


def check(path: Path, content: bytes, expected: str) -> None:
    """Compare the SHA-256 checksum of a file's content.

    Raises:
        DataSetError: The checksum differs.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataSetError(f"{path}: wrong checksum: SHA-256 is {found}, expected {expected}")


def read_array(content: bytes) -> NDArray[np.generic]:
    """Return the array of a `.npy` file; pickled arrays are refused."""
    array: NDArray[np.generic] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return array


def array_bytes(array: NDArray[np.generic]) -> bytes:
    """Return the array as the bytes of a `.npy` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()
