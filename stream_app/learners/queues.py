"""What a method keeps, as compiled code sees it: class sizes, queues, costs, draws, and the lesson of one label.

All methods share one type, so that one compiled loop serves them all; of what a method does not use there is nothing
or one element. A queue is a ring of rows: the oldest example's place and how many there are.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Address, double_of, doubles_at, floats_at, longs_at, words_at
from stream_app.learners.networks import kernels
from stream_app.learners.poisson import TABLE_SIZE, WORDS
from stream_app.learners.scaler import Desk
from stream_app.records import ID_WORDS, Floats, Longs, Words

State = Mapping[str, NDArray[np.generic]]

NEGATIVE, POSITIVE = 0, 1
"""The classes, and the places of what there is one of for each."""

CLASS_QUEUES = ((NEGATIVE, "negative"), (POSITIVE, "positive"))
"""The queues of a method that has one for each class."""

AREBA, QBR, SLIDING, BASELINE, ADAPTIVE_CS, OOB, UOB = range(7)
"""The kinds of memory: which method admits an example."""


class Memory(NamedTuple):
    """Where an array has two elements, the first is the negative class's.

    Attributes:
        kind: Of the method.
        networks: How many learn.
        theta: Decay of the class sizes.
        width: Numbers in an example.
        rows: Rows of one queue.
        budget: The most examples in all queues that the method aims at.
        sizes: float64 `[2]`, the decayed class sizes s_n and s_p.
        capacities: int64 `[queues]`.
        lengths: int64 `[queues]`, examples held.
        firsts: int64 `[queues]`, the oldest example's place in its ring.
        examples: float32 `[queues * rows * width]`, one ring after the other.
        ids: uint64 `[queues * rows, ID_WORDS]`, the same rows.
        classes: float32 `[queues * rows]`, 0.0 or 1.0, the same rows.
        costs: float64 `[2]`, what an error costs.
        largest_cost: The most that one may become.
        interval: Labels from one change of the costs to the next.
        labels: int64 `[1]`, labels so far.
        generator: uint64, see `poisson`.
        words: uint64, scratch: random words.
        table: float64, scratch: see `poisson`.
        starts: int64, the lesson: where its examples begin in `examples`, or in what was seen if there are no queues.
        targets: float32, their classes.
        weight: float32 `[1]`, the factor of the loss.
        steps: int64 `[networks]`, how often each network learns them.
        scores: float32, scratch: each network's P(class 1).
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


SCRATCH = ("words", "table", "starts", "targets", "scores")
"""What a method holds during one operation only."""


class Held(NamedTuple):
    """A `Memory` opened inside compiled code: addresses of its arrays."""

    kind: int
    networks: int
    theta: float
    width: int
    rows: int
    budget: int
    sizes: Address
    capacities: Address
    lengths: Address
    firsts: Address
    examples: Address
    ids: Address
    classes: Address
    costs: Address
    largest_cost: float
    interval: int
    labels: Address
    generator: Address
    words: Address
    table: Address
    starts: Address
    targets: Address
    weight: Address
    steps: Address
    scores: Address


def memory_of(
    kind: int,
    features: int,
    *,
    networks: int = 1,
    theta: float = 0.0,
    queues: int = 0,
    rows: int = 0,
    budget: int = 0,
    capacity: int = 1,
    costs: tuple[float, float] = (1.0, 1.0),
    largest_cost: float = 1.0,
    interval: int = 1,
    generator: Words | None = None,
) -> Memory:
    """A new method's memory: sizes 0, queues empty and of this capacity, one step a network with weight 1."""
    held = queues * rows
    return Memory(
        kind=kind,
        networks=networks,
        theta=float(theta),
        width=features,
        rows=rows,
        budget=budget,
        sizes=np.zeros(2),
        capacities=np.full(queues, capacity, np.int64),
        lengths=np.zeros(queues, np.int64),
        firsts=np.zeros(queues, np.int64),
        examples=np.zeros(held * features, np.float32),
        ids=np.zeros((held, ID_WORDS), np.uint64),
        classes=np.zeros(held, np.float32),
        costs=np.array(costs),
        largest_cost=float(largest_cost),
        interval=interval,
        labels=np.zeros(1, np.int64),
        generator=np.zeros(0, np.uint64) if generator is None else generator,
        words=np.zeros(WORDS, np.uint64),
        table=np.full(TABLE_SIZE, -1.0),
        starts=np.zeros(max(held, 1), np.int64),
        targets=np.zeros(kernels.padded(max(held, 1)), np.float32),
        weight=np.ones(1, np.float32),
        steps=np.ones(networks, np.int64),
        scores=np.zeros(kernels.padded(networks), np.float32),
    )


@compiled
def opened_memory(row: Address) -> Held:
    """The memory whose cells, in the order of `Memory`, begin here; its owner holds the arrays while it is in use."""
    return Held(
        row[0],
        row[1],
        double_of(row[2]),
        row[3],
        row[4],
        row[5],
        doubles_at(row[6]),
        longs_at(row[7]),
        longs_at(row[8]),
        longs_at(row[9]),
        floats_at(row[10]),
        words_at(row[11]),
        floats_at(row[12]),
        doubles_at(row[13]),
        double_of(row[14]),
        row[15],
        longs_at(row[16]),
        words_at(row[17]),
        words_at(row[18]),
        doubles_at(row[19]),
        longs_at(row[20]),
        floats_at(row[21]),
        floats_at(row[22]),
        longs_at(row[23]),
        floats_at(row[24]),
    )


def check_budget(budget: int) -> None:
    """Refuse what two equal queues cannot share."""
    if budget < 2 or budget % 2:
        raise ValueError(f"a budget is even and at least 2, not {budget}")


# Class sizes ----------------------------------------------------------------------------------------------------------


@compiled
def grow_sizes(held: Held, label: int) -> None:
    """The paper's time-decayed class sizes: theta * s, and 1 - theta more at a label of the class."""
    for k in range(2):
        held.sizes[k] = held.theta * held.sizes[k] + (1.0 - held.theta if k == label else 0.0)


# Queues ---------------------------------------------------------------------------------------------------------------


@compiled
def wrapped(place: int, rows: int) -> int:
    """A place in a ring; a division would take longer than the rest of a small step."""
    return place - rows if place >= rows else place


@compiled
def drop_oldest(held: Held, queue: int) -> None:
    """Let the oldest example of a queue go."""
    held.firsts[queue] = wrapped(held.firsts[queue] + 1, held.rows)
    held.lengths[queue] -= 1


@compiled
def copy_row(held: Held, source: int, to: int) -> None:
    """Copy an example with id and class from one row to another."""
    for i in range(held.width):
        held.examples[to * held.width + i] = held.examples[source * held.width + i]
    for word in range(ID_WORDS):
        held.ids[to * ID_WORDS + word] = held.ids[source * ID_WORDS + word]
    held.classes[to] = held.classes[source]


@compiled
def row_of_age(held: Held, queue: int, age: int) -> int:
    """The row of a queue's example that so many are older than."""
    return queue * held.rows + wrapped(held.firsts[queue] + age, held.rows)


@compiled
def age_of(held: Held, desk: Desk, slot: int, queue: int) -> int:
    """How many are older than the newest example of a queue that has the id of a slot; -1: none has it."""
    for age in range(held.lengths[queue] - 1, -1, -1):
        row, same = row_of_age(held, queue, age), True
        for word in range(ID_WORDS):
            same = same and held.ids[row * ID_WORDS + word] == desk.ids[slot * ID_WORDS + word]
        if same:
            return age
    return -1


@compiled
def move_to_class(held: Held, age: int, label: int) -> None:
    """Take an example out of the other class's queue and put it behind the newest of this one's, as `append` does."""
    other = 1 - label
    if held.lengths[label] == held.capacities[label]:
        drop_oldest(held, label)
    row = row_of_age(held, label, held.lengths[label])
    copy_row(held, row_of_age(held, other, age), row)
    held.classes[row] = np.float32(label)
    held.lengths[label] += 1
    held.lengths[other] -= 1
    for following in range(age, held.lengths[other]):
        copy_row(held, row_of_age(held, other, following + 1), row_of_age(held, other, following))


@compiled
def append(held: Held, desk: Desk, slot: int, label: int, queue: int) -> None:
    """Put the example of a slot behind the newest of a queue, from which the oldest leaves if it is full."""
    if held.lengths[queue] == held.capacities[queue]:
        drop_oldest(held, queue)
    row = queue * held.rows + wrapped(held.firsts[queue] + held.lengths[queue], held.rows)
    for i in range(held.width):
        held.examples[row * held.width + i] = desk.seen[slot * held.width + i]
    for word in range(ID_WORDS):
        held.ids[row * ID_WORDS + word] = desk.ids[slot * ID_WORDS + word]
    held.classes[row] = np.float32(label)
    held.lengths[queue] += 1


@compiled
def set_capacity(held: Held, queue: int, capacity: int) -> None:
    """Change a queue's capacity; the oldest beyond it leave."""
    held.capacities[queue] = capacity
    while held.lengths[queue] > capacity:
        drop_oldest(held, queue)


@compiled
def gather(held: Held, queue: int, count: int) -> int:
    """Put a queue, oldest first, behind the first `count` examples of the lesson; how many there are then."""
    for age in range(held.lengths[queue]):
        row = queue * held.rows + wrapped(held.firsts[queue] + age, held.rows)
        held.starts[count] = row * held.width
        held.targets[count] = held.classes[row]
        count += 1
    return count


@compiled
def alone(held: Held, desk: Desk, slot: int, label: int) -> int:
    """Make the lesson of the example in a slot and nothing else; how many that are."""
    held.starts[0] = slot * desk.width
    held.targets[0] = np.float32(label)
    return 1


# State ----------------------------------------------------------------------------------------------------------------


def held_rows(memory: Memory, queue: int) -> Longs:
    """The rows of one queue, oldest first."""
    ages: Longs = np.arange(memory.lengths[queue], dtype=np.int64)
    rows: Longs = queue * memory.rows + (memory.firsts[queue] + ages) % memory.rows
    return rows


def queue_arrays(memory: Memory, queue: int, name: str) -> dict[str, NDArray[np.generic]]:
    """Copies of a queue's examples and ids, oldest first."""
    rows = held_rows(memory, queue)
    return {f"{name}_examples": memory.examples.reshape(-1, memory.width)[rows], f"{name}_ids": memory.ids[rows]}


def queue_fits(memory: Memory, arrays: State, name: str, capacity: int) -> bool:
    """Whether a queue of these arrays has a place in the memory."""
    examples, ids = arrays[f"{name}_examples"], arrays[f"{name}_ids"]
    held = len(examples)
    return (
        held <= capacity <= memory.rows
        and _is(examples, np.float32, held, memory.width)
        and _is(ids, np.uint64, held, ID_WORDS)
    )


def load_queue(memory: Memory, arrays: State, queue: int, name: str) -> Longs:
    """The inverse of `queue_arrays`; the rows, whose classes are the caller's to fill in."""
    memory.firsts[queue] = 0
    memory.lengths[queue] = len(arrays[f"{name}_examples"])
    rows = held_rows(memory, queue)
    memory.examples.reshape(-1, memory.width)[rows] = arrays[f"{name}_examples"]
    memory.ids[rows] = arrays[f"{name}_ids"]
    return rows


class Part(NamedTuple):
    """A part of the state that several methods have: how it is written, checked and read."""

    arrays: Callable[[Memory], State]
    fits: Callable[[Memory, State], bool]
    load: Callable[[Memory, State], None]


def _is(array: NDArray[np.generic], dtype: type[np.generic], *shape: int) -> bool:
    return array.shape == shape and array.dtype == dtype


def _class_queue_arrays(memory: Memory) -> State:
    arrays: dict[str, NDArray[np.generic]] = {"capacities": memory.capacities.copy()}
    for queue, name in CLASS_QUEUES:
        arrays |= queue_arrays(memory, queue, name)
    return arrays


def _class_queues_fit(memory: Memory, arrays: State) -> bool:
    capacities = arrays["capacities"]
    return _is(capacities, np.int64, 2) and all(
        int(capacities[queue]) >= 1 and queue_fits(memory, arrays, name, int(capacities[queue]))
        for queue, name in CLASS_QUEUES
    )


def _load_class_queues(memory: Memory, arrays: State) -> None:
    memory.capacities[...] = arrays["capacities"]
    for queue, name in CLASS_QUEUES:
        memory.classes[load_queue(memory, arrays, queue, name)] = queue


def _plain(name: str, of: Callable[[Memory], NDArray[np.generic]]) -> Part:
    def fits(memory: Memory, arrays: State) -> bool:
        return arrays[name].shape == of(memory).shape and arrays[name].dtype == of(memory).dtype

    def load(memory: Memory, arrays: State) -> None:
        of(memory)[...] = arrays[name]

    return Part(lambda memory: {name: of(memory).copy()}, fits, load)


CLASS_SIZES = _plain("class_sizes", lambda memory: memory.sizes)
"""float64 `[2]`, the negative class's first."""

COSTS = _plain("costs", lambda memory: memory.costs)
"""float64 `[2]`, likewise."""

LABELS = _plain("labels", lambda memory: memory.labels)
"""int64 `[1]`, how many were learned."""

GENERATOR = _plain("generator", lambda memory: memory.generator)
"""uint64 `[6]`, key and counter."""

QUEUES = Part(_class_queue_arrays, _class_queues_fit, _load_class_queues)
"""Capacities int64 `[2]`, and of each class (negative first) the queue's examples and ids, oldest first."""


class Method:
    """A method: its memory, and which parts of that are its state.

    Args:
        memory: Where it begins.
        parts: Its state, in the order of the arrays.
    """

    def __init__(self, memory: Memory, *parts: Part) -> None:
        self.memory = memory
        self._parts = parts

    def over(self, memory: Memory) -> "Method":
        """The same method with other memory."""
        return Method(memory, *self._parts)

    @property
    def examples(self) -> int:
        """The most examples of one step."""
        return len(self.memory.starts)

    def arrays(self) -> State:
        """Copies of its state."""
        return {name: array for part in self._parts for name, array in part.arrays(self.memory).items()}

    def fits(self, arrays: State) -> bool:
        """Whether these are arrays of such a method; the names were compared before."""
        return all(part.fits(self.memory, arrays) for part in self._parts)

    def load(self, arrays: State) -> None:
        """The inverse of `arrays`; shapes were checked by `fits`."""
        for part in self._parts:
            part.load(self.memory, arrays)
