"""A sender's value is sent as it stands, or is an error that names it."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from stream_app.records import Example, Label, Mark, MarkKind
from stream_app.serialization.codec import decode_one, encode
from stream_app.serialization.encode import encode_examples, encode_labels
from stream_app.testing import InProcess


@pytest.mark.parametrize(
    "label",
    [0.98, "1", None, math.nan, math.inf, 2, -1, 1.0000001, b"1", [1], np.float32(0.5), np.array([1]), 1j, 10**400],
)
def test_a_label_that_is_no_class_is_an_error(label: int) -> None:
    """0.98 was learned as class 0, and 1.0000001 as class 1."""
    with pytest.raises(ValueError, match="label of 'a'"):
        encode(Label("s", "a", label))
    application = InProcess(streams={"s": {"features": 1}})
    with pytest.raises(ValueError, match="label of 'a'"):
        application.send_label("s", "a", label)


@pytest.mark.parametrize(
    "label", [True, 1, 1.0, np.int64(1), np.uint8(1), np.float32(1), np.bool_(True), np.float64(1.0), Fraction(1)]
)
def test_a_class_in_any_kind_of_number_is_sent(label: int) -> None:
    """Labels come out of arrays, comparisons and files."""
    assert decode_one(encode(Label("s", "a", label))) == Label("s", "a", 1)
    assert decode_one(encode(Label("s", "a", label * 0))) == Label("s", "a", 0)


@pytest.mark.parametrize(
    "feature",
    [1e39, -1e39, math.nan, math.inf, None, "0.5", "", b"1", [1.0], 1j, 10**39, 10**400, np.float64(3.5e38), object()],
)
def test_a_feature_that_is_no_finite_float32_is_an_error(feature: float) -> None:
    """1e39 became infinity, and was a dead letter long after it was sent."""
    for features in ([feature], [0.5, feature]):
        with pytest.raises(ValueError, match=r"example 'a'"):
            encode(Example("s", "a", features))
        with pytest.raises(ValueError, match=r"example 'a'"):
            InProcess(streams={"s": {"features": len(features)}}).send_example("s", "a", features)


@pytest.mark.parametrize(
    "features",
    [
        [0.5, 1],
        (0.5, True),
        np.array([0.5, 1.0]),
        np.array([0.5, 1], np.float32),
        [np.float32(0.5), np.int8(1)],
        [Fraction(1, 2), 1],
    ],
)
def test_features_in_any_kind_of_number_are_sent(features: Sequence[float]) -> None:
    """Tuples, arrays and whole numbers are what senders have."""
    sent = decode_one(encode(Example("s", "a", features)))
    assert isinstance(sent, Example)
    assert list(sent.features) == [0.5, 1.0]


@pytest.mark.parametrize(
    "record",
    [
        Example("s", 7, [1.0]),  # type: ignore[arg-type]
        Example("s", b"a", [1.0]),  # type: ignore[arg-type]
        Example("s", "", [1.0]),
        Example("s", "x" * 65, [1.0]),
        Example(None, "a", [1.0]),  # type: ignore[arg-type]
        Example("s", "a", []),
        Example("s", "a", 0.5),  # type: ignore[arg-type]
        Example("s", "a", "12"),  # type: ignore[arg-type]
        Label("s", "a", 1, 0.5),  # type: ignore[arg-type]
        Label("s", "a", 1, -1),
        Label("s", "a", 1, 2**31),
        Label("s", "a", 1, "1"),  # type: ignore[arg-type]
        Label("s", None, 1),  # type: ignore[arg-type]
        Mark("s", MarkKind.ADVANCE, time_ms=1.5),  # type: ignore[arg-type]
    ],
)
def test_a_number_that_a_topic_cannot_carry_is_an_error(record: Example | Label | Mark) -> None:
    """Not only classes were cut to whole numbers."""
    with pytest.raises(ValueError, match=r"\w"):
        encode(record)


def test_batches_are_checked_too() -> None:
    """`encode_examples` and `encode_labels` write what `encode` writes."""
    with pytest.raises(ValueError, match="row 1: feature 0 is 1e\\+39"):
        encode_examples("s", ["a", "b"], np.array([[1.0], [1e39]]))
    with pytest.raises(ValueError, match="0 or 1"):
        encode_labels("s", ["a"], np.array([0.98]))
    with pytest.raises(ValueError, match="whole"):
        encode_labels("s", ["a"], np.array([1], np.int8), np.array([0.5]))
    with pytest.raises(ValueError, match="text"):
        encode_labels("s", [7], np.array([1], np.int8))  # type: ignore[list-item]
