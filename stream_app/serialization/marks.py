"""Read control records in the batch decoder, which checks that a mark asks for something."""

import numpy as np

from stream_app.arrays import Bytes
from stream_app.jit.compiler import inlined_without_refcounts
from stream_app.records import MarkKind, ThresholdKind
from stream_app.serialization.avro import TRUNCATED, read_index, read_long, read_text, read_word
from stream_app.serialization.erased_ids import DIGEST_CHARACTERS

ADVANCE = int(MarkKind.ADVANCE)
PROMOTE = int(MarkKind.PROMOTE)
ERASE = int(MarkKind.ERASE)
DECIDE = int(MarkKind.DECIDE)
_MARK_KINDS = len(MarkKind)

_SCORE, _PROBABILITY, _ALERTS = int(ThresholdKind.SCORE), int(ThresholdKind.PROBABILITY), int(ThresholdKind.ALERTS)
_THRESHOLD_KINDS = len(ThresholdKind)

_DOUBLE_BYTES = 8


@inlined_without_refcounts
def read_mark(buffer: Bytes, position: int, end: int) -> tuple[bool, int]:
    """Read what follows the stream of a mark; say whether the mark is well-formed, and return the next position."""
    kind, position = read_index(buffer, position, end, _MARK_KINDS)
    time, position = _read_time(buffer, position, end)
    learner_bytes, position = _read_text_bytes(buffer, position, end)
    digest_bytes, position = _read_text_bytes(buffer, position, end)
    has_threshold, position = _read_threshold(buffer, position, end)
    asks = position >= 0
    if kind == ADVANCE:
        asks = asks and time >= 0
    elif kind == PROMOTE:
        asks = asks and learner_bytes > 0
    elif kind == ERASE:
        asks = asks and digest_bytes > 0 and digest_bytes % DIGEST_CHARACTERS == 0
    elif kind == DECIDE:
        asks = asks and has_threshold
    return asks, position


@inlined_without_refcounts
def _read_presence(buffer: Bytes, position: int, end: int) -> tuple[bool, int]:
    """Say whether a field that may be null has a value, and return the next position; after an error, it has none."""
    index = 0
    if position >= 0:
        index, position = read_index(buffer, position, end, 2)
    return position >= 0 and index != 0, position


@inlined_without_refcounts
def _read_time(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return a number (-1: null), and the next position."""
    time = -1
    is_present, position = _read_presence(buffer, position, end)
    if is_present:
        time, position = read_long(buffer, position, end)
    return time, position


@inlined_without_refcounts
def _read_text_bytes(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return the size of a text (0: null), and the next position."""
    is_present, position = _read_presence(buffer, position, end)
    if not is_present:
        return 0, position
    start, position = read_text(buffer, position, end)
    return position - start, position


@inlined_without_refcounts
def _read_threshold(buffer: Bytes, position: int, end: int) -> tuple[bool, int]:
    """Say whether there is a threshold with the number that its kind needs, and return the next position."""
    kind, number = -1, np.nan
    has_kind, position = _read_presence(buffer, position, end)
    if has_kind:
        kind, position = read_index(buffer, position, end, _THRESHOLD_KINDS)
    has_number, position = _read_presence(buffer, position, end)
    if has_number:
        if end - position < _DOUBLE_BYTES:
            return False, TRUNCATED
        number = np.uint64(read_word(buffer, position)).view(np.float64)
        position += _DOUBLE_BYTES
    if kind in (_SCORE, _PROBABILITY):
        return 0.0 <= number <= 1.0, position
    if kind == _ALERTS:
        return 0.0 < number < 1.0, position
    return kind >= 0 and not has_number, position
