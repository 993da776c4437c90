"""The headers of rows, in two columns that rows have only if one of them has headers.

`HEADERS` has the bytes of each row's headers, and `HEADER_BYTES` these bytes, one row after the other: unlike those of
all other columns, its elements are no rows. A header is the length of its name, that of its value (-1: null), the name
and the value.
"""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from stream_app.arrays import Longs
from stream_app.errors import StateError
from stream_app.records import Header
from stream_app.snapshot.format import Arrays, Columns

HEADERS, HEADER_BYTES = "headers", "header_bytes"

_LENGTHS = struct.Struct("<ii")
_NULL = -1


def packed_headers(rows: Sequence[Sequence[Header]]) -> Columns:
    """Return both columns of these rows; none if no row has headers."""
    pieces = [b"".join(map(_packed, headers)) for headers in rows]
    if not any(pieces):
        return {}
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    return {HEADERS: lengths, HEADER_BYTES: np.frombuffer(b"".join(pieces), np.uint8)}


def headers_of(columns: Arrays, count: int) -> Mapping[int, Sequence[Header]]:
    """Return the headers of so many rows, by row; rows without headers are absent.

    Raises:
        StateError: The columns are not those that `packed_headers` makes.
    """
    if HEADERS not in columns:
        return {}
    lengths, content = columns[HEADERS].tolist(), columns[HEADER_BYTES]
    if len(lengths) != count or min(lengths, default=0) < 0 or sum(lengths) != len(content):
        raise StateError("headers of pending examples: the lengths do not match the bytes")
    whole, start = np.asarray(content, np.uint8).tobytes(), 0
    found: dict[int, Sequence[Header]] = {}
    for row, length in enumerate(lengths):
        if length:
            found[row] = _unpacked(whole[start : start + length])
        start += length
    return found


def chosen_rows(columns: Arrays, order: Longs) -> Columns:
    """Return these rows of all columns."""
    chosen: Columns = {name: column[order] for name, column in columns.items() if name != HEADER_BYTES}
    if HEADERS in columns:
        ends = np.cumsum(columns[HEADERS])
        pieces = [
            columns[HEADER_BYTES][end - length : end] for end, length in zip(ends[order], chosen[HEADERS], strict=True)
        ]
        chosen[HEADER_BYTES] = np.concatenate([*pieces, np.zeros(0, np.uint8)])
    return chosen


def with_header_columns(parts: Sequence[Columns]) -> Sequence[Columns]:
    """Return parts of rows with equal columns: if one of them has headers, the others get empty columns for them."""
    if not any(HEADERS in part for part in parts):
        return parts
    empty = np.zeros(0, np.uint8)
    return [
        part if HEADERS in part else {**part, HEADERS: np.zeros(len(part["arrivals"]), np.int64), HEADER_BYTES: empty}
        for part in parts
    ]


def _packed(header: Header) -> bytes:
    name, value = header[0].encode(), header[1]
    return _LENGTHS.pack(len(name), _NULL if value is None else len(value)) + name + (value or b"")


def _unpacked(content: bytes) -> Sequence[Header]:
    headers: list[Header] = []
    at = 0
    while at < len(content):
        if at + _LENGTHS.size > len(content):
            raise StateError("headers of pending examples: a header is cut off")
        name, value = _LENGTHS.unpack_from(content, at)
        at += _LENGTHS.size
        end = at + name + max(0, value)
        if name < 0 or value < _NULL or end > len(content):
            raise StateError("headers of pending examples: a header is cut off")
        headers.append((content[at : at + name].decode(), None if value == _NULL else content[at + name : end]))
        at = end
    return headers
