"""Values of other writers: resolved as fastavro resolves them, whatever the schema is; hostile bytes are refused."""

import io
import random
from typing import Any

import fastavro
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.records import Example, Label, Reason, Side
from stream_app.serialization.avro import newest
from stream_app.serialization.codec import decode_one, encode_unchecked
from tests.support.formats.json_values import check_batch, same
from tests.support.formats.wire_formats import CONFLUENT
from tests.support.formats.writers import WRITER_ID, headed, limits_with, random_schema, random_value, written


def _reader(schema: dict[str, Any], side: Side) -> dict[str, Any]:
    """Return our schema under the writer's name, with doubles, so that fastavro resolves everything that we do."""
    own: Any = newest()[Example if side is Side.EXAMPLES else Label].parsed
    doubles = {"type": "array", "items": "double"}
    fields = [{**one, "type": doubles} if one["name"] == "features" else one for one in own["fields"]]
    return {"type": "record", "name": schema["name"], "fields": fields}


def _expected(value: bytes, schema: dict[str, Any], side: Side) -> Example | Label | None:
    """Return what fastavro makes of a value; None: it does not resolve."""
    try:
        reader = fastavro.parse_schema(_reader(schema, side))
        plain: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(schema), reader)
    except (fastavro.read.SchemaResolutionError, TypeError, AttributeError):
        return None
    if side is Side.LABELS:
        return Label(**plain)
    with np.errstate(over="ignore"):
        features = np.array(plain.pop("features"), np.float64).astype(np.float32).tolist()
    return Example(features=tuple(features), **plain)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side))
def test_as_fastavro_resolves_it(seed: int, side: Side) -> None:
    """One batch has values of the writer and our own, as two producers of a topic send them."""
    draw = random.Random(seed)
    schema = random_schema(draw, side)
    limits = limits_with(schema)
    writer = limits.wire_format.writers[side][headed(b"")]
    assert not writer.refusal
    contents = [random_value(draw, schema) for _ in range(8)]
    values = [written(schema, content) for content in contents]
    records = [_expected(value, schema, side) for value in values]
    for value, record in zip(values, records, strict=True):
        if record is not None and not (isinstance(record, Example) and record.features and record.values):
            assert same(decode_one(writer.resolved(value, 5)), record), (schema, record)
    own = [encode_unchecked(Example("s", "1", (0.5,)) if side is Side.EXAMPLES else Label("s", "1", 1), CONFLUENT)]
    reasons = check_batch([*own, *values, *own], side, limits)
    assert (reasons[0], reasons[-1]) == (None, None)
    for record, reason in zip(records, reasons[1:], strict=False):
        assert (record is None) == (reason is Reason.UNDECODABLE), (schema, record, reason)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side))
def test_damaged_bytes(seed: int, side: Side) -> None:
    """The worker and `areba verify` refuse the same values, for the same reasons, and nothing is raised."""
    draw = random.Random(seed)
    schema = random_schema(draw, side)
    values = [written(schema, random_value(draw, schema, 0.0)) for _ in range(4)]
    damaged = []
    for value in values:
        body, place = bytearray(value[5:]), draw.randrange(len(value) - 4)
        if draw.random() < 0.5:
            body[place : place + draw.randrange(3)] = draw.randbytes(draw.randrange(4))
        else:
            body = body[:place]
        damaged.append(headed(bytes(body)))
    check_batch([*values, *damaged, headed(b""), headed(b"", WRITER_ID + 1)], side, limits_with(schema))
