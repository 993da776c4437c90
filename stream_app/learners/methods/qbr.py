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

from stream_app.config import LearnerSettings
from stream_app.jit.compiler import compiled
from stream_app.learners.method import QUEUES, Functions, LearningMethod, RunningMethod, check_budget
from stream_app.learners.method_state import NEGATIVE, POSITIVE, LearnerView, Queues, new_queues, new_tables
from stream_app.learners.queues import age_of, append, gather, move_to_class


@compiled
def _grow(queues: Queues, label: int) -> None:
    if queues.lengths[label] == queues.capacities[label] and queues.capacities[label] < queues.rows:
        queues.capacities[label] += 1


@compiled
def _admit(learner: LearnerView, slot: int, label: int) -> int:
    """Take a labelled example in, lines 11 to 25; return the number of examples to learn."""
    append(learner.queues, learner.inputs, slot, label, label)
    _grow(learner.queues, label)
    return gather(learner, NEGATIVE, gather(learner, POSITIVE, 0))


@compiled
def _correct(learner: LearnerView, slot: int, label: int) -> None:
    """Change the class of an example that is in a queue."""
    age = age_of(learner.queues, learner.inputs, slot, 1 - label)
    if age >= 0:
        move_to_class(learner.queues, age, label)
        _grow(learner.queues, label)


def _make(settings: LearnerSettings, features: int, _seed: bytes) -> RunningMethod:
    """Make the method; each queue has room for B / 2."""
    check_budget(settings.budget)
    return RunningMethod(new_tables(features, queues=new_queues(features, 2, settings.budget // 2, 1)), (QUEUES,))


QBR = LearningMethod("qbr", Functions(_admit, _correct), _make)
