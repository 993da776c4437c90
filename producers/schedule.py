"""Which record of a plan is sent when: columns of numbers, no bytes.

All streams begin at the same event time, except streams with times of their own, which keep their distances. Each ends
with a pair of `advance` marks, one on either topic, after all its records; their `time_ms` and timestamp are the
stream's last event time. A pair closes at most `join.max_closings_per_record` examples (100,000) that still wait.

The rows of a stream are made piece by piece and sorted outside of memory, so a replay may have any length.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.producers.draws import Draws
from stream_app.producers.external_sort import ExternalSort, Rows
from stream_app.producers.faults import FURTHEST_EVENTS, LATEST_EVENTS
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.records import Side

PIECE_EXAMPLES = 1 << 17
"""Examples whose rows are made at a time."""

DATA, GARBAGE, MARK = range(3)
"""The content of a row of a schedule."""

_ROW = np.dtype(
    [
        ("due", np.int64),
        ("time", np.int64),
        ("number", np.int64),
        ("stream", np.int16),
        ("side", np.int8),
        ("part", np.int8),
        ("content", np.int8),
        ("label", np.int8),
        ("repeat", np.bool_),
    ]
)
"""A row of a schedule as it is sorted; `part` is the place in `_StreamScheduler.piece`."""

_ORDER = ("due", "side", "stream", "part", "number")
"""At equal times examples come first, then streams in the plan's order."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Records in the order of sending, in columns `[n]`; times count from the start of the replay.

    Attributes:
        times: int64, event time in milliseconds.
        dues: int64, when the record is sent, in milliseconds of event time.
        streams: int16, index into the plan's streams.
        sides: int8, `Side`.
        contents: int8: `DATA`, `GARBAGE` or `MARK`.
        numbers: int64, the number of the example within its stream; -1 for a mark, less by the number of its lane.
        labels: int8, the class that a label carries; -1 elsewhere.
        repeats: bool, whether the record repeats or contradicts an earlier one.
        extent: The extent of the whole replay.
    """

    times: NDArray[np.int64]
    dues: NDArray[np.int64]
    streams: NDArray[np.int16]
    sides: NDArray[np.int8]
    contents: NDArray[np.int8]
    numbers: NDArray[np.int64]
    labels: NDArray[np.int8]
    repeats: NDArray[np.bool_]
    extent: "Extent"

    def __len__(self) -> int:
        return len(self.times)

    @property
    def span_ms(self) -> int:
        """The last event time of the replay."""
        return self.extent.span_ms

    @property
    def ends_ms(self) -> tuple[int, ...]:
        """The last event time of each stream."""
        return self.extent.ends_ms


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a replay sends, and over which time.

    Attributes:
        records: The number of records, marks included.
        ends_ms: The last event time of each stream.
        dropped: The numbers of the dropped examples of each stream, ascending.
    """

    records: int
    ends_ms: tuple[int, ...]
    dropped: tuple[NDArray[np.int64], ...]

    @property
    def span_ms(self) -> int:
        """The last event time."""
        return max(self.ends_ms)


class _Rows(NamedTuple):
    """Rows of one stream, as in `Schedule`; `dues` are twice the milliseconds, plus 1 for records that were moved.

    Therefore, a moved record comes after the records that are due at the same millisecond.
    """

    times: NDArray[np.int64]
    dues: NDArray[np.int64]
    sides: NDArray[np.int8]
    contents: NDArray[np.int8]
    numbers: NDArray[np.int64]
    labels: NDArray[np.int8]
    repeats: NDArray[np.bool_]


def _make_rows(
    times: NDArray[np.int64],
    side: Side,
    numbers: NDArray[np.int64],
    labels: NDArray[np.int8] | None = None,
    *,
    content: int = DATA,
) -> _Rows:
    n = len(times)
    return _Rows(
        times=times,
        dues=2 * times,
        sides=np.full(n, side, np.int8),
        contents=np.full(n, content, np.int8),
        numbers=numbers,
        labels=np.full(n, -1, np.int8) if labels is None else labels,
        repeats=np.full(n, fill_value=False),
    )


class _StreamScheduler:
    """The rows of one stream. Each purpose has a separate sequence of random numbers, indexed by example."""

    def __init__(self, plan: StreamPlan, seed: int, origin_ms: int) -> None:
        self._plan = plan
        self._seed = seed
        self._origin_ms = origin_ms
        self._every: NDArray[np.int64] = np.empty(0, np.int64)
        self._last_ms = self._last_due = -(2**63)

    def _draws(self, purpose: str) -> Draws:
        return Draws("replay", self._seed, self._plan.stream, purpose)

    def _uniforms(self, purpose: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the random numbers of these examples of the piece."""
        first = int(self._every[0])
        return self._draws(purpose).uniforms(first, len(self._every))[numbers - first]

    def _chosen(self, purpose: str, share: float, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each of these examples whether it is among a random share."""
        return self._uniforms(purpose, numbers) < share if share else np.zeros(len(numbers), np.bool_)

    def _delays_ms(self, purpose: str, numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return for each of these examples a time of 1 to `most` events, in milliseconds."""
        return (1 + np.floor(self._uniforms(purpose, numbers) * most).astype(np.int64)) * self._plan.interval

    def piece(self, first: int, last: int) -> tuple[list[_Rows], NDArray[np.int64]]:
        """Return the rows of the examples first .. last - 1, and the numbers of those that are dropped.

        The rows are in parts, and in each part in the order of their numbers.
        """
        plan, faults = self._plan, self._plan.faults
        self._every = every = np.arange(first, last)
        times = plan.times_ms(every, self._origin_ms)
        classes = plan.classes(every)
        label_times = plan.label_times_ms(every, self._origin_ms)
        if label_times is None:
            label_times = times + plan.delay.milliseconds(self._draws("delay"), classes, plan.interval, first)
        is_dropped = self._chosen("dropped", faults.dropped, every)
        comes = ~self._chosen("unlabelled", plan.unlabelled_share, every) & (classes >= 0)

        examples = self._moved(_make_rows(times[~is_dropped], Side.EXAMPLES, every[~is_dropped]), "example")
        labels = self._moved(_make_rows(label_times[comes], Side.LABELS, every[comes], classes[comes]), "label")
        parts = [
            examples,
            labels,
            self._repeated(examples, "example again", faults.duplicates),
            self._repeated(labels, "label again", faults.duplicates),
            self._contradicted(self._repeated(labels, "contradiction", faults.conflicting_labels)),
            *self._garbage(times, every),
        ]
        self._last_ms = max(self._last_ms, int(times[-1]), *(int(part.times.max(initial=-1)) for part in parts))
        self._last_due = max(self._last_due, 2 * int(times[-1]), *(int(part.dues.max(initial=-1)) for part in parts))
        return parts, every[is_dropped]

    def _moved(self, rows: _Rows, what: str) -> _Rows:
        """Return the rows, of which some are sent late; their event time stays."""
        if not self._plan.faults.out_of_order:
            return rows
        is_moved = self._chosen(f"{what} moved", self._plan.faults.out_of_order, rows.numbers)
        late = 2 * self._delays_ms(f"{what} moved by", rows.numbers, FURTHEST_EVENTS) + 1
        return rows._replace(dues=np.where(is_moved, rows.dues + late, rows.dues))

    def _repeated(self, rows: _Rows, purpose: str, share: float) -> _Rows:
        """Return a copy of some of the rows, with a later time and in any case sent after the first."""
        picked = np.flatnonzero(self._chosen(purpose, share, rows.numbers))
        chosen = _Rows._make(column[picked] for column in rows)
        if not len(picked):
            return chosen
        times = chosen.times + self._delays_ms(f"{purpose}, later by", chosen.numbers, LATEST_EVENTS)
        return chosen._replace(
            times=times, dues=np.maximum(2 * times, chosen.dues + 1), repeats=np.ones(len(picked), np.bool_)
        )

    @staticmethod
    def _contradicted(rows: _Rows) -> _Rows:
        return rows._replace(labels=(1 - rows.labels).astype(np.int8))

    def _garbage(self, times: NDArray[np.int64], every: NDArray[np.int64]) -> list[_Rows]:
        if not self._plan.faults.garbage:
            return []
        chosen = self._chosen("garbage", self._plan.faults.garbage, every)
        on_labels = self._uniforms("garbage side", every) < 0.5
        sides = ((Side.EXAMPLES, chosen & ~on_labels), (Side.LABELS, chosen & on_labels))
        return [_make_rows(times[here], side, every[here], content=GARBAGE) for side, here in sides]

    def marks(self) -> list[_Rows]:
        """Return the closing pair of marks of each lane, after all pieces and not before a dropped last example."""
        lanes = len(self._plan.names)
        ends, dues = np.full(lanes, self._last_ms), np.full(lanes, self._last_due + 1)
        return [_make_rows(ends, side, -1 - np.arange(lanes), content=MARK)._replace(dues=dues) for side in Side]

    @property
    def end_ms(self) -> int:
        """The last event time of the pieces so far."""
        return self._last_ms


class SortedSchedule:
    """All records of a plan in the order of sending, of which a part is in memory at a time.

    Attributes:
        extent: The extent of the replay.
    """

    def __init__(self, sort: ExternalSort, extent: Extent) -> None:
        self._sort = sort
        self.extent = extent

    def chunks(self, most: int) -> Iterator[Schedule]:
        """Yield the records, in chunks of at most `most`. May be called once."""
        for block in self._sort.blocks():
            for first in range(0, len(block), most):
                yield _columns(block[first : first + most], self.extent)


@contextmanager
def sorted_schedule(
    plan: Plan, piece_examples: int = PIECE_EXAMPLES, run_rows: int | None = None
) -> Iterator[SortedSchedule]:
    """Make and sort the records of a plan; its temporary file ends with the context.

    Args:
        plan: What to send.
        piece_examples: Examples whose rows are made at a time.
        run_rows: Most rows that are sorted in memory; None: as many as `ExternalSort` holds.
    """
    with ExternalSort(_ROW, _ORDER, run_rows) as sort:
        yield SortedSchedule(sort, _make_schedule(plan, sort, piece_examples))


def _make_schedule(plan: Plan, sort: ExternalSort | None, piece_examples: int = PIECE_EXAMPLES) -> Extent:
    """Add the records of a plan to a sort, or only measure them."""
    records, ends_ms, dropped = 0, [], []
    for index, stream in enumerate(plan.streams):
        scheduler = _StreamScheduler(stream, plan.seed, plan.origin_ms)
        mine = [np.empty(0, np.int64)]
        for first in range(0, stream.events, piece_examples):
            parts, missing = scheduler.piece(first, min(first + piece_examples, stream.events))
            mine.append(missing)
            records += _add(sort, parts, index)
        records += _add(sort, scheduler.marks(), index)
        ends_ms.append(scheduler.end_ms)
        dropped.append(np.concatenate(mine))
    return Extent(records, tuple(ends_ms), tuple(dropped))


def _add(sort: ExternalSort | None, parts: Sequence[_Rows], stream: int) -> int:
    """Add the rows of a piece to a sort; return their number."""
    for number, part in enumerate(parts):
        if sort is None:
            break
        rows = np.empty(len(part.times), _ROW)
        for name, column in zip(("time", "due", "side", "content", "number", "label", "repeat"), part, strict=True):
            rows[name] = column
        rows["stream"], rows["part"] = stream, number
        sort.add(rows)
    return sum(len(part.times) for part in parts)


def _columns(rows: Rows, extent: Extent) -> Schedule:
    return Schedule(
        times=rows["time"],
        dues=rows["due"] // 2,
        streams=rows["stream"],
        sides=rows["side"],
        contents=rows["content"],
        numbers=rows["number"],
        labels=rows["label"],
        repeats=rows["repeat"],
        extent=extent,
    )


def schedule(plan: Plan) -> Schedule:
    """Return the complete schedule of a plan, in memory."""
    with sorted_schedule(plan, run_rows=2**62) as made:
        (whole,) = made.chunks(2**62)
        return whole


def extent_of(plan: Plan) -> Extent:
    """Return how much a plan sends, and over which time, without sorting its records."""
    return _make_schedule(plan, None)


def span_ms(plan: Plan) -> int:
    """Return the event time from the first record of a plan to the last, in milliseconds."""
    return extent_of(plan).span_ms
