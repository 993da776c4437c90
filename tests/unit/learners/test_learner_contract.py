"""The contract of every learner; a new method in the registry is tested automatically."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from stream_app.config import LearnerSettings
from stream_app.errors import StateError
from stream_app.learners.api import Learner
from stream_app.learners.moments import MOMENT_NAMES
from stream_app.learners.registry import METHODS
from stream_app.records import Operation
from tests.support.learner_steps import Stream, ids, in_turn, learner, operations, pair, run_in_cuts, same_state, stream

OWN = "tests.unit.learners.test_own_learner:NearestMean"
"""A user's own learner must fulfil the same contract."""

SCALED = frozenset({*MOMENT_NAMES, "seen", "tallies"})
"""Arrays that a prediction may change: RELAY, which always scales, counts the predictions since a label."""

every = pytest.mark.parametrize("method", [*METHODS, OWN])
every_scaled = pytest.mark.parametrize(
    ("method", "scaler"), [(method, scaler) for method in METHODS for scaler in ("none", "standard")]
)


def late(labels: np.ndarray[Any, Any], lag: int = 7) -> list[tuple[int, int, int]]:
    """Return labels that come `lag` examples late, with some reports, and corrections of what was learned lately."""
    entries: list[tuple[int, int, int]] = [(Operation.PREDICT, slot, -1) for slot in range(min(lag, len(labels)))]
    for slot, label in enumerate(labels.tolist()):
        entries.append((Operation.LEARN, slot, label))
        if slot + lag < len(labels):
            entries.append((Operation.PREDICT, slot + lag, -1))
        if slot % 25 == 0:
            entries.append((Operation.REPORT, -1, -1))
        if slot % 10 == 9:
            entries.append((Operation.CORRECT, slot - slot % 4, 1 - int(labels[slot - slot % 4])))
    return entries


def bits(which: Learner, entries: Sequence[tuple[int, int, int]], data: Stream, cut: int = 10_000) -> tuple[bytes, ...]:
    """Return all answers of a history, as bytes."""
    if not entries:
        return ()
    answers = run_in_cuts(which, entries, data.examples, cut)
    return tuple(column.tobytes() for column in (answers.scores, answers.labels, answers.versions, answers.reports))


def made(method: str, features: int, scaler: str = "none") -> Learner:
    """Return a new learner; a user's own learner has no scaler."""
    return learner(features, method=method) if method == OWN else learner(features, method=method, scaler=scaler)


def learned(method: str, data: Stream, scaler: str = "none") -> Learner:
    """Return a learner that has processed a stream."""
    which = made(method, data.examples.shape[1], scaler)
    bits(which, late(data.labels), data)
    return which


@every_scaled
def test_a_prediction_changes_nothing_but_the_scaler(method: str, scaler: str) -> None:
    """Examples that never get a label must not change the model."""
    data = stream(60, 3, positives=0.3)
    which = learned(method, data, scaler=scaler)
    before = which.arrays()
    which.run(operations([(Operation.PREDICT, slot, -1) for slot in range(60)]), data.examples, ids(60))
    after = which.arrays()
    changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert changed <= SCALED
    assert (scaler == "standard" or method == "relay") == ("scaler.mean" in changed)


@every
def test_an_own_learners_prediction_changes_nothing(method: str) -> None:
    """The same without a scaler, which a user's own learner does not have."""
    if method == "relay":  # which always has a scaler
        return
    data = stream(60, 3, positives=0.3)
    which = learned(method, data)
    before = which.arrays()
    scores = [
        which.run(operations([(Operation.PREDICT, slot, -1) for slot in order]), data.examples, ids(60)).scores[place]
        for order, place in ((range(60), 5), (range(59, -1, -1), 54))
    ]
    assert scores[0] == scores[1]
    assert all(before[name].tobytes() == array.tobytes() for name, array in which.arrays().items())


@every
def test_inputs_are_not_changed(method: str) -> None:
    """Features and ids belong to the join, and all learners of a stream share the operations."""
    data = stream(80, 3, positives=0.3)
    which, steps, names = learner(3, method=method), operations(late(data.labels)), ids(80)
    given = (data.examples, names, steps.codes, steps.slots, steps.labels)
    before = [array.tobytes() for array in given]
    which.run(steps, data.examples, names)
    assert [array.tobytes() for array in given] == before


@every
def test_the_same_seed_gives_the_same_bits(method: str) -> None:
    """A new process must reach what a dead process had committed; another seed gives another model."""
    data = stream(150, 3, positives=0.2)
    one, same = (learner(3, method=method) for _ in range(2))
    assert bits(one, late(data.labels), data) == bits(same, late(data.labels), data)
    assert same_state(one, same)
    if method != OWN:
        other = learner(3, seed=bytes(32), method=method)
        assert bits(other, late(data.labels), data) != bits(learner(3, method=method), late(data.labels), data)


@every_scaled
@pytest.mark.parametrize("cut", [1, 7])
def test_any_cut_gives_the_same_bits(method: str, scaler: str, cut: int) -> None:
    """Chance decides where a batch ends."""
    data = stream(300, 3, positives=0.1)
    whole, parts = (learner(3, method=method, scaler=scaler) for _ in range(2))
    assert bits(whole, late(data.labels), data) == bits(parts, late(data.labels), data, cut)
    assert same_state(whole, parts)


@every
@pytest.mark.parametrize("at", [0, 1, 2, 30, 31, 330])
def test_a_state_that_was_bytes_continues_to_the_same_bits(method: str, at: int) -> None:
    """Recovery depends on it: generators, costs, counters and queues are all in the arrays, for any learner.

    The last cut comes after the first change of Adaptive_CS's costs, at the 251st label.
    """
    data = stream(400, 3, positives=0.15)
    entries = late(data.labels)
    first = learner(3, method=method)
    second = learner(3, seed=bytes(32), method=method)  # another seed, another past
    bits(second, in_turn(data.labels[:40]), data)
    bits(first, entries[: 2 * at], data)
    stored = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in first.arrays().items()}
    second.load({name: np.frombuffer(raw, kind).reshape(shape) for name, (kind, shape, raw) in stored.items()})
    assert same_state(first, second)
    assert bits(first, entries[2 * at :], data) == bits(second, entries[2 * at :], data)
    assert same_state(first, second)


@every
def test_a_state_with_another_shape_or_type_is_refused_and_changes_nothing(method: str) -> None:
    """A damaged snapshot must park the task, and no learner may train on it."""
    data = stream(60, 3, positives=0.3)
    which = learned(method, data)
    whole = which.arrays()
    kept = {name: array.tobytes() for name, array in whole.items()}
    for name, array in whole.items():
        for damaged in (array.astype(np.complex64), np.concatenate([array, array])[: len(array) + 1], array[:0]):
            if method == OWN and damaged.dtype == array.dtype and name != "updates":
                continue  # the shapes of a user's own arrays are the user's
            if name == "seen" and (damaged.dtype, damaged.shape[1:]) == (array.dtype, array.shape[1:]):
                continue  # a row for each slot in use
            if (damaged.shape, damaged.dtype) == (array.shape, array.dtype):
                continue
            with pytest.raises(StateError):
                which.load(dict(whole) | {name: damaged})
    with pytest.raises(StateError):
        which.load({name: array for name, array in whole.items() if name != "updates"})
    assert {name: array.tobytes() for name, array in which.arrays().items()} == kept


@every
def test_memory_is_bounded(method: str) -> None:
    """A stream has no end."""
    data = stream(2000, 3, positives=0.2)
    small: dict[str, Any] = {"replay_per_class": 50} if method == "relay" else {}
    which = learner(3, method=method, **small)
    bits(which, in_turn(data.labels), data)
    size = sum(array.nbytes for array in which.arrays().values())
    for _ in range(3):
        bits(which, in_turn(data.labels), data)
    assert sum(array.nbytes for array in which.arrays().values()) == size


@every
@pytest.mark.parametrize("label", [0, 1])
def test_a_stream_of_one_class_is_learned(method: str, label: int) -> None:
    """The other class may come a year later; until then nothing must divide by its size of 0."""
    data = stream(400, 3)
    which = learner(3, method=method)
    entries = in_turn(np.full(400, label, np.int8), reports=True)
    answers = run_in_cuts(which, entries, data.examples, 500)
    if method != OWN:  # the nearest of two means needs both
        assert (answers.labels[3 * 300 :: 3] == label).mean() > 0.9
    assert np.isfinite(answers.reports).all()
    assert all(np.isfinite(array).all() for array in which.arrays().values())


@every
@pytest.mark.parametrize("scaler", ["none", "standard"])
def test_constant_features_are_no_harm(method: str, scaler: str) -> None:
    """The deviation of a sensor that is off is 0, and its values carry no information."""
    if method == OWN and scaler == "standard":
        return
    data = Stream(np.full((200, 3), 5.0, np.float32), stream(200, 3, positives=0.3).labels)
    which = made(method, 3, scaler)
    answers = run_in_cuts(which, in_turn(data.labels), data.examples, 200)
    assert ((answers.scores[::2] >= 0) & (answers.scores[::2] <= 1)).all()
    assert all(np.isfinite(array).all() for array in which.arrays().values())


@every
@pytest.mark.parametrize("features", [1, 784])
def test_a_learner_learns_in_any_dimension(method: str, features: int) -> None:
    """A learner must work with one feature, and with as many as an image has."""
    random = np.random.default_rng(features)
    labels = (random.random(600) < 0.5).astype(np.int8)
    examples = (0.3 * random.standard_normal((600, features)) + labels[:, None]).astype(np.float32)
    which = learner(features, method=method)
    answers = run_in_cuts(which, in_turn(labels), examples, 100)
    assert (answers.labels[1000::2] == labels[500:]).mean() > 0.8


@every
@pytest.mark.parametrize("label", [-1, 2])
def test_a_class_that_is_none_is_never_learned(method: str, label: int) -> None:
    """An invalid class would be an index of a queue that does not exist; a refused call must not change the state."""
    data = stream(20, 3, positives=0.3)
    which = learned(method, data)
    before = which.arrays()
    for code in (Operation.LEARN, Operation.CORRECT):
        with pytest.raises(ValueError, match="a class to learn is 0 or 1"):
            which.run(
                operations([(Operation.PREDICT, 0, -1), (Operation.LEARN, 1, 1), (code, 0, label)]),
                data.examples,
                ids(20),
            )
    assert all(before[name].tobytes() == array.tobytes() for name, array in which.arrays().items())


@every
def test_a_correction_undoes_no_step(method: str) -> None:
    """What was learned remains learned: only stored examples have another class from then on."""
    data = stream(60, 3, positives=0.3)
    which = learned(method, data)
    before = which.arrays()
    entries = [(Operation.CORRECT, slot, 1 - int(data.labels[slot])) for slot in range(60)]
    answers = which.run(operations(entries), data.examples, ids(60))
    changed = {name for name, array in which.arrays().items() if array.tobytes() != before[name].tobytes()}
    assert all(
        name.startswith(("negative_", "positive_", "window_", "ring."))
        or name in ("capacities", "tallies", "firsts", "lengths")
        for name in changed
    )
    assert (answers.versions == before["updates"].sum()).all()
    assert bool(changed) == (method in ("areba", "qbr", "sliding", "relay"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_correction_is_the_same_for_compiled_and_other_networks(method: str) -> None:
    """What a method stores depends on labels alone, with any network; the queues must be equal."""
    data = stream(120, 3, positives=0.3)
    both = pair(LearnerSettings.model_validate({"method": method}), 3)
    for which in both:
        bits(which, late(data.labels), data)
    fast, slow = (which.arrays() for which in both)
    of_networks = {"parameters", "first_moments", "second_moments", "beta_powers", "errors"}
    own = [name for name in fast if name not in of_networks]
    assert list(fast) == list(slow)
    assert all(fast[name].tobytes() == slow[name].tobytes() for name in own)


@every
def test_answers_have_their_shapes_and_types(method: str) -> None:
    """The answers become records whose schemas are fixed."""
    data = stream(10, 3)
    answers = run_in_cuts(learner(3, method=method), late(data.labels), data.examples, 100)
    codes = np.array([code for code, _, _ in late(data.labels)])
    columns = (answers.scores, answers.labels, answers.versions)
    assert [column.dtype.name for column in columns] == ["float32", "int8", "int64"]
    assert np.array_equal(np.isnan(answers.scores), codes != Operation.PREDICT)
    assert np.array_equal(answers.labels == -1, codes != Operation.PREDICT)
    assert answers.reports.shape == ((codes == Operation.REPORT).sum(), 7)
    assert (np.diff(answers.versions) >= 0).all()
    assert np.array_equal(answers.reports[:, 0], answers.versions[codes == Operation.REPORT])
