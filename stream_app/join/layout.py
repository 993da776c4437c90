"""The memory of one stream's join: its columns, the four blocks that hold them, and the descriptor that finds them.

To add a column, add it to `JoinArrays` and to the block whose rows it follows. Python's views, those of compiled code
and the copies that a growing block needs all come from these tables.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Floats, Integers, Longs, Words
from stream_app.jit.columns import Block, BlockColumn, view_intrinsic
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.constants import COUNTERS, SETTINGS, Counter
from stream_app.join.delays import DELAY_BUCKETS
from stream_app.records import ID_WORDS


class JoinField(IntEnum):
    """Fields of a join's descriptor: the addresses of its four blocks, then the numbers that decide their layout."""

    FIXED = 0
    SLOT_BLOCK = 1
    RING_BLOCK = 2
    TABLE_BLOCK = 3
    SLOTS = 4
    RING = 5
    TABLE = 6
    FEATURES = 7
    LEARNERS = 8
    EVALUATIONS = 9
    COSTS = 10


JOIN_FIELDS = len(JoinField)


class JoinArrays(NamedTuple):
    """The state of one stream's join, by column.

    An id that is open (a pending example or a waiting label) has a slot, a closed id a row of the ring. All arrays of
    slots have one element a slot unless said otherwise.

    Attributes:
        counters: int64 `[COUNTERS]`, see `constants`.
        settings: int64 `[SETTINGS]`, see `constants`.
        delays: int64 `[DELAY_BUCKETS]`, the histogram of label delays, see `delays`.
        ids: uint64 `[slots, ID_WORDS]`, packed ids.
        hashes: uint64, the keyed hash of the id.
        times: int64, event time in milliseconds.
        arrivals: int64, which record of the stream it was.
        offsets: int64, the input offset.
        revisions: int64, of a waiting label.
        fingerprints: uint64, of an example's features; of a waiting label, its bytes as a dead letter.
        champions: int32, the learner that was the champion when the example was predicted.
        free: int32, a stack of the free slots; the first `counters[FREE]` are valid.
        pending_heap: int32, slots of pending examples, a binary heap by (time, arrival).
        waiting_heap: int32, slots of waiting labels, likewise.
        heap_indices: int32, where a slot is in its heap.
        features: float32 `[slots, d]`.
        scores: float32 `[learners, slots]`, each learner's score; kept here for learners and evaluation.
        probabilities: float32 `[learners, slots]`, what the pipeline made of the scores; kept here for outcomes.
        costs: float32 `[slots, 2]`, of a false positive and a false negative; `[slots, 0]` if the stream has no costs.
        states: uint8, `FREE_SLOT`, `IS_PENDING` or `IS_WAITING`.
        labels: int8, the class of a waiting label.
        classes: int8 `[learners, slots]`, the class that each learner predicted.
        closed_ids: uint64 `[ring, ID_WORDS]`; closed number k is in row `k % ring`, here and in what follows.
        closed_hashes: uint64 `[ring]`.
        closed_fingerprints: uint64 `[ring]`, of the example's features.
        closed_revisions: int64 `[ring]`, the highest revision of its label.
        closed_times: int64 `[ring]`, stream time when it was closed.
        closed_evaluations: int64 `[ring, EVALUATION_COLUMNS]`; without corrections `[ring, 0]`.
        closed_labels: int8 `[ring]`, the class; -1: closed without a label.
        closed_outcomes: uint8 `[ring]`, `OutcomeKind`, `ADVANCED_KIND` or `POOL_KIND`.
        table_hashes: uint64 `[table]`, see `id_table`.
        table_references: int64 `[table]`, see `id_table`.
    """

    counters: Longs
    settings: Longs
    delays: Longs
    ids: Words
    hashes: Words
    times: Longs
    arrivals: Longs
    offsets: Longs
    revisions: Longs
    fingerprints: Words
    champions: Integers
    free: Integers
    pending_heap: Integers
    waiting_heap: Integers
    heap_indices: Integers
    features: Floats
    scores: Floats
    probabilities: Floats
    costs: Floats
    states: Bytes
    labels: NDArray[np.int8]
    classes: NDArray[np.int8]
    closed_ids: Words
    closed_hashes: Words
    closed_fingerprints: Words
    closed_revisions: Longs
    closed_times: Longs
    closed_evaluations: Longs
    closed_labels: NDArray[np.int8]
    closed_outcomes: Bytes
    table_hashes: Words
    table_references: Longs


BLOCKS = (
    Block(
        JoinField.FIXED,
        None,
        (
            BlockColumn("counters", np.int64, COUNTERS),
            BlockColumn("settings", np.int64, SETTINGS),
            BlockColumn("delays", np.int64, DELAY_BUCKETS),
        ),
    ),
    Block(
        JoinField.SLOT_BLOCK,
        JoinField.SLOTS,
        (
            BlockColumn("ids", np.uint64, ID_WORDS),
            BlockColumn("hashes", np.uint64),
            BlockColumn("times", np.int64),
            BlockColumn("arrivals", np.int64),
            BlockColumn("offsets", np.int64),
            BlockColumn("revisions", np.int64),
            BlockColumn("fingerprints", np.uint64),
            BlockColumn("champions", np.int32),
            BlockColumn("free", np.int32),
            BlockColumn("pending_heap", np.int32),
            BlockColumn("waiting_heap", np.int32),
            BlockColumn("heap_indices", np.int32),
            BlockColumn("features", np.float32, elements_field=JoinField.FEATURES),
            BlockColumn("scores", np.float32, elements_field=JoinField.LEARNERS, transposed=True),
            BlockColumn("probabilities", np.float32, elements_field=JoinField.LEARNERS, transposed=True),
            BlockColumn("costs", np.float32, elements_field=JoinField.COSTS),
            BlockColumn("states", np.uint8),
            BlockColumn("labels", np.int8),
            BlockColumn("classes", np.int8, elements_field=JoinField.LEARNERS, transposed=True),
        ),
    ),
    Block(
        JoinField.RING_BLOCK,
        JoinField.RING,
        (
            BlockColumn("closed_ids", np.uint64, ID_WORDS),
            BlockColumn("closed_hashes", np.uint64),
            BlockColumn("closed_fingerprints", np.uint64),
            BlockColumn("closed_revisions", np.int64),
            BlockColumn("closed_times", np.int64),
            BlockColumn("closed_evaluations", np.int64, elements_field=JoinField.EVALUATIONS),
            BlockColumn("closed_labels", np.int8),
            BlockColumn("closed_outcomes", np.uint8),
        ),
    ),
    Block(
        JoinField.TABLE_BLOCK,
        JoinField.TABLE,
        (BlockColumn("table_hashes", np.uint64), BlockColumn("table_references", np.int64)),
    ),
)
"""In the order of their address fields, which are 0, 1, 2 and 3."""

view_of = view_intrinsic(JoinArrays, BLOCKS)
"""`view_of(descriptor)`: the `JoinArrays` of a join, for compiled code."""

SLOT_PREFETCH_BYTES = sum(
    np.dtype(column.dtype).itemsize * column.elements
    for column in BLOCKS[JoinField.SLOT_BLOCK].columns
    if column.elements_field is None and np.dtype(column.dtype).itemsize > 1
)
"""Bytes of one slot that are prefetched, besides its features."""

RING_PREFETCH_COLUMNS = 4
"""Columns of 8 bytes after `closed_ids` that are prefetched."""


@inlined_without_refcounts
def take_slot(state: JoinArrays, ids: Words, row: Number, id_hash: np.uint64, time: Number, offset: Number) -> Number:
    """Take a free slot for a record, whose id is in a row of `ids`; `StreamJoin` has made sure that there is one."""
    state.counters[Counter.FREE] -= 1
    slot = state.free[state.counters[Counter.FREE]]
    for word in range(ID_WORDS):
        state.ids[slot, word] = ids[row, word]
    state.hashes[slot] = id_hash
    state.times[slot] = time
    state.arrivals[slot] = state.counters[Counter.ARRIVALS]
    state.offsets[slot] = offset
    return int(slot)
