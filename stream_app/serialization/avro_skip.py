"""Pass over values of any Avro schema in Python, for the fields of other writers that are not needed.

A value is hostile until it was read: no loop has more turns than the value has bytes, nothing is reserved for a size
that a value only claims, and records that contain themselves have a bounded depth. Bytes that are passed over are not
checked: nobody reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from stream_app.errors import UndecodableError

MAX_NESTED = 64
"""Most records, arrays, maps and unions that a value may have in one another."""

Skip: TypeAlias = Callable[[bytes, int, int], int]
"""Takes a value, a position in it and the depth there, and returns the next position."""

_SIZES: Mapping[str, int] = MappingProxyType({"boolean": 1, "float": 4, "double": 8})


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the next position.

    Raises:
        IndexError: The value ends inside of the number.
        UndecodableError: It has more than 64 bits.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at
    bits, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            raise UndecodableError("long varint")
        bits |= (byte & 0x7F) << shift
        shift += 7
    return bits >> 1 ^ -(bits & 1), at


def after(data: bytes, at: int, size: int) -> int:
    """Return the position after this many bytes; raise an `UndecodableError` if the value has not so many."""
    if size > len(data) - at:
        raise UndecodableError("truncated")
    return at + size


def text_end(data: bytes, at: int) -> tuple[int, int]:
    """Return where the bytes of a string begin and end."""
    size, at = read_long(data, at)
    if size < 0:
        raise UndecodableError("negative length")
    return at, after(data, at, size)


def block_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the number of items of a block (0: the end), its bytes (-1: not said), and the next position."""
    count, at = read_long(data, at)
    if count >= 0:
        return count, -1, at
    size, at = read_long(data, at)
    if size < 0:
        raise UndecodableError("block size")
    after(data, at, size)
    return -count, size, at


class Skips:
    """What passes over the types of a schema.

    Args:
        root: A record, as `writer_schema.kept_text` has it.

    Attributes:
        named: The types with a name.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.named: dict[str, Mapping[str, Any]] = {}
        self._made: dict[str, Skip | None] = {}
        self.of(root)  # in this order, a name is made before it is used

    def of(self, kind: Any) -> Skip | None:  # noqa: ANN401, PLR0911  (a type in a schema, a case for each)
        """Return what passes over a value of a type; None: it has no bytes."""
        match kind:
            case "null":
                return None
            case "int" | "long":
                return _skip_long
            case "string" | "bytes" | {"type": "bytes"}:
                return _skip_text
            case str() if kind in _SIZES:
                return _skip_bytes(_SIZES[kind])
            case str():
                return self._made[kind]
            case list():
                return _skip_union([self.of(one) for one in kind])
            case {"type": "array", "items": items}:
                return _skip_blocks(self.of(items), _size_of(items))
            case {"type": "map", "values": values}:
                return _skip_blocks(_skip_in_turn([_skip_text, self.of(values)]), 0)
        return self._of_named(kind)

    def _of_named(self, kind: Mapping[str, Any]) -> Skip | None:
        name = kind["name"]
        if name in self._made:
            return self._made[name]
        self.named[name] = kind
        match kind:
            case {"type": "enum"}:
                self._made[name] = _skip_long
            case {"type": "fixed", "size": size}:
                self._made[name] = _skip_bytes(size) if size else None
            case {"fields": fields}:
                made: list[Skip | None] = []

                def itself(data: bytes, at: int, depth: int) -> int:
                    skip = made[0]
                    return at if skip is None else skip(data, at, depth)

                self._made[name] = itself
                made.append(_skip_in_turn([self.of(field["type"]) for field in fields]))
                self._made[name] = made[0]
        return self._made[name]


def _size_of(kind: object) -> int:
    """Return the bytes of each value of a type; 0: they differ."""
    return _SIZES.get(kind, 0) if isinstance(kind, str) else 0


def _skip_long(data: bytes, at: int, depth: int) -> int:  # noqa: ARG001  (as every `Skip`)
    return read_long(data, at)[1]


def _skip_text(data: bytes, at: int, depth: int) -> int:  # noqa: ARG001  (as every `Skip`)
    return text_end(data, at)[1]


def _skip_bytes(size: int) -> Skip:
    def skip(data: bytes, at: int, depth: int) -> int:  # noqa: ARG001  (as every `Skip`)
        return after(data, at, size)

    return skip


def _deeper(depth: int) -> int:
    if depth >= MAX_NESTED:
        raise UndecodableError("nested too deeply")
    return depth + 1


def _skip_union(branches: Sequence[Skip | None]) -> Skip:
    def skip(data: bytes, at: int, depth: int) -> int:
        index, at = read_long(data, at)
        if not 0 <= index < len(branches):
            raise UndecodableError("index range")
        branch = branches[index]
        return at if branch is None else branch(data, at, _deeper(depth))

    return skip


def _skip_in_turn(parts: Sequence[Skip | None]) -> Skip | None:
    skips = [part for part in parts if part is not None]
    if not skips:
        return None

    def skip(data: bytes, at: int, depth: int) -> int:
        depth = _deeper(depth)
        for part in skips:
            at = part(data, at, depth)
        return at

    return skip


def _skip_blocks(item: Skip | None, size_of_item: int) -> Skip:
    def skip(data: bytes, at: int, depth: int) -> int:
        depth = _deeper(depth)
        while True:
            count, size, at = block_head(data, at)
            if count == 0:
                return at
            if size >= 0:
                at += size
            elif size_of_item:
                at = after(data, at, count * size_of_item)
            elif item is not None:
                after(data, at, count)  # each item has a byte at least
                for _ in range(count):
                    at = item(data, at, depth)

    return skip
