"""Which stream each record of a batch belongs to, and which records are dead letters before the join."""

from typing import NamedTuple

import numpy as np

from stream_app.jit.compiler import compiled
from stream_app.join.input import JoinInput
from stream_app.records import Bytes, Integers, Kind, Longs, Reason

_DATA = int(Kind.DATA)
_MALFORMED = int(Kind.MALFORMED)
_WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)
_BAD_TIME = int(Reason.BAD_TIME)
_UNKNOWN_STREAM = int(Reason.UNKNOWN_STREAM)
_STREAM_STOPPED = int(Reason.STREAM_STOPPED)


class RoutedColumns(NamedTuple):
    """The columns that decide the stream of a record; each pair has the examples' column first.

    Attributes:
        kinds: uint8, `Kind`.
        reasons: uint8, `Reason` where malformed.
        streams: int32, the decoder's number of the stream; -1 if the value does not name it.
        names: int32, the task's number of each stream that the decoder did not know; -1: the task does not know it
            either. Entry k belongs to the decoder's number `known + k`.
        known: How many streams the decoder knew; their numbers are the task's.
        feature_counts: int32, features of each example.
    """

    kinds: tuple[Bytes, Bytes]
    reasons: tuple[Bytes, Bytes]
    streams: tuple[Integers, Integers]
    names: tuple[Integers, Integers]
    known: int
    feature_counts: Integers


@compiled
def route_records(
    batch: JoinInput, columns: RoutedColumns, opened: Integers, stopped: Longs, dimensions: Integers, max_features: int
) -> tuple[Integers, Bytes]:
    """Find the stream of each record.

    Args:
        batch: The batch.
        columns: Its columns.
        opened: int32 `[streams]`, the position from which on each stream exists.
        stopped: int64 `[streams]`, the position before which each stream is stopped.
        dimensions: int32 `[streams]`, features of each stream, changed in place: the first example of a stream whose
            dimension is 0 fixes it.
        max_features: The largest dimension that an example may fix.

    Returns:
        int32 `[n]`, the stream of each position, -1: a dead letter; and uint8 `[n]`, the `Reason` of a dead letter.
    """
    of = np.empty(len(batch.sides), np.int32)
    why = np.zeros(len(batch.sides), np.uint8)
    for position in range(len(batch.sides)):
        row = batch.rows[position]
        is_example = batch.sides[position] == 0
        of[position] = -1
        kind = columns.kinds[0][row] if is_example else columns.kinds[1][row]
        time = batch.example_times[row] if is_example else batch.label_times[row]
        if kind == _MALFORMED:
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
            if dimensions[stream] == 0 and count <= max_features:
                dimensions[stream] = count
            if dimensions[stream] != count:
                why[position] = _WRONG_DIMENSION
                continue
        of[position] = stream
    return of, why


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
