"""What was learned of the columns of a stream, as the state of these columns and more."""

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from stream_app.arrays import Longs
from stream_app.config import ColumnSettings
from stream_app.pipeline.preparation.preparation import Preparation
from stream_app.pipeline.preparation.tables import MAX_CATEGORY_BYTES, counted_categories
from stream_app.snapshot.format import Arrays, Columns

_PER_CATEGORY = {"lengths": 1, "hashes": 1, "counts": 1, "excess": 1, "taken": 1, "texts": MAX_CATEGORY_BYTES}
"""The arrays with items of each counted category, and the number of these items."""


def grown(learned: Arrays, before: Mapping[str, ColumnSettings], new: Preparation, places: Longs) -> Columns:
    """Return what was learned of fewer columns, or of columns with fewer places for categories, as state of the new.

    Args:
        learned: The former state.
        before: The former columns, all of which are among the new columns.
        new: The new columns, of which nothing was learned.
        places: int64 `[d]`, the number of each former feature among the new features.
    """
    found: Columns = {name: array.copy() for name, array in new.arrays().items()}
    found["means"][places] = learned["means"]
    order, rows = list(new.columns), _first_rows(new.columns)
    for number, (name, first) in enumerate(_first_rows(before).items()):
        own, row, count = order.index(name), rows[name], counted_categories(before[name])
        for each in ("seen", "used", "placed"):
            found[each][own] = learned[each][number]
        found["moments"][4 * own : 4 * own + 4] = learned["moments"][4 * number : 4 * number + 4]
        for each, size in _PER_CATEGORY.items():
            found[each][row * size : (row + count) * size] = learned[each][first * size : (first + count) * size]
        _fill_places(found, own, row, new.columns[name])
    return found


def _first_rows(columns: Mapping[str, ColumnSettings]) -> dict[str, int]:
    """Return where the categories of each column begin."""
    return dict(zip(columns, accumulate(map(counted_categories, columns.values()), initial=0), strict=False))


def _fill_places(found: Columns, number: int, row: int, column: ColumnSettings) -> None:
    """Give the most frequent categories of a column the places that are free."""
    most = 0 if column.category is None else column.category.most or 0
    own = slice(row, row + int(found["used"][number]))
    taken, counts = found["taken"][own], found["counts"][own]
    placed = int(found["placed"][number])
    by_count = np.argsort(-counts, kind="stable")
    free = by_count[taken[by_count] < 0][: most - placed]
    taken[free] = np.arange(placed, placed + len(free))
    found["placed"][number] = placed + len(free)
