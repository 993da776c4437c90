"""`StreamJoin` owns the memory of one stream's join: it makes the blocks, lets them grow, and shows them as arrays.

The rules are in `rules`, the memory's layout in `layout`. Compiled code gets the descriptor of each stream by address
(`segments`), and runs any number of streams in one call.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes
from stream_app.config import JoinSettings, ThresholdSettings, threshold_of
from stream_app.jit.columns import Rows, copy_rows
from stream_app.jit.compiler import compiled_without_refcounts
from stream_app.jit.memory import address_of, aligned_block, longs_at
from stream_app.jit.tables import Span
from stream_app.join.constants import COUNTERS, EVALUATION_COLUMNS, SETTINGS, Counter, Setting, SlotState
from stream_app.join.expiry_heaps import push_slot
from stream_app.join.id_table import EMPTY_BUCKET, closed_reference, closed_row, hash_id, insert_reference
from stream_app.join.layout import BLOCKS, JOIN_FIELDS, JoinField, view_of
from stream_app.records import ThresholdKind

HASH_KEY_BYTES = 16
"""Bytes of SipHash's key."""

NO_HASH_KEY = bytes(HASH_KEY_BYTES)
"""For streams whose ids no stranger can choose: in a study, a benchmark, a test."""

_NUMBERED = (ThresholdKind.SCORE, ThresholdKind.PROBABILITY, ThresholdKind.ALERTS)
"""The thresholds that have a number."""

_FIRST_SLOTS = 16
"""Slots, and rows of the ring, that a stream gets with its first record; they double as needed."""


class _TableSizes(NamedTuple):
    """What a join holds: pending examples, waiting labels and their bytes as dead letters, remembered closed ids."""

    pending: int
    waiting: int
    waiting_bytes: int
    closed: int


class StreamJoin:
    """The join of one stream.

    Args:
        settings: Bounds and TTLs.
        every_labels: Accepted labels between two reports.
        learners: How many learners predict.
        hash_key: `HASH_KEY_BYTES` bytes, the key of the hash table.
        has_costs: Whether costs are kept with the pending examples.
        every_examples: Examples between two further reports; 0: only labels cause reports.

    Attributes:
        descriptor: int64 `[JOIN_FIELDS]`; its values change in place when the join grows.
    """

    def __init__(
        self,
        settings: JoinSettings,
        every_labels: int,
        learners: int,
        hash_key: bytes = NO_HASH_KEY,
        *,
        has_costs: bool = False,
        every_examples: int = 0,
    ) -> None:
        descriptors = np.zeros((2, JOIN_FIELDS), np.int64)  # the second one is what the first was before a change
        self.descriptor, self._old_descriptor = descriptors
        begin = address_of(descriptors)
        self._addresses = begin, begin + self.descriptor.nbytes
        corrects = settings.corrections == "correct"
        self.descriptor[JoinField.LEARNERS], self.descriptor[JoinField.EVALUATIONS] = (
            learners,
            EVALUATION_COLUMNS if corrects else 0,
        )
        self.descriptor[JoinField.COSTS] = 2 if has_costs else 0
        nothing = np.zeros(0, np.uint8)  # until the first record
        self._blocks = [self._new_block(JoinField.FIXED), nothing, nothing, nothing]
        fixed = self._blocks[JoinField.FIXED].view(np.int64)
        self._counters, self._settings = fixed[:COUNTERS], fixed[COUNTERS : COUNTERS + SETTINGS]
        self._settings[...] = (
            settings.life_ms,
            settings.closed_ttl_ms,
            settings.max_pending_per_stream,
            settings.max_waiting_per_stream,
            settings.max_closed_per_stream,
            every_labels,
            corrects,
            settings.max_waiting_bytes_per_stream,
            every_examples,
            *struct.unpack("<2q", hash_key),
            settings.max_closings_per_record,
        )
        self._counters[Counter.STREAM_TIME] = -1

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the four blocks."""
        return sum(map(len, self._blocks))

    @property
    def address(self) -> int:
        """The address of the descriptor, valid as long as this object exists."""
        return self._addresses[0]

    @property
    def champion(self) -> int:
        """The number of the learner whose predictions count from now on."""
        return int(self._counters[Counter.CHAMPION])

    @champion.setter
    def champion(self, index: int) -> None:
        self._counters[Counter.CHAMPION] = index

    @property
    def threshold(self) -> ThresholdSettings:
        """The threshold that is in force from now on."""
        kind = ThresholdKind(int(self._counters[Counter.THRESHOLD_KIND]))
        value = float(self._counters[Counter.THRESHOLD : Counter.THRESHOLD + 1].view(np.float64)[0])
        return threshold_of(kind.text, value if kind in _NUMBERED else None)

    @threshold.setter
    def threshold(self, threshold: ThresholdSettings) -> None:
        self._counters[Counter.THRESHOLD_KIND] = threshold.kind
        self._counters[Counter.THRESHOLD : Counter.THRESHOLD + 1].view(np.float64)[0] = threshold.value or 0.0

    @property
    def closed_span(self) -> tuple[int, int]:
        """The number of the first closed id that is remembered, and the number that the next id gets."""
        first, end = self._counters[Counter.CLOSED_FIRST : Counter.CLOSED_NEXT + 1].tolist()
        return first, end

    @property
    def sizes(self) -> _TableSizes:
        """What it holds now."""
        counters = self._counters.tolist()
        closed = counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]
        waiting_bytes = counters[Counter.WAITING_BYTES]
        return _TableSizes(counters[Counter.PENDING], counters[Counter.WAITING], waiting_bytes, closed)

    def awaited_champions(self) -> Sequence[int]:
        """Return the numbers of the learners that predicted a pending example as the champion."""
        state = self.arrays()
        champions: Sequence[int] = np.unique(state["champions"][state["states"] == SlotState.PENDING]).tolist()
        return champions

    @property
    def slots(self) -> int:
        """The number of slots, free or not."""
        return int(self.descriptor[JoinField.SLOTS])

    def set_features(self, features: int) -> None:
        """Fix the number of features, before the first example."""
        if self.slots:
            self._change(JoinField.SLOT_BLOCK, JoinField.FEATURES, features, self._move_slots)
        else:
            self.descriptor[JoinField.FEATURES] = features

    def make_room(self, rows: int) -> None:
        """Make sure that this many records can be applied: at least double each block that is too small for them."""
        counters, (slots, ring, table) = (
            self._counters.tolist(),
            self.descriptor[JoinField.SLOTS : JoinField.TABLE + 1].tolist(),
        )
        if counters[Counter.FREE] < rows:
            wanted = max(_FIRST_SLOTS, 2 * slots, slots + rows - counters[Counter.FREE])
            self._change(JoinField.SLOT_BLOCK, JoinField.SLOTS, wanted, self._move_slots)
        remembered = counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]
        closed = min(remembered + counters[Counter.PENDING] + rows, int(self._settings[Setting.MAX_CLOSED]) + 1)
        if ring < closed:
            self._change(JoinField.RING_BLOCK, JoinField.RING, max(_FIRST_SLOTS, 2 * ring, closed), self._move_ring)
        used = counters[Counter.TABLE_USED] + rows
        if table < 2 * used:
            self._change(
                JoinField.TABLE_BLOCK, JoinField.TABLE, max(4 * _FIRST_SLOTS, _power_of_two(2 * used)), self._move_table
            )

    def reserve(self, rows: int, closed: int) -> None:
        """Make sure that an empty join can take over this many open ids and this many closed ids."""
        self.make_room(rows)
        if self.descriptor[JoinField.RING] < closed:
            self._change(JoinField.RING_BLOCK, JoinField.RING, closed, self._move_ring)
        if self.descriptor[JoinField.TABLE] < 2 * (rows + closed):
            self._change(JoinField.TABLE_BLOCK, JoinField.TABLE, _power_of_two(2 * (rows + closed)), self._move_table)

    def index(self, pending: int, waiting: int) -> None:
        """Build the table and heaps; the first slots have pending examples, the slots after them waiting labels."""
        _rebuild_index(self.address, pending, waiting)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return all state by the names of `JoinArrays`, as views that are valid until the join grows."""
        return {name: span.view(self._blocks[block]) for name, (block, span) in self._layout.items()}

    def spans(self) -> Mapping[str, Span]:
        """Return type and shape of all `arrays`."""
        return {name: span for name, (_, span) in self._layout.items()}

    @property
    def _layout(self) -> Mapping[str, tuple[int, Span]]:
        return _layout_of(*self.descriptor.tolist()[JoinField.SLOTS :])

    def _change(self, block: int, field: int, value: int, move: Callable[[], None]) -> None:
        """Change a field of the descriptor, replace the block whose layout depends on it, and move the contents."""
        self._old_descriptor[:] = self.descriptor
        old_memory = self._blocks[block]
        self.descriptor[field] = value
        self._blocks[block] = self._new_block(block)
        move()
        del old_memory  # compiled code reads it by address: it must exist until here

    def _new_block(self, number: int) -> Bytes:
        size = max(span.end for block, span in self._layout.values() if block == number)
        memory, self.descriptor[number] = aligned_block(size)
        return memory

    def _copy_rows(self, block: int, first: int, end: int) -> None:
        old, new = (
            Rows(fields[block], BLOCKS[block].rows(fields), BLOCKS[block].copied_bytes(fields))
            for fields in (self._old_descriptor.tolist(), self.descriptor.tolist())
        )
        copy_rows(old, new, first, end)

    def _move_slots(self) -> None:
        slots = int(self._old_descriptor[JoinField.SLOTS])
        if slots:
            self._copy_rows(JoinField.SLOT_BLOCK, 0, slots)
        _add_free_slots(self.address, slots)

    def _move_ring(self) -> None:
        first, end = int(self._counters[Counter.CLOSED_FIRST]), int(self._counters[Counter.CLOSED_NEXT])
        if end > first:
            self._copy_rows(JoinField.RING_BLOCK, first, end)

    def _move_table(self) -> None:
        _rehash(self._addresses[1], self.address)


@lru_cache(maxsize=1_000)
def _layout_of(*sizes: int) -> Mapping[str, tuple[int, Span]]:
    """Return the block of each column and its place there, given the fields of a descriptor after the addresses."""
    descriptor = [*[0] * JoinField.SLOTS, *sizes]
    return {name: (int(block.address_field), span) for block in BLOCKS for name, span in block.spans(descriptor)}


def _power_of_two(least: int) -> int:
    """Return the smallest power of two that is not below `least`."""
    return 1 << (least - 1).bit_length()


# Compiled code --------------------------------------------------------------------------------------------------------


@compiled_without_refcounts
def _add_free_slots(join: int, old_slots: int) -> None:
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
def _rehash(old_join: int, new_join: int) -> None:
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
def _rebuild_index(join: int, pending: int, waiting: int) -> None:
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
