"""The compiled loop that predicts and learns, shared by all methods; and its steps, for models that are not compiled.

The loop knows a learner by the address of its descriptor (see `jit.memory`): `_LearnerFields`, then the fields of the
method's own state. What differs between methods are the functions that each of them exports (`method.Functions`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats, Longs
from stream_app.jit.compiler import compiled, inlined, inlined_without_refcounts
from stream_app.jit.memory import CACHE_LINE_BYTES, Pointer, longs_at, offset_pointer, one_of, pointer_to, prefetch_all
from stream_app.jit.tables import descriptor_of, field_count, view_of
from stream_app.learners.api import REPORT_WIDTH
from stream_app.learners.method import Functions
from stream_app.learners.method_state import (
    NEGATIVE,
    POSITIVE,
    LearnerView,
    MethodState,
    MethodTables,
    Queues,
    source_of,
)
from stream_app.learners.networks.dense_networks import ZERO, DenseNetworks, members_of
from stream_app.learners.networks.kernels import learn, predict
from stream_app.learners.registry import METHODS
from stream_app.learners.scaler import OperationBuffers, ScaledInputs, Scaler, buffers_of
from stream_app.records import Operation


class _LearnerFields(NamedTuple):
    """The fields of a learner's descriptor, before those of the method's own state.

    Attributes:
        scaler: Its scaler.
        networks: Its networks.
        state: What every method has.
        queues: Its queues.
        source: float32, see `source_of`.
        block: The address of the block that holds the arrays.
        block_bytes: How many of its bytes every operation reads, at most `MAX_PREFETCHED_BYTES`.
    """

    scaler: Scaler
    networks: DenseNetworks
    state: MethodState
    queues: Queues
    source: Floats
    block: int
    block_bytes: int


LEARNER_FIELDS = field_count(_LearnerFields)

_fields_of = view_of(_LearnerFields)

_HALF = np.float32(0.5)

_BLOCK = LEARNER_FIELDS - 2
"""The place of `block` in a descriptor; `block_bytes` follows."""

_ADMIT, _CORRECT, _PREPARE, _REVIEW, _AGAIN = (
    one_of([getattr(method.functions, name) for method in METHODS.values()]) for name in Functions._fields
)

MAX_PREFETCHED_BYTES = 1 << 14
"""The most bytes of a learner's state that are prefetched before its turn: half of a level-1 cache. The CPU prefetches
the rest of a larger network without help, since it is read in order."""


def learner_descriptor(scaler: Scaler, networks: DenseNetworks, method: MethodTables, block: tuple[int, int]) -> Longs:
    """Return the descriptor of a learner.

    Args:
        scaler: Its scaler.
        networks: Its networks.
        method: The state of its method.
        block: The address of the block that holds the arrays, and how many of its bytes every operation reads.
    """
    state, queues, own = method
    source, block_bytes = source_of(scaler, method), min(block[1], MAX_PREFETCHED_BYTES)
    fields = _LearnerFields(scaler, networks, state, queues, source, block[0], block_bytes)
    return descriptor_of([fields, own])


@inlined
def _inputs_of(scaler: Scaler, buffers: OperationBuffers) -> ScaledInputs:
    """Return the examples of a call with the scaler of a learner."""
    return ScaledInputs(scaler, buffers.features, buffers.ids, scaler.seen if scaler.active else scaler.row)


@inlined
def _learner_of(descriptor: Pointer, buffers: OperationBuffers) -> LearnerView:
    """Return the learner of a descriptor; its owner must hold all arrays while it is in use."""
    fields = _fields_of(descriptor)
    return LearnerView(
        _inputs_of(fields.scaler, buffers),
        fields.networks,
        fields.state,
        fields.queues,
        fields.source,
        offset_pointer(descriptor, LEARNER_FIELDS),
    )


@inlined_without_refcounts
def prefetch_descriptor(learner: int) -> None:
    """Begin to load a learner's descriptor, given its address."""
    prefetch_all(learner, 8 * LEARNER_FIELDS)


@inlined_without_refcounts
def _prefetch_state(learner: int, share: int, shares: int) -> None:
    """Begin to load one of `shares` equal shares of a learner's state, after its descriptor was loaded.

    A learner's operations each load a share of the learner that comes next, so that the loads do not come all at once.
    """
    descriptor = longs_at(learner)
    size = (descriptor[_BLOCK + 1] // shares + CACHE_LINE_BYTES) & -CACHE_LINE_BYTES
    prefetch_all(descriptor[_BLOCK] + share * size, size)


@inlined
def _learn(learner: LearnerView, slot: int, label: int) -> int:
    """Learn a labelled example; return how many steps the networks took."""
    state = learner.state
    taken: int = ZERO
    _REVIEW(state.kind, (learner, slot))
    count = _ADMIT(state.kind, (learner, slot, label))
    while count > 0:
        taken += learn(
            learner.networks, learner.source, state.starts, state.targets, count, state.weight[0], state.steps
        )
        count = _AGAIN(state.kind, (learner,))
    return taken


@inlined
def _vote(learner: LearnerView) -> tuple[np.float32, int]:
    """Return the mean of the voters' P(class 1), and the class of most voters; on a tie, the first voter's."""
    scores, voters = learner.state.scores, learner.state.voters
    first = 1 if scores[0] > _HALF else 0
    if voters == 1:
        return scores[0], first
    total, positives = 0.0, 0
    for n in range(voters):
        total += np.float64(scores[n])
        positives += 1 if scores[n] > _HALF else 0
    if 2 * positives == voters:
        return np.float32(total / voters), first
    return np.float32(total / voters), 1 if 2 * positives > voters else 0


@inlined
def _report(learner: LearnerView, updates: int, reports: Pointer, at: int) -> None:
    """Fill a row of `api.REPORT_COLUMNS` that begins at `reports[at]` and is zero before."""
    state, queues = learner.state, learner.queues
    reports[at] = updates
    for label in (POSITIVE, NEGATIVE):
        reports[at + 2 - label] = state.sizes[label]
    if queues.queues == 2:
        for label in (POSITIVE, NEGATIVE):
            reports[at + 4 - label] = queues.lengths[label]
            reports[at + 6 - label] = queues.capacities[label]
    elif queues.queues == 1:
        for age in range(queues.lengths[0]):
            place = queues.firsts[0] + age
            row = place - queues.rows if place >= queues.rows else place
            reports[at + 4 - np.int64(queues.classes[row])] += 1.0
        for label in (POSITIVE, NEGATIVE):
            reports[at + 6 - label] = queues.capacities[0]


@compiled
def run_segment(
    descriptor: Pointer, buffers: OperationBuffers, begin: int, end: int, report: int, keep: bool, following: int
) -> None:
    """Carry out the operations from `begin` to `end`.

    Args:
        descriptor: Of the learner.
        buffers: The operations, and room for the answers.
        begin: The first operation.
        end: The operation after the last.
        report: The row of the first report.
        keep: Whether predictions are kept with their slots, so that `Operation.LEARN` is answered with the prediction.
        following: Address of the descriptor of the learner whose turn is next; 0: there is none.
    """
    learner = _learner_of(descriptor, buffers)
    state, source = learner.state, learner.inputs.source
    voters = members_of(learner.networks, state.first_voter, state.voters)
    updates = ZERO
    for n in range(state.networks):
        updates += learner.networks.updates[n]
    reported = report * REPORT_WIDTH
    for k in range(begin, end):
        if following != 0:
            _prefetch_state(following, k - begin, end - begin)
        slot = buffers.slots[k]
        buffers.versions[k] = updates
        if buffers.codes[k] == Operation.PREDICT:
            predict(voters, source, _PREPARE(state.kind, (learner, slot)), state.scores)
            buffers.scores[k], buffers.classes[k] = _vote(learner)
            if keep:
                buffers.kept_scores[slot], buffers.kept_classes[slot] = buffers.scores[k], buffers.classes[k]
        elif buffers.codes[k] == Operation.LEARN:
            if keep:
                buffers.scores[k], buffers.classes[k] = buffers.kept_scores[slot], buffers.kept_classes[slot]
            updates += _learn(learner, slot, buffers.labels[k])
        elif buffers.codes[k] == Operation.CORRECT:
            _CORRECT(state.kind, (learner, slot, buffers.labels[k]))
        else:
            _report(learner, updates, buffers.reports, reported)
            reported += REPORT_WIDTH


@compiled
def run(learner: int, buffers: int, operations: int) -> None:
    """Carry out this many operations; learner and buffers are the addresses of their descriptors."""
    run_segment(longs_at(learner), buffers_of(longs_at(buffers)), ZERO, operations, ZERO, False, ZERO)


# The steps of the loop, for models that are not compiled --------------------------------------------------------------
#
# A learner, and its buffers, are given by the addresses of their descriptors.


@inlined
def _learner_at(learner: int, buffers: int) -> LearnerView:
    return _learner_of(longs_at(learner), buffers_of(longs_at(buffers)))


@compiled
def prepare(learner: int, buffers: int, slot: int) -> int:
    """Prepare the example of a slot for its prediction; return where it begins in the scaler's source."""
    it = _learner_at(learner, buffers)
    start: int = _PREPARE(it.state.kind, (it, slot))
    return start


@compiled
def review(learner: int, buffers: int, slot: int) -> bool:
    """Say whether the networks predict the example at the beginning of the source again before the method admits it."""
    it = _learner_at(learner, buffers)
    again: bool = _REVIEW(it.state.kind, (it, slot))
    return again


@compiled
def admit(learner: int, buffers: int, slot: int, label: int) -> int:
    """Take the example of a slot in; return how many examples the next step in the method's state has."""
    it = _learner_at(learner, buffers)
    count: int = _ADMIT(it.state.kind, (it, slot, label))
    return count


@compiled
def admit_again(learner: int, buffers: int) -> int:
    """Prepare one more step on the label that was admitted; return its examples, 0 if there is none."""
    it = _learner_at(learner, buffers)
    count: int = _AGAIN(it.state.kind, (it,))
    return count


@compiled
def correct(learner: int, buffers: int, slot: int, label: int) -> None:
    """Change the class of the example with the id of a slot, if the method keeps it."""
    it = _learner_at(learner, buffers)
    _CORRECT(it.state.kind, (it, slot, label))


@compiled
def vote(learner: int, buffers: int) -> tuple[np.float32, int]:
    """Return P(class 1) and the class, from the scores in the method's state."""
    return _vote(_learner_at(learner, buffers))


@compiled
def report(learner: int, buffers: int, updates: int, row: NDArray[np.float64]) -> None:
    """Fill a row of reports, which is zero before."""
    _report(_learner_at(learner, buffers), updates, pointer_to(row), ZERO)
