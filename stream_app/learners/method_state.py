"""The state of a method: class sizes, queues, costs, generator, and the examples of the step that comes next.

All methods share one type, so that one compiled loop serves them all; the arrays of what a method does not use are
empty, or have one element. Python has `MethodState`, compiled code `MethodStateView`, which is made from a descriptor.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer, doubles_at, float_from_bits, floats_at, longs_at, words_at
from stream_app.learners.networks.dense_networks import padded
from stream_app.learners.poisson import TABLE_SIZE, WORDS
from stream_app.records import ID_WORDS, Floats, Longs, Words

NEGATIVE, POSITIVE = 0, 1
"""The classes. An array with two elements has the negative class first."""

AREBA, QBR, SLIDING, BASELINE, ADAPTIVE_CS, OOB, UOB, RELAY = range(8)
"""The kinds of methods: which function admits an example."""

WITH_CHALLENGER, WITH_JITTER, WITH_AVERAGES, WITH_GATES = 1, 2, 4, 8
ALL_MECHANISMS = WITH_CHALLENGER | WITH_JITTER | WITH_AVERAGES | WITH_GATES
"""RELAY's mechanisms that can be switched off, see `methods.relay`: bits of `MethodState.mechanisms`."""


class MethodState(NamedTuple):
    """The state of a method. A queue is a ring of rows: the place of its oldest example, and its length.

    Attributes:
        kind: Which method it is.
        networks: How many networks learn.
        theta: The decay of the class sizes.
        width: Features of an example.
        rows: Rows of one queue.
        budget: The most examples in all queues that the method aims at.
        sizes: float64 `[2]`, the time-decayed class sizes s_n and s_p.
        capacities: int64 `[queues]`.
        lengths: int64 `[queues]`, the number of examples in each.
        firsts: int64 `[queues]`, the place of the oldest example in its ring.
        examples: float32 `[queues * rows * width]`, one ring after the other.
        ids: uint64 `[queues * rows, ID_WORDS]`, by the same rows.
        classes: float32 `[queues * rows]`, 0.0 or 1.0, by the same rows.
        costs: float64 `[2]`, the cost of an error in each class.
        largest_cost: The most that a cost may become.
        interval: Labels from one change of the costs to the next.
        labels: int64 `[1]`, labels so far.
        generator: uint64, see `poisson`; empty if the method draws no numbers.
        words: uint64, shared buffer: random words.
        table: float64, shared buffer: see `poisson`.
        starts: int64, shared buffer, the next step: where its examples begin in `examples`, or without queues in the
            features that the scaler keeps.
        targets: float32, shared buffer, the next step: the classes of its examples.
        weight: float32 `[1]`, the next step: the factor of the loss.
        steps: int64 `[networks]`, how many steps each network takes.
        scores: float32, shared buffer: each network's P(class 1).
        moments: float64 `[1 + 2 * width]`, of a method that standardises: see `standardisation`.
        tallies: int64, RELAY's counts, see `methods.relay`.
        errors: float64, RELAY's faded errors, see `methods.relay`.
        factors: float64 `[width]`, shared buffer: the inverse of each feature's deviation.
        batch: float32, shared buffer: the standardised examples of the next step.
        gates: float32 `[width]`, of a method with feature gates: what standardised features are multiplied by, see
            `feature_gates`.
        sums: float64, shared buffer: the sums from which the gates are computed.
        mechanisms: Which of RELAY's mechanisms are on: a sum of `WITH_CHALLENGER` and the like.
    """

    kind: int
    networks: int
    theta: float
    width: int
    rows: int
    budget: int
    sizes: NDArray[np.float64]
    capacities: Longs
    lengths: Longs
    firsts: Longs
    examples: Floats
    ids: Words
    classes: Floats
    costs: NDArray[np.float64]
    largest_cost: float
    interval: int
    labels: Longs
    generator: Words
    words: Words
    table: NDArray[np.float64]
    starts: Longs
    targets: Floats
    weight: Floats
    steps: Longs
    scores: Floats
    moments: NDArray[np.float64]
    tallies: Longs
    errors: NDArray[np.float64]
    factors: NDArray[np.float64]
    batch: Floats
    gates: Floats
    sums: NDArray[np.float64]
    mechanisms: int


SHARED = ("words", "table", "starts", "targets", "scores", "factors", "batch", "sums")
"""The arrays that carry nothing from one operation to the next, so that all learners share them."""


class MethodStateView(NamedTuple):
    """A `MethodState` in compiled code: a pointer in place of each array."""

    kind: int
    networks: int
    theta: float
    width: int
    rows: int
    budget: int
    sizes: Pointer
    capacities: Pointer
    lengths: Pointer
    firsts: Pointer
    examples: Pointer
    ids: Pointer
    classes: Pointer
    costs: Pointer
    largest_cost: float
    interval: int
    labels: Pointer
    generator: Pointer
    words: Pointer
    table: Pointer
    starts: Pointer
    targets: Pointer
    weight: Pointer
    steps: Pointer
    scores: Pointer
    moments: Pointer
    tallies: Pointer
    errors: Pointer
    factors: Pointer
    batch: Pointer
    gates: Pointer
    sums: Pointer
    mechanisms: int


@compiled
def view_of_method_state(descriptor: Pointer) -> MethodStateView:
    """Return the view of a state whose fields, in the order of `MethodState`, begin here.

    The owner of the state must hold the arrays while the view is in use.
    """
    return MethodStateView(
        descriptor[0],
        descriptor[1],
        float_from_bits(descriptor[2]),
        descriptor[3],
        descriptor[4],
        descriptor[5],
        doubles_at(descriptor[6]),
        longs_at(descriptor[7]),
        longs_at(descriptor[8]),
        longs_at(descriptor[9]),
        floats_at(descriptor[10]),
        words_at(descriptor[11]),
        floats_at(descriptor[12]),
        doubles_at(descriptor[13]),
        float_from_bits(descriptor[14]),
        descriptor[15],
        longs_at(descriptor[16]),
        words_at(descriptor[17]),
        words_at(descriptor[18]),
        doubles_at(descriptor[19]),
        longs_at(descriptor[20]),
        floats_at(descriptor[21]),
        floats_at(descriptor[22]),
        longs_at(descriptor[23]),
        floats_at(descriptor[24]),
        doubles_at(descriptor[25]),
        longs_at(descriptor[26]),
        doubles_at(descriptor[27]),
        doubles_at(descriptor[28]),
        floats_at(descriptor[29]),
        floats_at(descriptor[30]),
        doubles_at(descriptor[31]),
        descriptor[32],
    )


class QueueSizes(NamedTuple):
    """The queues of a method: their number, the rows of each, their common budget, and the first capacity."""

    queues: int = 0
    rows: int = 0
    budget: int = 0
    capacity: int = 1


class Costs(NamedTuple):
    """The costs of an error in each class at first, the most that one may become, and the labels between changes."""

    first: tuple[float, float] = (1.0, 1.0)
    largest: float = 1.0
    interval_labels: int = 1


class Replay(NamedTuple):
    """What a method needs that draws standardised examples from its queues.

    Examples of a step, tallies, errors, and the mechanisms that are on.
    """

    examples: int
    tallies: int
    errors: int
    mechanisms: int


def new_method_state(
    kind: int,
    features: int,
    *,
    networks: int = 1,
    theta: float = 0.0,
    queue_sizes: QueueSizes = QueueSizes(),  # noqa: B008  (a tuple cannot change)
    costs: Costs = Costs(),  # noqa: B008  (a tuple cannot change)
    generator: Words | None = None,
    replay: Replay | None = None,
) -> MethodState:
    """Return the state of a new method: class sizes 0, queues empty, one step for each network with weight 1."""
    held = queue_sizes.queues * queue_sizes.rows
    at_once = max(held, 1) if replay is None else replay.examples
    drawn = Replay(0, 0, 0, 0) if replay is None else replay
    standardised = 0 if replay is None else features
    gated = features if drawn.mechanisms & WITH_GATES else 0
    return MethodState(
        kind=kind,
        networks=networks,
        theta=float(theta),
        width=features,
        rows=queue_sizes.rows,
        budget=queue_sizes.budget,
        sizes=np.zeros(2),
        capacities=np.full(queue_sizes.queues, queue_sizes.capacity, np.int64),
        lengths=np.zeros(queue_sizes.queues, np.int64),
        firsts=np.zeros(queue_sizes.queues, np.int64),
        examples=np.zeros(held * features, np.float32),
        ids=np.zeros((held, ID_WORDS), np.uint64),
        classes=np.zeros(held, np.float32),
        costs=np.array(costs.first),
        largest_cost=float(costs.largest),
        interval=costs.interval_labels,
        labels=np.zeros(1, np.int64),
        generator=np.zeros(0, np.uint64) if generator is None else generator,
        words=np.zeros(WORDS, np.uint64),
        table=np.full(TABLE_SIZE, -1.0),
        starts=np.zeros(at_once, np.int64),
        targets=np.zeros(padded(at_once), np.float32),
        weight=np.ones(1, np.float32),
        steps=np.ones(networks, np.int64),
        scores=np.zeros(padded(networks), np.float32),
        moments=np.zeros(0 if replay is None else 1 + 2 * features),
        tallies=np.zeros(drawn.tallies, np.int64),
        errors=np.zeros(drawn.errors),
        factors=np.zeros(standardised),
        batch=np.zeros(drawn.examples * standardised, np.float32),
        gates=np.ones(gated, np.float32),
        sums=np.zeros(6 * gated),
        mechanisms=drawn.mechanisms,
    )


@compiled
def grow_sizes(state: MethodStateView, label: int) -> None:
    """Take a label into the time-decayed class sizes: `theta * s`, and `1 - theta` more for the class of the label."""
    for k in range(2):
        state.sizes[k] = state.theta * state.sizes[k] + (1.0 - state.theta if k == label else 0.0)
