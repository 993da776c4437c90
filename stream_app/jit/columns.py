"""Blocks of columns, each described once: Python gets NumPy views of a block, compiled code a named tuple of arrays.

A block has one column after the other. A column has a fixed number of elements for each row of its block, so column c
begins at `rows * (bytes of one row in the columns before c)`. Columns of wide elements must come first: then each
column begins at a multiple of its element's size.

The number of rows, and of elements that depend on an owner, are fields of the owner's descriptor (see `memory`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.memory import Generator, Typing, array_type, bytes_at, intrinsic, make_array
from stream_app.jit.tables import Span

# isort: split
from llvmlite import ir
from numba.core import types
from numba.np import numpy_support


class BlockColumn(NamedTuple):
    """A column of a block.

    Attributes:
        name: The field of the view that it becomes.
        dtype: Of its elements.
        elements: Elements in a row; the column has two dimensions if there are more than one.
        elements_field: The field of the descriptor that has the number of elements instead.
        transposed: Whether its shape is `[elements, rows]` instead of `[rows, elements]`.
    """

    name: str
    dtype: type[np.generic]
    elements: int = 1
    elements_field: int | None = None
    transposed: bool = False


class Block(NamedTuple):
    """A block of an owner's memory.

    Attributes:
        address_field: The field of the descriptor that has its address.
        rows_field: The field that has its number of rows; None: one row, whose columns have one dimension.
        columns: In the order of the memory.
    """

    address_field: int
    rows_field: int | None
    columns: tuple[BlockColumn, ...]

    def rows(self, descriptor: Sequence[int]) -> int:
        """Return the number of rows."""
        return 1 if self.rows_field is None else descriptor[self.rows_field]

    def copied_bytes(self, descriptor: Sequence[int]) -> Longs:
        """Return int64: the bytes of a row in each column, a transposed column as several; see `copy_rows`."""
        sizes: list[int] = []
        for column in self.columns:
            elements, size = _elements(column, descriptor), np.dtype(column.dtype).itemsize
            sizes += [size] * elements if column.transposed else [size * elements]
        return np.array(sizes, np.int64)

    def spans(self, descriptor: Sequence[int]) -> Iterator[tuple[str, Span]]:
        """Yield the place of each column in the block by its name."""
        start, rows = 0, self.rows(descriptor)
        for column in self.columns:
            elements, dtype = _elements(column, descriptor), np.dtype(column.dtype)
            shape: tuple[int, ...] = (rows * elements,)
            if self._dimensions(column) == 2:
                shape = (elements, rows) if column.transposed else (rows, elements)
            end = start + rows * elements * dtype.itemsize
            yield column.name, Span(start, end, dtype, shape)
            start = end

    def _dimensions(self, column: BlockColumn) -> int:
        return 1 if self.rows_field is None or (column.elements == 1 and column.elements_field is None) else 2

    def instructions(
        self, context: Typing, builder: Typing, field: Callable[[int], Typing]
    ) -> Iterator[tuple[str, Typing]]:
        """Yield the instructions that make the array of each column, by its name; for `view_intrinsic`."""
        start = field(self.address_field)
        rows = _constant(1) if self.rows_field is None else field(self.rows_field)
        for column in self.columns:
            elements = _constant(column.elements) if column.elements_field is None else field(column.elements_field)
            element = numpy_support.from_dtype(np.dtype(column.dtype))
            dimensions = self._dimensions(column)
            count = builder.mul(rows, elements)
            shape = [count] if dimensions == 1 else [elements, rows] if column.transposed else [rows, elements]
            pointer = builder.inttoptr(start, context.get_value_type(types.CPointer(element)))
            yield column.name, make_array(context, builder, array_type(element, dimensions), pointer, shape)
            start = builder.add(start, builder.mul(count, _constant(np.dtype(column.dtype).itemsize)))

    def numba_types(self) -> Iterator[tuple[str, Typing]]:
        """Yield the Numba type of each column's array by its name."""
        for column in self.columns:
            yield column.name, array_type(numpy_support.from_dtype(np.dtype(column.dtype)), self._dimensions(column))


def _elements(column: BlockColumn, descriptor: Sequence[int]) -> int:
    return column.elements if column.elements_field is None else descriptor[column.elements_field]


def _constant(value: int) -> Typing:
    return ir.Constant(ir.IntType(64), value)


def view_intrinsic(view: type[tuple[Any, ...]], blocks: Sequence[Block]) -> Any:  # noqa: ANN401  (its arguments are types, not values)
    """Make an intrinsic that turns a pointer to a descriptor into a view.

    Args:
        view: A named tuple with a field for each column of the blocks, in any order.
        blocks: The blocks of an owner's memory.
    """
    fields: Sequence[str] = view._fields  # type: ignore[attr-defined]  # a named tuple's
    kinds = {name: kind for block in blocks for name, kind in block.numba_types()}
    returned = types.NamedTuple([kinds[name] for name in fields], view)

    def view_of(_typing: Typing, _descriptor: Typing) -> tuple[Typing, Generator]:
        def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
            def field(number: int) -> Typing:
                return builder.load(builder.gep(arguments[0], [_constant(number)]))

            arrays = dict(pair for block in blocks for pair in block.instructions(context, builder, field))
            return context.make_tuple(builder, returned, [arrays[name] for name in fields])

        return returned(types.CPointer(types.int64)), generate

    return intrinsic(view_of)


class Rows(NamedTuple):
    """The rows of a block as `copy_rows` sees them: a ring, in which row `number` is at `number % rows`.

    Attributes:
        address: The address of the block.
        rows: The number of rows.
        sizes: int64, the bytes of a row in each column, from `Block.copied_bytes`.
    """

    address: int
    rows: int
    sizes: Longs


@compiled_without_refcounts
def copy_rows(old: Rows, new: Rows, first: int, end: int) -> None:
    """Copy the rows from number `first` up to, and without, number `end` from one block to another.

    The blocks have the same columns, and the new one at least as many rows. A column whose rows have another size in
    the new block is left out: it held nothing before.
    """
    number = first
    while number < end:
        source, target = number % old.rows, number % new.rows
        count = min(end - number, old.rows - source, new.rows - target)
        old_column, new_column = old.address, new.address
        for column in range(len(old.sizes)):
            size = old.sizes[column]
            if size == new.sizes[column]:
                values, copies = bytes_at(old_column + source * size), bytes_at(new_column + target * size)
                for k in range(count * size):
                    copies[k] = values[k]
            old_column += old.rows * size
            new_column += new.rows * new.sizes[column]
        number += count


@compiled_without_refcounts
def copy_spans(sources: Longs, targets: Longs, sizes: Longs) -> None:
    """Copy so many bytes from each address to another; the owners of the memory must hold it until the end."""
    for span in range(len(sizes)):
        values, copies = bytes_at(sources[span]), bytes_at(targets[span])
        for k in range(sizes[span]):
            copies[k] = values[k]
