"""The codec against the slow reference and fastavro, on values that are first valid and then damaged."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.errors import UndecodableError
from stream_app.progress_records import Act, Commit
from stream_app.record_columns import Decoded
from stream_app.records import (
    Example,
    Label,
    Mark,
    MarkKind,
    Metric,
    MetricWindow,
    Outcome,
    OutcomeKind,
    Prediction,
    Side,
)
from stream_app.serialization import avro, codec
from stream_app.serialization.decode import decode
from stream_app.serialization.wire_format import WireFormat
from tests.support.formats.avro_reference import HEADERS, judge, plain, read, same
from tests.support.formats.avro_values import Maker
from tests.support.formats.codecs import LIMITS, MAX_FEATURES, MAX_RECORD_BYTES, compare
from tests.support.formats.columns import encode_metrics, encode_outcomes, encode_predictions
from tests.support.formats.json_values import JSON

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63) + 1, 2**63 - 1)
TEXTS = st.text(max_size=20)
NAMES = st.text(min_size=1, max_size=15)
"""At most 60 bytes."""

FLOATS = st.floats(width=32)
DOUBLES = st.floats()
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: LONGS,
    str: TEXTS,
    float: DOUBLES,
    bool: st.booleans(),
    int | None: st.none() | LONGS,
    float | None: st.none() | DOUBLES,
}


def metrics_of(
    doubles: st.SearchStrategy[float], ints: st.SearchStrategy[int], fewest: int, most: int
) -> st.SearchStrategy[Metric]:
    """Return metrics with figures of this kind."""
    types = BY_TYPE | {float: doubles, float | None: st.none() | doubles}
    windows = st.builds(MetricWindow, **{field: types[kind] for field, kind in MetricWindow.__annotations__.items()})
    types[tuple[MetricWindow, ...]] = st.lists(windows, min_size=fewest, max_size=most).map(tuple)
    return st.builds(
        Metric,
        **{field: types[kind] for field, kind in Metric.__annotations__.items()}
        | {f"{name}_{what}": ints for name in ("positive", "negative") for what in ("queue", "capacity")}
        | dict.fromkeys(("largest_feature", "features_drifted"), ints),
    )


METRICS = metrics_of(DOUBLES, INTS, 1, 3)
PUBLISHED_METRICS = metrics_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2**31 - 1), 2, 2)
"""What a worker publishes: finite figures, and in each metric as many windows as there are fading factors."""

EXAMPLES = st.builds(Example, TEXTS, TEXTS, st.lists(FLOATS, max_size=12).map(tuple))
LABELS = st.builds(Label, TEXTS, TEXTS, INTS, INTS)
MARKS = st.builds(Mark, TEXTS, st.sampled_from(MarkKind), st.none() | LONGS, st.none() | TEXTS)
SHARES = st.floats(0, 1, width=32)
PREDICTIONS = st.builds(Prediction, NAMES, NAMES, TEXTS, st.booleans(), SHARES, SHARES, st.integers(0, 1), LONGS, LONGS)
OUTCOMES = st.builds(
    Outcome,
    NAMES,
    NAMES,
    st.sampled_from([kind.name.lower() for kind in OutcomeKind]),
    st.none() | st.integers(0, 1),
    st.none() | TEXTS,
    st.none() | SHARES,
    st.none() | SHARES,
    st.none() | st.integers(0, 1),
    st.none() | LONGS,
    st.none() | LONGS,
    st.none() | LONGS,
    LONGS,
)
COMMITS = st.builds(Commit, LONGS, LONGS, LONGS, LONGS, LONGS, st.binary(min_size=32, max_size=32), LONGS, TEXTS)
ACTS = st.builds(Act, LONGS, st.sampled_from(["configuration", "stop"]), TEXTS, TEXTS)
RECORDS = st.one_of(EXAMPLES, LABELS, MARKS, PREDICTIONS, OUTCOMES, METRICS, COMMITS, ACTS)


@settings(max_examples=150, deadline=None)
@given(RECORDS)
def test_round_trip(record: avro.Record) -> None:
    """What is written is read back, for any content of a record."""
    assert same(codec.decode_one(codec.encode_unchecked(record)), record)


@settings(max_examples=60, deadline=None)
@given(st.lists(PREDICTIONS, max_size=8), st.lists(OUTCOMES, max_size=8))
def test_columns_write_what_records_write(predictions: list[Prediction], outcomes: list[Outcome]) -> None:
    """The digest of a commit covers these bytes: both ways of writing must agree on each of them."""
    assert encode_predictions(predictions) == [codec.encode(each) for each in predictions]
    assert encode_outcomes(outcomes) == [codec.encode(each) for each in outcomes]


@settings(max_examples=60, deadline=None)
@given(st.lists(PUBLISHED_METRICS, min_size=1, max_size=4), st.sampled_from([None, JSON]))
def test_metrics_as_rows_are_those_of_records(metrics: list[Metric], wire_format: WireFormat | None) -> None:
    """Two readers of one metric must not see two values: rows and records are written alike, also as JSON."""
    assert encode_metrics(metrics, wire_format) == [codec.encode(each, wire_format) for each in metrics]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side))
def test_batches_are_judged_as_by_the_reference(seed: int, side: Side) -> None:
    """A record means the same to our worker and to every other reader, or is a dead letter with the correct reason."""
    values = list(Maker(random.Random(seed)).values(40, side))
    decoded = decode(values, side, LIMITS)
    for row, value in enumerate(values):
        compare(decoded, row, judge(value, side, MAX_RECORD_BYTES, MAX_FEATURES))


@settings(max_examples=60, deadline=None)
@given(st.one_of(EXAMPLES, LABELS, MARKS), st.sampled_from(Side), st.data())
def test_each_place_of_a_value_counts(record: avro.Record, side: Side, data: st.DataObject) -> None:
    """A value that is cut or has one changed byte, anywhere, gets the verdict of the reference."""
    value = codec.encode_unchecked(record)
    place = data.draw(st.integers(0, len(value) - 1))
    byte = data.draw(st.integers(0, 255))
    values = [value, value[:place], value[:place] + bytes([byte]) + value[place + 1 :], value + bytes([byte])]
    decoded = decode(values, side, LIMITS)
    for row, each in enumerate(values):
        compare(decoded, row, judge(each, side, MAX_RECORD_BYTES, MAX_FEATURES))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(HEADERS)))
def test_single_values_are_judged_as_by_the_reference(seed: int, name: str) -> None:
    """Tools and restore read single values of every type: they accept and refuse what the reference does."""
    maker = Maker(random.Random(seed))
    for _ in range(5):
        value = HEADERS[name] + maker.spoiled(maker.value(name)[10:])
        check, fields = read(name, value[10:])
        if check:
            with pytest.raises(UndecodableError, match=check):
                codec.decode_one(value)
        elif name == "metric" and not fields["windows"]:
            with pytest.raises(UndecodableError, match="Metric"):
                codec.decode_one(value)
        else:
            decoded = codec.decode_one(value)
            for field, expected in fields.items():
                assert same(plain(getattr(decoded, field)), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side), st.integers(0, 30))
def test_rows_do_not_depend_on_the_cut(seed: int, side: Side, cut: int) -> None:
    """Results must not depend on where a poll happened to end."""
    values = list(Maker(random.Random(seed)).values(30, side))
    whole = decode(values, side, LIMITS)
    for start, part in ((0, decode(values[:cut], side, LIMITS)), (cut, decode(values[cut:], side, LIMITS))):
        for row in range(len(part.kinds)):
            assert part.reasons[row] == whole.reasons[start + row]
            assert part.ids[row].tolist() == whole.ids[start + row].tolist()
            if part.streams[row] >= 0:
                name = whole.stream_names[whole.streams[start + row]]
                assert part.stream_names[part.streams[row]] == name
            assert part.feature_counts[row] == whole.feature_counts[start + row]
            assert _features(part, row) == _features(whole, start + row)
            assert part.marks.get(row) == whole.marks.get(start + row)


def _features(decoded: Decoded, row: int) -> list[float]:
    start = decoded.feature_starts[row]
    count = max(decoded.feature_counts[row], 0)  # `COLUMNS` is below 0: such an example has no features yet
    features: list[float] = decoded.features[start : start + count].tolist()
    return features
