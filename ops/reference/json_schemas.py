"""The JSON Schemas (draft 2020-12) of the public records, made from their Avro schemas."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream_app import schemas
from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES
from stream_app.serialization.public_types import PUBLIC_TYPES

FOLDER = Path(__file__).parents[2] / "schemas"

_TYPES: Mapping[str, Mapping[str, Any]] = {
    "null": {"type": "null"},
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {"type": "number"},
    "double": {"type": "number"},
}

_TEXTS = {"stream": MAX_STREAM_BYTES, "id": MAX_ID_BYTES}
"""The fields that are never empty, and the most characters that their bytes can be."""

_CLASS = {"anyOf": [{"enum": [0, 1, True, False]}, {"type": "string"}]}
"""The value of a label; what texts mean is configured."""


def files() -> Mapping[Path, str]:
    """Return the files and what they should contain."""
    return dict(_files())


def _files() -> Iterator[tuple[Path, str]]:
    public = {record.__name__.lower() for record in PUBLIC_TYPES}
    for (name, version), text in schemas.sources().items():
        if name in public:
            schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_record(json.loads(text))}
            yield FOLDER / f"{name}.v{version}.schema.json", json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _record(avro: Mapping[str, Any]) -> dict[str, Any]:
    fields = avro["fields"]
    return {
        "title": avro["name"],
        "description": avro["doc"],
        "type": "object",
        "properties": {field["name"]: _field(avro["name"], field) for field in fields},
        "required": [field["name"] for field in fields if "default" not in field],
        "additionalProperties": False,
    }


def _field(record: str, field: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (
        dict(_CLASS) if (record, field["name"]) == ("Label", "label") else dict(_type(field["type"]))
    )
    if field["name"] in _TEXTS:
        found |= {"minLength": 1, "maxLength": _TEXTS[field["name"]]}
    if (record, field["name"]) == ("Label", "revision"):
        found["minimum"] = 0
    default = {"default": field["default"]} if "default" in field else {}
    return {"description": field["doc"], **found, **default}


def _type(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401  (a type in a schema)
    match kind:
        case str():
            return _TYPES[kind]
        case list():
            return {"anyOf": [_type(one) for one in kind]}
        case {"type": "enum", "symbols": symbols}:
            return {"enum": symbols}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": _type(items)}
        case {"type": "map", "values": values}:
            return {"type": "object", "additionalProperties": _type(values)}
        case _:
            return _record(kind)
