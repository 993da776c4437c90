"""Calls of C functions by address, from compiled code.

The addresses are arguments, so the compiled code is the same for every process and stays in the cache.
"""

from typing import Any

from stream_app.jit.memory import Generator, Typing, intrinsic

# isort: split
from llvmlite import ir
from numba.core import cgutils, types

_raw_memcpy: Any = cgutils.raw_memcpy


def _call(returned: Typing, address: Typing, arguments: tuple[Typing, ...]) -> tuple[Typing, Generator]:
    """Write the call of a function whose arguments are integers of 64 bits or pointers."""

    def generate(context: Typing, builder: Typing, signature: Typing, values: Typing) -> Typing:
        word = ir.IntType(64)
        kind = ir.FunctionType(context.get_value_type(signature.return_type), [word] * len(arguments))
        return builder.call(builder.inttoptr(values[0], kind.as_pointer()), list(values[1:]))

    return returned(address, *[types.int64] * len(arguments)), generate


@intrinsic
def call_with_one(_typing: Typing, address: Typing, one: Typing) -> tuple[Typing, Generator]:
    """`call_with_one(address, a)`: call a function of one word that returns a word, or nothing of interest."""
    return _call(types.int64, address, (one,))


@intrinsic
def call_with_two(_typing: Typing, address: Typing, one: Typing, two: Typing) -> tuple[Typing, Generator]:
    """`call_with_two(address, a, b)`: call a function of two words that returns a word."""
    return _call(types.int64, address, (one, two))


@intrinsic
def call_with_three(
    _typing: Typing, address: Typing, one: Typing, two: Typing, three: Typing
) -> tuple[Typing, Generator]:
    """`call_with_three(address, a, b, c)`: call a function of three words that returns a word."""
    return _call(types.int64, address, (one, two, three))


@intrinsic
def code_of_two(_typing: Typing, address: Typing, one: Typing, two: Typing) -> tuple[Typing, Generator]:
    """`code_of_two(address, a, b)`: call a function of two words that returns an int of C."""
    return _call(types.int32, address, (one, two))


@intrinsic
def code_of_five(
    _typing: Typing, address: Typing, one: Typing, two: Typing, three: Typing, four: Typing, five: Typing
) -> tuple[Typing, Generator]:
    """`code_of_five(address, a, b, c, d, e)`: call a function of five words that returns an int of C."""
    return _call(types.int32, address, (one, two, three, four, five))


@intrinsic
def copy_bytes(_typing: Typing, _target: Typing, _source: Typing, _count: Typing) -> tuple[Typing, Generator]:
    """`copy_bytes(target, source, n)`: copy n bytes from one address to another; they must not overlap."""

    def generate(context: Typing, builder: Typing, _signature: Typing, arguments: Typing) -> Any:  # noqa: ANN401
        pointer = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, pointer) for address in arguments[:2])
        _raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate
