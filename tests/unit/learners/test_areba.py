"""AREBA's queues, step by step, computed by hand from the paper's algorithm 2."""

import numpy as np
import pytest

from stream_app.learners.api import REPORT_COLUMNS, Learner
from stream_app.records import Operation
from tests.support.learner_steps import ids, in_turn, learner, operations

COLUMNS = ("negative_capacity", "positive_capacity", "negative_queue", "positive_queue")


def trace(classes: str, budget: int, *, theta: float = 0.99) -> list[tuple[int, ...]]:
    """Return capacities (n, p) and queue lengths (n, p) after each label of a sequence such as `nnp`."""
    labels = np.array(["np".index(name) for name in classes.replace(" ", "")], np.int8)
    areba = learner(budget=budget, theta=theta)
    reports = areba.run(
        operations(in_turn(labels, reports=True)), np.zeros((len(labels), 2), np.float32), ids(len(labels))
    ).reports
    columns = [REPORT_COLUMNS.index(name) for name in COLUMNS]
    return [tuple(row) for row in reports[:, columns].astype(int).tolist()]


def queue_ids(areba: Learner, name: str) -> list[int]:
    """Return the numbers that `ids` gave, oldest first."""
    return [int(words[1]) for words in areba.arrays()[f"{name}_ids"]]


def test_the_papers_figure() -> None:
    """B = 10, a positive at t = 10, 20, ..., 100: the paper's figure and the text about it, number by number."""
    steps = trace("".join("p" if t and t % 10 == 0 else "n" for t in range(102)), 10)
    assert [step[0] for step in steps[:10]] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10]
    assert [step[2] for step in steps[:10]] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert steps[10] == (1, 2, 1, 1)
    assert steps[19] == (1, 2, 1, 1)
    assert steps[20] == (2, 3, 1, 2)
    assert steps[21] == (2, 3, 2, 2)
    assert steps[30] == (3, 4, 2, 3)
    assert steps[31] == (3, 4, 3, 3)
    assert steps[40] == (4, 5, 3, 4)
    assert steps[50] == (5, 5, 4, 5)
    assert steps[51] == (5, 5, 5, 5)
    assert steps[100] == steps[101] == (5, 5, 5, 5)


def test_before_and_after_the_imbalance_flips() -> None:
    """B = 4: the classes change roles, and the queues stay balanced while they do."""
    steps = trace("nnnnnn p n p n p  ppppppp n n", 4)
    assert steps[:6] == [(2, 1, 1, 0), (3, 1, 2, 0), (4, 1, 3, 0), (4, 1, 4, 0), (4, 1, 4, 0), (4, 1, 4, 0)]
    assert steps[6:11] == [
        (1, 2, 1, 1),  # p: full with one, below B / 2: grows, and the negatives fall to their newest
        (1, 2, 1, 1),  # n: not the minority's queue; the new one takes the old one's place
        (2, 2, 1, 2),  # p: full with two, which is B / 2: the negatives may have two as well
        (2, 2, 2, 2),
        (2, 2, 2, 2),
    ]
    assert set(steps[11:]) == {(2, 2, 2, 2)}


def test_roles_that_change_before_the_queues_have_grown() -> None:
    """B = 8: a new minority continues from its own capacity, and the capacity of the other is cut to one less, twice.

    s_n is 0.0294, 0.0291, 0.0288, 0.0285, 0.0382, 0.0479 from the fourth label on, s_p is 0.0100, 0.0199, 0.0297,
    0.0394, 0.0390, 0.0386: the negatives are the minority at the sixth, seventh and eighth.
    """
    assert trace("nnn pppp nn", 8) == [
        (2, 1, 1, 0),
        (3, 1, 2, 0),
        (4, 1, 3, 0),
        (1, 2, 1, 1),  # p, the minority, is full with one
        (2, 3, 1, 2),  # and with two
        (2, 3, 1, 3),  # the minority is n, which has one of two
        (2, 3, 1, 3),
        (3, 2, 2, 2),  # n is full with two: it may have three, and p drops its oldest
        (2, 3, 2, 2),  # the minority is p, full with two: it may have three, and n drops its oldest
    ]


def test_one_class_absent_for_long() -> None:
    """B = 6: the absent class keeps its last examples, as the minority and, later, as the former majority."""
    areba = learner(budget=6)
    labels = np.array([0] * 8 + [1] * 40, np.int8)
    areba.run(operations(in_turn(labels)), np.zeros((48, 2), np.float32), ids(48))
    assert areba.arrays()["capacities"].tolist() == [3, 3]
    assert queue_ids(areba, "negative") == [8]
    assert queue_ids(areba, "positive") == [46, 47, 48]

    steps = trace("n" * 8 + "p" * 40 + "nnnn", 6)
    assert steps[7:11] == [(6, 1, 6, 0), (1, 2, 1, 1), (2, 3, 1, 2), (3, 3, 1, 3)]
    assert set(steps[11:48]) == {(3, 3, 1, 3)}
    assert steps[48:] == [(3, 3, 2, 3), (3, 3, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3)]


@pytest.mark.parametrize("budget", [4, 20])
def test_strict_alternation_keeps_one_and_one(budget: int) -> None:
    """As the algorithm is written, the capacities alternate between 1 and 2 forever, so B is never used."""
    steps = trace("np" * 30, budget)
    assert steps[0] == (2, 1, 1, 0)
    assert steps[1::2] == [(2, 1, 1, 1)] * 30
    assert steps[2::2] == [(1, 2, 1, 1)] * 29


def test_a_budget_of_two_may_hold_three() -> None:
    """As the algorithm is written, a capacity above B / 2 remains while its class is the minority."""
    assert trace("npppn", 2) == [(2, 1, 1, 0), (2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 2, 1)]


def test_the_newest_examples_stay_in_order_with_their_ids() -> None:
    """A snapshot and a digest list them; a ring that turned wrongly would train on examples that had left."""
    random = np.random.default_rng(3)
    labels = (random.random(200) < 0.3).astype(np.int8)
    examples = random.standard_normal((200, 2)).astype(np.float32)
    areba = learner(budget=6)
    areba.run(operations(in_turn(labels)), examples, ids(200))
    for label, name in ((0, "negative"), (1, "positive")):
        newest = np.flatnonzero(labels == label)[-3:]
        assert queue_ids(areba, name) == (newest + 1).tolist()
        assert np.array_equal(areba.arrays()[f"{name}_examples"], examples[newest])


def test_a_corrected_example_moves_after_the_newest_of_its_class() -> None:
    """B = 6: the order, the oldest example of the full queue, the rest of the other queue, the next label's rules."""
    labels = np.array([0] * 8 + [1] * 8 + [0] * 2, np.int8)
    areba = learner(budget=6)
    examples = np.arange(38, dtype=np.float32).reshape(19, 2)
    areba.run(operations(in_turn(labels)), examples, ids(19))
    assert (queue_ids(areba, "negative"), queue_ids(areba, "positive")) == ([8, 17, 18], [14, 15, 16])
    sizes = areba.arrays()["class_sizes"].tolist()
    areba.run(operations([(Operation.CORRECT, 16, 1)]), examples, ids(19))
    assert (queue_ids(areba, "negative"), queue_ids(areba, "positive")) == ([8, 18], [15, 16, 17])
    assert areba.arrays()["positive_examples"].tolist() == examples[[14, 15, 16]].tolist()
    assert areba.arrays()["negative_examples"].tolist() == examples[[7, 17]].tolist()
    areba.run(
        operations([(Operation.CORRECT, 0, 1), (Operation.CORRECT, 17, 0), (Operation.CORRECT, 13, 0)]),
        examples,
        ids(19),
    )
    assert (queue_ids(areba, "negative"), queue_ids(areba, "positive")) == ([8, 18], [15, 16, 17]), (
        "all not kept as such"
    )
    assert areba.arrays()["class_sizes"].tolist() == sizes
    assert areba.arrays()["capacities"].tolist() == [3, 3]
    areba.run(operations([(Operation.PREDICT, 18, -1), (Operation.LEARN, 18, 0)]), examples, ids(19))
    assert (queue_ids(areba, "negative"), queue_ids(areba, "positive")) == ([8, 18, 19], [15, 16, 17])


def test_a_queue_that_a_correction_empties_begins_again() -> None:
    """With its old capacity it would fill next to the other queue's B: more than B + 1 examples in all."""
    labels = np.array([0] * 6 + [1] + [0] * 4, np.int8)
    areba = learner(budget=4)
    rows = np.zeros((11, 2), np.float32)
    areba.run(operations(in_turn(labels)), rows, ids(11))
    assert areba.arrays()["capacities"].tolist() == [1, 2]
    areba.run(operations([(Operation.CORRECT, 6, 0)]), rows, ids(11))
    assert (queue_ids(areba, "negative"), queue_ids(areba, "positive")) == ([7], [])
    assert areba.arrays()["capacities"].tolist() == [1, 1]


def test_class_sizes_are_the_papers_float64_sums() -> None:
    """A size is theta * s + (1 - theta) at its own label, theta * s at the other's, in this order of operations."""
    labels = np.array([0, 1, 1, 0, 0, 1], np.int8)
    sizes = [0.0, 0.0]
    for label in labels:
        sizes = [0.99 * size + (1 - 0.99 if label == k else 0.0) for k, size in enumerate(sizes)]
    areba = learner()
    areba.run(operations(in_turn(labels)), np.zeros((6, 2), np.float32), ids(6))
    assert areba.arrays()["class_sizes"].tolist() == sizes
