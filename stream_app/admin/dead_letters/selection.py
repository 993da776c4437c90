"""The dead letters that a command selects, and how users write partitions, offsets and times."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stream_app.admin.dead_letters.record import RecordId, StoredDeadLetter
from stream_app.config import or_nearest
from stream_app.errors import ConfigurationError
from stream_app.records import REASONS

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of the units in which users write how long ago something was."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that a dead letter must meet; an empty set or None is no condition.

    Attributes:
        reasons: Reasons (`records.Reason`), any of which may apply.
        streams: Names of streams.
        partitions: Partitions of the dead-letters topic.
        record_ids: Single dead letters.
        since_ms: Earliest time at which the log took the dead letter, inclusive.
        until_ms: Latest such time, exclusive.
    """

    reasons: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    record_ids: frozenset[RecordId] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether there is no condition."""
        return self == Selection()

    def matches(self, record: StoredDeadLetter) -> bool:
        """Say whether a dead letter meets all conditions except on its partition; see `partitions_of`."""
        return (
            (not self.reasons or record.dead_letter.reason in self.reasons)
            and (not self.streams or record.stream in self.streams)
            and (not self.record_ids or record.record_id in self.record_ids)
            and (self.since_ms is None or record.log_time_ms >= self.since_ms)
            and (self.until_ms is None or record.log_time_ms < self.until_ms)
        )

    def partitions_of(self, count: int, topic: str) -> list[int]:
        """Return the partitions that have to be read.

        `count` is the number of partitions of the dead-letters topic, `topic` its name.

        Raises:
            ConfigurationError: A selected reason or partition does not exist.
        """
        lines = [
            f"there is no reason {reason!r}{or_nearest(reason, REASONS)}" for reason in self.reasons - set(REASONS)
        ]
        named = {record_id.partition for record_id in self.record_ids}
        lines += [
            f"{topic} has {count} partitions: there is no partition {number}"
            for number in sorted(self.partitions | named)
            if number >= count
        ]
        if lines:
            raise ConfigurationError(lines)
        selected = self.partitions or set(range(count))
        return sorted(selected & named if self.record_ids else selected)


def parse_record_ids(texts: Sequence[str]) -> frozenset[RecordId]:
    """Parse dead letters as `areba dlq show` writes them: `3:17` is partition 3, offset 17.

    Raises:
        ConfigurationError: A text does not have this form.
    """
    lines, record_ids = [], set()
    for text in texts:
        partition, _, offset = text.partition(":")
        if partition.isdecimal() and offset.isdecimal():
            record_ids.add(RecordId(int(partition), int(offset)))
        else:
            lines.append(f"{text!r} does not name a dead letter: write partition:offset, as `areba dlq show` does")
    if lines:
        raise ConfigurationError(lines)
    return frozenset(record_ids)


def parse_time(text: str, now_ms: int) -> int:
    """Parse a time: `2026-01-31`, `2026-01-31T10:00` (UTC unless a zone is given), or `90m` for 90 minutes ago.

    Args:
        text: What the user wrote.
        now_ms: Wall-clock time in milliseconds since 1970.

    Returns:
        Milliseconds since 1970.

    Raises:
        ConfigurationError: The text does not have one of these forms.
    """
    if text and text[-1] in _UNIT_MS and text[:-1].isdecimal():
        return now_ms - int(text[:-1]) * _UNIT_MS[text[-1]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        line = f"{text!r} is not a time: write 2026-01-31, 2026-01-31T10:00, or 90s, 30m, 2h or 7d for that long ago"
        raise ConfigurationError(line) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def format_time(time_ms: int) -> str:
    """Format a time for people, in UTC; a time that no calendar has stays a number of milliseconds."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
