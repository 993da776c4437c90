"""Where the records of a batch go: their streams, which streams are stopped, and what the breaker counts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.steps.route import RoutedColumns
from stream_app.records import Bytes, Integers, Kind, Longs, MarkKind, Reason, Side, stream_of_key

NUMBERS = frozenset(map(int, Reason))

_IS_MALFORMED = np.array([number in NUMBERS and Reason(number).malformed for number in range(256)])
"""bool `[256]`, by number of a reason: whether the record alone is the cause."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The records of one input of a batch, as the breaker counts them, n rows in offset order.

    Attributes:
        streams: int32 `[n]`, the task's number of the stream that the value names, or else the key; `known` plus an
            index into `others` for a configured stream without a readable record so far; -1: the record counts for no
            stream, because it names no such stream, its stream is stopped, or it has no value.
        malformed: bool `[n]`, whether the record alone is the cause that it became a dead letter.
        known: The number of streams that the task has.
        others: Names of the configured streams with numbers from `known` on.
    """

    streams: Integers
    malformed: NDArray[np.bool_]
    known: int
    others: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.streams)

    def name_of(self, number: int, names: Sequence[str]) -> str:
        """Return the name of a stream by its number; `names` are the task's streams."""
        return names[number] if number < self.known else self.others[number - self.known]


class Routed(NamedTuple):
    """A batch after its records were routed.

    Attributes:
        streams: int32 `[n]`, the stream of each position; -1: a dead letter.
        judged: By `Side`, what the breaker counts.
        stopped: The reasons of the streams that are stopped after the batch, by stream, the oldest stop first.
        resumed: The streams that a `resume` mark of this batch lets continue.
    """

    streams: Integers
    judged: tuple[Judged, Judged]
    stopped: Mapping[str, str]
    resumed: Sequence[str] = ()


def columns_to_route(batch: InputBatch, numbers_of: Callable[[Sequence[str]], Integers]) -> RoutedColumns:
    """Return the columns that decide the streams; `numbers_of` returns the task's numbers of names, -1: unknown."""
    one, two = batch.decoded
    return RoutedColumns(
        kinds=(one.kinds, two.kinds),
        reasons=(one.reasons, two.reasons),
        streams=(one.streams, two.streams),
        names=(numbers_of(one.stream_names), numbers_of(two.stream_names)),
        known=one.known,
        feature_counts=one.feature_counts,
    )


def stopped_until(
    batch: InputBatch, streams: int, stopped: Collection[str], opened: Integers, number_of: Callable[[str], int]
) -> Longs:
    """Return int64 `[streams]`, the position before which each stream is stopped; 0: it is not stopped.

    A stopped stream continues with its first `resume` mark that is well-formed and not earlier than the stream itself.

    Args:
        batch: The batch.
        streams: The number of streams of the task.
        stopped: Names of the stopped streams.
        opened: int32 `[streams]`, the position from which on each stream exists.
        number_of: Returns the number of a stream by its name; -1: unknown.
    """
    until = np.zeros(streams, np.int64)
    numbers = {number for name in stopped if (number := number_of(name)) >= 0}
    until[list(numbers)] = len(batch.times)
    for position, mark in batch.marks() if numbers else ():
        number = number_of(mark.stream)
        if mark.kind is MarkKind.RESUME and position < until[number] and number in numbers:
            side, row = batch.merged.sides[position], batch.merged.rows[position]
            is_sound = batch.decoded[side].kinds[row] == Kind.MARK and batch.times[position] > 0
            if is_sound and position >= opened[number]:
                until[number] = position
    return until


def judged(
    batch: InputBatch,
    reasons: Bytes,
    until: Longs,
    numbers: tuple[Integers, Integers],
    number_of: Callable[[str], int],
    configured: Collection[str],
    stopped: Collection[str],
) -> tuple[Judged, Judged]:
    """Return what the breaker counts of a batch, by `Side`.

    Args:
        batch: The batch.
        reasons: uint8 `[n]`, the `Reason` of each position that is a dead letter, else 0.
        until: The position before which each stream is stopped, see `stopped_until`.
        numbers: By `Side`, the task's numbers of the streams that the decoder did not know; -1: unknown.
        number_of: Returns the number of a stream by its name; -1: unknown.
        configured: Names of the configured streams.
        stopped: Names of the stopped streams.
    """
    known = len(until)
    others: dict[str, int] = {}

    def named(name: str) -> int:
        number = number_of(name)
        if number < 0 and name in configured and name not in stopped:
            number = known + others.setdefault(name, len(others))
        return number

    found = []
    for side in Side:
        decoded, raw = batch.decoded[side], batch.raw[side]
        positions = np.flatnonzero(batch.merged.sides == side)  # rows keep their order
        malformed = _IS_MALFORMED[reasons[positions]]
        streams = decoded.streams
        if len(decoded.stream_names):
            new = streams >= decoded.known
            own = [
                number if number >= 0 else named(name)
                for name, number in zip(decoded.stream_names, numbers[side].tolist(), strict=True)
            ]
            streams = streams.copy()
            streams[new] = np.array(own, np.int32)[streams[new] - decoded.known]
        nameless = np.flatnonzero(decoded.streams < 0)
        if len(nameless):
            streams = streams.copy()
            has_value = raw.values.lengths[nameless] >= 0  # a record without a value says nothing about its producer
            by_key: dict[bytes | None, int] = {}
            for row in nameless[has_value].tolist():
                key = raw.keys[row]
                if key not in by_key:
                    by_key[key] = named(stream_of_key(key))
                streams[row] = by_key[key]
        if until.any():
            is_known = (streams >= 0) & (streams < known)
            is_stopped = np.zeros(len(streams), np.bool_)
            is_stopped[is_known] = positions[is_known] < until[streams[is_known]]
            streams = np.where(is_stopped, np.int32(-1), streams)
        found.append(Judged(streams, malformed, known))
    one, two = found
    names = tuple(others)
    return Judged(one.streams, one.malformed, known, names), Judged(two.streams, two.malformed, known, names)
