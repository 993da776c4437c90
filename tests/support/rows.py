"""Records in columns, for tests: made from rows, and cut by offsets."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from stream_app.record_columns import RawRecords
from stream_app.records import Header, Side


class Sent(NamedTuple):
    """One input record, as it is sent."""

    side: Side
    partition: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Read(NamedTuple):
    """One record of a topic, as a reader of committed records sees it."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Row(Protocol):
    """One input record, and its offset."""

    @property
    def offset(self) -> int:
        """The record's offset."""

    @property
    def time_ms(self) -> int:
        """The record's timestamp."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def value(self) -> bytes | None:
        """The record's value."""

    @property
    def headers(self) -> Sequence[Header]:
        """The record's headers."""


def columns(records: Sequence[Row]) -> RawRecords:
    """Return the records in columns, as a client returns them."""
    return RawRecords.of(
        np.array([record.offset for record in records], np.int64),
        np.array([record.time_ms for record in records], np.int64),
        [record.key for record in records],
        [record.value for record in records],
        {row: list(record.headers) for row, record in enumerate(records) if record.headers},
    )


def range_of(records: RawRecords, start: int, end: int) -> RawRecords:
    """Return the records at the offsets from `start` up to, but not including, `end`."""
    first, last = (bisect_left(records.offsets, offset) for offset in (start, end))
    return RawRecords.of(
        records.offsets[first:last].copy(),
        records.timestamps[first:last].copy(),
        records.keys[first:last],
        records.values[first:last],
        {row - first: cells for row, cells in records.headers.items() if first <= row < last},
    )
