"""The steps of each method, computed by hand from the paper and, where it is silent, from its authors' code."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.arrays import Longs, Words
from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import address_of, pointer_to
from stream_app.learners import loop as loop_module
from stream_app.learners.api import REPORT_COLUMNS, Learner
from stream_app.learners.method_state import new_tables
from stream_app.learners.methods.oob import MAX_RATE, oversampling_rate
from stream_app.learners.methods.relay.relay import RELAY, relay
from stream_app.learners.methods.relay.state import ALL_MECHANISMS, WITH_SHORT
from stream_app.learners.methods.uob import undersampling_rate
from stream_app.learners.networks.autograd import DenseNetwork, compiled_networks
from stream_app.learners.networks.dense import blank_networks, random_generator
from stream_app.learners.online import OnlineLearner
from stream_app.learners.poisson import PART, TABLE_SIZE, WORDS, draw, new_generator
from stream_app.learners.registry import METHODS, new_method
from stream_app.learners.scaler import OperationBuffers, new_scaler
from tests.support.learner_steps import (
    SEED,
    ids,
    in_turn,
    learner,
    operations,
    run_in_cuts,
    single_step_differences,
    stream,
)

QUEUES = ("negative_capacity", "positive_capacity", "negative_queue", "positive_queue")


def classes(text: str) -> NDArray[np.int8]:
    """Return the classes of a sequence such as `nnp`."""
    return np.array(["np".index(name) for name in text.replace(" ", "")], np.int8)


def trace(which: Learner, text: str, columns: tuple[str, ...]) -> list[tuple[float, ...]]:
    """Return columns of the reports after each label."""
    labels = classes(text)
    reports = which.run(
        operations(in_turn(labels, reports=True)), np.zeros((len(labels), 2), np.float32), ids(len(labels))
    ).reports
    return [tuple(row) for row in reports[:, [REPORT_COLUMNS.index(name) for name in columns]].tolist()]


def numbers(which: Learner, name: str) -> list[int]:
    """Return the numbers that `ids` gave, oldest first."""
    return [int(words[1]) for words in which.arrays()[f"{name}_ids"]]


def updates(which: Learner) -> NDArray[np.int64]:
    """Return the number of steps of each network so far."""
    return which.arrays()["updates"].astype(np.int64)


# QBR ------------------------------------------------------------------------------------------------------------------


def test_qbr_on_the_papers_figure() -> None:
    """B = 10, a positive at t = 10, 20, ..., 100; capacities as in the figure's text up to t = 20.

    According to pseudocode and code, the positives' queue is full at the fifth positive, t = 50. At t = 100, which the
    text mentions, it has the newest five.
    """
    qbr = learner(method="qbr", budget=10)
    steps = trace(qbr, "".join("p" if t and t % 10 == 0 else "n" for t in range(101)), QUEUES)
    assert steps[:6] == [(2, 1, 1, 0), (3, 1, 2, 0), (4, 1, 3, 0), (5, 1, 4, 0), (5, 1, 5, 0), (5, 1, 5, 0)]
    assert steps[10] == (5, 2, 5, 1)
    assert steps[19] == (5, 2, 5, 1)
    assert [steps[t] for t in (20, 30, 40, 50)] == [(5, 3, 5, 2), (5, 4, 5, 3), (5, 5, 5, 4), (5, 5, 5, 5)]
    assert set(steps[50:]) == {(5, 5, 5, 5)}
    assert numbers(qbr, "negative") == [96, 97, 98, 99, 100]  # z^95 ... z^99, counted from 1 here
    assert numbers(qbr, "positive") == [61, 71, 81, 91, 101]  # z^60 ... z^100


def test_qbr_with_a_budget_of_two_keeps_the_newest_of_each_class() -> None:
    """A capacity of 1 is already B / 2."""
    qbr = learner(method="qbr", budget=2)
    assert trace(qbr, "npnnp", QUEUES) == [(1, 1, 1, 0), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)]
    assert (numbers(qbr, "negative"), numbers(qbr, "positive")) == ([4], [5])


# Sliding --------------------------------------------------------------------------------------------------------------


def test_sliding_keeps_the_newest_of_both_classes() -> None:
    """W = 3: examples leave in the order in which they came, with any class."""
    window = learner(method="sliding", window=3)
    steps = trace(window, "nnpnnp", ("negative_queue", "positive_queue", "negative_capacity"))
    assert steps == [(1, 0, 3), (2, 0, 3), (2, 1, 3), (2, 1, 3), (2, 1, 3), (2, 1, 3)]
    assert numbers(window, "window") == [4, 5, 6]
    assert window.arrays()["window_labels"].tolist() == [0, 0, 1]


def test_sliding_learns_from_the_whole_window_at_once() -> None:
    """Each label causes one step on all of the window, as AREBA takes one on its queues: equal content, equal step."""
    examples, _ = stream(2, 2)
    labels = classes("np")
    window, areba = learner(method="sliding"), learner(method="areba")
    answers = [which.run(operations(in_turn(labels)), examples, ids(2)) for which in (window, areba)]
    assert answers[0].scores.tobytes() == answers[1].scores.tobytes()
    one, other = window.arrays()["parameters"], areba.arrays()["parameters"]
    assert np.allclose(one, other, atol=1e-6)  # AREBA sums the positive first
    assert window.arrays()["updates"] == 2


# Adaptive_CS ----------------------------------------------------------------------------------------------------------


def costs_after(text: str, largest: float, interval: int) -> list[list[float]]:
    """Return the costs of (n, p) after each label, with theta = 1 / 2."""
    which = learner(method="adaptive_cs", theta=0.5, cost=19.0, largest_cost=largest, cost_interval_labels=interval)
    steps = []
    for label in classes(text).tolist():
        which.run(operations([(1, 0, label)]), np.ones((1, 2), np.float32), ids(1))
        steps.append(which.arrays()["costs"].tolist())
    return steps


def test_costs_change_every_so_many_labels() -> None:
    """Computed by hand with theta = 1 / 2: the costs change at every second label, starting with the first.

    (s_n, s_p) is (1/2, 0), (3/4, 0), (3/8, 1/2), (11/16, 1/4), (27/32, 1/8). Label 0 must not change them,
    since no positive was seen. At label 2 the negatives are rarer, and their cost is 4/3. At label 4 the positives'
    cost is 27/4.
    """
    first = [1.0, 19.0]
    assert costs_after("nnpnn", 50.0, 2) == [first, first, [4 / 3, 1.0], [4 / 3, 1.0], [1.0, 27 / 4]]


def test_a_cost_has_a_bound() -> None:
    """The same with a largest cost of 5, and with an interval that is never reached."""
    assert costs_after("nnpnn", 5.0, 2)[4] == [1.0, 5.0]
    assert costs_after("nnpnn", 50.0, 250)[4] == [1.0, 19.0]


def test_equal_sizes_leave_the_costs_alone() -> None:
    """The authors' code compares the sizes with "less than": at 1/2 and 1/2, no class is the rarer one."""
    which = learner(method="adaptive_cs", theta=0.5, cost_interval_labels=1)
    state = dict(which.arrays()) | {"class_sizes": np.array([1.0, 0.0])}
    which.load(state)
    which.run(operations([(1, 0, 1)]), np.ones((1, 2), np.float32), ids(1))
    assert which.arrays()["class_sizes"].tolist() == [0.5, 0.5]
    assert which.arrays()["costs"].tolist() == [1.0, 19.0]


def test_a_cost_multiplies_the_gradient_of_its_class() -> None:
    """At first, the loss of a positive counts 19 times, and the loss of a negative once."""
    examples, _ = stream(1, 3)
    for label, cost in ((1, 19.0), (0, 1.0)):
        moments = []
        for method in ("adaptive_cs", "baseline"):
            which = learner(3, method=method)
            which.run(operations([(0, 0, -1), (1, 0, label)]), examples, ids(1))
            moments.append(which.arrays()["first_moments"].astype(np.float64))
        assert np.allclose(moments[0], cost * moments[1], rtol=1e-5, atol=0)
        assert moments[1].any()


# OOB and UOB ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "of_negative", "of_positive"),
    [
        ((0.75, 0.25), (1.0, 1 / 3), (3.0, 1.0)),
        ((0.25, 0.75), (3.0, 1.0), (1.0, 1 / 3)),
        ((0.5, 0.5), (1.0, 1.0), (1.0, 1.0)),
        ((0.5, 0.0), (1.0, 1.0), (1.0, 1.0)),  # a class that was never seen
        ((0.0, 0.5), (1.0, 1.0), (1.0, 1.0)),
        ((0.99999, 1e-5), (1.0, 1e-5 / 0.99999), (MAX_RATE, 1.0)),
    ],
)
def test_lambda(sizes: tuple[float, float], of_negative: tuple[float, float], of_positive: tuple[float, float]) -> None:
    """The parameters are class sizes (n, p), then lambda of OOB and of UOB at a label of each class."""
    state = new_tables(2, theta=0.99).state
    state.sizes[...] = sizes
    for label, expected in enumerate((of_negative, of_positive)):
        rates = [rate.py_func(state, label) for rate in (oversampling_rate, undersampling_rate)]  # type: ignore[attr-defined]
        assert rates == pytest.approx(expected, rel=1e-12)


def reference_poisson(seed: bytes, rates: list[float], count: int) -> list[list[int]]:
    """Draw the same numbers with NumPy's Philox and the library's exponential, by the distribution's definition."""
    key, counter = int.from_bytes(seed[:16], "little"), int.from_bytes(seed[16:], "little")
    block = (counter << 128) + (1 << 64)
    drawn = []
    for rate in rates:
        words = np.random.Philox(key=key, counter=block).random_raw(4 * (1 + count * math.ceil(rate / PART)))
        used = 0
        numbers = []
        parts = max(1, math.ceil(rate / PART))
        for _ in range(count):
            total = 0
            for _ in range(parts):
                uniform, used = (int(words[used]) >> 11) / 2**53, used + 1
                k, probability = 0, math.exp(-rate / parts)
                summed = probability
                while summed <= uniform:
                    k += 1
                    probability *= rate / parts / k
                    summed += probability
                total += k
            numbers.append(total)
        block += -(-used // 4)
        drawn.append(numbers)
    return drawn


@compiled
def _draw(generator: Words, words: Words, table: NDArray[np.float64], rate: float, drawn: Longs) -> None:
    draw(pointer_to(generator), pointer_to(words), pointer_to(table), rate, pointer_to(drawn), len(drawn))


def drawn_numbers(seed: bytes, rates: list[float], count: int) -> list[list[int]]:
    """Draw numbers as the learners do."""
    generator, words, table = new_generator(seed), np.zeros(WORDS, np.uint64), np.full(TABLE_SIZE, -1.0)
    lists = []
    for rate in rates:
        drawn = np.zeros(count, np.int64)
        _draw(generator, words, table, rate, drawn)
        lists.append(drawn.tolist())
    return lists


def test_draws_are_numpys_philox_and_the_definition_of_the_distribution() -> None:
    """The words of the generator, their order, and each resulting number are correct."""
    rates = [1.0, 0.01, 3.5, 8.0, 8.1, 99.0, 0.5, 1.0]
    for seed in (SEED, bytes(32), bytes([255]) * 32):
        assert drawn_numbers(seed, rates, 20) == reference_poisson(seed, rates, 20)


@pytest.mark.parametrize("rate", [0.05, 1.0, 7.9, 99.0])
def test_draws_have_the_mean_and_the_variance_of_poisson(rate: float) -> None:
    """Mean and variance are the rate, within five standard errors."""
    count = 20_000
    drawn = np.array(drawn_numbers(SEED, [rate], count)[0], np.float64)
    assert abs(drawn.mean() - rate) < 5 * math.sqrt(rate / count)
    assert abs(drawn.var() - rate) < 5 * math.sqrt((rate + 2 * rate**2) / count)


def test_lambda_of_oob_over_a_stream() -> None:
    """After 99 negatives s_n is 1 - 0.99^99 = 0.6303; a positive makes the sizes 0.6240 and 0.01.

    Lambda is then 62.4; at each negative it was 1.
    """
    which = learner(method="oob", ensemble_size=100)
    labels = np.zeros(100, np.int8)
    labels[-1] = 1
    examples, _ = stream(100, 2)
    which.run(operations(in_turn(labels[:99])), examples, ids(100))
    before = updates(which)
    which.run(operations([(0, 99, -1), (1, 99, 1)]), examples, ids(100))
    negative, positive = which.arrays()["class_sizes"].tolist()
    assert (negative, positive) == (pytest.approx(0.99 * (1 - 0.99**99)), pytest.approx(0.01))
    rate = negative / positive
    assert rate == pytest.approx(62.4, abs=0.05)
    steps = updates(which) - before
    assert steps.mean() == pytest.approx(rate, abs=5 * math.sqrt(rate / 100))
    assert before.mean() == pytest.approx(99, abs=5 * math.sqrt(99 / 100))


def test_uob_leaves_most_of_the_majority_out() -> None:
    """With sizes of 0.9 and 0.1 a network learns one negative in nine, and each positive once on average."""
    which = learner(method="uob", ensemble_size=100)
    examples, _ = stream(1, 2)
    for label, expected in ((0, 0.099 / 0.901), (1, 1.0)):
        state = dict(which.arrays()) | {"class_sizes": np.array([0.9, 0.1])}
        which.load(state)
        before = updates(which)
        which.run(operations([(1, 0, label)]), examples, ids(1))
        steps = updates(which) - before
        assert steps.mean() == pytest.approx(expected, abs=5 * math.sqrt(expected / 100))


@pytest.mark.parametrize(
    ("scores", "mean", "label"),
    [
        ((0.9, 0.2), 0.55, 1),  # a tie: as the first votes
        ((0.2, 0.9), 0.55, 0),
        ((0.51, 0.51, 0.0), 0.34, 1),  # two of three, although the mean is small
        ((0.5, 0.5, 1.0), 2 / 3, 0),  # 0.5 is not a vote for class 1
        ((0.7,), 0.7, 1),
    ],
)
def test_the_class_is_the_majoritys_and_the_score_the_mean(scores: tuple[float, ...], mean: float, label: int) -> None:
    """They may differ, and the prequential score uses the class."""
    tables = new_tables(2, networks=len(scores))
    tables.state.scores[: len(scores)] = scores
    networks, scaler = blank_networks((2, 8, 1), len(scores), 0.01, 0.0, 1), new_scaler(2, active=False, tracks=False)
    descriptor = loop_module.learner_descriptor(scaler, networks, tables, (0, 0))
    buffers = np.zeros(len(OperationBuffers._fields), np.int64)
    score, voted = loop_module.vote(address_of(descriptor), address_of(buffers))
    assert score == pytest.approx(mean, abs=1e-7)
    assert voted == label


@pytest.mark.parametrize("hidden", [(8,), (5, 3)])
@pytest.mark.parametrize("networks", [3, 20])
def test_networks_of_an_ensemble_are_what_they_would_be_alone(networks: int, hidden: tuple[int, ...]) -> None:
    """Eight networks are computed at a time; none may affect another, and their order must not matter."""
    features, rate = 3, 0.02
    examples, labels = stream(120, features, positives=0.2)
    which = learner(features, method="oob", ensemble_size=networks, hidden=list(hidden), learning_rate=rate, l2=0.01)
    generator = random_generator(SEED)
    alone = []
    for _ in range(networks):
        method = new_method(METHODS["baseline"], LearnerSettings(method="baseline"), features, SEED)
        network = compiled_networks([DenseNetwork(features, hidden, generator)], rate, 0.01, 1)
        alone.append(OnlineLearner(method, network, features, scaled=False))
    for k in range(120):
        before = updates(which)
        step = operations([(0, k, -1), (1, k, int(labels[k]))])
        score = which.run(step, examples, ids(120)).scores[0]
        scores = []
        for one, times in zip(alone, updates(which) - before, strict=True):
            one._all.method.state.steps[0] = times
            scores.append(one.run(step, examples, ids(120)).scores[0])
        assert score == np.float32(np.mean(np.array(scores, np.float64)))
    for name in ("parameters", "first_moments", "second_moments", "beta_powers"):
        together = np.concatenate([one.arrays()[name] for one in alone])
        assert which.arrays()[name].tobytes() == together.tobytes()


def test_oob_single_is_one_network() -> None:
    """This is the paper's special case."""
    examples, labels = stream(200, 3, positives=0.2)
    single, one = learner(3, method="oob_single"), learner(3, method="oob", ensemble_size=1)
    answers = [run_in_cuts(which, in_turn(labels), examples, 50) for which in (single, one)]
    assert answers[0].scores.tobytes() == answers[1].scores.tobytes()
    assert single.arrays()["updates"].shape == (1,)


# Both paths -----------------------------------------------------------------------------------------------------------

TOLERANCE = 2e-6

SMALL: dict[str, dict[str, object]] = {
    "oob": {"ensemble_size": 3},
    "uob": {"ensemble_size": 3},
    "sliding": {"window": 12},
    "qbr": {"budget": 12},
    "relay": {"replay_per_class": 12},
}

LONG_RELAY = RELAY._replace(make=lambda own, width, seed: relay(own, width, seed, ALL_MECHANISMS & ~WITH_SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [(8,), (6, 5)])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_compiled_step_of_a_method_is_autograds(method: str, hidden: tuple[int, ...]) -> None:
    """From equal states, step by step, the networks agree up to rounding, and the method's own arrays bit for bit.

    RELAY has no short memory here: its examples pass the gates where the layers of a network are not known.
    """
    examples, labels = stream(100, 3, positives=0.25)
    form = LONG_RELAY if method == "relay" else None
    worst = single_step_differences(examples, labels, 0.01, 0.01, hidden, form, method=method, **SMALL.get(method, {}))
    assert worst.pop("method") == 0
    assert max(worst.values()) < TOLERANCE, worst


@pytest.mark.parametrize("budget", [1, 3, 0])
def test_an_odd_budget_is_refused(budget: int) -> None:
    """Two equal queues cannot share an odd budget."""
    for method in ("areba", "qbr"):
        with pytest.raises(ValueError, match="even and at least 2"):
            METHODS[method].make(LearnerSettings.model_construct(method=method, budget=budget, theta=0.99), 2, SEED)
