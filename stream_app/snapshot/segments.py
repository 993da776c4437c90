"""Which blobs a snapshot of a task writes, and which of older snapshots it lists again.

A stream's rows fall into segments that are written once: pending examples by arrival, closed ids by number. What is in
no segment yet, or was in one of which little is left, is part of the stream's core; the core is written when its bytes
have changed. So a snapshot costs what has changed since the last one, not what is held. Only a segment of which a
closed id was corrected is written again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from stream_app.errors import StateError
from stream_app.records import Longs
from stream_app.snapshot.format import (
    Arrays,
    Columns,
    Entry,
    Manifest,
    checksum_of,
    chunks_of,
    named,
    pack,
    part_of,
    unpack,
)

CORE, PENDING, CLOSED = "core", "pending", "closed"

SEGMENT_BYTES = 262_144
"""Pending rows that are in no segment yet are part of every snapshot, up to so many bytes."""

CLOSED_ROWS = 4_096
"""Closed ids of a segment, some 400 kB; those after the last whole segment are part of every snapshot."""

LEAST_SHARE = 4
"""A segment of which less than 1 / 4 still waits is given up: its rows move to the core."""


class Exporting(Protocol):
    """A stream as a snapshot sees it."""

    name: str
    has_changed: bool

    @property
    def amended(self) -> Collection[int]:
        """Numbers of closed ids whose rows have changed since the snapshot before."""

    def core_state(self) -> Arrays:
        """All but the rows of pending examples and closed ids."""

    def pending_arrivals(self) -> Longs:
        """int64, ascending: the number in the stream of every example that waits for its label."""

    def pending_rows(self, arrivals: Longs) -> Arrays:
        """Their columns."""

    def closed_span(self) -> tuple[int, int]:
        """The first number of a closed id that is remembered, and the next one."""

    def closed_rows(self, first: int, end: int) -> Arrays:
        """Their columns."""


class Blob(NamedTuple):
    """Bytes to be written; `key` is new in the changelog."""

    stream: str
    kind: str
    number: int
    key: str
    content: bytes

    def entry(self, offset: int) -> Entry:
        """As the manifest lists it, once its first chunk is at this offset."""
        return Entry(
            stream=self.stream,
            kind=self.kind,
            number=self.number,
            offset=offset,
            chunks=len(chunks_of(self.content)),
            length=len(self.content),
            checksum=checksum_of(self.content),
            key=self.key,
        )


@dataclass(slots=True)
class _Segment:
    """A segment of pending examples that is in the changelog, or on its way there."""

    arrivals: Longs
    listed: Entry | Blob


@dataclass(slots=True)
class _Kept:
    """What is written of one stream."""

    core: Entry | Blob | None = None
    pending: dict[int, _Segment] = field(default_factory=dict)
    closed: dict[int, Entry | Blob] = field(default_factory=dict)

    def listed(self) -> Iterable[Entry | Blob]:
        """Core first."""
        if self.core is not None:
            yield self.core
        yield from (segment.listed for segment in self.pending.values())
        yield from self.closed.values()


class Book:
    """What a task's newest snapshot lists; gives what the next one has to write.

    A draft that is not committed must not be built upon: make a new book of the last committed manifest then.
    """

    def __init__(self) -> None:
        self._streams: dict[str, _Kept] = {}

    def remember(self, entry: Entry, arrivals: Longs | None = None) -> None:
        """Take over a blob of the manifest that was restored; `arrivals` of a pending segment."""
        kept = self._streams.setdefault(entry.stream, _Kept())
        if entry.kind == CORE:
            kept.core = entry
        elif entry.kind == CLOSED:
            kept.closed[entry.number] = entry
        else:
            kept.pending[entry.number] = _Segment(np.zeros(0, np.int64) if arrivals is None else arrivals, entry)

    def draft(self, streams: Sequence[Exporting], sequence: int) -> list[Entry | Blob]:
        """What a manifest of this moment lists, in the streams' order: blobs that are new, and entries of old ones."""
        listed: list[Entry | Blob] = []
        for stream in streams:
            kept = self._streams.setdefault(stream.name, _Kept())
            if not stream.has_changed and kept.core is not None:
                listed.extend(kept.listed())
                continue
            prefix = f"{sequence}/{stream.name}"
            loose = _pending(kept, stream, prefix)
            start, end = _closed(kept, stream, prefix)
            core = {
                **stream.core_state(),
                **named("pending.", stream.pending_rows(loose)),
                "pending_arrivals": stream.pending_arrivals(),
                **named("closed.", stream.closed_rows(start, end)),
                "closed_first": np.array(stream.closed_span()[:1]),
            }
            content = pack(core)
            if kept.core is None or _checksum(kept.core) != checksum_of(content):
                kept.core = Blob(stream.name, CORE, 0, f"{prefix}/{CORE}", content)
            listed.extend(kept.listed())
        return listed

    def settle(self, places: Mapping[str, Entry]) -> None:
        """The new blobs are in the changelog, by key."""
        for kept in self._streams.values():
            if isinstance(kept.core, Blob):
                kept.core = places[kept.core.key]
            for segment in kept.pending.values():
                if isinstance(segment.listed, Blob):
                    segment.listed = places[segment.listed.key]
            for number, listed in kept.closed.items():
                if isinstance(listed, Blob):
                    kept.closed[number] = places[listed.key]


def _pending(kept: _Kept, stream: Exporting, prefix: str) -> Longs:
    """Drop segments of which little waits, make one of what is loose if that is much; the arrivals left loose."""
    waiting = stream.pending_arrivals()
    loose = np.ones(len(waiting), np.bool_)
    for number, segment in list(kept.pending.items()):
        alive = np.isin(waiting, segment.arrivals, assume_unique=True)
        if LEAST_SHARE * np.count_nonzero(alive) < len(segment.arrivals) or not alive.any():
            del kept.pending[number]
        else:
            loose &= ~alive
    arrivals: Longs = waiting[loose]
    if not len(arrivals):
        return arrivals
    rows = stream.pending_rows(arrivals)
    if sum(column.nbytes for column in rows.values()) < SEGMENT_BYTES:
        return arrivals
    number = int(arrivals[-1])  # the newest is in no other segment
    blob = Blob(stream.name, PENDING, number, f"{prefix}/{PENDING}/{number}", pack(rows))
    kept.pending[number] = _Segment(arrivals, blob)
    return arrivals[:0]


def _closed(kept: _Kept, stream: Exporting, prefix: str) -> tuple[int, int]:
    """Drop segments that are forgotten or amended, make those that are whole; the numbers that are in none."""
    first, end = stream.closed_span()
    amended = {number // CLOSED_ROWS for number in stream.amended}
    for number in [number for number in kept.closed if (number + 1) * CLOSED_ROWS <= first or number in amended]:
        del kept.closed[number]
    whole = end // CLOSED_ROWS
    for number in range(first // CLOSED_ROWS, whole):
        if number not in kept.closed:
            begin = max(first, number * CLOSED_ROWS)
            rows = {**stream.closed_rows(begin, (number + 1) * CLOSED_ROWS), "first": np.array([begin])}
            key = f"{prefix}/{CLOSED}/{number}"
            kept.closed[number] = Blob(stream.name, CLOSED, number, key, pack(rows))
    return max(first, whole * CLOSED_ROWS), end


def _checksum(listed: Entry | Blob) -> str:
    return listed.checksum if isinstance(listed, Entry) else checksum_of(listed.content)


class Loading(Protocol):
    """A new task, as far as a snapshot fills it."""

    def load_stream(self, name: str, core: Columns, pending: Columns, closed: Columns) -> None:
        """Open a stream and let it go on where the snapshot was taken."""


def load_task(task: Loading, manifest: Manifest, contents: Mapping[str, bytes], where: str) -> Book:
    """Fill a new task.

    Args:
        task: Under the manifest's settings.
        manifest: What there is.
        contents: The bytes of each entry, by key; their checksums were compared.
        where: For errors.

    Returns:
        The book to go on with.

    Raises:
        StateError: A blob is not what it should be.
    """
    book = Book()
    parts: dict[str, dict[str, list[Columns]]] = {}
    for entry in sorted(manifest.entries, key=lambda entry: entry.number):
        arrays = unpack(contents[entry.key], f"{where}, {entry.key}")
        parts.setdefault(entry.stream, {CORE: [], PENDING: [], CLOSED: []})[entry.kind].append(arrays)
        book.remember(entry, arrays.get("arrivals"))
    for stream in dict.fromkeys(entry.stream for entry in manifest.entries):
        held = parts[stream]
        if len(held[CORE]) != 1:
            raise StateError(f"{where}: stream {stream} has {len(held[CORE])} cores")
        try:
            task.load_stream(stream, *_gathered(held[CORE][0], held[PENDING], held[CLOSED]))
        except StateError as problem:
            raise problem.within(f"{where}, stream {stream}") from problem
        except (KeyError, ValueError, IndexError, TypeError, OverflowError) as problem:
            raise StateError(f"{where}, stream {stream}: {problem!r}") from problem
    return book


def _gathered(core: Columns, pending: Iterable[Columns], closed: Iterable[Columns]) -> tuple[Columns, Columns, Columns]:
    """Core, pending and closed rows of a stream, of its blobs: the inverse of `Book.draft`."""
    own = {name: array for name, array in core.items() if not name.startswith((f"{PENDING}.", f"{CLOSED}."))}
    loose, tail = part_of(core, f"{PENDING}."), part_of(core, f"{CLOSED}.")
    rows = _stacked([*pending, loose])
    order = np.argsort(rows["arrivals"], kind="stable")
    order = order[np.isin(rows["arrivals"][order], core["pending_arrivals"])]
    first = int(core["closed_first"][0])
    remembered = []
    for segment in closed:
        skip = max(0, first - int(segment["first"][0]))
        remembered.append({name: column[skip:] for name, column in segment.items() if name != "first"})
    return own, {name: column[order] for name, column in rows.items()}, _stacked([*remembered, tail])


def _stacked(parts: Sequence[Columns]) -> Columns:
    """The same columns of all, one part behind the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[-1]}
