"""The costs of the examples that were joined, in the order of their outcomes: eight bytes for each example."""

import math
from array import array
from collections import Counter

from stream_app.verify.reference_state import ErrorCosts

UNKNOWN = ErrorCosts(math.nan, math.nan)


class JoinedCosts:
    """The costs by stream; a stream takes no memory before its first example with costs."""

    def __init__(self) -> None:
        self._joined: Counter[str] = Counter()
        self._costs: dict[str, array[float]] = {}

    def add(self, stream: str, costs: ErrorCosts | None) -> None:
        """Note the costs of the next joined example of a stream."""
        if costs is not None and stream not in self._costs:
            self._costs[stream] = array("f", [math.nan] * (2 * self._joined[stream]))
        self._joined[stream] += 1
        if stream in self._costs:
            self._costs[stream].extend(costs or UNKNOWN)

    def of(self, stream: str, number: int) -> ErrorCosts:
        """Return the costs of a joined example of a stream, by its number from 0."""
        found = self._costs.get(stream)
        return UNKNOWN if found is None else ErrorCosts(*found[2 * number : 2 * number + 2])
