"""Metrics as bytes: nulls, and windows in an array that other writers cut into blocks."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from stream_app.errors import UndecodableError
from stream_app.records import Metric, MetricWindow
from stream_app.serialization import codec
from tests.support.formats.avro_values import varint
from tests.support.formats.metrics import window

FIGURES = {
    name: 0.1 + number / 16
    for number, name in enumerate(each.name for each in dataclasses.fields(MetricWindow) if each.type is not float)
}

METRIC = Metric(
    "s",
    "areba",
    True,
    9,
    (window(0.99, **FIGURES, positive_total=2), window(1, **FIGURES, negative_total=8)),
    0.007,
    0.1,
    0.9,
    10,
    10,
    10,
    10,
    9,
    12,
    1,
    0,
    0,
    2,
    0,
    5,
    6,
    7,
    2,
    8,
    6,
    0.9,
    3,
    11,
    0.02,
    0.3,
    4,
    1,
    1_767_225_600_000,
)


def test_metric_nulls() -> None:
    """Before both classes were seen there is no recall; a zero would draw a wrong line on a dashboard."""
    names = (
        *("calibration_error", "delay_ms_p50", "delay_ms_p90", "delay_ms_p99"),
        *("change_flagged", "change_began", "gmean_before", "labels_to_recover"),
        *("drift_examples", "score_psi", "largest_feature_psi", "largest_feature", "features_drifted"),
    )
    nulls: dict[str, Any] = dict.fromkeys(names)
    metric = dataclasses.replace(METRIC, windows=(METRIC.windows[0], window(1, negative_total=8)), **nulls)
    assert codec.decode_one(codec.encode(metric)) == metric


def _metric_parts() -> tuple[bytes, bytes, bytes, bytes]:
    """Return the bytes of `METRIC`: before the array of windows, each of the two windows, and after the array."""
    two, one = (codec.encode(dataclasses.replace(METRIC, windows=METRIC.windows[:count])) for count in (2, 1))
    size, start = len(two) - len(one), two.index(b"\x04" + np.float64(0.99).tobytes())
    windows = two[start + 1 : start + 1 + 2 * size]
    return two[:start], windows[:size], windows[size:], two[start + 2 + 2 * size :]


def test_metric_without_windows() -> None:
    """A program that reads the first window must not fail at a metric of another writer that has none."""
    with pytest.raises(ValueError, match="at least one window"):
        dataclasses.replace(METRIC, windows=())
    head, *_, rest = _metric_parts()
    with pytest.raises(UndecodableError, match="Metric"):
        codec.decode_one(head + b"\0" + rest)


def test_records_in_blocks() -> None:
    """Writers in other languages cut arrays of records into blocks, too; a wrong number or size is refused."""
    head, first, second, rest = _metric_parts()
    size = len(first)
    for blocks in (
        b"\x04" + first + second,
        b"\x02" + first + b"\x02" + second,
        b"\x01" + varint(size) + first + b"\x02" + second,
        b"\x03" + varint(2 * size) + first + second,
    ):
        assert codec.decode_one(head + blocks + b"\0" + rest) == METRIC
    for check, blocks in (
        ("block size", b"\x03" + varint(2 * size - 1) + first + second),
        ("block size", b"\x03" + varint(2**62) + first + second),
        ("block size", b"\x03\x02" + first + second),
        ("block size", varint(-(2**63)) + varint(2**63 - 1) + first),
        ("truncated", varint(2**62) + first),
        ("index range", b"\x02" + first[:8] + b"\x04" + first[9:]),
    ):
        with pytest.raises(UndecodableError, match=check):
            codec.decode_one(head + blocks + b"\0" + rest)
