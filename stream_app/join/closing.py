"""How an open id is closed, and how closed ids are remembered and forgotten.

A closed id is remembered so that a repetition, or a label that comes late, is recognised. Closed ids have consecutive
numbers; those from `counters[CLOSED_FIRST]` to `counters[CLOSED_NEXT]` are remembered.
"""

import numpy as np

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.constants import (
    ADVANCED_KIND,
    ADVANCED_LABEL,
    EVICTED_KIND,
    ORPHAN_LABEL,
    POOL_KIND,
    UNLABELLED_KIND,
    Counter,
    Setting,
    SlotState,
)
from stream_app.join.expiry_heaps import (
    is_before,
    remove_slot,
)
from stream_app.join.id_table import (
    bucket_of_reference,
    closed_reference,
    closed_row,
    remove_bucket,
)
from stream_app.join.layout import (
    JoinArrays,
)
from stream_app.join.output import (
    JoinOutput,
    add_dead_letter,
    add_outcome,
    add_released,
)
from stream_app.records import (
    ID_WORDS,
)


@inlined_without_refcounts
def close_before(
    state: JoinArrays, out: JoinOutput, limit: Number, position: Number, kind: np.uint8, cause: np.uint8, most: Number
) -> Number:
    """Close open ids with a timestamp below the limit, in order of (timestamp, arrival) over both heaps.

    Args:
        state: The stream.
        out: Takes the results.
        limit: The limit in milliseconds.
        position: The position that causes it.
        kind: `UNLABELLED_KIND`: they have expired; `ADVANCED_KIND`: a pair of marks closes them.
        cause: The cause for waiting labels.
        most: How many it may close.

    Returns:
        How many more it might have closed.
    """
    while most > 0:
        pending, waiting = _is_pending_before(state, limit), _is_waiting_before(state, limit)
        if pending and (not waiting or is_before(state, state.pending_heap[0], state.waiting_heap[0])):
            close_pending_example(state, out, state.pending_heap[0], position, kind)
        elif waiting:
            close_waiting_label(state, out, state.waiting_heap[0], position, cause)
        else:
            break
        most -= 1
    return most


@inlined_without_refcounts
def close_advanced(state: JoinArrays, out: JoinOutput, position: Number, most: Number) -> Number:
    """Close what `advance` marks close and have not closed yet, as `close_before` does."""
    limit = state.counters[Counter.ADVANCED_BELOW]
    if limit > 0:
        most = close_before(state, out, limit, position, ADVANCED_KIND, ADVANCED_LABEL, most)
        if not (_is_pending_before(state, limit) or _is_waiting_before(state, limit)):
            state.counters[Counter.ADVANCED_BELOW] = 0
    return most


@inlined_without_refcounts
def _is_pending_before(state: JoinArrays, limit: Number) -> bool:
    """Say whether an example with a timestamp below the limit is open."""
    return bool(state.counters[Counter.PENDING] > 0 and state.times[state.pending_heap[0]] < limit)


@inlined_without_refcounts
def _is_waiting_before(state: JoinArrays, limit: Number) -> bool:
    """Say whether a label with a timestamp below the limit waits."""
    return bool(state.counters[Counter.WAITING] > 0 and state.times[state.waiting_heap[0]] < limit)


@inlined_without_refcounts
def close_pending_example(state: JoinArrays, out: JoinOutput, slot: Number, position: Number, kind: np.uint8) -> None:
    """Close an example that has no label, as `unlabelled` or `evicted`; its id is remembered with the kind."""
    remove_slot(state, state.pending_heap, Counter.PENDING, slot)
    state.states[slot] = SlotState.FREE
    is_evicted = kind in (EVICTED_KIND, POOL_KIND)
    outcome_kind = EVICTED_KIND if is_evicted else UNLABELLED_KIND
    outcome = add_outcome(out, position, outcome_kind, slot, state.ids, slot)
    outcome["example_offset"] = state.offsets[slot]
    state.counters[Counter.EVICTED if is_evicted else Counter.UNLABELLED] += 1
    bucket = bucket_of_reference(state, state.hashes[slot], slot)
    remember_id(state, slot, bucket, kind, np.int8(-1), 0)


@inlined_without_refcounts
def close_waiting_label(state: JoinArrays, out: JoinOutput, slot: Number, position: Number, cause: np.uint8) -> None:
    """Close a label that has no example: it becomes a dead letter, and its id is not remembered."""
    release_label(state, out, slot)
    remove_bucket(state, bucket_of_reference(state, state.hashes[slot], slot))
    waited_ms = state.counters[Counter.STREAM_TIME] - state.times[slot]
    add_dead_letter(out, position, ORPHAN_LABEL, slot, cause, waited_ms)


@inlined_without_refcounts
def release_label(state: JoinArrays, out: JoinOutput, slot: Number) -> None:
    """End the wait of a label; the caller removes or replaces its bucket in the table."""
    remove_slot(state, state.waiting_heap, Counter.WAITING, slot)
    state.counters[Counter.WAITING_BYTES] -= np.int64(state.fingerprints[slot])
    state.states[slot] = SlotState.FREE
    add_released(out, slot)


@inlined_without_refcounts
def remember_id(
    state: JoinArrays, slot: Number, bucket: Number, kind: np.uint8, label: np.int8, revision: Number
) -> None:
    """Close the id of a slot: its bucket in the table now refers to a new row of the ring.

    If more ids are remembered than the settings allow, the oldest is forgotten. The ring always has one row more than
    that bound (`StreamJoin`), so the new id does not overwrite the oldest before it has left the table.
    """
    number = state.counters[Counter.CLOSED_NEXT]
    row = closed_row(state, number)
    for word in range(ID_WORDS):
        state.closed_ids[row, word] = state.ids[slot, word]
    state.closed_hashes[row] = state.hashes[slot]
    state.closed_fingerprints[row] = state.fingerprints[slot]
    state.closed_labels[row] = label
    state.closed_revisions[row] = revision
    state.closed_outcomes[row] = kind
    state.closed_times[row] = state.counters[Counter.STREAM_TIME]
    state.table_references[bucket] = closed_reference(number)
    state.counters[Counter.CLOSED_NEXT] = number + 1
    if number + 1 - state.counters[Counter.CLOSED_FIRST] > state.settings[Setting.MAX_CLOSED]:
        forget_oldest_id(state)


@inlined_without_refcounts
def forget_oldest_id(state: JoinArrays) -> None:
    """Forget the closed id with the smallest number."""
    number = state.counters[Counter.CLOSED_FIRST]
    id_hash = state.closed_hashes[closed_row(state, number)]
    remove_bucket(state, bucket_of_reference(state, id_hash, closed_reference(number)))
    state.counters[Counter.CLOSED_FIRST] = number + 1


@inlined_without_refcounts
def forget_expired_ids(state: JoinArrays) -> None:
    """Forget the closed ids that are older than their TTL; numbers ascend with time."""
    limit = state.counters[Counter.STREAM_TIME] - state.settings[Setting.CLOSED_LIFE_MS]
    while (
        state.counters[Counter.CLOSED_FIRST] < state.counters[Counter.CLOSED_NEXT]
        and state.closed_times[closed_row(state, state.counters[Counter.CLOSED_FIRST])] < limit
    ):
        forget_oldest_id(state)
