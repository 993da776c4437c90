"""RELAY: its queues, steps and challenger, one by one, and against plain Python."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import LearnerSettings
from stream_app.errors import StateError
from stream_app.learners.api import Learner
from stream_app.learners.factory import LearnerResources, build_dense
from stream_app.learners.methods.relay.relay import RELAY, relay
from stream_app.learners.methods.relay.state import (
    ALL_MECHANISMS,
    IS_SHORT,
    NETWORKS,
    WITH_AVERAGES,
    WITH_CHALLENGER,
    WITH_GATES,
    WITH_JITTER,
    WITH_SHORT,
)
from stream_app.records import Operation
from tests.learner_oracle import Kept, Network
from tests.relay_oracle import Challenger, Relay
from tests.support.learner_steps import SEED, ids, in_turn, learner, operations, pair, run_in_cuts, stream

NETWORK, PREDICTOR, AVERAGE, CHALLENGER, CHALLENGER_AVERAGE, SHORT, FIRST = range(NETWORKS)


def weights(which: Learner) -> NDArray[np.generic]:
    """Return the weights of the seven networks `[7, p]`."""
    return which.arrays()["parameters"].reshape(NETWORKS, -1)


def kept(which: Learner, name: str, column: str = "examples") -> NDArray[np.generic]:
    """Return the examples or ids of a class that are kept, oldest first."""
    arrays = which.arrays()
    queue, rows = ("negative", "positive").index(name), arrays[f"ring.{name}.{column}"]
    places = int(arrays["firsts"][queue]) + np.arange(int(arrays["lengths"][queue]))
    return rows[places % max(len(rows), 1)]


def drifting(count: int, features: int = 2) -> tuple[Floats, NDArray[np.int8]]:
    """Return examples whose classes are exchanged in the middle."""
    examples, labels = stream(count, features, positives=0.3)
    labels[count // 2 :] = 1 - labels[count // 2 :]
    return examples, labels


def run(which: Learner, examples: Floats, labels: NDArray[np.int8]) -> NDArray[np.int8]:
    """Predict and learn in turn; return the predicted classes."""
    return run_in_cuts(which, in_turn(labels), examples, 100).labels[::2]


def test_all_networks_start_alike() -> None:
    """The average predicts before the first label: it must be the network, with weights drawn from the seed."""
    own = weights(learner(3, method="relay"))
    assert (own == own[0]).all()
    assert own.any()
    assert (own[0] != weights(learner(3, seed=bytes(32), method="relay"))[0]).any()


def test_queues_keep_examples_as_they_came() -> None:
    """An old example must be standardised by what is known today, so that its scaling never ages."""
    examples, labels = stream(60, 3, positives=0.3)
    which = learner(3, method="relay", replay_per_class=5)
    run(which, 100 * examples + 7, labels)
    for k, name in enumerate(("negative", "positive")):
        assert np.array_equal(kept(which, name), (100 * examples + 7)[labels == k][-5:])


def test_units_are_irrelevant() -> None:
    """A user has no scaler to set: amounts in cents and in euros must give the same classes."""
    examples, labels = stream(1_000, 3, positives=0.2)
    plain, scaled = (run(learner(3, method="relay"), own, labels) for own in (examples, 1024 * examples))
    assert (plain == scaled).all()


@pytest.mark.parametrize(("features", "per_label"), [(2, 8), (8, 2)])
def test_scarce_labels_are_worth_more_steps(features: int, per_label: int) -> None:
    """A stream with 1 % of the labels must not learn a hundred times slower; nor may a label cost without bound."""
    which = learner(features, method="relay")
    examples = np.zeros((40, features), np.float32)
    for predictions, worth in ((1, 1), (3, 3), (20, 8)):
        before = int(which.arrays()["updates"].sum())
        entries = [(int(Operation.PREDICT), slot, -1) for slot in range(predictions)]
        which.run(operations([*entries, (int(Operation.LEARN), 0, 1)]), examples, ids(40))
        assert int(which.arrays()["updates"].sum()) - before == worth * per_label


def test_a_correction_moves_an_example() -> None:
    """A label that was wrong must not be drawn again with the wrong class."""
    examples, labels = stream(30, 3, positives=0.3)
    which = learner(3, method="relay")
    run(which, examples, labels)
    slot = int(np.flatnonzero(labels == 0)[2])
    which.run(operations([(int(Operation.CORRECT), slot, 1)]), examples, ids(30))
    assert np.array_equal(kept(which, "positive")[-1], examples[slot])
    assert np.array_equal(kept(which, "negative"), examples[(labels == 0) & (np.arange(30) != slot)])


def test_a_challenger_takes_over_after_a_sudden_drift() -> None:
    """Kept examples are false after a drift: without a challenger, a long memory keeps predicting the past."""
    examples, labels = drifting(2_000)
    which = learner(2, method="relay")
    predicted = run(which, examples[:1_000], labels[:1_000])
    assert (predicted[500:] == labels[500:1_000]).mean() > 0.8
    assert which.arrays()["lengths"][0] == 500
    predicted = run(which, examples[1_000:], labels[1_000:])
    assert (predicted[300:] == labels[1_300:]).mean() > 0.75
    own = which.arrays()
    assert set(np.flatnonzero(own["updates"]).tolist()) == {NETWORK, CHALLENGER, SHORT}


def test_noise_alone_replaces_nothing() -> None:
    """False labels must not make the learner forget what it knows."""
    examples, labels = stream(3_000, 2, positives=0.3)
    flipped = np.where(np.random.default_rng(1).random(3_000) < 0.15, 1 - labels, labels).astype(np.int8)
    which = learner(2, method="relay")
    predicted = run(which, examples, flipped)
    assert which.arrays()["lengths"][0] == 500
    assert (predicted[1_000:] == labels[1_000:]).mean() > 0.8


def test_the_short_memory_predicts_where_a_concept_turns() -> None:
    """No alarm is raised there, and what a long memory keeps is partly false: users would get worse alerts for good."""
    random = np.random.default_rng(5)
    examples = random.normal(size=(4_000, 9)).astype(np.float32)
    angle = np.linspace(0.0, np.pi, 4_000)
    labels = (examples[:, 0] * np.cos(angle) + examples[:, 1] * np.sin(angle) > 1.3).astype(np.int8)
    late, right = labels[2_000:], []
    for which in (learner(9, method="relay"), without(WITH_SHORT, 9)):
        predicted = run(which, examples, labels)[2_000:]
        right.append(np.mean([(predicted[late == k] == k).mean() for k in range(2)]))
    assert right[0] > right[1] + 0.02


def test_the_long_memory_predicts_again() -> None:
    """Few examples know a concept badly: the short memory must not stay once the drift is over."""
    examples, labels = drifting(3_000)
    which = learner(2, method="relay")
    run(which, examples, labels)
    assert int(which.arrays()["tallies"][IS_SHORT]) == 0


def sync(network: Network, arrays: dict[str, NDArray[np.generic]], number: int) -> None:
    """Give a network of the oracle the rounded numbers of the compiled network."""
    for name, into in (("parameters", network.parameters), ("first_moments", network.first)):
        into[:] = arrays[name].reshape(NETWORKS, -1)[number].tolist()
    network.second[:] = arrays["second_moments"].reshape(NETWORKS, -1)[number].tolist()


@pytest.mark.parametrize(("features", "count"), [(2, 700), (9, 120), (3, 260), (4, 260)])
def test_relay_is_what_its_description_says(features: int, count: int) -> None:
    """Queues, draws, steps, averages, short memory and challenger, each label from the compiled state before it."""
    examples, labels = drifting(count, features) if features != 3 else stream(count, 3, positives=0.3)
    if features == 9:
        examples[:, 8] += np.arange(count)
    which = learner(features, method="relay", replay_per_class=150)
    first = Network((features, 8, 1), weights(which)[0].tolist(), 0.01)
    oracle = Relay(first, 150, features, SEED)
    challenged, short_predicts, differences = 0, 0, []
    for number, label in enumerate(labels.tolist()):
        example, words = examples[number : number + 1], ids(number + 1)[-1:]
        score = float(which.run(operations([(int(Operation.PREDICT), 0, -1)]), example, words).scores[0])
        differences.append(abs(oracle.predict(str(number), example[0].tolist()) - score))
        if number % 3 != 1:
            oracle.learn(Kept(str(number), tuple(example[0].tolist())), label)
            which.run(operations([(int(Operation.LEARN), 0, label)]), example, words)
        if number % 20 == 19:
            wrong = number - 2
            which.run(operations([(int(Operation.CORRECT), 0, 1 - int(labels[wrong]))]), example, ids(wrong + 1)[-1:])
            oracle.correct(str(wrong), 1 - int(labels[wrong]))
        arrays = dict(which.arrays())
        for k, name in enumerate(("negative", "positive")):
            assert kept(which, name, "ids")[:, 1].tolist() == [int(kept.id) + 1 for kept in oracle.kept[k]]
        assert int(arrays["updates"].sum()) == oracle.steps
        short_predicts += oracle.short.predicts
        pairs = [(oracle.network, NETWORK), (oracle.average, AVERAGE), (oracle.short.network, SHORT)]
        if isinstance(oracle.challenger, Challenger):
            challenged += 1
            pairs += [(oracle.challenger.network, CHALLENGER), (oracle.challenger.average, CHALLENGER_AVERAGE)]
        assert features == 2 or np.allclose(arrays["gates"], oracle.gates, rtol=1e-5)
        assert np.allclose(arrays["slopes"], oracle.trends, rtol=1e-6, atol=1e-9)
        for network, place in pairs:
            assert np.allclose(
                network.parameters, arrays["parameters"].reshape(NETWORKS, -1)[place], rtol=1e-3, atol=2e-4
            )
            sync(network, arrays, place)
    assert max(differences) < 1e-5
    assert challenged > 0 if features == 2 else challenged == 0
    assert (short_predicts > 0) == (features in (2, 4))
    assert oracle.challenger is None
    assert oracle.trends[-1] == (pytest.approx(1.0, abs=0.05) if features == 9 else 0.0)


def without(mechanisms: int, features: int) -> Learner:
    """Return RELAY as the study builds it, without these mechanisms."""
    return build_dense(
        RELAY._replace(make=lambda own, width, seed: relay(own, width, seed, ALL_MECHANISMS & ~mechanisms)),
        LearnerSettings(method="relay"),
        features,
        SEED,
        LearnerResources(),
    )


def scores(which: Learner, examples: Floats, labels: NDArray[np.int8]) -> Floats:
    """Predict and learn in turn; return P(class 1)."""
    return run_in_cuts(which, in_turn(labels), examples, 100).scores[::2]


def test_gates_find_the_features_that_matter() -> None:
    """Among many irrelevant features, few positives seem to differ in some by chance."""
    random = np.random.default_rng(5)
    examples = random.random((3_000, 12)).astype(np.float32)
    labels = (np.abs(examples[:, 3] - 0.5) + 0.5 * examples[:, 7] > 0.8).astype(np.int8)
    gated, plain = learner(12, method="relay"), without(WITH_GATES, 12)
    right = [(run(which, examples, labels)[500:] == labels[500:]).mean() for which in (gated, plain)]
    assert right[0] > right[1]
    gates = gated.arrays()["gates"]
    assert set(np.argsort(gates)[-2:].tolist()) == {3, 7}
    assert np.mean(gates.astype(np.float64) ** 2) == pytest.approx(1.0, rel=1e-5)
    assert "gates" not in plain.arrays()


def test_a_gate_opens_soon_where_a_feature_begins_to_matter() -> None:
    """Where a concept turns, gates that know all kept examples together keep the new features small for too long."""
    random = np.random.default_rng(6)
    examples = random.normal(size=(2_120, 12)).astype(np.float32)
    lately = np.arange(2_120) >= 2_000
    labels = ((examples[:, 3] > 0.5) | ((examples[:, 7] > 0.5) & lately)).astype(np.int8)
    which = learner(12, method="relay")
    run(which, examples, labels)
    assert which.arrays()["lengths"].tolist() == [500, 500]
    assert set(np.argsort(which.arrays()["gates"])[-2:].tolist()) == {3, 7}
    assert which.arrays()["gates"][7] > 1.0


def test_a_correction_counts_for_the_gates() -> None:
    """A gate that a false label opened must close when the label is corrected."""
    examples, labels = stream(40, 9, positives=0.3)
    examples[:, 0] = labels
    wrong, right = labels.copy(), learner(9, method="relay", replay_per_class=50)
    corrected = learner(9, method="relay", replay_per_class=50)
    wrong[:4] = 1 - wrong[:4]
    for which, first in ((right, labels), (corrected, wrong)):
        which.run(operations(in_turn(first)[:60]), examples, ids(40))
        entries = [(int(Operation.CORRECT), slot, int(labels[slot])) for slot in range(4)]
        which.run(operations([*entries, *in_turn(labels)[60:]]), examples, ids(40))
    assert np.allclose(right.arrays()["gates"], corrected.arrays()["gates"], rtol=1e-5)


def test_damaged_gates_are_refused() -> None:
    """Compiled code checks no index: gates of another width would be read beyond their end."""
    examples, labels = stream(40, 3)
    which = learner(3, method="relay")
    run(which, examples, labels)
    for gates in (np.ones(2, np.float32), np.ones((3, 1), np.float32), np.ones(3)):
        with pytest.raises(StateError):
            which.load({**which.arrays(), "gates": gates})
    with pytest.raises(StateError):
        which.load({name: array for name, array in which.arrays().items() if name != "gates"})


def test_two_features_need_no_gates() -> None:
    """Where gates can do nothing they must cost nothing, and leave the bits and the state as they are."""
    examples, labels = drifting(600)
    gated, plain = learner(2, method="relay"), without(WITH_GATES, 2)
    assert scores(gated, examples, labels).tobytes() == scores(plain, examples, labels).tobytes()
    assert list(gated.arrays()) == list(plain.arrays())
    assert "gates" not in gated.arrays()


@pytest.mark.parametrize("mechanism", [WITH_CHALLENGER, WITH_JITTER, WITH_AVERAGES, WITH_SHORT])
def test_the_study_can_switch_a_mechanism_off(mechanism: int) -> None:
    """A table that says what a mechanism is worth must not compare RELAY with itself."""
    examples, labels = drifting(1_500)
    whole, part = learner(2, method="relay"), without(mechanism, 2)
    assert scores(whole, examples, labels).tobytes() != scores(part, examples, labels).tobytes()
    own = part.arrays()
    assert int(own["updates"][CHALLENGER]) == 0 or mechanism != WITH_CHALLENGER
    assert (int(own["updates"][SHORT]) == 0) == (mechanism == WITH_SHORT)
    networks = weights(part)
    assert np.allclose(networks[NETWORK], networks[AVERAGE], atol=1e-6) == (mechanism == WITH_AVERAGES)


@pytest.mark.slow
def test_networks_under_autograd_learn_the_same() -> None:
    """A user's own module gets the same draws, challenger and averages as the compiled networks."""
    examples, labels = drifting(900)
    fast, slow = pair(LearnerSettings(method="relay", replay_per_class=50), 2)
    for which in (fast, slow):
        first = dict(which.arrays())
        first["parameters"] = np.tile(first["parameters"].reshape(NETWORKS, -1)[0], NETWORKS)
        which.load(first)
    slow.load(fast.arrays())
    ours, theirs = run(fast, examples, labels), run(slow, examples, labels)
    assert (ours == theirs).mean() > 0.95
    for which in (fast, slow):
        updates = which.arrays()["updates"]
        assert set(np.flatnonzero(updates).tolist()) == {NETWORK, CHALLENGER, SHORT}
    assert (theirs[700:] == labels[700:]).mean() > 0.8
