"""Rows of numbers along time, in bounded memory, evenly thinned."""

import math
from array import array
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

_PAUSE_STEPS = 10
"""A curve has a gap where two of its points are more than this many usual steps apart; the usual step is the median."""


def gaps(times: Sequence[float | None]) -> list[int]:
    """Return the rows before which a curve with these times has a gap, because the stream paused."""
    steps = [0.0 if last is None or time is None else time - last for last, time in pairwise(times)]
    usual = median([step for step in steps if step > 0] or [0.0])
    return [number for number, step in enumerate(steps, start=1) if step > _PAUSE_STEPS * usual]


class Series:
    """Rows of numbers; every second row is dropped whenever there are too many.

    It keeps at most `max_points` rows, and the newest.
    """

    def __init__(self, columns: int, max_points: int) -> None:
        self._columns = [array("d") for _ in range(columns)]
        self._max_points = max_points
        self._every = 1
        self._seen = 0
        self._newest: tuple[float | None, ...] | None = None

    def add(self, *row: float | None) -> None:
        """Add the next row."""
        self._newest = row
        if self._seen % self._every == 0:
            for column, number in zip(self._columns, row, strict=True):
                column.append(math.nan if number is None else number)
            if len(self._columns[0]) > self._max_points:
                for column in self._columns:
                    del column[1::2]
                self._every *= 2
            self._newest = None if (self._seen % self._every) == 0 else row
        self._seen += 1

    def columns(self) -> list[list[float | None]]:
        """Return the columns, oldest row first; the newest row is always the last."""
        newest = self._newest or (None,) * len(self._columns)
        tails = [[number] for number in newest] if self._newest is not None else [[] for _ in newest]
        return [
            [None if math.isnan(number) else number for number in column] + tail
            for column, tail in zip(self._columns, tails, strict=True)
        ]
