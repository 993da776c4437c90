"""Fill a new task from the blobs of a snapshot: the inverse of `segments`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from stream_app.errors import StateError
from stream_app.snapshot.format import Columns, Entry, Manifest, loading, unpack, without_prefix
from stream_app.snapshot.row_headers import chosen_rows, with_header_columns
from stream_app.snapshot.segments import CLOSED, CORE, PENDING, RING, Book, is_ring

AT_ONCE = 256
"""Streams that are loaded together."""


class _Loading(Protocol):
    """The port through which a snapshot fills a new task."""

    stopped: dict[str, str]
    """The streams that are stopped, with the reasons."""
    partitions: int
    """The number of partitions to which the application moved last; 0: it never moved."""

    def load_cores(self, names: Sequence[str], cores: Sequence[bytes]) -> int:
        """Add as many of the first streams as can be loaded together, given all that they have; return how many."""

    def load_stream(self, name: str, core: Columns, pending: Columns, closed: Columns) -> None:
        """Add a stream, which continues where the snapshot was taken."""


def load_task(task: _Loading, manifest: Manifest, contents: Mapping[str, bytes], where: str) -> Book:
    """Fill a new task from a snapshot.

    Args:
        task: A task with the manifest's settings, and without streams.
        manifest: The list of blobs.
        contents: The bytes of each entry, by key; their checksums were compared.
        where: The place that they were read from, for error messages.

    Returns:
        The book from which the next snapshot is drafted.

    Raises:
        StateError: A blob is malformed, or does not fit the task.
    """
    task.stopped.update(manifest.stopped)
    task.partitions = manifest.partitions
    book = Book()
    streams: dict[str, list[Entry]] = {}
    for entry in manifest.entries:
        streams.setdefault(entry.stream, []).append(entry)
    names = list(streams)
    whole = [[entry.kind for entry in entries] == [CORE] for entries in streams.values()]
    begin, end = 0, 0
    while begin < len(names):
        end = max(begin, end)
        while end < min(len(names), begin + AT_ONCE) and whole[end]:
            end += 1
        together = names[begin:end]
        loaded = task.load_cores(together, [contents[streams[name][0].key] for name in together]) if together else 0
        for name in together[:loaded]:
            book.remember(streams[name][0])
        begin += loaded
        if begin < len(names) and (not loaded or begin < end):
            _load_alone(task, streams[names[begin]], contents, where, book)
            begin += 1
    return book


def _load_alone(
    task: _Loading, entries: Sequence[Entry], contents: Mapping[str, bytes], where: str, book: Book
) -> None:
    """Load a stream, given all of its entries."""
    held: dict[str, list[Columns]] = {CORE: [], PENDING: [], CLOSED: [], RING: []}
    for entry in sorted(entries, key=lambda entry: entry.number):
        arrays = unpack(contents[entry.key], f"{where}, {entry.key}")
        held[entry.kind].append(arrays)
        arrivals = arrays.get("arrivals")
        book.remember(entry, None if arrivals is None else arrivals.copy())
    stream = entries[0].stream
    if len(held[CORE]) != 1:
        raise StateError(f"{where}: stream {stream} has {len(held[CORE])} blobs of kind {CORE!r}, not 1")
    with loading(f"{where}, stream {stream}"):
        core = _with_blocks(held[CORE][0], held[RING])
        task.load_stream(stream, *_gathered(core, held[PENDING], held[CLOSED]))


def _gathered(core: Columns, pending: Iterable[Columns], closed: Iterable[Columns]) -> tuple[Columns, Columns, Columns]:
    """Return core, pending rows and closed rows of a stream from its blobs: the inverse of `Book.draft`."""
    own = {name: array for name, array in core.items() if not name.startswith((f"{PENDING}.", f"{CLOSED}."))}
    loose, tail = without_prefix(core, f"{PENDING}."), without_prefix(core, f"{CLOSED}.")
    rows = _stacked(with_header_columns([*pending, loose]))
    if not np.array_equal(rows["arrivals"], core["pending_arrivals"]):
        order = np.argsort(rows["arrivals"], kind="stable")
        order = order[np.isin(rows["arrivals"][order], core["pending_arrivals"])]
        rows = chosen_rows(rows, order)
    first = int(core["closed_first"][0])
    remembered = []
    for segment in closed:
        skip = max(0, first - int(segment["first"][0]))
        remembered.append({name: column[skip:] for name, column in segment.items() if name != "first"})
    return own, rows, _stacked([*remembered, tail])


def _with_blocks(core: Columns, blocks: Sequence[Columns]) -> Columns:
    """Return the core with the blocks of its rings: the inverse of `_without_blocks`."""
    if not blocks:
        return core
    return {
        name: np.concatenate([*(block[name] for block in blocks if name in block), array]) if is_ring(name) else array
        for name, array in core.items()
    }


def _stacked(parts: Sequence[Columns]) -> Columns:
    """Return the columns of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[-1]}
