"""The columns of a batch that decide how large its outputs can be, see `transaction_bounds`."""

from typing import NamedTuple

import numpy as np

from stream_app.arrays import NO_LONG, Bytes, Integers, Longs
from stream_app.pipeline.batch import InputBatch
from stream_app.records import MarkKind, Side

_LATEST = np.iinfo(np.int64).max
"""Later than any event time."""


class BatchColumns(NamedTuple):
    """The columns of both sides.

    Attributes:
        kinds: uint8, of both sides.
        streams: int32, of both sides: the task's number of the stream; -1: unknown.
        sizes: int64, of both sides: bytes as a dead letter.
        closes: int64, of both sides, empty if there are no marks: a mark closes times below this.
    """

    kinds: tuple[Bytes, Bytes]
    streams: tuple[Integers, Integers]
    sizes: tuple[Longs, Longs]
    closes: tuple[Longs, Longs]


def columns_of(batch: InputBatch, numbers: tuple[Integers, Integers]) -> BatchColumns:
    """Return the columns of a batch; `numbers` are the task's for streams that the decoder did not know (-1: new)."""
    one, two = batch.decoded
    return BatchColumns(
        (one.kinds, two.kinds),
        (_streams(batch, Side.EXAMPLES, numbers[0]), _streams(batch, Side.LABELS, numbers[1])),
        batch.sizes,
        (_closes(batch, Side.EXAMPLES), _closes(batch, Side.LABELS)),
    )


def _streams(batch: InputBatch, side: Side, numbers: Integers) -> Integers:
    decoded = batch.decoded[side]
    if not len(numbers):
        return decoded.streams
    new = decoded.streams >= decoded.known
    streams = decoded.streams.copy()
    streams[new] = numbers[streams[new] - decoded.known]
    return streams


def _closes(batch: InputBatch, side: Side) -> Longs:
    decoded = batch.decoded[side]
    closes = np.full(len(decoded.kinds) if decoded.marks else 0, NO_LONG)
    for row, mark in decoded.marks.items():
        if mark.kind is MarkKind.ADVANCE:
            closes[row] = min(int(mark.time_ms or 0), _LATEST - 1) + 1
        elif mark.kind is MarkKind.ERASE:
            closes[row] = _LATEST
    return closes
