"""The queues of a method in compiled code: rings of labelled examples, and the step that learns from them."""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.learners.method_state import MethodStateView
from stream_app.learners.scaler import ScalerView
from stream_app.records import ID_WORDS


@compiled
def wrapped(place: int, rows: int) -> int:
    """Return a place in a ring, given one below `2 * rows`; a division would take longer than the rest of a step."""
    return place - rows if place >= rows else place


@compiled
def row_of_age(state: MethodStateView, queue: int, age: int) -> int:
    """Return the row of the example in a queue that `age` examples are older than."""
    return queue * state.rows + wrapped(state.firsts[queue] + age, state.rows)


@compiled
def drop_oldest(state: MethodStateView, queue: int) -> None:
    """Drop the oldest example of a queue."""
    state.firsts[queue] = wrapped(state.firsts[queue] + 1, state.rows)
    state.lengths[queue] -= 1


@compiled
def copy_row(state: MethodStateView, source: int, to: int) -> None:
    """Copy an example with its id and class from one row to another."""
    for i in range(state.width):
        state.examples[to * state.width + i] = state.examples[source * state.width + i]
    for word in range(ID_WORDS):
        state.ids[to * ID_WORDS + word] = state.ids[source * ID_WORDS + word]
    state.classes[to] = state.classes[source]


@compiled
def age_of(state: MethodStateView, scaler: ScalerView, slot: int, queue: int) -> int:
    """Find the newest example of a queue that has the id of a slot; return how many are older; -1: none has the id."""
    for age in range(state.lengths[queue] - 1, -1, -1):
        row, same = row_of_age(state, queue, age), True
        for word in range(ID_WORDS):
            same = same and state.ids[row * ID_WORDS + word] == scaler.ids[slot * ID_WORDS + word]
        if same:
            return age
    return -1


@compiled
def move_to_class(state: MethodStateView, age: int, label: int) -> None:
    """Move an example from the queue of the other class to the end of the queue of this class.

    As in `append`, a full queue loses its oldest example. Each class has a queue, and `age` is the
    example's in the other class's queue.
    """
    other = 1 - label
    if state.lengths[label] == state.capacities[label]:
        drop_oldest(state, label)
    row = row_of_age(state, label, state.lengths[label])
    copy_row(state, row_of_age(state, other, age), row)
    state.classes[row] = np.float32(label)
    state.lengths[label] += 1
    state.lengths[other] -= 1
    for following in range(age, state.lengths[other]):
        copy_row(state, row_of_age(state, other, following + 1), row_of_age(state, other, following))


@compiled
def append(state: MethodStateView, scaler: ScalerView, slot: int, label: int, queue: int) -> None:
    """Append the example of a slot to a queue; a full queue loses its oldest example."""
    if state.lengths[queue] == state.capacities[queue]:
        drop_oldest(state, queue)
    row = queue * state.rows + wrapped(state.firsts[queue] + state.lengths[queue], state.rows)
    for i in range(state.width):
        state.examples[row * state.width + i] = scaler.seen[slot * state.width + i]
    for word in range(ID_WORDS):
        state.ids[row * ID_WORDS + word] = scaler.ids[slot * ID_WORDS + word]
    state.classes[row] = np.float32(label)
    state.lengths[queue] += 1


@compiled
def set_capacity(state: MethodStateView, queue: int, capacity: int) -> None:
    """Change the capacity of a queue; the oldest examples beyond a smaller one are dropped."""
    state.capacities[queue] = capacity
    while state.lengths[queue] > capacity:
        drop_oldest(state, queue)


@compiled
def gather(state: MethodStateView, queue: int, count: int) -> int:
    """Add a queue, oldest first, to the `count` examples of the next step; return how many examples it has then."""
    for age in range(state.lengths[queue]):
        row = queue * state.rows + wrapped(state.firsts[queue] + age, state.rows)
        state.starts[count] = row * state.width
        state.targets[count] = state.classes[row]
        count += 1
    return count


@compiled
def gather_one(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Let the next step have the example of a slot only; return 1, the number of its examples."""
    state.starts[0] = slot * scaler.width
    state.targets[0] = np.float32(label)
    return 1
