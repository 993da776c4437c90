"""How much of the topics' retention the records have used that a restore needs."""

from collections.abc import Sequence
from typing import NamedTuple

from stream_app.backends.questions import Retention
from stream_app.snapshot.needed_records import NeededRecords, Now


class PartitionRetention(NamedTuple):
    """What the broker says about a partition: its topic's retention, its first offset, and its end."""

    kept: Retention
    start: int
    end: int


Needs = list[NeededRecords | None]
"""What a restore reads of examples, labels and progress; None where it reads nothing."""


def largest_used(needs: Needs, logs: Sequence[PartitionRetention], now: Now) -> float:
    """Return the largest share of its retention that a needed record has used."""
    pairs = zip(needs, logs, strict=True)
    return max((need.used(log.kept, log.end, now) for need, log in pairs if need is not None), default=0.0)


def are_gone(needs: Needs, logs: Sequence[PartitionRetention]) -> bool:
    """Say whether a needed record was deleted."""
    return any(need is not None and 0 <= need.offset < log.start for need, log in zip(needs, logs, strict=True))
