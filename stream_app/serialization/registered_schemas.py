"""The schemas that a registry has under ids: ours, apart from comments, or those of other writers; pure."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from stream_app import schemas
from stream_app.serialization.avro import MAGIC, Schema, catalogue
from stream_app.serialization.wire_format import WireFormat, name_of
from stream_app.serialization.writer_schema import MAX_SCHEMAS_BYTES

_MAX_NEW_IDS = 100
"""Schema ids that are looked up for one batch: a producer of garbage must not keep a worker busy with lookups."""

_ENTRY_BYTES = 100
"""What each schema of another writer counts beyond its text."""


class Registered(NamedTuple):
    """What a registry has under a schema id: one of the application's schemas, or that of another writer.

    Attributes:
        name: The name of the application's schema, such as `example.v1`; empty: it is another writer's.
        text: Of another writer's schema, what is kept of it (see `writer_schema`); empty: it cannot be used.
    """

    name: str
    text: str = ""


def size_of(writer_schemas: Mapping[str, str]) -> int:
    """Return what schemas of other writers count for `MAX_SCHEMAS_BYTES`."""
    return sum(map(len, writer_schemas.values())) + _ENTRY_BYTES * len(writer_schemas)


class NewSchemas(NamedTuple):
    """Schema ids that a format does not have: the application's, by the names of their schemas, and other writers'."""

    ids: Mapping[str, Sequence[int]]
    writers: Mapping[str, str]


def new_schemas(
    values: Iterable[bytes | None],
    wire_format: WireFormat,
    registered: Callable[[Sequence[int]], Mapping[int, Registered] | None],
    kept_bytes: int = 0,
) -> NewSchemas | None:
    """Return the new schemas with whose ids values begin; None while the registry does not answer.

    Args:
        values: Values that were refused for their schema.
        wire_format: The format by which they were read.
        registered: Returns what the registry has under those of some ids that it knows; None: it does not answer.
        kept_bytes: The size of all other writers' schemas so far; with more than `MAX_SCHEMAS_BYTES`, no further schema
            is accepted.
    """
    unknown = map(wire_format.unknown_id, values)
    ids = dict.fromkeys(schema_id for schema_id in unknown if schema_id is not None)
    found = registered(list(ids)[:_MAX_NEW_IDS]) if ids else {}
    if found is None:
        return None
    own: dict[str, list[int]] = {}
    writers: dict[str, str] = {}
    for schema_id, (name, text) in found.items():
        if name:
            own.setdefault(name, []).append(schema_id)
        elif kept_bytes + size_of({str(schema_id): text}) <= MAX_SCHEMAS_BYTES:
            writers[str(schema_id)] = text
            kept_bytes += size_of({str(schema_id): text})
    return NewSchemas(own, writers)


def schema_in(text: str) -> Schema | None:
    """Return the application's schema whose parsing canonical form a schema in JSON has; None: no schema has it."""
    try:
        digest = fingerprint(to_parsing_canonical_form(parse_schema(json.loads(text))), "CRC-64-AVRO")
    except Exception:  # noqa: BLE001  (any text: if the parser fails, the schema is not the application's)
        return None
    return catalogue().get(MAGIC + bytes.fromhex(digest))


def json_schema_in(text: str) -> Schema | None:
    """Return the schema of the application whose JSON Schema a text is, but for comments; None: it is no such text."""
    try:
        content = _without_comments(json.loads(text))
    except (ValueError, RecursionError):
        return None
    known = {name_of(schema): schema for schema in catalogue().values()}
    for (name, version), own in schemas.json_sources().items():
        if _without_comments(json.loads(own)) == content:
            return known[f"{name}.v{version}"]
    return None


_COMMENTS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})


def _without_comments(schema: object) -> object:
    """Return a JSON Schema without what does not decide about values; the names of fields are no comments."""
    if isinstance(schema, list):
        return [_without_comments(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_comments(one) for name, one in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _without_comments(value)
        for key, value in schema.items()
        if key not in _COMMENTS
    }
