"""Eight float32 numbers that compiled code adds, multiplies and compares at once, each lane in strict IEEE order.

A lane's result is that of the same scalar operations one after the other, so the bits do not depend on how wide the
machine's registers are. Numba by itself finds vectors where its optimiser cares to look; a type of its own makes them
certain and the kernels short. All of this works inside functions compiled by `native.compiled` and nowhere else.

Indices are not checked: they count elements of a C-contiguous float32 array, whatever its shape.
"""

import operator
from typing import Any, TypeAlias

from stream_app.native import compiled  # first: the settings come before Numba

# isort: split
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

WIDTH = 8
"""Lanes of one vector: the units of the paper's hidden layer."""

Lanes: TypeAlias = Any
"""Eight float32 numbers; type checkers do not look into compiled code."""


class LanesType(types.Type):  # type: ignore[misc]  # Numba publishes no types
    """The Numba type of `Lanes`."""

    def __init__(self) -> None:
        super().__init__(name=f"float32x{WIDTH}")


LANES = LanesType()
_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_INTEGERS = ir.VectorType(ir.IntType(32), WIDTH)


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]  # Numba publishes no types
    def __init__(self, manager: Any, kind: Any) -> None:  # noqa: ANN401  (Numba publishes no types)
        super().__init__(manager, kind, _FLOATS)


def _operator(function: Any, instruction: str) -> None:  # noqa: ANN401  (any operator)
    """Let `function` work on two `Lanes`, as one LLVM instruction without fast-math flags."""

    @type_callable(function)
    def typing(_context: Any) -> Any:  # noqa: ANN401  (Numba publishes no types)
        def typer(left: Any, right: Any) -> Any:  # noqa: ANN401  (Numba publishes no types)
            return LANES if isinstance(left, LanesType) and isinstance(right, LanesType) else None

        return typer

    @lower_builtin(function, LanesType, LanesType)
    def lower(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        return getattr(builder, instruction)(*arguments)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operator(_function, _instruction)


def _element(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:  # noqa: ANN401  (as above)
    """The address of an element, with no check."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _constant(value: float) -> Any:  # noqa: ANN401  (as above)
    return ir.Constant(_FLOATS, [ir.Constant(ir.FloatType(), value)] * WIDTH)


def _broadcast(builder: Any, value: Any) -> Any:  # noqa: ANN401  (as above)
    one = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(_INTEGERS, [ir.Constant(ir.IntType(32), 0)] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(_FLOATS, ir.Undefined), zeros)


@intrinsic
def load(_context: Any, array: Any, _index: Any) -> Any:  # noqa: ANN401  (as above)
    """`load(array, i)`: the elements i to i + 7."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        place = _element(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(place, _FLOATS.as_pointer()), align=4)

    return LANES(array, types.intp), generate


@intrinsic
def store(_context: Any, array: Any, _index: Any, _lanes: Any) -> Any:  # noqa: ANN401  (as above)
    """`store(array, i, x)`: put x into the elements i to i + 7."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        place = _element(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], builder.bitcast(place, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.none(array, types.intp, LANES), generate


@intrinsic
def pick(_context: Any, array: Any, _index: Any) -> Any:  # noqa: ANN401  (as above)
    """`pick(array, i)`: element i, as one number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        return builder.load(_element(context, builder, signature.args[0], *arguments))

    return types.float32(array, types.intp), generate


@intrinsic
def fill(_context: Any, _value: Any) -> Any:  # noqa: ANN401  (as above)
    """`fill(x)`: x in every lane."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        return _broadcast(builder, arguments[0])

    return LANES(types.float32), generate


@intrinsic
def total(_context: Any, _lanes: Any) -> Any:  # noqa: ANN401  (as above)
    """`total(x)`: the sum of the lanes in the order ((0+4)+(2+6)) + ((1+5)+(3+7))."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        (value,) = arguments
        width = WIDTH
        while width > 1:
            width //= 2
            low, high = (
                ir.Constant(ir.VectorType(ir.IntType(32), width), [ir.Constant(ir.IntType(32), start + k) for k in range(width)])
                for start in (0, width)
            )
            nothing = ir.Constant(value.type, ir.Undefined)
            value = builder.fadd(builder.shuffle_vector(value, nothing, low), builder.shuffle_vector(value, nothing, high))
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float32(LANES), generate


@intrinsic
def root(_context: Any, _lanes: Any) -> Any:  # noqa: ANN401  (as above)
    """`root(x)`: the square roots, correctly rounded."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOATS, [_FLOATS]), f"llvm.sqrt.v{WIDTH}f32"
        )
        return builder.call(function, arguments)

    return LANES(LANES), generate


@intrinsic
def where_positive(_context: Any, _test: Any, _yes: Any, _no: Any) -> Any:  # noqa: ANN401  (as above)
    """`where_positive(x, a, b)`: a in the lanes where x > 0, elsewhere (and where x is no number) b."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        test, yes, no = arguments
        return builder.select(builder.fcmp_ordered(">", test, _constant(0.0)), yes, no)

    return LANES(LANES, LANES, LANES), generate


@intrinsic
def below_is_zero(_context: Any, _lanes: Any, limit: Any) -> Any:  # noqa: ANN401  (as above)
    """`below_is_zero(x, c)`: x, and +0 in the lanes where |x| < c. c is a literal number."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        value, bound = arguments
        absolute = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOATS, [_FLOATS]), f"llvm.fabs.v{WIDTH}f32"
        )
        small = builder.fcmp_ordered("<", builder.call(absolute, [value]), _broadcast(builder, bound))
        return builder.select(small, _constant(0.0), value)

    return LANES(LANES, types.float32), generate


@intrinsic
def clip(_context: Any, _lanes: Any, _low: Any, _high: Any) -> Any:  # noqa: ANN401  (as above)
    """`clip(x, a, b)`: x, a where x < a, b where x > b; what is no number stays so."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        value, low, high = arguments[0], _broadcast(builder, arguments[1]), _broadcast(builder, arguments[2])
        value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        return builder.select(builder.fcmp_ordered(">", value, high), high, value)

    return LANES(LANES, types.float32, types.float32), generate


@intrinsic
def two_to(_context: Any, _lanes: Any) -> Any:  # noqa: ANN401  (as above)
    """`two_to(k + 1.5 * 2**23)`: 2**k for whole k from -126 to 127, read from the low bits of the sum."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (as above)
        def every(value: int) -> Any:  # noqa: ANN401  (as above)
            return ir.Constant(_INTEGERS, [ir.Constant(ir.IntType(32), value)] * WIDTH)

        low = builder.shl(builder.bitcast(arguments[0], _INTEGERS), every(23))
        return builder.bitcast(builder.add(low, every(127 << 23)), _FLOATS)

    return LANES(LANES), generate
