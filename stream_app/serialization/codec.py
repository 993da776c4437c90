"""Encode and decode one record at a time, of any type.

For tools, tests, and the few records of a batch that have no columns. The stages use `decode` and `encode`, which take
batches. All of them share the checks in `avro`, so that they accept the same bytes. Without a `WireFormat`, values are
single objects.
"""

import io
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from typing import Any

import fastavro

from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Label, Mark, Side
from stream_app.serialization.avro import MAGIC, Check, Record
from stream_app.serialization.json_text import write_json
from stream_app.serialization.json_value import read_json
from stream_app.serialization.layout import failed_check
from stream_app.serialization.one_value import read_one
from stream_app.serialization.public_types import INPUT_TYPES, PUBLIC_TYPES, PublicRecord
from stream_app.serialization.sender_checks import checked
from stream_app.serialization.wire_format import WireFormat, single_object


def encode(record: Record, wire_format: WireFormat | None = None) -> bytes:
    """Return the value of a record, written with the schema of the format.

    Of what a sender writes (`Example`, `Label`, `Mark`), every value is checked: nothing is converted silently.

    Raises:
        ValueError: A sender may not say this; see `sender_checks`. Or see `encode_unchecked`.
        TypeError: A field has the wrong type.
        ConfigurationError: The format has no id for this schema.
    """
    sent = checked(record) if isinstance(record, Example | Label | Mark) else record
    return encode_unchecked(sent, wire_format)


def encode_unchecked(record: Record, wire_format: WireFormat | None = None) -> bytes:
    """Do what `encode` does, without a look at what the record says: for tests, and for what is known to be sound.

    Raises:
        ValueError: A number is too large for its field, or a text or symbol cannot be written.
        TypeError: A field has the wrong type.
        ConfigurationError: The format has no id for this schema.
    """
    own = wire_format or single_object()
    if own.json is not None and isinstance(record, PublicRecord):
        return own.header(type(record)) + write_json(record)
    header = own.header(type(record))
    schema = own.schemas[header]
    out = io.BytesIO()
    out.write(header)
    fastavro.schemaless_writer(out, schema.parsed, _plain(record))
    value = out.getvalue()
    if failed := failed_check(value, len(header), schema):
        raise ValueError(f"{type(record).__name__} cannot be written: {failed.text}")
    return value


def decode_one(value: bytes, wire_format: WireFormat | None = None) -> Record:
    """Return the record of a value, of any record type. What the record says is not checked.

    A tool reads the application's own topics, too, so single objects are read whatever the format is.

    Raises:
        WrongSchemaError: The value does not begin with the header of a schema of this package.
        UndecodableError: The rest is not a record of that schema, or bytes are left over.
    """
    own = wire_format or single_object()
    if own.json is not None and not value.startswith(MAGIC):
        types, content = own.json_of(value, PUBLIC_TYPES)
        return read_json(content, types, own.json.label_classes)
    for side in Side if any(own.writers) else ():
        writer = own.writer_of(value, side)
        if writer is not None and (not writer.refusal or side is Side.LABELS):
            return decode_one(own.own_value(value, side))
    schema, start = own.schema_of(value), own.header_bytes
    if schema is None and own is not single_object():
        schema, start = single_object().schema_of(value), single_object().header_bytes
    if schema is None:
        reason = own.explanation(value)
        text = f"unknown schema: the value begins with {value[: own.header_bytes].hex() or 'nothing'}"
        raise WrongSchemaError(f"{text}; {reason}" if reason else text)
    if failed := failed_check(value, start, schema):
        raise UndecodableError(f"{schema.record.__name__}: {failed.text}")
    record, end = read_one(schema.record, schema.parsed, value, start)
    if end != len(value):
        raise UndecodableError(f"{schema.record.__name__}: {Check.LEFT_OVER.text}")
    return record


def decode_input(value: bytes, side: Side, wire_format: WireFormat) -> Record:
    """Return the record of a value of an input.

    Raises:
        WrongSchemaError: The value is not of a type that the input takes.
        UndecodableError: It is not a record of that type, or bytes are left over.
    """
    if wire_format.json is not None:
        types, content = wire_format.json_of(value, INPUT_TYPES[side])
        return read_json(content, types, wire_format.json.label_classes)
    if wire_format.writer_of(value, side) is not None:
        return decode_one(wire_format.own_value(value, side))
    schema = wire_format.schema_of(value)
    if schema is None or schema.record not in INPUT_TYPES[side]:
        raise WrongSchemaError(wire_format.explanation(value))
    return decode_one(value, wire_format)


def may_have(value: bytes, text: str) -> bool:
    """Say whether a value may have a text, as it stands or with escapes of JSON: most values need not be decoded."""
    return text.encode() in value or b"\\" in value


def decode_many(values: Iterable[bytes], wire_format: WireFormat | None = None) -> list[Record]:
    """Return the records of many values, for tools; raise the errors of `decode_one`."""
    return [decode_one(value, wire_format) for value in values]


def _plain(record: Any) -> dict[str, Any]:  # noqa: ANN401  (a record, or a record within it)
    """Return the fields as fastavro writes them."""
    kind: Any = type(record)
    plain = {name: getattr(record, name) for name in _names_of(kind)}
    if isinstance(record, Example):
        plain["features"] = [float(value) for value in record.features]
    elif isinstance(record, Mark):
        plain["kind"] = record.kind.name.lower()
    else:
        plain |= {name: [_plain(one) for one in value] for name, value in plain.items() if isinstance(value, tuple)}
    return plain


@cache
def _names_of(record: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))
