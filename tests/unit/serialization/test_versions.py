"""Two versions of a schema: an invented version 2, since every schema has one version so far."""

import json
from collections.abc import Iterator

import pytest

from stream_app import schemas
from stream_app.client import decode, decoder
from stream_app.records import Label
from stream_app.serialization import avro, codec, wire_format

CACHES = (avro.catalogue, avro.newest, wire_format.single_object, decoder.known_schemas)

TODAY = schemas.sources()["label", 1]


def _without_revision() -> str:
    schema = json.loads(TODAY)
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "revision"]
    return json.dumps(schema)


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """Yield a label of version 1, in a package whose version 2 has a further field with a default."""
    versions = {**schemas.sources(), ("label", 1): _without_revision(), ("label", 2): TODAY}
    monkeypatch.setattr(schemas, "sources", lambda: versions)
    for cached in CACHES:
        cached.cache_clear()
    (header,) = (header for header, schema in avro.catalogue().items() if wire_format.name_of(schema) == "label.v1")
    yield header + b"\x0apumps\x021\x02"
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()


def test_both_versions_are_read_and_the_newest_is_written(first: bytes) -> None:
    """Topics keep the values of the version before; a field that these do not have gets its default."""
    assert codec.decode_one(first) == decode(first) == Label("pumps", "1", 1, 0)
    second = codec.encode(Label("pumps", "1", 1, 3))
    assert avro.catalogue()[second[: avro.HEADER_BYTES]].version == 2
    assert codec.decode_one(second) == decode(second) == Label("pumps", "1", 1, 3)


def test_schema_ids_name_the_version(first: bytes) -> None:
    """With a registry, both versions have ids, and values are written with the id of the newest."""
    both = wire_format.confluent({"label.v1": (3,), "label.v2": (4,)})
    assert both.header(Label) == b"\x00\x00\x00\x00\x04"
    assert codec.decode_one(b"\x00\x00\x00\x00\x03" + first[avro.HEADER_BYTES :], both) == Label("pumps", "1", 1, 0)
