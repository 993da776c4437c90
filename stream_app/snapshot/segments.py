"""Decide which blobs a snapshot of a task writes, and which blobs of older snapshots it lists again.

The rows of a stream are grouped into segments that are written once: pending examples by arrival, closed ids by number.
Rows that are in no segment yet, or whose segment was dropped since few of its rows are left, are part of the stream's
core. A learner's long queue is a ring, whose rows keep their places: a block of rows is written if its bytes have
changed, as the core is. So the cost of a snapshot grows with what has changed since the last one, not with the size of
the state. A segment is written again only if a closed id in it was corrected, or if the stream was built again, because
its settings have changed, it was reset, or ids were erased.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

import numpy as np

from stream_app.arrays import Longs
from stream_app.snapshot.format import (
    Arrays,
    Columns,
    Entry,
    checksum_of,
    chunks_of,
    named,
    pack,
)

CORE, PENDING, CLOSED, RING = "core", "pending", "closed", "ring"

SEGMENT_BYTES = 262_144
"""Size at which pending rows that are in no segment yet become one; until then every snapshot contains them."""

CLOSED_ROWS = 4_096
"""Closed ids in a segment, some 400 kB; every snapshot contains those after the last complete segment."""

RING_ROWS = 100
"""Rows of a block. RELAY's queues of 500 examples have five blocks, of which a new example changes one."""

_BLOCKS_OF_A_RING = 1_000_000
"""More than a ring has; the numbers of the next ring's blocks begin there."""

_LEAST_SHARE = 4
"""A segment of which less than 1 / `_LEAST_SHARE` is still pending is dropped, and its rows move to the core."""


class Exporting(Protocol):
    """The port through which a snapshot reads a stream."""

    name: str
    has_changed: bool
    is_new: bool
    """Whether the blobs of older snapshots do not belong to it."""
    packed: bytes | None
    """Its core as a file, if all that is in no segment was packed before; None: it was not."""

    @property
    def amended(self) -> Collection[int]:
        """Numbers of the closed ids whose rows have changed since the last snapshot."""

    def core_state(self) -> Arrays:
        """Return all of its state but the rows of pending examples and closed ids.

        Names of the form `learner.N.ring.NAME.COLUMN` are the columns of a ring of a learner.
        """

    def pending_arrivals(self) -> Longs:
        """Return the numbers in the stream of all examples that wait for their labels, int64 `[n]`, ascending."""

    def pending_rows(self, arrivals: Longs) -> Arrays:
        """Return the columns of these pending examples."""

    def closed_span(self) -> tuple[int, int]:
        """Return the number of the first closed id that is remembered, and the number after the last."""

    def closed_rows(self, first: int, end: int) -> Arrays:
        """Return the columns of the closed ids from `first` up to, but without, `end`."""


class Blob(NamedTuple):
    """A blob that has to be written; the changelog does not have its `key` yet. `checksum` is its SHA-256."""

    stream: str
    kind: str
    number: int
    key: str
    content: bytes
    checksum: str

    @classmethod
    def of(cls, stream: str, kind: str, number: int, key: str, content: bytes) -> Self:
        """Return a blob with its checksum."""
        return cls(stream, kind, number, key, content, checksum_of(content))

    def entry(self, offset: int) -> Entry:
        """Return the manifest's entry for this blob, whose first chunk was written at this offset."""
        return Entry.model_construct(  # without checks, which cost more than all else: these are our own values
            stream=self.stream,
            kind=self.kind,
            number=self.number,
            offset=offset,
            chunks=len(chunks_of(self.content)),
            length=len(self.content),
            checksum=self.checksum,
            key=self.key,
        )


@dataclass(slots=True)
class _Segment:
    """A segment of pending examples that is in the changelog, or is being written."""

    arrivals: Longs
    listed: Entry | Blob


@dataclass(slots=True)
class _Kept:
    """The blobs of one stream that are in the changelog, or are being written."""

    core: Entry | Blob | None = None
    pending: dict[int, _Segment] = field(default_factory=dict)
    closed: dict[int, Entry | Blob] = field(default_factory=dict)
    ring: dict[int, Entry | Blob] = field(default_factory=dict)

    def listed(self) -> Iterable[Entry | Blob]:
        """Yield all of them, the core first."""
        if self.core is not None:
            yield self.core
        yield from (segment.listed for segment in self.pending.values())
        yield from self.closed.values()
        yield from self.ring.values()


class Book:
    """The blobs that a task's newest snapshot lists; decides what the next snapshot has to write.

    If a draft is not committed, the book no longer describes the changelog: the caller then has to build a
    new book from the last committed manifest.
    """

    def __init__(self) -> None:
        self._streams: dict[str, _Kept] = {}

    def remember(self, entry: Entry, arrivals: Longs | None = None) -> None:
        """Add a blob of the manifest that was restored; `arrivals` belongs to a segment of pending examples."""
        kept = self._streams.setdefault(entry.stream, _Kept())
        if entry.kind == CORE:
            kept.core = entry
        elif entry.kind == CLOSED:
            kept.closed[entry.number] = entry
        elif entry.kind == RING:
            kept.ring[entry.number] = entry
        else:
            kept.pending[entry.number] = _Segment(np.zeros(0, np.int64) if arrivals is None else arrivals, entry)

    def draft(self, streams: Sequence[Exporting], key: str) -> list[Entry | Blob]:
        """Return what a manifest of the current state lists: blobs to be written, and entries of blobs that are reused.

        Args:
            streams: The streams, in the order of the manifest.
            key: How the keys of new blobs begin; those of no other snapshot begin so.
        """
        return [one for stream in streams for one in self.draft_stream(stream, key)]

    def needs(self, stream: Exporting) -> bool:
        """Say whether a stream must be drafted: it has changed, or the changelog does not have it."""
        return stream.has_changed or stream.is_new or stream.name not in self._streams

    def draft_stream(self, stream: Exporting, key: str) -> Sequence[Entry | Blob]:
        """Return what a manifest lists of one stream, see `draft`."""
        if stream.is_new:
            self._streams[stream.name] = _Kept()
        kept = self._streams.setdefault(stream.name, _Kept())
        if not stream.has_changed and kept.core is not None:
            return list(kept.listed())
        prefix = f"{key}/{stream.name}"
        if stream.packed is not None and not kept.pending:
            _closed(kept, stream, prefix)
            kept.ring, content = {}, stream.packed
        else:
            pending = _pending(kept, stream, prefix)
            span = _closed(kept, stream, prefix)
            content = pack(_core(stream, _without_blocks(kept, stream, prefix), pending, span))
        new = Blob.of(stream.name, CORE, 0, f"{prefix}/{CORE}", content)
        if kept.core is None or kept.core.checksum != new.checksum:
            kept.core = new
        return list(kept.listed())

    def note_written(self, blob: Blob, offset: int) -> None:
        """Note that a new blob was written, its first chunk at this offset."""
        entry, kept = blob.entry(offset), self._streams[blob.stream]
        if blob.kind == CORE:
            kept.core = entry
        elif blob.kind == PENDING:
            kept.pending[blob.number].listed = entry
        else:
            (kept.closed if blob.kind == CLOSED else kept.ring)[blob.number] = entry

    def entries(self, streams: Iterable[str]) -> tuple[Entry, ...]:
        """Return what the manifest lists of these streams, all of whose new blobs were written."""
        return tuple(_written(one) for name in streams for one in self._streams[name].listed())


def whole_core(stream: Exporting) -> Columns:
    """Return the core of a stream all of whose rows are in it."""
    pending = stream.pending_rows(stream.pending_arrivals())
    return _core(stream, stream.core_state(), pending, stream.closed_span())


def _core(stream: Exporting, state: Arrays, pending: Arrays, closed: tuple[int, int]) -> Columns:
    return {
        **state,
        **named("pending.", pending),
        "pending_arrivals": stream.pending_arrivals(),
        **named("closed.", stream.closed_rows(*closed)),
        "closed_first": np.array(stream.closed_span()[:1]),
    }


def _written(listed: Entry | Blob) -> Entry:
    if isinstance(listed, Entry):
        return listed
    raise AssertionError(f"{listed.key} is to be listed, and was not written")


def _pending(kept: _Kept, stream: Exporting, prefix: str) -> Arrays:
    """Drop segments with few pending rows, and make a segment of the rows in none if they are large enough.

    Returns:
        The rows of the pending examples that are in no segment.
    """
    waiting = stream.pending_arrivals()
    loose = np.ones(len(waiting), np.bool_)
    for number, segment in list(kept.pending.items()):
        alive = np.isin(waiting, segment.arrivals, assume_unique=True)
        if _LEAST_SHARE * np.count_nonzero(alive) < len(segment.arrivals) or not alive.any():
            del kept.pending[number]
        else:
            loose &= ~alive
    arrivals: Longs = waiting[loose]
    rows = stream.pending_rows(arrivals)
    if not len(arrivals) or sum(column.nbytes for column in rows.values()) < SEGMENT_BYTES:
        return rows
    number = int(arrivals[-1])  # the newest is in no other segment
    blob = Blob.of(stream.name, PENDING, number, f"{prefix}/{PENDING}/{number}", pack(rows))
    kept.pending[number] = _Segment(arrivals, blob)
    return stream.pending_rows(arrivals[:0])


def _closed(kept: _Kept, stream: Exporting, prefix: str) -> tuple[int, int]:
    """Drop segments that are no longer remembered or were corrected, and make those that are complete.

    Returns:
        The numbers of closed ids that are in no segment: the first number, and the number after the last.
    """
    first, end = stream.closed_span()
    if end < CLOSED_ROWS and not kept.closed:
        return first, end
    amended = {number // CLOSED_ROWS for number in stream.amended}
    for number in [number for number in kept.closed if (number + 1) * CLOSED_ROWS <= first or number in amended]:
        del kept.closed[number]
    whole = end // CLOSED_ROWS
    for number in range(first // CLOSED_ROWS, whole):
        if number not in kept.closed:
            begin = max(first, number * CLOSED_ROWS)
            rows = {**stream.closed_rows(begin, (number + 1) * CLOSED_ROWS), "first": np.array([begin])}
            key = f"{prefix}/{CLOSED}/{number}"
            kept.closed[number] = Blob.of(stream.name, CLOSED, number, key, pack(rows))
    return max(first, whole * CLOSED_ROWS), end


def _without_blocks(kept: _Kept, stream: Exporting, prefix: str) -> Columns:
    """Return the core without the whole blocks of its rings, which become blobs if the changelog does not have them."""
    core, blocks = dict(stream.core_state()), {}
    rings: dict[str, list[str]] = {}
    for name in core:
        if is_ring(name):
            rings.setdefault(name.rpartition(".")[0], []).append(name)
    for place, names in enumerate(rings.values()):
        whole = min(len(core[name]) for name in names) // RING_ROWS
        for block in range(whole):
            number, rows = place * _BLOCKS_OF_A_RING + block, slice(block * RING_ROWS, (block + 1) * RING_ROWS)
            content, held = pack({name: core[name][rows] for name in names}), kept.ring.get(number)
            new = Blob.of(stream.name, RING, number, f"{prefix}/{RING}/{number}", content)
            blocks[number] = new if held is None or held.checksum != new.checksum else held
        core |= {name: core[name][whole * RING_ROWS :] for name in names}
    kept.ring = blocks
    return core


@lru_cache(maxsize=10_000)
def is_ring(name: str) -> bool:
    """Say whether an array of a core is a column of a ring."""
    return re.match(r"learner\.\d+\.ring\.", name) is not None
