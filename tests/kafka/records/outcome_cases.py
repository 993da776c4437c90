"""Short sequences of records, and what must become of each record."""

from collections.abc import Mapping, Sequence

from stream_app.records import Example, Label, Mark, MarkKind, Side
from stream_app.serialization import codec
from tests.support.kafka.records import advance, example
from tests.support.rows import Sent

TTL_MS, LEAD_MS = 1_000, 100
LIFE_MS = TTL_MS + LEAD_MS

MAX_PENDING, MAX_WAITING, MAX_RECORD_BYTES, FEATURES = 3, 2, 500, 2
EXAMPLES, LABELS = Side.EXAMPLES, Side.LABELS
NAN, INFINITY = float("nan"), float("inf")
CASE_MS = 20_000
"""Event time between two cases, so that the merge never mixes them."""

Row = tuple[Sent, str]
"""A record at a time within its case, and its fate."""


def _ex(id_: str, at_ms: int, fate: str, value: float = 1.0) -> Row:
    return example("", id_, [value, 2.0], at_ms), fate


def _la(id_: str, at_ms: int, fate: str, label_: int = 1, revision: int = 0) -> Row:
    return Sent(Side.LABELS, 0, at_ms, b"", codec.encode_unchecked(Label("", id_, label_, revision))), fate


def _advance(side: Side, to_ms: int, at_ms: int) -> Row:
    return advance("", side, to_ms, at_ms), "mark"


def _promote(learner: str, at_ms: int, fate: str = "mark") -> Row:
    return Sent(Side.EXAMPLES, 0, at_ms, b"", codec.encode_unchecked(Mark("", MarkKind.PROMOTE, learner=learner))), fate


def _decide(kind: str, number: float | None, at_ms: int, fate: str = "mark") -> Row:
    mark = Mark("", MarkKind.DECIDE, threshold_kind=kind, threshold=number)
    return Sent(Side.EXAMPLES, 0, at_ms, b"", codec.encode_unchecked(mark)), fate


def _raw(side: Side, value: bytes | None, fate: str, key: bytes = b"a key") -> Row:
    return Sent(side, 0, 0, key, value, (("source", b"north"), ("traceparent", b"no W3C value"))), fate


JOIN_CASES: Mapping[str, Sequence[Row]] = {
    "example-then-label": [_ex("a", 0, "joined"), _la("a", 50, "joined")],
    "label-then-example": [_la("a", 0, "joined"), _ex("a", 50, "joined")],
    "expired": [_ex("a", 0, "unlabelled"), _ex("b", LIFE_MS + 1, "pending")],
    "expired-by-a-label": [_ex("a", 0, "unlabelled"), _la("b", LIFE_MS + 1, "waiting")],
    "not-expired-yet": [_ex("a", 0, "pending"), _ex("b", LIFE_MS, "pending")],
    "too-old-on-arrival": [_ex("b", 5_000, "pending"), _ex("a", 5_000 - LIFE_MS - 1, "unlabelled")],
    "evicted": [_ex("a", 0, "evicted"), _ex("b", 1, "pending"), _ex("c", 2, "pending"), _ex("d", 3, "pending")],
    "repeats-pending-example": [_ex("a", 0, "pending"), _ex("a", 9, "duplicate")],
    "repeats-closed-example": [_ex("a", 0, "joined"), _la("a", 5, "joined"), _ex("a", 9, "duplicate")],
    "repeats-waiting-label": [_la("a", 0, "waiting"), _la("a", 9, "duplicate")],
    "repeats-joined-label": [_ex("a", 0, "joined"), _la("a", 5, "joined"), _la("a", 9, "duplicate")],
    "conflicts-with-pending-example": [_ex("a", 0, "pending"), _ex("a", 9, "conflicting-example", 3.0)],
    "conflicts-with-closed-example": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined"),
        _ex("a", 9, "conflicting-example", 3.0),
    ],
    "conflicts-with-waiting-label": [_la("a", 0, "waiting"), _la("a", 9, "conflicting-label", 0)],
    "conflicts-with-joined-label": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined"),
        _la("a", 9, "conflicting-label", 0),
    ],
    "revisions-mean-nothing": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined"),
        _la("a", 6, "duplicate", 1, 2),
        _la("a", 7, "conflicting-label", 0, 3),
        _la("b", 8, "waiting"),
        _la("b", 9, "conflicting-label", 0, 1),
    ],
    "label-of-unlabelled": [
        _ex("a", 0, "unlabelled"),
        _ex("b", LIFE_MS + 1, "pending"),
        _la("a", LIFE_MS + 2, "late-label"),
    ],
    "label-of-evicted": [
        _ex("a", 0, "evicted"),
        _ex("b", 1, "pending"),
        _ex("c", 2, "pending"),
        _ex("d", 3, "pending"),
        _la("a", 4, "late-label"),
    ],
    "example-too-old-for-its-label": [
        _la("a", 4_999, "late-label"),
        _ex("b", 5_000, "pending"),
        _ex("a", 5_000 - LIFE_MS - 1, "unlabelled"),
    ],
    "orphan-by-expiry": [_la("a", 0, "orphan-label"), _ex("b", LIFE_MS + 1, "pending")],
    "orphan-on-arrival": [_ex("b", 5_000, "pending"), _la("b2", 5_000, "waiting"), _la("a", 0, "orphan-label")],
    "orphan-by-eviction": [_la("a", 0, "orphan-label"), _la("b", 1, "waiting"), _la("c", 2, "waiting")],
    "orphan-by-advance": [_la("a", 0, "orphan-label"), _advance(EXAMPLES, 5, 9), _advance(LABELS, 5, 9)],
    "advance-pair": [
        _ex("a", 0, "unlabelled"),
        _ex("b", 5, "unlabelled"),
        _ex("c", 6, "pending"),
        _advance(EXAMPLES, 5, 9),
        _advance(LABELS, 5, 9),
    ],
    "lone-advance": [_ex("a", 0, "pending"), _advance(EXAMPLES, 5, 9), _advance(LABELS, 6, 9)],
    "promoted": [
        _ex("a", 0, "joined"),
        _promote("baseline", 1),
        _ex("b", 2, "joined"),
        _la("a", 3, "joined"),
        _la("b", 4, "joined"),
        _advance(EXAMPLES, 5, 9),
        _advance(LABELS, 5, 9),
    ],
    "promotes-nobody": [_promote("nobody", 0, "unknown-learner"), _ex("a", 1, "pending")],
    "decides": [
        _ex("a", 0, "joined"),
        _decide("score", 0.0, 1),
        _ex("b", 2, "joined"),
        _decide("costs", None, 3, "unknown-costs"),
        _ex("c", 4, "pending"),
        _la("a", 5, "joined"),
        _la("b", 6, "joined"),
    ],
}

HEAD = codec.encode_unchecked(Example("odd", "a", [1.0, 2.0]))

ODD_ROWS: Mapping[str, Row] = {
    "cut-off": _raw(EXAMPLES, HEAD[:-3], "undecodable"),
    "byte-left-over": _raw(EXAMPLES, HEAD + b"\0", "undecodable"),
    "mark-without-time": _raw(LABELS, codec.encode_unchecked(Mark("odd", MarkKind.ADVANCE)), "undecodable"),
    "mark-without-threshold": _raw(EXAMPLES, codec.encode_unchecked(Mark("odd", MarkKind.DECIDE)), "undecodable"),
    "garbage": _raw(LABELS, b"{'id': 3}", "wrong-schema"),
    "label-among-examples": _raw(EXAMPLES, codec.encode_unchecked(Label("odd", "a", 1)), "wrong-schema"),
    "example-among-labels": _raw(LABELS, HEAD, "wrong-schema"),
    "large-example": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "a", [1.0] * MAX_RECORD_BYTES)), "too-large"),
    "large-label": _raw(LABELS, bytes(MAX_RECORD_BYTES + 1), "too-large"),
    "one-feature": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "a", [1.0])), "wrong-dimension", b"odd"),
    "no-feature": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "a", [])), "wrong-dimension"),
    "values-without-columns": _raw(
        EXAMPLES, codec.encode(Example("odd", "a", values={"x": 1.0})), "wrong-dimension", b"odd"
    ),
    "nan": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "a", [1.0, NAN])), "not-finite"),
    "infinite": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "a", [-INFINITY, 1.0])), "not-finite"),
    "empty-id": _raw(EXAMPLES, codec.encode_unchecked(Example("odd", "", [1.0, 2.0])), "bad-id"),
    "long-id": _raw(LABELS, codec.encode_unchecked(Label("odd", "a" * 65, 1)), "bad-id"),
    "empty-stream": _raw(EXAMPLES, codec.encode_unchecked(Example("", "a", [1.0, 2.0])), "bad-id"),
    "class-2": _raw(LABELS, codec.encode_unchecked(Label("odd", "a", 2)), "bad-label"),
    "revision-below-0": _raw(LABELS, codec.encode_unchecked(Label("odd", "a", 1, revision=-1)), "bad-label"),
    "example-by-id": _raw(EXAMPLES, HEAD, "wrong-key", b"a"),
    "label-by-id": _raw(LABELS, codec.encode_unchecked(Label("odd", "a", 1)), "wrong-key", b"a"),
    "mark-by-another-stream": _raw(
        LABELS, codec.encode_unchecked(Mark("odd", MarkKind.ADVANCE, time_ms=1)), "wrong-key", b"who"
    ),
    "unknown-example": _raw(
        EXAMPLES, codec.encode_unchecked(Example("who", "a", [1.0, 2.0])), "unknown-stream", b"who"
    ),
    "unknown-label": _raw(LABELS, codec.encode_unchecked(Label("who", "a", 1)), "unknown-stream", b"who"),
    "unknown-mark": _raw(
        LABELS, codec.encode_unchecked(Mark("who", MarkKind.ADVANCE, time_ms=1)), "unknown-stream", b"who"
    ),
}

CASES: Mapping[str, Sequence[Row]] = {**JOIN_CASES, **{name: [row] for name, row in ODD_ROWS.items()}}

CORRECTIONS: Mapping[str, Sequence[Row]] = {
    "of-a-joined-example": [
        _ex("a", 0, "joined"),
        _ex("b", 1, "joined"),
        _la("a", 5, "joined"),
        _la("b", 6, "joined", 0),
        _la("a", 7, "correction", 0, 2),
        _advance(EXAMPLES, 8, 9),
        _advance(LABELS, 8, 9),
    ],
    "and-back": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined", 0, 1),
        _la("a", 6, "correction", 1, 2),
        _la("a", 7, "correction", 0, 3),
    ],
    "of-a-label-that-waits": [_la("a", 0, "joined"), _la("a", 5, "correction", 0, 1), _ex("a", 6, "joined")],
    "by-an-older-revision": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined", 1, 3),
        _la("a", 6, "conflicting-label", 0, 3),
        _la("a", 7, "conflicting-label", 0, 2),
    ],
    "confirmed": [
        _ex("a", 0, "joined"),
        _la("a", 5, "joined"),
        _la("a", 6, "duplicate", 1, 2),
        _la("a", 7, "conflicting-label", 0, 1),
        _la("a", 8, "correction", 0, 3),
    ],
    "of-an-unlabelled-example": [
        _ex("a", 0, "unlabelled"),
        _ex("b", LIFE_MS + 1, "pending"),
        _la("a", LIFE_MS + 2, "late-label", 1, 7),
    ],
}
