"""`areba dlq show`: the newest of the selected dead letters, and counts of all of them."""

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stream_app.admin.dead_letters.record import RecordId, StoredDeadLetter, read_record
from stream_app.admin.dead_letters.selection import Selection, format_time
from stream_app.admin.dead_letters.topic import DeadLettersTopic, UnsentLetters, shown_reason
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.retention import deleted_text
from stream_app.config import Config
from stream_app.serialization.dead_letter import read_sent_back
from stream_app.serialization.left_out import VALUE
from stream_app.terminal import printable

COLUMNS = ("record", "event time (UTC)", "reason", "stream", "id", "from", "bytes", "sent back")


@dataclass(slots=True)
class Line:
    """One dead letter of a list, without its bytes; ordered by event time, then by partition and offset."""

    record_id: RecordId
    log_time_ms: int
    event_time_ms: int
    reason: str
    stream: str
    id: str
    origin: str
    size: int | None
    is_sent_back: bool = False

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of the table."""
        size = "null" if self.size is None else f"{self.size:,}"
        time, back = format_time(self.log_time_ms), "yes" if self.is_sent_back else "no"
        texts = (str(self.record_id), time, self.reason, self.stream, self.id, self.origin, size, back)
        return tuple(map(printable, texts))

    def to_plain(self) -> dict[str, Any]:
        """Return the content of a JSON document."""
        partition, offset = self.record_id
        return {
            "partition": partition,
            "offset": offset,
            "timestamp_ms": self.log_time_ms,
            "event_time_ms": self.event_time_ms,
            "reason": self.reason,
            "stream": self.stream,
            "id": self.id,
            "from": self.origin,
            "bytes": self.size,
            "is_sent_back": self.is_sent_back,
        }

    def __lt__(self, other: "Line") -> bool:
        return (self.log_time_ms, self.record_id) < (other.log_time_ms, other.record_id)


@dataclass(slots=True)
class Listing:
    """The newest of the selected dead letters, in the order of the log's time, and counts of all of them by reason.

    `deleted` has a line for each partition whose oldest records are gone, and so are not counted.
    """

    lines: list[Line] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sent_back: Counter[str] = field(default_factory=Counter)
    deleted: list[str] = field(default_factory=list)

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {
            "dead_letters": [line.to_plain() for line in self.lines],
            "counts": dict(self.counts),
            "sent_back": dict(self.sent_back),
            "deleted": self.deleted,
        }

    def texts(self) -> Iterator[str]:
        """Yield the lines of a table, and a line for each reason."""
        rows = [COLUMNS, *(line.cells() for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if self.lines:
            for row in rows:
                yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        total = self.counts.total()
        if total > len(self.lines):
            yield f"the newest {len(self.lines):,} of {total:,}; --limit shows more"
        yield f"{total:,} dead letter{'' if total == 1 else 's'}, {self.sent_back.total():,} of them sent back"
        yield from (f"not counted: {line}" for line in self.deleted)
        for reason, count in self.counts.most_common():
            yield f"{count:>9,} {reason}" + (f", {back:,} sent back" if (back := self.sent_back[reason]) else "")


def list_letters(cluster: Cluster, config: Config, selection: Selection, limit: int) -> Listing:
    """List dead letters, reading the selected partitions up to their ends.

    All selected dead letters are counted, and at most `limit` of them are shown.

    Raises:
        ConfigurationError: The topic, a selected reason or a selected partition does not exist.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topic, listing = DeadLettersTopic(cluster, config), Listing()
    newest: list[Line] = []
    for partition in selection.partitions_of(topic.partitions, topic.name):
        low, lines = topic.watermarks(partition)[0], dict[int, Line]()
        unsent = UnsentLetters(low)
        if low:
            listing.deleted.append(deleted_text(TopicPartition(topic.name, partition), low, 0))
        for row in topic.rows(partition):
            offset = read_sent_back(row.headers)
            if offset is not None:
                reason = unsent.remove(offset)
                listing.sent_back.update([reason] if reason is not None else [])
                if offset in lines:
                    lines[offset].is_sent_back = True
                continue
            record = read_record(partition, row, topic.wire_format)
            if record is None or not selection.matches(record):
                continue
            unsent.add(row.offset, record.dead_letter.reason)
            listing.counts[shown_reason(record.dead_letter.reason)] += 1
            _keep_newest(newest, lines, line_of(record), limit)
    listing.lines = sorted(newest)
    return listing


def _keep_newest(newest: list[Line], lines: dict[int, Line], line: Line, limit: int) -> None:
    """Add a line if it is among the newest, and drop the line that no longer is.

    Args:
        newest: A heap of the newest lines of all partitions.
        lines: The lines of the partition that is being read, by offset.
        line: The next line of this partition.
        limit: Length of `newest` at most.
    """
    if not limit:
        return
    lines[line.record_id.offset] = line
    if len(newest) < limit:
        heapq.heappush(newest, line)
    else:
        dropped = heapq.heappushpop(newest, line)
        if lines.get(dropped.record_id.offset) is dropped:
            del lines[dropped.record_id.offset]


def line_of(record: StoredDeadLetter) -> Line:
    """Return the line of a dead letter that was not sent back."""
    dead_letter = record.dead_letter
    value, left_out = dead_letter.original.value, dead_letter.left_out.get(VALUE)
    size = left_out.length if left_out else None if value is None else len(value)
    origin = f"{dead_letter.topic}[{dead_letter.partition}]:{dead_letter.input_offset}"
    times = record.log_time_ms, dead_letter.event_time_ms
    return Line(record.record_id, *times, dead_letter.reason, record.stream, record.id, origin, size)
