"""The columns of a batch that decide how large its outputs can be, see `transaction_bounds`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_app.arrays import NO_LONG, Bytes, Integers, Longs
from stream_app.pipeline.batch import InputBatch, advance_ms
from stream_app.records import Mark, MarkKind, Side
from stream_app.serialization.erased_ids import DIGEST_CHARACTERS


class BatchColumns(NamedTuple):
    """The columns of both sides.

    Attributes:
        kinds: uint8, of both sides.
        streams: int32, of both sides: the task's number of the stream; -1: unknown.
        sizes: int64, of both sides: bytes as a dead letter.
        closes: int64, of both sides, empty if there are no marks: a mark closes times below this.
        erased: int64, of both sides, empty if there are no marks: the number of ids that an `erase` mark names.
    """

    kinds: tuple[Bytes, Bytes]
    streams: tuple[Integers, Integers]
    sizes: tuple[Longs, Longs]
    closes: tuple[Longs, Longs]
    erased: tuple[Longs, Longs]


def columns_of(batch: InputBatch, numbers: tuple[Integers, Integers]) -> BatchColumns:
    """Return the columns of a batch; `numbers` are the task's for streams that the decoder did not know (-1: new)."""
    one, two = batch.decoded
    return BatchColumns(
        (one.kinds, two.kinds),
        (_streams(batch, Side.EXAMPLES, numbers[0]), _streams(batch, Side.LABELS, numbers[1])),
        batch.sizes,
        (
            _of_marks(batch, Side.EXAMPLES, NO_LONG, _closed_below),
            _of_marks(batch, Side.LABELS, NO_LONG, _closed_below),
        ),
        (_of_marks(batch, Side.EXAMPLES, 0, _erased), _of_marks(batch, Side.LABELS, 0, _erased)),
    )


def _streams(batch: InputBatch, side: Side, numbers: Integers) -> Integers:
    decoded = batch.decoded[side]
    if not len(numbers):
        return decoded.streams
    new = decoded.streams >= decoded.known
    streams = decoded.streams.copy()
    streams[new] = numbers[streams[new] - decoded.known]
    return streams


def _of_marks(batch: InputBatch, side: Side, otherwise: int, value: Callable[[Mark], int]) -> Longs:
    """Return what a function says of the marks of a side, by row; empty if there are no marks."""
    decoded = batch.decoded[side]
    column = np.full(len(decoded.kinds) if decoded.marks else 0, otherwise, np.int64)
    for row, mark in decoded.marks.items():
        column[row] = value(mark)
    return column


def _closed_below(mark: Mark) -> int:
    return advance_ms(mark) + 1 if mark.kind is MarkKind.ADVANCE else NO_LONG


def _erased(mark: Mark) -> int:
    return len(mark.digests or "") // DIGEST_CHARACTERS if mark.kind is MarkKind.ERASE else 0
