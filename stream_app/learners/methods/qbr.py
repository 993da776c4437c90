"""QBR: queue-based resampling (Malialis, Panayiotou, Polycarpou 2018; in the AREBA paper algorithm 1).

Each class has a queue of its most recently labelled examples, of capacity 1 at first. On a label the example enters
its queue, from which the oldest leaves if it was full; a queue that is then full may hold one more, up to B / 2. The
network takes one step on all that both queues hold.

The pseudocode tests both queues at each label, the authors' code only the queue that the example entered. The result is
the same: the other queue was not full after its own last label, or had B / 2 already. While one class is rare, the
queues are as unequal as the recent stream, which AREBA corrects. Strictly, a queue of capacity k < B / 2 is never full.

A corrected example that is still in a queue moves to the end of the other class's queue, by the same rules as an
example that enters it.
"""

from stream_app.jit.compiler import compiled
from stream_app.learners.method import QUEUES, Method, check_budget
from stream_app.learners.method_state import NEGATIVE, POSITIVE, QBR, MethodStateView, QueueSizes, new_method_state
from stream_app.learners.queues import age_of, append, gather, move_to_class
from stream_app.learners.scaler import ScalerView


@compiled
def _grow(state: MethodStateView, label: int) -> None:
    if state.lengths[label] == state.capacities[label] and state.capacities[label] < state.rows:
        state.capacities[label] += 1


@compiled
def admit_qbr(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:
    """Take a labelled example in, lines 11 to 25; return the number of examples to learn."""
    append(state, scaler, slot, label, label)
    _grow(state, label)
    return gather(state, NEGATIVE, gather(state, POSITIVE, 0))


@compiled
def correct_qbr(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> None:
    """Change the class of an example that is in a queue."""
    age = age_of(state, scaler, slot, 1 - label)
    if age >= 0:
        move_to_class(state, age, label)
        _grow(state, label)


def qbr(budget: int, features: int) -> Method:
    """Make the method; each queue has room for B / 2.

    Args:
        budget: B, even and at least 2.
        features: Numbers in an example.
    """
    check_budget(budget)
    return Method(new_method_state(QBR, features, queue_sizes=QueueSizes(2, budget // 2, budget)), QUEUES)
