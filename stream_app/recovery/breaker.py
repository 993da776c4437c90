"""Stops a task whose inputs cannot be read: a producer with the wrong schema, not a stray bad record.

It counts the records whose values do not tell their stream, each input topic by itself: a sound label says nothing of
the producer of examples. What is wrong within a stream is a dead letter, and must not stop the other streams of a task.
It only counts; no result depends on it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import BreakerSettings
from stream_app.records import Side


class Count(NamedTuple):
    """Unreadable records of one input in a row now; all records, and all unreadable ones, since counting began."""

    in_a_row: int = 0
    records: int = 0
    unreadable: int = 0


class Breaker:
    """Counts unreadable records of one task, each input in offset order."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._counts = (Count(), Count())

    def reset(self) -> None:
        """Start counting anew."""
        self._counts = (Count(), Count())

    @property
    def counts(self) -> tuple[Count, Count]:
        """By `Side`."""
        return self._counts

    def load(self, counts: tuple[tuple[int, int, int], tuple[int, int, int]]) -> None:
        """Continue from these, by `Side`."""
        self._counts = (Count(*counts[0]), Count(*counts[1]))

    def count(self, unreadable: Sequence[NDArray[np.bool_]]) -> str | None:
        """Count one batch (by `Side`, bool `[n]` in offset order); why the breaker trips, or None."""
        examples, one = self._counted(Side.EXAMPLES, unreadable[Side.EXAMPLES])
        labels, two = self._counted(Side.LABELS, unreadable[Side.LABELS])
        self._counts = (examples, labels)
        return one or two

    def _counted(self, side: Side, unreadable: NDArray[np.bool_]) -> tuple[Count, str | None]:
        before, limits, name = self._counts[side], self._settings, side.name.lower()
        if not len(unreadable):
            return before, None
        good = np.flatnonzero(~unreadable)
        edges = np.concatenate(([-1 - before.in_a_row], good, [len(unreadable)]))
        longest = int(np.diff(edges).max()) - 1
        after = Count(
            int(edges[-1] - edges[-2]) - 1,
            before.records + len(unreadable),
            before.unreadable + len(unreadable) - len(good),
        )
        if longest >= limits.in_a_row:
            return after, f"{longest} unreadable {name} in a row (limit {limits.in_a_row})"
        share = after.unreadable / after.records
        if after.records >= limits.share_after_records and share > limits.share:
            return after, f"{share:.1%} of {after.records} {name} unreadable (limit {limits.share:.1%})"
        return after, None
