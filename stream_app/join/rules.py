"""The rules of the join: what happens to an example, a label, a correction, and to what expires.

For each record of a stream, in merge order (`apply_record`):

1. Stream time becomes the largest timestamp so far.
2. What is due is closed, by timestamp, then by arrival: a pending example as `unlabelled`, a waiting label as the dead
   letter orphan-label. `close_advanced`: what an earlier pair of `advance` marks has left; then `close_before`: what
   has expired (timestamp + TTL + clock lead < stream time). Both together close at most `Setting.MAX_CLOSINGS`; what
   is due beyond that stays open, as if it were not due, and is closed by the next records.
3. `forget_expired_ids`: closed ids older than their own TTL are forgotten.
4. The record is applied. `_apply_example`: the example is predicted, then one of `_close_late_example`,
   `_join_with_waiting_label` and `_wait_for_label`; or it repeats an earlier example, `_repeat_example`.
   `_apply_label`: one of `_wait_for_example`, `_join_with_pending_example`, `repeat_label` and the corrections; or a
   dead letter.

With `join.corrections: correct`, a label with a higher revision than the label before is a correction. The class of a
label that still waits changes in place (`correct_waiting_label`). The id of an example that was joined gets the other
class (`correct_joined_example`), and an operation and an amendment carry the change to the learners and to the
prequential sums. The record that corrects ends in the outcome `correction`. A higher revision with the same class is a
`duplicate`; the next correction must exceed that revision.

Everything here is compiled, and works on the memory of one stream. Nothing depends on how the records of the stream
were cut into calls.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.closing import (
    close_advanced,
    close_before,
    close_pending_example,
    close_waiting_label,
    forget_expired_ids,
    release_label,
    remember_id,
)
from stream_app.join.constants import (
    ADVANCED_EXAMPLE,
    ADVANCED_KIND,
    CONFLICTING_EXAMPLE,
    DUPLICATE_KIND,
    EVICTED_EXAMPLE,
    EVICTED_KIND,
    EXPIRED_EXAMPLE,
    EXPIRED_LABEL,
    JOINED_KIND,
    LARGE_LABEL,
    LATE_EXAMPLE,
    LATE_LABEL,
    MAX_EVICTIONS,
    NO_CAUSE,
    NO_EVALUATION,
    OLD_LABEL,
    ORPHAN_LABEL,
    POOL_EXAMPLE,
    POOL_KIND,
    TOO_MANY_BYTES,
    TOO_MANY_LABELS,
    UNLABELLED_KIND,
    Counter,
    Evaluation,
    Setting,
    SlotState,
)
from stream_app.join.corrections import (
    correct_joined_example,
    correct_waiting_label,
    repeat_label,
)
from stream_app.join.delays import (
    bucket_of,
)
from stream_app.join.expiry_heaps import (
    push_slot,
    remove_slot,
)
from stream_app.join.id_table import (
    EMPTY_BUCKET,
    closed_number,
    closed_row,
    find_id,
    fingerprint_of,
    hash_id,
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
    add_report,
    add_waiting,
)
from stream_app.records import Operation

# An example -----------------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def _apply_example(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, limit: Number
) -> None:
    """Apply an example: predict it, then close it, join it or let it wait; or recognise a repetition.

    Args:
        state: The stream.
        batch: The batch.
        out: Takes the results.
        row: The row of the example.
        position: Its position.
        limit: Timestamps below this have expired.
    """
    time, offset = batch.example_times[row], batch.example_offsets[row]
    id_hash = hash_id(state.settings, batch.example_ids, row)
    dimension = state.features.shape[1]
    start = batch.feature_starts[row]
    fingerprint = batch.fingerprints[row] if len(batch.fingerprints) > 0 else np.uint64(0)
    if fingerprint == 0:
        fingerprint = fingerprint_of(batch.features, start, dimension)
    bucket = find_id(state, id_hash, batch.example_ids, row)
    reference = state.table_references[bucket]
    label_waits = reference >= 0 and state.states[reference] == SlotState.WAITING
    if reference != EMPTY_BUCKET and not label_waits:
        _repeat_example(state, batch, out, row, position, reference, fingerprint)
        return
    slot = take_slot(state, batch.example_ids, row, id_hash, time, offset)
    state.fingerprints[slot] = fingerprint
    state.champions[slot] = state.counters[Counter.CHAMPION]
    for column in range(dimension):
        state.features[slot, column] = batch.features[start + column]
    state.counters[Counter.EXAMPLES] += 1
    add_operation(out, Operation.PREDICT, slot, -1, position)
    if reference == EMPTY_BUCKET:
        state.table_hashes[bucket] = id_hash
        state.counters[Counter.TABLE_USED] += 1
    else:
        release_label(state, out, reference)
    state.table_references[bucket] = slot
    if time < limit:
        _close_late_example(state, out, slot, bucket, position)
        if label_waits:
            add_dead_letter(out, position, LATE_LABEL, reference, LATE_EXAMPLE, limit - time)
    elif label_waits:
        _join_with_waiting_label(state, out, slot, reference, bucket, position)
    else:
        _wait_for_label(state, out, slot, position)
    every = state.settings[Setting.EVERY_EXAMPLES]
    if every != 0 and state.counters[Counter.EXAMPLES] % every == 0:
        add_report(state, out, position)


@inlined_without_refcounts
def _close_late_example(state: JoinArrays, out: JoinOutput, slot: Number, bucket: Number, position: Number) -> None:
    """Close an example that had expired when it came: it was predicted, and is `unlabelled` at once."""
    state.counters[Counter.UNLABELLED] += 1
    outcome = add_outcome(out, position, UNLABELLED_KIND, slot, state.ids, slot)
    outcome["example_offset"] = state.offsets[slot]
    remember_id(state, slot, bucket, UNLABELLED_KIND, np.int8(-1), 0)


@inlined_without_refcounts
def _join_with_waiting_label(
    state: JoinArrays, out: JoinOutput, slot: Number, label_slot: Number, bucket: Number, position: Number
) -> None:
    """Join an example with the label that came before it."""
    label = state.labels[label_slot]
    delay_ms = state.times[label_slot] - state.times[slot]
    outcome = add_outcome(out, position, JOINED_KIND, slot, state.ids, slot)
    outcome["label"] = label
    outcome["delay_ms"] = delay_ms
    outcome["example_offset"] = state.offsets[slot]
    outcome["label_offset"] = state.offsets[label_slot]
    _learn_example(state, out, slot, label, state.revisions[label_slot], delay_ms, position, bucket)


@inlined_without_refcounts
def _wait_for_label(state: JoinArrays, out: JoinOutput, slot: Number, position: Number) -> None:
    """Let an example wait for its label; the oldest examples are evicted if too many wait."""
    state.states[slot] = SlotState.PENDING
    push_slot(state, state.pending_heap, Counter.PENDING, slot)
    for _ in range(min(MAX_EVICTIONS, state.counters[Counter.PENDING] - state.settings[Setting.MAX_PENDING])):
        close_pending_example(state, out, state.pending_heap[0], position, EVICTED_KIND)


@inlined_without_refcounts
def _repeat_example(
    state: JoinArrays,
    batch: JoinInput,
    out: JoinOutput,
    row: Number,
    position: Number,
    reference: Number,
    fingerprint: np.uint64,
) -> None:
    """Apply an example with a known id: with equal features a `duplicate`, else the dead letter conflicting-example."""
    known = (
        state.fingerprints[reference]
        if reference >= 0
        else state.closed_fingerprints[closed_row(state, closed_number(reference))]
    )
    if known == fingerprint:
        state.counters[Counter.DUPLICATES] += 1
        outcome = add_outcome(out, position, DUPLICATE_KIND, -1, batch.example_ids, row)
        outcome["example_offset"] = batch.example_offsets[row]
    else:
        add_dead_letter(out, position, CONFLICTING_EXAMPLE, -1, NO_CAUSE, 0)


# An example and its label ---------------------------------------------------------------------------------------------


@inlined_without_refcounts
def _learn_example(
    state: JoinArrays,
    out: JoinOutput,
    slot: Number,
    label: Number,
    revision: Number,
    delay_ms: Number,
    position: Number,
    bucket: Number,
) -> None:
    """Let the learners learn an example that was joined, count its label and remember its id."""
    add_operation(out, Operation.LEARN, slot, label, position)
    state.delays[bucket_of(delay_ms)] += 1
    state.counters[Counter.LABELLED] += 1
    state.counters[Counter.POSITIVES] += label
    remember_id(state, slot, bucket, JOINED_KIND, np.int8(label), revision)
    if state.settings[Setting.CORRECTS] != 0:
        _remember_label_counts(state)
    if state.counters[Counter.LABELLED] % state.settings[Setting.EVERY_LABELS] == 0:
        add_report(state, out, position)


@inlined_without_refcounts
def _remember_label_counts(state: JoinArrays) -> None:
    """Keep with the newest closed id how many labels of each class have come, its own included."""
    evaluation = state.closed_evaluations[closed_row(state, state.counters[Counter.CLOSED_NEXT] - 1)]
    evaluation[Evaluation.NEGATIVES_THEN] = state.counters[Counter.LABELLED] - state.counters[Counter.POSITIVES]
    evaluation[Evaluation.POSITIVES_THEN] = state.counters[Counter.POSITIVES]


# A label --------------------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def _apply_label(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, limit: Number
) -> None:
    """Apply a label: let it wait, join it, correct an earlier one, or end it as a repetition or a dead letter.

    Args:
        state: The stream.
        batch: The batch.
        out: Takes the results.
        row: The row of the label.
        position: Its position.
        limit: Timestamps below this have expired.
    """
    id_hash = hash_id(state.settings, batch.label_ids, row)
    bucket = find_id(state, id_hash, batch.label_ids, row)
    reference = state.table_references[bucket]
    if reference == EMPTY_BUCKET:
        if batch.label_times[row] < limit:
            add_dead_letter(out, position, ORPHAN_LABEL, -1, OLD_LABEL, limit - batch.label_times[row])
        elif batch.label_sizes[row] > state.settings[Setting.MAX_WAITING_BYTES]:
            add_dead_letter(out, position, ORPHAN_LABEL, -1, LARGE_LABEL, 0)
        else:
            _wait_for_example(state, batch, out, row, position, bucket, id_hash)
    elif reference < 0:
        closed = closed_row(state, closed_number(reference))
        if state.closed_outcomes[closed] != JOINED_KIND:
            _bury_late_label(state, out, position, closed)
        elif _is_correction(state, batch, row, closed):
            correct_joined_example(state, batch, out, row, position, closed_number(reference))
        else:
            repeat_label(state, batch, out, row, position, state.closed_labels[closed])
    elif state.states[reference] == SlotState.WAITING:
        if state.settings[Setting.CORRECTS] != 0 and batch.revisions[row] > state.revisions[reference]:
            correct_waiting_label(state, batch, out, row, position, reference)
        else:
            repeat_label(state, batch, out, row, position, state.labels[reference])
    else:
        _join_with_pending_example(state, batch, out, row, position, reference, bucket)


@inlined_without_refcounts
def _bury_late_label(state: JoinArrays, out: JoinOutput, position: Number, closed: Number) -> None:
    """Make the label at a position a dead letter, since its example was closed without it; `closed` is its row."""
    kind = state.closed_outcomes[closed]
    cause = EXPIRED_EXAMPLE
    if kind == EVICTED_KIND:
        cause = EVICTED_EXAMPLE
    elif kind == ADVANCED_KIND:
        cause = ADVANCED_EXAMPLE
    elif kind == POOL_KIND:
        cause = POOL_EXAMPLE
    since_ms = state.counters[Counter.STREAM_TIME] - state.closed_times[closed]
    add_dead_letter(out, position, LATE_LABEL, -1, cause, since_ms)


@inlined_without_refcounts
def _is_correction(state: JoinArrays, batch: JoinInput, row: Number, closed: Number) -> bool:
    """Say whether a label corrects a joined example, which is in a row of the ring."""
    return bool(
        state.settings[Setting.CORRECTS] != 0
        and batch.revisions[row] > state.closed_revisions[closed]
        and state.closed_evaluations[closed, Evaluation.NEGATIVES_THEN] != NO_EVALUATION
    )


@inlined_without_refcounts
def _wait_for_example(
    state: JoinArrays,
    batch: JoinInput,
    out: JoinOutput,
    row: Number,
    position: Number,
    bucket: Number,
    id_hash: np.uint64,
) -> None:
    """Let a label wait for its example; the oldest labels become dead letters if too many, or too many bytes, wait."""
    slot = take_slot(state, batch.label_ids, row, id_hash, batch.label_times[row], batch.label_offsets[row])
    state.labels[slot] = batch.labels[row]
    state.revisions[slot] = batch.revisions[row]
    state.states[slot] = SlotState.WAITING
    state.table_hashes[bucket] = id_hash
    state.table_references[bucket] = slot
    state.counters[Counter.TABLE_USED] += 1
    push_slot(state, state.waiting_heap, Counter.WAITING, slot)
    state.fingerprints[slot] = np.uint64(batch.label_sizes[row])
    state.counters[Counter.WAITING_BYTES] += batch.label_sizes[row]
    add_waiting(out, slot, position)
    for _ in range(MAX_EVICTIONS):
        if state.counters[Counter.WAITING] > state.settings[Setting.MAX_WAITING]:
            close_waiting_label(state, out, state.waiting_heap[0], position, TOO_MANY_LABELS)
        elif state.counters[Counter.WAITING_BYTES] > state.settings[Setting.MAX_WAITING_BYTES]:
            close_waiting_label(state, out, state.waiting_heap[0], position, TOO_MANY_BYTES)
        else:
            break


@inlined_without_refcounts
def _join_with_pending_example(
    state: JoinArrays, batch: JoinInput, out: JoinOutput, row: Number, position: Number, slot: Number, bucket: Number
) -> None:
    """Join a label with the example that waits for it."""
    remove_slot(state, state.pending_heap, Counter.PENDING, slot)
    state.states[slot] = SlotState.FREE
    label = batch.labels[row]
    delay_ms = batch.label_times[row] - state.times[slot]
    outcome = add_outcome(out, position, JOINED_KIND, slot, state.ids, slot)
    outcome["label"] = label
    outcome["delay_ms"] = delay_ms
    outcome["example_offset"] = state.offsets[slot]
    outcome["label_offset"] = batch.label_offsets[row]
    _learn_example(state, out, slot, label, batch.revisions[row], delay_ms, position, bucket)


# Any record -----------------------------------------------------------------------------------------------------------


@inlined_without_refcounts
def apply_record(state: JoinArrays, batch: JoinInput, position: Number, out: JoinOutput) -> None:
    """Apply the record at a position of the merged sequence; see the rules above."""
    row = batch.rows[position]
    is_example = batch.sides[position] == 0
    time = batch.example_times[row] if is_example else batch.label_times[row]
    state.counters[Counter.STREAM_TIME] = max(state.counters[Counter.STREAM_TIME], time)
    state.counters[Counter.ARRIVALS] += 1
    limit = state.counters[Counter.STREAM_TIME] - state.settings[Setting.LIFE_MS]
    most = close_advanced(state, out, position, state.settings[Setting.MAX_CLOSINGS])
    close_before(state, out, limit, position, UNLABELLED_KIND, EXPIRED_LABEL, most)
    forget_expired_ids(state)
    if is_example:
        _apply_example(state, batch, out, row, position, limit)
    else:
        _apply_label(state, batch, out, row, position, limit)
