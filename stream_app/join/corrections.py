"""A label for an id that has one already: a repetition, a conflict, or a correction.

`rules._apply_label` decides that it is a correction if the settings allow corrections and its revision is higher.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.constants import (
    CONFLICTING_LABEL,
    CORRECTION_KIND,
    DUPLICATE_KIND,
    NO_CAUSE,
    Amendment,
    Counter,
    Evaluation,
    OutputKind,
)
from stream_app.join.id_table import (
    closed_row,
)
from stream_app.join.input import (
    JoinInput,
)
from stream_app.join.layout import (
    JoinArrays,
    take_slot,
)
from stream_app.join.output import (
    JoinOutput,
    add_dead_letter,
    add_operation,
    add_outcome,
)
from stream_app.records import Operation


@inlined_without_refcounts
def repeat_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, known: np.int8
) -> None:
    """Apply a label whose id has one: with the same class a `duplicate`, else the dead letter conflicting-label."""
    if known == batch.labels[row]:
        state.counters[Counter.DUPLICATES] += 1
        outcome = add_outcome(out, position, DUPLICATE_KIND, -1, batch.label_ids, row)
        outcome["label"] = known
        outcome["label_offset"] = batch.label_offsets[row]
    else:
        add_dead_letter(out, position, CONFLICTING_LABEL, -1, NO_CAUSE, 0)


@inlined_without_refcounts
def correct_waiting_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, slot: Number
) -> None:
    """Give a label that waits the class and the revision of the record."""
    known = state.labels[slot]
    state.labels[slot] = batch.labels[row]
    state.revisions[slot] = batch.revisions[row]
    _end_correction(state, batch, out, row, position, known)


@inlined_without_refcounts
def correct_joined_example(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, number: Number
) -> None:
    """Give the closed id of a joined example the revision of the record, and its class if that is the other one.

    A new class takes a slot during the call, so that the operation for the learners can name the id.
    """
    slot, closed = np.int64(-1), closed_row(state, number)
    known = state.closed_labels[closed]
    if known != batch.labels[row]:
        time, offset = batch.label_times[row], batch.label_offsets[row]
        slot = np.int64(take_slot(state, batch.label_ids, row, state.closed_hashes[closed], time, offset))
    _amend_closed_id(state, batch, out, row, position, number, slot)
    _end_correction(state, batch, out, row, position, known)


@inlined_without_refcounts
def _amend_closed_id(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, number: Number, slot: Number
) -> None:
    """Change a closed id and add its amendment, which names the outcome that the caller adds next."""
    closed, label = closed_row(state, number), np.int64(batch.labels[row])
    state.closed_revisions[closed] = batch.revisions[row]
    amendment = out.amendments[out.counts[OutputKind.AMENDMENTS]]
    out.counts[OutputKind.AMENDMENTS] += 1
    amendment[Amendment.SLOT], amendment[Amendment.NUMBER], amendment[Amendment.OUTCOME] = (
        slot,
        number,
        out.counts[OutputKind.OUTCOMES],
    )
    if slot < 0:
        return
    add_operation(out, Operation.CORRECT, slot, label, position)
    state.closed_labels[closed] = label
    positives, labelled = state.counters[Counter.POSITIVES], state.counters[Counter.LABELLED]
    ages = (
        labelled - positives - state.closed_evaluations[closed, Evaluation.NEGATIVES_THEN],
        positives - state.closed_evaluations[closed, Evaluation.POSITIVES_THEN],
    )
    amendment[Amendment.OLD_AGE], amendment[Amendment.NEW_AGE] = ages[1 - label], ages[label]
    state.counters[Counter.CORRECTED_POSITIVES] += 2 * label - 1
    positives += state.counters[Counter.CORRECTED_POSITIVES]
    amendment[Amendment.LEFT] = labelled - positives if label == 1 else positives


@inlined_without_refcounts
def _end_correction(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, known: np.int8
) -> None:
    """Add the outcome of a record with a higher revision: `correction`, or `duplicate` if the class is the same."""
    if known == batch.labels[row]:
        repeat_label(state, batch, out, row, position, known)
        return
    outcome = add_outcome(out, position, CORRECTION_KIND, -1, batch.label_ids, row)
    outcome["label"] = batch.labels[row]
    outcome["label_offset"] = batch.label_offsets[row]
