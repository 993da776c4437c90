"""Values in Confluent's wire format, made of single objects by hand."""

from collections.abc import Mapping

from stream_app.serialization.avro import HEADER_BYTES, MAGIC, catalogue
from stream_app.serialization.wire_format import CONFLUENT_HEADER_BYTES, confluent, name_of

SCHEMA_IDS: Mapping[str, tuple[int, ...]] = {
    name: (number,) for number, name in enumerate(sorted(map(name_of, catalogue().values())), 256)
}
"""A number for each schema; they need two bytes."""

CONFLUENT = confluent(SCHEMA_IDS)

SECTION = {"wire_format": "confluent", "schema_ids": SCHEMA_IDS}
"""A section `serialization` that needs no registry."""

UNKNOWN_ID = 4_000_000_000

SHORTER_BYTES = HEADER_BYTES - CONFLUENT_HEADER_BYTES


def reframed(value: bytes, numbers: Mapping[str, tuple[int, ...]] = SCHEMA_IDS) -> bytes:
    """Return a single object in Confluent's format; a header that is no schema's gets a number that is no schema's."""
    schema = catalogue().get(value[:HEADER_BYTES])
    if len(value) < HEADER_BYTES or not value.startswith(MAGIC):
        return b"\x01" + value  # no value of either format
    number = UNKNOWN_ID if schema is None else numbers[name_of(schema)][0]
    return b"\x00" + number.to_bytes(4, "big") + value[HEADER_BYTES:]
