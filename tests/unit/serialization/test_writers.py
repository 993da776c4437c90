"""Schemas of other writers: which resolve to ours, what their values become, and hostile schemas and values."""

import json
import time
from typing import Any

import numpy as np
import pytest

from stream_app.errors import ConfigurationError
from stream_app.records import Example, Label, Mark, MarkKind, Reason, Side
from stream_app.serialization.codec import decode_one, encode
from stream_app.serialization.decode import decode
from stream_app.serialization.wire_format import confluent
from stream_app.serialization.writer_schema import MAX_SCHEMA_BYTES, kept_text
from stream_app.verify.topic_reader import read_value
from tests.support.formats.json_values import check_batch
from tests.support.formats.wire_formats import CONFLUENT
from tests.support.formats.writers import (
    CHARGEBACK,
    PAYMENT,
    WRITER_ID,
    format_with,
    headed,
    limits_with,
    record,
    written,
)

TEXTS: tuple[tuple[str, Any], ...] = (("stream", "string"), ("id", "string"))
NAMES = {"stream": "s", "id": "1"}
FLOATS = ("features", {"type": "array", "items": "float"})
SHORT_S = 2.0
"""Far above the time that any bounded value takes."""


def _features(items: Any) -> dict[str, Any]:  # noqa: ANN401  (a type)
    return record(*TEXTS, ("features", {"type": "array", "items": items}))


def _values(values: Any) -> dict[str, Any]:  # noqa: ANN401  (a type)
    return record(*TEXTS, ("values", {"type": "map", "values": values}))


def _read(schema: Any, content: Any, side: Side = Side.EXAMPLES, words: dict[str, int] | None = None) -> object:  # noqa: ANN401
    """Return what a value means to `areba verify`, after a check that the worker reads the same."""
    limits, value = limits_with(schema, words), written(schema, content)
    check_batch([value], side, limits)
    return read_value(value, side, limits)


@pytest.mark.parametrize(
    ("schema", "content", "expected"),
    [
        (_features("double"), [0.1, -2.5], (float(np.float32(0.1)), -2.5)),
        (_features("int"), [1, -3], (1.0, -3.0)),
        (_features("long"), [2**40], (2.0**40,)),
        (_features(["null", "double"]), [1.5], (1.5,)),
        (_features(["null", "double"]), [None], Reason.UNDECODABLE),
        (_features("double"), [1e39], Reason.NOT_FINITE),
        (_features("double"), [float("nan")], Reason.NOT_FINITE),
        (_features("double"), [], Reason.WRONG_DIMENSION),
    ],
)
def test_features(schema: Any, content: list[Any], expected: object) -> None:  # noqa: ANN401
    """Numbers of other types become the floats next to them."""
    found = _read(schema, {**NAMES, "features": content})
    assert found == (expected if isinstance(expected, Reason) else Example("s", "1", expected))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ("double", {"a": 0.1}),
        ("float", {"a": 0.5}),
        ("int", {"a": 7}),
        ("string", {"a": "DE", "ö": "é"}),
        ("bytes", {"a": b"DE"}),
        ("boolean", {"a": True, "b": False}),
        (["null", "long"], {"a": None, "b": 2**60}),
        (["string", "null", "double", "boolean"], {"a": "x", "b": None, "c": 0.1, "d": True}),
    ],
)
def test_values_by_column(values: Any, cells: dict[str, Any]) -> None:  # noqa: ANN401
    """A column has a whole number, a number, text, a boolean or nothing, whatever the writer calls its type."""
    found = _read(_values(values), {**NAMES, "values": cells})
    assert found == Example(
        "s", "1", (), {name: b.decode() if isinstance(b, bytes) else b for name, b in cells.items()}
    )


@pytest.mark.parametrize(
    ("kind", "label", "expected"),
    [
        ("boolean", True, 1),
        ("boolean", False, 0),
        ("long", 1, 1),
        ("long", 2**40, Reason.BAD_LABEL),
        ("long", -1, Reason.BAD_LABEL),
        ("int", 2, Reason.BAD_LABEL),
        (["null", "boolean"], True, 1),
        (["null", "int"], None, Reason.UNDECODABLE),
        ("string", "fraud", 1),
        ("string", "genuine", 0),
        ("string", "Fraud", Reason.BAD_LABEL),
    ],
)
def test_labels(kind: Any, label: object, expected: object) -> None:  # noqa: ANN401
    """A label is 0 or 1, and nothing is rounded or guessed."""
    schema = record(("label", kind), *TEXTS)
    found = _read(schema, {**NAMES, "label": label}, Side.LABELS, {"fraud": 1, "genuine": 0})
    assert found == (expected if isinstance(expected, Reason) else Label("s", "1", expected))  # type: ignore[arg-type]


def test_revisions() -> None:
    """A long is accepted if it fits."""
    schema = record(*TEXTS, ("revision", "long"), ("label", "boolean"))
    assert _read(schema, {**NAMES, "label": True, "revision": 3}, Side.LABELS) == Label("s", "1", 1, 3)
    assert _read(schema, {**NAMES, "label": True, "revision": 2**31}, Side.LABELS) is Reason.BAD_LABEL


def test_fields_of_the_writer_are_ignored() -> None:
    """Logical types and nested records, between the fields that count."""
    content = {
        **NAMES,
        "booked": 1_700_000_000_000,
        "features": [1.0],
        "shop": {"city": "Köln"},
        "previous": {"city": "Bonn"},
    }
    assert _read(PAYMENT, content) == Example("s", "1", (1.0,))
    assert _read(CHARGEBACK, {**NAMES, "label": True}, Side.LABELS) == Label("s", "1", 1)


def test_one_schema_for_both_inputs() -> None:
    """The topic decides what a record with features and a label is."""
    schema = record(*TEXTS, FLOATS, ("label", "boolean"), name="com.bank.Mixed")
    content = {**NAMES, "features": [1.0], "label": True}
    assert _read(schema, content) == Example("s", "1", (1.0,))
    assert _read(schema, content, Side.LABELS) == Label("s", "1", 1)


def test_marks_are_named_so() -> None:
    """A field `kind` of somebody's own must never promote a learner."""
    kinds = {"type": "enum", "name": "MarkKind", "symbols": ["erase", "promote", "advance", "dance"]}
    marks = record(("kind", kinds), ("learner", "string"), ("stream", "string"), name="com.bank.Mark")
    promote = {"stream": "s", "kind": "promote", "learner": "areba"}
    assert _read(marks, promote) == Mark("s", MarkKind.PROMOTE, learner="areba")
    assert _read(marks, promote, Side.LABELS) == Mark("s", MarkKind.PROMOTE, learner="areba")
    assert _read(marks, {**promote, "kind": "dance"}) is Reason.UNDECODABLE
    thresholds = {"type": "enum", "name": "com.bank.ThresholdKind", "symbols": ["alerts", "score"]}
    decides = {"type": "enum", "name": "MarkKind", "symbols": ["decide"]}
    for number in ("double", "float", "int", ["null", "double"]):
        fields = ("kind", decides), ("threshold", number), ("threshold_kind", thresholds), ("stream", "string")
        decide = {"stream": "s", "kind": "decide", "threshold_kind": "score", "threshold": 1}
        expected = Mark("s", MarkKind.DECIDE, threshold_kind="score", threshold=1.0)
        assert _read(record(*fields, name="Mark"), decide) == expected
        assert _read(record(*fields, name="Mark"), {**decide, "threshold_kind": "alerts"}) is Reason.UNDECODABLE
    others = record(("kind", kinds), *TEXTS, FLOATS)
    assert _read(others, {**NAMES, "kind": "promote", "features": [1.0]}) == Example("s", "1", (1.0,))


REFUSED = [
    (record(("stream", "string"), FLOATS), Side.EXAMPLES, 'field "id" is missing'),
    (record(*TEXTS, ("amount", "double")), Side.EXAMPLES, 'field "features" or "values" is missing'),
    (record(*TEXTS, ("label", "double")), Side.LABELS,
     'field "label" has the type double, and int, long, boolean or string is wanted'),
    (record(*TEXTS, ("label", "boolean"), ("revision", "string")), Side.LABELS,
     'field "revision" has the type string, and int or long is wanted'),
    (record(("stream", "long"), ("id", "string"), FLOATS), Side.EXAMPLES,
     'field "stream" has the type long, and string or bytes is wanted'),
    (_features("string"), Side.EXAMPLES,
     'an item of field "features" has the type string, and int, long, float or double is wanted'),
    (_features(["null", "boolean"]), Side.EXAMPLES, 'an item of field "features" has the type boolean'),
    (record(*TEXTS, ("features", "bytes")), Side.EXAMPLES, 'field "features" has the type bytes, and array is wanted'),
    (record(*TEXTS, ("values", "string")), Side.EXAMPLES, 'field "values" has the type string, and map is wanted'),
    (_values({"type": "bytes", "logicalType": "decimal", "precision": 9}), Side.EXAMPLES,
     'a value of field "values" has the type bytes (decimal)'),
    (_values({"type": "array", "items": "int"}), Side.EXAMPLES, 'a value of field "values" has the type array'),
    (record(("stream", ["null", "string", "int"]), ("id", "string"), FLOATS), Side.EXAMPLES,
     'field "stream" has the type int'),
    (record(("stream", "string"), ("kind", {"type": "enum", "name": "MarkKind", "symbols": ["decide"]}),
            ("threshold", "string"), name="Mark"), Side.EXAMPLES,
     'field "threshold" has the type string, and int, long, float or double is wanted'),
    ('{"type": "string"}', Side.EXAMPLES, "is no record"),
    ("", Side.LABELS, "is no record"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "side", "words"), REFUSED)
def test_a_schema_that_does_not_resolve(schema: Any, side: Side, words: str) -> None:  # noqa: ANN401
    """The dead letter names the id, the field, its type, and the types that would be accepted."""
    limits, value = limits_with(schema), headed(b"\x02a")
    assert check_batch([value], side, limits) == [Reason.WRONG_SCHEMA]
    said = limits.wire_format.fault(Reason.WRONG_SCHEMA, value, side)
    assert said.startswith(f"schema id {WRITER_ID} ")
    assert words in said
    assert limits.wire_format.unknown_id(value) is None, "the registry is asked once"


def test_what_is_wrong_with_a_value() -> None:
    """A producer finds the field, and the text that means nothing."""
    limits = limits_with(PAYMENT)
    content = {**NAMES, "booked": 1, "features": [1.0], "shop": {"city": "x"}, "previous": None}
    value = written(PAYMENT, {**content, "id": None})
    assert limits.wire_format.fault(Reason.UNDECODABLE, value, Side.EXAMPLES) == 'field "id": is null'
    value = written(PAYMENT, content)
    assert "truncated" in limits.wire_format.fault(Reason.UNDECODABLE, value[:-1], Side.EXAMPLES)
    assert limits.wire_format.fault(Reason.UNDECODABLE, value + b"\x00", Side.EXAMPLES) == "left over"
    labels = record(("label", ["null", "string"]), *TEXTS)
    value = written(labels, {**NAMES, "label": "Betrug"})
    said = limits_with(labels, {"fraud": 1}).wire_format.fault(Reason.BAD_LABEL, value, Side.LABELS)
    assert said == 'label "Betrug" is not in serialization.label_classes'


def test_a_batch_of_two_writers() -> None:
    """Our own values, another writer's, tombstones and unknown ids in one topic."""
    own, foreign = encode(Example("s", "own", [1.0]), CONFLUENT), {**NAMES, "features": [2.0]}
    values = [own, None, written(_features("double"), foreign), headed(b"", 7), own, b"", b"\x00\x00"]
    reasons = check_batch(values, Side.EXAMPLES, limits_with(_features("double")))
    wrong = Reason.WRONG_SCHEMA
    assert reasons == [None, None, None, wrong, None, wrong, wrong]


def test_our_own_values_are_not_copied() -> None:
    """The usual batch, of one writer with our schema, is decoded where it is."""
    column = [encode(Example("s", "own", [1.0]), CONFLUENT)]
    decoded = decode(column, Side.EXAMPLES, limits_with(PAYMENT))
    assert decoded.cells == column


def test_tools_read_them() -> None:
    """`areba tail` shows the content of a value, whichever input it is from."""
    value = written(CHARGEBACK, {**NAMES, "label": True})
    assert decode_one(value, format_with(CHARGEBACK)) == Label("s", "1", 1)


# Hostile --------------------------------------------------------------------------------------------------------------

_DEEP = '{"type": "array", "items": ' * 100_000


def _list_type() -> dict[str, Any]:
    return record(("next", ["null", "com.bank.Node"]), name="com.bank.Node")


@pytest.mark.parametrize(
    "text",
    [
        _DEEP,
        "[" * 100_000,
        json.dumps(record(*TEXTS, FLOATS, *[(f"own{number}", "string") for number in range(2_000)])),
        json.dumps(record(*TEXTS, FLOATS, ("own", "Undefined"))),
        json.dumps(record(*TEXTS, FLOATS, ("own", record(name="com.bank.Payment")))),
        json.dumps(record(*TEXTS, FLOATS, ("own", {"type": "fixed", "name": "F", "size": -1}))),
        json.dumps(record(*TEXTS, FLOATS, ("own", {"type": "enum", "name": "E", "symbols": [1]}))),
        json.dumps(record(*TEXTS, FLOATS, ("own", {"type": "array"}))),
        json.dumps(record(*TEXTS, FLOATS, ("own", 7))),
        json.dumps(record(*TEXTS, FLOATS, ("\n", "int"))),
        json.dumps({"type": "record", "name": "x y", "fields": []}),
        '{"type": "record", "name": "P", "fields": [7]}',
        "7",
        "",
        "\ud800",
    ],
)
def test_hostile_schemas(text: str) -> None:
    """A registry is another system: its answer is refused, and never ends a worker."""
    assert kept_text(text) == ""


def test_what_is_kept_of_a_schema() -> None:
    """The same text for the same meaning; it is read again as it is."""
    text = kept_text(json.dumps(PAYMENT))
    assert kept_text(text) == text
    assert "services" not in text
    assert len(text) < MAX_SCHEMA_BYTES
    nested = {"type": {"type": "string"}}
    assert kept_text(json.dumps(record(("a", nested["type"]), ("b", ["null", {"type": "int"}])))) == kept_text(
        json.dumps(record(("a", "string"), ("b", ["null", "int"])))
    )


def _bomb() -> dict[str, Any]:
    """Return a schema of a record that has 100 times a record that has 100 times ... nothing."""
    nothing = record(name="R0")
    fields: list[tuple[str, Any]] = [("own0", nothing)]
    fields += [
        (f"own{level}", record(*[(f"f{one}", f"R{level - 1}") for one in range(40)], name=f"R{level}"))
        for level in range(1, 8)
    ]
    return record(*fields, ("many", {"type": "array", "items": "R7"}), *TEXTS, FLOATS, name="Bomb")


BODY = b"\x02s\x021\x02\x00\x00\x80\x3f\x00"
"""An example: a stream, an id, and one feature."""

HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
"""The largest long."""


@pytest.mark.parametrize(
    ("schema", "head", "reason"),
    [
        (record(("own", _list_type()), *TEXTS, FLOATS), b"\x02" * 900_000, Reason.UNDECODABLE),
        (record(("own", _list_type()), *TEXTS, FLOATS), b"\x02" * 20 + b"\x00", None),
        (record(("own", record(("own", "Node"), name="Node")), *TEXTS, FLOATS), b"", Reason.UNDECODABLE),
        (record(("own", {"type": "array", "items": "null"}), *TEXTS, FLOATS), HUGE + b"\x00", None),
        (record(("own", {"type": "array", "items": "null"}), *TEXTS, FLOATS), HUGE * 80_000 + b"\x00", None),
        (record(("own", {"type": "array", "items": "int"}), *TEXTS, FLOATS), HUGE, Reason.UNDECODABLE),
        (record(("own", {"type": "array", "items": "double"}), *TEXTS, FLOATS), HUGE, Reason.UNDECODABLE),
        (record(("own", {"type": "map", "values": "null"}), *TEXTS, FLOATS), HUGE, Reason.UNDECODABLE),
        (record(("own", "bytes"), *TEXTS, FLOATS), HUGE, Reason.UNDECODABLE),
        (record(("own", "bytes"), *TEXTS, FLOATS), b"\x01", Reason.UNDECODABLE),
        (record(("own", "string"), *TEXTS, FLOATS), b"\x02\xff", None),
        (record(("own", ["null", "int"]), *TEXTS, FLOATS), b"\x04", Reason.UNDECODABLE),
        (record(("own", ["null", "int"]), *TEXTS, FLOATS), b"\x01", Reason.UNDECODABLE),
        (record(("own", "long"), *TEXTS, FLOATS), b"\xff" * 9 + b"\x02", Reason.UNDECODABLE),
        (record(("own", "long"), *TEXTS, FLOATS), b"\xff" * 900_000, Reason.UNDECODABLE),
        (_bomb(), HUGE + b"\x00", None),
    ],
)  # fmt: skip
def test_hostile_values_of_ignored_fields(schema: Any, head: bytes, reason: Reason | None) -> None:  # noqa: ANN401
    """No value takes long, much memory or the stack, whatever it claims."""
    limits, begun_s = limits_with(schema), time.monotonic()
    assert check_batch([headed(head + BODY)], Side.EXAMPLES, limits) == [reason]
    assert time.monotonic() - begun_s < SHORT_S


@pytest.mark.parametrize("items", ["float", "double", "long", ["null", "double"]])
@pytest.mark.parametrize(
    "blocks",
    [HUGE, b"\x01" + HUGE, b"\x03\x02\x00", HUGE + b"\x00", b"\x02", b"\x01\x00\x00", b"\x02\x01" * 3, b"\xff" * 10],
)
def test_hostile_blocks_of_features(items: Any, blocks: bytes) -> None:  # noqa: ANN401
    """Nothing is reserved for a size that a value only claims."""
    limits = limits_with(_features(items))
    assert check_batch([headed(b"\x02s\x021" + blocks)], Side.EXAMPLES, limits) == [Reason.UNDECODABLE]


@pytest.mark.parametrize("blocks", [HUGE, b"\x01" + HUGE, b"\x03\x02\x00", b"\x02\x01", b"\x02\x02\xff\x00\x00"])
def test_hostile_blocks_of_columns(blocks: bytes) -> None:
    """As above, of a map."""
    limits = limits_with(_values("long"))
    assert check_batch([headed(b"\x02s\x021" + blocks)], Side.EXAMPLES, limits) == [Reason.UNDECODABLE]


def test_integers_of_a_byte_have_room() -> None:
    """A feature of one byte takes four in a column."""
    content = {**NAMES, "features": [1] * 5_000}
    assert (
        decode([written(_features("int"), content)], Side.EXAMPLES, limits_with(_features("int"))).features.tolist()
        == [1.0] * 5_000
    )


def test_a_refusal_is_bounded() -> None:
    """A dead letter has it in a header: long names of a registry must not make it too large."""
    schema = record(("id", "int"), name=f"a{'x' * 10_000}")
    said = limits_with(schema).wire_format.fault(Reason.WRONG_SCHEMA, headed(b""), Side.EXAMPLES)
    assert len(said) < 300


def test_an_id_of_two_schemas_is_refused() -> None:
    """The same value would have two meanings."""
    with pytest.raises(ConfigurationError, match="256 is the id of two schemas"):
        confluent({"example.v1": (256,)}, {"256": kept_text(json.dumps(PAYMENT))})
