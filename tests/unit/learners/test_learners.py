"""A learner as the task uses it: created from a configuration, given operations, saved and loaded."""

from typing import Any

import numpy as np
import pytest

from stream_app.config import LearnerSettings
from stream_app.errors import ConfigurationError, StateError
from stream_app.learners.factory import build
from stream_app.learners.registry import METHODS
from stream_app.records import Operation
from tests.support.learner_steps import SEED, ids, in_turn, learner, operations, run_in_cuts, same_state, stream

# isort: split
import torch  # after stream_app, which sets the number of its threads


class Net(torch.nn.Module):
    """A user's own module."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(features, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        """Return the logits `[n, 1]`."""
        logits: torch.Tensor = self.layers(examples)
        return logits


OWN = f"{__name__}:Net"
KINDS: tuple[dict[str, Any], ...] = (
    {"method": "areba"},
    {"method": "baseline"},
    {"method": "areba", "scaler": "standard", "hidden": [5, 3], "l2": 0.01},
    {"method": "areba", "network": OWN, "scaler": "standard", "l2": 0.01},
    {"method": "baseline", "network": OWN},
)


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_operations_are_answered_in_order(settings: dict[str, Any]) -> None:
    """Predictions publish scores, classes and versions: each must be of its own moment."""
    examples, labels = stream(4, 3)
    which = learner(3, **settings)
    entries = [
        (Operation.PREDICT, 0, -1),
        (Operation.PREDICT, 1, -1),
        (Operation.LEARN, 1, 1),
        (Operation.REPORT, -1, -1),
        (Operation.PREDICT, 2, -1),
        (Operation.LEARN, 0, 0),
    ]
    answers = which.run(operations([*entries, (Operation.REPORT, -1, -1)]), examples, ids(4))
    predicted = np.array([True, True, False, False, True, False, False])
    assert answers.versions.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert np.array_equal(~np.isnan(answers.scores), predicted)
    assert np.array_equal(answers.labels, np.where(predicted, answers.scores > 0.5, -1))
    assert answers.reports[:, 0].tolist() == [1.0, 2.0]
    assert [column.dtype.name for column in (answers.scores, answers.labels, answers.versions)] == [
        "float32",
        "int8",
        "int64",
    ]
    assert answers.reports.shape == (2, 7)
    assert which.run(operations([]), examples, ids(4)).scores.shape == (0,)
    assert len(labels) == 4


def test_areba_reports_sizes_queues_and_capacities() -> None:
    """Metrics publish these values by their columns."""
    areba = learner()
    answers = areba.run(
        operations([*in_turn(np.array([0, 0, 0], np.int8)), (Operation.REPORT, -1, -1)]),
        np.zeros((3, 2), np.float32),
        ids(3),
    )
    assert answers.reports.tolist() == [[3.0, 0.0, pytest.approx(0.029701), 0.0, 3.0, 1.0, 4.0]]
    assert (
        learner(method="baseline")
        .run(operations([(Operation.REPORT, -1, -1)]), np.zeros((1, 2), np.float32), ids(1))
        .reports.any()
        == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("network", ["dense", OWN])
def test_a_learner_separates_two_classes(method: str, network: str) -> None:
    """A step in the wrong direction would pass every test of bits."""
    examples, labels = stream(3000 if network == "dense" else 1000, 5, positives=0.4)
    small: dict[str, Any] = {"ensemble_size": 3} if method in {"oob", "uob"} else {}
    answers = run_in_cuts(learner(5, method=method, network=network, **small), in_turn(labels), examples, 1000)
    correct = answers.labels[::2] == labels
    assert correct[-500:].mean() > 0.85
    assert correct[-500:].mean() > correct[:200].mean()


def test_areba_finds_a_rare_class_that_the_baseline_misses() -> None:
    """This is the purpose of the software."""
    examples, labels = stream(4000, 2, positives=0.01)
    positives = np.flatnonzero(labels[1000:]) + 1000
    recalls = {
        method: run_in_cuts(learner(method=method), in_turn(labels), examples, 1000).labels[::2][positives].mean()
        for method in METHODS
    }
    assert recalls["areba"] > 0.7 > recalls["baseline"] + 0.2


def test_the_example_that_is_learned_is_the_one_that_was_seen() -> None:
    """Labels come late: by then the scaler has changed, and a larger array has replaced the array of the features."""
    examples, _ = stream(6, 3)
    scaled = learner(3, scaler="standard")
    first = scaled.run(
        operations([(Operation.PREDICT, 0, -1), (Operation.PREDICT, 1, -1)]), examples[:2].copy(), ids(2)
    )
    assert not np.isnan(first.scores[:2]).any()
    grown = np.zeros((64, 3), np.float32)
    grown[:6] = examples
    scaled.run(
        operations([(Operation.PREDICT, slot, -1) for slot in range(2, 6)] + [(Operation.LEARN, 1, 1)]), grown, ids(64)
    )
    pair = examples[:2].astype(np.float64)
    expected = (pair[1] - pair.mean(0)) / pair.std(0)
    arrays = scaled.arrays()
    assert arrays["positive_examples"] == pytest.approx(expected[None].astype(np.float32), abs=1e-6)
    assert arrays["scaler.mean"] == pytest.approx(examples.astype(np.float64).mean(0))
    assert np.sqrt(arrays["scaler.variance"].astype(np.float64)) == pytest.approx(examples.astype(np.float64).std(0))


def test_a_constant_feature_and_a_first_example_scale_to_zero() -> None:
    """A deviation of 0 must not become infinity in the queue."""
    examples = np.array([[5.0, 1.0], [5.0, 2.0]], np.float32)
    scaled = learner(scaler="standard")
    scaled.run(operations(in_turn(np.array([1, 0], np.int8))), examples, ids(2))
    assert scaled.arrays()["positive_examples"].tolist() == [[0.0, 0.0]]
    assert scaled.arrays()["negative_examples"].tolist() == [[0.0, 1.0]]


def test_a_standard_scaler_makes_units_irrelevant() -> None:
    """The scaler is meant for streams whose range is not known in advance."""
    examples, labels = stream(2000, 3, positives=0.3)
    awkward = examples * np.array([1e6, 1e-4, 1.0], np.float32) + np.array([1e7, 0.0, -50.0], np.float32)
    correct = {
        scaler: (run_in_cuts(learner(3, scaler=scaler), in_turn(labels), awkward, 500).labels[::2] == labels)
        for scaler in ("none", "standard")
    }
    assert correct["standard"][1000:].mean() > 0.85 > correct["none"][1000:].mean()


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_equal_seeds_give_equal_bits_and_other_seeds_do_not(settings: dict[str, Any]) -> None:
    """A new process must reach the committed output of the process that died."""
    examples, labels = stream(60, 3)
    one, same = learner(3, **settings), learner(3, **settings)
    answers = [run_in_cuts(which, in_turn(labels), examples, 60) for which in (one, same)]
    assert answers[0].scores.tobytes() == answers[1].scores.tobytes()
    assert same_state(one, same)
    other = build("test", LearnerSettings.model_validate(settings), 3, bytes(32))
    assert run_in_cuts(other, in_turn(labels), examples, 60).scores.tobytes() != answers[0].scores.tobytes()


@pytest.mark.slow(3)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_arrays_are_copies(settings: dict[str, Any]) -> None:
    """A snapshot is written while the learner continues."""
    examples, labels = stream(20, 3)
    which = learner(3, **settings)
    run_in_cuts(which, in_turn(labels[:10]), examples, 20)
    before = which.arrays()
    kept = {name: array.tobytes() for name, array in before.items()}
    run_in_cuts(which, in_turn(labels), examples, 20)
    assert {name: array.tobytes() for name, array in before.items()} == kept
    assert which.arrays()["parameters"].tobytes() != kept["parameters"]


@pytest.mark.parametrize(
    "other",
    [
        {"method": "baseline"},
        {"method": "areba", "hidden": [9]},
        {"method": "areba", "scaler": "standard"},
        {"method": "areba", "budget": 4},
    ],
    ids=str,
)
def test_a_state_of_another_kind_is_refused_and_changes_nothing(other: dict[str, Any]) -> None:
    """A snapshot of another configuration must park the task, and no learner may train on it."""
    examples, labels = stream(200, 2, positives=0.5)
    full = learner()
    run_in_cuts(full, in_turn(labels), examples, 200)
    which = learner(**other)
    before = which.arrays()
    with pytest.raises(StateError):
        which.load(full.arrays())
    after = which.arrays()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)


def test_unsuitable_features_are_refused() -> None:
    """Compiled code reads memory without checks, so its arguments must have the expected form."""
    which = learner(3)
    step = operations([(Operation.PREDICT, 0, -1)])
    wrongs: tuple[Any, ...] = (np.zeros((2, 4), np.float32), np.zeros((2, 3)), np.zeros((3, 2), np.float32).T)
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"C-contiguous float32 \[slots, 3\]"):
            which.run(step, wrong, ids(2))


@pytest.mark.parametrize("slot", [-1, 2, 1_000_000])
@pytest.mark.parametrize("code", [Operation.PREDICT, Operation.LEARN])
def test_a_slot_that_is_not_there_is_refused(code: int, slot: int) -> None:
    """The same for the rows that operations name."""
    with pytest.raises(ValueError, match="slot"):
        learner().run(operations([(code, slot, 1)]), np.zeros((2, 2), np.float32), ids(2))


@pytest.mark.parametrize("label", [-1, 2])
def test_a_class_that_is_none_is_refused(label: int) -> None:
    """An invalid class would be an index of a queue that does not exist."""
    with pytest.raises(ValueError, match="class"):
        learner().run(operations([(Operation.LEARN, 0, label)]), np.zeros((1, 2), np.float32), ids(1))


def test_wrong_settings_are_named_with_their_learner() -> None:
    """An operator with ten learners must see which of them is meant."""
    settings = LearnerSettings.model_construct(method="magic", network="dense", scaler="none")
    with pytest.raises(ConfigurationError, match="learner night: no method magic"):
        build("night", settings, 2, SEED)
    with pytest.raises(ConfigurationError, match="learner night: network no_such_package:Net"):
        build("night", LearnerSettings(method="areba", network="no_such_package:Net"), 2, SEED)
