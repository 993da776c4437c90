"""Vectors of eight or sixteen numbers that compiled code adds, multiplies and compares at once, in strict IEEE order.

A lane of a vector has the result of the same scalar operations one after the other, so the bits do not depend on the
width of the machine's registers. Numba leaves it to LLVM's optimiser to find vectors; with types of our own they are
certain, and the kernels short. All of this works only inside compiled functions (`jit.compiler`).

Memory is given as a pointer to the first element of a C-contiguous array, not as an array: Numba counts references to
an array, with atomic operations, wherever it is passed on, which took half of the time of a step of half a microsecond.
The caller of compiled code must hold the array. Indices count elements and are not checked.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from stream_app.jit.memory import Generator, Typing, intrinsic

# isort: split
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

Float32x8: TypeAlias = Any
Float32x16: TypeAlias = Any
Vector: TypeAlias = Any
"""Vectors in compiled code, the last one of any of these types; type checkers do not look into compiled code."""

_FLOAT32_POINTER = types.CPointer(types.float32)
_FLOAT64_POINTER = types.CPointer(types.float64)


class _VectorType(types.Type):
    """The Numba type of a vector of `width` float32 (or float64) numbers."""

    def __init__(self, width: int, *, double: bool = False) -> None:
        self.width = width
        self.element = ir.DoubleType() if double else ir.FloatType()
        self.floats = ir.VectorType(self.element, width)
        self.integers = ir.VectorType(ir.IntType(32), width)
        super().__init__(name=f"float{64 if double else 32}x{width}")

    def every(self, value: float) -> Typing:
        """Return the constant with this number in every lane."""
        return ir.Constant(self.floats, [ir.Constant(self.element, value)] * self.width)

    def every_integer(self, value: int) -> Typing:
        """Return the vector of 32-bit integers with this number in every lane."""
        return ir.Constant(self.integers, [ir.Constant(ir.IntType(32), value)] * self.width)

    def broadcast(self, builder: Typing, value: Typing) -> Typing:
        """Write the instructions for a vector with one value in every lane."""
        nothing = ir.Constant(self.floats, ir.Undefined)
        one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, nothing, self.every_integer(0))

    def call(self, builder: Typing, name: str, value: Typing) -> Typing:
        """Write the call of a mathematical function that LLVM knows, such as `sqrt`."""
        kind = ir.FunctionType(self.floats, [self.floats])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{self.width}f32")
        return builder.call(function, [value])


FLOAT32X8, FLOAT32X16 = _VectorType(8), _VectorType(16)
_FLOAT64X8 = _VectorType(8, double=True)


@extending.register_model(_VectorType)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Typing, kind: _VectorType) -> None:
        super().__init__(manager, kind, kind.floats)


def _same(left: Typing, right: Typing) -> Typing:
    return left if isinstance(left, _VectorType) and left == right else None


def _define_operator(function: Callable[[Any, Any], Any], instruction: str) -> None:
    """Let an operator take two vectors of one type, as one LLVM instruction without fast-math flags."""
    extending.type_callable(function)(lambda _context: _same)

    @extending.lower_builtin(function, _VectorType, _VectorType)
    def lower(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        return getattr(builder, instruction)(*arguments)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define_operator(_function, _instruction)


@intrinsic
def high_product(_typing: Typing, _left: Typing, _right: Typing) -> tuple[Typing, Generator]:
    """`high_product(a, b)`: the upper 64 bits of the product of two unsigned 64-bit integers."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        wide = ir.IntType(128)
        left, right = (builder.zext(argument, wide) for argument in arguments)
        upper = builder.lshr(builder.mul(left, right), ir.Constant(wide, 64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _load(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
    pointer = builder.gep(arguments[0], [arguments[1]])
    return builder.load(builder.bitcast(pointer, signature.return_type.floats.as_pointer()), align=4)


@intrinsic
def load8(_typing: Typing, _pointer: Typing, _index: Typing) -> tuple[Typing, Generator]:
    """`load8(pointer, i)`: the eight elements from i on."""
    return FLOAT32X8(_FLOAT32_POINTER, types.intp), _load


@intrinsic
def load8_double(_typing: Typing, _pointer: Typing, _index: Typing) -> tuple[Typing, Generator]:
    """`load8_double(pointer, i)`: the eight float64 elements from i on."""
    return _FLOAT64X8(_FLOAT64_POINTER, types.intp), _load


@intrinsic
def load16(_typing: Typing, _pointer: Typing, _index: Typing) -> tuple[Typing, Generator]:
    """`load16(pointer, i)`: the sixteen elements from i on."""
    return FLOAT32X16(_FLOAT32_POINTER, types.intp), _load


@intrinsic
def load_like(_typing: Typing, _pointer: Typing, _index: Typing, like: Typing) -> tuple[Typing, Generator]:
    """`load_like(pointer, i, x)`: as many elements from i on as x has."""
    return like(_FLOAT32_POINTER, types.intp, like), _load


@intrinsic
def store(_typing: Typing, _pointer: Typing, _index: Typing, vector: Typing) -> tuple[Typing, Generator]:
    """`store(pointer, i, x)`: put x into the elements from i on."""

    def generate(context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        pointer = builder.gep(arguments[0], [arguments[1]])
        builder.store(arguments[2], builder.bitcast(pointer, signature.args[2].floats.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.none(_FLOAT64_POINTER if vector == _FLOAT64X8 else _FLOAT32_POINTER, types.intp, vector), generate


def _fill(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
    return signature.return_type.broadcast(builder, arguments[0])


@intrinsic
def fill8(_typing: Typing, _value: Typing) -> tuple[Typing, Generator]:
    """`fill8(x)`: x in each of eight vector."""
    return FLOAT32X8(types.float32), _fill


@intrinsic
def fill16(_typing: Typing, _value: Typing) -> tuple[Typing, Generator]:
    """`fill16(x)`: x in each of sixteen vector."""
    return FLOAT32X16(types.float32), _fill


@intrinsic
def fill_like(_typing: Typing, _value: Typing, like: Typing) -> tuple[Typing, Generator]:
    """`fill_like(x, y)`: x in as many vector as y has."""
    return like(types.float32, like), _fill


def _convert(instruction: str) -> Generator:
    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return getattr(builder, instruction)(arguments[0], signature.return_type.floats)

    return generate


@intrinsic
def widen(_typing: Typing, _vector: Typing) -> tuple[Typing, Generator]:
    """`widen(x)`: eight float32 numbers as float64, exactly."""
    return _FLOAT64X8(FLOAT32X8), _convert("fpext")


@intrinsic
def narrow(_typing: Typing, _vector: Typing) -> tuple[Typing, Generator]:
    """`narrow(x)`: eight float64 numbers, rounded to float32."""
    return FLOAT32X8(_FLOAT64X8), _convert("fptrunc")


@intrinsic
def join(_typing: Typing, _left: Typing, _right: Typing) -> tuple[Typing, Generator]:
    """`join(x, y)`: the eight numbers of x, then the eight of y."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        kind = ir.VectorType(ir.IntType(32), 16)
        order = ir.Constant(kind, [ir.Constant(ir.IntType(32), k) for k in range(16)])
        return builder.shuffle_vector(arguments[0], arguments[1], order)

    return FLOAT32X16(FLOAT32X8, FLOAT32X8), generate


@intrinsic
def first(_typing: Typing, vector: Typing) -> tuple[Typing, Generator]:
    """`first(x)`: the number in the first lane."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        return builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), 0))

    return types.float32(vector), generate


@intrinsic
def total(_typing: Typing, vector: Typing) -> tuple[Typing, Generator]:
    """`total(x)`: the sum; the upper half is added to the lower until one is left: ((0+4)+(2+6)) + ((1+5)+(3+7))."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        value = arguments[0]
        half = signature.args[0].width
        while half > 1:
            half //= 2
            kind = ir.VectorType(ir.IntType(32), half)
            nothing = ir.Constant(value.type, ir.Undefined)
            lower, upper = (
                builder.shuffle_vector(
                    value, nothing, ir.Constant(kind, [ir.Constant(ir.IntType(32), start + k) for k in range(half)])
                )
                for start in (0, half)
            )
            value = builder.fadd(lower, upper)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return (types.float64 if vector == _FLOAT64X8 else types.float32)(vector), generate


@intrinsic
def root(_typing: Typing, vector: Typing) -> tuple[Typing, Generator]:
    """`root(x)`: the square roots, correctly rounded."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        return signature.args[0].call(builder, "sqrt", arguments[0])

    return vector(vector), generate


@intrinsic
def where_positive(_typing: Typing, vector: Typing, _yes: Typing, _no: Typing) -> tuple[Typing, Generator]:
    """`where_positive(x, a, b)`: a in the vector where x > 0, elsewhere (and where x is no number) b."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        test, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", test, signature.args[0].every(0.0)), yes, no)

    return vector(vector, vector, vector), generate


@intrinsic
def below_is_zero(_typing: Typing, vector: Typing, _limit: Typing) -> tuple[Typing, Generator]:
    """`below_is_zero(x, c)`: x, and +0 in the vector where |x| < c."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        kind, value = signature.args[0], arguments[0]
        limit = kind.broadcast(builder, arguments[1])
        small = builder.fcmp_ordered("<", kind.call(builder, "fabs", value), limit)
        return builder.select(small, kind.every(0.0), value)

    return vector(vector, types.float32), generate


@intrinsic
def clip(_typing: Typing, vector: Typing, _low: Typing, _high: Typing) -> tuple[Typing, Generator]:
    """`clip(x, a, b)`: x, a where x < a, b where x > b; NaN stays NaN."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        value = arguments[0]
        low, high = (signature.args[0].broadcast(builder, bound) for bound in arguments[1:])
        value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">", value, high), high, value)

    return vector(vector, types.float32, types.float32), generate


@intrinsic
def within(_typing: Typing, vector: Typing, _bound: Typing) -> tuple[Typing, Generator]:
    """`within(x, b)`: x, b where x > b, -b where x < -b, for a vector b of positive numbers."""

    def generate(_context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Typing:
        value, bound = arguments
        negated = builder.fneg(bound)
        value = builder.select(builder.fcmp_ordered("<", value, negated), negated, value)
        return builder.select(builder.fcmp_ordered(">", value, bound), bound, value)

    return vector(vector, vector), generate


@intrinsic
def two_to(_typing: Typing, vector: Typing) -> tuple[Typing, Generator]:
    """`two_to(k + 1.5 * 2**23)`: 2**k for whole k from -126 to 127, read from the low bits of the sum."""

    def generate(_context: Typing, builder: Typing, signature: Typing, arguments: Typing) -> Typing:
        kind = signature.args[0]
        low = builder.shl(builder.bitcast(arguments[0], kind.integers), kind.every_integer(23))
        return builder.bitcast(builder.add(low, kind.every_integer(127 << 23)), kind.floats)

    return vector(vector), generate
