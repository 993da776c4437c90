"""Write one record as JSON by its schema."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from stream_app.records import Example, Label, Mark
from stream_app.serialization.json_value import field_types
from stream_app.serialization.public_types import PublicRecord

_PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def write_json(record: PublicRecord) -> bytes:
    """Return a record as JSON: fields in the order of the schema, no spaces, numbers in their shortest form.

    Of examples, labels and marks, fields that have their defaults are left out.

    Raises:
        ValueError: A number is not finite, or a text has half of a surrogate pair.
        TypeError: A field has the wrong type.
    """
    kind: Any = type(record)
    types, leaves_out = field_types(kind.__name__.lower()), isinstance(record, Example | Label | Mark)
    defaults = {field.name: field.default for field in fields(kind)} if leaves_out else {}
    given: dict[str, Any] = {name: getattr(record, name) for name in types}
    if isinstance(record, Mark):
        given["kind"] = record.kind.name.lower()
    written = {name: value for name, value in given.items() if not leaves_out or not _is_default(value, defaults[name])}
    return _object_text(types, written).encode()


def _is_default(value: Any, default: object) -> bool:  # noqa: ANN401  (any value of a field)
    return len(value) == 0 if default == () else bool(value == default)


def _object_text(types: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    return "{" + ",".join([f'"{name}":{_text_of(types[name], value)}' for name, value in values.items()]) + "}"


def _text_of(  # noqa: PLR0911  (a case for each type)
    kind: Any,  # noqa: ANN401  (a type in a schema)
    value: Any,  # noqa: ANN401  (a value of the type)
) -> str:
    match kind:
        case ["null", other]:
            return "null" if value is None else _text_of(other, value)
        case {"type": "array", "items": items}:
            return "[" + ",".join([_text_of(items, one) for one in value]) + "]"
        case {"type": "record", "fields": own}:
            types = {field["name"]: field["type"] for field in own}
            return _object_text(types, {name: getattr(value, name) for name in types})
        case {"type": "map", "values": values}:
            return "{" + ",".join([f"{text_of(name)}:{_text_of(values, one)}" for name, one in value.items()]) + "}"
        case "float":
            return float_text(value)
        case "int" | "long":
            return str(int(value))
        case _:
            return _PLAIN.encode(value)


def text_of(text: str) -> str:
    """Return a text as JSON."""
    return _PLAIN.encode(text)


def float_text(value: float) -> str:
    """Return the shortest text that is this float32 again.

    Raises:
        ValueError: It is not finite.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written as JSON")
    return str(np.float32(value))
