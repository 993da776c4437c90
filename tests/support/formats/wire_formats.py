"""Values in Confluent's wire format, converted from single objects without the codec."""

from collections.abc import Mapping

from stream_app.serialization.avro import HEADER_BYTES, MAGIC, catalogue
from stream_app.serialization.wire_format import CONFLUENT_HEADER_BYTES, confluent, name_of

SCHEMA_IDS: Mapping[str, tuple[int, ...]] = {
    name: (schema_id,) for schema_id, name in enumerate(sorted(map(name_of, catalogue().values())), 256)
}
"""An id for each schema; the ids need two bytes."""

CONFLUENT = confluent(SCHEMA_IDS)

SECTION = {"wire_format": "confluent", "schema_ids": SCHEMA_IDS}
"""A section `serialization` that needs no registry."""

UNKNOWN_ID = 4_000_000_000

SHORTER_BYTES = HEADER_BYTES - CONFLUENT_HEADER_BYTES


def reframed(value: bytes, schema_ids: Mapping[str, tuple[int, ...]] = SCHEMA_IDS) -> bytes:
    """Return a single object in Confluent's format; an unknown header becomes `UNKNOWN_ID`."""
    schema = catalogue().get(value[:HEADER_BYTES])
    if len(value) < HEADER_BYTES or not value.startswith(MAGIC):
        return b"\x01" + value  # no value of either format
    schema_id = UNKNOWN_ID if schema is None else schema_ids[name_of(schema)][0]
    return b"\x00" + schema_id.to_bytes(4, "big") + value[HEADER_BYTES:]


def unframed(value: bytes) -> bytes:
    """Return a value in Confluent's format as a single object, five bytes longer; other values become invalid."""
    if value[:1] == b"\x00" and len(value) >= CONFLUENT_HEADER_BYTES:
        schema_id = int.from_bytes(value[1:CONFLUENT_HEADER_BYTES], "big")
        for header, schema in catalogue().items():
            if schema_id in SCHEMA_IDS[name_of(schema)]:
                return header + value[CONFLUENT_HEADER_BYTES:]
    return b"\x01" * SHORTER_BYTES + value


def explained(value: bytes | None, wire_format: str | None) -> str:
    """Return what a dead letter with a wrong schema says about the first bytes of its value."""
    looks_confluent = value is not None and len(value) >= CONFLUENT_HEADER_BYTES and value[0] == 0
    if value is None or wire_format is None:
        return ""
    if wire_format == "avro_single_object":
        return ", looks like Confluent's wire format" if looks_confluent else ""
    if value.startswith(MAGIC):
        return ", looks like Avro single-object encoding"
    if not looks_confluent:
        return ""
    names = {ids[0]: name for name, ids in SCHEMA_IDS.items()}
    schema_id = int.from_bytes(value[1:CONFLUENT_HEADER_BYTES], "big")
    return f", schema id {schema_id} is {names.get(schema_id, 'not known')}"
