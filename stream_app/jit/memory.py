"""Memory by number: where arrays begin, in int64 rows that one compiled call can walk over for many owners.

A call from Python into compiled code costs as much as the work on ten records. So what has a state of its own (a
stream's join, a learner) describes it by a row of numbers: addresses of arrays, whole numbers, floats as their bits.
Compiled code opens the row in its own loop. The row is right as long as its owner holds the arrays and has not replaced
them; who replaces one writes the row again.

Nothing here is checked where it is used: a wrong row, or an index beyond an array, ends the process or changes another
stream. So tests hold that compiled code and Python agree where each array lies, that rows name the arrays that their
owners hold now, that scratch carries nothing over (`tests/unit/test_addresses.py`), and that no index leaves its array
(`tests/property/test_bounds.py` compiles with bounds checked).
"""

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import bare_inlined
from stream_app.records import Bytes, Longs

# isort: split
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.np import arrayobj

Address: TypeAlias = Any
"""Where an array begins; `address[i]` is its element i."""

Typing: TypeAlias = Any
"""What Numba hands to an intrinsic: contexts, types, LLVM builders and values. It publishes no types of its own."""

Generator: TypeAlias = Callable[[Typing, Typing, Typing, Typing], Typing]
"""Writes the instructions of an intrinsic."""

Cell: TypeAlias = bool | int | float | NDArray[Any]

LINE_BYTES = 64
"""Of the processor's cache: where a block's longer arrays begin."""

AHEAD = 8
"""Owners ahead of the one at work whose few numbers are fetched, where that is all that is done with each."""


def piece(function: Callable[..., tuple[Typing, Generator]]) -> Any:  # noqa: ANN401  (its arguments are not those of a call)
    """An intrinsic: `function` gives its type, and what writes its instructions."""
    return extending.intrinsic(function)


def _to(kind: Typing) -> Any:  # noqa: ANN401  (as above)
    """An intrinsic that takes a number of a row for the address of an array of this kind."""

    def pointer(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
        def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return piece(pointer)


doubles_at, floats_at = _to(types.float64), _to(types.float32)
longs_at, words_at = _to(types.int64), _to(types.uint64)
integers_at, bytes_at, classes_at = _to(types.int32), _to(types.uint8), _to(types.int8)


def _array(place: Typing, dimensions: int) -> tuple[Typing, Generator]:
    """What makes an array of an address and its shape; nothing owns it, nothing counts its references."""
    kind = types.Array(place.dtype, dimensions, "C")

    def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        made = context.make_array(kind)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(place.dtype))
        stride = itemsize = context.get_constant(types.intp, size)
        strides: list[Typing] = []
        for length in reversed(arguments[1:]):
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        arrayobj.populate_array(made, arguments[0], arguments[1:], strides, itemsize, None)
        return made._getvalue()  # noqa: SLF001  (Numba's own way to the value)

    return kind(place, *[types.intp] * dimensions), generate


@piece
def column_at(_typing: Typing, place: Typing, _rows: Typing) -> tuple[Typing, Generator]:
    """`column_at(address, n)`: the array `[n]` that begins there."""
    return _array(place, 1)


@piece
def rows_at(_typing: Typing, place: Typing, _rows: Typing, _columns: Typing) -> tuple[Typing, Generator]:
    """`rows_at(address, n, m)`: the array `[n, m]` that begins there."""
    return _array(place, 2)


@piece
def address(_typing: Typing, array: Typing) -> tuple[Typing, Generator]:
    """`address(array)`: where its first element is."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@piece
def later(_typing: Typing, place: Typing, _elements: Typing) -> tuple[Typing, Generator]:
    """`later(address, n)`: the address n elements on."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        return builder.gep(arguments[0], [arguments[1]])

    return place(place, types.intp), generate


@piece
def number_of(_typing: Typing, place: Typing) -> tuple[Typing, Generator]:
    """`number_of(address)`: the number that a row has for it."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.ptrtoint(arguments[0], context.get_value_type(signature.return_type))

    return types.int64(place), generate


@piece
def double_of(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
    """`double_of(n)`: the float64 whose bits a row has."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.float64(types.int64), generate


@piece
def prefetch(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
    """`prefetch(n)`: begin to fetch the cache line at this address, which need not be one of ours."""

    def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        bytes_, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, near, data = (ir.Constant(word, value) for value in (0, 2, 1))
        builder.call(function, [builder.inttoptr(arguments[0], bytes_), read, near, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


def address_of(array: NDArray[Any]) -> int:
    """Where it begins.

    Raises:
        ValueError: It is not C-contiguous or must not be written: compiled code takes both for granted.
    """
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError("compiled code needs an array that is C-contiguous and writable")
    begin: int = array.__array_interface__["data"][0]
    return begin


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
    begin = address_of(room)
    start = -begin % LINE_BYTES
    return room[start : start + size], begin + start


Arrays = TypeVar("Arrays", bound=NamedTuple)
"""A named tuple of arrays and numbers."""

Scratch: TypeAlias = dict[tuple[str, tuple[int, ...], str], NDArray[Any]]
"""Arrays that hold nothing from one operation to the next, by name, shape and dtype: one of each serves all."""


def shared(arrays: Arrays, names: Collection[str], scratch: Scratch) -> Arrays:
    """The same tuple with the arrays of these names from the scratch, which takes in what it has not."""
    cells = arrays._asdict()
    own = {name: scratch.setdefault((name, cells[name].shape, cells[name].dtype.str), cells[name]) for name in names}
    replaced: Arrays = arrays._replace(**own)
    return replaced


class Span(NamedTuple):
    """Where an array lies in a block: its first byte and the one behind its last."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def view(self, block: Bytes) -> NDArray[Any]:
        """The array in a block of this layout."""
        return block[self.start : self.end].view(self.dtype).reshape(self.shape)


class Packed(NamedTuple):
    """What `packed` makes.

    Attributes:
        parts: The named tuples, with views of the block.
        block: The block.
        address: Where the block begins.
        often: Its bytes up to the arrays that are seldom read.
        spans: Where each array lies, by the number of its tuple and its name.
    """

    parts: Sequence[Any]
    block: Bytes
    address: int
    often: int
    spans: Mapping[tuple[int, str], Span]

    def parts_in(self, block: Bytes) -> Sequence[Any]:
        """The named tuples with views of another block of the same layout."""
        moved: list[dict[str, NDArray[Any]]] = [{} for _ in self.parts]
        for (number, name), span in self.spans.items():
            moved[number][name] = span.view(block)
        return [part._replace(**new) for part, new in zip(self.parts, moved, strict=True)]


def packed(parts: Sequence[NamedTuple], leave: Collection[str] = (), last: Collection[str] = ()) -> Packed:
    """Copy the arrays of named tuples into one block, short ones side by side: a cache line is fetched whole.

    Args:
        parts: Named tuples of arrays and numbers.
        leave: Names of arrays to leave where they are.
        last: Names of arrays that are seldom read; they go behind the others.
    """
    arrays = {
        (number, name): cell
        for number, part in enumerate(parts)
        for name, cell in part._asdict().items()
        if isinstance(cell, np.ndarray) and name not in leave
    }
    spans: dict[tuple[int, str], Span] = {}
    size, often = 0, 0
    for place in sorted(arrays, key=lambda place: (place[1] in last, arrays[place].nbytes)):
        array = arrays[place]
        wanted = 8 if array.nbytes < LINE_BYTES else LINE_BYTES
        start = -(-size // wanted) * wanted
        size = start + array.nbytes
        spans[place] = Span(start, size, array.dtype, array.shape)
        often = often if place[1] in last else size
    block, begin = block_of(size)
    for place, span in spans.items():
        span.view(block)[...] = arrays[place]
    made = Packed(parts, block, begin, often, spans)
    return made._replace(parts=made.parts_in(block))


@bare_inlined
def prefetch_all(start: int, size: int) -> None:
    """Begin to fetch so many bytes."""
    for at in range(start, start + size, LINE_BYTES):
        prefetch(at)
