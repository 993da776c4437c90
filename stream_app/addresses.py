"""Memory by number: where arrays begin, in int64 rows that one compiled call can walk over for many owners.

A call from Python into compiled code costs as much as the work on ten records. So what has a state of its own (a
stream's join, a learner) describes it by a row of numbers: addresses of arrays, whole numbers, floats as their bits.
Compiled code opens the row in its own loop. The row is right as long as its owner holds the arrays and has not replaced
them; who replaces one writes the row again.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import stream_app.native  # noqa: F401  (before Numba: it sets what Numba reads once)
from stream_app.records import Bytes, Longs

# isort: split
from numba import extending, types
from numba.np import arrayobj

Address: TypeAlias = Any
"""Where an array begins; `address[i]` is its element i."""

Typing: TypeAlias = Any
"""What Numba hands to an intrinsic: contexts, types, LLVM builders and values. It publishes no types of its own."""

Cell: TypeAlias = bool | int | float | NDArray[Any]

LINE_BYTES = 64
"""Of the processor's cache: where a block's longer arrays begin."""


def _to(kind: Typing) -> Any:  # noqa: ANN401  (its arguments are not those of a call)
    """An intrinsic that takes a number of a row for the address of an array of this kind."""

    def pointer(_typing: Typing, _number: Typing) -> tuple[Typing, Callable[..., Typing]]:
        def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return extending.intrinsic(pointer)


doubles_at, floats_at = _to(types.float64), _to(types.float32)
longs_at, words_at = _to(types.int64), _to(types.uint64)
integers_at, bytes_at, classes_at = _to(types.int32), _to(types.uint8), _to(types.int8)


def _array(dimensions: int) -> Any:  # noqa: ANN401  (as above)
    """An intrinsic that makes an array of an address and its shape; nothing owns it, nothing counts its references."""

    def array(_typing: Typing, place: Typing, *_shape: Typing) -> tuple[Typing, Callable[..., Typing]]:
        kind = types.Array(place.dtype, dimensions, "C")

        def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
            made = context.make_array(kind)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(place.dtype))
            itemsize, strides = context.get_constant(types.intp, size), []
            stride = itemsize
            for length in reversed(arguments[1:]):
                strides.insert(0, stride)
                stride = builder.mul(stride, length)
            arrayobj.populate_array(made, arguments[0], arguments[1:], strides, itemsize, None)
            return made._getvalue()  # noqa: SLF001  (Numba's own way to the value)

        return kind(place, *[types.intp] * dimensions), generate

    return array


@extending.intrinsic
def column_at(typing: Typing, place: Typing, rows: Typing) -> tuple[Typing, Callable[..., Typing]]:
    """`column_at(address, n)`: the array `[n]` that begins there."""
    result: tuple[Typing, Callable[..., Typing]] = _array(1)(typing, place, rows)
    return result


@extending.intrinsic
def rows_at(typing: Typing, place: Typing, rows: Typing, columns: Typing) -> tuple[Typing, Callable[..., Typing]]:
    """`rows_at(address, n, m)`: the array `[n, m]` that begins there."""
    result: tuple[Typing, Callable[..., Typing]] = _array(2)(typing, place, rows, columns)
    return result


@extending.intrinsic
def number_of(_typing: Typing, place: Typing) -> tuple[Typing, Callable[..., Typing]]:
    """`number_of(address)`: the number that a row has for it."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.ptrtoint(arguments[0], context.get_value_type(signature.return_type))

    return types.int64(place), generate


@extending.intrinsic
def double_of(_typing: Typing, _number: Typing) -> tuple[Typing, Callable[..., Typing]]:
    """`double_of(n)`: the float64 whose bits a row has."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.float64(types.int64), generate


def address_of(array: NDArray[Any]) -> int:
    """Where it begins.

    Raises:
        ValueError: It is not C-contiguous or must not be written: compiled code takes both for granted.
    """
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError("compiled code needs an array that is C-contiguous and writable")
    address: int = array.__array_interface__["data"][0]
    return address


def row_of(cells: Sequence[Cell]) -> Longs:
    """int64 `[cells]`: the address of an array, a whole number as it is, a float's bits."""
    return np.array([_number(cell) for cell in cells], np.int64)


def _number(cell: Cell) -> int:
    if isinstance(cell, np.ndarray):
        return address_of(cell)
    if isinstance(cell, float):
        return int(struct.unpack("<q", struct.pack("<d", cell))[0])
    return int(cell)


def block_of(size: int) -> tuple[Bytes, int]:
    """So many zero bytes that begin at a cache line, and their address."""
    room = np.zeros(size + LINE_BYTES, np.uint8)
    address = address_of(room)
    start = -address % LINE_BYTES
    return room[start : start + size], address + start


Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
"""A named tuple of arrays and numbers."""

Scratch: TypeAlias = dict[tuple[str, tuple[int, ...], str], NDArray[Any]]
"""Arrays that hold nothing from one operation to the next, by name, shape and dtype: one of each serves all."""


def shared(arrays: Arrays, names: Collection[str], scratch: Scratch) -> Arrays:
    """The same tuple with the arrays of these names from the scratch, which takes in what it has not."""
    cells = dict(zip(arrays._fields, arrays, strict=True))
    own = {name: scratch.setdefault((name, cells[name].shape, cells[name].dtype.str), cells[name]) for name in names}
    replaced: Arrays = arrays._replace(**own)
    return replaced


def packed(arrays: Arrays, leave: Collection[str] = ()) -> Arrays:
    """The same tuple with copies of its arrays in one block, but for those to leave: short ones share cache lines."""
    chosen = {
        name: cell
        for name, cell in zip(arrays._fields, arrays, strict=True)
        if isinstance(cell, np.ndarray) and name not in leave
    }
    starts, size = {}, 0
    for name in sorted(chosen, key=lambda name: chosen[name].nbytes):
        wanted = 8 if chosen[name].nbytes < LINE_BYTES else LINE_BYTES
        starts[name] = size = -(-size // wanted) * wanted
        size += chosen[name].nbytes
    block, _ = block_of(size)
    views = {}
    for name, cell in chosen.items():
        views[name] = block[starts[name] : starts[name] + cell.nbytes].view(cell.dtype).reshape(cell.shape)
        views[name][...] = cell
    moved: Arrays = arrays._replace(**views)
    return moved
