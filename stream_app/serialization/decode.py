"""Decode batches of input values: values become columns.

The first fault of a value is the reason why its record is malformed, and the rest of the row stays empty. Only the
stream is filled in where the fault comes after it. The checks, in order:

    1. no value                                                                      none: a tombstone is no fault
    2. more than `max_record_bytes`                                                  too-large
    3. does not begin with the header of a schema of its side                        wrong-schema
    4. fastavro or an `avro.Check` refuses the record, or bytes are left over        undecodable
    5. stream not of 1 to 249 bytes, then id not of 1 to 64                          bad-id
    6. example: no feature and no values, both, or more than `max_features`          wrong-dimension
       label: not 0 or 1, or a revision below 0                                      bad-label
       mark: `advance` without a time of at least 0, `promote` without a learner,
       `erase` without digests, or with a part of one, `decide` without a threshold
       that the setting may have                                                     undecodable: it asks for nothing
    7. example: a feature is NaN or infinite                                         not-finite

The other fields of a mark are not checked. Later stages check timestamps, whether an example has as many features as
its stream, and the values of columns: a row has only their place, since what they mean depends on the stream.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Bytes, Integers, Longs, Words
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.record_columns import COLUMNS, BinaryColumn, Cell, CellArrays, Decoded, binary_column
from stream_app.records import ID_WORDS, MAX_ID_BYTES, MAX_STREAM_BYTES, Kind, Mark, Reason, Side
from stream_app.serialization import avro
from stream_app.serialization.avro import (
    is_utf8,
    read_block,
    read_float_bits,
    read_index,
    read_int,
    read_span,
    read_text,
    read_word,
    skip_values,
)
from stream_app.serialization.codec import decode_one
from stream_app.serialization.marks import read_mark
from stream_app.serialization.names import NameList, NameTable, NewNames, hash_of, intern, number_of, same_bytes
from stream_app.serialization.wire_format import HeaderTable, WireFormat, single_object
from stream_app.serialization.writer_batch import own_values


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What one input value may be.

    Attributes:
        max_record_bytes: Most bytes of a value; Kafka's default limit on a batch is 1,048,588.
        max_features: Most features of an example; 100,000 features take 0.4 MB.
        wire_format: The headers that values may have.
    """

    max_record_bytes: int = 1_000_000
    max_features: int = 100_000
    wire_format: WireFormat = field(default_factory=single_object)


DATA = int(Kind.DATA)
MARK = int(Kind.MARK)
TOMBSTONE = int(Kind.TOMBSTONE)
MALFORMED = int(Kind.MALFORMED)
EXAMPLES = int(Side.EXAMPLES)

TOO_LARGE = int(Reason.TOO_LARGE)
UNDECODABLE = int(Reason.UNDECODABLE)
WRONG_SCHEMA = int(Reason.WRONG_SCHEMA)
WRONG_DIMENSION = int(Reason.WRONG_DIMENSION)
NOT_FINITE = int(Reason.NOT_FINITE)
BAD_ID = int(Reason.BAD_ID)
BAD_LABEL = int(Reason.BAD_LABEL)

Bits: TypeAlias = NDArray[np.uint32]
"""Float32 values as their bits."""

_NO_MARKS: Mapping[int, Mark] = MappingProxyType({})

_EXPONENT = np.uint32(0x7F800000)
"""The exponent bits of a float32; all are set in NaN and the infinities only."""


def decode(values: Iterable[Cell], side: Side, limits: DecodeLimits, known: NameList | None = None) -> Decoded:
    """Decode the values of one input partition. A malformed value is a row with a reason, not an error.

    Args:
        values: n values.
        side: The input: it allows the schemas of Example and Mark, or of Label and Mark.
        limits: Bounds on a value.
        known: Stream names that have numbers already; the names that are new in this batch are numbered after them.

    Returns:
        n rows. Memory beside the input: 160 bytes for each row, and at most the size of the input;
        of JSON and of other writers' schemas, also the values in Avro.
    """
    cells = binary_column(values)
    n = len(cells)
    kinds, reasons = np.empty(n, np.uint8), np.empty(n, np.uint8)
    _check_sizes(cells.lengths, limits.max_record_bytes, kinds, reasons)
    form = limits.wire_format
    if form.json is not None:
        from stream_app.serialization.json_batch import avro_values  # noqa: PLC0415  (needs the extra `json`)

        cells, form = avro_values(cells, side, reasons, form), single_object()
    elif form.writers[side]:
        cells, form = own_values(cells, side, reasons, form)
    most = _readable_bytes(cells.lengths, reasons) if side is Side.EXAMPLES else 0  # of Avro, not of JSON
    features = np.empty(most // avro.FLOAT_BYTES, np.float32)
    columns = _Columns(
        kinds=kinds,
        reasons=reasons,
        streams=np.empty(n, np.int32),
        ids=np.zeros((n, ID_WORDS), np.uint64),
        features=features.view(np.uint32),
        feature_starts=np.zeros(n, np.int64),
        feature_counts=np.zeros(n, np.int32),
        value_starts=np.empty(n, np.int64),
        labels=np.empty(n, np.int8),
        revisions=np.zeros(n, np.int64),
    )
    new = NewNames(np.empty((n, 2), np.int64), np.empty(n, np.uint64), np.empty(2 << n.bit_length(), np.int32))
    expected = _Expected(int(side), limits.max_features, form.tables[side])
    known = NameList() if known is None else known
    distinct, total, marks = _decode_rows(cells.arrays, expected, known.table(), new, columns)
    return Decoded(
        kinds=columns.kinds,
        reasons=reasons,
        known=len(known),
        stream_names=tuple(cells.buffer[start:end].tobytes().decode() for start, end in new.spans[:distinct].tolist()),
        streams=columns.streams,
        ids=columns.ids,
        features=features[:total],
        feature_starts=columns.feature_starts,
        feature_counts=columns.feature_counts,
        value_starts=columns.value_starts,
        labels=columns.labels,
        revisions=columns.revisions,
        marks=_marks(cells, columns.kinds, form) if marks else _NO_MARKS,
        cells=cells,
    )


def _marks(values: BinaryColumn, kinds: Bytes, wire_format: WireFormat) -> MappingProxyType[int, Mark]:
    """Return the control records by row, which are few and have passed the checks."""
    marks = {}
    for row in np.flatnonzero(kinds == MARK).tolist():
        mark = decode_one(values[row] or b"", wire_format)
        assert isinstance(mark, Mark)  # noqa: S101  (shows the type checker what `kinds` says)
        marks[row] = mark
    return MappingProxyType(marks)


@compiled_without_refcounts
def _check_sizes(lengths: Longs, max_record_bytes: int, kinds: Bytes, reasons: Bytes) -> None:
    """Fill kinds and reasons as far as the length of a value decides them; no other value is well-formed yet."""
    for row in range(len(lengths)):
        kinds[row] = TOMBSTONE if lengths[row] < 0 else MALFORMED
        reasons[row] = TOO_LARGE if lengths[row] > max_record_bytes else 0


@compiled_without_refcounts
def _readable_bytes(lengths: Longs, reasons: Bytes) -> int:
    """Return the bytes of all values that have no fault so far."""
    total = 0
    for row in range(len(lengths)):
        if reasons[row] == 0:
            total += max(lengths[row], 0)
    return int(total)


@inlined_without_refcounts
def _kind(buffer: Bytes, start: int, end: int, headers: HeaderTable) -> int:
    """Return the kind of record that the header of a value announces: `DATA`, `MARK`, or 0 for a wrong schema.

    A header is compared as two words, whatever its length is: the masks take away what follows it, and a column has
    `PADDING_BYTES` after its last cell.
    """
    if end - start < headers.length:
        return 0
    low = read_word(buffer, start) & headers.masks[0]
    high = read_word(buffer, start + 8) & headers.masks[1]
    for i in range(len(headers.kinds)):
        if headers.words[i, 0] == low and headers.words[i, 1] == high:
            return int(headers.kinds[i])
    return 0


@inlined_without_refcounts
def _read_features(
    buffer: Bytes, position: int, end: int, max_features: int, out: Bits, used: int
) -> tuple[int, int, int]:
    """Copy an array of floats to `out`, from element `used` on.

    Returns:
        The reason (0 if the array is well-formed), the number of floats, and the next position.
    """
    count, unusual = 0, False
    while True:
        more, position = read_block(buffer, position, end)
        if position < 0:
            return UNDECODABLE, 0, position
        if more == 0:
            break
        for i in range(more):
            bits = read_float_bits(buffer, position + avro.FLOAT_BYTES * i)
            out[np.uintp(used + count + i)] = bits
            unusual |= bits & _EXPONENT == _EXPONENT
        position += avro.FLOAT_BYTES * more
        count += more
    if count == 0 or count > max_features:
        return WRONG_DIMENSION, count, position
    return (NOT_FINITE if unusual else 0), count, position


@inlined_without_refcounts
def _read_values(buffer: Bytes, position: int, end: int, reason: int, count: int) -> tuple[int, int, int, int]:
    """Read the values of an example after its features.

    Args:
        buffer: The values of the batch.
        position: Where the field begins.
        end: Where the value ends.
        reason: What `_read_features` returned.
        count: The number of features.

    Returns:
        The reason (0 if the example is well-formed), the number of features (`COLUMNS` if it has values), where the
        values begin (-1: it has none), and the next position.
    """
    has_values, position = read_index(buffer, position, end, 2)
    if position < 0:
        return UNDECODABLE, 0, -1, position
    if has_values == 0:
        return reason, count, -1, position
    start, position = position, skip_values(buffer, position, end)
    if position < 0:
        return UNDECODABLE, 0, -1, position
    if count != 0:
        return WRONG_DIMENSION, count, -1, position
    return 0, COLUMNS, start, position


@inlined_without_refcounts
def _read_label(buffer: Bytes, position: int, end: int) -> tuple[int, int, int, int]:
    """Return the reason (0 if the label is well-formed), class, revision, and the next position."""
    label, position = read_int(buffer, position, end)
    revision = 0
    if position >= 0:
        revision, position = read_int(buffer, position, end)
    if position < 0:
        return UNDECODABLE, 0, 0, position
    if label < 0 or label > 1 or revision < 0:
        return BAD_LABEL, 0, 0, position
    return 0, label, revision, position


@inlined_without_refcounts
def _copy_id(buffer: Bytes, start: int, end: int, ids: Words, row: int) -> None:
    """Write an id into a row of words that are zeros."""
    ids[row, 0] = np.uint64(end - start)
    for i in range(end - start):
        ids[row, 1 + i // 8] |= np.uint64(buffer[np.uintp(start + i)]) << np.uint64(8 * (i % 8))


class _Expected(NamedTuple):
    """What the values of one side may be.

    Attributes:
        side: A `Side`.
        max_features: Most features of an example.
        headers: How their values begin.
    """

    side: int
    max_features: int
    headers: HeaderTable


class _Columns(NamedTuple):
    """The columns of `Decoded`, to be filled; `features` as bits, with room for all features of the batch.

    Ids, starts and counts of features, and revisions are zeros before.
    """

    kinds: Bytes
    reasons: Bytes
    streams: Integers
    ids: Words
    features: Bits
    feature_starts: Longs
    feature_counts: Integers
    value_starts: Longs
    labels: NDArray[np.int8]
    revisions: Longs


@compiled_without_refcounts
def _decode_rows(  # noqa: C901, PLR0912, PLR0915  (one pass over the rows)
    cells: CellArrays, expected: _Expected, known: NameTable, new: NewNames, columns: _Columns
) -> tuple[int, int, int]:
    """Fill the columns; tombstones and rows that have a reason already are left alone.

    Returns:
        The number of new streams, the number of features of all examples, and the number of control records.
    """
    distinct, used, marks = 0, 0, 0
    new.slots[:] = -1
    stream, stream_start, stream_length = -1, 0, -1  # of the last row whose stream was read
    buffer = cells.buffer
    for row in range(len(cells.starts)):
        columns.streams[row], columns.value_starts[row], columns.labels[row] = -1, -1, -1
        position = cells.starts[row]
        end = position + cells.lengths[row]
        if columns.reasons[row] != 0 or columns.kinds[row] == TOMBSTONE:
            continue
        kind = _kind(buffer, position, end, expected.headers)
        if kind == 0:
            columns.reasons[row] = WRONG_SCHEMA
            continue
        start, position = read_span(buffer, position + expected.headers.length, end)
        stream_end = position
        length = stream_end - start
        same = position >= 0 and length == stream_length and same_bytes(buffer, start, buffer, stream_start, length)
        if position >= 0 and not same and not is_utf8(buffer, start, stream_end):
            position = avro.UTF8
        id_start, id_end = 0, 1
        if position >= 0 and kind == DATA:
            id_start, position = read_text(buffer, position, end)
            id_end = position
        reason, label, revision, count, values = 0, -1, 0, 0, -1
        if position >= 0:
            if kind == MARK:
                well_formed, position = read_mark(buffer, position, end)
                reason = 0 if well_formed else UNDECODABLE
            elif expected.side == EXAMPLES:
                reason, count, position = _read_features(
                    buffer, position, end, expected.max_features, columns.features, used
                )
                if position >= 0:
                    reason, count, values, position = _read_values(buffer, position, end, reason, count)
            else:
                reason, label, revision, position = _read_label(buffer, position, end)
        if position != end:
            columns.reasons[row] = UNDECODABLE
            continue
        if not 1 <= length <= MAX_STREAM_BYTES:
            columns.reasons[row] = BAD_ID
            continue
        if not same:
            found = hash_of(buffer, start, stream_end)
            stream = number_of(buffer, start, stream_end, found, known)
            if stream < 0:
                stream = intern(buffer, start, stream_end, found, new, distinct)
                distinct = max(distinct, stream + 1)
                stream += len(known.hashes)
            stream_start, stream_length = start, length
        columns.streams[row] = stream
        if not 1 <= id_end - id_start <= MAX_ID_BYTES:
            reason = BAD_ID
        if reason != 0:
            columns.reasons[row] = reason
            continue
        columns.kinds[row] = kind
        marks += kind == MARK
        if kind == DATA:
            _copy_id(buffer, id_start, id_end, columns.ids, row)
            columns.labels[row] = label
            columns.revisions[row] = revision
            columns.feature_starts[row] = used
            columns.feature_counts[row] = count
            columns.value_starts[row] = values
            used += max(count, 0)
    return distinct, used, marks
