"""Encode and decode one record at a time, of any type.

For tools, tests, and the few records of a batch that have no columns. The stages use `decode` and `encode`, which take
batches. All of them share the checks in `avro`, so that they accept the same bytes.
"""

import io
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import fastavro
import numpy as np

from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Mark
from stream_app.serialization.avro import HEADER_BYTES, Check, Record, catalogue, newest, walk
from stream_app.serialization.one_value import read_one


def encode(record: Record) -> bytes:
    """Return the value of a record, written with the newest schema of its type. What the record says is not checked.

    Raises:
        ValueError: A number is too large for its field, or a text or symbol cannot be written.
        TypeError: A field has the wrong type.
    """
    schema = newest()[type(record)]
    out = io.BytesIO()
    out.write(schema.header)
    fastavro.schemaless_writer(out, schema.parsed, _plain(record))
    value = out.getvalue()
    failed = walk(np.frombuffer(bytearray(value), np.uint8), HEADER_BYTES, schema.layout)
    if failed:
        raise ValueError(f"{type(record).__name__} cannot be written: {Check(failed).text}")
    return value


def decode_one(value: bytes) -> Record:
    """Return the record of a value, of any record type. What the record says is not checked.

    Raises:
        WrongSchemaError: The value does not begin with the fingerprint of a schema of this package.
        UndecodableError: The rest is not a record of that schema, or bytes are left over.
    """
    schema = catalogue().get(value[:HEADER_BYTES])
    if schema is None:
        raise WrongSchemaError(f"unknown schema: the value begins with {value[:HEADER_BYTES].hex() or 'nothing'}")
    failed = walk(np.frombuffer(bytearray(value), np.uint8), HEADER_BYTES, schema.layout)
    if failed:
        raise UndecodableError(f"{schema.record.__name__}: {Check(failed).text}")
    record, end = read_one(schema.record, schema.parsed, value, HEADER_BYTES)
    if end != len(value):
        raise UndecodableError(f"{schema.record.__name__}: {Check.LEFT_OVER.text}")
    return record


def decode_many(values: Iterable[bytes]) -> list[Record]:
    """Return the records of many values, for tools; raise the errors of `decode_one`."""
    return [decode_one(value) for value in values]


def _plain(record: Record) -> dict[str, Any]:
    """Return the fields in the form that fastavro writes."""
    plain = {field.name: getattr(record, field.name) for field in fields(record)}
    if isinstance(record, Example):
        plain["features"] = [float(value) for value in record.features]
    elif isinstance(record, Mark):
        plain["kind"] = record.kind.name.lower()
    return plain
