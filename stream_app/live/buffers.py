"""Hold fetched records of one input partition until the other input, or the rest of a recorded range, has come.

They cannot wait in the queue of the Kafka client, which discards what it has fetched when a partition is paused.
"""

from collections import deque

import numpy as np

from stream_app.arrays import Longs
from stream_app.backends.base import Fetched
from stream_app.record_columns import RawRecords, concatenated, concatenated_headers

_ROW_BYTES = 48
"""Memory of a waiting record, apart from its key and value: six columns."""

HEADER_BYTES = 120
"""Memory of a header, apart from its name and value: Python objects, measured on CPython 3.11."""

NO_RECORDS = RawRecords.of(np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())


class WaitingRecords:
    """A queue of records in offset order, in the chunks in which they were fetched.

    Attributes:
        bytes: The approximate memory of the records.
        at_end: Whether the partition was read to its end, and nothing has come since.
        fetched_to: The position of the client after the last poll; -1 before the first.
    """

    def __init__(self) -> None:
        self._chunks: deque[RawRecords] = deque()
        self._sizes: deque[int] = deque()
        self._rows = 0
        self.bytes = 0
        self.at_end = False
        self.fetched_to = -1

    def __len__(self) -> int:
        return self._rows

    def add(self, fetched: Fetched) -> None:
        """Add what a poll returned; only the last poll says whether the partition is at its end."""
        self.at_end = fetched.at_end
        self.fetched_to = fetched.position
        if not len(fetched.records):
            return
        size = _bytes(fetched.records)
        self._chunks.append(fetched.records)
        self._sizes.append(size)
        self._rows += len(fetched.records)
        self.bytes += size

    @property
    def position(self) -> int:
        """The offset of the first record; without a record, the position of the client."""
        return int(self._chunks[0].offsets[0]) if self._chunks else self.fetched_to

    def times(self, limit: int) -> Longs:
        """Return the timestamps of the first `limit` records: int64 `[n]`, in ms."""
        return self._first(limit, "timestamps")

    def rows_below(self, offset: int) -> int | None:
        """Return how many records lie below this offset; None until everything below it was fetched."""
        if self.fetched_to < offset:
            return None
        rows = 0
        for chunk in self._chunks:
            if chunk.offsets[0] >= offset:
                break
            rows += int(np.searchsorted(chunk.offsets, offset))
        return rows

    def take(self, rows: int) -> RawRecords:
        """Remove the first `rows` records and return them as one chunk."""
        taken: list[RawRecords] = []
        while rows:
            chunk, size = self._chunks.popleft(), self._sizes.popleft()
            if len(chunk) > rows:
                kept = size * (len(chunk) - rows) // len(chunk)
                self._chunks.appendleft(chunk.rows(rows, len(chunk)))
                self._sizes.appendleft(kept)
                chunk, size = chunk.rows(0, rows), size - kept
            taken.append(chunk)
            rows -= len(chunk)
            self._rows -= len(chunk)
            self.bytes -= size
        return concatenate(taken)

    def put_back(self, records: RawRecords) -> None:
        """Put the last of the records that were taken back to the front."""
        if len(records):
            size = _bytes(records)
            self._chunks.appendleft(records)
            self._sizes.appendleft(size)
            self._rows += len(records)
            self.bytes += size

    def clear(self) -> None:
        """Remove all records."""
        self._chunks.clear()
        self._sizes.clear()
        self._rows = 0
        self.bytes = 0
        self.at_end = False
        self.fetched_to = -1

    def _first(self, limit: int, column: str) -> Longs:
        parts: list[Longs] = []
        missing = limit
        for chunk in self._chunks:
            if missing <= 0:
                break
            parts.append(getattr(chunk, column)[:missing])
            missing -= len(chunk)
        if not parts:
            return NO_RECORDS.timestamps
        return np.concatenate(parts)


def _bytes(records: RawRecords) -> int:
    """Return the approximate memory of these records."""
    size = records.values.bytes + records.keys.bytes
    for headers in records.headers.values():
        size += sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in headers)
    return size + _ROW_BYTES * len(records)


def concatenate(chunks: list[RawRecords]) -> RawRecords:
    """Return the records of all chunks, in order."""
    if not chunks:
        return NO_RECORDS
    if len(chunks) == 1:
        return chunks[0]
    return RawRecords(
        np.concatenate([chunk.offsets for chunk in chunks]),
        np.concatenate([chunk.timestamps for chunk in chunks]),
        concatenated([chunk.keys for chunk in chunks]),
        concatenated([chunk.values for chunk in chunks]),
        concatenated_headers(chunks),
    )
