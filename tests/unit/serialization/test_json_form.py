"""Values in JSON: what is accepted, why others are refused, and the bytes of outputs."""

import json
import random
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ops.reference.json_schemas import FOLDER, files
from stream_app.client import ConfluentDecoder
from stream_app.client import decode as client_decode
from stream_app.config import Config
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.pipeline.transaction_bounds import JSON_METRIC_BYTES, JSON_NUMBERS_BYTES, JSON_WINDOW_BYTES
from stream_app.records import (
    Example,
    Label,
    Mark,
    MarkKind,
    Metric,
    MetricWindow,
    Outcome,
    Prediction,
    Reason,
    Side,
)
from stream_app.schemas import json_sources
from stream_app.serialization import codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.encode import encode_examples, encode_labels
from stream_app.serialization.json_value import read_json
from stream_app.serialization.public_types import INPUT_TYPES, PUBLIC_TYPES
from stream_app.serialization.registered_schemas import json_schema_in
from stream_app.serialization.wire_format import JsonForm, json_format, name_of
from tests.support.formats.columns import encode_outcomes, encode_predictions
from tests.support.formats.json_values import CONFLUENT_JSON, JSON, LIMITS, check_batch, damaged, framed, good_values

EXAMPLE = '{"stream":"s","id":"a",%s}'
WORDS = replace(LIMITS, wire_format=json_format(JsonForm({"fraud": 1, "genuine": 0, "un:usual": 1})))
DEEP = '{"x":' * 100_000

REFUSED = [
    # what it is, the value of an example, the reason, and the words of the dead letter
    ("empty", b"", Reason.UNDECODABLE, "not JSON"),
    ("not UTF-8", b'{"stream":"\xff"}', Reason.UNDECODABLE, "not UTF-8"),
    ("half", b'{"stream":"s","id":"a","features":[1', Reason.UNDECODABLE, "not JSON"),
    ("two", EXAMPLE % '"features":[1]' + "{}", Reason.UNDECODABLE, "not JSON"),
    ("a byte order mark", "\ufeff" + EXAMPLE % '"features":[1]', Reason.UNDECODABLE, "not JSON"),
    ("an array", "[1]", Reason.UNDECODABLE, "not an object"),
    ("NaN", EXAMPLE % '"features":[NaN]', Reason.UNDECODABLE, "not JSON"),
    ("Infinity", EXAMPLE % '"features":[-Infinity]', Reason.UNDECODABLE, "not JSON"),
    ("beyond a double", EXAMPLE % '"features":[1e999]', Reason.UNDECODABLE, 'an item of field "features" is too large'),
    ("beyond a float", EXAMPLE % '"features":[1e39]', Reason.NOT_FINITE, ""),
    ("many digits", EXAMPLE % ('"features":[%s]' % ("1" * 4_400)), Reason.UNDECODABLE, "is too large"),
    ("a huge whole number", EXAMPLE % '"values":{"x":9223372036854775808}', Reason.UNDECODABLE, "is too large"),
    ("a number as text", EXAMPLE % '"features":["1"]', Reason.UNDECODABLE, "is not a number"),
    ("a boolean as number", EXAMPLE % '"features":[true]', Reason.UNDECODABLE, "is not a number"),
    ("null as number", EXAMPLE % '"features":[null]', Reason.UNDECODABLE, "is not a number"),
    ("a number as id", '{"stream":"s","id":1,"features":[1]}', Reason.UNDECODABLE, 'field "id" is not text'),
    ("an unknown field", EXAMPLE % '"features":[1],"amount":3', Reason.UNDECODABLE, 'field "amount" is unknown'),
    ("a missing field", '{"stream":"s","features":[1]}', Reason.UNDECODABLE, 'field "id" is missing'),
    ("a name twice", EXAMPLE % '"features":[1],"id":"b"', Reason.UNDECODABLE, 'name "id" occurs twice'),
    ("an escaped name twice", EXAMPLE % '"features":[1],"\\u0069d":"b"', Reason.UNDECODABLE, 'name "id" occurs twice'),
    ("a column twice", EXAMPLE % '"values":{"x":1,"x":2}', Reason.UNDECODABLE, 'name "x" occurs twice'),
    ("twice, hidden", EXAMPLE % '"values":{"x":1,"x":"\\u003a"}', Reason.UNDECODABLE, 'name "x" occurs twice'),
    ("half of a pair", EXAMPLE % '"values":{"x":"\\ud83d"}', Reason.UNDECODABLE, "has half of a surrogate pair"),
    ("half a pair and text", EXAMPLE % '"values":{"x":"\\ud83dabc"}', Reason.UNDECODABLE, "half of a surrogate pair"),
    ("very deep", EXAMPLE % f'"values":{DEEP}', Reason.TOO_LARGE, ""),
    ("deep", EXAMPLE % f'"values":{DEEP[:4_000]}', Reason.UNDECODABLE, "nested too deeply"),
    ("deep and closed", EXAMPLE % f'"features":{"[" * 99}{"]" * 99}', Reason.UNDECODABLE, "nested too deeply"),
    ("an object as value", EXAMPLE % '"values":{"x":{}}', Reason.UNDECODABLE, 'column "x" is not a number'),
    ("no features", '{"stream":"s","id":"a"}', Reason.WRONG_DIMENSION, ""),
    ("features and values", EXAMPLE % '"features":[1],"values":{}', Reason.WRONG_DIMENSION, ""),
    ("too many features", EXAMPLE % '"features":[1,2,3,4,5,6,7,8,9,10]', Reason.WRONG_DIMENSION, ""),
    ("an empty id", '{"stream":"s","id":"","features":[1]}', Reason.BAD_ID, ""),
    ("a long id", '{"stream":"s","id":"%s","features":[1]}' % ("x" * 65), Reason.BAD_ID, ""),
    ("a label", EXAMPLE % '"label":1', Reason.WRONG_SCHEMA, "has the fields of a label"),
    ("Avro", codec.encode(Example("s", "a", [1.0])), Reason.WRONG_SCHEMA, "looks like Avro single-object encoding"),
    ("Confluent's", b"\x00\x00\x00\x00\x01{}", Reason.WRONG_SCHEMA, "looks like Confluent's wire format"),
    ("an unknown mark", '{"stream":"s","kind":"stop"}', Reason.UNDECODABLE, 'field "kind" has the wrong type'),
    ("a mark that asks for nothing", '{"stream":"s","kind":"promote"}', Reason.UNDECODABLE, ""),
    ("no threshold", '{"stream":"s","kind":"decide","threshold":0.3}', Reason.UNDECODABLE, ""),
    ("an unknown threshold", '{"stream":"s","kind":"decide","threshold_kind":"luck"}', Reason.UNDECODABLE,
     'field "threshold_kind" has the wrong type'),
    ("a threshold as text", '{"stream":"s","kind":"decide","threshold_kind":"score","threshold":"0.3"}',
     Reason.UNDECODABLE, 'field "threshold" is not a number'),
    ("text after a null byte", EXAMPLE % '"features":[1]' + "\0", Reason.UNDECODABLE, "not JSON"),
]  # fmt: skip

REFUSED_LABELS = [
    ("2", Reason.BAD_LABEL, ""),
    ("-1", Reason.BAD_LABEL, ""),
    ('"yes"', Reason.BAD_LABEL, 'label "yes" is not in serialization.label_classes'),
    ("0.98", Reason.UNDECODABLE, 'field "label" is not a whole number'),
    ("null", Reason.UNDECODABLE, 'field "label" is not a whole number'),
    ("1e400", Reason.UNDECODABLE, 'field "label" is not a whole number'),
    ("99999999999", Reason.UNDECODABLE, 'field "label" is too large'),
    ("[1]", Reason.UNDECODABLE, 'field "label" is not a whole number'),
    ('1,"revision":-1', Reason.BAD_LABEL, ""),
    ('1,"revision":true', Reason.UNDECODABLE, 'field "revision" is not a whole number'),
    ('1,"revision":2147483648', Reason.UNDECODABLE, 'field "revision" is too large'),
    ('1,"features":[1]', Reason.WRONG_SCHEMA, "has the fields of a example"),
]


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("value", "reason", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_refused_has_a_reason_and_words(value: str | bytes, reason: Reason, words: str) -> None:
    """A sender must find its mistake in the dead letter, and no value may stop a worker."""
    good = (EXAMPLE % '"features":[1]').encode()
    assert check_batch([good, _bytes(value), good], Side.EXAMPLES) == [None, reason, None]
    said = JSON.fault(reason, _bytes(value), Side.EXAMPLES) if len(value) <= LIMITS.max_record_bytes else ""
    assert (said == "") == (words == "")
    assert words in said


@pytest.mark.parametrize(("label", "reason", "words"), REFUSED_LABELS)
def test_what_is_no_class_is_refused(label: str, reason: Reason, words: str) -> None:
    """0.98 must not be learned as class 0."""
    value = (EXAMPLE % f'"label":{label}').encode()
    assert check_batch([value], Side.LABELS) == [reason]
    assert words in JSON.fault(reason, value, Side.LABELS)


@pytest.mark.parametrize(("label", "expected"), [("0", 0), ("1", 1), ("true", 1), ("false", 0), ("1.0", 1)])
def test_a_class_is_a_number_or_a_boolean(label: str, expected: int) -> None:
    """Senders have both."""
    value = (EXAMPLE % f'"label":{label}').encode()
    assert check_batch([value], Side.LABELS) == [None]
    assert codec.decode_one(value, JSON) == Label("s", "a", expected)


@pytest.mark.parametrize(
    ("label", "expected"),
    [('"fraud"', 1), ('"genuine"', 0), ('"un:usual"', 1), ('"fr\\u0061ud"', 1), ("true", 1), ("0", 0)],
)
def test_the_configuration_says_what_texts_of_labels_mean(label: str, expected: int) -> None:
    """People have words for their classes, and numbers beside them."""
    value = (EXAMPLE % f'"label":{label}').encode()
    assert check_batch([value], Side.LABELS, WORDS) == [None]
    assert codec.decode_one(value, WORDS.wire_format) == Label("s", "a", expected)


@pytest.mark.parametrize("label", ['"Fraud"', '""', '"1"', '"true"'])
def test_a_text_without_a_meaning_is_no_class(label: str) -> None:
    """It must not be learned as class 0; the dead letter shows the text."""
    value = (EXAMPLE % f'"label":{label}').encode()
    assert check_batch([value], Side.LABELS, WORDS) == [Reason.BAD_LABEL]
    said = WORDS.wire_format.fault(Reason.BAD_LABEL, value, Side.LABELS)
    assert said == f"label {label} is not in serialization.label_classes"


def test_a_missing_label_is_no_example() -> None:
    """The words are about the record that the topic is for."""
    value = b'{"stream":"s","id":"a"}'
    assert check_batch([value], Side.LABELS) == [Reason.UNDECODABLE]
    assert JSON.fault(Reason.UNDECODABLE, value, Side.LABELS) == 'field "label" is missing'


@pytest.mark.parametrize("side", Side)
def test_damaged_values_have_one_meaning(side: Side) -> None:
    """The fast reader and the reader that defines the form agree about 20,000 values, most of them nearly right."""
    draw = random.Random(int(side))
    values = [
        value if draw.random() < 0.3 else damaged(draw, value) for value in islice(good_values(draw, side), 20_000)
    ]
    reasons = set(check_batch([*values, None], side))
    assert reasons >= {None, Reason.UNDECODABLE, Reason.BAD_ID}


def _golden() -> Iterator[tuple[str, bytes, bytes]]:
    for path in sorted((FOLDER / "golden").glob("*.json")):
        if path.name.partition(".")[0] in {record.__name__.lower() for record in PUBLIC_TYPES}:
            yield path.name, path.read_bytes(), path.with_suffix(".bin").read_bytes()


@pytest.mark.parametrize(("text", "avro"), [case[1:] for case in _golden()], ids=[case[0] for case in _golden()])
def test_golden_records(text: bytes, avro: bytes) -> None:
    """A record in JSON is the record in Avro, and what is written can be read again, by clients too."""
    record = codec.decode_one(avro)
    assert codec.decode_one(text, JSON) == record
    written = codec.encode_unchecked(record, JSON)
    assert codec.decode_one(written, JSON) == record
    assert client_decode(written) == record
    assert b" " not in written
    if not isinstance(record, Example | Label | Mark):
        assert list(json.loads(written)) == list(json.loads(text)), "the fields have the order of the schema"


def test_files_of_json_schemas_are_those_of_the_avro_schemas() -> None:
    """A schema that lags behind refuses what the application writes."""
    expected = files()
    assert set(FOLDER.glob("*.schema.json")) == set(expected)
    for path, text in expected.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `python -m ops.reference`"


def test_json_schemas_agree_with_the_decoder() -> None:
    """What a sender's validator accepts is decoded, and what it refuses for its types is refused."""
    schemas = {path.name.partition(".")[0]: json.loads(text) for path, text in files().items()}
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for name, text, _ in _golden():
        Draft202012Validator(schemas[name.partition(".")[0]]).validate(json.loads(text))
    draw = random.Random(3)
    for side in Side:
        validators = {kind: Draft202012Validator(schemas[kind.__name__.lower()]) for kind in INPUT_TYPES[side]}
        for value in islice(good_values(draw, side), 2_000):
            assert any(validator.is_valid(json.loads(value)) for validator in validators.values()), value
            worse = damaged(draw, value)
            try:
                record = read_json(worse, INPUT_TYPES[side])
            except (UndecodableError, WrongSchemaError):
                continue
            content, is_class = (
                json.loads(worse),
                not isinstance(record, Label) or (record.label in {0, 1} and record.revision >= 0),
            )
            if is_class and 1 <= len(record.stream) <= 249 and 1 <= len(getattr(record, "id", "x")) <= 64:
                assert validators[type(record)].is_valid(content), worse


PREDICTIONS = [
    Prediction("größe", "a", "areba", True, float(np.float32(0.1)), float(np.float32(1e-30)), 1, 12, 1_700_000_000_000),
    Prediction("s", '"\\\n', "b", False, 0.0, 1.0, 0, 0, 0),
]
OUTCOMES = [
    Outcome("s", "a", "joined", 1, "areba", float(np.float32(0.7)), 0.25, 1, -5, 3, 4, 17),
    Outcome("s", "b", "unlabelled", None, None, None, None, None, None, 9, None, 18),
]


def test_the_bytes_of_outputs() -> None:
    """The batch encoder writes what `encode` writes: fields in order, no spaces, the shortest numbers."""
    written = ((PREDICTIONS, encode_predictions(PREDICTIONS, JSON)), (OUTCOMES, encode_outcomes(OUTCOMES, JSON)))
    for records, values in written:
        assert list(values) == [codec.encode(record, JSON) for record in records]
        assert [codec.decode_one(value or b"", JSON) for value in values] == records
    assert codec.encode(PREDICTIONS[0], JSON).decode() == (
        '{"stream":"größe","id":"a","learner":"areba","champion":true,"score":0.1,"probability":1e-30,'
        '"predicted_class":1,"model_version":12,"event_time_ms":1700000000000,'
        '"threshold_kind":"majority","threshold":null}'
    )


def test_every_float_is_the_same_again() -> None:
    """A subscriber must not read another score than the one that was published."""
    bits = np.random.default_rng(1).integers(0, 2**32, 20_000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    records = [Prediction("s", "a", "b", True, float(one), 0.0, 0, 0, 0) for one in numbers]
    values = encode_predictions(records, JSON)
    scores = [json.loads(value or b"")["score"] for value in values]
    assert np.array(scores, np.float64).astype(np.float32).tobytes() == numbers.tobytes()


def test_features_of_one_digit_have_room() -> None:
    """A feature of two bytes in JSON takes four in a column: a sender of short numbers must not end the worker."""
    value = json.dumps({"stream": "s", "id": "a", "features": [1] * 5_000}, separators=(",", ":")).encode()
    decoded = decode([value], Side.EXAMPLES, DecodeLimits(wire_format=JSON))
    assert decoded.reasons.tolist() == [0]
    assert decoded.features.tolist() == [1.0] * 5_000


def test_senders() -> None:
    """A batch of a producer has the bytes of `encode`; what no sender may say is refused as in Avro."""
    features = np.array([[0.1, 2], [3, -0.0]], np.float32)
    expected = [codec.encode(Example("s", id_, row), JSON) for id_, row in zip("ab", features, strict=True)]
    assert encode_examples("s", ["a", "b"], features, JSON) == expected
    assert expected[0] == b'{"stream":"s","id":"a","features":[0.1,2.0]}'
    labels = encode_labels("s", ["a"], np.array([1], np.int8), wire_format=JSON)
    assert labels == [b'{"stream":"s","id":"a","label":1}']
    with pytest.raises(ValueError, match=r"0\.98"):
        codec.encode(Label("s", "a", 0.98), JSON)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="feature 0"):
        encode_examples("s", ["a"], np.array([[np.nan]]), JSON)


def test_the_largest_outputs_have_their_room() -> None:
    """A transaction is cut by these bounds, so no value may be larger."""
    id_, time_ms = "\x01" * 64, -(2**63)
    number = float(np.float32(-1.1754944e-38))
    prediction = Prediction("s", id_, "l", False, number, number, -(2**31), time_ms, time_ms)
    outcome = Outcome("s", id_, "unlabelled", -(2**31), "l", number, number, -(2**31), *[time_ms] * 4)
    for record in (prediction, outcome):
        assert len(codec.encode(record, JSON)) <= JSON_NUMBERS_BYTES
    widest = -2.2250738585072014e-308
    window = MetricWindow(*[widest] * len(fields(MetricWindow)))
    queues = {f"{name}_{what}": -(2**31) for name in ("positive", "negative") for what in ("queue", "capacity")}
    by_type: dict[str, Any] = {"str": "s", "bool": False}
    numbers: dict[str, Any] = {
        field.name: by_type.get(str(field.type), widest if "float" in str(field.type) else time_ms)
        for field in fields(Metric)
    }
    one, eight = (len(codec.encode(Metric(**{**numbers, **queues, "windows": (window,) * n}), JSON)) for n in (1, 8))
    assert one <= JSON_METRIC_BYTES + JSON_WINDOW_BYTES
    assert (eight - one) / 7 <= JSON_WINDOW_BYTES


def test_without_the_parser_the_configuration_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker must not start and fail at its first record."""
    monkeypatch.setattr("stream_app.config.serialization_settings.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"areba\[json\]"):
        Config.model_validate({"serialization": {"wire_format": "json"}})


@pytest.mark.parametrize("side", Side)
def test_json_after_a_schema_id(side: Side) -> None:
    """The id says which record it is; the rest has the rules of JSON."""
    draw, limits = random.Random(7), replace(LIMITS, wire_format=CONFLUENT_JSON)
    good = list(islice(good_values(draw, side), 300))
    assert set(check_batch([framed(value, side) for value in good], side, limits)) == {None}
    worse = [framed(damaged(draw, value), side) for value in good]
    assert None in check_batch(worse, side, limits)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b'{"stream":"s","id":"a","features":[1]}', ""),
        (b"\x00\x00\x00\x00\x63{}", "schema id 99 is not known"),
        (b"\x00\x00\x00\x00\x0c{}", "schema id 12 is label.v1"),
        (b'\x00\x00\x00\x00\x0b{"stream":"s","kind":"resume"}', "has the fields of a mark"),
        (b"\x00\x00\x00\x00\x0b" + codec.encode(Example("s", "a", [1.0])), "looks like Avro single-object encoding"),
    ],
)
def test_other_headers_are_refused(value: bytes, words: str) -> None:
    """A value is read by the schema that its header names, or not at all."""
    limits = replace(LIMITS, wire_format=CONFLUENT_JSON)
    assert check_batch([value], Side.EXAMPLES, limits) == [Reason.WRONG_SCHEMA]
    assert CONFLUENT_JSON.fault(Reason.WRONG_SCHEMA, value, Side.EXAMPLES) == words


def test_outputs_after_a_schema_id() -> None:
    """Batch and single encoder write the header of the type; clients read it with the registry's text."""
    for record, values in (
        (PREDICTIONS[0], encode_predictions(PREDICTIONS[:1], CONFLUENT_JSON)),
        (OUTCOMES[0], encode_outcomes(OUTCOMES[:1], CONFLUENT_JSON)),
    ):
        value = codec.encode(record, CONFLUENT_JSON)
        assert list(values) == [value]
        assert value[5:] == codec.encode(record, JSON)
        assert codec.decode_one(value, CONFLUENT_JSON) == record
        name = type(record).__name__.lower()
        texts = {int.from_bytes(value[1:5], "big"): json_sources()[name, 1]}
        client = ConfluentDecoder(texts.__getitem__)
        assert client.decode(value) == record
    assert encode_labels("s", ["a"], np.array([1], np.int8), wire_format=CONFLUENT_JSON)[0][:5] == b"\0\0\0\0\x0c"


def test_registered_json_schemas_are_recognised() -> None:
    """Comments do not matter; a field, a type or a bound does."""
    for (name, version), text in json_sources().items():
        found = json_schema_in(text)
        assert found is not None
        assert name_of(found) == f"{name}.v{version}"
    own = json.loads(json_sources()["example", 1])
    assert json_schema_in(json.dumps({**own, "$id": "http://h/example.json", "title": "Order"})) is not None
    own["properties"]["title"] = {"type": "string"}
    for text in (json.dumps(own), "{", "[]", "[" * 10_000, '{"type":"object"}'):
        assert json_schema_in(text) is None


def test_marks() -> None:
    """Operators' commands write marks in the form of the application."""
    mark = Mark("s", MarkKind.ADVANCE, time_ms=5)
    assert codec.encode(mark, JSON) == b'{"stream":"s","kind":"advance","time_ms":5}'
    assert check_batch([codec.encode(mark, JSON)], Side.LABELS) == [None]
