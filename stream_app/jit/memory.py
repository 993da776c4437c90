"""Memory by address: how one compiled call works on the arrays of many owners.

A call from Python into compiled code costs as much as the work on ten records. So each object with its own state
(the join of a stream, a learner) describes its state by a descriptor: an int64 array of addresses of arrays, integers,
and floats as their bits. Compiled code turns a descriptor into a view, a named tuple of arrays or pointers, in its own
loop. A descriptor is valid as long as its owner holds the arrays and has not replaced any of them; an owner that
replaces an array writes the descriptor again.

Compiled code checks neither descriptors nor indices: a wrong one ends the process or changes the memory of another
stream. Tests hold that compiled code and Python agree on where each array is, that descriptors name the arrays that
their owners hold, that shared buffers carry nothing from one operation to the next (`tests/unit/test_addresses.py`),
and that no index leaves its array (`tests/property/test_bounds.py` compiles with bounds checks).
"""

import operator
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.records import Bytes, Longs

# isort: split
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.np import arrayobj

Pointer: TypeAlias = Any
"""A typed pointer to the first element of an array; `pointer[i]` is element i. Only compiled code has pointers."""

Number: TypeAlias = int | np.integer[Any]
"""An integer: for compiled code, Python's and NumPy's integers are the same."""

Typing: TypeAlias = Any
"""What Numba hands to an intrinsic: contexts, types, LLVM builders and values. Numba publishes no types for them."""

Generator: TypeAlias = Callable[[Typing, Typing, Typing, Typing], Typing]
"""Writes the LLVM instructions of an intrinsic."""

Field: TypeAlias = bool | int | float | NDArray[Any]
"""A value that a descriptor can hold."""

CACHE_LINE_BYTES = 64
"""A block, and each longer array in a block, begins at a multiple of this, the size of a line of the CPU's cache."""

PREFETCH_DISTANCE = 8
"""How many owners ahead a loop prefetches, where its work on each owner is a few numbers."""


# Intrinsics: functions for compiled code that are written as LLVM instructions ----------------------------------------


def intrinsic(function: Callable[..., tuple[Typing, Generator]]) -> Any:  # noqa: ANN401  (its arguments are types, not values)
    """Make an intrinsic of a function that returns its signature and its generator."""
    return extending.intrinsic(function)


def _pointer_from_integer(element: Typing) -> Any:  # noqa: ANN401  (as above)
    """Make an intrinsic that turns an address, an int64, into a pointer to elements of this Numba type."""

    def pointer(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
        def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), generate

    return intrinsic(pointer)


doubles_at, floats_at = _pointer_from_integer(types.float64), _pointer_from_integer(types.float32)
longs_at, words_at = _pointer_from_integer(types.int64), _pointer_from_integer(types.uint64)
integers_at, bytes_at = _pointer_from_integer(types.int32), _pointer_from_integer(types.uint8)
classes_at = _pointer_from_integer(types.int8)


def array_type(element: Typing, dimensions: int) -> Typing:
    """Return the Numba type of a C-contiguous, writable array."""
    return types.Array(element, dimensions, "C")


def make_array(context: Typing, builder: Typing, kind: Typing, pointer: Typing, shape: Sequence[Typing]) -> Typing:
    """Write the instructions that make an array of this type over memory at a pointer.

    The array owns nothing, and its references are not counted: the caller of the compiled code must hold the memory.
    """
    made = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    stride = itemsize = context.get_constant(types.intp, size)
    strides: list[Typing] = []
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    arrayobj.populate_array(made, pointer, shape, strides, itemsize, None)
    return made._getvalue()  # noqa: SLF001  (Numba's own way to the value)


def _array_at(pointer: Typing, dimensions: int) -> tuple[Typing, Generator]:
    kind = array_type(pointer.dtype, dimensions)

    def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        return make_array(context, builder, kind, arguments[0], arguments[1:])

    return kind(pointer, *[types.intp] * dimensions), generate


@intrinsic
def column_at(_typing: Typing, pointer: Typing, _rows: Typing) -> tuple[Typing, Generator]:
    """`column_at(pointer, n)`: the array `[n]` that begins there."""
    return _array_at(pointer, 1)


@intrinsic
def rows_at(_typing: Typing, pointer: Typing, _rows: Typing, _columns: Typing) -> tuple[Typing, Generator]:
    """`rows_at(pointer, n, m)`: the array `[n, m]` that begins there."""
    return _array_at(pointer, 2)


@intrinsic
def pointer_to(_typing: Typing, array: Typing) -> tuple[Typing, Generator]:
    """`pointer_to(array)`: a pointer to its first element."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def offset_pointer(_typing: Typing, pointer: Typing, _elements: Typing) -> tuple[Typing, Generator]:
    """`offset_pointer(pointer, n)`: the pointer to the element n places after the first."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.intp), generate


@intrinsic
def integer_of(_typing: Typing, pointer: Typing) -> tuple[Typing, Generator]:
    """`integer_of(pointer)`: the address as an int64, as a descriptor has it."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.ptrtoint(arguments[0], context.get_value_type(signature.return_type))

    return types.int64(pointer), generate


@intrinsic
def float_from_bits(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
    """`float_from_bits(n)`: the float64 with the bits of an int64."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.float64(types.int64), generate


@intrinsic
def prefetch(_typing: Typing, _number: Typing) -> tuple[Typing, Generator]:
    """`prefetch(address)`: begin to load the cache line at an address; an invalid address does no harm."""

    def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        bytes_, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, near, data = (ir.Constant(word, value) for value in (0, 2, 1))
        builder.call(function, [builder.inttoptr(arguments[0], bytes_), read, near, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@inlined_without_refcounts
def prefetch_all(start: int, size: int) -> None:
    """Begin to load `size` bytes from an address on."""
    for line in range(start, start + size, CACHE_LINE_BYTES):
        prefetch(line)


# Numba indexes a pointer with plain integers only. These two let compiled code write `pointer[Counter.PENDING]`.


@extending.overload(operator.getitem)
def _read_by_name(pointer: Typing, index: Typing) -> Typing:
    def read(pointer: Typing, index: Typing) -> Typing:
        return pointer[index.value]

    return read if _is_named_element(pointer, index) else None


@extending.overload(operator.setitem)
def _write_by_name(pointer: Typing, index: Typing, value: Typing) -> Typing:  # noqa: ARG001
    def write(pointer: Typing, index: Typing, value: Typing) -> None:
        pointer[index.value] = value

    return write if _is_named_element(pointer, index) else None


def _is_named_element(pointer: Typing, index: Typing) -> bool:
    return isinstance(pointer, types.CPointer) and isinstance(index, types.IntEnumMember)


# Python's side: addresses, descriptors, blocks ------------------------------------------------------------------------


def address_of(array: NDArray[Any]) -> int:
    """Return the address of the first element of an array.

    Raises:
        ValueError: The array is not C-contiguous or not writable; compiled code relies on both.
    """
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError("compiled code needs an array that is C-contiguous and writable")
    begin: int = array.__array_interface__["data"][0]
    return begin


def descriptor_of(fields: Sequence[Field]) -> Longs:
    """Return int64 `[fields]`: the address of an array, an integer as it is, a float as its bits."""
    return np.array([_field_as_integer(field) for field in fields], np.int64)


def _field_as_integer(field: Field) -> int:
    if isinstance(field, np.ndarray):
        return address_of(field)
    if isinstance(field, float):
        return int(struct.unpack("<q", struct.pack("<d", field))[0])
    return int(field)


def aligned_block(size: int) -> tuple[Bytes, int]:
    """Return `size` zero bytes that begin at a multiple of `CACHE_LINE_BYTES`, and their address."""
    memory = np.zeros(size + CACHE_LINE_BYTES, np.uint8)
    begin = address_of(memory)
    start = -begin % CACHE_LINE_BYTES
    return memory[start : start + size], begin + start


Arrays = TypeVar("Arrays", bound=NamedTuple)
"""A named tuple of arrays and numbers."""

SharedBuffers: TypeAlias = dict[tuple[str, tuple[int, ...], str], NDArray[Any]]
"""Arrays that carry nothing from one operation to the next, by name, shape and dtype, shared by all owners."""


def with_shared_buffers(arrays: Arrays, names: Collection[str], buffers: SharedBuffers) -> Arrays:
    """Return the tuple with the arrays of these names replaced by the shared ones; add those that are missing there."""
    fields = arrays._asdict()
    common = {
        name: buffers.setdefault((name, fields[name].shape, fields[name].dtype.str), fields[name]) for name in names
    }
    replaced: Arrays = arrays._replace(**common)
    return replaced


class Span(NamedTuple):
    """The place of an array in a block: its first byte, the byte after its last, dtype and shape."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def view(self, block: Bytes) -> NDArray[Any]:
        """Return the array in a block of this layout."""
        return block[self.start : self.end].view(self.dtype).reshape(self.shape)


class PackedBlock(NamedTuple):
    """The arrays of several named tuples in one block of memory.

    Attributes:
        parts: The named tuples, with views of the block.
        block: The memory.
        address: The address of the block.
        frequent_bytes: Bytes from its beginning to the arrays that are seldom read.
        spans: The place of each array, by the number of its tuple and its name.
    """

    parts: Sequence[Any]
    block: Bytes
    address: int
    frequent_bytes: int
    spans: Mapping[tuple[int, str], Span]

    def parts_in(self, block: Bytes) -> Sequence[Any]:
        """Return the named tuples with views of another block of the same layout."""
        moved: list[dict[str, NDArray[Any]]] = [{} for _ in self.parts]
        for (number, name), span in self.spans.items():
            moved[number][name] = span.view(block)
        return [part._replace(**new) for part, new in zip(self.parts, moved, strict=True)]


def pack(parts: Sequence[NamedTuple], leave: Collection[str] = (), last: Collection[str] = ()) -> PackedBlock:
    """Copy the arrays of named tuples into one block, which is copied at once and prefetched as one range.

    Args:
        parts: Named tuples of arrays and numbers.
        leave: Names of arrays that are not copied.
        last: Names of arrays that are seldom read; they come after all others.
    """
    arrays = {
        (number, name): field
        for number, part in enumerate(parts)
        for name, field in part._asdict().items()
        if isinstance(field, np.ndarray) and name not in leave
    }
    spans: dict[tuple[int, str], Span] = {}
    size, frequent_bytes = 0, 0
    for key in sorted(arrays, key=lambda key: (key[1] in last, arrays[key].nbytes)):
        array = arrays[key]
        start = -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        size = start + array.nbytes
        spans[key] = Span(start, size, array.dtype, array.shape)
        frequent_bytes = frequent_bytes if key[1] in last else size
    block, begin = aligned_block(size)
    for key, span in spans.items():
        span.view(block)[...] = arrays[key]
    made = PackedBlock(parts, block, begin, frequent_bytes, spans)
    return made._replace(parts=made.parts_in(block))
