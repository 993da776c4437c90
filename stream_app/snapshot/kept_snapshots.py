"""The snapshots of a task that the changelog keeps, and what each of them lists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from stream_app.snapshot.format import Entry, Snapshot
from stream_app.snapshot.segments import Book

KeyChunks: TypeAlias = dict[str, int]
"""How many chunks each key has."""


def key_chunks(entries: Iterable[Entry]) -> KeyChunks:
    """Return how many chunks the key of each entry has."""
    return {entry.key: entry.chunks for entry in entries}


@dataclass(frozen=True, slots=True)
class KeptSnapshots:
    """What the changelog has of a task: the first snapshot after a restore continues from there.

    Attributes:
        snapshots: The snapshots that can be read, newest first.
        listings: The keys of each of these snapshots.
        garbage: The keys that no snapshot needs.
        book: What the newest snapshot lists.
        purges: The snapshots of a purge that must follow the newest snapshot.
    """

    snapshots: tuple[Snapshot, ...] = ()
    listings: tuple[KeyChunks, ...] = ()
    garbage: Mapping[str, int] = field(default_factory=dict)
    book: Book = field(default_factory=Book)
    purges: int = 0
