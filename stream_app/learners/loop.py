"""The compiled loop that predicts and learns, shared by all methods; and its steps, for models that are not compiled.

The loop knows a learner by the address of its descriptor (see `jit.memory`): the fields of its scaler, its networks and
the state of its method, then the address and size of the block that holds them.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled, inlined, inlined_without_refcounts
from stream_app.jit.memory import (
    CACHE_LINE_BYTES,
    Pointer,
    descriptor_of,
    longs_at,
    offset_pointer,
    pointer_to,
    prefetch_all,
)
from stream_app.learners.api import REPORT_WIDTH
from stream_app.learners.method_state import (
    ADAPTIVE_CS,
    AREBA,
    BASELINE,
    NEGATIVE,
    OOB,
    POSITIVE,
    QBR,
    RELAY,
    SLIDING,
    MethodState,
    MethodStateView,
    view_of_method_state,
)
from stream_app.learners.methods.adaptive_cs import admit_adaptive_cs
from stream_app.learners.methods.areba import admit_areba, correct_areba
from stream_app.learners.methods.oob import admit_oob
from stream_app.learners.methods.qbr import admit_qbr, correct_qbr
from stream_app.learners.methods.relay import (
    admit_relay,
    correct_relay,
    learn_relay,
    next_batch,
    predict_relay,
    prepare_relay,
    standardise_slot,
)
from stream_app.learners.methods.relay_challenger import AVERAGE
from stream_app.learners.methods.sliding import admit_sliding, correct_sliding
from stream_app.learners.methods.uob import admit_uob
from stream_app.learners.networks.dense_networks import (
    NETWORKS_FIELDS,
    ZERO,
    DenseNetworks,
    DenseNetworksView,
    networks_fields,
    view_of_networks,
)
from stream_app.learners.networks.kernels import learn, predict
from stream_app.learners.queues import gather_one
from stream_app.learners.scaler import (
    SCALER_FIELDS,
    OperationBuffers,
    Scaler,
    ScalerView,
    buffers_at,
    scale,
    view_of_scaler,
)
from stream_app.records import Longs, Operation

_HALF = np.float32(0.5)

# Where the parts of a learner's descriptor begin; the scaler's fields come first.
_NETWORKS = SCALER_FIELDS
_STATE = SCALER_FIELDS + NETWORKS_FIELDS
_BLOCK = _STATE + len(MethodState._fields)
LEARNER_FIELDS = _BLOCK + 2

MAX_PREFETCHED_BYTES = 1 << 14
"""The most bytes of a learner's state that are prefetched before its turn: half of a level-1 cache. The CPU prefetches
the rest of a larger network without help, since it is read in order."""


def learner_descriptor(
    scaler: Scaler, networks: DenseNetworks | None, state: MethodState, block: tuple[int, int]
) -> Longs:
    """Return the descriptor of a learner.

    Args:
        scaler: Its scaler.
        networks: Its networks; None if they are not compiled, which gives zeros.
        state: The state of its method.
        block: The address of the block that holds the arrays, and how many of its bytes every operation reads.
    """
    fields = (0,) * NETWORKS_FIELDS if networks is None else networks_fields(networks)
    return descriptor_of([*scaler, *fields, *state, block[0], min(block[1], MAX_PREFETCHED_BYTES)])


@inlined_without_refcounts
def prefetch_descriptor(learner: int) -> None:
    """Begin to load a learner's descriptor, given its address."""
    prefetch_all(learner, 8 * LEARNER_FIELDS)


@inlined_without_refcounts
def prefetch_state(learner: int, part: int, parts: int) -> None:
    """Begin to load one of `parts` equal parts of a learner's state, after its descriptor was loaded.

    A learner's operations each load a part of the learner that comes next, so that the loads do not come all at once.
    """
    descriptor = longs_at(learner)
    size = (descriptor[_BLOCK + 1] // parts + CACHE_LINE_BYTES) & -CACHE_LINE_BYTES
    prefetch_all(descriptor[_BLOCK] + part * size, size)


@inlined
def _admit(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> int:  # noqa: PLR0911  (one for each method)
    """Let the method take a labelled example in; return how many examples the next step has."""
    if state.kind == AREBA:
        return admit_areba(state, scaler, slot, label)
    if state.kind == BASELINE:
        return gather_one(state, scaler, slot, label)
    if state.kind == OOB:
        return admit_oob(state, scaler, slot, label)
    if state.kind == ADAPTIVE_CS:
        return admit_adaptive_cs(state, scaler, slot, label)
    if state.kind == SLIDING:
        return admit_sliding(state, scaler, slot, label)
    if state.kind == QBR:
        return admit_qbr(state, scaler, slot, label)
    return admit_uob(state, scaler, slot, label)


@inlined
def _predict(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int) -> None:
    """Put the P(class 1) of the networks that vote into the method's scores."""
    if state.kind == RELAY:
        predict_relay(state, scaler, networks, slot)
    else:
        scale(scaler, slot)
        predict(networks, scaler.seen, slot * scaler.width, state.scores)


@inlined
def _learn(state: MethodStateView, scaler: ScalerView, networks: DenseNetworksView, slot: int, label: int) -> int:
    """Learn a labelled example; return how many steps the networks took."""
    if state.kind == RELAY:
        return learn_relay(state, scaler, networks, slot, label)
    count = _admit(state, scaler, slot, label)
    source = state.examples if state.rows > 0 else scaler.seen
    return learn(networks, source, state.starts, state.targets, count, state.weight[0], state.steps)


@compiled
def _correct(state: MethodStateView, scaler: ScalerView, slot: int, label: int) -> None:
    """Let the method change the class of an example that it keeps; most methods keep none."""
    if state.kind == AREBA:
        correct_areba(state, scaler, slot, label)
    elif state.kind == QBR:
        correct_qbr(state, scaler, slot, label)
    elif state.kind == SLIDING:
        correct_sliding(state, scaler, slot, label)
    elif state.kind == RELAY:
        correct_relay(state, scaler, slot, label)


@inlined
def _vote(state: MethodStateView) -> tuple[np.float32, int]:
    """Return the mean of the networks' P(class 1), and the class of most networks; on a tie, the first network's.

    Of RELAY's networks, one decides alone.
    """
    scores, networks = state.scores, state.networks
    if state.kind == RELAY:
        return scores[AVERAGE], 1 if scores[AVERAGE] > _HALF else 0
    first = 1 if scores[0] > _HALF else 0
    if networks == 1:
        return scores[0], first
    total, positives = 0.0, 0
    for n in range(networks):
        total += np.float64(scores[n])
        positives += 1 if scores[n] > _HALF else 0
    if 2 * positives == networks:
        return np.float32(total / networks), first
    return np.float32(total / networks), 1 if 2 * positives > networks else 0


@inlined
def _report(state: MethodStateView, updates: int, reports: Pointer, at: int) -> None:
    """Fill a row of `api.REPORT_COLUMNS` that begins at `reports[at]` and is zero before."""
    reports[at] = updates
    for label in (POSITIVE, NEGATIVE):
        reports[at + 2 - label] = state.sizes[label]
    if state.kind in (AREBA, QBR, RELAY):
        for label in (POSITIVE, NEGATIVE):
            reports[at + 4 - label] = state.lengths[label]
            reports[at + 6 - label] = state.capacities[label]
    elif state.kind == SLIDING:
        for age in range(state.lengths[0]):
            place = state.firsts[0] + age
            row = place - state.rows if place >= state.rows else place
            reports[at + 4 - np.int64(state.classes[row])] += 1.0
        for label in (POSITIVE, NEGATIVE):
            reports[at + 6 - label] = state.capacities[0]


@compiled
def run_part(
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
    scaler = view_of_scaler(descriptor, buffers)
    networks = view_of_networks(offset_pointer(descriptor, _NETWORKS))
    state = view_of_method_state(offset_pointer(descriptor, _STATE))
    updates = ZERO
    for n in range(state.networks):
        updates += networks.updates[n]
    reported = report * REPORT_WIDTH
    for k in range(begin, end):
        if following != 0:
            prefetch_state(following, k - begin, end - begin)
        slot = buffers.slots[k]
        buffers.versions[k] = updates
        if buffers.codes[k] == Operation.PREDICT:
            _predict(state, scaler, networks, slot)
            buffers.scores[k], buffers.classes[k] = _vote(state)
            if keep:
                buffers.kept_scores[slot], buffers.kept_classes[slot] = buffers.scores[k], buffers.classes[k]
        elif buffers.codes[k] == Operation.LEARN:
            if keep:
                buffers.scores[k], buffers.classes[k] = buffers.kept_scores[slot], buffers.kept_classes[slot]
            updates += _learn(state, scaler, networks, slot, buffers.labels[k])
        elif buffers.codes[k] == Operation.CORRECT:
            _correct(state, scaler, slot, buffers.labels[k])
        else:
            _report(state, updates, buffers.reports, reported)
            reported += REPORT_WIDTH


@compiled
def run(learner: int, buffers: int, operations: int) -> None:
    """Carry out this many operations; learner and buffers are the addresses of their descriptors."""
    run_part(longs_at(learner), buffers_at(longs_at(buffers)), ZERO, operations, ZERO, False, ZERO)


# The steps of the loop, for models that are not compiled --------------------------------------------------------------
#
# A learner, and its buffers, are given by the addresses of their descriptors.


@compiled
def prepare(learner: int, buffers: int, slot: int) -> None:
    """Prepare the example of a slot for its prediction: scale it, or let the method standardise it."""
    descriptor = longs_at(learner)
    scaler = view_of_scaler(descriptor, buffers_at(longs_at(buffers)))
    state = view_of_method_state(offset_pointer(descriptor, _STATE))
    if state.kind == RELAY:
        prepare_relay(state, scaler, slot)
    else:
        scale(scaler, slot)


@compiled
def prepare_label(learner: int, buffers: int, slot: int) -> None:
    """Let a method that predicts an example again before it learns it standardise the example of a slot."""
    descriptor = longs_at(learner)
    scaler = view_of_scaler(descriptor, buffers_at(longs_at(buffers)))
    standardise_slot(view_of_method_state(offset_pointer(descriptor, _STATE)), scaler, slot)


@compiled
def admit(learner: int, buffers: int, slot: int, label: int) -> int:
    """Take the example of a slot in; return how many examples the next step in the method's state has."""
    descriptor = longs_at(learner)
    scaler = view_of_scaler(descriptor, buffers_at(longs_at(buffers)))
    state = view_of_method_state(offset_pointer(descriptor, _STATE))
    if state.kind == RELAY:
        networks = view_of_networks(offset_pointer(descriptor, _NETWORKS))
        admit_relay(state, scaler, networks, slot, label)
        return next_batch(state, networks, label)
    return _admit(state, scaler, slot, label)


@compiled
def admit_again(learner: int) -> int:
    """Prepare one more step on the label that was admitted; return its examples, 0 if there is none."""
    descriptor = longs_at(learner)
    state = view_of_method_state(offset_pointer(descriptor, _STATE))
    if state.kind == RELAY:
        return next_batch(state, view_of_networks(offset_pointer(descriptor, _NETWORKS)), -1)
    return 0


@compiled
def correct(learner: int, buffers: int, slot: int, label: int) -> None:
    """Change the class of the example with the id of a slot, if the method keeps it."""
    descriptor = longs_at(learner)
    state = view_of_method_state(offset_pointer(descriptor, _STATE))
    _correct(state, view_of_scaler(descriptor, buffers_at(longs_at(buffers))), slot, label)


@compiled
def vote(learner: int) -> tuple[np.float32, int]:
    """Return P(class 1) and the class, from the scores in the method's state."""
    state = view_of_method_state(offset_pointer(longs_at(learner), _STATE))
    return _vote(state)


@compiled
def report(learner: int, updates: int, row: NDArray[np.float64]) -> None:
    """Fill a row of reports, which is zero before."""
    _report(view_of_method_state(offset_pointer(longs_at(learner), _STATE)), updates, pointer_to(row), ZERO)
