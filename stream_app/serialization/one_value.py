"""Read one Avro value with fastavro alone: neither Numba nor a compiled check is imported."""

import io
from typing import Any, TypeVar, cast

import fastavro

from stream_app.errors import UndecodableError
from stream_app.records import NESTED_RECORDS, Mark, MarkKind

R = TypeVar("R")


def read_one(record: type[R], parsed: Any, value: bytes, start: int) -> tuple[R, int]:  # noqa: ANN401  (fastavro's)
    """Return the record that begins at `start` in a value, and the offset in bytes after its end.

    Args:
        record: The class of the record.
        parsed: Its schema, as fastavro has parsed it.
        value: The value, with its header.
        start: Length of the header in bytes.

    Raises:
        UndecodableError: The bytes are not a record of the schema.
    """
    payload = io.BytesIO(value)
    payload.seek(start)
    try:
        plain: Any = fastavro.schemaless_reader(payload, parsed, None)
        if record is Mark:
            plain["kind"] = MarkKind[plain["kind"].upper()]
        return cast("R", _record(record, parsed, plain)), payload.tell()
    except (EOFError, LookupError, ValueError) as error:
        raise UndecodableError(f"{record.__name__}: {type(error).__name__}") from error


def _record(record: Any, schema: Any, plain: Any) -> Any:  # noqa: ANN401  (a class, and what fastavro returns)
    """Return the record of these fields, with its nested records; arrays become tuples."""
    for field in schema["fields"]:
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "array":
            items, value = kind["items"], plain[field["name"]]
            nested = NESTED_RECORDS[items["name"]] if isinstance(items, dict) else None
            plain[field["name"]] = tuple(_record(nested, items, one) for one in value) if nested else tuple(value)
    return record(**plain)
