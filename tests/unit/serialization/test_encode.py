"""The encoders of batches write what `codec.encode` writes for each record; all refuse what no schema allows."""

from collections.abc import Callable

import numpy as np
import pytest

from stream_app.progress_records import Commit
from stream_app.records import Example, Label, Outcome, Prediction
from stream_app.serialization import avro, codec
from stream_app.serialization.encode import encode_examples, encode_labels
from tests.support.formats.columns import encode_outcomes, encode_predictions


def test_encode_examples() -> None:
    """The replay's fast encoder writes what the slow one writes, from any layout of the matrix."""
    matrix = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    matrix.flags.writeable = False
    ids = ["a", "é" * 32, "c" * 64, "🎲"]
    values = encode_examples("forêt", ids, matrix)
    assert values == [codec.encode(Example("forêt", *row)) for row in zip(ids, matrix.tolist(), strict=True)]
    assert encode_examples("s", [], matrix[:0]) == []


def test_encode_labels() -> None:
    """The same for labels, with and without revisions."""
    ids, labels = ["a", "é", "c" * 64], np.array([0, 1, 1], np.int8)
    expected = [codec.encode(Label("s", *row)) for row in zip(ids, labels.tolist(), strict=True)]
    assert encode_labels("s", ids, labels) == expected
    revised = encode_labels("s", ids[:1], labels[:1], np.array([2**31 - 1]))
    assert revised == [codec.encode(Label("s", "a", 0, 2**31 - 1))]
    assert encode_labels("s", [], labels[:0]) == []


ONE = np.ones((1, 1), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode_examples("", ["i"], ONE), "stream ''"),
        (lambda: encode_examples("s" * 250, ["i"], ONE), "not 250"),
        (lambda: encode_examples("s", ["i", ""], ONE.repeat(2, 0)), "row 1: an id has 1 to 64 bytes, not 0"),
        (lambda: encode_examples("s", ["é" * 33], ONE), "row 0: an id has 1 to 64 bytes, not 66"),
        (lambda: encode_examples("s", ["i"], ONE.repeat(2, 0)), "1 ids need features"),
        (lambda: encode_examples("s", ["i"], ONE[:, :0]), "1 ids need features"),
        (lambda: encode_labels("s", ["i"], np.array([2], np.int8)), "a label is 0 or 1"),
        (lambda: encode_labels("s", ["i"], np.array([], np.int8)), "1 ids, 0 labels"),
        (lambda: encode_labels("s", ["i"], np.array([1], np.int8), np.array([-1])), "a revision from 0"),
        (lambda: codec.encode_unchecked(Label("s", "i", 2**31)), "Label cannot be written: int range"),
        (lambda: codec.encode(Outcome("s", "i", "lost", None, None, None, None, None, None, None, None, 0)), "lost"),
        (lambda: codec.encode(Commit(0, 0, 0, 0, 0, b"short", 0)), "length 5"),
    ],
)
def test_a_record_that_no_schema_allows_is_an_error(call: Callable[[], object], message: str) -> None:
    """A producer gets an error immediately instead of a dead letter much later."""
    with pytest.raises(ValueError, match=message):
        call()


PREDICTIONS = [
    Prediction("fraud", "i", "areba", True, 0.5, 0.0625, 1, 0, 0),
    Prediction("forêt", "é" * 32, "baseline", False, 0.25, 0.0, 0, 2**63 - 1, -1),
    Prediction("fraud", "x" * 64, "baseline", False, 1.0, 0.75, 1, 8191, 2**63 - 1),
]

OUTCOMES = [
    Outcome("fraud", "i", "joined", 1, "areba", 0.5, 0.0625, 1, 5000, 12, 2**40, 1_767_225_600_000),
    Outcome("forêt", "é" * 32, "unlabelled", None, "baseline", 0.0, 0.125, 0, None, 7, None, 1),
    Outcome("fraud", "x" * 64, "duplicate", 0, None, None, None, None, -5, None, 0, 2**63 - 1),
    Outcome("forêt", "j", "evicted", None, None, None, None, None, None, None, None, -(2**63)),
    Outcome("forêt", "k", "correction", 1, "areba", 0.75, 0.5, 1, 0, None, 2**63 - 1, 64),
]


def test_encode_columns() -> None:
    """Tools that write single records and workers that write batches must give the same bytes, nulls included."""
    assert encode_predictions(PREDICTIONS) == [codec.encode(each) for each in PREDICTIONS]
    assert encode_outcomes(OUTCOMES) == [codec.encode(each) for each in OUTCOMES]
    assert encode_predictions([]) == []
    assert encode_outcomes([]) == []


def test_decode_many() -> None:
    """The function for subscribers returns the original records."""
    records: list[avro.Record] = [*PREDICTIONS, *OUTCOMES]
    assert codec.decode_many(codec.encode(record) for record in records) == records
