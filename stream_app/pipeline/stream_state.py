"""The state of a stream as arrays for a snapshot, and back: rows are by arrival and by closing number, not by slot.

Slots, hash tables and heaps depend on where batches were cut, but no result depends on them; they are built again.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Longs
from stream_app.errors import StateError
from stream_app.jit.tables import Span
from stream_app.join import constants as join
from stream_app.learners.online import SEEN, OnlineLearner
from stream_app.pipeline.batch import OriginalRecord, size_of
from stream_app.pipeline.stream import OpenMark, Stream
from stream_app.records import ID_WORDS, Side, ThresholdKind
from stream_app.snapshot.format import Arrays, Columns, by_prefix, named
from stream_app.snapshot.row_headers import headers_of, packed_headers

COSTS = "costs"
"""The column that pending examples have only in a stream with costs."""

_PENDING_COLUMNS = ("ids", "times", "arrivals", "offsets", "fingerprints", "champions", "features")
_ANSWER_COLUMNS = ("scores", "probabilities", "classes")
"""Of pending examples, one of each learner."""

_WAITING_COLUMNS = ("ids", "times", "arrivals", "offsets", "labels", "revisions")
_CLOSED_COLUMNS = (
    "closed_ids",
    "closed_fingerprints",
    "closed_labels",
    "closed_revisions",
    "closed_outcomes",
    "closed_times",
)
EVALUATIONS = "closed_evaluations"
"""The column that closed ids have only with corrections."""

KEPT_COUNTERS = (
    join.Counter.STREAM_TIME,
    join.Counter.ARRIVALS,
    join.Counter.EXAMPLES,
    join.Counter.LABELLED,
    join.Counter.UNLABELLED,
    join.Counter.EVICTED,
    join.Counter.DUPLICATES,
    join.Counter.CLOSED_FIRST,
    join.Counter.CLOSED_NEXT,
    join.Counter.CHAMPION,
    join.Counter.POSITIVES,
    join.Counter.CORRECTED_POSITIVES,
    join.Counter.THRESHOLD_KIND,
    join.Counter.THRESHOLD,
    join.Counter.ADVANCED_BELOW,
)
"""The counters that a snapshot has; the others count slots and buckets of the table."""


_KEPT = np.array(KEPT_COUNTERS)


class StreamState:
    """A stream as a snapshot sees it, `snapshot.Exporting`.

    Args:
        stream: The stream; it must not change while this object is in use.
        has_changed: Whether a record has changed it since the last snapshot.

    Attributes:
        stream: As given.
        packed: Its core as a file, if it was packed together with others (`core_forms`).
    """

    def __init__(self, stream: Stream, *, has_changed: bool = True) -> None:
        self.name = stream.name
        self.packed: bytes | None = None
        self.has_changed = has_changed or stream.is_new
        self.is_new = stream.is_new
        self.amended = frozenset(stream.amended)
        self.stream = stream

    @cached_property
    def _join(self) -> Mapping[str, NDArray[Any]]:
        return self.stream.join.arrays()

    @cached_property
    def _learners(self) -> Sequence[Mapping[str, NDArray[Any]]]:
        return [dict(learner.arrays()) for learner in self.stream.learners]

    @cached_property
    def _pending(self) -> Longs:
        return self._slots(join.SlotState.PENDING)

    @cached_property
    def _arrivals(self) -> Longs:
        arrivals: Longs = self._join["arrivals"][self._pending]
        return arrivals

    def _slots(self, kind: int) -> Longs:
        """Return the slots in a state, `IS_PENDING` or `IS_WAITING`, by arrival."""
        slots = (self._join["states"] == kind).nonzero()[0]
        by: Longs = slots[self._join["arrivals"][slots].argsort(kind="stable")]
        return by

    def core_state(self) -> Arrays:
        """Return all state except the rows of pending examples and closed ids; what is empty is left out."""
        delays = self._join["delays"].nonzero()[0]
        arrays: Columns = {
            "features_count": np.array([self.stream.features]),
            "counters": self._join["counters"][_KEPT],
            "delays": delays,
            "delay_counts": self._join["delays"][delays],
        }
        marks = self.stream.open_marks()
        if marks:
            arrays["marks"] = np.array(marks, np.int64)
        if self.stream.waiting:
            waiting = self._slots(join.SlotState.WAITING)
            arrays |= named("waiting.", {name: self._join[name][waiting] for name in _WAITING_COLUMNS})
            originals = [self.stream.waiting[slot] for slot in waiting.tolist()]
            arrays |= named("originals.", _columns_of(originals))
        if self.stream.drift is not None:
            arrays |= named("drift.", self.stream.drift.arrays())
        if self.stream.preparation is not None:
            arrays |= named("columns.", self.stream.preparation.arrays())
        for number, learner in enumerate(self._learners):
            arrays |= named(f"learner.{number}.", without_seen(learner))
        for number, parts in enumerate(self.stream.figures()):
            for part in parts:
                arrays |= named(f"sums.{number}.", part.arrays())
        return arrays

    def pending_arrivals(self) -> Longs:
        """Return int64, the arrival of each pending example, ascending."""
        return self._arrivals

    def pending_rows(self, arrivals: Longs) -> Arrays:
        """Return the rows of these pending examples, with each learner's prediction and scaled features."""
        slots = self._pending
        if len(arrivals) < len(slots):
            slots = slots[np.searchsorted(self._arrivals, arrivals)]
        rows: Columns = {name: self._join[name][slots] for name in _pending_columns(self._join)}
        rows |= {name: np.ascontiguousarray(self._join[name][:, slots].T) for name in _ANSWER_COLUMNS}
        for number, learner in enumerate(self._learners):
            if SEEN in learner:
                rows[f"{SEEN}.{number}"] = learner[SEEN][slots]
        return rows | (packed_headers(self.stream.passed.of(slots.tolist())) if self.stream.passed else {})

    def closed_span(self) -> tuple[int, int]:
        """Return the number of the first closed id that is remembered, and the number of the next id to close."""
        return self.stream.join.closed_span

    def closed_rows(self, first: int, end: int) -> Arrays:
        """Return `_CLOSED_COLUMNS`, with corrections also `EVALUATIONS`, of the numbers from `first` up to `end`."""
        rows = _ring_rows(first, end, len(self._join["closed_times"]))
        return {name: self._join[name][rows] for name in _closed_columns(self._join)}


def _pending_columns(state: Mapping[str, NDArray[Any] | Span]) -> Sequence[str]:
    return (*_PENDING_COLUMNS, COSTS) if state[COSTS].shape[1] else _PENDING_COLUMNS


def _closed_columns(state: Mapping[str, NDArray[Any] | Span]) -> Sequence[str]:
    return (*_CLOSED_COLUMNS, EVALUATIONS) if state[EVALUATIONS].shape[1] else _CLOSED_COLUMNS


def _ring_rows(first: int, end: int, size: int) -> Longs | slice:
    """Return the rows of closed ids from number `first` up to `end` in a ring of this size."""
    start = first % size if size else 0
    if start + end - first <= size:
        return slice(start, start + end - first)
    return np.arange(first, end) % size


def counter_of(core: Arrays, which: int) -> int:
    """Return one of `KEPT_COUNTERS`, given its number in the join, such as `join.LABELLED`."""
    return int(np.asarray(core["counters"])[KEPT_COUNTERS.index(which)])


def load_stream(stream: Stream, core: Columns, pending: Columns, closed: Columns) -> None:
    """Load the state of a stream from a snapshot.

    Args:
        stream: A new stream whose number of features is fixed.
        core: All state except the rows that follow.
        pending: The rows of all pending examples, by arrival.
        closed: The rows of all remembered closed ids, by number.

    Raises:
        StateError: The arrays do not belong to such a stream.
        KeyError: An array is missing.
    """
    parts = by_prefix(core)
    waiting = parts.get("waiting", {})
    _check(stream, core, pending, waiting, closed)
    pending_rows, waiting_rows = len(pending["ids"]), len(waiting["ids"]) if waiting else 0
    stream.make_room(pending_rows + waiting_rows)
    stream.join.reserve(pending_rows + waiting_rows, len(closed["closed_ids"]))
    state = stream.join.arrays()
    state["counters"][_KEPT] = core["counters"]
    state["delays"][core["delays"]] = core["delay_counts"]
    for name in _pending_columns(state):
        state[name][:pending_rows] = pending[name]
    for name in _ANSWER_COLUMNS:
        state[name][:, :pending_rows] = pending[name].T
    first, end = (counter_of(core, which) for which in (join.Counter.CLOSED_FIRST, join.Counter.CLOSED_NEXT))
    rows = _ring_rows(first, end, len(state["closed_times"]))
    for name in _closed_columns(state):
        state[name][rows] = closed[name]
    if waiting:
        originals = _originals_of(parts["originals"])
        held = slice(pending_rows, pending_rows + waiting_rows)
        for name in _WAITING_COLUMNS:
            state[name][held] = waiting[name]
        state["fingerprints"][held] = list(map(size_of, originals))
        stream.waiting = dict(zip(range(held.start, held.stop), originals, strict=True))
    stream.join.index(pending_rows, waiting_rows)
    stream.passed.load(headers_of(pending, pending_rows))
    if "marks" in core:
        stream.take_marks(OpenMark(Side(side), time_ms) for side, time_ms in core["marks"].tolist())
    _load_parts(stream, parts, pending)


def _load_parts(stream: Stream, parts: Mapping[str, Columns], pending: Columns) -> None:
    """Load the state of all that is not the join."""
    if stream.drift is not None:
        stream.drift.load(parts["drift"])
    if stream.preparation is not None:
        stream.preparation.load(parts["columns"])
    for number, learner in enumerate(stream.learners):
        names = learner.array_names if isinstance(learner, OnlineLearner) else list(learner.arrays())
        learner.load(_learner_arrays(names, parts.get(f"learner.{number}", {}), pending, number))
    for number, figures in enumerate(stream.figures()):
        for figure in figures:
            figure.load(parts[f"sums.{number}"])


def without_seen(arrays: Arrays) -> Columns:
    """Return a learner's state without the scaled features of pending examples."""
    return {name: array for name, array in arrays.items() if name != SEEN}


def learner_state(mine: Collection[str], loaded: Columns, seen: Columns) -> Columns:
    """Return all arrays of a learner in its order: the loaded arrays, and the scaled features of pending examples.

    Raises:
        StateError: They are not the arrays of such a learner.
    """
    arrays = loaded | seen
    if arrays.keys() != set(mine):
        raise StateError(f"a learner's state has {', '.join(loaded)}; this one needs {', '.join(mine)}")
    return {name: arrays[name] for name in mine}


def _learner_arrays(mine: Collection[str], loaded: Columns, pending: Columns, number: int) -> Columns:
    """Return a learner's arrays; its scaled features go to the slots 0, 1, ... of the loaded pending examples."""
    return learner_state(mine, loaded, {SEEN: pending[f"{SEEN}.{number}"]} if SEEN in mine else {})


def _check(stream: Stream, core: Columns, pending: Columns, waiting: Columns, closed: Columns) -> None:
    """Check all that compiled code takes for granted: shapes, dtypes, and every number that is an index."""
    state, learners = stream.join.spans(), len(stream.learner_names)
    shapes = {"counters": (len(KEPT_COUNTERS),), "delays": core["delays"].shape, "delay_counts": core["delays"].shape}
    for name, shape in shapes.items():
        _same(name, core[name], (core[name].dtype == np.int64) and core[name].shape == shape)
    for columns, names in (
        (pending, _pending_columns(state)),
        (waiting, _WAITING_COLUMNS if waiting else ()),
        (closed, _closed_columns(state)),
    ):
        rows = [len(columns[name]) for name in names[:1]]
        for name in names:
            array, span = columns[name], state[name]
            _same(name, array, array.dtype == span.dtype and array.shape == (*rows, *span.shape[1:]))
    for name, dtype in zip(_ANSWER_COLUMNS, (np.float32, np.float32, np.int8), strict=True):
        _same(
            name, pending[name], pending[name].shape == (len(pending["ids"]), learners) and pending[name].dtype == dtype
        )
    for name, array in pending.items():
        if name.startswith(f"{SEEN}."):
            _same(name, array, array.shape[:1] == (len(pending["ids"]),))
    for ids in (pending["ids"], waiting["ids"] if waiting else pending["ids"], closed["closed_ids"]):
        _same("ids", ids, int(ids[:, 0].max(initial=0)) <= 8 * (ID_WORDS - 1))
    champions, champion = pending["champions"], counter_of(core, join.Counter.CHAMPION)
    _same("counters", core["counters"], 0 <= champion < learners)
    _same("champions", champions, 0 <= champions.min(initial=0) <= champions.max(initial=0) < learners)
    first, end = counter_of(core, join.Counter.CLOSED_FIRST), counter_of(core, join.Counter.CLOSED_NEXT)
    _same("counters", core["counters"], first >= 0 and end - first == len(closed["closed_ids"]))
    _same("counters", core["counters"], counter_of(core, join.Counter.THRESHOLD_KIND) in {*ThresholdKind})
    bins = core["delays"]
    _same("delays", bins, bins.ndim == 1 and 0 <= bins.min(initial=0) <= bins.max(initial=0) < state["delays"].shape[0])


def _same(name: str, array: NDArray[Any], right: bool) -> None:
    if not right:
        raise StateError(f"{name}: {array.dtype} {list(array.shape)} does not fit this stream")


# Waiting labels, as they came -----------------------------------------------------------------------------------------

NONE = -1
"""The length that stands for a null."""


def _columns_of(records: Sequence[OriginalRecord]) -> Columns:
    """Return records in columns: all their bytes, one value after the other, and the lengths."""
    pieces: list[bytes | None] = []
    for record in records:
        pieces += [record.key, record.value]
        for name, value in record.headers:
            pieces += [name.encode(), value]
    return {
        "sides": np.array([int(record.side) for record in records], np.uint8),
        "offsets": np.array([record.offset for record in records], np.int64),
        "timestamps": np.array([record.timestamp_ms for record in records], np.int64),
        "headers": np.array([len(record.headers) for record in records], np.int64),
        "lengths": np.array([NONE if piece is None else len(piece) for piece in pieces], np.int64),
        "bytes": np.frombuffer(b"".join(piece for piece in pieces if piece), np.uint8),
    }


def _originals_of(columns: Mapping[str, NDArray[Any]]) -> list[OriginalRecord]:
    """Return the records of columns that `_columns_of` made.

    Raises:
        StateError: The lengths do not fit the bytes.
    """
    lengths = columns["lengths"].tolist()
    held = sum(length for length in lengths if length > 0)
    wanted = int(sum(2 + 2 * count for count in columns["headers"].tolist()))
    if held != len(columns["bytes"]) or wanted != len(lengths) or min(lengths, default=0) < NONE:
        raise StateError("waiting labels: the lengths do not match the bytes")
    pieces = iter(_cut(columns["bytes"], lengths))
    records = []
    names = ("sides", "offsets", "timestamps", "headers")
    for side, offset, timestamp_ms, headers in zip(*(columns[name].tolist() for name in names), strict=True):
        key, value = next(pieces), next(pieces)
        named = [((next(pieces) or b"").decode(), next(pieces)) for _ in range(headers)]
        records.append(OriginalRecord(Side(side), offset, timestamp_ms, key, value, named))
    return records


def _cut(content: Bytes, lengths: Sequence[int]) -> list[bytes | None]:
    start, pieces = 0, []
    whole = content.tobytes()
    for length in lengths:
        pieces.append(None if length == NONE else whole[start : start + length])
        start += max(0, length)
    return pieces
