"""Batches with values of other writers: they become single objects, which the batch decoder reads."""

import numpy as np

from stream_app.arrays import Bytes
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.record_columns import BinaryColumn, Cell, binary_column
from stream_app.records import Reason, Side
from stream_app.serialization.wire_format import CONFLUENT_HEADER_BYTES, WireFormat, single_object

_PLACES = 256 ** np.arange(CONFLUENT_HEADER_BYTES)[::-1]
"""What the bytes of a header count as one number, big-endian."""


def own_values(
    values: BinaryColumn, side: Side, reasons: Bytes, wire_format: WireFormat
) -> tuple[BinaryColumn, WireFormat]:
    """Return n values without those of other writers, and the format of the result.

    Nearly all batches have the values of one writer: if none has another writer's schema, they are returned as they
    are. Otherwise all become single objects.

    Args:
        values: n values in Confluent's format.
        side: Their input.
        reasons: uint8 `[n]`, the `Reason` of values that are refused already; changed in place.
        wire_format: Their format.
    """
    if not _has_others(values, wire_format, side):
        return values, wire_format
    cells: list[Cell] = []
    for row, (value, is_refused) in enumerate(zip(values.tolist(), reasons.tolist(), strict=True)):
        if is_refused or value is None:
            cells.append(None)
            continue
        try:
            cells.append(_single_object(value, side, wire_format))
        except (UndecodableError, WrongSchemaError) as error:
            reasons[row] = Reason.WRONG_SCHEMA if isinstance(error, WrongSchemaError) else Reason.UNDECODABLE
            cells.append(None)
    return binary_column(cells), single_object()


def _single_object(value: bytes, side: Side, wire_format: WireFormat) -> bytes:
    schema = wire_format.schema_of(value)
    if schema is not None:
        return schema.header + value[wire_format.header_bytes :]
    if wire_format.writer_of(value, side) is None:
        raise WrongSchemaError("its schema is not known")
    return wire_format.own_value(value, side)


def _has_others(values: BinaryColumn, wire_format: WireFormat, side: Side) -> bool:
    """Say whether a value begins with the header of another writer's schema."""
    starts = values.starts[values.lengths >= CONFLUENT_HEADER_BYTES]
    headers = values.buffer[starts[:, None] + np.arange(CONFLUENT_HEADER_BYTES)] @ _PLACES
    return bool(np.isin(headers, [int.from_bytes(header, "big") for header in wire_format.writers[side]]).any())
