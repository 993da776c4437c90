"""The records of the changelog that hold a snapshot: chunks of blobs and manifests, and tombstones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stream_app.record_columns import OutputRecords
from stream_app.snapshot.format import chunk_key, chunks_of


class Chunk(NamedTuple):
    """A record that is to be written; `key` is the key of its blob, or None for a tombstone."""

    record_key: bytes
    value: bytes | None
    key: str | None


def chunks_with(key: str, content: bytes) -> Iterable[Chunk]:
    """Cut a blob or manifest into chunks."""
    return (Chunk(chunk_key(key, number), chunk, key) for number, chunk in enumerate(chunks_of(content)))


def tombstones_of(garbage: Mapping[str, int]) -> Iterable[Chunk]:
    """Return a tombstone for each chunk of these keys, which have so many chunks."""
    return (Chunk(chunk_key(key, number), None, None) for key, chunks in garbage.items() for number in range(chunks))


def records_of(chunks: Sequence[Chunk]) -> OutputRecords:
    """Return the records of chunks; the log sets their times."""
    keys = [chunk.record_key for chunk in chunks]
    return OutputRecords.of(keys, [chunk.value for chunk in chunks], [0] * len(chunks))
