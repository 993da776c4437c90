"""Avro: the schemas of the package, and the readers and checks of bytes that all decoders share.

A value is `C3 01`, the CRC-64-AVRO fingerprint of its schema (8 bytes, little-endian), then the record: the
single-object encoding of the Avro specification. fastavro accepts some bytes that no writer makes, and that other
readers refuse or read differently. So `layout` checks the bytes of a value before fastavro reads it, and the batch
decoder uses the same readers: the package accepts what fastavro accepts and what passes every `Check`. No decoder reads
after a value's last byte, or reserves memory for a size that a value only claims to have.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from stream_app import schemas
from stream_app.arrays import Bytes
from stream_app.jit.compiler import compiled, inlined_without_refcounts
from stream_app.progress_records import Act, Commit
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction

Record: TypeAlias = Example | Label | Mark | Prediction | Outcome | Metric | Commit | Act
Int: TypeAlias = int | np.signedinteger[Any]
"""The integers of compiled functions."""

RECORD_TYPES = (Example, Label, Mark, Prediction, Outcome, Metric, Commit, Act)

MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
"""Length of `MAGIC` and the fingerprint."""

MAX_VARINT_BYTES = 10
"""Most bytes of a long: ten times seven bits."""

MAX_INT_BYTES = 5
"""Most bytes of an int: five times seven bits."""


class Check(IntEnum):
    """The reason why a record's bytes are refused. A star marks bytes that fastavro accepts."""

    TRUNCATED = 1  # the value ends inside the record
    LONG_VARINT = 2  # * a number of more than ten bytes, or of more than 64 bits
    INT_RANGE = 3  # * an int of more than 32 bits
    NEGATIVE_LENGTH = 4  # a string with a negative length
    UTF8 = 5  # a string that is not UTF-8
    INDEX_RANGE = 6  # an enum or union index past its list, or (*) below zero
    BLOCK_SIZE = 7  # * a block whose size in bytes differs from its items'
    BOOLEAN = 8  # * a boolean other than 0 and 1
    LEFT_OVER = 9  # * bytes after the record

    @property
    def text(self) -> str:
        """The check as messages spell it, such as `left over`."""
        return self.name.lower().replace("_", " ")


# The readers below return (value, next position). A negative position is a `Check`, negated. Compiled code needs the
# checks as plain integers.
TRUNCATED = -int(Check.TRUNCATED)
LONG_VARINT = -int(Check.LONG_VARINT)
INT_RANGE = -int(Check.INT_RANGE)
NEGATIVE_LENGTH = -int(Check.NEGATIVE_LENGTH)
UTF8 = -int(Check.UTF8)
INDEX_RANGE = -int(Check.INDEX_RANGE)
BLOCK_SIZE = -int(Check.BLOCK_SIZE)
BOOLEAN = -int(Check.BOOLEAN)
LEFT_OVER = -int(Check.LEFT_OVER)

FLOAT_BYTES = 4
DOUBLE_BYTES = 8


# With unsigned indices (`uintp`), the compiler need not handle indices from the end: it then loads the bytes of a word
# at once, at any address, and vectorizes loops.


@inlined_without_refcounts
def read_word(buffer: Bytes, position: int) -> np.uint64:
    """Read eight bytes, little-endian."""
    place = np.uintp(position)
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(buffer[place + np.uintp(i)]) << np.uint64(8 * i)
    return word


@inlined_without_refcounts
def read_float_bits(buffer: Bytes, position: int) -> np.uint32:
    """Read four bytes, little-endian."""
    place = np.uintp(position)
    word = np.uint32(0)
    for i in range(4):
        word |= np.uint32(buffer[place + np.uintp(i)]) << np.uint32(8 * i)
    return word


@inlined_without_refcounts
def is_ascii(buffer: Bytes, position: int, end: int) -> bool:
    """Say whether no byte is above 127."""
    joined = np.uint8(0)
    for i in range(position, end):
        joined |= buffer[np.uintp(i)]
    return bool(joined < 0x80)


@inlined_without_refcounts
def read_long(buffer: Bytes, position: int, end: int) -> tuple[Any, int]:
    """Read a zig-zag varint. Padding with zero bits is accepted, as by fastavro and Java."""
    bits = np.uint64(0)
    for place in range(MAX_VARINT_BYTES):
        if position >= end:
            return 0, TRUNCATED
        byte = np.uint64(buffer[np.uintp(position)])
        position += 1
        if place == MAX_VARINT_BYTES - 1 and byte > np.uint64(1):
            return 0, LONG_VARINT
        bits |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < np.uint64(0x80):
            break
    return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), position


@inlined_without_refcounts
def read_int(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zig-zag varint of at most 32 bits."""
    value, position = read_long(buffer, position, end)
    if position >= 0 and (value < -(1 << 31) or value >= 1 << 31):
        return 0, INT_RANGE
    return value, position


@inlined_without_refcounts
def read_index(buffer: Bytes, position: int, end: int, count: int) -> tuple[int, int]:
    """Read the index of a union's type or of an enum's symbol: 0 to `count` - 1."""
    value, position = read_long(buffer, position, end)
    if position >= 0 and (value < 0 or value >= count):
        return 0, INDEX_RANGE
    return value, position


@inlined_without_refcounts
def read_code_point(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a well-formed UTF-8 sequence of two to four bytes (Unicode, table 3-7): not overlong, not a surrogate."""
    lead = int(buffer[position])
    if lead < 0xE0:
        more, code, smallest = 1, lead & 0x1F, 0x80
    elif lead < 0xF0:
        more, code, smallest = 2, lead & 0x0F, 0x800
    else:
        more, code, smallest = 3, lead & 0x07, 0x10000
    if lead < 0xC2 or lead > 0xF4 or end - position <= more:
        return 0, UTF8
    for i in range(position + 1, position + 1 + more):
        if buffer[i] & 0xC0 != 0x80:
            return 0, UTF8
        code = code << 6 | int(buffer[i] & 0x3F)
    if code < smallest or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return 0, UTF8
    return code, position + 1 + more


@inlined_without_refcounts
def is_utf8(buffer: Bytes, position: int, end: int) -> bool:
    """Say whether the bytes are well-formed UTF-8."""
    if is_ascii(buffer, position, end):  # almost all names are
        return True
    while position < end:
        if buffer[position] < 0x80:
            position += 1
        else:
            position = read_code_point(buffer, position, end)[1]
            if position < 0:
                return False
    return True


@inlined_without_refcounts
def read_span(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return where the bytes of a string start and end, without checking that they are UTF-8."""
    length, position = read_long(buffer, position, end)
    if position < 0:
        return 0, position
    if length < 0:
        return 0, NEGATIVE_LENGTH
    if length > end - position:
        return 0, TRUNCATED
    return position, position + length


@inlined_without_refcounts
def read_text(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return where the bytes of a string start and end, after checking that they are UTF-8."""
    start, position = read_span(buffer, position, end)
    if position >= 0 and not is_utf8(buffer, start, position):
        return 0, UTF8
    return start, position


@inlined_without_refcounts
def read_items(buffer: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Read the head of a block of items, each of a byte or more: their number (0 at the end), and their bytes or -1."""
    size = -1
    count, position = read_long(buffer, position, end)
    if position >= 0 and count < 0:
        size, position = read_long(buffer, position, end)
        if position >= 0 and (size < 0 or count < -size):
            return 0, 0, BLOCK_SIZE
        count = -count
    if position >= 0 and count > end - position:
        return 0, 0, TRUNCATED
    return count, size, position


@inlined_without_refcounts
def read_block(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read the head of a block of floats, and return their number (0 at the end); the buffer has all of them.

    Floats, unlike other items, are skipped at once: an example has thousands.

    A negative count is followed by the size of the block in bytes.
    """
    count, position = read_long(buffer, position, end)
    if position < 0:
        return 0, position
    if count < 0:
        size, position = read_long(buffer, position, end)
        if position < 0:
            return 0, position
        # dividing cannot overflow, as multiplying a hostile count could
        if size < 0 or size % FLOAT_BYTES != 0 or -(size // FLOAT_BYTES) != count:
            return 0, BLOCK_SIZE
        count = size // FLOAT_BYTES
    if count > (end - position) // FLOAT_BYTES:
        return 0, TRUNCATED
    return count, position


NULL_VALUE, BOOLEAN_VALUE, LONG_VALUE, DOUBLE_VALUE, TEXT_VALUE = range(5)
"""The types of a column's value, by their places in the union of the schema."""

VALUE_TYPES = ["null", "boolean", "long", "double", "string"]
"""The union of the schema."""


@inlined_without_refcounts
def read_value_span(buffer: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """Return the type of a column's value, where its content begins, and the next position; all bytes are checked."""
    kind, position = read_index(buffer, position, end, 5)
    start = position
    if position < 0 or kind == NULL_VALUE:
        return kind, start, position
    if kind == BOOLEAN_VALUE:
        if position >= end:
            return kind, start, TRUNCATED
        position = position + 1 if buffer[np.uintp(position)] <= 1 else BOOLEAN
    elif kind == LONG_VALUE:
        position = read_long(buffer, position, end)[1]
    elif kind == DOUBLE_VALUE:
        position = position + DOUBLE_BYTES if end - position >= DOUBLE_BYTES else TRUNCATED
    else:
        start, position = read_text(buffer, position, end)
    return kind, start, position


@inlined_without_refcounts
def skip_values(buffer: Bytes, position: int, end: int) -> int:
    """Return the position after a map of values by column, after checking all of its bytes."""
    while True:
        count, size, position = read_items(buffer, position, end)
        if position < 0 or count == 0:
            return position
        start = position
        for _ in range(count):
            position = read_text(buffer, position, end)[1]
            if position >= 0:
                position = read_value_span(buffer, position, end)[2]
            if position < 0:
                return position
        if size >= 0 and position - start != size:
            return BLOCK_SIZE


@inlined_without_refcounts
def put_long(out: Bytes, position: int, value: Int) -> int:
    """Write a zig-zag varint, and return the next position."""
    bits = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while bits >= np.uint64(0x80):
        out[position] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
        bits >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(bits)
    return position + 1


@compiled
def long_bytes(value: Int) -> Bytes:
    """Return a number as Avro writes it."""
    out = np.empty(MAX_VARINT_BYTES, np.uint8)
    return out[: put_long(out, 0, value)]


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One version of one record type.

    Attributes:
        record: The dataclass of its records.
        version: 1, 2, ...
        header: The first `HEADER_BYTES` of each value.
        parsed: The schema in the form that fastavro needs.
    """

    record: type[Record]
    version: int
    header: bytes
    parsed: dict[str, Any]

    @property
    def fingerprint(self) -> int:
        """CRC-64-AVRO of the schema's canonical form."""
        return int.from_bytes(self.header[len(MAGIC) :], "little")


@cache
def catalogue() -> Mapping[bytes, Schema]:
    """Return every schema of the package by the header of its values; the files are read once."""
    types = {record.__name__.lower(): record for record in RECORD_TYPES}
    found = {}
    for (name, version), text in schemas.sources().items():
        parsed: Any = parse_schema(json.loads(text))
        digest = bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO"))
        found[MAGIC + digest] = Schema(types[name], version, MAGIC + digest, parsed)
    return MappingProxyType(found)


@cache
def newest() -> Mapping[type[Record], Schema]:
    """Return the newest schema of each record type, with which values are written."""
    ordered = sorted(catalogue().values(), key=lambda schema: schema.version)
    return MappingProxyType({schema.record: schema for schema in ordered})
