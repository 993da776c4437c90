"""The two formats carry the same records: no decoder distinguishes them after the header."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.records import Side
from stream_app.serialization.decode import DecodeLimits, decode
from tests.support.formats.avro_values import Maker
from tests.support.formats.codecs import MAX_FEATURES, MAX_RECORD_BYTES
from tests.support.formats.wire_formats import CONFLUENT, SHORTER_BYTES, reframed

SINGLE_LIMITS = DecodeLimits(MAX_RECORD_BYTES, MAX_FEATURES)
CONFLUENT_LIMITS = DecodeLimits(MAX_RECORD_BYTES - SHORTER_BYTES, MAX_FEATURES, CONFLUENT)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side))
def test_both_formats_decode_alike(seed: int, side: Side) -> None:
    """Valid and damaged values alike get the same columns and the same reasons in either format."""
    values = [
        value for value in Maker(random.Random(seed)).values(40, side) if value is None or value[:2] == b"\xc3\x01"
    ]
    one = decode(values, side, SINGLE_LIMITS)
    two = decode([None if value is None else reframed(value) for value in values], side, CONFLUENT_LIMITS)
    for name in ("kinds", "reasons", "streams", "ids", "feature_starts", "feature_counts", "labels", "revisions"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert one.features.tobytes() == two.features.tobytes()
    assert one.stream_names == two.stream_names
    assert one.marks == two.marks
