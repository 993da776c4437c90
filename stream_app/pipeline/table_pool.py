"""The pool of a task: all that the join holds for its streams, with one bound, `join.max_table_bytes_per_task`.

Streams take a batch one after the other, so none of them can make room for another at each record. Instead the pool is
*levelled* after every `interval` records that the streams of the task have taken, wherever batches are cut: if the
streams together hold more than the bound, those that hold more than a level give up what is above it, their oldest
closed ids first, then their oldest examples and labels. The level is the largest with which the rest fits, so it is at
least the bound divided by the number of streams: a stream that holds less depends on no other stream.

Tables grow by doubling, and what rows count (`config.table_bytes`) includes that. Tables that have become far too large
are built again once all tables together take more than the bound, which changes no result.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stream_app.arrays import Integers, Longs
from stream_app.config import TaskSettings
from stream_app.config.table_bytes import interval_of, row_bytes
from stream_app.join.levelling import (
    CLOSED,
    CLOSED_SHARE,
    LATER,
    MAX_LABEL_BYTES,
    PENDING,
    WAITING,
    fill_allocated,
    fill_used,
    open_of,
)
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.outputs import Collector
from stream_app.pipeline.pool_closings import NO_CLOSINGS, Closings
from stream_app.pipeline.stream_set import Streams

_NEAR = 0.9
"""The share of the bound from which on the pool is about to be full."""

_WASTED_BYTES = 1 << 16
"""Tables that are larger than what they hold by less than this stay as they are: young tables are so large."""


def level_of(used: Longs, bound: int) -> int:
    """Return the largest level with which streams that hold this much fit into the bound, together.

    No level is needed if all of it fits; then it is what the largest holds.
    """
    ascending = np.sort(used)
    left = bound
    for place, size in enumerate(ascending.tolist()):
        level = left // (len(ascending) - place)
        if size > level:
            return int(level)
        left -= size
    return int(ascending[-1]) if len(ascending) else bound


class _Ahead(NamedTuple):
    """What a batch can do to the pool.

    Attributes:
        before: Records since the last levelling.
        growth: The most bytes that the batch adds.
        used: int64 `[streams]`, what each stream holds before the batch.
    """

    before: int
    growth: int
    used: Longs


class TablePool:
    """The pool of a task's streams; it holds no state of its own.

    Args:
        streams: The streams.
        settings: The settings of the task.
    """

    def __init__(self, streams: Streams, settings: TaskSettings) -> None:
        self._streams, self._settings = streams, settings
        self._bound = settings.join.max_table_bytes_per_task
        self._interval = interval_of(self._bound)

    def used_bytes(self) -> Longs:
        """Return int64 `[streams]`, what each stream holds counts, see `config.table_bytes`."""
        used = np.empty(len(self._streams), np.int64)
        fill_used(self._streams.table[0], self._streams.row_bytes, used)
        return used

    def _closed_bytes(self) -> Longs:
        """Return int64 `[streams]`, what closed ids count of it."""
        closed = [stream.join.sizes.closed for stream in self._streams]
        counted: Longs = np.array(closed, np.int64) * self._streams.row_bytes[:, CLOSED]
        return counted

    def _table_bytes(self) -> Longs:
        """Return int64 `[streams]`, what the tables of each stream take, full or not."""
        allocated = np.empty(len(self._streams), np.int64)
        fill_allocated(self._streams.table[0], self._streams.row_bytes, allocated)
        return allocated

    @property
    def used_share(self) -> float:
        """The share of the bound that is used; it can be a little above 1 between two levellings."""
        return int(self.used_bytes().sum()) / self._bound

    def crowded(self) -> frozenset[str]:
        """Return the names of the streams that are about to close examples or labels because the pool is full."""
        used, near = self.used_bytes(), int(_NEAR * self._bound)
        if int(used.sum()) < near:
            return frozenset()
        keeps_closed = self._closed_bytes() * CLOSED_SHARE * _NEAR > level_of(used, self._bound)
        crowded = (used > level_of(used, near)) & ~keeps_closed
        return frozenset(self._streams.names[number] for number in np.flatnonzero(crowded).tolist())

    def _ahead(self, batch: InputBatch) -> _Ahead | None:
        """Return what a batch can do to the pool; None: it surely closes nothing because of the pool."""
        before, records = self._streams.arrivals % self._interval, len(batch.times)
        if before + records < self._interval:
            return None
        growth = records * self._largest_row(batch) + 2 * int(batch.sizes[1].sum())
        used = self.used_bytes()
        return _Ahead(before, growth, used) if int(used.sum()) + growth > self._bound else None

    def _largest_row(self, batch: InputBatch) -> int:
        """Return the most bytes of a row that a record of the batch can add, in any stream."""
        merged = batch.merged
        most = int(np.diff(merged.feature_starts, append=len(merged.features)).max(initial=0))
        rows = self._streams.row_bytes
        largest = int(np.maximum(rows[:, PENDING], rows[:, WAITING] + rows[:, LATER]).max(initial=0))
        dimensions = self._streams.dimensions
        for name in set(batch.named_streams()):
            number = self._streams.number_of(name)
            if number < 0 or not dimensions[number]:  # its rows grow with its first example
                kind = self._settings.of_stream(name)
                largest = max(largest, *row_bytes(kind, self._settings, max(most, kind.features or 0)))
        return largest

    def changing(self, batch: InputBatch) -> Iterator[str]:
        """Yield the names of the streams that an opened batch can change; names may come twice.

        These are the streams of its records, and those that may make room for them.
        """
        yield from batch.named_streams()
        ahead = self._ahead(batch)
        if ahead is not None:
            level = level_of(ahead.used, max(0, self._bound - ahead.growth))
            yield from (self._streams.names[number] for number in np.flatnonzero(ahead.used > level).tolist())

    def closings(self, batch: InputBatch) -> Closings:
        """Return the bound of what the levellings within a batch close."""
        ahead = self._ahead(batch)
        if ahead is None:
            return NO_CLOSINGS
        records, label_bytes, largest = open_of(self._streams.table[0])
        largest = max(largest, int(batch.sizes[1].max(initial=0)), MAX_LABEL_BYTES)
        return Closings(self._interval, ahead.before, records, label_bytes, largest)

    def parts(self, batch: InputBatch, streams: Integers) -> Iterator[tuple[Integers, int | None]]:
        """Yield the parts of a batch between levellings; the caller processes each before it asks for the next one.

        Args:
            batch: The batch.
            streams: int32, the stream of each position; -1: a dead letter.

        Yields:
            The streams of all positions, with -1 outside of the part; and the position of its last record, if the pool
            must be levelled then.
        """
        counted = streams >= 0
        for position, _ in batch.marks():
            counted[position] = False
        before, records = self._streams.arrivals, int(np.count_nonzero(counted))
        start = 0
        if self._ahead(batch) is not None:
            first = self._interval - before % self._interval
            ordinals = np.cumsum(counted)
            for last in np.searchsorted(ordinals, np.arange(first, records + 1, self._interval)).tolist():
                yield _within(streams, start, last + 1), last
                start = last + 1
        if start < len(streams):
            yield _within(streams, start, len(streams)), None
        self._streams.arrivals = before + records
        if before // self._interval < (before + records) // self._interval:
            self._shrink()

    def _shrink(self) -> None:
        """Build large tables again that hold little, as long as all tables together take more than the bound."""
        allocated = self._table_bytes()
        left = int(allocated.sum()) - self._bound
        if left <= 0:
            return
        wasted = allocated - self.used_bytes()
        for number in np.argsort(-wasted, kind="stable").tolist():
            if left <= 0 or wasted[number] < _WASTED_BYTES:
                break
            self._streams.shrink(number)
            left -= int(wasted[number])

    def level(self, batch: InputBatch, position: int, collector: Collector) -> list[str]:
        """Level the pool after the record at a position; return the names of the streams that gave something up."""
        used = self.used_bytes()
        if int(used.sum()) <= self._bound:
            return []
        level = level_of(used, self._bound)
        names = self._streams.names
        above = sorted(np.flatnonzero(used > level).tolist(), key=lambda number: (-used[number], names[number]))
        self._streams.level(batch, np.array(above, np.int32), level, position, collector)
        return [names[number] for number in above]


def _within(streams: Integers, start: int, end: int) -> Integers:
    if end - start == len(streams):
        return streams
    part = np.full_like(streams, -1)
    part[start:end] = streams[start:end]
    return part
