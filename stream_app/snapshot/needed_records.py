"""The records that a restore reads besides the newest snapshot, and how much of their topic's retention they have used.

Kafka deletes a log from its start, segment by segment. By time, it deletes a segment once the largest timestamp in it
is older than `retention.ms`; by size, once the log is larger than `retention.bytes` without it. Only the broker knows
where segments begin, but the segment of a record has at least this record: so the record's own timestamp, and the bytes
that follow it, say when it can be deleted at the earliest. A producer's clock may be wrong, so the time since the
record was read counts, too.
"""

from dataclasses import dataclass
from typing import NamedTuple

from stream_app.record_columns import RawRecords

RECORD_OVERHEAD_BYTES = 12
"""Bytes of a record in a log besides its key and value; a batch has 61 more, which compression saves."""


class Now(NamedTuple):
    """The present: milliseconds since 1970, and seconds of a monotonic clock."""

    ms: int
    s: float


@dataclass(slots=True)
class NeededRecords:
    """Records of one partition, from the first that a restore reads.

    Attributes:
        offset: The offset of the first record.
        time_ms: Its timestamp; negative: it has none.
        read_s: When it was read, by the monotonic clock.
        records: How many records there are.
        bytes: Their size, uncompressed.
    """

    offset: int
    time_ms: int
    read_s: float
    records: int
    bytes: int

    @classmethod
    def of(cls, records: RawRecords, now_s: float) -> "NeededRecords | None":
        """Return the needed records after these were read; None if there are none."""
        if not len(records):
            return None
        size = records.keys.bytes + records.values.bytes + RECORD_OVERHEAD_BYTES * len(records)
        return cls(int(records.offsets[0]), records.first_log_time_ms, now_s, len(records), size)

    def add(self, later: "NeededRecords") -> None:
        """Add the records that follow."""
        self.records += later.records
        self.bytes += later.bytes

    def used(self, kept: tuple[int, int], end: int, now: Now) -> float:
        """Return the share of the retention that the first record has used: from 1 on, the broker may delete it.

        Args:
            kept: `retention.ms` and `retention.bytes` of the topic; negative: without limit.
            end: The end of the partition.
            now: The present.
        """
        kept_ms, kept_bytes = kept
        by_time = by_size = 0.0
        if kept_ms >= 0:
            age_ms = max(1000 * (now.s - self.read_s), now.ms - self.time_ms if self.time_ms >= 0 else 0)
            by_time = age_ms / max(1, kept_ms)
        if kept_bytes >= 0:
            by_size = max(0, end - self.offset) * self.bytes / self.records / max(1, kept_bytes)
        return max(by_time, by_size)
