"""Which record of a plan is sent when: columns of numbers, no bytes.

All streams begin at the same event time. Each ends with a pair of `advance` marks, one on either topic, after all its
records; their `time_ms` and timestamp are the stream's last event time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import ConfigurationError
from stream_app.producers.draws import Draws
from stream_app.producers.faults import FURTHEST_EVENTS, LATEST_EVENTS
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.records import Side

RETENTION_SHARE = 0.9
"""The share of the age that the topics accept and keep, which a replay may span; the rest remains for reading it."""

DATA, GARBAGE, MARK = range(3)
"""The content of a row of a schedule."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every record of a replay in the order of sending, in columns `[n]`; times count from the start of the replay.

    Attributes:
        times: int64, event time in milliseconds.
        dues: int64, when the record is sent, in milliseconds of event time.
        streams: int16, index into the plan's streams.
        sides: int8, `Side`.
        contents: int8: `DATA`, `GARBAGE` or `MARK`.
        numbers: int64, the number of the example within its stream; -1 for a mark.
        labels: int8, the class that a label carries; -1 elsewhere.
        repeats: bool, whether the record repeats or contradicts an earlier one.
        span_ms: The last event time.
        ends_ms: The last event time of each stream.
        dropped: The numbers of the dropped examples of each stream, ascending.
    """

    times: NDArray[np.int64]
    dues: NDArray[np.int64]
    streams: NDArray[np.int16]
    sides: NDArray[np.int8]
    contents: NDArray[np.int8]
    numbers: NDArray[np.int64]
    labels: NDArray[np.int8]
    repeats: NDArray[np.bool_]
    span_ms: int
    ends_ms: tuple[int, ...]
    dropped: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.times)


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


def _concatenate(parts: Sequence[_Rows]) -> _Rows:
    return _Rows._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class _StreamScheduler:
    """The rows of one stream. Each purpose has a separate sequence of random numbers, indexed by example."""

    def __init__(self, plan: StreamPlan, seed: int) -> None:
        self._plan = plan
        self._seed = seed

    def _draws(self, purpose: str) -> Draws:
        return Draws("replay", self._seed, self._plan.stream, purpose)

    def _chosen(self, purpose: str, share: float) -> NDArray[np.bool_]:
        """Return for each example whether it is among a random share."""
        if not share:
            return np.zeros(self._plan.events, np.bool_)
        return self._draws(purpose).uniforms(0, self._plan.events) < share

    def _delays_ms(self, purpose: str, numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return for each of these examples a time of 1 to `most` events, in milliseconds."""
        events = 1 + np.floor(self._draws(purpose).uniforms(0, self._plan.events) * most).astype(np.int64)
        return events[numbers] * self._plan.interval

    def rows(self) -> tuple[_Rows, NDArray[np.int64]]:
        """Return the rows of the stream in no particular order, and the numbers of the examples that were dropped."""
        plan, faults = self._plan, self._plan.faults
        every = np.arange(plan.events)
        times = every * plan.interval
        classes = np.tile(plan.data.labels, plan.loops)
        label_times = times + plan.delay.milliseconds(self._draws("delay"), classes, plan.interval)
        dropped = self._chosen("dropped", faults.dropped)
        comes = ~self._chosen("unlabelled", plan.unlabelled_share)

        sent, labelled = every[~dropped], every[comes]
        examples = self._moved(_make_rows(times[sent], Side.EXAMPLES, sent), "example")
        labels = self._moved(_make_rows(label_times[labelled], Side.LABELS, labelled, classes[labelled]), "label")
        parts = [
            examples,
            labels,
            self._repeated(examples, "example again", faults.duplicates),
            self._repeated(labels, "label again", faults.duplicates),
            self._contradicted(self._repeated(labels, "contradiction", faults.conflicting_labels)),
            self._garbage(times, every),
        ]
        rows = _concatenate(parts)
        return _concatenate([rows, self._marks(rows, last_ms=int(times[-1]))]), every[dropped]

    def _moved(self, rows: _Rows, what: str) -> _Rows:
        """Return the rows, of which some are sent late; their event time stays."""
        if not self._plan.faults.out_of_order:
            return rows
        is_moved = self._chosen(f"{what} moved", self._plan.faults.out_of_order)[rows.numbers]
        late = 2 * self._delays_ms(f"{what} moved by", rows.numbers, FURTHEST_EVENTS) + 1
        return rows._replace(dues=np.where(is_moved, rows.dues + late, rows.dues))

    def _repeated(self, rows: _Rows, purpose: str, share: float) -> _Rows:
        """Return a copy of some of the rows, with a later time and in any case sent after the first."""
        picked = np.flatnonzero(self._chosen(purpose, share)[rows.numbers])
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

    def _garbage(self, times: NDArray[np.int64], every: NDArray[np.int64]) -> _Rows:
        chosen = every[self._chosen("garbage", self._plan.faults.garbage)]
        on_labels = self._draws("garbage side").uniforms(0, len(every))[chosen] < 0.5
        sides = ((Side.EXAMPLES, chosen[~on_labels]), (Side.LABELS, chosen[on_labels]))
        return _concatenate([_make_rows(times[numbers], side, numbers, content=GARBAGE) for side, numbers in sides])

    @staticmethod
    def _marks(rows: _Rows, last_ms: int) -> _Rows:
        """Return the closing pair of marks, after everything else and not before a dropped last example."""
        end, due = rows.times.max(initial=last_ms), rows.dues.max(initial=2 * last_ms)
        return _concatenate(
            [
                _make_rows(np.array([end]), side, np.array([-1]), content=MARK)._replace(dues=np.array([due + 1]))
                for side in Side
            ]
        )


def schedule(plan: Plan) -> Schedule:
    """Return the schedule of a plan. At equal times examples come first, then streams in the plan's order."""
    made = [_StreamScheduler(stream, plan.seed).rows() for stream in plan.streams]
    rows = _concatenate([part for part, _ in made])
    streams = np.repeat(np.arange(len(made), dtype=np.int16), [len(part.times) for part, _ in made])
    order = np.lexsort((streams, rows.sides, rows.dues))
    return Schedule(
        times=rows.times[order],
        dues=rows.dues[order] // 2,
        streams=streams[order],
        sides=rows.sides[order],
        contents=rows.contents[order],
        numbers=rows.numbers[order],
        labels=rows.labels[order],
        repeats=rows.repeats[order],
        span_ms=int(rows.times.max()),
        ends_ms=tuple(int(part.times.max()) for part, _ in made),
        dropped=tuple(dropped for _, dropped in made),
    )


def span_ms(plan: Plan) -> int:
    """Return the event time from the first record of a plan to the last, in milliseconds."""
    return schedule(plan).span_ms


_ACCEPTED = "the topics accept and keep (message.timestamp.before.max.ms, retention.ms)"


def fit_to_retention(plan: Plan, retention_ms: int, now_ms: int = 0) -> Plan:
    """Return the plan with a span that the topics keep: halve the intervals that were not asked for until it fits.

    Args:
        plan: What to send.
        retention_ms: How old a record may be that both topics accept and keep; negative: of any age.
        now_ms: The time.

    Raises:
        ConfigurationError: The plan does not fit with any interval, or begins too early.
    """
    if plan.start_ms is not None and 0 <= retention_ms < now_ms - plan.start_ms:
        raise ConfigurationError(
            f"--start-ms {plan.start_ms}: that is {_duration(now_ms - plan.start_ms)} ago; {_ACCEPTED} records up to "
            f"{_duration(retention_ms)} old. For history, create them with `areba topics create --retention`"
        )
    longest = int(retention_ms * RETENTION_SHARE)
    span = span_ms(plan)
    while retention_ms >= 0 and span > longest:
        free = [stream.interval_ms is None and stream.interval > 1 for stream in plan.streams]
        if not any(free):
            raise ConfigurationError(
                f"the streams span {_duration(span)} of event time; {_ACCEPTED} records up to"
                f" {_duration(retention_ms)} old, of which a replay may take {RETENTION_SHARE:.0%}:"
                " lower --interval-ms, --label-delay, --limit or --loops"
            )
        streams = (
            replace(stream, data=replace(stream.data, interval_ms=stream.interval // 2)) if halve else stream
            for stream, halve in zip(plan.streams, free, strict=True)
        )
        plan = replace(plan, streams=tuple(streams))
        span = span_ms(plan)
    return plan


def _duration(milliseconds: int) -> str:
    for unit, length in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / 1000:.1f} seconds"
