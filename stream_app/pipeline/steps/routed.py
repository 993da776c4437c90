"""Where the records of a batch go: their streams, which streams are stopped, and what the breaker counts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Integers, Longs
from stream_app.jit.compiler import compiled, compiled_without_refcounts
from stream_app.join.input import JoinInput
from stream_app.pipeline.batch import InputBatch
from stream_app.records import Kind, Mark, MarkKind, Reason, Side, stream_of_key

NUMBERS = frozenset(map(int, Reason))

_IS_MALFORMED = np.array([number in NUMBERS and Reason(number).malformed for number in range(256)])
"""bool `[256]`, by number of a reason: whether the record alone is the cause."""


_DATA = int(Kind.DATA)
_MALFORMED = int(Kind.MALFORMED)
_TOMBSTONE = int(Kind.TOMBSTONE)
_WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)
_BAD_TIME = int(Reason.BAD_TIME)
_UNKNOWN_STREAM = int(Reason.UNKNOWN_STREAM)
_STREAM_STOPPED = int(Reason.STREAM_STOPPED)


@dataclass(frozen=True, slots=True)
class Judged:
    """The records of one input of a batch, as the breaker counts them, n rows in offset order.

    Attributes:
        streams: int32 `[n]`, the task's number of the stream that the value names, or else the key; `known` plus an
            index into `others` for a configured stream without a readable record so far; -1: the record counts for no
            stream, because it names no such stream, its stream is stopped, or it is a tombstone.
        malformed: bool `[n]`, whether the record alone is the cause that it became a dead letter.
        known: The number of streams that the task has.
        others: Names of the configured streams with numbers from `known` on.
        tombstones: How many of the records are tombstones.
    """

    streams: Integers
    malformed: NDArray[np.bool_]
    known: int
    others: Sequence[str] = ()
    tombstones: int = 0

    def __len__(self) -> int:
        return len(self.streams)

    def name_of(self, number: int, names: Sequence[str]) -> str:
        """Return the name of a stream by its number; `names` are the task's streams."""
        return names[number] if number < self.known else self.others[number - self.known]


class Routed(NamedTuple):
    """A batch after its records were routed.

    Attributes:
        streams: int32 `[n]`, the stream of each position; -1: a dead letter or a tombstone.
        judged: By `Side`, what the breaker counts.
        stopped: The reasons of the streams that are stopped after the batch, by stream, the oldest stop first.
        resumed: The streams that a `resume` mark of this batch lets continue.
    """

    streams: Integers
    judged: tuple[Judged, Judged]
    stopped: Mapping[str, str]
    resumed: Sequence[str] = ()


class _Columns(NamedTuple):
    """The columns that decide the stream of a record; each pair has the examples' column first.

    Attributes:
        kinds: uint8, `Kind`.
        reasons: uint8, `Reason` where malformed.
        streams: int32, the decoder's number of the stream; -1 if the value does not name it.
        names: int32, the task's number of each stream that the decoder did not know; -1: the task does not know it
            either. Entry k belongs to the decoder's number `known + k`.
        known: How many streams the decoder knew; their numbers are the task's.
        feature_counts: int32, features of each example; `COLUMNS` if it has values by column.
    """

    kinds: tuple[Bytes, Bytes]
    reasons: tuple[Bytes, Bytes]
    streams: tuple[Integers, Integers]
    names: tuple[Integers, Integers]
    known: int
    feature_counts: Integers


def route_records(
    batch: InputBatch,
    numbers: tuple[Integers, Integers],
    opened: Integers,
    stopped: Longs,
    dimensions: Integers,
    max_features: int,
) -> tuple[Integers, Bytes]:
    """Find the stream of each record.

    Args:
        batch: The batch.
        numbers: By `Side`, int32, the task's numbers of the streams that the decoder did not know; -1: unknown.
        opened: int32 `[streams]`, the position from which on each stream exists.
        stopped: int64 `[streams]`, the position before which each stream is stopped.
        dimensions: int32 `[streams]`, features of each stream, `COLUMNS` if it has columns; changed in place: the first
            example of a stream whose dimension is 0 fixes it.
        max_features: The largest dimension that an example may fix.

    Returns:
        int32 `[n]`, the stream of each position, -1: a dead letter or a tombstone; and uint8 `[n]`, the `Reason` of a
        dead letter.
    """
    one, two = batch.decoded
    columns = _Columns(
        kinds=(one.kinds, two.kinds),
        reasons=(one.reasons, two.reasons),
        streams=(one.streams, two.streams),
        names=numbers,
        known=one.known,
        feature_counts=one.feature_counts,
    )
    return _route(batch.merged, columns, opened, stopped, dimensions, max_features)


@compiled
def _route(
    batch: JoinInput, columns: _Columns, opened: Integers, stopped: Longs, dimensions: Integers, max_features: int
) -> tuple[Integers, Bytes]:
    of = np.empty(len(batch.sides), np.int32)
    why = np.zeros(len(batch.sides), np.uint8)
    for position in range(len(batch.sides)):
        row = batch.rows[position]
        is_example = batch.sides[position] == 0
        of[position] = -1
        kind = columns.kinds[0][row] if is_example else columns.kinds[1][row]
        time = batch.example_times[row] if is_example else batch.label_times[row]
        if kind in (_MALFORMED, _TOMBSTONE):  # a tombstone has no reason
            why[position] = columns.reasons[0][row] if is_example else columns.reasons[1][row]
            continue
        if time <= 0:
            why[position] = _BAD_TIME
            continue
        stream = columns.streams[0][row] if is_example else columns.streams[1][row]
        if stream >= columns.known:
            unknown = stream - columns.known
            stream = columns.names[0][unknown] if is_example else columns.names[1][unknown]
        if stream < 0 or position < opened[stream]:
            why[position] = _UNKNOWN_STREAM
            continue
        if position < stopped[stream]:
            why[position] = _STREAM_STOPPED
            continue
        if is_example and kind == _DATA:
            count = columns.feature_counts[row]
            if dimensions[stream] == 0 and 0 < count <= max_features:
                dimensions[stream] = count
            if dimensions[stream] != count:
                why[position] = _WRONG_DIMENSION
                continue
        of[position] = stream
    return of, why


@compiled
def count_by_stream(streams: Integers, count: int) -> Longs:
    """Return int64 `[count]`, how many positions each of these streams has; arguments as of `group_by_stream`."""
    records = np.zeros(count, np.int64)
    for stream in streams:
        if stream >= 0:
            records[stream] += 1
    return records


@compiled
def group_by_stream(streams: Integers, count: int) -> tuple[Integers, Integers, Longs]:
    """Group the positions of a batch by stream, ascending in each; dead letters (-1) are left out.

    Args:
        streams: int32 `[n]`, the stream of each position.
        count: The number of streams of the task.

    Returns:
        int32, the positions, one stream after the other; int32 `[s]`, the streams that have any; int64 `[s + 1]`,
        where the positions of each of them begin, and the end.
    """
    sizes = np.zeros(count + 1, np.int64)
    for stream in streams:
        sizes[stream + 1] += 1
    following = np.zeros(count + 1, np.int64)  # the first entry belongs to dead letters, which come last
    present, total = 0, 0
    for stream in range(count):
        following[stream + 1] = total
        total += sizes[stream + 1]
        present += 1 if sizes[stream + 1] > 0 else 0
    following[0] = total
    positions = np.empty(len(streams), np.int32)
    for position in range(len(streams)):
        stream = streams[position] + 1
        positions[following[stream]] = position
        following[stream] += 1
    which, starts, at = np.empty(present, np.int32), np.empty(present + 1, np.int64), 0
    for stream in range(count):
        if sizes[stream + 1] > 0:
            which[at] = stream
            starts[at] = following[stream + 1] - sizes[stream + 1]
            at += 1
    starts[present] = total
    return positions[:total], which, starts


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
    if not numbers:
        return until
    until[list(numbers)] = len(batch.times)
    for position, mark in batch.marks():
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
    opened: Integers,
    numbers: tuple[Integers, Integers],
    number_of: Callable[[str], int],
    configured: Collection[str],
    stopped: Collection[str],
) -> tuple[Judged, Judged]:
    """Return what the breaker counts of a batch, by `Side`.

    A record counts for a stream that is not configured from the position on at which the stream exists, and for a
    stopped stream from the position on at which it continues, wherever batches are cut.

    Args:
        batch: The batch.
        reasons: uint8 `[n]`, the `Reason` of each position that is a dead letter, else 0.
        until: The position before which each stream is stopped, see `stopped_until`.
        opened: The position from which on each stream exists.
        numbers: By `Side`, the task's numbers of the streams that the decoder did not know; -1: unknown.
        number_of: Returns the number of a stream by its name; -1: unknown.
        configured: Names of the configured streams.
        stopped: Names of the stopped streams.
    """
    known = len(until)
    counted_from = _counted_from(until, opened, (number_of(name) for name in configured))
    others: dict[str, int] = {}

    def named(name: str) -> int:
        number = number_of(name)
        if number < 0 and name in configured and name not in stopped:
            number = known + others.setdefault(name, len(others))
        return number

    one, two = batch.decoded
    malformed = np.empty(len(one.kinds), np.bool_), np.empty(len(two.kinds), np.bool_)
    counts = np.zeros((2, 2), np.int64)
    columns = (one.kinds, two.kinds), (one.streams, two.streams), malformed
    _judge(batch.merged.sides, batch.merged.rows, reasons, _IS_MALFORMED, *columns, counts)
    tombstones, nameless = counts.T.tolist()
    streams = [_streams_of(batch, side, numbers[side], named, has_nameless=nameless[side] > 0) for side in Side]
    if counted_from.any():
        streams = [_without_early(batch, side, streams[side], counted_from) for side in Side]
    names = tuple(others)
    examples, labels = (Judged(streams[side], malformed[side], known, names, tombstones[side]) for side in Side)
    return examples, labels


def _streams_of(
    batch: InputBatch, side: Side, numbers: Integers, named: Callable[[str], int], *, has_nameless: bool
) -> Integers:
    """Return int32, the stream of each row of a side: the stream that its value names, or else its key; -1: none.

    Args:
        batch: The batch.
        side: The side.
        numbers: The task's numbers of the streams that the decoder did not know; -1: unknown.
        named: Returns the number of a stream by its name; -1: records do not count for it.
        has_nameless: Whether there are values that name no stream.
    """
    decoded, keys = batch.decoded[side], batch.raw[side].keys
    if not decoded.stream_names and not has_nameless:
        return decoded.streams
    streams = decoded.streams.copy()
    if decoded.stream_names:
        new = streams >= decoded.known
        own = [
            number if number >= 0 else named(name)
            for name, number in zip(decoded.stream_names, numbers.tolist(), strict=True)
        ]
        streams[new] = np.array(own, np.int32)[streams[new] - decoded.known]
    nameless = np.flatnonzero((decoded.streams < 0) & (decoded.kinds != _TOMBSTONE))  # a tombstone says nothing
    by_key: dict[bytes | None, int] = {}
    for row in nameless.tolist():
        key = keys[row]
        if key not in by_key:
            by_key[key] = named(stream_of_key(key))
        streams[row] = by_key[key]
    return streams


def _without_early(batch: InputBatch, side: Side, streams: Integers, counted_from: Longs) -> Integers:
    """Return the streams of a side, and -1 where a record comes before the position from which on its stream counts."""
    positions = np.flatnonzero(batch.merged.sides == int(side))  # rows keep their order
    is_known = (streams >= 0) & (streams < len(counted_from))
    is_early = np.zeros(len(streams), np.bool_)
    is_early[is_known] = positions[is_known] < counted_from[streams[is_known]]
    return np.where(is_early, np.int32(-1), streams)


def _counted_from(until: Longs, opened: Integers, configured: Iterable[int]) -> Longs:
    """Return int64 `[streams]`, the position from which on the records of each stream count; see `judged`."""
    if not opened.any():
        return until
    counted_from = np.maximum(until, opened)
    own = [number for number in configured if number >= 0]
    counted_from[own] = until[own]
    return counted_from


@compiled_without_refcounts
def _judge(
    sides: Bytes,
    rows: Integers,
    reasons: Bytes,
    is_malformed: NDArray[np.bool_],
    kinds: tuple[Bytes, Bytes],
    streams: tuple[Integers, Integers],
    malformed: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    counts: Longs,
) -> None:
    """Find the malformed records of both sides, and count their tombstones and the values that name no stream.

    Args:
        sides: By position, the side of the record.
        rows: By position, its row on its side.
        reasons: By position, its `Reason`.
        is_malformed: By number of a reason, whether the record alone is the cause.
        kinds: By side, the `Kind` of each row.
        streams: By side, the stream of each row; -1: its value names no stream.
        malformed: By side, filled.
        counts: int64 `[2, 2]`, zeros: by side, increased by the number of tombstones, and of rows without a stream.
    """
    for position in range(len(sides)):
        side, row = sides[position], rows[position]
        malformed[side][row] = is_malformed[reasons[position]]
        counts[side, 0] += kinds[side][row] == _TOMBSTONE
        counts[side, 1] += streams[side][row] < 0


def marks_by_segment(
    batch: InputBatch, streams: Integers, positions: Integers, which: Integers, starts: Longs
) -> dict[int, list[tuple[int, Mark]]]:
    """Return the control records of each entry of `which`, the last one first, with their indices in `positions`."""
    found: dict[int, list[tuple[int, Mark]]] = {}
    for position, mark in reversed(batch.marks()):
        if streams[position] >= 0:
            segment = int(np.searchsorted(which, streams[position]))
            own = positions[starts[segment] : starts[segment + 1]]
            index = int(starts[segment] + np.searchsorted(own, position))
            found.setdefault(segment, []).append((index, mark))
    return found
