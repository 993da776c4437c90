"""Decode single values without compiled code.

The decoder of the workers also refuses bytes that no writer makes, such as a number that takes more bytes than it
needs. Here fastavro alone decides: the topics that subscribers read hold what a worker has written.
"""

import json
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

import schemas
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Label, Mark, Metric, Outcome, Prediction
from stream_app.serialization.one_value import read_one

PublicRecord: TypeAlias = Example | Label | Mark | Prediction | Outcome | Metric

PUBLIC_TYPES: Mapping[str, type[PublicRecord]] = MappingProxyType(
    {record.__name__.lower(): record for record in (Example, Label, Mark, Prediction, Outcome, Metric)}
)

MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
"""Length of `MAGIC` and the fingerprint (Avro's single-object encoding)."""


class _Schema(NamedTuple):
    record: type[PublicRecord]
    parsed: Any


@cache
def _schemas() -> Mapping[bytes, _Schema]:
    """Return the schemas of all public record types by the first bytes of their values."""
    found = {}
    for (name, _), text in schemas.sources().items():
        if name in PUBLIC_TYPES:
            source = json.loads(text)
            crc = fingerprint(to_parsing_canonical_form(source), "CRC-64-AVRO")
            found[MAGIC + bytes.fromhex(crc)] = _Schema(PUBLIC_TYPES[name], parse_schema(source))
    return MappingProxyType(found)


def decode(value: bytes) -> PublicRecord:
    """Return the record of a value of the topics `predictions`, `outcomes`, `metrics`, `examples` or `labels`.

    Raises:
        WrongSchemaError: The value does not begin with the fingerprint of a schema of this version.
        UndecodableError: The rest is not a record of that schema, or bytes are left over.
    """
    schema = _schemas().get(value[:HEADER_BYTES])
    if schema is None:
        raise WrongSchemaError(f"unknown schema: the value begins with {value[:HEADER_BYTES].hex() or 'nothing'}")
    record, end = read_one(schema.record, schema.parsed, value, HEADER_BYTES)
    if end != len(value):
        raise UndecodableError(f"{schema.record.__name__}: bytes are left over")
    return record
