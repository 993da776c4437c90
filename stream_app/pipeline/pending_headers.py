"""The headers that pending examples pass on to their outcomes, which come later than the examples."""

from collections.abc import Iterable, Mapping, Sequence

from stream_app.pipeline.carried_headers import headers_bytes
from stream_app.records import Header

_ENTRY_BYTES, _HEADER_OBJECT_BYTES = 200, 160
"""Bytes of the headers of an example as Python objects, and of each header of a record, besides names and values."""


class PendingHeaders:
    """The passed headers of pending examples, by slot of the join; examples without any are absent.

    Attributes:
        largest_bytes: Bytes of the largest headers of an example so far.
        allocated_bytes: The approximate bytes of all.
    """

    def __init__(self) -> None:
        self.largest_bytes = self.allocated_bytes = 0
        self._by_slot: dict[int, Sequence[Header]] = {}

    def __len__(self) -> int:
        return len(self._by_slot)

    def put(self, slot: int, headers: Sequence[Header]) -> None:
        """Keep the headers of the example in a slot, which has none."""
        self._by_slot[slot] = headers
        self.largest_bytes = max(self.largest_bytes, headers_bytes(headers))
        self.allocated_bytes += _ENTRY_BYTES + held_headers_bytes(headers)

    def load(self, by_slot: Mapping[int, Sequence[Header]]) -> None:
        """Keep the headers of examples that a snapshot has, by slot."""
        for slot, headers in by_slot.items():
            self.put(slot, headers)

    def take(self, slot: int) -> Sequence[Header]:
        """Return the headers of the example in a slot, and forget them."""
        headers = self._by_slot.pop(slot, ())
        if headers:
            self.allocated_bytes -= _ENTRY_BYTES + held_headers_bytes(headers)
        return headers

    def of(self, slots: Iterable[int]) -> list[Sequence[Header]]:
        """Return the headers of the examples in these slots."""
        return [self._by_slot.get(slot, ()) for slot in slots]


def held_headers_bytes(headers: Sequence[Header]) -> int:
    """Return the approximate bytes of headers that are kept as they came."""
    return _HEADER_OBJECT_BYTES * len(headers) + headers_bytes(headers)
