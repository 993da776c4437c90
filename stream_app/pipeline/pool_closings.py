"""A bound of what the levellings of a task's pool close within a batch, see `table_pool`."""

from typing import NamedTuple

from stream_app.join.constants import MAX_EVICTIONS


class Closings(NamedTuple):
    """A bound of what levellings close.

    Attributes:
        interval: Records between two of them.
        before: Records since the last one.
        open: Records that are open before the batch.
        label_bytes: Bytes of the labels among these.
        largest: The most bytes of labels that one levelling closes.
    """

    interval: int
    before: int
    open: int
    label_bytes: int
    largest: int

    def of(self, records: int, label_bytes: int) -> tuple[int, int]:
        """Return how many records the first records of a batch can close there, and the bytes of labels among these."""
        times = (self.before + records) // self.interval if self.interval else 0
        if not times:
            return 0, 0
        most = min(times * MAX_EVICTIONS, self.open + records)
        return most, min(times * self.largest, self.label_bytes + label_bytes)


NO_CLOSINGS = Closings(0, 0, 0, 0, 0)
