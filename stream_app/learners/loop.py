"""The compiled loop that all methods share, and the doors to its parts for models that are not compiled."""

import numpy as np
from numpy.typing import NDArray

from stream_app import kernels
from stream_app.lanes import Address, address
from stream_app.learners.adaptive_cs import admit_adaptive_cs
from stream_app.learners.areba import admit_areba
from stream_app.learners.base import LEARN, PREDICT, REPORT_WIDTH
from stream_app.learners.desk import Batch, Desk, Scaler, opened, see
from stream_app.learners.memory import (
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
from stream_app.learners.oob import admit_oob
from stream_app.learners.qbr import admit_qbr
from stream_app.learners.sliding import admit_sliding
from stream_app.learners.uob import admit_uob
from stream_app.native import compiled, inlined

_HALF = np.float32(0.5)


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
def run(batch: Batch, scaler: Scaler, network: kernels.Network, memory: Memory) -> None:
    """Carry all operations out; the answers are in the batch."""
    codes, scores, classes, versions = batch.codes, batch.scores, batch.classes, batch.versions
    reports = address(batch.reports)
    desk, core, held = opened(batch, scaler), kernels.opened(network), opened_memory(memory)
    updates = kernels.ORIGIN
    for n in range(held.networks):
        updates += core.updates[n]
    reported = kernels.ORIGIN
    for k in range(len(codes)):
        slot = desk.slots[k]
        versions[k] = updates
        if codes[k] == PREDICT:
            see(desk, slot)
            kernels.predict(core, desk.seen, slot * desk.width, held.scores)
            scores[k], classes[k] = _vote(held.scores, held.networks)
        elif codes[k] == LEARN:
            count = _admit(held, desk, slot, desk.labels[k])
            source = held.examples if held.rows > 0 else desk.seen
            updates += kernels.learn(core, source, held.starts, held.targets, count, held.weight[0], held.steps)
        else:
            _report(held, updates, reports, reported)
            reported += REPORT_WIDTH


@compiled
def admit(batch: Batch, scaler: Scaler, memory: Memory, slot: int, label: int) -> int:
    """Take the example of a slot in; how many examples the lesson in the memory has."""
    return _admit(opened_memory(memory), opened(batch, scaler), slot, label)


@compiled
def vote(memory: Memory) -> tuple[np.float32, int]:
    """P(class 1) and the class, of the scores in the memory."""
    return _vote(address(memory.scores), memory.networks)


@compiled
def report(memory: Memory, updates: int, row: NDArray[np.float64]) -> None:
    """Fill a row of reports, which is zero before."""
    _report(opened_memory(memory), updates, address(row), kernels.ORIGIN)
