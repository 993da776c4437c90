"""Turn the values of examples into features, one example after the other, in the order of the partition.

An example is first read and checked as a whole. A fault makes it a dead letter, and changes nothing that is learned of
the columns. Then the features of its columns follow:

    number    the value
    cyclic    sine and cosine of value / period turns
    most      1 for the place of the category (`categories`), or 1 for the others; the other features are 0
    hashed    1 for the place that a hash chooses: 64-bit FNV-1a of the UTF-8 bytes, its halves folded by exclusive or,
              modulo the number of places; the other features are 0
    missing   the running means, and 1 for "is missing"; they take in the values that are not missing

A whole number is a category by its decimal digits, a boolean counts as 0 or 1. A mean is over all values at first, and
fades with a memory of `_MEMORY` values later; that of a number has a bounded influence of each value, as in
`learners.moments`.

Sine and cosine are series, since those of libraries differ in their last bits.
"""

from typing import NamedTuple

import numpy as np

from stream_app.arrays import Bytes, Floats, Integers, Longs, Words
from stream_app.jit.compiler import compiled, inlined, inlined_without_refcounts
from stream_app.jit.memory import longs_at, offset_pointer, pointer_to
from stream_app.learners.moments import take_into_moments
from stream_app.pipeline.preparation.categories import place_of
from stream_app.pipeline.preparation.tables import (
    CYCLIC,
    HASHED,
    NUMBER,
    ColumnTable,
    OneExample,
    Tables,
    tables_of,
)
from stream_app.serialization.avro import (
    BOOLEAN_VALUE,
    DOUBLE_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    TEXT_VALUE,
    read_items,
    read_long,
    read_span,
    read_value_span,
    read_word,
)
from stream_app.serialization.names import NameTable, hash_of, number_in, same_bytes

NO_FAULT, UNKNOWN_COLUMN, MISSING, TEXT, TOO_LARGE, FRACTION = range(6)
"""What is wrong with the values of an example."""

_MEMORY = 1000.0
"""The values that a mean remembers: as many as a scaler."""

LARGEST_NUMBER = 3.4028234663852886e38
"""The largest float32."""

_LARGEST_LONG = 9.223372036854775e18
"""The largest float64 that fits 64 bits."""

_FOLD = np.uint64(0xFFFFFFFF)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_TURN = 6.283185307179586
_MOST_TURNS = 4503599627370496.0
"""2**52: larger numbers of turns are whole."""

_SINE = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800)
_COSINE = (-1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200)


class Given(NamedTuple):
    """The values of k examples.

    Attributes:
        buffer: The bytes of the batch.
        starts: int64 `[k]`, where the map of each begins in the buffer.
        ends: int64 `[k]`, where each value ends.
        owners: int64 `[k]`, the address of the descriptor of the columns of its stream.
    """

    buffer: Bytes
    starts: Longs
    ends: Longs
    owners: Longs


class Prepared(NamedTuple):
    """What they become.

    Attributes:
        features: float32, the features of all examples, one example after the other.
        starts: int64 `[k]`, where the features of each begin.
        costs: float32 `[k, 2]`, of a false positive and of a false negative; as given where the cost is no column.
        fingerprints: uint64 `[k]`, not 0: a hash of the values as they came, to tell a repetition from a conflict.
        faults: uint8 `[k]`, what is wrong with each, see `UNKNOWN_COLUMN`; 0: nothing.
        columns: int32 `[k]`, the number of the column that is wrong; -1 if it is not a column of the stream.
        names: int64 `[k, 2]`, where the name of an unknown column begins in the buffer, and where it ends.
    """

    features: Floats
    starts: Longs
    costs: Floats
    fingerprints: Words
    faults: Bytes
    columns: Integers
    names: Longs


@inlined_without_refcounts
def _column_of(columns: ColumnTable, buffer: Bytes, start: int, end: int) -> int:
    """Return the number of the column of a name; -1: there is no such column."""
    table = NameTable(columns.names, columns.name_ends, columns.name_hashes, columns.name_slots)
    return number_in(buffer, start, end, hash_of(buffer, start, end), table, np.uint64(columns.name_mask))


@inlined_without_refcounts
def _keep_value(one: OneExample, column: int, buffer: Bytes, kind: int, start: int, end: int) -> None:
    """Keep the value of a column; NaN is a missing value."""
    one.kinds[column] = kind
    if kind == TEXT_VALUE:
        one.starts[column], one.ends[column] = start, end
    elif kind == BOOLEAN_VALUE:
        one.longs[column] = buffer[start]
        one.numbers[column] = float(buffer[start])
    elif kind == LONG_VALUE:
        value, _ = read_long(buffer, start, end)
        one.longs[column] = value
        one.numbers[column] = float(value)
    elif kind == DOUBLE_VALUE:
        number = np.uint64(read_word(buffer, start)).view(np.float64) + 0.0  # -0.0 becomes 0.0
        one.numbers[column] = number
        if np.isnan(number):
            one.kinds[column] = NULL_VALUE


@inlined_without_refcounts
def _read_example(columns: ColumnTable, one: OneExample, buffer: Bytes, start: int, end: int) -> tuple[int, int, int]:
    """Read the map of an example, whose bytes were checked; of a column that comes twice, the last value counts.

    Returns:
        A fault, and the place of the name of the column that the stream does not have.
    """
    for column in range(columns.size):
        one.kinds[column] = NULL_VALUE
    position = start
    while True:
        items, _, position = read_items(buffer, position, end)
        if items <= 0:
            return NO_FAULT, 0, 0
        for _ in range(items):
            name_start, name_end = read_span(buffer, position, end)
            column = _column_of(columns, buffer, name_start, name_end)
            if column < 0:
                return UNKNOWN_COLUMN, name_start, name_end
            kind, value_start, position = read_value_span(buffer, name_end, end)
            _keep_value(one, column, buffer, kind, value_start, position)


@inlined_without_refcounts
def _fingerprint(columns: ColumnTable, one: OneExample, buffer: Bytes) -> np.uint64:
    """Return a hash of the names and values as they came; it is not 0.

    A missing value does not count, nor the order: so columns that the stream gets later do not make a repetition of an
    older example a conflict.
    """
    value = _PRIME
    for column in range(columns.size):
        kind = one.kinds[column]
        if kind == NULL_VALUE:
            continue
        if kind == TEXT_VALUE:
            word = hash_of(buffer, one.starts[column], one.ends[column])
        else:
            word = np.float64(one.numbers[column]).view(np.uint64) ^ _PRIME
        word = (word ^ columns.name_hashes[column]) * _PRIME
        word ^= word >> _HALF
        value += word * _PRIME
    return max(value, np.uint64(1))


@inlined_without_refcounts
def _is_marked(columns: ColumnTable, one: OneExample, column: int, buffer: Bytes) -> bool:
    """Say whether a value is one of the marks for a missing value."""
    is_marked = False
    if one.kinds[column] != TEXT_VALUE:
        for mark in range(columns.number_marks):
            is_marked |= columns.mark_numbers[mark] == one.numbers[column]
        return is_marked
    start, length = one.starts[column], one.ends[column] - one.starts[column]
    for mark in range(columns.text_marks):
        first = columns.mark_ends[mark]
        if columns.mark_ends[mark + 1] - first == length:
            is_marked |= same_bytes(columns.mark_texts, first, buffer, start, length)
    return is_marked


@inlined_without_refcounts
def _check_example(columns: ColumnTable, one: OneExample, buffer: Bytes) -> tuple[int, int]:
    """Return the first fault of an example and its column; marks become missing values, categories whole numbers."""
    for column in range(columns.size):
        if one.kinds[column] != NULL_VALUE and _is_marked(columns, one, column, buffer):
            one.kinds[column] = NULL_VALUE
        kind, number = one.kinds[column], one.numbers[column]
        if kind == NULL_VALUE:
            if columns.is_optional[column] == 0:
                return MISSING, column
        elif columns.kinds[column] == NUMBER or columns.kinds[column] == CYCLIC:
            if kind == TEXT_VALUE:
                return TEXT, column
            if abs(number) > LARGEST_NUMBER:
                return TOO_LARGE, column
        elif kind == DOUBLE_VALUE:
            if abs(number) > _LARGEST_LONG or np.floor(number) != number:
                return FRACTION, column
            one.longs[column] = int(number)
    return NO_FAULT, -1


@inlined_without_refcounts
def _write_digits(one: OneExample, value: int) -> tuple[int, int]:
    """Write the decimal digits of a whole number; return where they begin and end in `digits`."""
    rest = np.uint64(value)
    if value < 0:
        rest = ~rest + np.uint64(1)
    at = 32
    while True:
        at -= 1
        one.digits[at] = np.uint8(48) + np.uint8(rest % np.uint64(10))
        rest //= np.uint64(10)
        if rest == np.uint64(0):
            break
    if value < 0:
        at -= 1
        one.digits[at] = np.uint8(45)
    return at, 32


@inlined_without_refcounts
def circle_at(turns: float) -> tuple[float, float]:
    """Return sine and cosine of an angle in turns, within 1e-14."""
    if abs(turns) >= _MOST_TURNS:
        return 0.0, 1.0
    rest = turns - np.floor(turns)
    quarter = np.floor(4.0 * rest + 0.5)
    angle = (rest - quarter / 4.0) * _TURN
    square = angle * angle
    sine = 1.0 + square * (
        _SINE[0]
        + square * (_SINE[1] + square * (_SINE[2] + square * (_SINE[3] + square * (_SINE[4] + square * _SINE[5]))))
    )
    sine *= angle
    cosine = 1.0 + square * (
        _COSINE[0]
        + square
        * (
            _COSINE[1]
            + square
            * (_COSINE[2] + square * (_COSINE[3] + square * (_COSINE[4] + square * (_COSINE[5] + square * _COSINE[6]))))
        )
    )
    if quarter == 1.0:
        return cosine, -sine
    if quarter == 2.0:
        return -sine, -cosine
    if quarter == 3.0:
        return -cosine, sine
    return sine, cosine


@inlined_without_refcounts
def _write_category(tables: Tables, column: int, buffer: Bytes, out: Floats, at: int) -> None:
    """Write the features of a category, of which `out` has zeros."""
    columns, learned, one = tables
    bytes_, start, end = pointer_to(buffer), one.starts[column], one.ends[column]
    if one.kinds[column] != TEXT_VALUE:
        bytes_ = one.digits
        start, end = _write_digits(one, one.longs[column])
    found = hash_of(bytes_, start, end)
    places = columns.places[column]
    if columns.kinds[column] == HASHED:
        out[at + np.int64((found & _FOLD) % np.uint64(places))] = np.float32(1.0)
        return
    place = place_of(columns, learned, column, bytes_, start, end, found)
    out[at + (places if place < 0 else place)] = np.float32(1.0)


@inlined
def _write_column(tables: Tables, column: int, buffer: Bytes, out: Floats, at: int) -> None:
    """Write the features of a value that is not missing, and take them into the means if its column has any."""
    columns, learned, one = tables
    kind, number = columns.kinds[column], one.numbers[column]
    if kind == NUMBER:
        out[at] = np.float32(number)
        if columns.is_optional[column] != 0:
            take_into_moments(offset_pointer(learned.moments, 4 * column), 1, pointer_to(out), at)
        return
    if kind == CYCLIC:
        sine, cosine = circle_at(number / columns.periods[column])
        out[at], out[at + 1] = np.float32(sine), np.float32(cosine)
    else:
        _write_category(tables, column, buffer, out, at)
    if columns.is_optional[column] != 0:
        learned.moments[4 * column] = min(learned.moments[4 * column] + 1.0, _MEMORY)
        share, first = 1.0 / learned.moments[4 * column], columns.starts[column]
        for i in range(columns.widths[column]):
            learned.means[first + i] += share * (np.float64(out[at + i]) - learned.means[first + i])


@inlined_without_refcounts
def _write_mean(tables: Tables, column: int, out: Floats, at: int) -> None:
    """Write the features of a missing value."""
    columns, learned, _ = tables
    width = columns.widths[column]
    if columns.kinds[column] == NUMBER:
        out[at] = np.float32(learned.moments[4 * column + 1])
    else:
        for i in range(width):
            out[at + i] = np.float32(learned.means[columns.starts[column] + i])
    out[at + width] = np.float32(1.0)


@compiled
def prepare_examples(given: Given, prepared: Prepared) -> None:
    """Prepare k examples one after the other; `prepared.features` begins with zeros."""
    buffer, out = given.buffer, prepared.features
    for k in range(len(given.starts)):
        tables = tables_of(longs_at(given.owners[k]))
        columns, one = tables.columns, tables.one
        fault, start, end = _read_example(columns, one, buffer, given.starts[k], given.ends[k])
        column = -1
        if fault == NO_FAULT:
            prepared.fingerprints[k] = _fingerprint(columns, one, buffer)
            fault, column = _check_example(columns, one, buffer)
        prepared.faults[k], prepared.columns[k] = fault, column
        prepared.names[k, 0], prepared.names[k, 1] = start, end
        if fault != NO_FAULT:
            continue
        for which in range(2):
            column = columns.cost_columns[which]
            if column >= 0:  # a missing value costs nothing
                is_given = one.kinds[column] != NULL_VALUE and one.numbers[column] > 0.0
                prepared.costs[k, which] = np.float32(one.numbers[column]) if is_given else np.float32(0.0)
        for column in range(columns.size):
            at = prepared.starts[k] + columns.starts[column]
            if one.kinds[column] == NULL_VALUE:
                _write_mean(tables, column, out, at)
            else:
                _write_column(tables, column, buffer, out, at)
