"""Values in Avro that are right or almost right, as a hostile producer would send them."""

import math
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from stream_app.records import Side
from tests.support.formats.avro_reference import DATA_TYPE, HEADERS, PARSED, pair_of


def varint(value: int, padding: int = 0) -> bytes:
    """Encode a zig-zag varint, `padding` bytes longer than necessary; values beyond 64 bits are written as they are."""
    bits = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while bits >= 0x80:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    for _ in range(padding):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


NUMBERS = (0, 1, 2, 5, -1, -2, 63, 64, 249, 250, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))
TEXTS = (
    b"",
    b"a",
    b"fraud",
    "forêt-日本-🎲".encode(),
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
)
FLOATS = (0.0, -0.0, 1.5, 1e-45, 3.4e38, math.inf, -math.inf, math.nan)


class Maker:
    """Makes values that are valid or nearly so, from a seeded generator."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator

    def number(self, good: int) -> bytes:
        """Make a number, sometimes an unusual one or in an unusual encoding."""
        draw = self.random.random()
        if draw < 0.9:
            return varint(good)
        if draw < 0.95:
            return varint(good, self.random.choice((1, 2, 8, 9, 10)))
        return varint(self.random.choice((*NUMBERS, 2**63, 2**70, -(2**64))))

    def text(self) -> bytes:
        """Make a string, sometimes an unusual one."""
        draw = self.random.random()
        if draw < 0.7:
            raw = self.random.choice(TEXTS[1:4])
        elif draw < 0.85:
            raw = b"x" * self.random.choice((63, 64, 65, 248, 249, 250))
        else:
            raw = self.random.choice(TEXTS)
        return self.number(len(raw)) + raw

    def floats(self) -> bytes:
        """Make an array, split into random blocks."""
        out = b""
        for _ in range(self.random.choice((0, 1, 1, 1, 1, 1, 2, 3))):
            count = self.random.randint(1, 6)
            odd = self.random.random() < 0.1
            raw = b"".join(
                struct.pack("<f", self.random.choice(FLOATS) if odd else self.random.gauss()) for _ in range(count)
            )
            if self.random.random() < 0.2:
                size = 4 * count if self.random.random() < 0.8 else self.random.choice(NUMBERS)
                out += self.number(-count) + self.number(size) + raw
            else:
                out += self.number(count) + raw
        return out + varint(0)

    def items(self, kind: Any) -> bytes:  # noqa: ANN401  (a schema is any JSON)
        """Make an array, split into random blocks, some with a size that may be wrong."""
        out = b""
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            count = self.random.randint(1, 3)
            raw = b"".join(self.field(kind) for _ in range(count))
            if self.random.random() < 0.2:
                size = len(raw) if self.random.random() < 0.8 else self.random.choice(NUMBERS)
                out += self.number(-count) + self.number(size) + raw
            else:
                out += self.number(count) + raw
        return out + varint(0)

    def field(self, kind: Any) -> bytes:  # noqa: ANN401  (a schema is any JSON)
        """Make a value of a type."""
        if isinstance(kind, list):
            index = self.random.randrange(len(kind))
            return self.number(index) + self.field(kind[index])
        if isinstance(kind, dict):
            named: dict[str, Callable[[], bytes]] = {
                "enum": lambda: self.number(self.random.randrange(len(kind["symbols"]))),
                "fixed": lambda: self.random.randbytes(kind["size"]),
                "record": lambda: b"".join(self.field(field["type"]) for field in kind["fields"]),
                "array": lambda: self.floats() if kind["items"] == "float" else self.items(kind["items"]),
                "map": lambda: self.items(pair_of(kind["values"])),
            }
            return named[kind["type"]]()
        if kind in {"int", "long"}:
            return self.number(self.random.choice((0, 1, 1, 1, 7, 1_700_000_000)))
        writers: dict[str, Callable[[], bytes]] = {
            "null": lambda: b"",
            "string": self.text,
            "boolean": lambda: bytes([self.random.choice((0, 1, 1, 2, 255))]),
            "float": lambda: struct.pack("<f", self.random.gauss()),
            "double": lambda: struct.pack("<d", self.random.gauss()),
        }
        return writers[kind]()

    def value(self, name: str) -> bytes:
        """Make a value of a record type, by its schema."""
        return HEADERS[name] + b"".join(self.field(field["type"]) for field in PARSED[name]["fields"])

    def spoiled(self, value: bytes) -> bytes:
        """Return the value unchanged, or with a few bytes changed, added or removed."""
        raw = bytearray(value)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 5))):
            place = self.random.randrange(len(raw) + 1)
            match self.random.randrange(5):
                case 0:
                    raw[place : place + 1] = self.random.randbytes(1)
                case 1:
                    del raw[place:]
                case 2:
                    raw[place:place] = self.random.randbytes(self.random.randint(1, 3))
                case 3:
                    del raw[place : place + self.random.randint(1, 4)]
                case 4:
                    raw[place : place + 1] = self.random.choice((b"\x80", b"\xff", b"\x00", b"\x01", b"\x7f"))
        return bytes(raw)

    def values(self, count: int, side: Side) -> Iterator[bytes | None]:
        """Yield inputs of one side as a hostile producer would send them."""
        weights = [20 if name in {DATA_TYPE[side], "mark"} else 1 for name in PARSED]
        for _ in range(count):
            draw = self.random.random()
            if draw < 0.01:
                yield None
            elif draw < 0.03:
                yield self.random.randbytes(self.random.randint(0, 40))
            else:
                yield self.spoiled(self.value(self.random.choices(list(PARSED), weights)[0]))
