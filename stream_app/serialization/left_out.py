"""The parts that a dead letter omits when its topic would not accept it whole, and the headers that say so; pure.

A broker limits the size of a batch after compression. A compressed batch of at most 1 MB may therefore hold a value of
many MB, and the dead letter, which is the input record and more, may not fit its own topic. It then omits its original
headers, then its value, then its key, as necessary. A pair of headers describes each omitted part:

    areba.headers.length    areba.headers.sha256     of `headers_bytes`
    areba.value.length      areba.value.sha256
    areba.key.length        areba.key.sha256

They come after all other headers (a whole dead letter ends with `areba.reason`), so a header of a producer is never
taken for one of them. The dead letter names its input record as usual; length and SHA-256 prove that a record is the
same.

The limit is data, since a restore, `areba verify` and the tools compute outputs again and must get the same bytes and
the same digest, even if the topic's settings have changed by then. The worker reads `max.message.bytes` of the topic
when it starts, and again after a record was too large. The limit is a part of `TaskSettings`, and a change is recorded
in the progress topic before the first batch that it affects. Nothing changes a record after its digest was computed.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from struct import pack
from typing import NamedTuple

from stream_app.records import Header

_BATCH_OVERHEAD_BYTES = 100
"""Overhead of a batch with one record (KIP-98): the batch header of 61 bytes, the record's lengths and deltas."""

_HEADER_OVERHEAD_BYTES = 10
"""Overhead of a header: the lengths of its name and value, at most 5 bytes each."""

HEADERS, VALUE, KEY = "headers", "value", "key"
PARTS = (HEADERS, VALUE, KEY)
"""The parts that may be left out, in this order."""


class LeftOut(NamedTuple):
    """Length and SHA-256 (in hexadecimal) of a part that was left out."""

    length: int
    sha256: str

    def is_of(self, part: bytes) -> bool:
        """Say whether these bytes are the part."""
        return self == _left_out_of(part)


class Fields(NamedTuple):
    """Key, value and headers of a record."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    def part(self, name: str) -> bytes:
        """Return the bytes of one of `PARTS`."""
        if name == HEADERS:
            return headers_bytes(self.headers)
        return (self.value if name == VALUE else self.key) or b""

    def without(self, name: str) -> "Fields":
        """Return the same record without one of `PARTS`."""
        if name == HEADERS:
            return self._replace(headers=())
        return self._replace(value=None) if name == VALUE else self._replace(key=None)


def _left_out_of(part: bytes) -> LeftOut:
    """Measure and hash a part."""
    return LeftOut(len(part), sha256(part).hexdigest())


def headers_bytes(headers: Sequence[Header]) -> bytes:
    """Write headers as bytes: each name and each value after its length (int32, little-endian; null: -1)."""
    cells = (cell for name, value in headers for cell in (name.encode(), value))
    return b"".join(pack("<i", -1) if cell is None else pack("<i", len(cell)) + cell for cell in cells)


def batch_bytes(fields: Fields) -> int:
    """Return an upper bound on the size of an uncompressed batch with this record alone, which the broker limits."""
    names = sum(len(name.encode()) + len(value or b"") for name, value in fields.headers)
    size = len(fields.key or b"") + len(fields.value or b"") + names
    return size + _BATCH_OVERHEAD_BYTES + _HEADER_OVERHEAD_BYTES * len(fields.headers)


def fitted(original: Fields, ours: Sequence[Header], most_bytes: int) -> Fields:
    """Return a dead letter: the original, then our headers, without the parts that do not fit.

    Args:
        original: The input record.
        ours: The headers that every dead letter has.
        most_bytes: The largest batch that the topic accepts. A dead letter without all parts may still be larger.
    """
    kept, last = original, list(ours)
    for part in PARTS:
        letter = kept._replace(headers=[*kept.headers, *last])
        if batch_bytes(letter) <= most_bytes:
            return letter
        content = original.part(part)
        if content:
            kept = kept.without(part)
            values = map(str, _left_out_of(content))
            last += [(name, text.encode()) for name, text in zip(_names(part), values, strict=True)]
    return kept._replace(headers=[*kept.headers, *last])


def read_left_out(headers: Sequence[Header]) -> tuple[Sequence[Header], Mapping[str, LeftOut]]:
    """Return the headers without those that describe omitted parts, and what these say by the name of the part."""
    found: dict[str, LeftOut] = {}
    for part in reversed(PARTS):
        pair = headers[-2:]
        if tuple(name for name, _ in pair) == _names(part):
            length, digest = ((value or b"").decode(errors="replace") for _, value in pair)
            if length.isdecimal() and len(length) < len(str(2**63)):
                found[part] = LeftOut(int(length), digest)
                headers = headers[:-2]
    return headers, found


def _names(part: str) -> tuple[str, str]:
    return f"areba.{part}.length", f"areba.{part}.sha256"
