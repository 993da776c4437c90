"""A record in JSON and the same record in Avro: no stage can distinguish them."""

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.records import Example, Kind, Label, Mark, MarkKind, Side
from stream_app.serialization import codec
from stream_app.serialization.decode import DecodeLimits, decode
from stream_app.testing import InProcess
from tests.support.formats.json_values import JSON, LIMITS, SECTION, check_batch, damaged, good_values

AVRO_LIMITS = DecodeLimits(max_record_bytes=5_000, max_features=9)

TEXTS = st.text(max_size=20)
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | DOUBLES | TEXTS
EXAMPLES = st.builds(Example, TEXTS, TEXTS, st.lists(SINGLES, max_size=12).map(tuple))
EXAMPLES |= st.builds(Example, TEXTS, TEXTS, st.just(()), st.dictionaries(TEXTS, CELLS, max_size=4))
MARKS = st.builds(Mark, TEXTS, st.sampled_from(MarkKind), st.none() | st.integers(0, 2**63 - 1), st.none() | TEXTS)
INTS = st.integers(-(2**31), 2**31 - 1)
INPUTS = {Side.EXAMPLES: EXAMPLES | MARKS, Side.LABELS: st.builds(Label, TEXTS, TEXTS, INTS, INTS) | MARKS}


@pytest.mark.parametrize("side", Side)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_both_forms_decode_alike(side: Side, data: st.DataObject) -> None:
    """The columns, the reasons and the marks are those of Avro."""
    records = data.draw(st.lists(INPUTS[side], max_size=8))
    avro = decode([codec.encode_unchecked(one) for one in records], side, AVRO_LIMITS)
    text = decode([codec.encode_unchecked(one, JSON) for one in records], side, LIMITS)
    for name in ("kinds", "reasons", "streams", "ids", "feature_starts", "feature_counts", "labels", "revisions"):
        assert np.array_equal(getattr(avro, name), getattr(text, name)), name
    assert avro.features.tobytes() == text.features.tobytes()
    assert (avro.stream_names, avro.marks) == (text.stream_names, text.marks)
    for row in np.flatnonzero(avro.kinds == Kind.DATA).tolist():
        assert avro.cells[row] == text.cells[row]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Side))
def test_damaged_values_have_one_meaning(seed: int, side: Side) -> None:
    """Whatever bytes come, the worker and `areba verify` read the same from them."""
    draw = random.Random(seed)
    check_batch([damaged(draw, damaged(draw, value)) for value in islice(good_values(draw, side), 60)], side)


def _outputs(section: dict[str, Any], draw: random.Random) -> list[object]:
    columns = {"x": {"missing": "mean"}, "land": {"category": {"most": 2}}}
    application = InProcess(
        streams={"plain": {"features": 2}, "named": {"columns": columns}},
        serialization=section,
        metrics={"every_labels": 5},
    )
    for number in range(40):
        values = {"x": draw.choice((None, 1, 0.1, 2**40)), "land": draw.choice(("DE", "é", "a:b"))}
        application.send_example("plain", str(number), [draw.gauss(0, 1), 0.1])
        application.send_example("named", str(number), values)
        for stream in ("plain", "named"):
            if draw.random() < 0.9:
                application.send_label(stream, str(number), draw.randrange(2))
    application.send_example("plain", "wrong", [0.1])
    application.end_stream("plain")
    application.run()
    return [*application.predictions(), *application.outcomes(), *application.metrics()]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_the_results_are_equal(seed: int) -> None:
    """Scores, outcomes and metrics do not depend on the form of values, to the last bit."""
    one, two = (_outputs(section, random.Random(seed)) for section in ({}, SECTION))
    assert len(one) > 100
    assert one == two
