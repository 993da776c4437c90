"""The columns of one stream, and what was learned of them, for the task and for snapshots."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import ColumnSettings, StreamSettings
from stream_app.config.column_settings import columns_text
from stream_app.errors import StateError
from stream_app.jit.memory import address_of
from stream_app.jit.tables import descriptor_of
from stream_app.pipeline.preparation.tables import (
    MAX_CATEGORY_BYTES,
    counted_categories,
    new_tables,
)
from stream_app.snapshot.format import Arrays, Columns
from stream_app.snapshot.imported_state import SavedColumns


class Preparation:
    """How the values of a stream's examples become features.

    Args:
        settings: The columns, and the marks of missing values.

    Attributes:
        columns: The columns by name.
    """

    def __init__(self, settings: StreamSettings) -> None:
        self.columns: Mapping[str, ColumnSettings] = settings.columns
        self._tables = new_tables(settings)
        self._descriptor = descriptor_of(self._tables)

    @property
    def address(self) -> int:
        """The address of the descriptor, for `kernel`; valid as long as this object exists."""
        return address_of(self._descriptor)

    @property
    def width(self) -> int:
        """The number of features of an example."""
        return self._tables.columns.width

    @property
    def allocated_bytes(self) -> int:
        """The bytes of its arrays."""
        return sum(each.nbytes for table in self._tables for each in table if isinstance(each, np.ndarray))

    @property
    def is_new(self) -> bool:
        """Whether nothing was learned yet."""
        learned = self._tables.learned
        return not learned.used.any() and not learned.moments[::4].any()

    def feature_names(self) -> Sequence[str]:
        """Return the name of each feature: with its category, if the feature stands for one."""
        return tuple(chain.from_iterable(map(self._names_of, range(len(self.columns)), self.columns.items())))

    def _names_of(self, number: int, item: tuple[str, ColumnSettings]) -> Iterator[str]:
        name, column = item
        category = column.category
        if category is None:
            yield from (name,) if column.cyclic is None else (f"sin({name})", f"cos({name})")
        elif category.most is None:
            yield from (f"{name}#{place}" for place in range(category.hashed or 0))
        else:
            yield from self._categories(number, name, category.most)
        if column.missing is not None:
            yield f"{name} is missing"

    def _categories(self, number: int, name: str, places: int) -> Iterator[str]:
        """Yield the name of each place of a column: its category, or nothing if it is free."""
        learned = self._tables.learned
        first = int(self._tables.columns.rows[number])
        found = [""] * places
        for row in range(first, first + int(learned.used[number])):
            if learned.taken[row] >= 0:
                start = row * MAX_CATEGORY_BYTES
                text = learned.texts[start : start + int(learned.lengths[row])].tobytes()
                found[learned.taken[row]] = text.decode(errors="replace")
        yield from (f"{name}={category}" for category in found)
        yield f"{name}: others"

    def spans(self) -> Mapping[str, slice]:
        """Return where the features of each column are, by its name."""
        starts = self._tables.columns.starts.tolist()
        items = zip(starts, self.columns.items(), strict=True)
        return {name: slice(start, start + column.width) for start, (name, column) in items}

    def removed(self, features: Floats, name: str, mean: Floats) -> Floats:
        """Return the features of an example without the value of one column.

        Args:
            features: float32 `[d]`.
            name: The column. With `missing: mean`, the value is missing; else a number is its mean, and the others
                are 0.
            mean: float32 `[d]`, the mean of each feature.
        """
        changed, span, column = features.copy(), self.spans()[name], self.columns[name]
        is_number = column.category is None and column.cyclic is None
        changed[span] = mean[span] if is_number else 0.0
        if column.missing is not None:
            number, learned, end = list(self.columns).index(name), self._tables.learned, span.stop - 1
            changed[span.start : end] = learned.means[span.start : end]
            if is_number:
                changed[span.start] = learned.moments[4 * number + 1]
            changed[end] = 1.0
        return changed

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return what was learned, not copied."""
        return self._tables.learned._asdict()

    def saved(self) -> SavedColumns:
        """Return the columns with a copy of what was learned, for an exported model."""
        return SavedColumns(columns_text(self.columns), {name: array.copy() for name, array in self.arrays().items()})

    def take_over(self, saved: SavedColumns) -> None:
        """Continue with what another application has learned of the same columns.

        Raises:
            StateError: These columns have learned something else, or the state is damaged.
        """
        if self.is_new:
            self.load(saved.state)
        elif not same_arrays(self.arrays(), saved.state):
            raise StateError("the columns of the stream have other categories or means; import it into a new stream")

    def load(self, arrays: Arrays) -> None:
        """Take over what was learned.

        Raises:
            StateError: The arrays do not belong to such columns.
        """
        own = self.arrays()
        if {*arrays} != {*own}:
            raise StateError(f"the columns have {', '.join(arrays)}; they need {', '.join(own)}")
        for name, array in own.items():
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise StateError(f"columns.{name}: {arrays[name].dtype} {list(arrays[name].shape)} does not fit them")
        self._check(dict(arrays))
        for name, array in own.items():
            array[...] = arrays[name]

    def _check(self, arrays: Columns) -> None:
        """Check all numbers that compiled code takes as indices.

        Raises:
            StateError: A number cannot be right.
        """
        rows = self._tables.columns.rows
        if (arrays["lengths"] > MAX_CATEGORY_BYTES).any():
            raise StateError("columns.lengths: a category is too long")
        for number, column in enumerate(self.columns.values()):
            counted, used, placed = counted_categories(column), int(arrays["used"][number]), arrays["placed"][number]
            taken = arrays["taken"][rows[number] : rows[number] + counted]
            places = sorted(taken[taken >= 0].tolist())
            most = 0 if column.category is None else column.category.most or 0
            is_right = 0 <= used <= counted and min(used, most) == placed and (taken[used:] < 0).all()
            if not is_right or places != list(range(placed)):
                raise StateError(f"columns.taken: the places of column {number} cannot be {places}")


def same_arrays(one: Arrays, two: Arrays) -> bool:
    """Say whether two states are the same to the bit."""
    names = {*one, *two}
    return all(
        name in one and name in two and np.asarray(one[name]).tobytes() == np.asarray(two[name]).tobytes()
        for name in names
    )
