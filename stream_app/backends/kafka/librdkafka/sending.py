"""Columns of records handed to librdkafka by compiled code.

A record is passed as an array of `rd_kafka_vu_t`, 72 bytes each: the kind of an argument, and up to three words.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.foreign import call_with_three
from stream_app.jit.memory import integer_of, integers_at, longs_at, pointer_to
from stream_app.record_columns import BinaryColumn, CellArrays, OutputRecords, binary_column
from stream_app.records import Headers

# isort: split
import numba
from numba.core import types

_ARGUMENT_BYTES = 72
"""The size of one argument."""

RKT, PARTITION, VALUE, KEY, OPAQUE, MESSAGE_FLAGS, TIMESTAMP, HEADER = 2, 3, 4, 5, 6, 7, 8, 9
"""Kinds of arguments (`rd_kafka_vtype_t`)."""

_FIXED_ARGUMENTS = 7
"""Arguments of a record without headers."""

COPY = 2
"""The client copies key and value (`RD_KAFKA_MSG_F_COPY`)."""

CODE, OFFSET, PRIVATE = 0, 7, 8
"""Fields of a `rd_kafka_message_t`: the error code, in words of 32 bits; offset and opaque, in words of 64 bits."""


class _HeaderColumns(NamedTuple):
    """The headers of n records.

    Attributes:
        starts: int64 `[n + 1]`, the first header of each row, and the number of all.
        names: The names, each with a zero byte after it.
        values: The values.
        most: The largest number of headers of a row.
    """

    starts: Longs
    names: CellArrays
    values: CellArrays
    most: int


def _header_columns(headers: Headers, count: int) -> _HeaderColumns:
    """Return the headers of this number of records in columns."""
    starts = np.zeros(count + 1, np.int64)
    if not headers:
        empty: BinaryColumn = binary_column(())
        return _HeaderColumns(starts, empty.arrays, empty.arrays, 0)
    for row, found in headers.items():
        starts[row + 1] = len(found)
    every = [header for _, found in sorted(headers.items()) for header in found]
    names = binary_column([name.encode(errors="surrogateescape") + b"\0" for name, _ in every])
    values = binary_column([value for _, value in every])
    return _HeaderColumns(np.cumsum(starts), names.arrays, values.arrays, int(starts.max()))


class Target(NamedTuple):
    """Where rows go.

    Attributes:
        produce: The address of `rd_kafka_produceva`.
        client: The handle of the client.
        topic: The handle of the topic.
        partition: The number of the partition.
        written: The address of the array for the offsets, or 0.
    """

    produce: int
    client: int
    topic: int
    partition: int
    written: int


class _Rows(NamedTuple):
    """The columns of n records."""

    keys: CellArrays
    values: CellArrays
    timestamps: Longs
    headers: _HeaderColumns


@inlined_without_refcounts
def _point_to(argument: int, cells: CellArrays, row: int) -> None:
    """Write address and length of a cell into an argument of the kind `mem`."""
    words = longs_at(argument)
    length = cells.lengths[row]
    words[1] = integer_of(pointer_to(cells.buffer)) + cells.starts[row] if length >= 0 else 0
    words[2] = max(length, 0)


@inlined_without_refcounts
def _add_headers(arguments: int, used: int, headers: _HeaderColumns, row: int) -> int:
    """Write the headers of a row as arguments; return the number of arguments in use."""
    names, values = headers.names, headers.values
    for number in range(headers.starts[row], headers.starts[row + 1]):
        argument = arguments + used * _ARGUMENT_BYTES
        words = longs_at(argument)
        integers_at(argument)[0] = HEADER
        words[1] = integer_of(pointer_to(names.buffer)) + names.starts[number]
        words[2] = integer_of(pointer_to(values.buffer)) + values.starts[number] if values.lengths[number] >= 0 else 0
        words[3] = max(values.lengths[number], 0)
        used += 1
    return used


@compiled_without_refcounts
def _send_rows(target: Target, arguments: Longs, rows: _Rows, first: int) -> tuple[int, int]:
    """Produce the rows from `first` on; stop at an error, and return its row and its address.

    The first arguments say where a row goes and stay as they are; the last three are key, value and timestamp.
    """
    base = integer_of(pointer_to(arguments))
    key, value, timestamp = base + 4 * _ARGUMENT_BYTES, base + 5 * _ARGUMENT_BYTES, base + 6 * _ARGUMENT_BYTES
    for row in range(first, len(rows.timestamps)):
        _point_to(key, rows.keys, row)
        _point_to(value, rows.values, row)
        longs_at(timestamp)[1] = rows.timestamps[row]
        used = _add_headers(base, _FIXED_ARGUMENTS, rows.headers, row)
        problem = call_with_three(target.produce, target.client, base, used)
        if problem != 0:
            return row, problem
    return len(rows.timestamps), 0


def send_rows(target: Target, records: OutputRecords, first: int) -> tuple[int, int]:
    """Hand rows to the client until it refuses a row.

    Args:
        target: Where the rows go.
        records: n rows.
        first: The first row.

    Returns:
        The first row that was not taken (n: all were taken), and the error object or 0.
    """
    headers = _header_columns(records.headers, len(records))
    arguments = np.zeros((_FIXED_ARGUMENTS + headers.most, _ARGUMENT_BYTES // 8), np.int64)
    arguments[:_FIXED_ARGUMENTS, 0] = RKT, PARTITION, MESSAGE_FLAGS, OPAQUE, KEY, VALUE, TIMESTAMP
    arguments[:4, 1] = target.topic, target.partition, COPY, target.written
    times = np.ascontiguousarray(records.timestamps)
    rows = _Rows(records.keys.arrays, records.values.arrays, times, headers)
    row, error = _send_rows(target, arguments.reshape(-1), rows, first)
    return int(row), int(error)


def _collect_offset(_client: int, message: int, _opaque: int) -> None:
    """Append the offset of a delivered record to the array that its opaque names; called by librdkafka."""
    written = longs_at(message)[PRIVATE]
    if written != 0 and integers_at(message)[CODE] == 0:
        offsets = longs_at(written)
        offsets[0] += 1
        offsets[offsets[0]] = longs_at(message)[OFFSET]


@cache
def collect_offset() -> Any:  # noqa: ANN401  (a function of Numba)
    """Return the compiled callback for delivery reports (`rd_kafka_conf_set_dr_msg_cb`)."""
    signature = types.void(types.int64, types.int64, types.int64)
    return numba.cfunc(signature, cache=True)(_collect_offset)
