"""The pool of a task as `areba verify` expects it: when streams give up what they hold for the others, and what.

Written from the rules in docs/architecture.md, apart from the code that a worker runs; they share what a row takes
(`config.table_bytes`), which follows from the settings.
"""

from typing import TYPE_CHECKING

from stream_app.config.table_bytes import row_bytes
from stream_app.join.constants import MAX_EVICTIONS
from stream_app.records import Cause, Side
from stream_app.verify.reference_state import ReferenceStream

if TYPE_CHECKING:
    from stream_app.verify.reference_join import ReferenceJoin

_LEAST_BYTES, _MOST_RECORDS = 65_536, 5_000
"""A levelling follows after one record for so many bytes of the bound, but at the latest after so many records."""

_LABEL_BYTES = 16 * 1024 * 1024
"""One levelling closes labels of at most so many bytes, unless the first alone is larger."""

_FOREVER_MS = 1 << 62


def level_if_due(join: "ReferenceJoin") -> None:
    """Level the pool if the last record was the one after which it must be."""
    bound = join.settings.join.max_table_bytes_per_task
    if join.arrivals % max(1, min(bound // _LEAST_BYTES, _MOST_RECORDS)):
        return
    held = {name: _held(join, stream) for name, stream in join.streams.items()}
    if sum(held.values()) <= bound:
        return
    low, high = 0, bound  # the level is at least `low`, and at most `high`
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(min(size, middle) for size in held.values()) <= bound
        low, high = (middle, high) if fits else (low, middle - 1)
    budget = _Budget()
    above = [name for name, size in held.items() if size > low]
    for name in sorted(above, key=lambda one: (-held[one], one)):
        _shrink(join, join.streams[name], low, budget)


class _Budget:
    """What one levelling may still close: records, and bytes of labels."""

    def __init__(self) -> None:
        self.records = MAX_EVICTIONS
        self.label_bytes = _LABEL_BYTES

    def allows(self, label_bytes: int) -> bool:
        """Say whether a record may be closed, with these bytes if it is a label; and if so, count it."""
        is_first = self.label_bytes == _LABEL_BYTES
        if self.records == 0 or (label_bytes > self.label_bytes and not is_first):
            return False
        self.records -= 1
        self.label_bytes = max(0, self.label_bytes - label_bytes)
        return True


def _shrink(join: "ReferenceJoin", stream: ReferenceStream, level: int, budget: _Budget) -> None:
    """Forget the oldest closed ids down to a quarter of the level, then close the oldest open records."""
    closed_bytes = row_bytes(join.settings.of_stream(stream.name), join.settings, 0).closed
    while _held(join, stream) > level:
        if 4 * closed_bytes * len(stream.closed) > level:
            stream.closed.popitem(last=False)
            continue
        oldest = stream.oldest_until(_FOREVER_MS)
        assert oldest is not None  # noqa: S101  (for the type checker: it holds more than closed ids)
        side, id_ = oldest
        waiting = stream.waiting.get(id_) if side is Side.LABELS else None
        if not budget.allows(waiting.record.dead_letter_bytes if waiting is not None else 0):
            return
        if waiting is not None:
            join.bury_oldest_label(stream, Cause.POOL_LABEL)
        else:
            join.close_oldest_example(stream, Cause.POOL_EXAMPLE)


def _held(join: "ReferenceJoin", stream: ReferenceStream) -> int:
    """Return what a stream holds counts; features count from its first example on, unless they are settings."""
    settings = join.settings.of_stream(stream.name)
    features = stream.features if stream.examples else settings.features
    rows = row_bytes(settings, join.settings, features or 0)
    labels = len(stream.waiting) * rows.waiting + 2 * stream.waiting_bytes
    return len(stream.pending) * rows.pending + labels + len(stream.closed) * rows.closed
