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
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes
from stream_app.jit.compiler import inlined_without_refcounts

# isort: split
from llvmlite import ir
from numba import extending, typeof
from numba.core import cgutils, types
from numba.np import arrayobj, numpy_support

Pointer: TypeAlias = Any
"""A typed pointer to the first element of an array; `pointer[i]` is element i. Only compiled code has pointers."""

Number: TypeAlias = int | np.integer[Any]
"""An integer: for compiled code, Python's and NumPy's integers are the same."""

Typing: TypeAlias = Any
"""What Numba hands to an intrinsic: contexts, types, LLVM builders and values. Numba publishes no types for them."""

Generator: TypeAlias = Callable[[Typing, Typing, Typing, Typing], Typing]
"""Writes the LLVM instructions of an intrinsic."""

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


doubles_at, longs_at = _pointer_from_integer(types.float64), _pointer_from_integer(types.int64)
integers_at, bytes_at = _pointer_from_integer(types.int32), _pointer_from_integer(types.uint8)


def array_type(element: Typing, dimensions: int) -> Typing:
    """Return the Numba type of a C-contiguous, writable array."""
    return types.Array(element, dimensions, "C")


def pointer_type(dtype: np.dtype[Any]) -> Typing:
    """Return the Numba type of a pointer to elements of a dtype."""
    return types.CPointer(numpy_support.from_dtype(dtype))


def tuple_type(view: type[Any], kinds: Sequence[Typing]) -> Typing:
    """Return the Numba type of a named tuple, given those of its fields."""
    return types.NamedTuple(kinds, view)


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


def one_of(functions: Sequence[Any]) -> Any:  # noqa: ANN401  (its arguments are types, not values)
    """Make an intrinsic `call(number, arguments)`: a jump to the function with this number, without function pointers.

    Args:
        functions: Compiled functions that take the same arguments and return the same type. The commonest is called
            for all numbers that no other function has.
    """
    kinds = {function: typeof(function) for function in functions}
    commonest = max(kinds, key=functions.count)

    def call(typing: Typing, _number: Typing, arguments: Typing) -> tuple[Typing, Generator]:
        signatures = {
            function: typing.resolve_function_type(kind, tuple(arguments.types), {}) for function, kind in kinds.items()
        }
        returned = typing.unify_types(*[signature.return_type for signature in signatures.values()])

        def generate(context: Typing, builder: Typing, _signature: Typing, given: Typing) -> Typing:
            values = cgutils.unpack_tuple(builder, given[1], len(arguments.types))
            result = cgutils.alloca_once(builder, context.get_value_type(returned))
            blocks = {function: builder.append_basic_block("call") for function in kinds}
            end = builder.append_basic_block("called")
            jump = builder.switch(given[0], blocks[commonest])
            for number, function in enumerate(functions):
                if function is not commonest:
                    jump.add_case(ir.Constant(given[0].type, number), blocks[function])
            for function, block in blocks.items():
                builder.position_at_end(block)
                value = context.get_function(kinds[function], signatures[function])(builder, values)
                own = signatures[function].return_type
                builder.store(context.cast(builder, value, own, returned), result)
                builder.branch(end)
            builder.position_at_end(end)
            return builder.load(result)

        return returned(types.int64, arguments), generate

    return intrinsic(call)


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


# Python's side: addresses and blocks ----------------------------------------------------------------------------------


def address_of(array: NDArray[Any]) -> int:
    """Return the address of the first element of an array.

    Raises:
        ValueError: The array is not C-contiguous or not writable; compiled code relies on both.
    """
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError("compiled code needs an array that is C-contiguous and writable")
    begin: int = array.__array_interface__["data"][0]
    return begin


def aligned_block(size: int) -> tuple[Bytes, int]:
    """Return `size` zero bytes that begin at a multiple of `CACHE_LINE_BYTES`, and their address."""
    memory = np.zeros(size + CACHE_LINE_BYTES, np.uint8)
    begin = address_of(memory)
    start = -begin % CACHE_LINE_BYTES
    return memory[start : start + size], begin + start
