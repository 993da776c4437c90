"""Check the bytes of a value against its schema: one loop over a table that is made from the schema.

The schema of a record may have arrays and records in it. Both become rows of the table, so that no reader recurses, and
a value can neither overflow the stack nor make a reader loop more often than the value has bytes.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from stream_app.arrays import Bytes, Longs
from stream_app.jit.compiler import compiled, inlined_without_refcounts
from stream_app.serialization.avro import (
    BLOCK_SIZE,
    BOOLEAN,
    FLOAT_BYTES,
    LEFT_OVER,
    TRUNCATED,
    VALUE_TYPES,
    Check,
    Schema,
    read_block,
    read_index,
    read_int,
    read_items,
    read_long,
    read_text,
    skip_values,
)

_STRING, _INT, _LONG, _FLOAT, _DOUBLE, _BOOL, _FIXED, _ENUM, _FLOATS, _RECORD, _ARRAY, _ARRAY_END, _VALUES = range(13)
_NULLABLE = 16
"""Added to a type code: a union of null and this type."""

TYPE_CODES = MappingProxyType(
    {"string": _STRING, "int": _INT, "long": _LONG, "float": _FLOAT, "double": _DOUBLE, "boolean": _BOOL}
)

_DOUBLE_BYTES = 8

# Columns of the current block of each array: items after this item (-1: the array is at its end), bytes or -1, start.
_LEFT, _SIZE, _START = 0, 1, 2

_LayoutRow: TypeAlias = tuple[int, int]


@inlined_without_refcounts
def _skip_bytes(position: int, end: int, size: int) -> int:
    """Return the position after `size` bytes."""
    return position + size if size <= end - position else TRUNCATED


@inlined_without_refcounts
def _skip_floats(buffer: Bytes, position: int, end: int) -> int:
    """Return the position after an array of floats."""
    while True:
        count, position = read_block(buffer, position, end)
        if position < 0 or count == 0:
            return position
        position += count * FLOAT_BYTES


@inlined_without_refcounts
def _next_item(buffer: Bytes, position: int, end: int, blocks: Longs, array: int) -> int:
    """Return where the next item of an array begins, or the position after the array, which has no items left then."""
    if blocks[array, _LEFT] > 0:
        blocks[array, _LEFT] -= 1
        return position
    if blocks[array, _SIZE] >= 0 and position - blocks[array, _START] != blocks[array, _SIZE]:
        return BLOCK_SIZE
    count, blocks[array, _SIZE], position = read_items(buffer, position, end)
    blocks[array, _LEFT], blocks[array, _START] = count - 1, position
    return position


@inlined_without_refcounts
def _skip_field(  # noqa: C901  (a branch for each type)
    buffer: Bytes, position: int, end: int, code: int, argument: int
) -> int:
    """Return the position after one field that is not null."""
    if code == _STRING:
        position = read_text(buffer, position, end)[1]
    elif code == _INT:
        position = read_int(buffer, position, end)[1]
    elif code == _LONG:
        position = read_long(buffer, position, end)[1]
    elif code == _FLOAT:
        position = _skip_bytes(position, end, FLOAT_BYTES)
    elif code == _DOUBLE:
        position = _skip_bytes(position, end, _DOUBLE_BYTES)
    elif code == _BOOL:
        position = _skip_bytes(position, end, 1)
        if position >= 0 and buffer[position - 1] > 1:
            position = BOOLEAN
    elif code == _FIXED:
        position = _skip_bytes(position, end, argument)
    elif code == _ENUM:
        position = read_index(buffer, position, end, argument)[1]
    elif code == _VALUES:
        position = skip_values(buffer, position, end)
    else:
        position = _skip_floats(buffer, position, end)
    return position


@compiled
def _walk(buffer: Bytes, position: int, layout: Longs) -> int:
    """Check the bytes of one record, which must end with the buffer.

    An array is a loop over its rows of the layout, so that nested values need no recursion. Each turn takes a byte.

    Args:
        buffer: uint8, one value.
        position: Where the record starts in it.
        layout: int64 `[rows, 2]`, see `layout_of`.

    Returns:
        0, or the `Check` that failed.
    """
    end, row = len(buffer), 0
    blocks = np.zeros((len(layout), 3), np.int64)
    while row < len(layout):
        code, argument = layout[row, 0], layout[row, 1]
        present = 1
        if code >= _NULLABLE:
            code -= _NULLABLE
            present, position = read_index(buffer, position, end, 2)
        if position >= 0 and code == _ARRAY_END:
            position = _next_item(buffer, position, end, blocks, row - argument)
            row -= argument if blocks[row - argument, _LEFT] >= 0 else 0
        elif position >= 0 and code == _ARRAY:
            blocks[row, _LEFT], blocks[row, _SIZE] = 0, -1
            row += argument - 1 if present else argument
        elif position >= 0 and code == _RECORD:
            row += 0 if present else argument
        elif position >= 0 and present:
            position = _skip_field(buffer, position, end, code, argument)
        if position < 0:
            return -position
        row += 1
    return 0 if position == end else -LEFT_OVER


def layout_of(parsed: Mapping[str, Any]) -> Longs:
    """Return a record schema for `_walk`: int64 `[rows, 2]`, one row a field, with type code and argument.

    The argument is the size of a `fixed`, or the number of symbols of an `enum`. The rows of a nested record, or of the
    items of an array, follow the row of the record or array, whose argument is their number. The last row of an array
    is `_ARRAY_END`, with the same argument as its first row.

    Raises:
        ValueError: A type is refused. A type that is only named could contain itself, and a few bytes then make a
            reader recurse without end. Items without bytes make a reader loop as often as a value says.
    """
    return np.array(list(_rows_of_fields(parsed)), dtype=np.int64)


def _rows_of_fields(record: Mapping[str, Any]) -> Iterator[_LayoutRow]:
    for field in record["fields"]:
        try:
            yield from _rows_of(field["type"])
        except ValueError as error:
            raise ValueError(f"{record['name']}.{field['name']}: {error}") from error


def _rows_of(kind: Any) -> Iterator[_LayoutRow]:  # noqa: ANN401  (a type in a schema)
    extra = 0
    if isinstance(kind, list) and len(kind) == 2 and kind[0] == "null":
        kind, extra = kind[1], _NULLABLE
    match kind:
        case str() if kind in TYPE_CODES:
            yield TYPE_CODES[kind] + extra, 0
        case {"type": "enum", "symbols": symbols}:
            yield _ENUM + extra, len(symbols)
        case {"type": "fixed", "size": size}:
            yield _FIXED + extra, size
        case {"type": "array", "items": "float"}:
            yield _FLOATS + extra, 0
        case {"type": "map", "values": values} if values == VALUE_TYPES:
            yield _VALUES + extra, 0
        case {"type": "array", "items": items}:
            rows = list(_rows_of(items))
            if not _has_bytes(items):
                raise ValueError(f"an item of {kind} may have no bytes")
            yield _ARRAY + extra, len(rows) + 1
            yield from rows
            yield _ARRAY_END, len(rows) + 1
        case {"type": "record"}:
            rows = list(_rows_of_fields(kind))
            yield _RECORD + extra, len(rows)
            yield from rows
        case _:
            raise ValueError(f"{kind} is not supported")


def _has_bytes(kind: Any) -> bool:  # noqa: ANN401  (a type in a schema)
    """Say whether each value of the type has a byte at least."""
    match kind:
        case {"type": "fixed", "size": size}:
            return bool(size)
        case {"type": "record", "fields": fields}:
            return any(_has_bytes(field["type"]) for field in fields)
        case _:
            return True


def failed_check(value: bytes, start: int, schema: Schema) -> Check | None:
    """Return why the bytes of a value from `start` on are not one record of the schema; None if they are."""
    failed = _walk(np.frombuffer(bytearray(value), np.uint8), start, _layout(schema))
    return Check(failed) if failed else None


@cache
def _layout(schema: Schema) -> Longs:
    return layout_of(schema.parsed)
