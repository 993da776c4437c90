"""The compiled loop that all methods share, and the doors to its parts for models that are not compiled.

A learner is known to it by a row (see `addresses`): its scaler, its networks, its memory.
"""

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import bare_inlined, compiled, inlined
from stream_app.jit.memory import LINE_BYTES, Address, address, later, longs_at, prefetch_all, row_of
from stream_app.learners.api import CORRECT, LEARN, PREDICT, REPORT_WIDTH
from stream_app.learners.methods.adaptive_cs import admit_adaptive_cs
from stream_app.learners.methods.areba import admit_areba, correct_areba
from stream_app.learners.methods.oob import admit_oob
from stream_app.learners.methods.qbr import admit_qbr, correct_qbr
from stream_app.learners.methods.sliding import admit_sliding, correct_sliding
from stream_app.learners.methods.uob import admit_uob
from stream_app.learners.networks import kernels
from stream_app.learners.queues import (
    ADAPTIVE_CS,
    AREBA,
    BASELINE,
    NEGATIVE,
    OOB,
    POSITIVE,
    QBR,
    SLIDING,
    Held,
    Memory,
    alone,
    opened_memory,
)
from stream_app.learners.scaler import SCALER_CELLS, Desk, Scaler, Work, opened, see, work_at
from stream_app.records import Longs

_HALF = np.float32(0.5)

_NETWORK = SCALER_CELLS
_MEMORY = SCALER_CELLS + kernels.NETWORK_CELLS
_BLOCK = _MEMORY + len(Memory._fields)
LEARNER_CELLS = _BLOCK + 2

MOST_AHEAD_BYTES = 1 << 14
"""Of a learner's state that is fetched before its turn: half of a level-1 cache. Larger networks are read in order."""


def learner_row(scaler: Scaler, network: kernels.Network | None, memory: Memory, block: tuple[int, int]) -> Longs:
    """The row of a learner; one whose model is not compiled has zeros in the network's place.

    Args:
        scaler: Its part.
        network: Likewise.
        memory: Likewise.
        block: Where the memory of all of them begins, and how many bytes of it are read in every operation.
    """
    cells = (0,) * kernels.NETWORK_CELLS if network is None else kernels.cells_of(network)
    return row_of([*scaler, *cells, *memory, block[0], min(block[1], MOST_AHEAD_BYTES)])


@bare_inlined
def prefetch_row(learner: int) -> None:
    """Begin to fetch a learner's row."""
    prefetch_all(learner, 8 * LEARNER_CELLS)


@bare_inlined
def prefetch_state(learner: int, part: int, parts: int) -> None:
    """Begin to fetch one of so many parts of what a learner needs, whose row has come."""
    row = longs_at(learner)
    size = (row[_BLOCK + 1] // parts + LINE_BYTES) & -LINE_BYTES
    prefetch_all(row[_BLOCK] + part * size, size)


@inlined
def _admit(held: Held, desk: Desk, slot: int, label: int) -> int:  # noqa: PLR0911  (one for each method)
    """Let the method take a labelled example in; how many examples its lesson has."""
    if held.kind == AREBA:
        return admit_areba(held, desk, slot, label)
    if held.kind == BASELINE:
        return alone(held, desk, slot, label)
    if held.kind == OOB:
        return admit_oob(held, desk, slot, label)
    if held.kind == ADAPTIVE_CS:
        return admit_adaptive_cs(held, desk, slot, label)
    if held.kind == SLIDING:
        return admit_sliding(held, desk, slot, label)
    if held.kind == QBR:
        return admit_qbr(held, desk, slot, label)
    return admit_uob(held, desk, slot, label)


@compiled
def _correct(held: Held, desk: Desk, slot: int, label: int) -> None:
    """Let the method give an example that it keeps the other class; most keep none."""
    if held.kind == AREBA:
        correct_areba(held, desk, slot, label)
    elif held.kind == QBR:
        correct_qbr(held, desk, slot, label)
    elif held.kind == SLIDING:
        correct_sliding(held, desk, slot, label)


@inlined
def _vote(scores: Address, networks: int) -> tuple[np.float32, int]:
    """The mean of the networks' P(class 1), and the class that most vote for; on a tie the first network's."""
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
def _report(held: Held, updates: int, reports: Address, at: int) -> None:
    """By `base.REPORT_COLUMNS`."""
    reports[at] = updates
    for label in (POSITIVE, NEGATIVE):
        reports[at + 2 - label] = held.sizes[label]
    if held.kind in (AREBA, QBR):
        for label in (POSITIVE, NEGATIVE):
            reports[at + 4 - label] = held.lengths[label]
            reports[at + 6 - label] = held.capacities[label]
    elif held.kind == SLIDING:
        for age in range(held.lengths[0]):
            place = held.firsts[0] + age
            row = place - held.rows if place >= held.rows else place
            reports[at + 4 - np.int64(held.classes[row])] += 1.0
        for label in (POSITIVE, NEGATIVE):
            reports[at + 6 - label] = held.capacities[0]


@compiled
def run_part(row: Address, work: Work, begin: int, end: int, report: int, keep: bool, following: int) -> None:
    """Carry the operations from `begin` to `end` out.

    Args:
        row: The learner's.
        work: Operations, and room for the answers.
        begin: The first operation.
        end: Behind the last.
        report: Where the first report goes.
        keep: Keep predictions with their slots; a `LEARN` is answered with what had been predicted.
        following: Address of the row of the learner whose turn is next; 0: nobody's.
    """
    desk = opened(row, work)
    core, held = kernels.opened(later(row, _NETWORK)), opened_memory(later(row, _MEMORY))
    updates = kernels.ORIGIN
    for n in range(held.networks):
        updates += core.updates[n]
    reported = report * REPORT_WIDTH
    for k in range(begin, end):
        if following != 0:
            prefetch_state(following, k - begin, end - begin)
        slot = work.slots[k]
        work.versions[k] = updates
        if work.codes[k] == PREDICT:
            see(desk, slot)
            kernels.predict(core, desk.seen, slot * desk.width, held.scores)
            work.scores[k], work.classes[k] = _vote(held.scores, held.networks)
            if keep:
                work.kept_scores[slot], work.kept_classes[slot] = work.scores[k], work.classes[k]
        elif work.codes[k] == LEARN:
            if keep:
                work.scores[k], work.classes[k] = work.kept_scores[slot], work.kept_classes[slot]
            count = _admit(held, desk, slot, work.labels[k])
            source = held.examples if held.rows > 0 else desk.seen
            updates += kernels.learn(core, source, held.starts, held.targets, count, held.weight[0], held.steps)
        elif work.codes[k] == CORRECT:
            _correct(held, desk, slot, work.labels[k])
        else:
            _report(held, updates, work.reports, reported)
            reported += REPORT_WIDTH


@compiled
def run(learner: int, work: int, operations: int) -> None:
    """Carry so many operations out, of the learner and the work whose rows are at these addresses."""
    run_part(
        longs_at(learner), work_at(longs_at(work)), kernels.ORIGIN, operations, kernels.ORIGIN, False, kernels.ORIGIN
    )


# Doors for models that are not compiled; a learner and a work are given by the addresses of their rows ----------------


@compiled
def see_slot(learner: int, work: int, slot: int) -> None:
    """Scale the features of a slot."""
    see(opened(longs_at(learner), work_at(longs_at(work))), slot)


@compiled
def admit(learner: int, work: int, slot: int, label: int) -> int:
    """Take the example of a slot in; how many examples the lesson in the memory has."""
    row = longs_at(learner)
    return _admit(opened_memory(later(row, _MEMORY)), opened(row, work_at(longs_at(work))), slot, label)


@compiled
def correct(learner: int, work: int, slot: int, label: int) -> None:
    """Give the example with the id of a slot the other class, if it is kept."""
    row = longs_at(learner)
    _correct(opened_memory(later(row, _MEMORY)), opened(row, work_at(longs_at(work))), slot, label)


@compiled
def vote(learner: int) -> tuple[np.float32, int]:
    """P(class 1) and the class, of the scores in the memory."""
    held = opened_memory(later(longs_at(learner), _MEMORY))
    return _vote(held.scores, held.networks)


@compiled
def report(learner: int, updates: int, row: NDArray[np.float64]) -> None:
    """Fill a row of reports, which is zero before."""
    _report(opened_memory(later(longs_at(learner), _MEMORY)), updates, address(row), kernels.ORIGIN)
