"""Stop a task whose inputs cannot be read: its producer uses a wrong schema, say. A single bad record stops nothing.

The breaker counts the records whose values do not name their stream. It counts each input topic separately: a valid
label says nothing about the producer of examples. A record that names its stream and is wrong in itself is a dead
letter, and must not stop the other streams of the task. The breaker only counts; no output depends on it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import BreakerSettings
from stream_app.records import Side


class Count(NamedTuple):
    """Unreadable records in a row at the end of one input, and all records and unreadable records that were counted."""

    in_a_row: int = 0
    records: int = 0
    unreadable: int = 0


class Breaker:
    """A counter of the unreadable records of one task, each input in offset order."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._counts = (Count(), Count())

    def reset(self) -> None:
        """Start counting from zero."""
        self._counts = (Count(), Count())

    @property
    def counts(self) -> tuple[Count, Count]:
        """The counts by `Side`."""
        return self._counts

    def load(self, counts: tuple[tuple[int, int, int], tuple[int, int, int]]) -> None:
        """Continue from the counts of a snapshot, by `Side`."""
        self._counts = (Count(*counts[0]), Count(*counts[1]))

    def count(self, unreadable: Sequence[NDArray[np.bool_]]) -> str | None:
        """Count one batch and return why the breaker trips, or None.

        Args:
            unreadable: By `Side`, bool `[n]` in offset order: whether each record is unreadable.
        """
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
