"""JSON values, good and hostile, and what the decoder should say about them."""

import json
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from stream_app.records import Example, Kind, Label, Mark, Reason, Side
from stream_app.serialization.codec import decode_one
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.serialization.wire_format import confluent_json, json_format
from stream_app.verify.topic_reader import read_value

pytest.importorskip("msgspec", reason="areba[json] is not installed")

JSON = json_format()
SECTION = {"wire_format": "json"}
LIMITS = DecodeLimits(max_record_bytes=5_000, max_features=9, wire_format=JSON)

_TOKENS = (
    b'"', b"\\", b":", b",", b"{", b"}", b"[", b"]", b"0", b"1", b"-", b".", b"e999", b"1e999", b"NaN", b"Infinity",
    b"true", b"false", b"null", b" ", b"\n", b"\x00", b"\xff", b"\xc3\xa9", b"\\u00e9", b"\\u003a",
    b"\\ud83d", b"\\ude00",
    b"9" * 30, b"1" * 500, b'"id":"a",', b'"label":1,', b'"x":1,', b'"features":[1],', b'"values":{"a:b":":"},',
    b'"stream"', b'"id"', b'"kind":"promote",', b'"kind":"decide",', b'"threshold":0.5,',
    b"\xef\xbb\xbf", b"{}", b"[[[[" * 10,
)  # fmt: skip
"""Parts of JSON, and bytes that have no place in it."""

_THRESHOLDS: Sequence[dict[str, object]] = (
    {"threshold_kind": "probability", "threshold": 0.3},
    {"threshold_kind": "alerts", "threshold": 1e-9},
    {"threshold_kind": "score", "threshold": 1},
    {"threshold_kind": "costs"},
    {"threshold_kind": "majority", "threshold": None},
)


def good_values(draw: random.Random, side: Side) -> Iterator[bytes]:
    """Yield values that are accepted, as different senders write them."""
    while True:
        stream, id_ = (
            draw.choice(("pumps", "größe", "a:b", '"q"')),
            draw.choice(("1", "x:y", "é", "日本\\", "\t", "😀")),
        )
        fields: dict[str, object] = {"stream": stream, "id": id_}
        if draw.random() < 0.1:
            fields = {"stream": stream, "kind": draw.choice(("resume", "promote", "decide")), "learner": "areba"}
            if fields["kind"] == "decide":
                fields |= draw.choice(_THRESHOLDS)
        elif side is Side.LABELS:
            fields |= {"label": draw.choice((0, 1, True, False, 1.0))}
            fields |= {"revision": draw.randrange(3)} if draw.random() < 0.3 else {}
        elif draw.random() < 0.5:
            numbers = (0, 1, -3, 0.1, -0.0, 1e-300, 2.5e38, 10**20, draw.gauss(0, 1))
            fields |= {"features": [draw.choice(numbers) for _ in range(draw.randrange(1, 9))]}
        else:
            cells = (None, True, 7, -(2**63), 0.1, "DE", "a:b", "é", 1e300)
            fields |= {"values": {name: draw.choice(cells) for name in draw.sample(("a", "b:c", "ö", "d"), 3)}}
        items = list(fields.items())
        draw.shuffle(items)
        spaces = draw.choice(((",", ":"), (", ", ": "), (" ,\n", " :\t")))
        yield json.dumps(dict(items), ensure_ascii=draw.random() < 0.5, separators=spaces).encode()


def damaged(draw: random.Random, value: bytes) -> bytes:
    """Return a value with a token inserted, bytes left out, or a byte changed."""
    place, fate = draw.randrange(len(value) + 1), draw.random()
    if fate < 0.6:
        return value[:place] + draw.choice(_TOKENS) + value[place:]
    if fate < 0.8:
        return value[:place] + value[place + draw.randrange(1, 9) :]
    return value[:place] + draw.randbytes(1) + value[place + 1 :]


def check_batch(values: Sequence[bytes | None], side: Side, limits: DecodeLimits = LIMITS) -> list[Reason | None]:
    """Assert that the batch decoder says what `areba verify` says about each value; return the reasons."""
    decoded = decode(values, side, limits)
    for row, value in enumerate(values):
        expected = read_value(value, side, limits)
        reason = int(decoded.reasons[row])
        if isinstance(expected, Reason):
            assert reason == expected, (value, Reason(reason) if reason else None, expected)
            continue
        assert reason == 0, (value, Reason(reason), expected)
        kind = Kind.TOMBSTONE if expected is None else Kind.MARK if isinstance(expected, Mark) else Kind.DATA
        assert decoded.kinds[row] == kind
        if expected is not None:
            assert same(decode_one(decoded.cells[row] or b""), expected), value
    return [Reason(reason) if reason else None for reason in decoded.reasons.tolist()]


def same(one: object, two: object) -> bool:
    """Compare two records of an input; features as float32, with the sign of zero."""
    if isinstance(one, Example) and isinstance(two, Example):
        equal = np.array(one.features, "f").tobytes() == np.array(two.features, "f").tobytes()
        values = [repr(sorted((each.values or {}).items())) for each in (one, two)]
        return equal and values[0] == values[1] and (one.stream, one.id) == (two.stream, two.id)
    return isinstance(one, Label | Mark) and one == two


IDS = {
    f"{name}.v1": (number,)
    for number, name in enumerate(("example", "label", "mark", "prediction", "outcome", "metric"), 11)
}
CONFLUENT_JSON = confluent_json(IDS)
CONFLUENT_SECTION = {"wire_format": "confluent_json", "schema_ids": IDS}


def framed(value: bytes, side: Side) -> bytes:
    """Return JSON after the header that the sender of a record of this kind writes."""
    name = "mark" if b'"kind"' in value else ("example", "label")[side]
    return b"\x00" + IDS[f"{name}.v1"][0].to_bytes(4, "big") + value
