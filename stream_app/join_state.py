"""The state of a join without what depends on where batches were cut: rows by arrival and by closing number.

Slots, hash tables and heaps are made anew from these rows; which slot an example has changes no result.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app import join
from stream_app.config import JoinSettings
from stream_app.errors import StateError
from stream_app.join import JoinArrays
from stream_app.native import bare
from stream_app.records import ID_WORDS, Integers, Longs

PENDING_COLUMNS = ("ids", "times", "arrivals", "offsets", "fingerprints", "champions", "features")
WAITING_COLUMNS = ("ids", "times", "arrivals", "offsets", "labels", "revisions")
CLOSED_COLUMNS = (
    "closed_ids",
    "closed_fingerprints",
    "closed_labels",
    "closed_revisions",
    "closed_outcomes",
    "closed_times",
)

KEPT_COUNTERS = (
    join.STREAM_TIME,
    join.ARRIVALS,
    join.EXAMPLES,
    join.LABELLED,
    join.UNLABELLED,
    join.EVICTED,
    join.DUPLICATES,
    join.CLOSED_FIRST,
    join.CLOSED_NEXT,
    join.CHAMPION,
)
"""The others count slots and places of the table."""

Columns = Mapping[str, NDArray[np.generic]]


def slots_of(state: JoinArrays, kind: int) -> Integers:
    """The slots of all that is pending (or waiting), by arrival."""
    slots = np.flatnonzero(state.states == kind)
    by: Integers = slots[np.argsort(state.arrivals[slots], kind="stable")].astype(np.int32)
    return by


def counters_of(state: JoinArrays) -> Longs:
    """int64, by `KEPT_COUNTERS`."""
    return state.counters[list(KEPT_COUNTERS)]


def closed_rows(state: JoinArrays, first: int, end: int) -> Columns:
    """The closed ids of these numbers, in order; all are remembered."""
    rows = np.arange(first, end) % len(state.closed_times)
    return {name: getattr(state, name)[rows] for name in CLOSED_COLUMNS}


def rows_of(state: JoinArrays, slots: Integers, names: Sequence[str]) -> Columns:
    """The named columns of these slots."""
    return {name: getattr(state, name)[slots] for name in names}


def rebuilt(
    settings: JoinSettings,
    every_labels: int,
    features: int,
    counters: Longs,
    delays: Longs,
    pending: Columns,
    waiting: Columns,
    closed: Columns,
) -> JoinArrays:
    """A join that goes on where another stopped; pending rows have the slots 0, 1, ..., waiting ones those behind.

    Args:
        settings: Bounds and lives.
        every_labels: Accepted labels between two reports.
        features: d.
        counters: By `KEPT_COUNTERS`.
        delays: The histogram.
        pending: `PENDING_COLUMNS`.
        waiting: `WAITING_COLUMNS`.
        closed: `CLOSED_COLUMNS`, of all numbers from the first remembered to the newest.

    Raises:
        StateError: The rows do not fit one another.
    """
    awaited, parked, remembered = (len(pending["ids"]), len(waiting["ids"]), len(closed["closed_ids"]))
    state = join.empty(settings, every_labels, features)
    _check(state, counters, delays, pending, waiting, closed)
    state = join.with_room(state, awaited + parked, remembered)
    state.counters[list(KEPT_COUNTERS)] = counters
    state.delays[...] = delays
    for name in PENDING_COLUMNS:
        getattr(state, name)[:awaited] = pending[name]
    for name in WAITING_COLUMNS:
        getattr(state, name)[awaited : awaited + parked] = waiting[name]
    rows = (int(counters[KEPT_COUNTERS.index(join.CLOSED_FIRST)]) + np.arange(remembered)) % len(state.closed_times)
    for name in CLOSED_COLUMNS:
        getattr(state, name)[rows] = closed[name]
    _rebuild(state, awaited, parked)
    return state


def _check(
    state: JoinArrays, counters: Longs, delays: Longs, pending: Columns, waiting: Columns, closed: Columns
) -> None:
    if counters.shape != (len(KEPT_COUNTERS),) or counters.dtype != np.int64 or delays.shape != state.delays.shape:
        raise StateError("the counters of a join are not those of this version")
    for columns, names in ((pending, PENDING_COLUMNS), (waiting, WAITING_COLUMNS), (closed, CLOSED_COLUMNS)):
        rows = len(columns[names[0]])
        for name in names:
            wanted: NDArray[np.generic] = getattr(state, name)
            if columns[name].shape != (rows, *wanted.shape[1:]) or columns[name].dtype != wanted.dtype:
                raise StateError(f"{name} of a join has {columns[name].dtype} {list(columns[name].shape)}")
    known = dict(zip(KEPT_COUNTERS, counters.tolist(), strict=True))
    if known[join.CLOSED_NEXT] - known[join.CLOSED_FIRST] != len(closed["closed_ids"]) or known[join.CLOSED_FIRST] < 0:
        raise StateError("a join remembers another number of closed ids than its counters say")
    for columns, name in ((pending, "ids"), (waiting, "ids"), (closed, "closed_ids")):
        if len(columns[name]) and int(columns[name][:, 0].max()) > 8 * (ID_WORDS - 1):  # type: ignore[attr-defined]
            raise StateError("an id of a join is longer than an id may be")


@bare
def _rebuild(state: JoinArrays, pending: int, waiting: int) -> None:
    """Hashes, table, heaps and free slots of rows that are in place."""
    counters = state.counters
    counters[join.FREE] -= pending + waiting
    for slot in range(pending + waiting):
        state.hashes[slot] = join.hash_id(state.ids, slot)
        state.states[slot] = join.IS_PENDING if slot < pending else join.IS_WAITING
        join.insert(state, state.hashes[slot], slot)
        if slot < pending:
            join.push(state, state.pending_heap, join.PENDING, slot)
        else:
            join.push(state, state.waiting_heap, join.WAITING, slot)
    for free in range(counters[join.FREE]):
        state.free[free] = len(state.states) - 1 - free
    for number in range(counters[join.CLOSED_FIRST], counters[join.CLOSED_NEXT]):
        ring = number % len(state.closed_times)
        state.closed_hashes[ring] = join.hash_id(state.closed_ids, ring)
        join.insert(state, state.closed_hashes[ring], -2 - number)
