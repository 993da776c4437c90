"""The features of columns against scikit-learn's, which fits all values before it transforms one."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from stream_app.config import JoinSettings
from stream_app.pipeline.task import Task
from stream_app.records import Example, Side, Value
from stream_app.serialization import codec
from stream_app.verify.reference_state import Record
from tests.support.columns import stream_with_columns
from tests.support.rows import columns as raw
from tests.support.tasks import PARTITION, TOPICS, settings_of_task

COUNT = 600


def features_of(column: Mapping[str, Any], values: Sequence[Value]) -> tuple[NDArray[np.float32], Sequence[str]]:
    """Return the features of each value, and their names at the end."""
    settings = settings_of_task(
        streams={"a": stream_with_columns({"x": column}, missing_values=())},
        join=JoinSettings(ttl_ms=10**6, max_pending_per_stream=COUNT),
    )
    task = Task(PARTITION, settings, TOPICS)
    records = []
    for number, value in enumerate(values):
        example = Example("a", f"e{number}", values={"x": value})
        records.append(Record(Side.EXAMPLES, number, number + 1, example, b"a", codec.encode(example), ()))
    task.step(raw(records), raw([]))
    stream = task.stream("a")
    assert stream.preparation is not None
    return stream.join.arrays()["features"][: len(values)].copy(), stream.preparation.feature_names()


def test_frequent_categories() -> None:
    """As `OneHotEncoder(max_categories=...)`: a feature for each frequent category, and one for all others."""
    draw = Random(1)
    values = [
        "DE",
        "FR",
        "IT",
        *(draw.choices(["DE", "FR", "IT", "ES", "PT"], (50, 30, 15, 3, 2))[0] for _ in range(COUNT - 3)),
    ]
    found, names = features_of({"category": {"most": 3}}, values)
    encoder = OneHotEncoder(max_categories=4, sparse_output=False).fit(np.array(values)[:, None])
    expected = encoder.transform(np.array(values)[:, None])
    order = [names.index(f"x={name}") for name in ("DE", "FR", "IT")] + [names.index("x: others")]
    assert encoder.get_feature_names_out().tolist() == ["x0_DE", "x0_FR", "x0_IT", "x0_infrequent_sklearn"]
    np.testing.assert_array_equal(found[:, order], expected)


def test_missing_numbers() -> None:
    """As `SimpleImputer(add_indicator=True)`: the mean of the values so far, and a feature that says so.

    areba's mean is robust: of the first values, those that are far from the others count less.
    """
    draw = Random(2)
    values: list[Value] = [None if draw.random() < 0.3 else draw.uniform(-3, 9) for _ in range(COUNT)]
    found, names = features_of({"missing": "mean"}, values)
    assert names == ("x", "x is missing")
    plain = np.array([np.nan if value is None else np.float32(value) for value in values], float)[:, None]
    for number in (np.flatnonzero(np.isnan(plain))[[3, 50, -1]]).tolist():
        imputer = SimpleImputer(strategy="mean", add_indicator=True).fit(plain[: number + 1])
        np.testing.assert_allclose(found[number], imputer.transform(plain[number : number + 1])[0], rtol=0.01)


def test_missing_categories() -> None:
    """The share of each category so far: the mean of the features of `OneHotEncoder`."""
    draw = Random(3)
    values: list[Value] = ["a", "b", *(draw.choices(["a", "b", "c", None], (5, 3, 1, 1))[0] for _ in range(COUNT - 2))]
    found, names = features_of({"category": {"most": 2}, "missing": "mean"}, values)
    assert names == ("x=a", "x=b", "x: others", "x is missing")
    last = max(number for number, value in enumerate(values) if value is None)
    known = np.array([value for value in values[:last] if value is not None])[:, None]
    expected = OneHotEncoder(sparse_output=False).fit_transform(known).mean(axis=0)
    np.testing.assert_allclose(found[last], [*expected, 1.0], rtol=1e-5)


def test_cycles() -> None:
    """As the `FunctionTransformer` of scikit-learn's example of time-related features: sine and cosine."""
    values = np.random.default_rng(4).uniform(-50, 50, COUNT)
    found, names = features_of({"cyclic": 24}, values.tolist())
    assert names == ("sin(x)", "cos(x)")
    for place, function in enumerate((np.sin, np.cos)):
        turned = FunctionTransformer(lambda x, function=function: function(x / 24 * 2 * np.pi)).transform(values)
        np.testing.assert_allclose(found[:, place], turned, atol=1e-6)
