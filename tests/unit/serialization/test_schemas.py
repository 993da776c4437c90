"""The schema files, which readers in any language rely on."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from stream_app import schemas
from stream_app.records import NESTED_RECORDS, MarkKind, OutcomeKind
from stream_app.serialization import avro
from stream_app.serialization.layout import layout_of
from tests.support.formats.avro_reference import HEADERS, PARSED, canonical, header_of, rabin

FOLDER = Path(schemas.__file__).parent
SOURCES: dict[str, dict[str, Any]] = {name: json.loads(text) for (name, _), text in schemas.sources().items()}


def test_every_record_type_has_one_schema() -> None:
    """A type without a schema cannot be written, and a file without a type cannot be read."""
    assert sorted(schemas.sources()) == sorted((record.__name__.lower(), 1) for record in avro.RECORD_TYPES)
    assert len(schemas.sources()) == len(list(FOLDER.glob("*.avsc")))


@pytest.mark.parametrize("record", avro.RECORD_TYPES)
def test_fields_are_those_of_the_dataclass(record: type[avro.Record]) -> None:
    """Columns, tools and topics must use a field in the same sense; Avro's order is the order of the bytes."""
    schema = SOURCES[record.__name__.lower()]
    assert [field["name"] for field in schema["fields"]] == [field.name for field in dataclasses.fields(record)]
    assert (schema["name"], schema["namespace"]) == (record.__name__, "areba")


def _records_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a record schema and the records in the arrays of its fields."""
    yield schema
    for field in schema["fields"]:
        if isinstance(field["type"], dict) and isinstance(field["type"].get("items"), dict):
            yield from _records_of(field["type"]["items"])


@pytest.mark.parametrize("name", SOURCES)
def test_documented(name: str) -> None:
    """A subscriber reads the meaning and unit of each field in the file; null is the default where it is allowed."""
    layout_of(PARSED[name])  # it raises what no decoder could read safely
    for schema in _records_of(SOURCES[name]):
        assert schema["doc"]
        for field in schema["fields"]:
            assert len(field["doc"]) > 15, field["name"]
            if isinstance(field["type"], list):
                assert field["default"] is None
            if field["name"].endswith("_ms") or "_ms_" in field["name"]:
                assert "millisecond" in field["doc"]


@pytest.mark.parametrize("name", NESTED_RECORDS)
def test_fields_of_nested_records_are_those_of_the_dataclass(name: str) -> None:
    """The names in the file are the arguments of the class."""
    (schema,) = (
        one
        for source in SOURCES.values()
        for one in _records_of(source)
        if f"{source['namespace']}.{one['name']}" == name
    )
    fields = dataclasses.fields(NESTED_RECORDS[name])
    assert [field["name"] for field in schema["fields"]] == [field.name for field in fields]


def test_dangerous_schemas_are_refused() -> None:
    """A recursive schema lets a few bytes overflow the stack inside fastavro; a value of no bytes can be repeated."""
    empty = {"type": "record", "name": "A", "fields": []}
    within = {"type": "record", "name": "C", "fields": [{"name": "own", "type": ["null", "C"]}]}
    for kind in (["null", "string", "long"], "A", within, {"type": "array", "items": empty}, {"type": "map"}):
        with pytest.raises(ValueError, match=r"B\.field.*(is not supported|no bytes)"):
            layout_of({"name": "B", "fields": [{"name": "field", "type": kind}]})


def test_symbols_are_those_of_the_enumerations() -> None:
    """The batch paths write and read enumerations by number."""
    for name, field, enumeration in (("mark", "kind", MarkKind), ("outcome", "outcome", OutcomeKind)):
        kind = next(each["type"] for each in SOURCES[name]["fields"] if each["name"] == field)
        assert kind["symbols"] == [member.name.lower() for member in enumeration]
        assert [int(member) for member in enumeration] == list(range(len(enumeration)))


def test_fingerprints() -> None:
    """Ours, fastavro's and the specification's own (for "null") agree, so that other writers' values are recognised."""
    assert rabin(b'"null"') == 0x63DD24E7CC258F8A
    for name, parsed in PARSED.items():
        assert canonical(name).decode() == to_parsing_canonical_form(parsed)
        assert HEADERS[name][2:].hex() == fingerprint(canonical(name).decode(), "CRC-64-AVRO")
    assert {schema.header for schema in avro.newest().values()} == set(HEADERS.values()) <= set(avro.catalogue())
    assert all(
        schema.fingerprint == rabin(canonical(type_.__name__.lower())) for type_, schema in avro.newest().items()
    )


@pytest.mark.parametrize("version", schemas.sources())
def test_a_published_schema_does_not_change(version: tuple[str, int]) -> None:
    """The golden value has the published fingerprint: a change needs a new version and a new file."""
    golden = (FOLDER / "golden" / f"{version[0]}.v{version[1]}.bin").read_bytes()
    assert golden[: avro.HEADER_BYTES] == header_of(*version)
