"""Tables: named tuples of arrays and numbers that Python and compiled code share, each field described once.

The annotation of a field says what it is: an array of one dtype, an `int`, a `float`, a `bool`, or another table, whose
fields take its place. Python makes a table with `new_table` and lists its addresses and numbers, in the order of the
fields, in a descriptor (`descriptor_of`). Compiled code gets the same named tuple from a descriptor with the intrinsic
that `view_of` makes; there, each array is a pointer to its first element.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Longs
from stream_app.jit.memory import (
    CACHE_LINE_BYTES,
    Generator,
    Typing,
    address_of,
    aligned_block,
    intrinsic,
    pointer_type,
    tuple_type,
)

# isort: split
from llvmlite import ir
from numba.core import types

Table = TypeVar("Table", bound=tuple[Any, ...])
"""A named tuple of arrays, numbers and tables."""


class ArrayMark(Enum):
    """What is special about an array of a table, as metadata of its annotation."""

    SHARED = "carries nothing from one operation to the next, so that all owners share it"
    SELDOM = "is seldom read, so that it comes after all others in a block"


class _Entry(NamedTuple):
    """What the annotation of a field says: `int`, `float`, `bool`, a table, or the dtype of an array; and its mark."""

    kind: Any
    mark: ArrayMark | None

    @property
    def is_table(self) -> bool:
        return hasattr(self.kind, "_fields")


@cache
def _entries(table: Any) -> Mapping[str, _Entry]:  # noqa: ANN401  (a class of tables)
    """Return the entries of a table by the names of its fields, in order."""
    return {name: _entry(kind) for name, kind in get_type_hints(table, include_extras=True).items()}


def _entry(annotation: Any) -> _Entry:  # noqa: ANN401  (an annotation)
    if get_origin(annotation) is Annotated:
        array, mark = get_args(annotation)
        return _Entry(_entry(array).kind, mark)
    if get_origin(annotation) is np.ndarray:
        return _Entry(np.dtype(get_args(get_args(annotation)[1])[0]), None)
    return _Entry(annotation, None)


def new_table(table: type[Table], /, **given: Any) -> Table:  # noqa: ANN401  (a value for each field)
    """Make a table.

    Args:
        table: Its class.
        given: Each field: a number, a table, an array, or the shape of an array of zeros.
    """
    fields = {}
    for name, entry in _entries(table).items():
        value = given.pop(name)
        if not isinstance(entry.kind, np.dtype):
            fields[name] = value if entry.is_table else entry.kind(value)
        elif isinstance(value, np.ndarray):
            fields[name] = value.astype(entry.kind, copy=False)
        else:
            fields[name] = np.zeros(value, entry.kind)
    return table(**fields, **given)


# Compiled code --------------------------------------------------------------------------------------------------------


def field_count(table: Any) -> int:  # noqa: ANN401  (a class of tables)
    """Return how many fields of a descriptor a table has."""
    counts = [field_count(entry.kind) if entry.is_table else 1 for entry in _entries(table).values()]
    return sum(counts)


def _numba_type(kind: Any) -> Typing:  # noqa: ANN401  (a type or dtype)
    if isinstance(kind, np.dtype):
        return pointer_type(kind)
    numbers = {int: types.int64, float: types.float64, bool: types.boolean}
    return numbers.get(kind) or tuple_type(kind, [_numba_type(entry.kind) for entry in _entries(kind).values()])


def view_of(table: type[Any]) -> Any:  # noqa: ANN401  (its arguments are types, not values)
    """Make an intrinsic that turns a pointer to the fields of a table, in a descriptor, into the table.

    The owner of the arrays must hold them while the table is in use.
    """

    def intrinsic_view(_typing: Typing, _descriptor: Typing) -> tuple[Typing, Generator]:
        def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
            numbers = iter(range(field_count(table)))

            def load() -> Typing:
                return builder.load(builder.gep(arguments[0], [ir.Constant(ir.IntType(64), next(numbers))]))

            return _value(context, builder, table, load)

        return _numba_type(table)(pointer_type(np.dtype(np.int64))), generate

    return intrinsic(intrinsic_view)


def _value(context: Typing, builder: Typing, kind: Any, load: Callable[[], Typing]) -> Typing:  # noqa: ANN401
    """Write the instructions that make a field of this kind from the next fields of a descriptor."""
    numba_type = _numba_type(kind)
    if isinstance(kind, np.dtype):
        return builder.inttoptr(load(), context.get_value_type(numba_type))
    if kind is int:
        return load()
    if kind is float:
        return builder.bitcast(load(), ir.DoubleType())
    if kind is bool:
        return builder.icmp_unsigned("!=", load(), ir.Constant(ir.IntType(64), 0))
    values = [_value(context, builder, entry.kind, load) for entry in _entries(kind).values()]
    return context.make_tuple(builder, numba_type, values)


# Descriptors, shared buffers and blocks -------------------------------------------------------------------------------


def descriptor_of(fields: Sequence[Any]) -> Longs:
    """Return int64 `[fields]`: addresses of arrays, integers, floats as their bits, and the fields of tables."""
    return np.array(list(_integers(fields)), np.int64)


def _integers(fields: Sequence[Any]) -> Iterator[int]:
    for field in fields:
        if isinstance(field, tuple):
            yield from _integers(field)
        elif isinstance(field, np.ndarray):
            yield address_of(field)
        elif isinstance(field, float):
            yield int(struct.unpack("<q", struct.pack("<d", field))[0])
        else:
            yield int(field)


SharedBuffers: TypeAlias = dict[tuple[str, tuple[int, ...], str], NDArray[Any]]
"""Arrays that are marked as shared, by path, shape and dtype, for all owners."""


def with_shared_buffers(table: Table, buffers: SharedBuffers) -> Table:
    """Return a table whose shared arrays are those of `buffers`; add those that are missing there."""
    shared = {path: array for path, array, mark in _arrays(table) if mark is ArrayMark.SHARED}
    common = {path: buffers.setdefault((path, array.shape, array.dtype.str), array) for path, array in shared.items()}
    rebuilt: Table = _rebuilt(table, common)
    return rebuilt


def _arrays(table: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any], ArrayMark | None]]:  # noqa: ANN401  (any table)
    """Yield the path of each array of a table, such as `queues.ids`, the array and its mark."""
    kind: Any = type(table)
    entries = _entries(kind)
    for name, field in table._asdict().items():
        if isinstance(field, tuple):
            yield from _arrays(field, f"{prefix}{name}.")
        elif isinstance(field, np.ndarray):
            yield f"{prefix}{name}", field, entries[name].mark


def _rebuilt(table: Any, new: Mapping[str, Any], prefix: str = "") -> Any:  # noqa: ANN401  (any table)
    """Return a table with the arrays of these paths replaced."""
    return table._replace(
        **{
            name: _rebuilt(field, new, f"{prefix}{name}.")
            if isinstance(field, tuple)
            else new.get(f"{prefix}{name}", field)
            for name, field in table._asdict().items()
        }
    )


def _with_views(template: Any, block: Bytes) -> Any:  # noqa: ANN401  (any table)
    """Return a table with the arrays of a block in the place of their spans."""
    if isinstance(template, Span):
        return template.view(block)
    if not isinstance(template, tuple):
        return template
    return template._make([_with_views(field, block) for field in template])  # type: ignore[attr-defined]


class Span(NamedTuple):
    """The place of an array in a block: its first byte, the byte after its last, dtype and shape."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def view(self, block: Bytes) -> NDArray[Any]:
        """Return the array in a block of this layout."""
        return np.ndarray(self.shape, self.dtype, block, self.start)


class _PackedBlock(NamedTuple):
    """The arrays of a table, but the shared ones, in one block of memory.

    Attributes:
        table: The table, with views of the block.
        block: The memory.
        address: The address of the block.
        frequent_bytes: Bytes from its beginning to the arrays that are seldom read.
        spans: The place of each array by its path in the table, such as `queues.ids`.
        template: The table, with spans in the place of these arrays.
    """

    table: Any
    block: Bytes
    address: int
    frequent_bytes: int
    spans: Mapping[str, Span]
    template: Any

    def table_in(self, block: Bytes) -> Any:  # noqa: ANN401  (any table)
        """Return the table with views of another block of the same layout."""
        return _with_views(self.template, block)


def pack(table: Any) -> _PackedBlock:  # noqa: ANN401  (any table)
    """Copy the arrays of a table, but the shared ones, into one block, to copy and prefetch it as a whole."""
    arrays = {
        path: (array, mark is ArrayMark.SELDOM) for path, array, mark in _arrays(table) if mark is not ArrayMark.SHARED
    }
    spans: dict[str, Span] = {}
    size, frequent_bytes = 0, 0
    for path, (array, is_seldom) in sorted(arrays.items(), key=lambda item: (item[1][1], item[1][0].nbytes)):
        start = -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        size = start + array.nbytes
        spans[path] = Span(start, size, array.dtype, array.shape)
        frequent_bytes = frequent_bytes if is_seldom else size
    block, begin = aligned_block(size)
    for path, span in spans.items():
        span.view(block)[...] = arrays[path][0]
    template = _rebuilt(table, spans)
    return _PackedBlock(_with_views(template, block), block, begin, frequent_bytes, spans, template)
