"""Where the arrays of a learner's state are in its memory, so that many learners are copied in one compiled call."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs
from stream_app.jit.memory import address_of
from stream_app.jit.tables import Span
from stream_app.learners.method import Check, RunningMethod, State
from stream_app.learners.networks.activations import LARGEST

_QUEUES = "method.queues."


class QueuedArray(NamedTuple):
    """An array that is rows of a queue: the queue, where its first row begins in the block, and the bytes of a row."""

    queue: int
    start: int
    row_bytes: int


class StoredState(NamedTuple):
    """The places of a learner's arrays in its block, by their names; learners of equal settings share it.

    Attributes:
        fixed: Where the arrays begin that always have the same shape.
        queued: The other arrays.
        rows: The rows of a queue.
        keeps_places: Whether the rows are those of the ring from its first place on, instead of oldest first.
        lengths: Where the lengths of the queues begin.
        firsts: Where the places of their oldest examples begin.
        classes: Where the classes of their rows begin.
        slots: Where the number of slots begins whose rows were ever filled.
        finite: The arrays whose numbers must be finite.
        checks: Further checks, see `StatePart.right`.
    """

    fixed: Mapping[str, int]
    queued: Mapping[str, QueuedArray]
    rows: int
    keeps_places: bool
    lengths: int
    firsts: int
    classes: int
    slots: int
    finite: Sequence[str]
    checks: Sequence[Check]

    def are_right(self, arrays: State, held: Longs) -> NDArray[np.bool_]:
        """Say of n learners whether the numbers in their arrays `[n, ...]` can be those of such a learner.

        Args:
            arrays: The fixed arrays.
            held: int64 `[n, queues]`, the rows of each queue.
        """
        right = np.asarray((np.abs(arrays["parameters"]) <= LARGEST).all(1))
        for name in self.finite:
            right &= np.isfinite(arrays[name]).all(1)
        for check in self.checks:
            right &= check(arrays, held, self.rows)
        return right

    @property
    def queues(self) -> int:
        """The number of queues that it stores."""
        return 1 + max((array.queue for array in self.queued.values()), default=-1)


def stored_state(
    views: Mapping[str, NDArray[np.generic]], method: RunningMethod, spans: Mapping[str, Span], begin: int
) -> StoredState | None:
    """Return the places of a learner's arrays; None: a part of its method does not say where its arrays are.

    Args:
        views: The arrays of networks and scaler.
        method: Its method.
        spans: The arrays of its block by their paths.
        begin: The address of the block.
    """
    queues, fixed = method.tables.queues, dict(views)
    queued: dict[str, QueuedArray] = {}
    for part in method.parts:
        if part.views is None:
            return None
        fixed |= part.views(method.tables)
        for name, (queue, column) in part.queued.items():
            span = spans[_QUEUES + column]
            row_bytes = (span.end - span.start) // (queues.queues * queues.rows)
            queued[name] = QueuedArray(queue, span.start + queue * queues.rows * row_bytes, row_bytes)
    return StoredState(
        {name: address_of(array) - begin for name, array in fixed.items()},
        queued,
        queues.rows,
        any(part.keeps_places for part in method.parts),
        spans[_QUEUES + "lengths"].start,
        spans[_QUEUES + "firsts"].start,
        spans[_QUEUES + "classes"].start,
        spans["scaler.slots"].start,
        tuple(name for name in views if not name.startswith("buffer.")),
        tuple(part.right for part in method.parts if part.right is not None),
    )
