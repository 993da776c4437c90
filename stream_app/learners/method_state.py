"""The state of a method: what every method has, its queues, and what is its own.

All methods share the first two, so that one compiled loop serves them all. A method's own state is a table in its file,
whose fields are the last of a learner's descriptor.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs, Words
from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.jit.tables import ArrayMark, new_table
from stream_app.learners.networks.dense_networks import DenseNetworks, padded
from stream_app.learners.scaler import ScaledInputs, Scaler
from stream_app.records import ID_WORDS

NEGATIVE, POSITIVE = 0, 1
"""The classes. An array with two elements has the negative class first."""


class MethodState(NamedTuple):
    """What every method has.

    Attributes:
        kind: The number of the method in `methods.METHODS`.
        networks: How many networks learn.
        first_voter: The first network that predicts.
        voters: How many networks predict, from that one on.
        theta: The decay of the class sizes.
        sizes: float64 `[2]`, the time-decayed class sizes s_n and s_p; zeros if the method has none.
        starts: int64, the next step: where its examples begin in the learner's source.
        targets: float32, the next step: the classes of its examples.
        weight: float32 `[1]`, the next step: the factor of the loss.
        steps: int64 `[networks]`, how many steps each network takes.
        scores: float32: each voter's P(class 1).
        batch: float32, the examples of the next step, of a method that makes them; else empty.
    """

    kind: int
    networks: int
    first_voter: int
    voters: int
    theta: float
    sizes: NDArray[np.float64]
    starts: Annotated[Longs, ArrayMark.SHARED]
    targets: Annotated[Floats, ArrayMark.SHARED]
    weight: Floats
    steps: Longs
    scores: Annotated[Floats, ArrayMark.SHARED]
    batch: Annotated[Floats, ArrayMark.SHARED]


class Queues(NamedTuple):
    """The queues of a method: rings of rows, each with the place of its oldest example and its length.

    Attributes:
        queues: How many there are.
        rows: Rows of one queue.
        width: Features of an example.
        dated: Whether `arrivals` are kept.
        capacities: int64 `[queues]`.
        lengths: int64 `[queues]`, the number of examples in each.
        firsts: int64 `[queues]`, the place of the oldest example in its ring.
        examples: float32 `[queues * rows * width]`, one ring after the other.
        ids: uint64 `[queues * rows, ID_WORDS]`, by the same rows.
        classes: float32 `[queues * rows]`, 0.0 or 1.0, by the same rows.
        arrivals: int64 `[queues * rows]`, how many examples had been predicted before, by the same rows.
    """

    queues: int
    rows: int
    width: int
    dated: bool
    capacities: Longs
    lengths: Longs
    firsts: Longs
    examples: Floats
    ids: Annotated[Words, ArrayMark.SELDOM]
    classes: Floats
    arrivals: Annotated[Longs, ArrayMark.SELDOM]


def new_queues(features: int, queues: int, rows: int, capacity: int, *, dated: bool = False) -> Queues:
    """Return empty queues with this number of rows each, and this capacity at first."""
    held = queues * rows
    return new_table(
        Queues,
        queues=queues,
        rows=rows,
        width=features,
        dated=dated,
        capacities=np.full(queues, capacity),
        lengths=queues,
        firsts=queues,
        examples=held * features,
        ids=(held, ID_WORDS),
        classes=held,
        arrivals=held if dated else 0,
    )


class _NoState(NamedTuple):
    """The own state of a method that has none."""


class MethodTables(NamedTuple):
    """All of a method's state: what every method has, its queues, and its own table."""

    state: MethodState
    queues: Queues
    own: Any


def new_tables(
    features: int,
    own: Any = _NoState(),  # noqa: ANN401, B008  (any table; a tuple cannot change)
    *,
    queues: Queues | None = None,
    theta: float = 0.0,
    networks: int = 1,
    voters: tuple[int, int] | None = None,
    drawn: int = 0,
) -> MethodTables:
    """Return the state of a new method: class sizes 0, and one step for each network with weight 1.

    Args:
        features: Numbers in an example.
        own: The method's own state.
        queues: Its queues; None: it has none.
        theta: The decay of the class sizes.
        networks: How many networks learn.
        voters: The first network that predicts, and how many do; None: all.
        drawn: Examples of a step that the method makes in `batch`; 0: it takes them from its queues, or as they come.
    """
    queues = new_queues(features, 0, 0, 0) if queues is None else queues
    first, count = (0, networks) if voters is None else voters
    at_once = drawn or max(len(queues.classes), 1)
    state = new_table(
        MethodState,
        kind=0,
        networks=networks,
        first_voter=first,
        voters=count,
        theta=theta,
        sizes=2,
        starts=at_once,
        targets=padded(at_once),
        weight=np.ones(1),
        steps=np.ones(networks),
        scores=padded(networks),
        batch=drawn * features,
    )
    return MethodTables(state, queues, own)


def source_of(scaler: Scaler, method: MethodTables) -> Floats:
    """Return where the examples of a step are: made, kept in queues, or as they entered a network."""
    state, queues, _ = method
    return state.batch if len(state.batch) else queues.examples if queues.queues else scaler.source


# Compiled code --------------------------------------------------------------------------------------------------------


class LearnerView(NamedTuple):
    """A learner in compiled code, with the examples of a call; `own` points to the fields of the method's own state."""

    inputs: ScaledInputs
    networks: DenseNetworks
    state: MethodState
    queues: Queues
    source: Pointer
    own: Pointer


@compiled
def grow_sizes(state: MethodState, label: int) -> None:
    """Take a label into the time-decayed class sizes: `theta * s`, and `1 - theta` more for the class of the label."""
    for k in range(2):
        state.sizes[k] = state.theta * state.sizes[k] + (1.0 - state.theta if k == label else 0.0)
