"""The lag of one input in seconds, from how its end has moved. Event times do not tell: old data may be sent again."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_POINTS = 600
"""Points that are kept. When there are more, neighbours become one: the lag is less exact, and never too short."""


class _Point(NamedTuple):
    """An end of the input, and when it was first seen."""

    end: int
    seen_s: float


class Lag:
    """Remembers when the end of an input was where."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque()

    def look(self, offset: int, end: int, now_s: float) -> float:
        """Return for how many seconds the record at `offset` has been known to exist; 0 if there is no such record.

        Args:
            offset: The next offset to be processed.
            end: The end of the input, as far as it is known now.
            now_s: The monotonic time.
        """
        if end > offset and (not self._points or end > self._points[-1].end):
            self._points.append(_Point(end, now_s))
            if len(self._points) > MAX_POINTS:
                self._points = deque(_halved(self._points))
        while self._points and self._points[0].end <= offset:
            self._points.popleft()
        return now_s - self._points[0].seen_s if self._points else 0.0


def _halved(points: Iterable[_Point]) -> Iterator[_Point]:
    """Yield a point for each two: the end of the later, seen when the earlier was seen."""
    pairs = iter(points)
    for earlier in pairs:
        yield _Point(next(pairs, earlier).end, earlier.seen_s)
