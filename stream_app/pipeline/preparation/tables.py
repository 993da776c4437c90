"""The columns of one stream for compiled code: what they are, what was learned of their values, and one example."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Integers, Longs, Words
from stream_app.config import ColumnSettings, StreamSettings
from stream_app.jit.tables import new_table, view_of
from stream_app.learners.moments import new_moments
from stream_app.serialization.names import NameList

NUMBER, CYCLIC, MOST, HASHED = 0, 1, 2, 3
"""The kinds of columns."""

CANDIDATES = 2
"""The categories that a column counts, for each of its places: those in the places, and as many that may come there."""

MAX_CATEGORY_BYTES = 64
"""Most bytes of a category that can have a place; a longer one always belongs to the others."""


class ColumnTable(NamedTuple):
    """The columns of a stream, c of them; their features lie one column after the other.

    Attributes:
        size: c.
        width: The number of features of all columns.
        kinds: uint8 `[c]`.
        periods: float64 `[c]`, of a cyclic column.
        places: int64 `[c]`, the features of a category.
        starts: int64 `[c]`, where the features of each column begin.
        widths: int64 `[c]`, the number of its features, without the one that says that the value was missing.
        is_optional: uint8 `[c]`, whether a missing value becomes the mean.
        rows: int64 `[c]`, where the categories of each column begin.
        names: uint8, the names of the columns, one after the other.
        name_ends: int64 `[c + 1]`, 0 and then the end of each name.
        name_hashes: uint64 `[c]`.
        name_slots: int32, a hash table of the names, see `serialization.names`.
        name_mask: The number of its slots, less one.
        cost_columns: int64 `[2]`, the columns whose values are the costs of a false positive and of a false negative;
            -1: the cost is no column.
        mark_numbers: float64, the numbers that stand for a missing value.
        number_marks: How many there are.
        mark_texts: uint8, the texts that stand for a missing value.
        mark_ends: int64, 0 and then the end of each.
        text_marks: How many there are.
    """

    size: int
    width: int
    kinds: Bytes
    periods: NDArray[np.float64]
    places: Longs
    starts: Longs
    widths: Longs
    is_optional: Bytes
    rows: Longs
    names: Bytes
    name_ends: Longs
    name_hashes: Words
    name_slots: Integers
    name_mask: int
    cost_columns: Longs
    mark_numbers: NDArray[np.float64]
    number_marks: int
    mark_texts: Bytes
    mark_ends: Longs
    text_marks: int


class Learned(NamedTuple):
    """What was learned of the values of c columns, with r categories that are counted: all of this is in a snapshot.

    Attributes:
        seen: int64 `[c]`, the values that were not missing; of categories with places, those since the counts were
            halved.
        used: int64 `[c]`, the categories of each column that are counted.
        placed: int64 `[c]`, the places of each column that are taken.
        texts: uint8 `[r * MAX_CATEGORY_BYTES]`, the counted categories.
        lengths: uint8 `[r]`, their bytes.
        hashes: uint64 `[r]`.
        counts: int64 `[r]`, how often each came, at most.
        excess: int64 `[r]`, by how much the count may be too large.
        taken: int32 `[r]`, the place of each; -1: none.
        moments: float64 `[4 * c]`, of each column with numbers the four of `learners.moments`.
        means: float64 `[d]`, of each feature of the other columns with `missing: mean` its mean.
    """

    seen: Longs
    used: Longs
    placed: Longs
    texts: Bytes
    lengths: Bytes
    hashes: Words
    counts: Longs
    excess: Longs
    taken: Integers
    moments: NDArray[np.float64]
    means: NDArray[np.float64]


class OneExample(NamedTuple):
    """The values of the example at hand; c of them.

    Attributes:
        kinds: uint8 `[c]`, the type of each value: a number of `serialization.avro`.
        numbers: float64 `[c]`.
        longs: int64 `[c]`, whole numbers without rounding.
        starts: int64 `[c]`, where a text begins in the buffer of the batch.
        ends: int64 `[c]`, where it ends.
        digits: uint8 `[32]`, a whole number as text.
    """

    kinds: Bytes
    numbers: NDArray[np.float64]
    longs: Longs
    starts: Longs
    ends: Longs
    digits: Bytes


class Tables(NamedTuple):
    """All of a stream's columns."""

    columns: ColumnTable
    learned: Learned
    one: OneExample


tables_of = view_of(Tables)
"""`tables_of(descriptor)`: the tables of a stream, for compiled code."""


def counted_categories(column: ColumnSettings) -> int:
    """Return how many categories of a column are counted."""
    most = None if column.category is None else column.category.most
    return CANDIDATES * (most or 0)


def new_tables(settings: StreamSettings) -> Tables:
    """Return the tables of a stream of which no example has come."""
    columns = list(settings.columns.values())
    count, width = len(columns), sum(column.width for column in columns)
    counted = list(map(counted_categories, columns))
    learned = new_table(
        Learned,
        seen=count,
        used=count,
        placed=count,
        texts=sum(counted) * MAX_CATEGORY_BYTES,
        lengths=sum(counted),
        hashes=sum(counted),
        counts=sum(counted),
        excess=sum(counted),
        taken=np.full(sum(counted), -1),
        moments=np.tile(new_moments(1), count),
        means=width,
    )
    one = new_table(OneExample, kinds=count, numbers=count, longs=count, starts=count, ends=count, digits=32)
    return Tables(_column_table(settings, counted, width), learned, one)


def _column_table(settings: StreamSettings, counted: Sequence[int], width: int) -> ColumnTable:
    columns, marks = settings.columns, settings.missing_values
    each, order = list(columns.values()), list(columns)
    costs = (0.0, 0.0) if settings.costs is None else settings.costs.both
    names = NameList(columns).table()
    texts = NameList([mark for mark in marks if isinstance(mark, str)]).table()
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    return new_table(
        ColumnTable,
        size=len(each),
        width=width,
        kinds=np.array([_kind(column) for column in each], np.uint8),
        periods=np.array([column.cyclic or 1.0 for column in each]),
        places=np.array([_places(column) for column in each], np.int64),
        starts=np.array([0, *accumulate(column.width for column in each)][:-1], np.int64),
        widths=np.array([column.value_width for column in each], np.int64),
        is_optional=np.array([column.missing is not None for column in each], np.uint8),
        rows=np.array([0, *accumulate(counted)][:-1], np.int64),
        names=names.bytes,
        name_ends=names.ends,
        name_hashes=names.hashes,
        name_slots=names.slots,
        name_mask=len(names.slots) - 1,
        cost_columns=np.array([order.index(cost) if isinstance(cost, str) else -1 for cost in costs], np.int64),
        mark_numbers=np.array(numbers, np.float64),
        number_marks=len(numbers),
        mark_texts=texts.bytes,
        mark_ends=texts.ends,
        text_marks=len(marks) - len(numbers),
    )


def _kind(column: ColumnSettings) -> int:
    if column.category is not None:
        return HASHED if column.category.most is None else MOST
    return NUMBER if column.cyclic is None else CYCLIC


def _places(column: ColumnSettings) -> int:
    if column.category is None:
        return 0
    return column.category.most or column.category.hashed or 0
