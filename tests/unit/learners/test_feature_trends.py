"""RELAY and features that grow: a clock or a counter must not tell the classes apart by the age of what is kept."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.errors import StateError
from stream_app.learners.api import Operations
from stream_app.records import Operation
from study.report.scores import curves_of
from tests.support.learner_steps import ids, in_turn, learner, operations, run_in_cuts

COUNT = 8_000


def classes(share: float, seed: int) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return labels, and a feature that tells them apart as well as two deviations can."""
    random = np.random.default_rng(seed)
    labels = (random.random(COUNT) < share).astype(np.int8)
    return labels, random.normal(size=COUNT) + 2.0 * labels


def late(labels: NDArray[np.int8], delays: tuple[int, int]) -> Operations:
    """Return the operations: a label of class k comes `delays[k]` examples after its example."""
    due = sorted((slot + delays[label], 1, slot, label) for slot, label in enumerate(labels.tolist()))
    steps = sorted([(slot, 0, slot, -1) for slot in range(COUNT)] + [one for one in due if one[0] < COUNT])
    codes = (Operation.PREDICT, Operation.LEARN)
    return operations([(int(codes[kind]), slot, label) for _, kind, slot, label in steps])


def gmean(features: NDArray[np.float64], labels: NDArray[np.int8], delays: tuple[int, int] = (0, 0)) -> float:
    """Return RELAY's mean G-mean over the second half of a stream."""
    examples = np.ascontiguousarray(features, np.float32)
    steps = late(labels, delays)
    answers = learner(examples.shape[1], method="relay").run(steps, examples, ids(COUNT))
    curve = curves_of(answers.labels[steps.codes == Operation.PREDICT], labels, ()).gmean
    return float(curve[COUNT // 2 :].mean())


GROWING = {
    "counter": np.arange(COUNT, dtype=np.float64),
    "epoch in seconds": 1.7e9 + 300.0 * np.arange(COUNT),
    "falling": -3.0 * np.arange(COUNT),
}


@pytest.mark.slow(20)
@pytest.mark.parametrize("name", GROWING)
def test_a_growing_column_hides_no_class(name: str) -> None:
    """Kaggle's Fraud set has a clock: the rare class was lost because its kept examples are older."""
    labels, signal = classes(0.01, 1)
    random = np.random.default_rng(2)
    without = gmean(np.column_stack([signal, random.normal(size=COUNT)]), labels)
    assert gmean(np.column_stack([signal, GROWING[name]]), labels) > without - 0.02


@pytest.mark.slow(20)
@pytest.mark.parametrize("delays", [(1_000, 1_000), (100, 2_000), (2_000, 100)])
def test_a_growing_column_does_not_tell_how_late_labels_are(delays: tuple[int, int]) -> None:
    """Labels of frauds come weeks after the others: age must be counted from the example, not from its label."""
    labels, signal = classes(0.1, 3)
    random = np.random.default_rng(4)
    without = gmean(np.column_stack([signal, random.normal(size=COUNT)]), labels, delays)
    assert gmean(np.column_stack([signal, GROWING["counter"]]), labels, delays) > without - 0.03


def test_a_feature_may_grow_and_tell_the_classes_apart() -> None:
    """Prices rise: kept examples of a rare class are compared at today's prices."""
    labels, signal = classes(0.02, 5)
    random = np.random.default_rng(6)
    other = random.normal(size=COUNT)
    still = gmean(np.column_stack([signal, other]), labels)
    assert gmean(np.column_stack([signal + 0.01 * np.arange(COUNT), other]), labels) > still - 0.05


@pytest.mark.parametrize("outlier", [0.0, 9_999.0, -1e10])
def test_features_without_a_trend_are_used_as_they_come(outlier: float) -> None:
    """A trend by chance, or by an outlier, would falsify each kept example."""
    labels, signal = classes(0.05, 7)
    features = np.column_stack([signal, np.random.default_rng(8).normal(size=COUNT)])
    features[700, 1] += outlier
    which = learner(2, method="relay")
    for part in range(0, 2_000, 100):
        rows = slice(part, part + 100)
        run_in_cuts(which, in_turn(labels[rows]), features[rows].astype(np.float32), 200)
        assert not which.arrays()["slopes"].any()


def grown() -> tuple[Floats, NDArray[np.int8]]:
    """Return a short stream with a counter."""
    labels, signal = classes(0.3, 9)
    return np.column_stack([signal, GROWING["counter"]])[:200].astype(np.float32), labels[:200]


def test_damaged_trends_are_refused() -> None:
    """Compiled code checks no index: arrays of another length would be read beyond their end."""
    examples, labels = grown()
    which = learner(2, method="relay")
    run_in_cuts(which, in_turn(labels), examples, 50)
    arrays = dict(which.arrays())
    assert arrays["slopes"][1] == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(arrays["seen"][:, 0], np.arange(200))
    wrong: dict[str, NDArray[np.generic]] = {
        "slopes": np.zeros(3),
        "seen": arrays["seen"].astype(np.float32),
        "ring.positive.arrivals": arrays["ring.positive.arrivals"][1:],
    }
    for name, array in wrong.items():
        with pytest.raises(StateError):
            which.load({**arrays, name: array})
