"""Schemas of other writers, and values that they write."""

import io
import json
import random
from collections.abc import Sequence
from typing import Any

import fastavro

from stream_app.records import Side
from stream_app.serialization.decode import DecodeLimits
from stream_app.serialization.wire_format import WireFormat, confluent
from stream_app.serialization.writer_schema import kept_text
from tests.support.formats.wire_formats import SCHEMA_IDS

WRITER_ID = 70_001

PAYMENT: dict[str, Any] = {
    "type": "record",
    "name": "Payment",
    "namespace": "com.bank",
    "doc": "A payment, as the bank's own services write it.",
    "fields": [
        {"name": "booked", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "features", "type": {"type": "array", "items": "double"}, "doc": "amounts"},
        {"name": "shop", "type": {"type": "record", "name": "Shop", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "previous", "type": ["null", "Shop"], "default": None},
        {"name": "stream", "type": "string"},
    ],
}
"""Doubles in another order, a nullable id, and fields that nobody needs."""

CHARGEBACK: dict[str, Any] = {
    "type": "record",
    "name": "com.bank.Chargeback",
    "fields": [
        {"name": "label", "type": "boolean"},
        {"name": "id", "type": ["string", "null"]},
        {"name": "stream", "type": "string"},
    ],
}


def record(*fields: tuple[str, Any], name: str = "com.bank.Payment") -> dict[str, Any]:
    """Return a record schema."""
    return {"type": "record", "name": name, "fields": [{"name": own, "type": kind} for own, kind in fields]}


def format_with(schema: object, label_classes: dict[str, int] | None = None) -> WireFormat:
    """Return Confluent's format with a writer's schema under `WRITER_ID`."""
    text = kept_text(schema if isinstance(schema, str) else json.dumps(schema))
    return confluent(SCHEMA_IDS, {str(WRITER_ID): text}, label_classes or {})


def limits_with(schema: object, label_classes: dict[str, int] | None = None) -> DecodeLimits:
    """Return the limits of a decoder for values of a writer's schema."""
    return DecodeLimits(wire_format=format_with(schema, label_classes))


def headed(body: bytes, schema_id: int = WRITER_ID) -> bytes:
    """Return a value in Confluent's format."""
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def written(schema: Any, content: Any, schema_id: int = WRITER_ID) -> bytes:  # noqa: ANN401  (any schema and value)
    """Return what a writer with a schema sends."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), content)
    return headed(out.getvalue(), schema_id)


_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NUMBERS: Sequence[Any] = ("float", "double", "int", "long", ["null", "double"], ["float", "null"])
_CELLS: Sequence[Any] = (
    "double", "float", "int", "long", "string", "bytes", "boolean", ["null", "double"], ["long", "null"],
    ["null", "boolean", "long", "double", "string"],
)  # fmt: skip
_TEXTS: Sequence[Any] = ("string", "bytes", ["null", "string"], ["string", "null"])


def random_schema(draw: random.Random, side: Side) -> dict[str, Any]:
    """Return a schema that resolves to ours: in any order, promoted, nullable, with fields of its own."""
    fields: list[tuple[str, Any]] = [("stream", draw.choice(_TEXTS)), ("id", draw.choice(_TEXTS))]
    if side is Side.LABELS:
        fields.append(("label", draw.choice(("int", ["null", "int"]))))
        fields += [("revision", draw.choice(("int", ["int", "null"])))] if draw.random() < 0.5 else []
    elif draw.random() < 0.6:
        fields.append(("features", {"type": "array", "items": draw.choice(_NUMBERS)}))
    else:
        cells = {"type": "map", "values": draw.choice(_CELLS)}
        fields.append(("values", draw.choice((cells, ["null", cells]))))
    names = [f"own{number}" for number in range(draw.randrange(5))]
    fields += [(name, _any_type(draw, f"{name}T", 0)) for name in names]
    draw.shuffle(fields)
    return record(*fields, name=draw.choice(("Payment", "com.bank.Payment", "areba.Example")))


def _any_type(draw: random.Random, name: str, depth: int) -> Any:  # noqa: ANN401  (any type)
    kind = draw.randrange(8 if depth < 3 else 3)
    if kind == 3:
        return {"type": "array", "items": _any_type(draw, f"{name}I", depth + 1)}
    if kind == 4:
        return {"type": "map", "values": _any_type(draw, f"{name}V", depth + 1)}
    if kind == 5:
        own = [(f"f{number}", _any_type(draw, f"{name}{number}", depth + 1)) for number in range(draw.randrange(3))]
        return record(*own, name=name)
    if kind == 6:
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}
    if kind == 7:
        return {"type": "fixed", "name": name, "size": draw.randrange(4)}
    return draw.choice(_PRIMITIVES) if kind else ["null", draw.choice(_PRIMITIVES[1:])]


def random_value(draw: random.Random, kind: Any, nulls: float = 0.1) -> Any:  # noqa: ANN401, PLR0911  (any type)
    """Return a value of a type; a union holds null with this probability."""
    match kind:
        case list():
            others = [one for one in kind if one != "null"]
            return None if draw.random() < nulls else random_value(draw, draw.choice(others))
        case {"type": "array", "items": items}:
            return [random_value(draw, items, nulls / 10) for _ in range(draw.randrange(1, 5))]
        case {"type": "map", "values": values}:
            return {name: random_value(draw, values) for name in draw.sample(("a", "ö", "c", "d"), 3)}
        case {"type": "record", "fields": fields}:
            return {field["name"]: random_value(draw, field["type"], nulls) for field in fields}
        case {"type": "enum", "symbols": symbols}:
            return draw.choice(symbols)
        case {"type": "fixed", "size": size}:
            return draw.randbytes(size)
    texts = ("a", "é", "日本", "")
    return {
        "null": None,
        "boolean": draw.random() < 0.5,
        "int": draw.choice((0, 1, -1, 2**31 - 1, -(2**31))),
        "long": draw.choice((0, 1, -1, 300, 2**63 - 1, -(2**63))),
        "float": draw.choice((0.0, -0.5, 2.0**100)),
        "double": draw.choice((0.1, -2.5, 1e300, 1e-300)),
        "bytes": draw.choice(texts).encode(),
        "string": draw.choice(texts),
    }[kind]
