"""Avro, one value at a time: the schemas of the package, their layouts, and the checks that all our decoders share.

A value is `C3 01`, the CRC-64-AVRO fingerprint of its schema (8 bytes, little-endian), then the record: the
single-object encoding of the Avro specification. fastavro reads the record; but it takes some bytes that no writer
makes and that other readers refuse or read otherwise. So `walk` looks at the bytes first, and both decoders
(`decode_one` here, the one for batches in `codec`) share the functions below it: what we accept is what fastavro
accepts and what passes every `Check`. No decoder looks beyond a value's last byte, or reserves memory for what a value
only claims to hold.
"""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import fastavro
import numpy as np
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

import schemas
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.records import (
    Act,
    Bytes,
    Commit,
    Example,
    Label,
    Longs,
    Mark,
    MarkKind,
    Metric,
    Outcome,
    Prediction,
)

Record: TypeAlias = Example | Label | Mark | Prediction | Outcome | Metric | Commit | Act
Int: TypeAlias = int | np.signedinteger[Any]
"""What compiled functions count with."""

RECORD_TYPES = (Example, Label, Mark, Prediction, Outcome, Metric, Commit, Act)

MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
"""The two bytes of the single-object encoding and the fingerprint."""

MAX_VARINT_BYTES = 10
"""Ten times seven bits hold any long."""


class Check(IntEnum):
    """Why a record's bytes are refused. Those marked with a star are checks of ours: fastavro takes such bytes."""

    TRUNCATED = 1  # the value ends inside the record
    LONG_VARINT = 2  # * a number of more than ten bytes, or of more than 64 bits
    INT_RANGE = 3  # * an int of more than 32 bits
    NEGATIVE_LENGTH = 4  # a string of less than no bytes
    UTF8 = 5  # a string that is not UTF-8
    INDEX_RANGE = 6  # an enum or union index past its list, or (*) below zero
    BLOCK_SIZE = 7  # * a block whose size in bytes is not that of its items
    BOOLEAN = 8  # * a boolean other than 0 and 1
    LEFT_OVER = 9  # * bytes behind the record

    @property
    def text(self) -> str:
        """As messages spell it: `left over`."""
        return self.name.lower().replace("_", " ")


# The readers below give (value, next position); a position below zero is a `Check`, negated. The compiler wants plain
# integers for that.
TRUNCATED = -int(Check.TRUNCATED)
LONG_VARINT = -int(Check.LONG_VARINT)
INT_RANGE = -int(Check.INT_RANGE)
NEGATIVE_LENGTH = -int(Check.NEGATIVE_LENGTH)
UTF8 = -int(Check.UTF8)
INDEX_RANGE = -int(Check.INDEX_RANGE)
BLOCK_SIZE = -int(Check.BLOCK_SIZE)
BOOLEAN = -int(Check.BOOLEAN)
LEFT_OVER = -int(Check.LEFT_OVER)

STRING, INT, LONG, FLOAT, DOUBLE, BOOL, FIXED, ENUM, FLOATS = range(9)
NULLABLE = 16
"""Added to a type: a union of null and that type."""

TYPE_CODES = MappingProxyType(
    {"string": STRING, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE, "boolean": BOOL}
)

FLOAT_BYTES = 4
DOUBLE_BYTES = 8


# Reading numbers, strings and blocks: compiled, shared by both decoders ----------------------------------------------


# Unsigned places (`uintp`) spare the compiler the question whether they count from the end: it then loads the bytes of
# a word at once, at any address, and makes vectors of loops.


@inlined_without_refcounts
def read_word(buffer: Bytes, position: int) -> np.uint64:
    """Eight bytes, little-endian."""
    place = np.uintp(position)
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(buffer[place + np.uintp(i)]) << np.uint64(8 * i)
    return word


@inlined_without_refcounts
def read_float_bits(buffer: Bytes, position: int) -> np.uint32:
    """Four bytes, little-endian."""
    place = np.uintp(position)
    word = np.uint32(0)
    for i in range(4):
        word |= np.uint32(buffer[place + np.uintp(i)]) << np.uint32(8 * i)
    return word


@inlined_without_refcounts
def is_ascii(buffer: Bytes, position: int, end: int) -> bool:
    """Whether no byte is above 127."""
    joined = np.uint8(0)
    for i in range(position, end):
        joined |= buffer[np.uintp(i)]
    return bool(joined < 0x80)


@inlined_without_refcounts
def read_long(buffer: Bytes, position: int, end: int) -> tuple[Any, int]:
    """A zig-zag varint. Padding with zero bits is accepted, as fastavro and Java do."""
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
    """A varint of 32 bits."""
    value, position = read_long(buffer, position, end)
    if position >= 0 and (value < -(1 << 31) or value >= 1 << 31):
        return 0, INT_RANGE
    return value, position


@inlined_without_refcounts
def read_index(buffer: Bytes, position: int, end: int, count: int) -> tuple[int, int]:
    """The place in a union or in an enum's symbols: 0 to `count` - 1."""
    value, position = read_long(buffer, position, end)
    if position >= 0 and (value < 0 or value >= count):
        return 0, INDEX_RANGE
    return value, position


@inlined_without_refcounts
def read_code_point(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """One UTF-8 sequence of two to four bytes, well-formed (Unicode, table 3-7): not overlong, no surrogate."""
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
    """Whether the bytes are well-formed UTF-8."""
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
    """Where the bytes of a string start, and where they end; not yet known to be UTF-8."""
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
    """Where the bytes of a string start, and where they end."""
    start, position = read_span(buffer, position, end)
    if position >= 0 and not is_utf8(buffer, start, position):
        return 0, UTF8
    return start, position


@inlined_without_refcounts
def read_block(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """The head of a block of floats: how many come (0: no more). All of them are there.

    A negative count is followed by the size of the block in bytes.
    """
    count, position = read_long(buffer, position, end)
    if position < 0:
        return 0, position
    if count < 0:
        size, position = read_long(buffer, position, end)
        if position < 0:
            return 0, position
        # the division keeps what a hostile count would overflow
        if size < 0 or size % FLOAT_BYTES != 0 or -(size // FLOAT_BYTES) != count:
            return 0, BLOCK_SIZE
        count = size // FLOAT_BYTES
    if count > (end - position) // FLOAT_BYTES:
        return 0, TRUNCATED
    return count, position


@inlined_without_refcounts
def skip_bytes(position: int, end: int, size: int) -> int:
    """Behind so many bytes."""
    return position + size if size <= end - position else TRUNCATED


@inlined_without_refcounts
def skip_floats(buffer: Bytes, position: int, end: int) -> int:
    """Behind an array of floats."""
    while True:
        count, position = read_block(buffer, position, end)
        if position < 0 or count == 0:
            return position
        position += count * FLOAT_BYTES


@inlined_without_refcounts
def skip_field(buffer: Bytes, position: int, end: int, code: int, argument: int) -> int:
    """Behind one field that is there (not null)."""
    if code == STRING:
        position = read_text(buffer, position, end)[1]
    elif code == INT:
        position = read_int(buffer, position, end)[1]
    elif code == LONG:
        position = read_long(buffer, position, end)[1]
    elif code == FLOAT:
        position = skip_bytes(position, end, FLOAT_BYTES)
    elif code == DOUBLE:
        position = skip_bytes(position, end, DOUBLE_BYTES)
    elif code == BOOL:
        position = skip_bytes(position, end, 1)
        if position >= 0 and buffer[position - 1] > 1:
            position = BOOLEAN
    elif code == FIXED:
        position = skip_bytes(position, end, argument)
    elif code == ENUM:
        position = read_index(buffer, position, end, argument)[1]
    else:
        position = skip_floats(buffer, position, end)
    return position


@compiled_without_refcounts
def walk(buffer: Bytes, position: int, layout: Longs) -> int:
    """Go through one record, which the buffer must hold to its last byte.

    Args:
        buffer: uint8, one value.
        position: Where the record starts in it.
        layout: int64 `[fields, 2]`, of `layout_of`.

    Returns:
        0, or the `Check` that it failed.
    """
    end = len(buffer)
    for field in range(len(layout)):
        code = layout[field, 0]
        present = 1
        if code >= NULLABLE:
            code -= NULLABLE
            present, position = read_index(buffer, position, end, 2)
        if position >= 0 and present:
            position = skip_field(buffer, position, end, code, layout[field, 1])
        if position < 0:
            return -position
    return 0 if position == end else -LEFT_OVER


# Schemas --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One version of one record type.

    Attributes:
        record: The dataclass of its records.
        version: 1, 2, ...
        header: The first `HEADER_BYTES` of each value.
        parsed: As fastavro wants it.
        layout: As `walk` wants it.
    """

    record: type[Record]
    version: int
    header: bytes
    parsed: dict[str, Any]
    layout: Longs

    @property
    def fingerprint(self) -> int:
        """CRC-64-AVRO of the canonical form."""
        return int.from_bytes(self.header[len(MAGIC) :], "little")


def layout_of(parsed: Mapping[str, Any]) -> Longs:
    """The fields of a flat record schema as `walk` reads them: int64 `[fields, 2]`, type code and size or symbols.

    Raises:
        ValueError: A field is not flat: schemas that nest can be made to recurse without end.
    """
    rows = []
    for field in parsed["fields"]:
        kind, extra = field["type"], 0
        if isinstance(kind, list) and len(kind) == 2 and kind[0] == "null":
            kind, extra = kind[1], NULLABLE
        if isinstance(kind, str) and kind in TYPE_CODES:
            rows.append((TYPE_CODES[kind] + extra, 0))
        elif isinstance(kind, dict) and kind["type"] == "enum":
            rows.append((ENUM + extra, len(kind["symbols"])))
        elif isinstance(kind, dict) and kind["type"] == "fixed":
            rows.append((FIXED + extra, kind["size"]))
        elif isinstance(kind, dict) and kind["type"] == "array" and kind["items"] == "float":
            rows.append((FLOATS + extra, 0))
        else:
            raise ValueError(f"{parsed['name']}.{field['name']}: {kind} is not flat")
    return np.array(rows, dtype=np.int64)


@cache
def catalogue() -> Mapping[bytes, Schema]:
    """Every schema of the package by the header of its values; read once, from the package alone."""
    types = {record.__name__.lower(): record for record in RECORD_TYPES}
    found = {}
    for (name, version), text in schemas.sources().items():
        parsed: Any = parse_schema(json.loads(text))
        digest = bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO"))
        found[MAGIC + digest] = Schema(types[name], version, MAGIC + digest, parsed, layout_of(parsed))
    return MappingProxyType(found)


@cache
def newest() -> Mapping[type[Record], Schema]:
    """The schema that values of each record type are written with."""
    ordered = sorted(catalogue().values(), key=lambda schema: schema.version)
    return MappingProxyType({schema.record: schema for schema in ordered})


# One value at a time --------------------------------------------------------------------------------------------------


def encode(record: Record) -> bytes:
    """The value of one record, by fastavro, with the newest schema. Whether it makes sense is not looked at.

    Raises:
        ValueError: A number is too large for its field, or a text or symbol cannot be written.
        TypeError: A field has another type.
    """
    schema = newest()[type(record)]
    out = io.BytesIO()
    out.write(schema.header)
    fastavro.schemaless_writer(out, schema.parsed, _plain(record))
    value = out.getvalue()
    failed = walk(np.frombuffer(bytearray(value), np.uint8), HEADER_BYTES, schema.layout)
    if failed:
        raise ValueError(f"{type(record).__name__} cannot be written: {Check(failed).text}")
    return value


def decode_one(value: bytes) -> Record:
    """The record of one value, of any type of ours; what the record says is not looked at.

    Raises:
        WrongSchemaError: The value does not begin with the fingerprint of a schema of ours.
        UndecodableError: The rest is no record of that schema, or bytes are left over.
    """
    schema = catalogue().get(value[:HEADER_BYTES])
    if schema is None:
        raise WrongSchemaError(f"no schema of ours: the value begins with {value[:HEADER_BYTES].hex() or 'nothing'}")
    failed = walk(np.frombuffer(bytearray(value), np.uint8), HEADER_BYTES, schema.layout)
    if failed:
        raise UndecodableError(f"{schema.record.__name__}: {Check(failed).text}")
    payload = io.BytesIO(value)
    payload.seek(HEADER_BYTES)
    try:
        plain: Any = fastavro.schemaless_reader(payload, schema.parsed, None)
    except (EOFError, LookupError, ValueError) as error:
        raise UndecodableError(f"{schema.record.__name__}: {type(error).__name__}") from error
    if payload.tell() != len(value):
        raise UndecodableError(f"{schema.record.__name__}: {Check.LEFT_OVER.text}")
    return _record(schema.record, plain)


def decode_many(values: Iterable[bytes]) -> list[Record]:
    """The records of many values, for tools. Raises as `decode_one` does."""
    return [decode_one(value) for value in values]


def _plain(record: Record) -> dict[str, Any]:
    """The fields as fastavro writes them."""
    plain = {field.name: getattr(record, field.name) for field in fields(record)}
    if isinstance(record, Example):
        plain["features"] = [float(value) for value in record.features]
    elif isinstance(record, Mark):
        plain["kind"] = record.kind.name.lower()
    return plain


def _record(record: type[Record], plain: dict[str, Any]) -> Record:
    """The record with the fields that fastavro read."""
    if record is Example:
        plain["features"] = tuple(plain["features"])
    elif record is Mark:
        plain["kind"] = MarkKind[plain["kind"].upper()]
    return record(**plain)
