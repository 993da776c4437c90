"""The format of snapshots: arrays are packed into blobs, blobs are cut into chunks, a manifest lists the blobs. No IO.

A snapshot of a task is a manifest and the blobs that it lists. A stream has blobs of four kinds:

    core        everything that changes with any record: learners, sums, counters, waiting labels, and the newest of
                the pending and the closed examples
    pending     a segment of pending examples; written once, however few of them are still pending later
    closed      a segment of closed ids; written once
    ring        a block of rows of a learner's long queue; written when one of its rows has changed

A blob is one safetensors file (its reader checks every size against the bytes that are there, and runs no code), cut
into chunks below the broker's limit for records, which follow one another in the changelog. A manifest is JSON, cut in
the same way. Both are found by the offset of their first chunk and checked by their SHA-256. Every chunk has its own
record key, so compaction keeps a chunk until a tombstone deletes it, which is written once neither of the two newest
manifests lists it.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, deserialize

from stream_app.errors import ErrorCode, StateError

FORMAT = 1
"""Format of manifests and blobs; a version reads its own format."""

CHUNK_BYTES = 900_000
"""Below the broker's default limit of 1,048,588 bytes a record, with room for key, headers and batch."""

_MAX_BLOB_BYTES = 1 << 30
"""Larger blobs are not read; a network of 80 million parameters with its optimizer state is smaller."""

MAX_CHUNKS = _MAX_BLOB_BYTES // CHUNK_BYTES + 1
"""Of a blob, and of a manifest, which lists up to five million blobs; 100,000 full streams have 1.2 million."""

MANIFEST_SUFFIX = "/manifest"
"""Suffix of a manifest's key; no key of a blob ends with it."""

SNAPSHOT_KEY = b"snapshot"
"""The key of acts `snapshot` in progress: a search reads no other values."""

_METADATA = f'"__metadata__":{{"format":"areba {FORMAT}"}}'

_TYPES = {
    np.dtype(name): text
    for name, text in (
        ("float64", "F64"), ("float32", "F32"), ("float16", "F16"), ("bool", "BOOL"),
        ("int64", "I64"), ("int32", "I32"), ("int16", "I16"), ("int8", "I8"),
        ("uint64", "U64"), ("uint32", "U32"), ("uint16", "U16"), ("uint8", "U8"),
    )
}  # fmt: skip
"""The types of numbers, as the format spells them."""

_DTYPES = {text: dtype for dtype, text in _TYPES.items()}

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Columns: TypeAlias = dict[str, NDArray[Any]]


class Location(NamedTuple):
    """Where a blob or manifest is in the changelog, and how its bytes are checked.

    Attributes:
        offset: Offset of the first chunk.
        chunks: Number of chunks.
        length: Number of bytes in all chunks.
        checksum: SHA-256 of these bytes, hexadecimal.
    """

    offset: int
    chunks: int
    length: int
    checksum: str


class Snapshot(NamedTuple):
    """A snapshot as an act in progress names it: its manifest, and the offset of its commit record."""

    manifest: Location
    progress_offset: int

    def __str__(self) -> str:
        """Return `offset:chunks:length:checksum:progress offset`."""
        return ":".join(map(str, (*self.manifest, self.progress_offset)))


def _parse_snapshot(text: str) -> Snapshot:
    """Parse what `str` of a snapshot returns.

    Raises:
        ValueError: The text does not have this form.
    """
    offset, chunks, length, checksum, progress_offset = text.split(":")
    location = Location(int(offset), int(chunks), int(length), checksum)
    if min(location.offset, location.length, int(progress_offset)) < 0 or not 1 <= location.chunks <= MAX_CHUNKS:
        raise ValueError(text)
    return Snapshot(location, int(progress_offset))


def snapshots_text(snapshots: Sequence[Snapshot]) -> str:
    """Return the text of an act `snapshot`: the snapshots from which a restore may begin, newest first."""
    return " ".join(map(str, snapshots))


def parse_snapshots(text: str) -> tuple[Snapshot, ...]:
    """Parse the text of an act `snapshot`.

    Raises:
        StateError: It does not have this form.
    """
    try:
        return tuple(map(_parse_snapshot, text.split()))
    except ValueError:
        raise StateError(f"not the text of an act `snapshot`: {text!r:.200}") from None


class Entry(BaseModel):
    """One blob that a manifest lists."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    stream: str
    kind: Annotated[str, Field(pattern="^(core|pending|closed|ring)$")]
    number: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]
    chunks: Annotated[int, Field(ge=1, le=MAX_CHUNKS)]
    length: Annotated[int, Field(ge=0, le=_MAX_BLOB_BYTES)]
    checksum: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    key: str

    @property
    def location(self) -> Location:
        """Where its bytes are in the changelog."""
        return Location(self.offset, self.chunks, self.length, self.checksum)


Count: TypeAlias = Annotated[int, Field(ge=0)]
Counts: TypeAlias = tuple[Count, Count, Count, Count]
BreakerCounts: TypeAlias = tuple[Mapping[str, Counts], Mapping[str, Counts]]
"""The breaker's counts of examples and of labels, by stream; see `breaker.Count`."""

_NO_COUNTS: BreakerCounts = ({}, {})


class Manifest(BaseModel):
    """The list of blobs that hold the state of a task after one commit record.

    Attributes:
        format: `FORMAT` of the version that wrote the manifest.
        engine: The version of areba that wrote the manifest.
        partition: The task's number.
        sequence: Sequence of the commit record.
        digest: Digest of the commit record, hexadecimal.
        offsets: Last processed offsets of examples and labels, plus 1.
        settings: The configuration in force, as `TaskSettings.to_json` writes it.
        entries: The blobs, with the streams in the task's order.
        progress_offset: Offset of the commit record in progress; 0 in a file outside the changelog.
        dropped: Keys and numbers of chunks of blobs that the last snapshot but one listed, and that are not listed now.
        malformed: The breaker's counts.
        stopped: The reasons of the streams that are stopped, by stream, the oldest stop first.
        purges: The snapshots that must follow this one, so that the changelog loses what was erased.
        partitions: The number of partitions to which the application moved last; 0: it never moved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int
    engine: str
    partition: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=0)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    offsets: tuple[int, int]
    settings: str
    entries: tuple[Entry, ...]
    progress_offset: Annotated[int, Field(ge=0)] = 0
    dropped: tuple[tuple[str, Annotated[int, Field(ge=1, le=MAX_CHUNKS)]], ...] = ()
    malformed: BreakerCounts = _NO_COUNTS
    stopped: Mapping[str, str] = {}
    purges: Annotated[int, Field(ge=0)] = 0
    partitions: Annotated[int, Field(ge=0)] = 0

    @property
    def key(self) -> str:
        """Its key in the changelog."""
        return f"{snapshot_key(self.sequence, self.purges)}{MANIFEST_SUFFIX}"

    def to_bytes(self) -> bytes:
        """Return the manifest as the changelog stores it."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Self:
        """Parse a manifest.

        Args:
            content: Its bytes.
            where: The record that they were read from, for error messages.

        Raises:
            StateError: The bytes are not a manifest, or of a format that this version does not read.
        """
        try:
            manifest = cls.model_validate_json(content)
        except ValidationError as problem:
            _refuse_other_format(_format_of(content, where), where)
            first = problem.errors(include_url=False, include_input=False)[0]
            location = ".".join(map(str, first["loc"]))
            raise StateError(f"{where}: a manifest with a wrong {location}: {first['msg']}") from None
        _refuse_other_format(manifest.format, where)
        return manifest


def _format_of(content: bytes, where: str) -> object:
    """Return the format that JSON names; None if it names none.

    Raises:
        StateError: The bytes are not JSON.
    """
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StateError(f"{where}: not a manifest ({problem})") from None
    return plain.get("format") if isinstance(plain, dict) else None


def _refuse_other_format(found: object, where: str) -> None:
    """Raise `StateError` if this version does not read the format."""
    if found != FORMAT:
        text = f"{where}: a snapshot of format {found!r:.20}; this version reads {FORMAT}"
        raise StateError(text, ErrorCode.OTHER_VERSION)


def pack(arrays: Arrays) -> bytes:
    """Return arrays as one safetensors file; equal arrays give equal bytes.

    The file is written here: the package's own function takes ten times as long for small arrays.
    """
    header, order = header_and_order(tuple([(name, array.dtype, array.shape) for name, array in arrays.items()]))
    return b"".join([header, *[arrays[name].tobytes() for name in order]])


@lru_cache(maxsize=1_000)
def header_and_order(arrays: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]) -> tuple[bytes, Sequence[str]]:
    """Return the header of a file with these arrays, by name, type and shape, and the order of their bytes.

    Most streams of a task have arrays of the same shapes, so most headers are those of an earlier stream.
    """
    # The widest elements come first, so that each array begins at a multiple of the size of its elements.
    sorted_arrays = sorted(arrays, key=lambda array: -array[1].itemsize)
    texts, start = [], 0
    for name, dtype, shape in sorted_arrays:
        end = start + math.prod(shape) * dtype.itemsize
        texts.append(f"{beginning(name, dtype)}{list(shape)}{OFFSETS}[{start},{end}]}}")
        start = end
    return header_with(texts), [name for name, _, _ in sorted_arrays]


OFFSETS = ',"data_offsets":'
"""What comes after the shape of an array in a header."""


def beginning(name: str, dtype: np.dtype[Any]) -> str:
    """Return what a header says of an array before its shape."""
    return f'{json.dumps(name)}:{{"dtype":"{_TYPES[dtype]}","shape":'


def header_with(texts: Iterable[str]) -> bytes:
    """Return the header with the texts of these arrays, in the order of their bytes."""
    text = f"{{{','.join([_METADATA, *texts])}}}".encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def unpack(content: bytes, where: str) -> Columns:
    """Return the arrays of a safetensors file, writable; they share memory.

    Args:
        content: The bytes of the file.
        where: The location that they were read from, for error messages.

    Raises:
        StateError: The bytes are not a safetensors file.
    """
    begin = 8 + int.from_bytes(content[:8], "little")
    try:
        spans = _spans(content[:begin], len(content))
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as problem:
        raise StateError(f"{where}: not a blob ({problem})") from None
    cells = bytearray(content)
    return {name: np.ndarray(shape, dtype, cells, start) for name, dtype, shape, start in spans}


@lru_cache(maxsize=1_000)
def _spans(header: bytes, size: int) -> Sequence[tuple[str, np.dtype[Any], tuple[int, ...], int]]:
    """Return name, type, shape and first byte of each array, given the header and the size of a whole file.

    The package reads a file of zeros with this header, so it refuses what it would refuse of the file.

    Raises:
        SafetensorError, ValueError, KeyError: The bytes are not the header of such a file.
    """
    deserialize(header + bytes(size - len(header)))  # type: ignore[no-untyped-call]
    arrays = {name: array for name, array in json.loads(header[8:]).items() if name != "__metadata__"}
    return [
        (name, _DTYPES[array["dtype"]], tuple(array["shape"]), len(header) + array["data_offsets"][0])
        for name, array in arrays.items()
    ]


@contextmanager
def loading(where: str) -> Iterator[None]:
    """Name the place of what cannot be loaded; every error of a state without the right form becomes a `StateError`."""
    try:
        yield
    except StateError as problem:
        raise problem.within(where) from problem
    except (KeyError, ValueError, IndexError, TypeError, OverflowError) as problem:
        raise StateError(f"{where}: {problem!r}") from problem


def named(prefix: str, arrays: Arrays) -> Columns:
    """Return the arrays with a prefix before their names."""
    return {f"{prefix}{name}": np.asarray(array) for name, array in arrays.items()}


def by_prefix(arrays: Arrays) -> dict[str, Columns]:
    """Return arrays by what is before the last dot that separates parts of a state, as `learner.0` or `waiting`."""
    parts: dict[str, Columns] = {}
    for name, array in arrays.items():
        prefix, rest = _split(name)
        parts.setdefault(prefix, {})[rest] = array
    return parts


@lru_cache(maxsize=10_000)
def _split(name: str) -> tuple[str, str]:
    """Return the part of a state to which an array belongs, and its name there; a learner has a part by its number."""
    words = name.split(".")
    count = 2 if words[0] in {"learner", "sums"} else min(1, len(words) - 1)
    return ".".join(words[:count]), ".".join(words[count:])


def without_prefix(arrays: Arrays, prefix: str) -> Columns:
    """Return the arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def chunks_of(content: bytes, size: int = CHUNK_BYTES) -> list[bytes]:
    """Cut bytes into pieces that fit into a record; no bytes are one empty piece."""
    return [content[start : start + size] for start in range(0, max(1, len(content)), size)]


def checksum_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def snapshot_key(sequence: int, purges: int) -> str:
    """Return how the keys of a snapshot's blobs begin, and that of its manifest.

    Args:
        sequence: Sequence of the commit record.
        purges: See `Manifest`: the snapshots of a purge may follow the same commit record.
    """
    return f"{sequence}.{purges}" if purges else f"{sequence}"


def chunk_key(key: str, number: int) -> bytes:
    """Return the record key of one chunk."""
    return f"{key}/{number}".encode()


def join_chunks(location: Location, chunks: Sequence[bytes], where: str) -> bytes:
    """Join the chunks of a blob or manifest, and check the bytes.

    Raises:
        StateError: The bytes do not have the length or the checksum of the location.
    """
    content = b"".join(chunks)
    if len(content) != location.length or checksum_of(content) != location.checksum:
        raise StateError(
            f"{where}: its {len(content)} bytes do not match the checksum of the {location.length} bytes listed"
        )
    return content
