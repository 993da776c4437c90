"""The queues of a method in compiled code: rings of labelled examples, and the step that learns from them."""

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.jit.memory import Pointer
from stream_app.learners.method_state import LearnerView, Queues
from stream_app.learners.scaler import ScaledInputs, enter
from stream_app.records import ID_WORDS


@compiled
def wrapped(place: int, rows: int) -> int:
    """Return a place in a ring, given one below `2 * rows`; a division would take longer than the rest of a step."""
    return place - rows if place >= rows else place


@compiled
def row_of_age(queues: Queues, queue: int, age: int) -> int:
    """Return the row of the example in a queue that `age` examples are older than."""
    return queue * queues.rows + wrapped(queues.firsts[queue] + age, queues.rows)


@compiled
def drop_oldest(queues: Queues, queue: int) -> None:
    """Drop the oldest example of a queue."""
    queues.firsts[queue] = wrapped(queues.firsts[queue] + 1, queues.rows)
    queues.lengths[queue] -= 1


@compiled
def _copy_row(queues: Queues, source: int, to: int) -> None:
    """Copy an example with its id and class from one row to another."""
    for i in range(queues.width):
        queues.examples[to * queues.width + i] = queues.examples[source * queues.width + i]
    for word in range(ID_WORDS):
        queues.ids[to * ID_WORDS + word] = queues.ids[source * ID_WORDS + word]
    queues.classes[to] = queues.classes[source]
    if queues.dated:
        queues.arrivals[to] = queues.arrivals[source]


@compiled
def age_of(queues: Queues, inputs: ScaledInputs, slot: int, queue: int) -> int:
    """Find the newest example of a queue that has the id of a slot; return how many are older; -1: none has the id."""
    for age in range(queues.lengths[queue] - 1, -1, -1):
        row, same = row_of_age(queues, queue, age), True
        for word in range(ID_WORDS):
            same = same and queues.ids[row * ID_WORDS + word] == inputs.ids[slot * ID_WORDS + word]
        if same:
            return age
    return -1


@compiled
def move_to_class(queues: Queues, age: int, label: int) -> None:
    """Move an example from the queue of the other class to the end of the queue of this class.

    As in `append`, a full queue loses its oldest example. Each class has a queue, and `age` is the
    example's in the other class's queue.
    """
    other = 1 - label
    if queues.lengths[label] == queues.capacities[label]:
        drop_oldest(queues, label)
    row = row_of_age(queues, label, queues.lengths[label])
    _copy_row(queues, row_of_age(queues, other, age), row)
    queues.classes[row] = np.float32(label)
    queues.lengths[label] += 1
    queues.lengths[other] -= 1
    for following in range(age, queues.lengths[other]):
        _copy_row(queues, row_of_age(queues, other, following + 1), row_of_age(queues, other, following))


@compiled
def append_from(
    queues: Queues, source: Pointer, at: int, inputs: ScaledInputs, slot: int, label: int, queue: int
) -> None:
    """Append the example at `source[at:]`, which has the id of a slot; a full queue loses its oldest example."""
    if queues.lengths[queue] == queues.capacities[queue]:
        drop_oldest(queues, queue)
    row = queue * queues.rows + wrapped(queues.firsts[queue] + queues.lengths[queue], queues.rows)
    for i in range(queues.width):
        queues.examples[row * queues.width + i] = source[at + i]
    for word in range(ID_WORDS):
        queues.ids[row * ID_WORDS + word] = inputs.ids[slot * ID_WORDS + word]
    queues.classes[row] = np.float32(label)
    if queues.dated:
        queues.arrivals[row] = inputs.scaler.arrivals[slot]
    queues.lengths[queue] += 1


@compiled
def append(queues: Queues, inputs: ScaledInputs, slot: int, label: int, queue: int) -> None:
    """Append the example of a slot, as it enters the network, to a queue."""
    append_from(queues, inputs.source, enter(inputs, slot), inputs, slot, label, queue)


@compiled
def set_capacity(queues: Queues, queue: int, capacity: int) -> None:
    """Change the capacity of a queue; the oldest examples beyond a smaller one are dropped."""
    queues.capacities[queue] = capacity
    while queues.lengths[queue] > capacity:
        drop_oldest(queues, queue)


@compiled
def gather(learner: LearnerView, queue: int, count: int) -> int:
    """Add a queue, oldest first, to the `count` examples of the next step; return how many examples it has then."""
    queues, state = learner.queues, learner.state
    for age in range(queues.lengths[queue]):
        row = queue * queues.rows + wrapped(queues.firsts[queue] + age, queues.rows)
        state.starts[count] = row * queues.width
        state.targets[count] = queues.classes[row]
        count += 1
    return count


@compiled
def gather_one(learner: LearnerView, slot: int, label: int) -> int:
    """Let the next step have the example of a slot only; return 1, the number of its examples."""
    learner.state.starts[0] = enter(learner.inputs, slot)
    learner.state.targets[0] = np.float32(label)
    return 1
