"""What a dead letter leaves out where its topic would not take it whole, and how it says so; pure.

A broker limits a batch as it is sent, compressed; so an input of at most 1 MB a batch may hold a value of many MB, and
a dead letter, which is the whole input record and more, need not fit into its own topic. It then loses its original
headers, then its value, then its key, as far as needed; a pair of headers for each says what it was:

    areba.headers.length    areba.headers.sha256     of `headers_bytes`
    areba.value.length      areba.value.sha256
    areba.key.length        areba.key.sha256

They stand after all others (a whole letter ends with `areba.reason`), so no header of a producer is taken for them.
The input record is named as on any dead letter: who has it can tell by length and SHA-256 that it is the same.

Where the limit comes from: outputs are computed again on restore, by `areba verify` and by tools, and have to be the
same bytes and the same digest, whatever became of the topic's settings. So the limit is data. The worker reads
`max.message.bytes` of the topic at its start, and again when a record was too large; it is a part of `TaskSettings`,
and recorded in progress as any change of the configuration, before the first batch that it decides. The pure stages do
the rest: nothing after the digest touches a record.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from struct import pack
from typing import NamedTuple

from stream_app.records import Header

BATCH_OVERHEAD_BYTES = 100
"""Of a batch with one record (KIP-98): the batch's head of 61 bytes, and the record's own lengths and deltas."""

HEADER_OVERHEAD_BYTES = 10
"""Lengths of a header's name and value, at most 5 bytes each."""

HEADERS, VALUE, KEY = "headers", "value", "key"
PARTS = (HEADERS, VALUE, KEY)
"""What may be left out, in this order."""


class LeftOut(NamedTuple):
    """Length and SHA-256 (in hexadecimal) of a part that a dead letter does not carry."""

    length: int
    sha256: str

    def is_of(self, part: bytes) -> bool:
        """Tell whether these are the bytes."""
        return self == left_out_of(part)


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


def left_out_of(part: bytes) -> LeftOut:
    """Measure and hash a part."""
    return LeftOut(len(part), sha256(part).hexdigest())


def headers_bytes(headers: Sequence[Header]) -> bytes:
    """Write headers as bytes: each name and each value after its length (int32, little-endian; null: -1)."""
    cells = (cell for name, value in headers for cell in (name.encode(), value))
    return b"".join(pack("<i", -1) if cell is None else pack("<i", len(cell)) + cell for cell in cells)


def batch_bytes(fields: Fields) -> int:
    """Bound the size of a batch with this record alone, uncompressed: what a broker compares with its limit."""
    names = sum(len(name.encode()) + len(value or b"") for name, value in fields.headers)
    size = len(fields.key or b"") + len(fields.value or b"") + names
    return size + BATCH_OVERHEAD_BYTES + HEADER_OVERHEAD_BYTES * len(fields.headers)


def fitted(original: Fields, ours: Sequence[Header], most_bytes: int) -> Fields:
    """Make a dead letter: the original with our headers after its own, without what does not fit.

    Args:
        original: The input record.
        ours: Headers that every dead letter has.
        most_bytes: The largest batch that the topic takes. A letter that has lost all may still be larger.
    """
    kept, last = original, list(ours)
    for part in PARTS:
        letter = kept._replace(headers=[*kept.headers, *last])
        if batch_bytes(letter) <= most_bytes:
            return letter
        content = original.part(part)
        if content:
            kept = kept.without(part)
            values = map(str, left_out_of(content))
            last += [(name, text.encode()) for name, text in zip(_names(part), values, strict=True)]
    return kept._replace(headers=[*kept.headers, *last])


def read_left_out(headers: Sequence[Header]) -> tuple[Sequence[Header], Mapping[str, LeftOut]]:
    """Split the headers of a dead letter: those before the ones that say what was left out, and what these say."""
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
