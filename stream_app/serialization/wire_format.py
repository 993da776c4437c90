"""How values begin: the headers that name their schemas, in the formats of input and output topics; pure.

    avro_single_object   `C3 01`, then the CRC-64-AVRO fingerprint of the schema (8 bytes, little-endian)
    confluent            `00`, then the schema id, which a schema registry has given the schema (4 bytes, big-endian)
    json                 no header: the value is an object in JSON, whose fields say which record it is
    confluent_json       as confluent; an object in JSON follows

In the first two, the bytes of the record follow, which are the same in both. The schema ids are settings, and so are
the schemas of other writers, so no result depends on later answers of a registry. Progress and changelog always have
single objects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from stream_app.arrays import Bytes, Words
from stream_app.errors import ConfigurationError, UndecodableError, WrongSchemaError
from stream_app.records import Example, Kind, Label, Mark, Reason, Side
from stream_app.serialization.avro import HEADER_BYTES, MAGIC, Record, Schema, catalogue, newest
from stream_app.serialization.json_value import BAD_CLASS, label_fault, read_json
from stream_app.serialization.public_types import INPUT_TYPES, PUBLIC_TYPES, PublicRecord
from stream_app.serialization.resolution import WriterSchema

CONFLUENT_MAGIC = b"\x00"
CONFLUENT_HEADER_BYTES = 5
"""Length of `CONFLUENT_MAGIC` and a schema id."""

TABLE_BYTES = 16
"""Bytes of a header in a `HeaderTable`: two words, of which a mask takes as many bytes as a header has."""

_NO_WRITERS: Mapping[bytes, WriterSchema] = MappingProxyType({})

_FAULTS_OF_JSON = (Reason.UNDECODABLE, Reason.WRONG_SCHEMA, Reason.BAD_LABEL)


class _FormatSettings(Protocol):
    """The settings that choose a format; `Config.serialization` and `TaskSettings` have them."""

    @property
    def wire_format(self) -> str:
        """`avro_single_object`, `confluent`, `json` or `confluent_json`."""

    @property
    def schema_ids(self) -> Mapping[str, Sequence[int]]:
        """The schema ids of each schema, by names such as `example.v1`; values are written with the first id."""

    @property
    def writer_schemas(self) -> Mapping[str, str]:
        """The schemas of other writers by id."""

    @property
    def label_classes(self) -> Mapping[str, int]:
        """What texts of labels mean."""


class HeaderTable(NamedTuple):
    """The headers that the values of one input may have, for compiled code.

    Attributes:
        length: Bytes of each header.
        masks: uint64 `[2]`: the bits of two words, little-endian, that belong to a header.
        words: uint64 `[headers, 2]`, these words of each header.
        kinds: uint8 `[headers]`, the `Kind` that each header announces.
    """

    length: int
    masks: Words
    words: Words
    kinds: Bytes


@dataclass(frozen=True, slots=True, eq=False)
class JsonForm:
    """How values are read that are JSON.

    Attributes:
        label_classes: What the texts of labels mean.
    """

    label_classes: Mapping[str, int] = field(default_factory=dict)

    def fault(self, value: bytes, types: Sequence[type[PublicRecord]]) -> str:
        """Return what is wrong with JSON that should be a record of these types; an empty text if it can be read."""
        try:
            record = read_json(value, types, self.label_classes)
        except (UndecodableError, WrongSchemaError) as error:
            return str(error)
        return label_fault(value) if isinstance(record, Label) and record.label == BAD_CLASS else ""


@dataclass(frozen=True, slots=True, eq=False)
class WireFormat:
    """One of the formats.

    Attributes:
        header_bytes: Length of a header.
        schemas: The schemas that values may have, by their headers.
        written: The header with which the values of each record type are written.
        tables: By `Side`, the headers of its values; of JSON, those of the single objects that it becomes.
        json: How values are read if they are JSON; None if they are Avro.
        writers: By `Side`, the schemas of other writers by their headers.
    """

    header_bytes: int
    schemas: Mapping[bytes, Schema]
    written: Mapping[type[Record], bytes]
    tables: tuple[HeaderTable, HeaderTable]
    json: JsonForm | None = None
    writers: tuple[Mapping[bytes, WriterSchema], Mapping[bytes, WriterSchema]] = (_NO_WRITERS, _NO_WRITERS)

    def schema_of(self, value: bytes) -> Schema | None:
        """Return the schema that a value's header names; None if there is no such schema."""
        return self.schemas.get(value[: self.header_bytes])

    def writer_of(self, value: bytes, side: Side) -> WriterSchema | None:
        """Return the other writer's schema that a value's header names; None if there is no such schema."""
        return self.writers[side].get(value[: self.header_bytes])

    def own_value(self, value: bytes, side: Side) -> bytes:
        """Return a value of another writer as a single object; any other value as it is.

        Raises:
            WrongSchemaError: The writer's schema does not resolve.
            UndecodableError: The value is not a record of that schema, or cannot be converted.
        """
        writer = self.writer_of(value, side)
        if writer is None:
            return value
        if writer.refusal:
            raise WrongSchemaError(self._refusal(writer, value))
        return writer.resolved(value, self.header_bytes)

    def _refusal(self, writer: WriterSchema, value: bytes) -> str:
        return f"schema id {_id_of(value)} {writer.refusal}"

    def header(self, record: type[Record]) -> bytes:
        """Return the header of the values of a record type.

        Raises:
            ConfigurationError: The settings have no schema id for this type.
        """
        header = self.written.get(record)
        if header is None:
            raise ConfigurationError(f"serialization.schema_ids: there is no id for the schema of {record.__name__}")
        return header

    def unknown_id(self, value: bytes | None) -> int | None:
        """Return the schema id with which a value begins if the settings do not have it; else None."""
        if self.header_bytes != CONFLUENT_HEADER_BYTES or value is None or not _looks_confluent(value):
            return None
        is_known = self.schema_of(value) or self.writer_of(value, Side.EXAMPLES)
        return None if is_known else _id_of(value)

    def json_of(self, value: bytes, types: Sequence[type[PublicRecord]]) -> tuple[Sequence[type[PublicRecord]], bytes]:
        """Return which of these types a value may have, and its JSON.

        Raises:
            WrongSchemaError: The header of the value is not of one of these types.
        """
        if not self.header_bytes:
            return types, value
        schema = self.schema_of(value)
        named = [record for record in types if schema is not None and schema.record is record]
        if not named:
            raise WrongSchemaError(self.explanation(value))
        return named, value[self.header_bytes :]

    def fault(self, reason: Reason, value: bytes | None, side: Side) -> str:
        """Return why an input value was refused, as far as the format knows; else an empty text."""
        if self.json is not None and reason in _FAULTS_OF_JSON:
            try:
                types, content = self.json_of(value or b"", INPUT_TYPES[side])
            except WrongSchemaError as error:
                return str(error)
            return self.json.fault(content, types)
        writer = self.writer_of(value or b"", side)
        if writer is not None and value is not None:
            if reason is Reason.WRONG_SCHEMA:
                return self._refusal(writer, value)
            return writer.fault(reason, value, self.header_bytes)
        return self.explanation(value) if reason is Reason.WRONG_SCHEMA else ""

    def explanation(self, value: bytes | None) -> str:
        """Return why the header of a value is wrong, if its first bytes show the reason; else an empty text."""
        if self.header_bytes == HEADER_BYTES:
            return "looks like Confluent's wire format" if _looks_confluent(value) else ""
        if (value or b"").startswith(MAGIC):
            return "looks like Avro single-object encoding"
        if not _looks_confluent(value):
            return ""
        schema = self.schema_of(value or b"")
        return f"schema id {_id_of(value or b'')} is {name_of(schema) if schema else 'not known'}"


def name_of(schema: Schema) -> str:
    """Return the name of a schema, such as `example.v1`."""
    return f"{schema.record.__name__.lower()}.v{schema.version}"


@cache
def single_object() -> WireFormat:
    """Return the format `avro_single_object`."""
    written = {record: schema.header for record, schema in newest().items()}
    return _format(HEADER_BYTES, catalogue(), written)


def json_format(form: JsonForm = JsonForm()) -> WireFormat:
    """Return the format `json`."""
    headers: Mapping[type[Record], bytes] = MappingProxyType(dict.fromkeys(PUBLIC_TYPES, b""))
    return WireFormat(0, MappingProxyType({}), headers, single_object().tables, form)


def format_of(settings: _FormatSettings) -> WireFormat:
    """Return the format that settings choose.

    Raises:
        ConfigurationError: `schema_ids` names a schema that this version does not have, or has an id twice.
    """
    if settings.wire_format == "json":
        return json_format(JsonForm(settings.label_classes))
    if settings.wire_format == "confluent_json":
        return confluent_json(settings.schema_ids, JsonForm(settings.label_classes))
    if settings.wire_format != "confluent":
        return single_object()
    return confluent(settings.schema_ids, settings.writer_schemas, settings.label_classes)


def confluent_json(schema_ids: Mapping[str, Sequence[int]], form: JsonForm = JsonForm()) -> WireFormat:
    """Return the format `confluent_json` with these schema ids; raise as `format_of` does."""
    return replace(confluent(schema_ids), tables=single_object().tables, json=form)


def confluent(
    schema_ids: Mapping[str, Sequence[int]],
    writer_schemas: Mapping[str, str] = MappingProxyType({}),
    label_classes: Mapping[str, int] = MappingProxyType({}),
) -> WireFormat:
    """Return the format `confluent` with these schema ids by the names of schemas; raise as `format_of` does.

    Args:
        schema_ids: The ids of the application's schemas.
        writer_schemas: The schemas of other writers by id.
        label_classes: What the texts of other writers' labels mean.
    """
    known = {name_of(schema): schema for schema in catalogue().values()}
    by_header: dict[bytes, Schema] = {}
    written: dict[type[Record], bytes] = {}
    for name, ids in schema_ids.items():
        schema = known.get(name)
        if schema is None:
            raise ConfigurationError(f"serialization.schema_ids: this version has no schema {name!r}")
        headers = list(map(_header_of, ids))
        repeated = [schema_id for schema_id, header in zip(ids, headers, strict=True) if header in by_header]
        if repeated:
            raise ConfigurationError(f"serialization.schema_ids: {repeated[0]} is the id of two schemas")
        by_header.update(dict.fromkeys(headers, schema))
        if newest()[schema.record] is schema:
            written[schema.record] = headers[0]
    others = {text: _header_of(int(text)) for text in writer_schemas}
    twice = [text for text, header in others.items() if header in by_header]
    if twice:
        raise ConfigurationError(f"serialization.writer_schemas: {twice[0]} is the id of two schemas")
    examples, labels = (
        {header: WriterSchema(writer_schemas[text], side, label_classes) for text, header in others.items()}
        for side in Side
    )
    own = _format(CONFLUENT_HEADER_BYTES, MappingProxyType(by_header), written)
    return replace(own, writers=(MappingProxyType(examples), MappingProxyType(labels)))


def _format(length: int, schemas: Mapping[bytes, Schema], written: Mapping[type[Record], bytes]) -> WireFormat:
    tables = (_table(length, schemas, Example), _table(length, schemas, Label))
    return WireFormat(length, schemas, MappingProxyType(dict(written)), tables)


def _table(length: int, schemas: Mapping[bytes, Schema], data: type[Record]) -> HeaderTable:
    """Return the headers of the newest schemas of one input, first those of `data`: nearly all values have them."""
    kinds = {data: Kind.DATA, Mark: Kind.MARK}
    rows = [
        (header, kind)
        for record, kind in kinds.items()
        for header, schema in schemas.items()
        if schema is newest()[record]
    ]
    words = [np.frombuffer(header.ljust(TABLE_BYTES, b"\x00"), "<u8") for header, _ in rows]
    return HeaderTable(
        length,
        np.frombuffer((b"\xff" * length).ljust(TABLE_BYTES, b"\x00"), "<u8").astype(np.uint64),
        np.array(words, np.uint64).reshape(-1, 2),
        np.array([kind for _, kind in rows], np.uint8),
    )


def _looks_confluent(value: bytes | None) -> bool:
    return value is not None and len(value) >= CONFLUENT_HEADER_BYTES and value.startswith(CONFLUENT_MAGIC)


def _header_of(schema_id: int) -> bytes:
    return CONFLUENT_MAGIC + schema_id.to_bytes(4, "big")


def _id_of(value: bytes) -> int:
    return int.from_bytes(value[len(CONFLUENT_MAGIC) : CONFLUENT_HEADER_BYTES], "big")
