"""How the blocks of a join grow, and how the hash table and the heaps are built from a snapshot."""

import numpy as np

from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, longs_at
from stream_app.join.constants import COUNTERS, Counter, Setting, SlotState
from stream_app.join.expiry_heaps import push_slot
from stream_app.join.id_table import EMPTY_BUCKET, closed_reference, closed_row, hash_id, insert_reference
from stream_app.join.layout import view_of


@inlined_without_refcounts
def wanted_ring_rows(counters: Pointer, rows: Number) -> int:
    """Return how many rows of the ring this many more records may need: at most one more than can be remembered.

    The settings are in memory directly after the counters.
    """
    remembered = counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]
    return int(min(remembered + counters[Counter.PENDING] + rows, counters[COUNTERS + Setting.MAX_CLOSED] + 1))


@compiled_without_refcounts
def add_free_slots(join: int, old_slots: int) -> None:
    """Add the slots from `old_slots` on to the free ones, below them in the stack, so that lower slots are used first.

    Args:
        join: Address of the descriptor, after the contents of the slots were copied.
        old_slots: The number of slots before.
    """
    state = view_of(longs_at(join))
    more, free = len(state.states) - old_slots, state.counters[Counter.FREE]
    for k in range(free - 1, -1, -1):
        state.free[more + k] = state.free[k]
    for k in range(more):
        state.free[k] = old_slots + more - 1 - k
    state.counters[Counter.FREE] = free + more


@compiled_without_refcounts
def rehash(old_join: int, new_join: int) -> None:
    """Fill the hash table of one descriptor with the references in another's; counters do not change."""
    old, new = view_of(longs_at(old_join)), view_of(longs_at(new_join))
    mask = len(new.table_hashes) - 1
    for bucket in range(mask + 1):
        new.table_references[bucket] = EMPTY_BUCKET
    for k in range(len(old.table_hashes)):
        if old.table_references[k] != EMPTY_BUCKET:
            bucket = int(old.table_hashes[k]) & mask
            while new.table_references[bucket] != EMPTY_BUCKET:
                bucket = (bucket + 1) & mask
            new.table_hashes[bucket] = old.table_hashes[k]
            new.table_references[bucket] = old.table_references[k]


@compiled_without_refcounts
def rebuild_index(join: int, pending: int, waiting: int) -> None:
    """Build hashes, table, heaps and free slots of a join whose columns were filled from a snapshot.

    Args:
        join: Address of the descriptor.
        pending: Number of pending examples, which are in the first slots.
        waiting: Number of waiting labels, which are in the slots after these.
    """
    state = view_of(longs_at(join))
    counters, slots = state.counters, len(state.states)
    counters[Counter.FREE] = slots - pending - waiting
    for slot in range(pending + waiting):
        state.hashes[slot] = hash_id(state.settings, state.ids, slot)
        state.states[slot] = SlotState.PENDING if slot < pending else SlotState.WAITING
        insert_reference(state, state.hashes[slot], slot)
    for slot in range(pending):
        push_slot(state, state.pending_heap, Counter.PENDING, slot)
    for slot in range(pending, pending + waiting):
        push_slot(state, state.waiting_heap, Counter.WAITING, slot)
        counters[Counter.WAITING_BYTES] += np.int64(state.fingerprints[slot])
    for free in range(counters[Counter.FREE]):
        state.free[free] = slots - 1 - free
    for number in range(counters[Counter.CLOSED_FIRST], counters[Counter.CLOSED_NEXT]):
        row = closed_row(state, number)
        state.closed_hashes[row] = hash_id(state.settings, state.closed_ids, row)
        insert_reference(state, state.closed_hashes[row], closed_reference(number))
