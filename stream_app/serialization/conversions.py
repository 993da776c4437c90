"""Conversions of values of other writers into the bytes of our schema.

Each takes a value and a position in it, and returns bytes and the next position. It raises an `IndexError` where the
value ends too early, and an `UndecodableError` for what no writer makes, or what cannot be converted.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from struct import pack, unpack_from
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from stream_app.errors import UndecodableError
from stream_app.serialization.avro import BOOLEAN_VALUE, DOUBLE_VALUE, LONG_VALUE, NULL_VALUE, TEXT_VALUE
from stream_app.serialization.avro_skip import after, block_head, read_long, text_end
from stream_app.serialization.json_value import BAD_CLASS

Found = TypeVar("Found")
Read: TypeAlias = Callable[[bytes, int], tuple[Found, int]]
Convert: TypeAlias = Read[bytes]
ReadNumber: TypeAlias = Read[float]

_MAX_INT = 2**31 - 1

_FLOAT_BYTES, _DOUBLE_BYTES = 4, 8

_END = b"\x00"
"""The end of an array or map."""


def long_bytes(value: int) -> bytes:
    """Return a number as Avro writes it."""
    bits = value << 1 ^ value >> 63
    out = bytearray()
    while bits >= 0x80:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


_NO_INT = long_bytes(BAD_CLASS)
"""Stands for a number that cannot be a label or a revision."""


# Fields ---------------------------------------------------------------------------------------------------------------


def nothing(data: bytes, at: int) -> tuple[bytes, int]:  # noqa: ARG001  (as every `Convert`)
    """Convert null, which has no bytes, to the null of a union."""
    return b"\x00", at


def prefixed(prefix: bytes, convert: Convert) -> Convert:
    """Return a conversion with bytes before it: the index of a type in a union."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        content, at = convert(data, at)
        return prefix + content, at

    return converted


def of_union(branches: Sequence[Read[Found] | None], refusal: str = "is null") -> Read[Found]:
    """Return what reads or converts a union: that of the type which a value has; None: null, which is refused."""

    def read(data: bytes, at: int) -> tuple[Found, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(branches):
            raise UndecodableError("index range")
        branch = branches[index]
        if branch is None:
            raise UndecodableError(refusal)
        return branch(data, at)

    return read


def copy_text(data: bytes, at: int) -> tuple[bytes, int]:
    """Copy a string, or bytes that are UTF-8."""
    start, end = text_end(data, at)
    _text(data, start, end)
    return data[at:end], end


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError:
        raise UndecodableError("utf8") from None


def copy_long(data: bytes, at: int) -> tuple[bytes, int]:
    """Copy an int or a long."""
    end = read_long(data, at)[1]
    return data[at:end], end


def copy_int(data: bytes, at: int) -> tuple[bytes, int]:
    """Copy an int."""
    value, end = read_long(data, at)
    if not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise UndecodableError("int range")
    return data[at:end], end


def int_of_long(data: bytes, at: int) -> tuple[bytes, int]:
    """Convert a long to an int: a label or revision, for which -1 stands if it is too large."""
    value, end = read_long(data, at)
    return (data[at:end] if -_MAX_INT - 1 <= value <= _MAX_INT else _NO_INT), end


def int_of_boolean(data: bytes, at: int) -> tuple[bytes, int]:
    """Convert a boolean to 0 or 1."""
    return long_bytes(_boolean(data, at)), at + 1


def _boolean(data: bytes, at: int) -> int:
    if data[at] > 1:
        raise UndecodableError("boolean")
    return data[at]


def int_of_text(label_classes: Mapping[str, int]) -> Convert:
    """Return the conversion of the text of a label to its class."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        start, end = text_end(data, at)
        return long_bytes(label_classes.get(_text(data, start, end), BAD_CLASS)), end

    return converted


def enum(own: Sequence[str], symbols: Sequence[str]) -> Convert:
    """Return the conversion of an enum with these symbols to one with our own."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols) or symbols[index] not in own:
            raise UndecodableError("index range")
        return long_bytes(own.index(symbols[index])), at

    return converted


# Features -------------------------------------------------------------------------------------------------------------


def floats(data: bytes, at: int) -> tuple[bytes, int]:
    """Copy an array of floats."""
    content, at = _fixed_items(data, at, _FLOAT_BYTES)
    return _one_block(len(content) // _FLOAT_BYTES, content), at


def doubles(data: bytes, at: int) -> tuple[bytes, int]:
    """Convert an array of doubles to floats; those that are too large become infinite."""
    content, at = _fixed_items(data, at, _DOUBLE_BYTES)
    return _floats_of(array("d", content)), at


def numbers(read: ReadNumber) -> Convert:
    """Return the conversion of an array of other numbers to floats."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        found: list[float] = []
        while True:
            count, size, at = block_head(data, at)
            if count == 0:
                return _floats_of(found), at
            after(data, at, count)  # each item has a byte at least
            start = at
            for _ in range(count):
                number, at = read(data, at)
                found.append(number)
            _check_size(size, at - start)

    return converted


def _fixed_items(data: bytes, at: int, item_bytes: int) -> tuple[bytes, int]:
    """Return the bytes of the items of an array, and the next position."""
    content = b""
    while True:
        count, size, at = block_head(data, at)
        if count == 0:
            return content, at
        _check_size(size, count * item_bytes)
        end = after(data, at, count * item_bytes)
        content = content + data[at:end] if content else data[at:end]
        at = end


def _check_size(said: int, size: int) -> None:
    if said not in (-1, size):
        raise UndecodableError("block size")


def _floats_of(found: Sequence[float]) -> bytes:
    return _one_block(len(found), array("f", found).tobytes())


def _one_block(count: int, content: bytes) -> bytes:
    return long_bytes(count) + content + _END if count else _END


def float_of_long(data: bytes, at: int) -> tuple[float, int]:
    """Read an int or a long as the double next to it."""
    value, at = read_long(data, at)
    return float(value), at


def float_of_float(data: bytes, at: int) -> tuple[float, int]:
    """Read a float."""
    end = after(data, at, _FLOAT_BYTES)
    return unpack_from("<f", data, at)[0], end


def float_of_double(data: bytes, at: int) -> tuple[float, int]:
    """Read a double."""
    end = after(data, at, _DOUBLE_BYTES)
    return unpack_from("<d", data, at)[0], end


NUMBERS: Mapping[str, ReadNumber] = MappingProxyType(
    {"int": float_of_long, "long": float_of_long, "float": float_of_float, "double": float_of_double}
)
"""What reads numbers, by their types."""


def double(read: ReadNumber) -> Convert:
    """Return the conversion of a number to a double."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        number, at = read(data, at)
        return pack("<d", number), at

    return converted


# Values by column -----------------------------------------------------------------------------------------------------


def map_of(convert: Convert) -> Convert:
    """Return the conversion of a map whose values have this conversion."""

    def converted(data: bytes, at: int) -> tuple[bytes, int]:
        parts: list[bytes] = []
        total = 0
        while True:
            count, size, at = block_head(data, at)
            if count == 0:
                return (long_bytes(total) + b"".join(parts) if total else b"") + _END, at
            after(data, at, count)  # each name has a byte at least
            start = at
            for _ in range(count):
                name, at = copy_text(data, at)
                content, at = convert(data, at)
                parts += (name, content)
            total += count
            _check_size(size, at - start)

    return converted


def _column_boolean(data: bytes, at: int) -> tuple[bytes, int]:
    return bytes([2 * BOOLEAN_VALUE, _boolean(data, at)]), at + 1


def _column_float(data: bytes, at: int) -> tuple[bytes, int]:
    number, at = float_of_float(data, at)
    return bytes([2 * DOUBLE_VALUE]) + pack("<d", number), at


def _column_double(data: bytes, at: int) -> tuple[bytes, int]:
    end = after(data, at, _DOUBLE_BYTES)
    return bytes([2 * DOUBLE_VALUE]) + data[at:end], end


def _column_null(data: bytes, at: int) -> tuple[bytes, int]:  # noqa: ARG001  (as every `Convert`)
    return bytes([2 * NULL_VALUE]), at


_column_text = prefixed(bytes([2 * TEXT_VALUE]), copy_text)

COLUMN_VALUES: Mapping[str, Convert] = MappingProxyType({
    "null": _column_null,
    "boolean": _column_boolean,
    "int": prefixed(bytes([2 * LONG_VALUE]), copy_int),
    "long": prefixed(bytes([2 * LONG_VALUE]), copy_long),
    "float": _column_float,
    "double": _column_double,
    "string": _column_text,
    "bytes": _column_text,
})  # fmt: skip
"""The conversions of the value of a column, by their types."""
