"""Two indexed binary heaps of slots by (time, arrival): pending examples and waiting labels, the next to expire first.

`JoinArrays.heap_places` has the place of each slot in its heap, so any slot can be removed in logarithmic time. The
length of a heap is a counter: `PENDING` or `WAITING`.
"""

from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.jit.memory import Number
from stream_app.join.layout import JoinArrays
from stream_app.records import Integers


@inlined_without_refcounts
def is_before(state: JoinArrays, left: Number, right: Number) -> bool:
    """Say whether one slot expires before another."""
    if state.times[left] != state.times[right]:
        return bool(state.times[left] < state.times[right])
    return bool(state.arrivals[left] < state.arrivals[right])


@inlined_without_refcounts
def _sift_up(state: JoinArrays, heap: Integers, place: Number) -> Number:
    """Move the slot at a place towards the root until its parent expires before it; return its new place."""
    slot = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if not is_before(state, slot, heap[parent]):
            break
        heap[place] = heap[parent]
        state.heap_places[heap[place]] = place
        place = parent
    heap[place] = slot
    state.heap_places[slot] = place
    return place


@inlined_without_refcounts
def _sift_down(state: JoinArrays, heap: Integers, place: Number, length: Number) -> None:
    """Move the slot at a place away from the root until it expires before both of its children."""
    slot = heap[place]
    while True:
        child = 2 * place + 1
        if child >= length:
            break
        if child + 1 < length and is_before(state, heap[child + 1], heap[child]):
            child += 1
        if not is_before(state, heap[child], slot):
            break
        heap[place] = heap[child]
        state.heap_places[heap[place]] = place
        place = child
    heap[place] = slot
    state.heap_places[slot] = place


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
    place = state.heap_places[slot]
    if place != length:
        heap[place] = heap[length]
        if _sift_up(state, heap, place) == place:
            _sift_down(state, heap, place, length)
