"""Two indexed binary heaps of slots by (time, arrival): pending examples and waiting labels, the next to expire first.

`JoinArrays.heap_indices` has the index of each slot in its heap, so any slot can be removed in logarithmic time. The
length of a heap is a counter: `PENDING` or `WAITING`.
"""

from stream_app.arrays import Integers
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.layout import JoinArrays


@inlined_without_refcounts
def is_before(state: JoinArrays, left: Number, right: Number) -> bool:
    """Say whether one slot expires before another."""
    if state.times[left] != state.times[right]:
        return bool(state.times[left] < state.times[right])
    return bool(state.arrivals[left] < state.arrivals[right])


@inlined_without_refcounts
def _sift_up(state: JoinArrays, heap: Integers, index: Number) -> Number:
    """Move the slot at an index towards the root until its parent expires before it; return its new index."""
    slot = heap[index]
    while index > 0:
        parent = (index - 1) >> 1
        if not is_before(state, slot, heap[parent]):
            break
        heap[index] = heap[parent]
        state.heap_indices[heap[index]] = index
        index = parent
    heap[index] = slot
    state.heap_indices[slot] = index
    return index


@inlined_without_refcounts
def _sift_down(state: JoinArrays, heap: Integers, index: Number, length: Number) -> None:
    """Move the slot at an index away from the root until it expires before both of its children."""
    slot = heap[index]
    while True:
        child = 2 * index + 1
        if child >= length:
            break
        if child + 1 < length and is_before(state, heap[child + 1], heap[child]):
            child += 1
        if not is_before(state, heap[child], slot):
            break
        heap[index] = heap[child]
        state.heap_indices[heap[index]] = index
        index = child
    heap[index] = slot
    state.heap_indices[slot] = index


@inlined_without_refcounts
def push_slot(state: JoinArrays, heap: Integers, counter: Number, slot: Number) -> None:
    """Add a slot to a heap whose length is this counter."""
    length = state.counters[counter]
    heap[length] = slot
    state.counters[counter] = length + 1
    _sift_up(state, heap, length)


@inlined_without_refcounts
def remove_slot(state: JoinArrays, heap: Integers, counter: Number, slot: Number) -> None:
    """Remove any slot from the heap whose length is this counter."""
    length = state.counters[counter] - 1
    state.counters[counter] = length
    index = state.heap_indices[slot]
    if index != length:
        heap[index] = heap[length]
        if _sift_up(state, heap, index) == index:
            _sift_down(state, heap, index, length)
