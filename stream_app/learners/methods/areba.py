"""AREBA: adaptive rebalancing (Malialis, Panayiotou, Polycarpou 2020, algorithm 2), followed to the letter.

Each class has a queue of its most recently labelled examples. On a label, in this order: both class sizes decay and
that of its class grows; the example enters its queue, from which the oldest leaves if it was full; the capacities
adapt, and a lower capacity drops the oldest examples at once; the network takes one step on all that both queues hold.

What this means where one might not expect it (B is the budget):

- While one class has never been seen, the other's capacity grows by one a label, up to B. A queue that has held an
  example is never empty again, so this does not come back.
- The first example of a missing minority makes the capacities 2 (its own) and 1: the majority falls from up to B
  examples to its newest. From there both grow each time the minority's queue is full, the majority's to one less, until
  the minority has B / 2; one more example of the minority gives the majority B / 2 too.
- Only the minority's queue decides, and it must be full. A class that stays away keeps its examples, however old; as
  long as it is the minority and its queue is not full, nothing adapts.
- Of equal sizes, the negative class is the minority. When the minority changes, nothing adapts until the new one's
  queue is full. If its capacity is below B / 2 then, it grows by one and the other is set one below it, even where
  that is less than it had.
- Strictly alternating classes keep one example each, for any B: a second one enters, but now the other class is the
  minority with a full queue, and grows to 2 at the price of this one's falling to 1.
- A capacity above B / 2 stays while its class is the minority. With B = 2 and the classes n, p, p, p, n the queues
  hold three examples. No queue holds more than B, both together at most B + 1.

A correction is no step of the algorithm: an example that is still in a queue moves to the end of the other class's
queue, since its label has just come, and the oldest leaves that queue if it was full. Class sizes and capacities stay;
but a queue that becomes empty begins again with a capacity of 1, like the queue of a class never seen. So both together
hold at most B + 1 as before, and the next label adapts them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.jit.tables import view_of
from stream_app.learners.method import CLASS_SIZES, QUEUES, Functions, LearningMethod, RunningMethod, check_budget
from stream_app.learners.method_state import (
    NEGATIVE,
    POSITIVE,
    LearnerView,
    MethodTables,
    grow_sizes,
    new_queues,
    new_tables,
)
from stream_app.learners.queues import age_of, append, gather, move_to_class, set_capacity


class _Areba(NamedTuple):
    budget: int


_own = view_of(_Areba)


@compiled
def _adapt(learner: LearnerView) -> None:
    """Adapt the capacities, lines 19 to 45 of the algorithm."""
    queues, sizes, budget = learner.queues, learner.state.sizes, _own(learner.own).budget
    lengths, capacities = queues.lengths, queues.capacities
    if lengths[NEGATIVE] == 0 or lengths[POSITIVE] == 0:
        present = NEGATIVE if lengths[POSITIVE] == 0 else POSITIVE
        if capacities[present] < budget:
            set_capacity(queues, present, capacities[present] + 1)
        return
    minority = POSITIVE if sizes[NEGATIVE] > sizes[POSITIVE] else NEGATIVE
    majority = 1 - minority
    if lengths[minority] < capacities[minority]:
        return
    half = budget // 2
    if capacities[minority] < half:
        set_capacity(queues, minority, capacities[minority] + 1)
        set_capacity(queues, majority, capacities[minority] - 1)
    elif capacities[minority] == half:
        set_capacity(queues, majority, capacities[minority])


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in, lines 13 to 45; return the number of examples to learn."""
    grow_sizes(learner.state, label)
    append(learner.queues, learner.inputs, slot, label, label)
    _adapt(learner)
    return gather(learner, NEGATIVE, gather(learner, POSITIVE, 0))


@compiled
def _correct(learner: LearnerView, slot: int, label: int) -> None:
    """Change the class of an example that is in a queue."""
    queues = learner.queues
    age = age_of(queues, learner.inputs, slot, 1 - label)
    if age >= 0:
        move_to_class(queues, age, label)
        if queues.lengths[1 - label] == 0:
            queues.capacities[1 - label] = 1


def _erased(tables: MethodTables, queue: int, gone: NDArray[np.bool_]) -> None:
    """Let a queue that became empty begin again, as after a correction."""
    if len(gone) and gone.all():
        tables.queues.capacities[queue] = 1


def _make(settings: LearnerSettings, features: int, _seed: bytes) -> RunningMethod:
    """Make the method. Capacities follow the pseudocode, so each queue has room for B."""
    check_budget(settings.budget)
    queues = new_queues(features, 2, settings.budget, 1)
    tables = new_tables(features, _Areba(settings.budget), queues=queues, theta=settings.theta)
    return RunningMethod(tables, (CLASS_SIZES, QUEUES), erased=_erased)


AREBA = LearningMethod("areba", Functions(_admit, _correct), _make)
