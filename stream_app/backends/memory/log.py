"""The log of one partition, and the transactions that write to it.

As in Kafka, records of an open transaction take offsets at once, but readers of committed records get nothing from the
first such record on (the last stable offset). A commit or an abort takes one more offset for its marker, so offsets
have gaps.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from stream_app.backends.base import TopicPartition
from stream_app.record_columns import RawRecords
from stream_app.records import UNREADABLE_HEADERS, Header


class TransactionState(Enum):
    """The state of a transaction; it leaves `OPEN` once."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False, slots=True)
class LogTransaction:
    """One transaction.

    Attributes:
        started_s: When it was opened, by the monotonic clock.
        timeout_s: After this time the broker aborts it.
        state: Its state.
        partitions: The offset of its first record in each partition.
        offsets: The group offsets that its commit makes valid, by group.
    """

    started_s: float
    timeout_s: float
    state: TransactionState = TransactionState.OPEN
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)


class LogEntry(NamedTuple):
    """One record, or the marker of a transaction's end; `timestamp` as in `RawRecords`."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    transaction: LogTransaction | None
    is_marker: bool = False


class PartitionLog:
    """The log of one partition. Entries are in offset order; compaction leaves gaps.

    Attributes:
        entries: Records and markers.
        low: The first offset that was not deleted.
        high: The end: the offset of the next entry.
        open: The first offset of each open transaction.
    """

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.low = 0
        self.high = 0
        self.open: dict[LogTransaction, int] = {}

    def append(self, entry: LogEntry) -> None:
        """Add an entry at the end."""
        self.entries.append(entry)
        self.high = entry.offset + 1

    def stable(self) -> int:
        """Return the last stable offset; readers of committed records get only records below it."""
        return min(self.open.values(), default=self.high)

    def read(self, position: int, limit: int, *, committed: bool = True) -> tuple[list[LogEntry], int]:
        """Return at most `limit` records from `position`, committed ones or all, and where the next read begins."""
        found: list[LogEntry] = []
        stable = self.stable() if committed else self.high
        for index in range(self.index(position), len(self.entries)):
            entry = self.entries[index]
            if entry.offset >= stable:
                break
            if len(found) == limit:
                return found, entry.offset
            if is_committed_record(entry) or not (committed or entry.is_marker):
                found.append(entry)
        return found, max(position, stable)

    def index(self, offset: int) -> int:
        """Return the index of the first entry whose offset is not smaller."""
        return bisect_left(self.entries, offset, key=_offset)

    def delete_before(self, offset: int) -> None:
        """Delete the entries below this offset, as retention does."""
        self.low = max(self.low, min(offset, self.high))
        del self.entries[: self.index(self.low)]


def _offset(entry: LogEntry) -> int:
    return entry.offset


def is_committed_record(entry: LogEntry) -> bool:
    """Say whether an entry is a record, and not part of an open or aborted transaction."""
    return not entry.is_marker and (entry.transaction is None or entry.transaction.state is TransactionState.COMMITTED)


def columns(entries: Sequence[LogEntry]) -> RawRecords:
    """Return the entries in columns, as a client of Kafka gives them."""
    return RawRecords.of(
        offsets=np.array([entry.offset for entry in entries], np.int64),
        timestamps=np.array([entry.timestamp for entry in entries], np.int64),
        keys=[entry.key for entry in entries],
        values=[entry.value for entry in entries],
        headers={row: readable_headers(entry.headers) for row, entry in enumerate(entries) if entry.headers},
    )


def readable_headers(headers: Sequence[Header]) -> Sequence[Header]:
    """Return the headers as a client of Kafka gives them: unreadable if a name is not UTF-8.

    In a name that is not UTF-8, lone surrogates represent the bytes (PEP 383).
    """
    return headers if all(name.isascii() or _is_utf8(name) for name, _ in headers) else UNREADABLE_HEADERS


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
