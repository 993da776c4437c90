"""The codec on fixed values: golden bytes, every reason, and every check of bytes."""

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from stream_app import schemas
from stream_app.arrays import pack_id
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import Decoded
from stream_app.records import (
    Example,
    Kind,
    Label,
    Mark,
    MarkKind,
    Outcome,
    Prediction,
    Reason,
    Side,
)
from stream_app.serialization import avro, codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.verify.topic_reader import read_value
from tests.support.formats.avro_reference import plain
from tests.support.formats.columns import encode_outcomes, encode_predictions
from tests.support.formats.ids import unpack_id

LIMITS = DecodeLimits()
GOLDEN = Path(schemas.__file__).parent / "golden"


def golden(record: type[avro.Record], version: int = 1) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a golden value, and its fields from the JSON file next to it."""
    stem = f"{record.__name__.lower()}.v{version}"
    words: dict[str, Any] = json.loads((GOLDEN / f"{stem}.json").read_text(encoding="utf-8"))
    if record is Commit:
        words["digest"] = bytes.fromhex(words["digest"])
    if record is Example:
        words["features"] = np.array(words["features"], np.float32).tolist()
    return (GOLDEN / f"{stem}.bin").read_bytes(), words


def decode_value(value: bytes | None, side: Side = Side.EXAMPLES, limits: DecodeLimits = LIMITS) -> Decoded:
    """Decode a batch of one value."""
    return decode([value], side, limits)


def _threshold(kind: str | None, number: float | None = None) -> Mark:
    """Return a mark with a threshold."""
    return Mark("s", MarkKind.DECIDE, threshold_kind=kind, threshold=number)


def reason(value: bytes | None, side: Side = Side.EXAMPLES, limits: DecodeLimits = LIMITS) -> Reason | int:
    """Return why a value is refused; 0 if it is accepted."""
    found = int(decode_value(value, side, limits).reasons[0])
    return Reason(found) if found else 0


@pytest.mark.parametrize("version", schemas.sources())
def test_golden_bytes(version: tuple[str, int]) -> None:
    """Values in topics stay readable for us and for any Avro reader, and today's values are written unchanged."""
    [record] = [one for one in avro.RECORD_TYPES if one.__name__.lower() == version[0]]
    value, words = golden(record, version[1])
    payload = io.BytesIO(value[avro.HEADER_BYTES :])
    schema = json.loads(schemas.sources()[version])
    assert fastavro.schemaless_reader(payload, schema, None) == words
    assert not payload.read()
    decoded = codec.decode_one(value)
    assert type(decoded) is record
    for field in dataclasses.fields(record):
        assert plain(getattr(decoded, field.name)) == words[field.name]
    assert codec.encode(decoded) == value


def test_golden_inputs_in_a_batch() -> None:
    """The worker's batch decoder reads the golden inputs, too."""
    (example, words), (label, label_words), (mark, _) = golden(Example), golden(Label), golden(Mark)
    decoded = decode([example, mark], Side.EXAMPLES, LIMITS)
    assert decoded.kinds.tolist() == [Kind.DATA, Kind.MARK]
    assert decoded.stream_names == ("fraud",)
    assert unpack_id(decoded.ids[0]) == words["id"]
    assert decoded.features.tolist() == words["features"]
    assert decoded.marks == {1: Mark("fraud", MarkKind.ADVANCE, 1_700_000_000_000)}
    labels = decode([mark, label], Side.LABELS, LIMITS)
    assert labels.stream_names == ("fraud", label_words["stream"])
    assert (labels.labels.tolist(), labels.revisions.tolist()) == ([-1, 1], [0, 2])


def test_golden_outputs_in_a_batch() -> None:
    """The worker's batch encoder writes the golden outputs."""
    (prediction, _), (outcome, _) = golden(Prediction), golden(Outcome)
    decoded_prediction, decoded_outcome = codec.decode_many([prediction, outcome])
    assert isinstance(decoded_prediction, Prediction)
    assert isinstance(decoded_outcome, Outcome)
    assert encode_predictions([decoded_prediction]) == [prediction]
    assert encode_outcomes([decoded_outcome]) == [outcome]


def test_columns() -> None:
    """Everything that a decoded batch contains, with a bad row in the middle that keeps only its stream."""
    values = [
        codec.encode(Example("s", "one", (1.0, 2.0))),
        codec.encode_unchecked(Example("bad", "nan", (1.0, math.nan, 3.0))),
        codec.encode(Mark("t", MarkKind.PROMOTE, None, "areba")),
        None,
        codec.encode(Example("s", "two", (3.0,))),
        codec.encode(Example("t", "x" * 64, (4.0, 5.0))),
    ]
    decoded = decode(values, Side.EXAMPLES, LIMITS)
    assert decoded.kinds.tolist() == [1, 0, 2, Kind.TOMBSTONE, 1, 1]
    assert decoded.reasons.tolist() == [0, Reason.NOT_FINITE, 0, 0, 0, 0]
    assert decoded.stream_names == ("s", "bad", "t")
    assert decoded.streams.tolist() == [0, 1, 2, -1, 0, 2]
    assert decoded.features.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert decoded.feature_starts[[0, 4, 5]].tolist() == [0, 2, 3]
    assert decoded.feature_counts.tolist() == [2, 0, 0, 0, 1, 2]
    assert decoded.marks == {2: Mark("t", MarkKind.PROMOTE, None, "areba")}
    for row, name in ((0, "one"), (4, "two"), (5, "x" * 64)):
        assert decoded.ids[row].tolist() == pack_id(name).tolist()
    assert not decoded.ids[[1, 2, 3]].any()
    assert decoded.labels.tolist() == [-1] * 6
    types = [column.dtype.name for column in (decoded.kinds, decoded.streams, decoded.ids, decoded.features)]
    assert types == ["uint8", "int32", "uint64", "float32"]


@pytest.mark.parametrize("side", Side)
def test_empty_batch(side: Side) -> None:
    """A round in which one side is empty is the usual case."""
    decoded = decode([], side, LIMITS)
    assert (len(decoded.kinds), len(decoded.features), decoded.stream_names) == (0, 0, ())


@pytest.mark.parametrize(
    ("record", "side", "expected"),
    [
        (Label("s", "i", 1), Side.EXAMPLES, Reason.WRONG_SCHEMA),
        (Example("s", "i", (1.0,)), Side.LABELS, Reason.WRONG_SCHEMA),
        (Act(0, "stop", "0", ""), Side.EXAMPLES, Reason.WRONG_SCHEMA),
        (Example("", "i", (1.0,)), Side.EXAMPLES, Reason.BAD_ID),
        (Example("é" * 125, "i", (1.0,)), Side.EXAMPLES, Reason.BAD_ID),
        (Example("s" * 249, "i", (1.0,)), Side.EXAMPLES, 0),
        (Example("s", "", (1.0,)), Side.EXAMPLES, Reason.BAD_ID),
        (Example("s", "é" * 33, (1.0,)), Side.EXAMPLES, Reason.BAD_ID),
        (Label("s", "x" * 65, 0), Side.LABELS, Reason.BAD_ID),
        (Mark("", MarkKind.ADVANCE, 1), Side.LABELS, Reason.BAD_ID),
        (Example("s", "i", ()), Side.EXAMPLES, Reason.WRONG_DIMENSION),
        (Example("s", "i", (1.0,) * 100_001), Side.EXAMPLES, Reason.WRONG_DIMENSION),
        (Example("s", "i", (1.0,) * 100_000), Side.EXAMPLES, 0),
        (Example("s", "i", (0.0, math.nan)), Side.EXAMPLES, Reason.NOT_FINITE),
        (Example("s", "i", (-math.inf, 0.0)), Side.EXAMPLES, Reason.NOT_FINITE),
        (Example("s", "i", (3.4e38, 1e-45)), Side.EXAMPLES, 0),
        (Label("s", "i", 2), Side.LABELS, Reason.BAD_LABEL),
        (Label("s", "i", -1), Side.LABELS, Reason.BAD_LABEL),
        (Label("s", "i", 1, -1), Side.LABELS, Reason.BAD_LABEL),
        (Label("s", "i", 0, 2**31 - 1), Side.LABELS, 0),
        (Mark("s", MarkKind.ADVANCE), Side.EXAMPLES, Reason.UNDECODABLE),
        (Mark("s", MarkKind.ADVANCE, -1), Side.LABELS, Reason.UNDECODABLE),
        (Mark("s", MarkKind.ADVANCE, 0), Side.LABELS, 0),
        (Mark("s", MarkKind.PROMOTE, 5), Side.EXAMPLES, Reason.UNDECODABLE),
        (Mark("s", MarkKind.PROMOTE, None, ""), Side.EXAMPLES, Reason.UNDECODABLE),
        (Mark("s", MarkKind.PROMOTE, None, "oob"), Side.LABELS, 0),
        (_threshold("majority"), Side.EXAMPLES, 0),
        (_threshold("costs"), Side.LABELS, 0),
        (_threshold("score", 0.0), Side.EXAMPLES, 0),
        (_threshold("probability", 1.0), Side.EXAMPLES, 0),
        (_threshold("alerts", 1e-9), Side.EXAMPLES, 0),
        (_threshold(None), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold(None, 0.3), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("majority", 0.5), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("costs", 0.5), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("score"), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("score", -1e-9), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("probability", 1.0000001), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("probability", math.nan), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("alerts", 0.0), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("alerts", 1.0), Side.EXAMPLES, Reason.UNDECODABLE),
        (_threshold("alerts", math.inf), Side.EXAMPLES, Reason.UNDECODABLE),
        # several problems: the first in the order of the module's docstring counts
        (Example("", "", (math.nan,) * 100_001), Side.EXAMPLES, Reason.BAD_ID),
        (Example("s", "i", (math.nan,) * 100_001), Side.EXAMPLES, Reason.WRONG_DIMENSION),
        (Mark("", MarkKind.ADVANCE), Side.EXAMPLES, Reason.BAD_ID),
    ],
)
def test_reasons(record: avro.Record, side: Side, expected: Reason | int) -> None:
    """The reason in a dead letter must help its sender to correct the producer; `areba verify` says the same."""
    value = codec.encode_unchecked(record)
    assert reason(value, side) == expected
    judged = read_value(value, side, LIMITS)
    assert (judged if isinstance(judged, Reason) else 0) == expected


def _text(raw: bytes) -> bytes:
    return bytes([2 * len(raw)]) + raw


@pytest.mark.parametrize(
    ("check", "record", "payload"),
    [
        ("truncated", Example, _text(b"s") + _text(b"i") + b"\x02\x00\x00"),
        ("truncated", Example, _text(b"s") + _text(b"i") + b"\x02" + bytes(4)),
        ("long varint", Label, _text(b"s") + _text(b"i") + b"\x82" + b"\x80" * 9 + b"\x00\x00"),
        ("long varint", Label, _text(b"s") + _text(b"i") + b"\x82" + b"\x80" * 8 + b"\x02\x00"),
        ("int range", Label, _text(b"s") + _text(b"i") + b"\x80\x80\x80\x80\x10\x00"),
        ("negative length", Label, b"\x01"),
        ("utf8", Label, _text(b"\xed\xa0\x80") + _text(b"i") + b"\x02\x00"),
        ("utf8", Label, _text(b"s") + _text(b"\xc0\x80") + b"\x02\x00"),
        ("index range", Mark, _text(b"s") + b"\x01\x02\x02\x00"),
        ("index range", Mark, _text(b"s") + b"\x00\x04\x02\x00"),
        ("block size", Example, _text(b"s") + _text(b"i") + b"\x01\x0a" + bytes(4) + b"\x00"),
        ("left over", Label, _text(b"s") + _text(b"i") + b"\x02\x00\x00"),
        ("boolean", Prediction, _text(b"s") + _text(b"i") + _text(b"l") + b"\x02" + bytes(4) + b"\x00\x00"),
    ],
)
def test_checks_of_bytes(check: str, record: type[avro.Record], payload: bytes) -> None:
    """Both decoders refuse, by name, bytes that another reader would read differently or not at all."""
    value = avro.newest()[record].header + payload
    with pytest.raises(UndecodableError, match=rf"{record.__name__}: {check}"):
        codec.decode_one(value)
    if record is not Prediction:
        assert reason(value, Side.EXAMPLES if record is Example else Side.LABELS) == Reason.UNDECODABLE


def test_arrays_in_blocks() -> None:
    """Writers in other languages cut arrays into blocks, with or without sizes, and without padding."""
    floats = np.array([1.5, -2.0, 3.25], "<f4").tobytes()
    head = avro.newest()[Example].header + _text(b"s") + _text(b"i")
    for blocks in (
        b"\x06" + floats + b"\x00",
        b"\x05\x18" + floats + b"\x00",
        b"\x02" + floats[:4] + b"\x03\x10" + floats[4:] + b"\x00",
        b"\x86\x80\x00" + floats + b"\x80\x00",
    ):
        assert codec.decode_one(head + blocks + b"\x00") == Example("s", "i", (1.5, -2.0, 3.25))
        assert decode_value(head + blocks + b"\x00").features.tolist() == [1.5, -2.0, 3.25]


def test_values_without_a_schema() -> None:
    """Garbage and an empty value have different reasons, and nothing is decoded by chance; a tombstone has no fault."""
    value = codec.encode(Example("s", "i", (1.0,)))
    for wrong in (b"", b"\xc3", value[:9], b"\xc3\x02" + value[2:], b"\x00" + value, value[:9] + b"\x00" + value[10:]):
        assert reason(wrong) == Reason.WRONG_SCHEMA
        with pytest.raises(WrongSchemaError):
            codec.decode_one(wrong)
    assert reason(value[:10]) == Reason.UNDECODABLE
    assert reason(None) == 0


def test_size_limit() -> None:
    """A value of exactly the limit is accepted; one more byte, and it is not even parsed."""
    value = codec.encode(Example("s", "i", (1.0,)))
    assert reason(value, limits=DecodeLimits(max_record_bytes=len(value))) == 0
    assert reason(value, limits=DecodeLimits(max_record_bytes=len(value) - 1)) == Reason.TOO_LARGE
    assert reason(value[::-1] * 100_000) == Reason.TOO_LARGE
