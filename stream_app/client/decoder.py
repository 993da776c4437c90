"""Decode single values without compiled code.

The decoder of the workers also refuses bytes that no writer makes, such as a number that takes more bytes than it
needs. Here fastavro alone decides: the topics that subscribers read hold what a worker has written.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from stream_app import schemas
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction
from stream_app.serialization.json_value import read_json
from stream_app.serialization.one_value import read_one
from stream_app.serialization.public_types import PublicRecord

PUBLIC_TYPES: Mapping[str, type[PublicRecord]] = MappingProxyType(
    {record.__name__.lower(): record for record in (Example, Label, Mark, Prediction, Outcome, Metric)}
)

MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
"""Length of `MAGIC` and the fingerprint (Avro's single-object encoding)."""

CONFLUENT_MAGIC = b"\x00"
CONFLUENT_HEADER_BYTES = 5
"""Length of `CONFLUENT_MAGIC` and the schema id (Confluent's wire format)."""


class _Schema(NamedTuple):
    record: type[PublicRecord]
    parsed: Any


@cache
def known_schemas() -> Mapping[bytes, _Schema]:
    """Return the schemas of all public record types by the first bytes of their values."""
    found = {}
    for (name, _), text in schemas.sources().items():
        if name in PUBLIC_TYPES:
            source = json.loads(text)
            found[_header(source)] = _Schema(PUBLIC_TYPES[name], parse_schema(source))
    return MappingProxyType(found)


def _header(source: Any) -> bytes:  # noqa: ANN401  (a schema in plain data)
    return MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(source), "CRC-64-AVRO"))


def decode(value: bytes) -> PublicRecord:
    """Return the record of a value of the topics `predictions`, `outcomes`, `metrics`, `examples` or `labels`.

    A value is a single object in Avro, or an object in JSON.

    Raises:
        WrongSchemaError: The value does not begin with the fingerprint of a schema of this version.
        UndecodableError: The rest is not a record of that schema, or bytes are left over.
    """
    if value.startswith(b"{"):
        return read_json(value)
    schema = known_schemas().get(value[:HEADER_BYTES])
    if schema is None:
        text = f"unknown schema: the value begins with {value[:HEADER_BYTES].hex() or 'nothing'}"
        is_confluent = value.startswith(CONFLUENT_MAGIC) and len(value) >= CONFLUENT_HEADER_BYTES
        raise WrongSchemaError(f"{text}; looks like Confluent's wire format" if is_confluent else text)
    return _read(schema, value, HEADER_BYTES)


class ConfluentDecoder:
    """Decodes values in Confluent's wire format: a zero byte, a schema id, and the record.

    Args:
        schema_text: Returns the schema of an id as JSON; called once for each id. With confluent-kafka's
            `SchemaRegistryClient`: `lambda schema_id: registry.get_schema(schema_id).schema_str`.
    """

    def __init__(self, schema_text: Callable[[int], str]) -> None:
        self._schema_text = schema_text
        self._known: dict[int, _Schema] = {}

    def decode(self, value: bytes) -> PublicRecord:
        """Return the record of a value, as the function `decode` does.

        Raises:
            WrongSchemaError: The value has another format, or its schema is not one of this version.
            UndecodableError: The rest is not a record of that schema, or bytes are left over.
        """
        if not value.startswith(CONFLUENT_MAGIC) or len(value) < CONFLUENT_HEADER_BYTES:
            text = f"no schema id: the value begins with {value[:CONFLUENT_HEADER_BYTES].hex() or 'nothing'}"
            is_single_object = value.startswith(MAGIC)
            raise WrongSchemaError(f"{text}; looks like Avro single-object encoding" if is_single_object else text)
        schema_id = int.from_bytes(value[len(CONFLUENT_MAGIC) : CONFLUENT_HEADER_BYTES], "big")
        schema = self._known.get(schema_id)
        if schema is None:
            source = json.loads(self._schema_text(schema_id))
            if isinstance(source, dict) and source.get("type") == "object":  # a JSON Schema: fields name the record
                return read_json(value[CONFLUENT_HEADER_BYTES:])
            schema = known_schemas().get(_header(source))
            if schema is None:
                raise WrongSchemaError(f"unknown schema: id {schema_id} is not one of this version's schemas")
            self._known[schema_id] = schema
        return _read(schema, value, CONFLUENT_HEADER_BYTES)


def _read(schema: _Schema, value: bytes, start: int) -> PublicRecord:
    record, end = read_one(schema.record, schema.parsed, value, start)
    if end != len(value):
        raise UndecodableError(f"{schema.record.__name__}: bytes are left over")
    return record
