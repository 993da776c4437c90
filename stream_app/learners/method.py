"""A method as Python sees it: its state, and which parts of the state a snapshot has."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.learners.method_state import NEGATIVE, POSITIVE, RELAY, MethodState
from stream_app.records import ID_WORDS, Longs

State = Mapping[str, NDArray[np.generic]]
"""Arrays by name, as a snapshot has them."""

RING = "ring."
"""The prefix of the names of arrays whose rows keep their places, so that a snapshot writes only those that changed."""

CLASS_QUEUES = ((NEGATIVE, "negative"), (POSITIVE, "positive"))
"""The queues of a method that has one for each class, with the prefix of their arrays' names."""


class StatePart(NamedTuple):
    """A part of the state that several methods have: functions that export it, check it and load it."""

    arrays: Callable[[MethodState], State]
    fits: Callable[[MethodState, State], bool]
    load: Callable[[MethodState, State], None]


class Method:
    """A method.

    Args:
        state: Its state.
        parts: The parts of its state that a snapshot has, in the order of the arrays.
    """

    def __init__(self, state: MethodState, *parts: StatePart) -> None:
        self.state = state
        self._parts = parts

    def with_state(self, state: MethodState) -> "Method":
        """Return the same method with another state."""
        return Method(state, *self._parts)

    @property
    def examples(self) -> int:
        """The most examples of one step."""
        return len(self.state.starts)

    @property
    def is_alike(self) -> bool:
        """Whether all networks start from the same weights."""
        return self.state.kind == RELAY

    def arrays(self) -> State:
        """Return copies of the state."""
        return {name: array for part in self._parts for name, array in part.arrays(self.state).items()}

    def fits(self, arrays: State) -> bool:
        """Say whether these arrays, whose names were compared before, are the state of such a method."""
        return all(part.fits(self.state, arrays) for part in self._parts)

    def load(self, arrays: State) -> None:
        """Take over arrays that `fits` accepted."""
        for part in self._parts:
            part.load(self.state, arrays)


# Queues ---------------------------------------------------------------------------------------------------------------


def queue_rows(state: MethodState, queue: int) -> Longs:
    """Return the rows of the examples in one queue, oldest first."""
    ages: Longs = np.arange(state.lengths[queue], dtype=np.int64)
    rows: Longs = queue * state.rows + (state.firsts[queue] + ages) % state.rows
    return rows


def queue_arrays(state: MethodState, queue: int, name: str) -> dict[str, NDArray[np.generic]]:
    """Return copies of the examples and ids in a queue, oldest first."""
    rows = queue_rows(state, queue)
    return {f"{name}_examples": state.examples.reshape(-1, state.width)[rows], f"{name}_ids": state.ids[rows]}


def queue_fits(state: MethodState, arrays: State, name: str, capacity: int) -> bool:
    """Say whether these arrays are a queue of this capacity that the state has room for."""
    examples, ids = arrays[f"{name}_examples"], arrays[f"{name}_ids"]
    held = len(examples)
    return (
        held <= capacity <= state.rows
        and _is(examples, np.float32, held, state.width)
        and _is(ids, np.uint64, held, ID_WORDS)
    )


def load_queue(state: MethodState, arrays: State, queue: int, name: str) -> Longs:
    """Take over the arrays of a queue; return its rows, whose classes the caller fills in."""
    state.firsts[queue] = 0
    state.lengths[queue] = len(arrays[f"{name}_examples"])
    rows = queue_rows(state, queue)
    state.examples.reshape(-1, state.width)[rows] = arrays[f"{name}_examples"]
    state.ids[rows] = arrays[f"{name}_ids"]
    return rows


def check_budget(budget: int) -> None:
    """Refuse a budget that two equal queues cannot share.

    Raises:
        ValueError: The budget is odd or below 2.
    """
    if budget < 2 or budget % 2:
        raise ValueError(f"a budget is even and at least 2, not {budget}")


def _is(array: NDArray[np.generic], dtype: type[np.generic], *shape: int) -> bool:
    return array.shape == shape and array.dtype == dtype


def _class_queue_arrays(state: MethodState) -> State:
    arrays: dict[str, NDArray[np.generic]] = {"capacities": state.capacities.copy()}
    for queue, name in CLASS_QUEUES:
        arrays |= queue_arrays(state, queue, name)
    return arrays


def _class_queues_fit(state: MethodState, arrays: State) -> bool:
    capacities = arrays["capacities"]
    return _is(capacities, np.int64, 2) and all(
        int(capacities[queue]) >= 1 and queue_fits(state, arrays, name, int(capacities[queue]))
        for queue, name in CLASS_QUEUES
    )


def _load_class_queues(state: MethodState, arrays: State) -> None:
    state.capacities[...] = arrays["capacities"]
    for queue, name in CLASS_QUEUES:
        state.classes[load_queue(state, arrays, queue, name)] = queue


def _used_rows(state: MethodState, queue: int) -> int:
    """Return how many rows of a ring, from its first place on, may have an example that is kept."""
    return min(int(state.firsts[queue] + state.lengths[queue]), state.rows)


def _ring_arrays(state: MethodState) -> State:
    arrays: dict[str, NDArray[np.generic]] = {"firsts": state.firsts.copy(), "lengths": state.lengths.copy()}
    for queue, name in CLASS_QUEUES:
        rows = slice(queue * state.rows, queue * state.rows + _used_rows(state, queue))
        arrays[f"{RING}{name}.examples"] = state.examples.reshape(-1, state.width)[rows].copy()
        arrays[f"{RING}{name}.ids"] = state.ids[rows].copy()
    return arrays


def _rings_fit(state: MethodState, arrays: State) -> bool:
    firsts, lengths = arrays["firsts"], arrays["lengths"]
    if not (_is(firsts, np.int64, 2) and _is(lengths, np.int64, 2)):
        return False
    for queue, name in CLASS_QUEUES:
        first, length = int(firsts[queue]), int(lengths[queue])
        if not (0 <= first < state.rows and 0 <= length <= state.rows):
            return False
        used = min(first + length, state.rows)
        if not _is(arrays[f"{RING}{name}.examples"], np.float32, used, state.width):
            return False
        if not _is(arrays[f"{RING}{name}.ids"], np.uint64, used, ID_WORDS):
            return False
    return True


def _load_rings(state: MethodState, arrays: State) -> None:
    state.firsts[...], state.lengths[...] = arrays["firsts"], arrays["lengths"]
    for queue, name in CLASS_QUEUES:
        rows = slice(queue * state.rows, queue * state.rows + _used_rows(state, queue))
        state.examples.reshape(-1, state.width)[rows] = arrays[f"{RING}{name}.examples"]
        state.ids[rows], state.classes[rows] = arrays[f"{RING}{name}.ids"], queue


# The parts that several methods have ----------------------------------------------------------------------------------


def _array_part(name: str, of: Callable[[MethodState], NDArray[np.generic]]) -> StatePart:
    """Make the part that is one array of the state, under a name."""

    def fits(state: MethodState, arrays: State) -> bool:
        return arrays[name].shape == of(state).shape and arrays[name].dtype == of(state).dtype

    def load(state: MethodState, arrays: State) -> None:
        of(state)[...] = arrays[name]

    return StatePart(lambda state: {name: of(state).copy()}, fits, load)


CLASS_SIZES = _array_part("class_sizes", lambda state: state.sizes)
"""float64 `[2]`, the negative class's first."""

COSTS = _array_part("costs", lambda state: state.costs)
"""float64 `[2]`, the negative class's first."""


def _moments(state: MethodState) -> dict[str, NDArray[np.float64]]:
    examples, mean, squares = np.split(state.moments, [1, 1 + state.width])
    return {"scaler.examples": examples, "scaler.mean": mean, "scaler.squares": squares}


def _moments_fit(state: MethodState, arrays: State) -> bool:
    return all(_is(arrays[name], np.float64, *own.shape) for name, own in _moments(state).items())


def _load_moments(state: MethodState, arrays: State) -> None:
    for name, own in _moments(state).items():
        own[...] = arrays[name]


MOMENTS = StatePart(
    lambda state: {name: own.copy() for name, own in _moments(state).items()}, _moments_fit, _load_moments
)
"""float64, by the names of a scaler's arrays: examples `[1]`, mean and squares `[width]`; see `standardisation`."""

ERRORS = _array_part("errors", lambda state: state.errors)
"""float64, RELAY's faded errors."""

GATES = _array_part("gates", lambda state: state.gates)
"""float32 `[width]`, RELAY's feature gates."""

LABELS = _array_part("labels", lambda state: state.labels)
"""int64 `[1]`, the number of labels that were learned."""

GENERATOR = _array_part("generator", lambda state: state.generator)
"""uint64 `[6]`, key and counter."""

QUEUES = StatePart(_class_queue_arrays, _class_queues_fit, _load_class_queues)
"""Capacities int64 `[2]`, and of each class, negative first, the examples and ids of its queue, oldest first."""

RINGS = StatePart(_ring_arrays, _rings_fit, _load_rings)
"""Of a method with long queues of one capacity: the place of the oldest example and the number of examples int64 `[2]`,
and of each class, negative first, examples and ids by their places."""
