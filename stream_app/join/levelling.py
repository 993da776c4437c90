"""The tables of many streams together: what they hold in bytes, and how streams that hold most give up their oldest.

`row_bytes` in what follows is int64 `[s, ROW_COLUMNS]`, of each stream the bytes of its rows. `PENDING`, `WAITING` and
`CLOSED` are what a pending example, a waiting label and a closed id count; `LATER` is what a label counts more after
the first example of the stream, which may be the first to say how many features there are. `SLOT` and `RING` are what a
slot and a row of the ring take, used or not.
"""

import numpy as np

from stream_app.arrays import Longs
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.jit.memory import Number, Pointer, longs_at
from stream_app.join.closing import close_pending_example, close_waiting_label, forget_oldest_id
from stream_app.join.constants import MAX_EVICTIONS, OUTPUT_KINDS, POOL_KIND, POOL_LABEL, Counter, Setting
from stream_app.join.expiry_heaps import is_before
from stream_app.join.input import Segments
from stream_app.join.layout import JoinArrays, JoinField, view_of
from stream_app.join.output import JoinOutput
from stream_app.join.segments import complete_outcomes, free_slots, keep_answers

PENDING, WAITING, CLOSED, LATER, SLOT, RING = 0, 1, 2, 3, 4, 5
"""Columns of `row_bytes`."""

ROW_COLUMNS = 6

_BUCKET_BYTES = 16
"""Of the table of ids."""

MAX_LABEL_BYTES = 1 << 24
"""The most bytes of the labels that one levelling makes dead letters, unless its first label alone has more."""

CLOSED_SHARE = 4
"""Closed ids give way to open ones while they take more than this part of what their stream may hold: a quarter."""


@compiled_without_refcounts
def arrivals_of(joins: Longs) -> int:
    """Return how many records these streams have taken in all."""
    total = 0
    for stream in range(len(joins)):
        total += longs_at(longs_at(joins[stream])[JoinField.FIXED])[Counter.ARRIVALS]
    return int(total)


@compiled_without_refcounts
def fill_used(joins: Longs, row_bytes: Longs, used: Longs) -> None:
    """Fill int64 `[s]`, the bytes of what each stream holds."""
    for stream in range(len(joins)):
        counters = longs_at(longs_at(joins[stream])[JoinField.FIXED])
        used[stream] = _used(counters, row_bytes, stream)


@compiled_without_refcounts
def fill_allocated(joins: Longs, row_bytes: Longs, allocated: Longs) -> None:
    """Fill int64 `[s]`, the bytes of the tables of each stream, full or not."""
    for stream in range(len(joins)):
        fields = longs_at(joins[stream])
        slots = fields[JoinField.SLOTS] * row_bytes[stream, SLOT]
        ring = fields[JoinField.RING] * row_bytes[stream, RING]
        allocated[stream] = slots + ring + fields[JoinField.TABLE] * _BUCKET_BYTES


@compiled_without_refcounts
def open_of(joins: Longs) -> tuple[int, int, int]:
    """Return how many records of these streams are open, the bytes of the waiting labels, and the most of a stream."""
    records, size, largest = 0, 0, 0
    for stream in range(len(joins)):
        counters = longs_at(longs_at(joins[stream])[JoinField.FIXED])
        records += counters[Counter.PENDING] + counters[Counter.WAITING]
        size += counters[Counter.WAITING_BYTES]
        largest = max(largest, counters[Counter.WAITING_BYTES])
    return int(records), int(size), int(largest)


@inlined_without_refcounts
def _used(counters: Pointer, row_bytes: Longs, stream: Number) -> int:
    """Return the bytes of what a stream holds."""
    label = row_bytes[stream, WAITING] + (row_bytes[stream, LATER] if counters[Counter.EXAMPLES] > 0 else 0)
    return int(
        counters[Counter.PENDING] * row_bytes[stream, PENDING]
        + counters[Counter.WAITING] * label
        + 2 * counters[Counter.WAITING_BYTES]
        + (counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]) * row_bytes[stream, CLOSED]
    )


@compiled_without_refcounts
def level_streams(segments: Segments, row_bytes: Longs, level: int, out: JoinOutput) -> None:
    """Let streams give up what they hold beyond a level, the one after the other; then complete their outcomes.

    In all, at most `MAX_EVICTIONS` records are closed, and labels of `MAX_LABEL_BYTES`.

    Args:
        segments: The streams, in their turn, without records; `marks` has the position that causes it.
        row_bytes: Of these streams.
        level: Bytes.
        out: Filled; it is new.
    """
    closings, label_bytes = MAX_EVICTIONS, MAX_LABEL_BYTES
    for segment in range(len(segments.joins)):
        descriptor = longs_at(segments.joins[segment])
        counters, state = longs_at(descriptor[JoinField.FIXED]), view_of(descriptor)
        out.champions[segment] = state.counters[Counter.CHAMPION]
        out.thresholds[segment] = state.counters[Counter.THRESHOLD_KIND]
        while _used(counters, row_bytes, segment) > level:
            closed = counters[Counter.CLOSED_NEXT] - counters[Counter.CLOSED_FIRST]
            if closed * row_bytes[segment, CLOSED] * CLOSED_SHARE > level:
                forget_oldest_id(state)
                continue
            if closings == 0:
                break
            size = _oldest_label_bytes(state)
            if size > label_bytes and label_bytes < MAX_LABEL_BYTES:
                break
            _close_oldest(state, out, segments.marks[segment], size > 0)
            closings -= 1
            label_bytes = max(0, label_bytes - size)
        free_slots(state, out, segment)
        for kind in range(OUTPUT_KINDS):
            out.bounds[segment + 1, kind] = out.counts[kind]
        complete_outcomes(segments.joins[segment], segment, out)
        if state.settings[Setting.CORRECTS] != 0:
            keep_answers(segments.joins[segment], segment, out)


@inlined_without_refcounts
def _oldest_label_bytes(state: JoinArrays) -> int:
    """Return the bytes of the label that is the oldest open record of its stream; 0: an example is."""
    if state.counters[Counter.WAITING] == 0:
        return 0
    label = state.waiting_heap[0]
    if state.counters[Counter.PENDING] > 0 and is_before(state, state.pending_heap[0], label):
        return 0
    return int(np.int64(state.fingerprints[label]))


@inlined_without_refcounts
def _close_oldest(state: JoinArrays, out: JoinOutput, position: Number, is_label: bool) -> None:
    """Close the oldest open record of a stream."""
    if is_label:
        close_waiting_label(state, out, state.waiting_heap[0], position, POOL_LABEL)
    else:
        close_pending_example(state, out, state.pending_heap[0], position, POOL_KIND)
