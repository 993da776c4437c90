"""What a method is: its compiled functions, its state, and which parts of the state a snapshot has."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Longs, Words
from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import NEGATIVE, POSITIVE, LearnerView, MethodTables, Queues
from stream_app.learners.scaler import scale
from stream_app.records import ID_WORDS

State = Mapping[str, NDArray[np.generic]]
"""Arrays by name, as a snapshot has them."""

RING = "ring."
"""The prefix of the names of arrays whose rows keep their places, so that a snapshot writes only those that changed."""

_CLASS_QUEUES = ((NEGATIVE, "negative"), (POSITIVE, "positive"))
"""The queues of a method that has one for each class, with the prefix of their arrays' names."""


Check = Callable[[State, Longs, int], NDArray[np.bool_]]
"""Says of n learners whether the numbers in their arrays `[n, ...]` are right, given how many rows each queue has,
int64 `[n, queues]`, and how many it may have."""


class StatePart(NamedTuple):
    """A part of the state: functions that export it, check it and load it.

    Attributes:
        arrays: Returns copies of its arrays.
        fits: Says whether arrays are the state of such a part.
        load: Takes over arrays that fit.
        views: Returns the arrays of it that always have the same shape, not copied.
        queued: The other arrays, which are rows of queues: the queue, and the field of `Queues`, by name.
        keeps_places: Whether these rows are those of the ring from its first place on, instead of oldest first.
        right: Checks what `fits` checks besides types and shapes; None: nothing.
    """

    arrays: Callable[[MethodTables], State]
    fits: Callable[[MethodTables, State], bool]
    load: Callable[[MethodTables, State], None]
    views: Callable[[MethodTables], State] | None = None
    queued: Mapping[str, tuple[int, str]] = {}
    keeps_places: bool = False
    right: Check | None = None


# What most methods do -------------------------------------------------------------------------------------------------


@compiled
def _scale_slot(learner: LearnerView, slot: int) -> int:
    """Scale the example of a slot, which is to be predicted."""
    return scale(learner.inputs, slot)


@compiled
def _review_nothing(_learner: LearnerView, _slot: int) -> bool:
    """Learn without predicting the example again."""
    return False


@compiled
def _take_one_step(_learner: LearnerView) -> int:
    """Take no further step on a label."""
    return 0


@compiled
def _correct_nothing(_learner: LearnerView, _slot: int, _label: int) -> None:
    """Keep no example whose class could be corrected."""


class Functions(NamedTuple):
    """The compiled functions of a method. They take a `LearnerView` first, most of them then a slot.

    Attributes:
        admit: Takes the example of a slot with its label in; returns how many examples the next step has.
        correct: Changes the class of the example with the id of a slot, if the method keeps it.
        prepare: Prepares the example of a slot for its prediction; returns where it begins in `inputs.source`.
        review: Before `admit`: says whether the networks predict the example again. If they are compiled, they have.
        again: Prepares one more step on the label that was admitted; returns its examples; 0: without such a step.
    """

    admit: Any
    correct: Any = _correct_nothing
    prepare: Any = _scale_slot
    review: Any = _review_nothing
    again: Any = _take_one_step


# Python's side --------------------------------------------------------------------------------------------------------


def _nothing_erased(_tables: MethodTables, _queue: int, _gone: NDArray[np.bool_]) -> None:
    pass


class RunningMethod(NamedTuple):
    """A method with its state.

    Attributes:
        tables: Its state.
        parts: The parts of its state that a snapshot has, in the order of the arrays.
        is_alike: Whether all networks start from the same weights.
        erased: Called after examples were erased from a queue, with its number, and which examples, oldest first.
    """

    tables: MethodTables
    parts: Sequence[StatePart] = ()
    is_alike: bool = False
    erased: Callable[[MethodTables, int, NDArray[np.bool_]], None] = _nothing_erased

    @property
    def examples(self) -> int:
        """The most examples of one step."""
        return len(self.tables.state.starts)

    def arrays(self) -> State:
        """Return copies of the state."""
        return {name: array for part in self.parts for name, array in part.arrays(self.tables).items()}

    def fits(self, arrays: State) -> bool:
        """Say whether these arrays, whose names were compared before, are the state of such a method."""
        return all(part.fits(self.tables, arrays) for part in self.parts)

    def load(self, arrays: State) -> None:
        """Take over arrays that `fits` accepted."""
        for part in self.parts:
            part.load(self.tables, arrays)

    def erase(self, erased: Callable[[Words], NDArray[np.bool_]]) -> int:
        """Remove examples from all queues; return how many.

        Later examples move up, and all rows that are free are zeros afterwards, also those that older examples have
        left.

        Args:
            erased: Says of ids, uint64 `[n, ID_WORDS]`, which are erased.
        """
        queues = self.tables.queues
        columns: list[NDArray[Any]] = [queues.examples.reshape(-1, queues.width), queues.ids, queues.classes]
        if queues.dated:
            columns.append(queues.arrivals)
        removed = 0
        for queue in range(queues.queues):
            rows = queue_rows(queues, queue)
            gone = erased(queues.ids[rows])
            kept, begin = rows[~gone], queue * queues.rows
            for column in columns:
                moved = column[kept]
                column[begin : begin + queues.rows] = 0
                column[begin : begin + len(kept)] = moved
            queues.firsts[queue], queues.lengths[queue] = 0, len(kept)
            removed += len(rows) - len(kept)
            self.erased(self.tables, queue, gone)
        return removed


# Queues ---------------------------------------------------------------------------------------------------------------


def queue_rows(queues: Queues, queue: int) -> Longs:
    """Return the rows of the examples in one queue, oldest first."""
    ages: Longs = np.arange(queues.lengths[queue], dtype=np.int64)
    rows: Longs = queue * queues.rows + (queues.firsts[queue] + ages) % queues.rows
    return rows


def queue_arrays(queues: Queues, queue: int, name: str) -> dict[str, NDArray[np.generic]]:
    """Return copies of the examples and ids in a queue, oldest first."""
    rows = queue_rows(queues, queue)
    return {f"{name}_examples": queues.examples.reshape(-1, queues.width)[rows], f"{name}_ids": queues.ids[rows]}


def queue_fits(queues: Queues, arrays: State, name: str, capacity: int) -> bool:
    """Say whether these arrays are a queue of this capacity that the state has room for."""
    examples, ids = arrays[f"{name}_examples"], arrays[f"{name}_ids"]
    held = len(examples)
    return (
        held <= capacity <= queues.rows
        and _is(examples, np.float32, held, queues.width)
        and _is(ids, np.uint64, held, ID_WORDS)
    )


def load_queue(queues: Queues, arrays: State, queue: int, name: str) -> Longs:
    """Take over the arrays of a queue; return its rows, whose classes the caller fills in."""
    queues.firsts[queue] = 0
    queues.lengths[queue] = len(arrays[f"{name}_examples"])
    rows = queue_rows(queues, queue)
    queues.examples.reshape(-1, queues.width)[rows] = arrays[f"{name}_examples"]
    queues.ids[rows] = arrays[f"{name}_ids"]
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


def _class_queue_arrays(tables: MethodTables) -> State:
    queues = tables.queues
    arrays: dict[str, NDArray[np.generic]] = {"capacities": queues.capacities.copy()}
    for queue, name in _CLASS_QUEUES:
        arrays |= queue_arrays(queues, queue, name)
    return arrays


def _class_queues_fit(tables: MethodTables, arrays: State) -> bool:
    queues = tables.queues
    capacities = arrays["capacities"]
    return _is(capacities, np.int64, 2) and all(
        int(capacities[queue]) >= 1 and queue_fits(queues, arrays, name, int(capacities[queue]))
        for queue, name in _CLASS_QUEUES
    )


def _class_queues_right(arrays: State, held: Longs, rows: int) -> NDArray[np.bool_]:
    capacities = np.asarray(arrays["capacities"], np.int64)
    return np.asarray(((capacities >= 1) & (held <= capacities) & (capacities <= rows)).all(1))


def _load_class_queues(tables: MethodTables, arrays: State) -> None:
    queues = tables.queues
    queues.capacities[...] = arrays["capacities"]
    for queue, name in _CLASS_QUEUES:
        queues.classes[load_queue(queues, arrays, queue, name)] = queue


def _used_rows(queues: Queues, queue: int) -> int:
    """Return how many rows of a ring, from its first place on, may have an example that is kept."""
    return min(int(queues.firsts[queue] + queues.lengths[queue]), queues.rows)


def _ring_arrays(tables: MethodTables) -> State:
    queues = tables.queues
    arrays: dict[str, NDArray[np.generic]] = {"firsts": queues.firsts.copy(), "lengths": queues.lengths.copy()}
    for queue, name in _CLASS_QUEUES:
        rows = slice(queue * queues.rows, queue * queues.rows + _used_rows(queues, queue))
        arrays[f"{RING}{name}.examples"] = queues.examples.reshape(-1, queues.width)[rows].copy()
        arrays[f"{RING}{name}.ids"] = queues.ids[rows].copy()
        arrays[f"{RING}{name}.arrivals"] = queues.arrivals[rows].copy()
    return arrays


def _rings_fit(tables: MethodTables, arrays: State) -> bool:
    queues = tables.queues
    firsts, lengths = arrays["firsts"], arrays["lengths"]
    if not (_is(firsts, np.int64, 2) and _is(lengths, np.int64, 2)):
        return False
    for queue, name in _CLASS_QUEUES:
        first, length = int(firsts[queue]), int(lengths[queue])
        if not (0 <= first < queues.rows and 0 <= length <= queues.rows):
            return False
        used = min(first + length, queues.rows)
        if not _is(arrays[f"{RING}{name}.examples"], np.float32, used, queues.width):
            return False
        if not _is(arrays[f"{RING}{name}.ids"], np.uint64, used, ID_WORDS):
            return False
        if not _is(arrays[f"{RING}{name}.arrivals"], np.int64, used):
            return False
    return True


def _rings_right(arrays: State, held: Longs, rows: int) -> NDArray[np.bool_]:
    firsts, lengths = np.asarray(arrays["firsts"], np.int64), np.asarray(arrays["lengths"], np.int64)
    inside = (firsts >= 0) & (firsts < rows) & (lengths >= 0) & (lengths <= rows)
    return np.asarray((inside & (held == np.minimum(firsts + lengths, rows))).all(1))


def _load_rings(tables: MethodTables, arrays: State) -> None:
    queues = tables.queues
    queues.firsts[...], queues.lengths[...] = arrays["firsts"], arrays["lengths"]
    for queue, name in _CLASS_QUEUES:
        rows = slice(queue * queues.rows, queue * queues.rows + _used_rows(queues, queue))
        queues.examples.reshape(-1, queues.width)[rows] = arrays[f"{RING}{name}.examples"]
        queues.ids[rows], queues.classes[rows] = arrays[f"{RING}{name}.ids"], queue
        queues.arrivals[rows] = arrays[f"{RING}{name}.arrivals"]


# The parts that several methods have ----------------------------------------------------------------------------------


def array_part(name: str, path: str) -> StatePart:
    """Make the part that is one array, under a name; its path in the tables is such as `state.sizes`."""
    of: Callable[[MethodTables], NDArray[Any]] = attrgetter(path)

    def fits(tables: MethodTables, arrays: State) -> bool:
        return _is(arrays[name], of(tables).dtype.type, *of(tables).shape)

    def load(tables: MethodTables, arrays: State) -> None:
        of(tables)[...] = arrays[name]

    return StatePart(lambda tables: {name: of(tables).copy()}, fits, load, lambda tables: {name: of(tables)})


CLASS_SIZES = array_part("class_sizes", "state.sizes")
"""float64 `[2]`, the negative class's first."""

QUEUES = StatePart(
    _class_queue_arrays,
    _class_queues_fit,
    _load_class_queues,
    lambda tables: {"capacities": tables.queues.capacities},
    {f"{name}_{column}": (queue, column) for queue, name in _CLASS_QUEUES for column in ("examples", "ids")},
    right=_class_queues_right,
)
"""Capacities int64 `[2]`, and of each class, negative first, the examples and ids of its queue, oldest first."""

RINGS = StatePart(
    _ring_arrays,
    _rings_fit,
    _load_rings,
    lambda tables: {"firsts": tables.queues.firsts, "lengths": tables.queues.lengths},
    {
        f"{RING}{name}.{column}": (queue, column)
        for queue, name in _CLASS_QUEUES
        for column in ("examples", "ids", "arrivals")
    },
    keeps_places=True,
    right=_rings_right,
)
"""Of a method with long queues of one capacity: the place of the oldest example and the number of examples int64 `[2]`,
and of each class, negative first, examples and ids by their places."""


class LearningMethod(NamedTuple):
    """What the file of a method exports.

    Attributes:
        name: The name that a configuration uses.
        functions: Its compiled functions.
        make: Makes a new method of the settings, the number of features and the learner's 32-byte seed.
    """

    name: str
    functions: Functions
    make: Callable[[LearnerSettings, int, bytes], RunningMethod]
