"""Snapshots as bytes: arrays to blobs, blobs to chunks, and the manifest that lists them. No IO here.

A snapshot of a task is a manifest, and by stream what it lists:

    core        everything that changes with any record: learners, sums, counters, waiting labels, what is newest of
                the pending and the closed examples
    pending     a segment of pending examples; never written twice, however few of them still wait
    closed      a segment of closed ids; never written twice

A blob is one safetensors file (its reader checks every size against the bytes that are there, and runs no code), cut
into chunks below the broker's record limit, which follow one another in the changelog. A manifest is JSON in chunks.
Each is named by the offset of its first chunk and checked by its SHA-256. Every chunk has a key of its own, so that
compaction keeps what a manifest lists until a tombstone says that none of the two newest does.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stream_app.errors import ErrorCode, StateError

FORMAT = 2
"""Of manifests and blobs; a reader knows its own and those before it.

1: the breaker counted the records of both inputs together.
"""

CHUNK_BYTES = 900_000
"""Below the broker's default limit of 1,048,588 bytes a record, with room for key, headers and batch."""

MAX_BLOB_BYTES = 1 << 30
"""A blob that says it is larger is not read; a network of 80 million parameters with its moments is below."""

MANIFEST_SUFFIX = "/manifest"
"""Of its key; no blob has it."""

MAX_MANIFEST_CHUNKS = 64
"""58 MB: some 300,000 listed blobs."""

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Columns: TypeAlias = dict[str, NDArray[Any]]


class Place(NamedTuple):
    """Where bytes are in the changelog, and what they must be."""

    offset: int
    chunks: int
    length: int
    checksum: str


class Snapshot(NamedTuple):
    """A snapshot, as the metadata of committed offsets names it: its manifest, and where its commit record is."""

    manifest: Place
    progress_offset: int

    def __str__(self) -> str:
        """`offset:chunks:length:checksum:progress offset`."""
        return ":".join(map(str, (*self.manifest, self.progress_offset)))


def parse_snapshot(text: str) -> Snapshot:
    """The inverse of `str`.

    Raises:
        ValueError: It is none.
    """
    offset, chunks, length, checksum, progress_offset = text.split(":")
    place = Place(int(offset), int(chunks), int(length), checksum)
    if min(place.offset, place.length, int(progress_offset)) < 0 or not 1 <= place.chunks <= MAX_MANIFEST_CHUNKS:
        raise ValueError(text)
    return Snapshot(place, int(progress_offset))


class Entry(BaseModel):
    """One blob of a manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    stream: str
    kind: Annotated[str, Field(pattern="^(core|pending|closed)$")]
    number: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]
    chunks: Annotated[int, Field(ge=1, le=MAX_BLOB_BYTES // CHUNK_BYTES + 1)]
    length: Annotated[int, Field(ge=0, le=MAX_BLOB_BYTES)]
    checksum: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    key: str

    @property
    def place(self) -> Place:
        """Where its bytes are."""
        return Place(self.offset, self.chunks, self.length, self.checksum)


Count: TypeAlias = Annotated[int, Field(ge=0)]
Counts: TypeAlias = tuple[Count, Count, Count]


class Manifest(BaseModel):
    """The state of a task behind one commit record.

    Attributes:
        format: `FORMAT` of the version that wrote it.
        engine: That version.
        partition: The task's number.
        sequence: Of the commit record.
        digest: Of the commit record, hexadecimal.
        offsets: Examples and labels, processed + 1.
        settings: The configuration in force, as `TaskSettings.to_json` writes it.
        unreadable: The breaker's counts of examples and of labels; see `breaker.Count`.
        entries: What belongs to it, streams in the task's order.
        dropped: Keys and chunks of what was part of the snapshot two before, and is of none now.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int
    engine: str
    partition: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=0)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    offsets: tuple[int, int]
    settings: str
    unreadable: tuple[Counts, Counts]
    entries: tuple[Entry, ...]
    dropped: tuple[tuple[str, Annotated[int, Field(ge=1, le=MAX_BLOB_BYTES // CHUNK_BYTES + 1)]], ...] = ()

    def to_bytes(self) -> bytes:
        """As the changelog has it."""
        return self.model_dump_json().encode()


def read_manifest(content: bytes, where: str) -> Manifest:
    """The manifest of these bytes.

    Raises:
        StateError: They are none, or of a format that this version does not read.
    """
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StateError(f"{where}: not a manifest ({problem})") from None
    found = plain.get("format") if isinstance(plain, dict) else None
    if found not in range(1, FORMAT + 1):
        text = f"{where}: a snapshot of format {found!r:.20}, this version reads {FORMAT}"
        raise StateError(text, ErrorCode.FORMAT_UNKNOWN)
    if found == 1 and plain.pop("malformed", None) is not None:
        content = json.dumps({**plain, "unreadable": [[0, 0, 0], [0, 0, 0]]}).encode()  # counting begins anew
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise StateError(f"{where}: a manifest whose {place} is wrong: {first['msg']}") from None


def pack(arrays: Arrays) -> bytes:
    """One safetensors file; equal arrays give equal bytes."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(plain, metadata={"format": f"areba {FORMAT}"})


def unpack(content: bytes, where: str) -> Columns:
    """The arrays of a file, writable.

    Raises:
        StateError: The bytes are no such file.
    """
    try:
        loaded: Columns = load(content)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as problem:
        raise StateError(f"{where}: not a blob of ours ({problem})") from None
    return {name: array if array.flags.writeable else array.copy() for name, array in loaded.items()}


def named(prefix: str, arrays: Arrays) -> Columns:
    """The same with the prefix before their names."""
    return {f"{prefix}{name}": np.asarray(array) for name, array in arrays.items()}


def part_of(arrays: Arrays, prefix: str) -> Columns:
    """The inverse: those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def chunks_of(content: bytes, size: int = CHUNK_BYTES) -> list[bytes]:
    """Pieces that fit into a record; of nothing, one empty piece."""
    return [content[start : start + size] for start in range(0, max(1, len(content)), size)]


def checksum_of(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def manifest_key(sequence: int) -> str:
    """The key of a manifest."""
    return f"{sequence}{MANIFEST_SUFFIX}"


def chunk_key(key: str, number: int) -> bytes:
    """The record key of one chunk."""
    return f"{key}/{number}".encode()


def join_chunks(place: Place, chunks: Sequence[bytes], where: str) -> bytes:
    """The bytes that were cut.

    Raises:
        StateError: They are not those that the place names.
    """
    content = b"".join(chunks)
    if len(content) != place.length or checksum_of(content) != place.checksum:
        raise StateError(f"{where}: {len(content)} bytes with another checksum than the {place.length} bytes listed")
    return content
