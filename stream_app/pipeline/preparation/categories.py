"""The frequent categories of a column, counted in bounded memory as they come.

A column with `most: k` has k places and counts 2k categories. The first k categories that come take the places. A new
category is counted if there is room, or instead of the least frequent one without a place (the first row of several),
whose count it continues: the Space-Saving algorithm of Metwally, Agrawal and El Abbadi (2005). So a count may be too
large, by at most the count that was continued. A category takes the place of the least frequent one (of several, the
last place) as soon as it has certainly come more often than that one's count says: a stream of categories that come
once each moves no place. After `HALVED_AFTER` values, all counts are halved, so that the categories of today count
more.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Pointer
from stream_app.pipeline.preparation.tables import CANDIDATES, MAX_CATEGORY_BYTES, ColumnTable, Learned
from stream_app.serialization.names import same_bytes

HALVED_AFTER = 100_000
"""Values of a column after which its counts are halved."""

_NOWHERE = -1


@inlined_without_refcounts
def place_of(
    columns: ColumnTable, learned: Learned, column: int, text: Pointer, start: int, end: int, found: np.uint64
) -> int:
    """Count a category and return its place; -1: it belongs to the others.

    Args:
        columns: The columns.
        learned: What was learned of them; it changes.
        column: The number of the column.
        text: The bytes that have the category.
        start: Where it begins there.
        end: Where it ends.
        found: Its hash.
    """
    if end - start > MAX_CATEGORY_BYTES:
        return _NOWHERE
    first = columns.rows[column]
    row = _row_of(learned, first, first + learned.used[column], text, start, end, found)
    if row == _NOWHERE:
        row = _new_row(columns, learned, column)
        _write(learned, row, text, start, end, found)
    learned.counts[row] += 1
    if learned.taken[row] == _NOWHERE:
        _take_place(columns, learned, column, row)
    place = int(learned.taken[row])
    learned.seen[column] += 1
    if learned.seen[column] == HALVED_AFTER:
        learned.seen[column] = 0
        for each in range(first, first + learned.used[column]):
            learned.counts[each] >>= 1
            learned.excess[each] >>= 1
    return place


@inlined_without_refcounts
def _row_of(learned: Learned, first: int, last: int, text: Pointer, start: int, end: int, found: np.uint64) -> int:
    """Return the row of a category; -1: it is not counted."""
    length = end - start
    for row in range(first, last):
        if (
            learned.hashes[row] == found
            and learned.lengths[row] == length
            and same_bytes(learned.texts, row * MAX_CATEGORY_BYTES, text, start, length)
        ):
            return int(row)
    return _NOWHERE


@inlined_without_refcounts
def _new_row(columns: ColumnTable, learned: Learned, column: int) -> int:
    """Return the row of a category that is new: a free row, or the least frequent one without a place."""
    first, used = columns.rows[column], learned.used[column]
    if used < CANDIDATES * columns.places[column]:
        learned.used[column] = used + 1
        return int(first + used)
    least = _NOWHERE
    for row in range(first, first + used):
        if learned.taken[row] == _NOWHERE and (least == _NOWHERE or learned.counts[row] < learned.counts[least]):
            least = row
    learned.excess[least] = learned.counts[least]
    return int(least)


@inlined_without_refcounts
def _write(learned: Learned, row: int, text: Pointer, start: int, end: int, found: np.uint64) -> None:
    """Write the name of a category into its row."""
    for i in range(MAX_CATEGORY_BYTES):
        learned.texts[row * MAX_CATEGORY_BYTES + i] = text[start + i] if i < end - start else np.uint8(0)
    learned.lengths[row] = end - start
    learned.hashes[row] = found


@inlined_without_refcounts
def _take_place(columns: ColumnTable, learned: Learned, column: int, row: int) -> None:
    """Give a category a place that is free, or that of the least frequent category if it has come more often."""
    if learned.placed[column] < columns.places[column]:
        learned.taken[row] = learned.placed[column]
        learned.placed[column] += 1
        return
    first, least = columns.rows[column], _NOWHERE
    for each in range(first, first + learned.used[column]):
        if learned.taken[each] != _NOWHERE and (
            least == _NOWHERE
            or learned.counts[each] < learned.counts[least]
            or (learned.counts[each] == learned.counts[least] and learned.taken[each] > learned.taken[least])
        ):
            least = each
    if learned.counts[row] - learned.excess[row] > learned.counts[least]:
        learned.taken[row] = learned.taken[least]
        learned.taken[least] = _NOWHERE
