"""A slow reference decoder, written from the Avro specification and checked against fastavro.

`judge` is the decoder. It reads one value with a separate reader and with fastavro, and asserts how the two relate: if
the reader accepts a value, fastavro reads the same from it; if only fastavro accepts a value, one of our named checks
refuses it.
"""

import io
import json
import math
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import parse_schema

from stream_app import schemas
from stream_app.records import MarkKind, Reason, Side

OURS_ALONE = {"long varint", "int range", "index range", "block size", "boolean", "left over"}
"""Checks that fastavro does not make, or makes only in part."""

DATA_TYPE = {Side.EXAMPLES: "example", Side.LABELS: "label"}

PARSED: dict[str, Any] = {name: parse_schema(json.loads(text)) for (name, _), text in schemas.sources().items()}

ValueReader = Callable[[], Any]


def pair_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401  (a schema is any JSON)
    """Return the record that an item of a map is: its name and its value."""
    return {"type": "record", "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": kind}]}


class RefusedError(Exception):
    """The verdict of the reader; the argument is the name of the check."""


class Reader:
    """Reads one record by its schema, strictly."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self.data) - self.place:
            raise RefusedError("truncated")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self) -> int:
        """Read a varint."""
        bits = 0
        for i in range(10):
            byte = self.take(1)[0]
            bits |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                break
        if byte >= 0x80 or bits >> 64:
            raise RefusedError("long varint")
        return bits >> 1 if bits % 2 == 0 else -(bits + 1 >> 1)

    def index(self, count: int) -> int:
        """Read an index into a list."""
        index = self.number()
        if not 0 <= index < count:
            raise RefusedError("index range")
        return index

    def text(self) -> str:
        """Read a string."""
        size = self.number()
        if size < 0:
            raise RefusedError("negative length")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise RefusedError("utf8") from error

    def floats(self) -> list[float]:
        """Read an array of floats."""
        found: list[float] = []
        while count := self.number():
            if count < 0:
                count = -count
                if self.number() != 4 * count:
                    raise RefusedError("block size")
            found += struct.unpack(f"<{count}f", self.take(4 * count))
        return found

    def items(self, kind: Any) -> list[Any]:  # noqa: ANN401  (a schema is any JSON)
        """Read an array of items that have a byte at least, so that a block has as many bytes as items or more."""
        found: list[Any] = []
        while count := self.number():
            size = self.number() if count < 0 else None
            if size is not None and size < -count:
                raise RefusedError("block size")
            if abs(count) > len(self.data) - self.place:
                raise RefusedError("truncated")
            start = self.place
            found += [self.value(kind) for _ in range(abs(count))]
            if size is not None and self.place - start != size:
                raise RefusedError("block size")
        return found

    def mapping(self, kind: Any) -> dict[str, Any]:  # noqa: ANN401  (a schema is any JSON)
        """Read a map: its blocks are those of an array of names and values."""
        return {one["name"]: one["value"] for one in self.items(pair_of(kind))}

    def fields(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401  (a schema is any JSON)
        """Read the fields of a record."""
        return {field["name"]: self.value(field["type"]) for field in schema["fields"]}

    def value(self, kind: Any) -> Any:  # noqa: ANN401  (a schema is any JSON)
        """Read a value of a type."""
        if isinstance(kind, list):
            return self.value(kind[self.index(len(kind))])
        if isinstance(kind, dict):
            named: dict[str, ValueReader] = {
                "enum": lambda: kind["symbols"][self.index(len(kind["symbols"]))],
                "fixed": lambda: self.take(kind["size"]),
                "record": lambda: self.fields(kind),
                "array": lambda: self.floats() if kind["items"] == "float" else self.items(kind["items"]),
                "map": lambda: self.mapping(kind["values"]),
            }
            return named[kind["type"]]()
        if kind == "int":
            number = self.number()
            if not -(2**31) <= number < 2**31:
                raise RefusedError("int range")
            return number
        if kind == "boolean":
            byte = self.take(1)[0]
            if byte > 1:
                raise RefusedError("boolean")
            return byte == 1
        readers: dict[str, ValueReader] = {
            "null": lambda: None,
            "string": self.text,
            "long": self.number,
            "float": lambda: struct.unpack("<f", self.take(4))[0],
            "double": lambda: struct.unpack("<d", self.take(8))[0],
        }
        return readers[kind]()


class Verdict(NamedTuple):
    """The verdict: `reason` is None for a good value, which has `fields`; `check` names the failed check of bytes."""

    reason: Reason | None
    check: str | None
    name: str
    fields: dict[str, Any]


def rabin(data: bytes) -> int:
    """Compute CRC-64-AVRO bit by bit, as in the specification."""
    empty = value = 0xC15D213AA4D7A795
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (empty if value & 1 else 0)
    return value


def canonical(name: str, version: int = 0) -> bytes:
    """Return the parsing canonical form of a schema (namespace areba, no aliases); version 0: the newest."""

    def form(kind: Any) -> Any:  # noqa: ANN401  (a schema is any JSON)
        if isinstance(kind, list):
            return [form(each) for each in kind]
        if not isinstance(kind, dict):
            return kind
        out: dict[str, Any] = {"name": "areba." + kind["name"]} if "name" in kind else {}
        out["type"] = kind["type"]
        if "fields" in kind:
            out["fields"] = [{"name": field["name"], "type": form(field["type"])} for field in kind["fields"]]
        out |= {key: form(kind[key]) for key in ("items", "values") if key in kind}
        return out | {key: kind[key] for key in ("symbols", "size") if key in kind}

    texts = {number: text for (known, number), text in schemas.sources().items() if known == name}
    return json.dumps(form(json.loads(texts[version or max(texts)])), separators=(",", ":")).encode()


def header_of(name: str, version: int = 0) -> bytes:
    """Return the bytes with which a value in the single-object encoding begins."""
    return b"\xc3\x01" + rabin(canonical(name, version)).to_bytes(8, "little")


HEADERS = {name: header_of(name) for name in PARSED}


def read(name: str, payload: bytes) -> tuple[str | None, dict[str, Any]]:
    """Return the failed check of a record's bytes, or None, and its fields; assert what the module's docstring says."""
    reader, check, found = Reader(payload), None, {}
    try:
        found = reader.fields(PARSED[name])
        if reader.place < len(payload):
            check = "left over"
    except RefusedError as error:
        check = error.args[0]
    stream = io.BytesIO(payload)
    try:
        theirs: Any = fastavro.schemaless_reader(stream, PARSED[name], None)
        whole = stream.tell() == len(payload)
    except (EOFError, LookupError, ValueError):
        assert check is not None, f"fastavro refuses {payload.hex()}"
        return check, {}
    if check is None:
        assert whole
        assert same(theirs, found), f"fastavro reads {theirs}, the reader {found}"
    else:
        assert check in OURS_ALONE, f"{check}: fastavro takes {payload.hex()}"
    return check, found


def same(left: Any, right: Any) -> bool:  # noqa: ANN401  (any value of a field)
    """Compare two values; NaN equals NaN."""
    return repr(left) == repr(right)


def plain(value: Any) -> Any:  # noqa: ANN401  (any value of a field)
    """Return a field of one of our records as this reader returns it."""
    if isinstance(value, MarkKind):
        return value.name.lower()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def judge(value: bytes | None, side: Side, max_record_bytes: int, max_features: int) -> Verdict:
    """Return the expected verdict on a value."""
    if value is None:
        return Verdict(None, None, "tombstone", {})
    if len(value) > max_record_bytes:
        return Verdict(Reason.TOO_LARGE, None, "", {})
    allowed = {HEADERS[name]: name for name in ("mark", DATA_TYPE[side])}
    name = allowed.get(value[:10])
    if name is None:
        return Verdict(Reason.WRONG_SCHEMA, None, "", {})
    check, fields = read(name, value[10:])
    if check:
        return Verdict(Reason.UNDECODABLE, check, name, {})
    return Verdict(meaning(name, fields, max_features), None, name, fields)


def meaning(name: str, fields: dict[str, Any], max_features: int) -> Reason | None:
    """Return what is wrong with the content of a record, or None."""
    if not 1 <= len(fields["stream"].encode()) <= 249 or not 1 <= len(fields.get("id", "x").encode()) <= 64:
        return Reason.BAD_ID
    if name == "example":
        if (fields["values"] is None) == (not fields["features"]) or len(fields["features"]) > max_features:
            return Reason.WRONG_DIMENSION
        return None if all(map(math.isfinite, fields["features"])) else Reason.NOT_FINITE
    if name == "label":
        return None if fields["label"] in {0, 1} and fields["revision"] >= 0 else Reason.BAD_LABEL
    if fields["kind"] == "advance":
        asks = fields["time_ms"] is not None and fields["time_ms"] >= 0
    elif fields["kind"] == "erase":
        asks = bool(fields["digests"]) and len(fields["digests"].encode()) % 64 == 0
    elif fields["kind"] == "decide":
        asks = has_threshold(fields["threshold_kind"], fields["threshold"])
    else:
        asks = fields["kind"] == "resume" or bool(fields["learner"])
    return None if asks else Reason.UNDECODABLE


def has_threshold(kind: str | None, number: float | None) -> bool:
    """Say whether the fields of a mark are a threshold."""
    if number is None:
        return kind in {"majority", "costs"}
    if kind == "alerts":
        return 0 < number < 1
    return kind in {"score", "probability"} and 0 <= number <= 1
