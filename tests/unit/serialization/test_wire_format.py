"""Both formats of values: the same records, in Confluent's with the ids of a registry."""

from pathlib import Path

import numpy as np
import pytest

from stream_app import schemas
from stream_app.config import Config
from stream_app.errors import ConfigurationError, WrongSchemaError
from stream_app.records import Example, Label, Mark, MarkKind, Metric, Outcome, Prediction, Reason, Side
from stream_app.serialization import avro, codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.encode import encode_examples, encode_labels
from stream_app.serialization.registered_schemas import schema_in
from stream_app.serialization.wire_format import confluent, format_of, single_object
from tests.support.formats.columns import encode_outcomes, encode_predictions
from tests.support.formats.wire_formats import CONFLUENT, SCHEMA_IDS, UNKNOWN_ID, reframed

GOLDEN = Path(schemas.__file__).parent / "golden"
LIMITS = DecodeLimits(wire_format=CONFLUENT)
EXAMPLE = Example("pumps", "1", (0.5, 2.0))
SINGLE = codec.encode(EXAMPLE)


@pytest.mark.parametrize("record", [EXAMPLE, Label("pumps", "1", 1), Mark("pumps", MarkKind.ADVANCE, time_ms=3)])
def test_a_value_is_a_number_and_the_same_record(record: avro.Record) -> None:
    """A consumer with Confluent's deserializer reads a zero byte, four bytes of the id, and plain Avro."""
    value = codec.encode(record, CONFLUENT)
    name = f"{type(record).__name__.lower()}.v{avro.newest()[type(record)].version}"
    assert value[:5] == bytes([0, *SCHEMA_IDS[name][0].to_bytes(4, "big")])
    assert value[5:] == codec.encode(record)[10:]
    assert codec.decode_one(value, CONFLUENT) == record


def test_golden_outputs() -> None:
    """The batch encoder writes the golden records with the other header, and nothing else changes."""
    values = [(GOLDEN / f"{name}.v1.bin").read_bytes() for name in ("prediction", "outcome")]
    prediction, outcome = codec.decode_many(values)
    assert isinstance(prediction, Prediction)
    assert isinstance(outcome, Outcome)
    predictions = encode_predictions([prediction], CONFLUENT)
    assert predictions == [reframed(codec.encode(prediction))]
    assert encode_outcomes([outcome], CONFLUENT) == [reframed(codec.encode(outcome))]


def test_producers_write_confluents_format() -> None:
    """`areba-replay` sends what any producer with Confluent's serializer sends."""
    features = np.array([[0.5, 2.0]], np.float32)
    assert encode_examples("pumps", ["1"], features, CONFLUENT) == [codec.encode(EXAMPLE, CONFLUENT)]
    labels = encode_labels("pumps", ["1"], np.array([1], np.int8), wire_format=CONFLUENT)
    assert labels == [codec.encode(Label("pumps", "1", 1), CONFLUENT)]


def test_every_id_of_a_schema_is_read() -> None:
    """A producer that registered our schema with its own comments has another id for it."""
    many = confluent({**SCHEMA_IDS, "example.v1": (7, 300_000, *SCHEMA_IDS["example.v1"])})
    values = [b"\x00" + schema_id.to_bytes(4, "big") + SINGLE[10:] for schema_id in (300_000, 7, 256, 8)]
    assert many.header(Example) == b"\x00\x00\x00\x00\x07", "the first id is written"
    decoded = decode(values, Side.EXAMPLES, DecodeLimits(wire_format=many))
    schema_id = SCHEMA_IDS["example.v1"][0]
    accepted = [0 if one in (7, 300_000, schema_id) else Reason.WRONG_SCHEMA for one in (300_000, 7, 256, 8)]
    assert decoded.reasons.tolist() == accepted


@pytest.mark.parametrize("length", range(16))
def test_a_short_value_ends_the_batch(length: int) -> None:
    """Headers are compared as whole words: the last value of a batch may be shorter than a word."""
    value = reframed(SINGLE)[:length]
    [reason] = decode([value], Side.EXAMPLES, LIMITS).reasons.tolist()
    assert reason == (Reason.WRONG_SCHEMA if length < 5 else Reason.UNDECODABLE)


@pytest.mark.parametrize(
    ("wire_format", "value", "text"),
    [
        (single_object(), reframed(SINGLE), "looks like Confluent's wire format"),
        (CONFLUENT, SINGLE, "looks like Avro single-object encoding"),
        (CONFLUENT, b"\x00" + UNKNOWN_ID.to_bytes(4, "big"), f"schema id {UNKNOWN_ID} is not known"),
        (CONFLUENT, reframed(SINGLE), "schema id 259 is example.v1"),
        (single_object(), b"\x00\x01", ""),
        (CONFLUENT, b"{}", ""),
        (CONFLUENT, b"", ""),
        (single_object(), None, ""),
    ],
)
def test_the_other_format_is_recognised(wire_format: object, value: bytes | None, text: str) -> None:
    """A user with ten thousand dead letters `wrong-schema` learns which setting is wrong."""
    found = wire_format.explanation(value)  # type: ignore[attr-defined]
    known = f"schema id {SCHEMA_IDS['example.v1'][0]} is example.v1"
    assert found == (known if "example.v1" in text else text)


def test_single_values_say_so_too() -> None:
    """`areba tail` shows why it cannot decode a value."""
    with pytest.raises(WrongSchemaError, match="looks like Confluent's wire format"):
        codec.decode_one(reframed(SINGLE))
    assert codec.decode_one(SINGLE, CONFLUENT) == EXAMPLE, "a tool reads progress, too, which has single objects"


def test_settings_choose() -> None:
    """A wrong schema id is found before the first prediction."""
    twice = {"example.v1": (1,), "label.v1": (1,)}
    settings = Config.model_validate({"serialization": {"wire_format": "confluent", "schema_ids": twice}})
    with pytest.raises(ConfigurationError, match="1 is the id of two schemas"):
        format_of(settings.serialization)
    with pytest.raises(ConfigurationError, match=r"example\.v9"):
        confluent({"example.v9": (1,)})
    with pytest.raises(ConfigurationError, match=r"no id .* Prediction"):
        confluent({"example.v1": (1,)}).header(Prediction)
    assert confluent(SCHEMA_IDS).header(Metric)


def test_our_schema_with_other_comments_is_ours() -> None:
    """Comments and defaults of a registered schema are its owner's; other fields are another schema."""
    assert schema_in('{"type": "record", "name": "areba.Example", "doc": "mine", "fields": []}') is None
    fields = '{"name": "stream", "type": "string"}, {"name": "id", "type": "string", "doc": "order"}, '
    fields += '{"name": "features", "type": {"type": "array", "items": "float"}}, '
    values = '{"type": "map", "values": ["null", "boolean", "long", "double", "string"]}'
    fields += f'{{"name": "values", "type": ["null", {values}]}}'
    found = schema_in(f'{{"type": "record", "name": "areba.Example", "fields": [{fields}]}}')
    assert found is avro.newest()[Example]
    assert [schema_in(text) for text in ("", "{", "7", '"string"', "[]", '{"type": "record"}')] == [None] * 6
