"""Erase what a stream keeps of the ids that an `erase` mark names.

Pending examples end `evicted`, waiting labels become dead letters `orphan-label`, closed ids are forgotten, and the
queues of the learners lose the examples: later ones move up. Weights, moments, sums and counts stay, since they hold
no single record. The join is then built again from what is left, as a restore builds it.
"""

import numpy as np

from stream_app.join.constants import Counter, SlotState
from stream_app.pipeline.leftovers import Leftovers
from stream_app.pipeline.outputs import Erased
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_state import KEPT_COUNTERS, StreamState, load_stream
from stream_app.serialization.erased_ids import ErasedIds


def erase(old: Stream, new: Stream, ids: ErasedIds) -> tuple[Leftovers, Erased]:
    """Move what a stream keeps into a new one, except what belongs to these ids.

    Args:
        old: The stream, which must not be used afterwards.
        new: An empty stream with the same settings and number of features.
        ids: The ids.

    Returns:
        What the mark closes, and how much is erased.
    """
    join = old.join.arrays()
    held = np.flatnonzero(join["states"] != SlotState.FREE)
    named = np.zeros(len(join["states"]), np.bool_)
    named[held] = ids.among(join["ids"][held])
    left = Leftovers.of(old, named)
    for slot in np.flatnonzero(named & (join["states"] == SlotState.WAITING)).tolist():
        del old.waiting[slot]
    join["states"][named] = SlotState.FREE
    join["counters"][Counter.EVICTED] += len(left.offsets)
    queued = sum(learner.erase(ids.among) for learner in old.learners)
    state = StreamState(old)
    core, pending = dict(state.core_state()), dict(state.pending_rows(state.pending_arrivals()))
    first, end = state.closed_span()
    closed = state.closed_rows(first, end)
    kept = ~ids.among(np.asarray(closed["closed_ids"]))
    core["counters"][KEPT_COUNTERS.index(Counter.CLOSED_FIRST)] = end - np.count_nonzero(kept)
    load_stream(new, core, pending, {name: column[kept] for name, column in closed.items()})
    forgotten = len(kept) - int(np.count_nonzero(kept))
    return left, Erased(old.name, len(ids), len(left.offsets), len(left.labels), forgotten, queued)
