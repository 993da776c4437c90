"""Stops a task whose input is mostly malformed: a producer with the wrong schema, not a stray bad record.

It only counts; no result depends on it.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.config import BreakerSettings


class Breaker:
    """Counts malformed records of one task, in merge order."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self.reset()

    def reset(self) -> None:
        """Start counting anew."""
        self._in_a_row = 0
        self._records = 0
        self._malformed = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Malformed records in a row now; all records, and all malformed ones, since counting began."""
        return self._in_a_row, self._records, self._malformed

    def load(self, counts: tuple[int, int, int]) -> None:
        """Go on from these."""
        self._in_a_row, self._records, self._malformed = counts

    def count(self, malformed: NDArray[np.bool_]) -> str | None:
        """Count one batch (bool `[n]`, in merge order); why the breaker trips, or None."""
        if not len(malformed):
            return None
        good = np.flatnonzero(~malformed)
        edges = np.concatenate(([-1 - self._in_a_row], good, [len(malformed)]))
        longest = int(np.diff(edges).max()) - 1
        self._in_a_row = int(edges[-1] - edges[-2]) - 1
        self._records += len(malformed)
        self._malformed += len(malformed) - len(good)
        if longest >= self._settings.in_a_row:
            return f"{longest} malformed records in a row (limit {self._settings.in_a_row})"
        share = self._malformed / self._records
        if self._records >= self._settings.share_after_records and share > self._settings.share:
            return f"{share:.1%} of {self._records} records malformed (limit {self._settings.share:.1%})"
        return None
