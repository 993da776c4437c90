"""Encode batches of records: columns become values (Avro), one column of bytes for a topic.

The bytes equal the output of `codec.encode`. Compiled code writes the rows into one buffer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.record_columns import PADDING_BYTES, BinaryColumn
from stream_app.records import (
    MAX_ID_BYTES,
    MAX_STREAM_BYTES,
    NO_LONG,
    Bytes,
    Example,
    Floats,
    Integers,
    Label,
    Longs,
    Outcome,
    Prediction,
    Words,
)
from stream_app.serialization import avro
from stream_app.serialization.avro import MAX_INT_BYTES, MAX_VARINT_BYTES, Int, long_bytes, put_long
from stream_app.serialization.names import NameList, Texts
from stream_app.serialization.sender_checks import require_finite
from stream_app.serialization.wire_format import WireFormat, single_object

Bits: TypeAlias = NDArray[np.uint32]
"""Float32 values as their bits."""


@dataclass(frozen=True, slots=True)
class PredictionColumns:
    """n predictions; `streams` and `learners` are indices into the lists of names."""

    stream_names: Sequence[str]
    learner_names: Sequence[str]
    streams: Integers
    learners: Integers
    ids: Words
    champions: NDArray[np.bool_]
    scores: Floats
    labels: NDArray[np.int8]
    model_versions: Longs
    event_times_ms: Longs


@dataclass(frozen=True, slots=True)
class OutcomeColumns:
    """n outcomes; a null is -1 in `labels` and `learners`, NaN in `scores`, and `NO_LONG` in the columns of longs."""

    stream_names: Sequence[str]
    learner_names: Sequence[str]
    streams: Integers
    outcomes: Bytes
    ids: Words
    labels: NDArray[np.int8]
    learners: Integers
    scores: Floats
    delays_ms: Longs
    example_offsets: Longs
    label_offsets: Longs
    event_times_ms: Longs


@inlined_without_refcounts
def _put_bytes(out: Bytes, position: int, source: Bytes, start: int, end: int) -> int:
    """Copy bytes, and return the next position."""
    for i in range(end - start):
        out[position + i] = source[start + i]
    return position + end - start


@inlined_without_refcounts
def _put_text(out: Bytes, position: int, texts: Texts, number: int) -> int:
    """Copy the text with this number, and return the next position."""
    return _put_bytes(out, position, texts.bytes, texts.ends[number], texts.ends[number + 1])


@inlined_without_refcounts
def _put_id(out: Bytes, position: int, ids: Bytes, row: int) -> int:
    """Write the id of a row, and return the next position."""
    length = int(ids[row, 0])  # at most 64, so the other bytes of the word are 0
    position = put_long(out, position, length)
    for i in range(length):
        out[position + i] = ids[row, 8 + i]
    return position + length


@inlined_without_refcounts
def _put_float(out: Bytes, position: int, bits: np.uint32) -> int:
    """Write the bits of a float32, little-endian, and return the next position."""
    for i in range(avro.FLOAT_BYTES):
        out[position + i] = np.uint8((bits >> np.uint32(8 * i)) & np.uint32(0xFF))
    return position + avro.FLOAT_BYTES


@inlined_without_refcounts
def _put_nullable_long(out: Bytes, position: int, value: Int, null: int) -> int:
    """Write a union of null and a number, and return the next position."""
    if value == null:
        out[position] = 0
        return position + 1
    out[position] = 2
    return put_long(out, position + 1, value)


def _header(wire_format: WireFormat | None, record: type[avro.Record]) -> bytes:
    return (wire_format or single_object()).header(record)


def _written(names: Sequence[str], prefix: bytes = b"") -> Texts:
    """Return names as Avro strings, each after the prefix."""
    return (names if isinstance(names, NameList) else NameList(names)).written(prefix)


def _column(out: Bytes, ends: Longs) -> BinaryColumn:
    """Return the values that compiled code has written into a buffer, in a buffer of their size."""
    total = int(ends[-1]) if len(ends) else 0
    buffer = np.zeros(total + PADDING_BYTES, np.uint8)
    buffer[:total] = out[:total]
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1]
    return BinaryColumn(buffer, starts, ends - starts)


def _sliced(out: Bytes, ends: Longs) -> list[bytes]:
    """Return the values that compiled code has written into a buffer, as producers send them one by one."""
    stops = ends.tolist()
    written = out[: stops[-1] if stops else 0].tobytes()
    return [written[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


class _PredictionRows(NamedTuple):
    """The columns of `PredictionColumns` for compiled code: ids as bytes, scores as bits."""

    streams: Integers
    learners: Integers
    ids: Bytes
    champions: NDArray[np.bool_]
    score_bits: Bits
    labels: NDArray[np.int8]
    model_versions: Longs
    event_times_ms: Longs


def encode_predictions(columns: PredictionColumns, wire_format: WireFormat | None = None) -> BinaryColumn:
    """Return n values for the topic of predictions, equal to the values of `codec.encode`."""
    streams = _written(columns.stream_names, _header(wire_format, Prediction))
    learners = _written(columns.learner_names)
    fixed = MAX_VARINT_BYTES + MAX_ID_BYTES + 1 + avro.FLOAT_BYTES + MAX_INT_BYTES + 2 * MAX_VARINT_BYTES
    n = len(columns.streams)
    out = np.empty(n * (streams.longest + learners.longest + fixed), np.uint8)
    ends = np.empty(n, np.int64)
    rows = _PredictionRows(
        streams=columns.streams,
        learners=columns.learners,
        ids=columns.ids.view(np.uint8),
        champions=columns.champions,
        score_bits=columns.scores.view(np.uint32),
        labels=columns.labels,
        model_versions=columns.model_versions,
        event_times_ms=columns.event_times_ms,
    )
    _encode_predictions(out, ends, streams, learners, rows)
    return _column(out, ends)


@compiled_without_refcounts
def _encode_predictions(out: Bytes, ends: Longs, streams: Texts, learners: Texts, rows: _PredictionRows) -> None:
    """Write the rows one after the other; `ends` gets the end of each."""
    position = 0
    for row in range(len(rows.streams)):
        position = _put_text(out, position, streams, rows.streams[row])
        position = _put_id(out, position, rows.ids, row)
        position = _put_text(out, position, learners, rows.learners[row])
        out[position] = rows.champions[row]
        position = _put_float(out, position + 1, rows.score_bits[row])
        position = put_long(out, position, np.int64(rows.labels[row]))
        position = put_long(out, position, rows.model_versions[row])
        position = put_long(out, position, rows.event_times_ms[row])
        ends[row] = position


class _OutcomeRows(NamedTuple):
    """The columns of `OutcomeColumns` for compiled code: ids as bytes, scores also as bits."""

    streams: Integers
    outcomes: Bytes
    ids: Bytes
    labels: NDArray[np.int8]
    learners: Integers
    scores: Floats
    score_bits: Bits
    delays_ms: Longs
    example_offsets: Longs
    label_offsets: Longs
    event_times_ms: Longs


def encode_outcomes(columns: OutcomeColumns, wire_format: WireFormat | None = None) -> BinaryColumn:
    """Return n values for the topic of outcomes, equal to the values of `codec.encode`."""
    streams = _written(columns.stream_names, _header(wire_format, Outcome))
    learners = _written(columns.learner_names, b"\x02")  # each after the index of the union's second type
    nullables = 5  # the index bytes of the other unions, and of a null learner
    fixed = MAX_VARINT_BYTES + MAX_ID_BYTES + 2 * MAX_INT_BYTES + nullables + avro.FLOAT_BYTES + 4 * MAX_VARINT_BYTES
    n = len(columns.streams)
    out = np.empty(n * (streams.longest + learners.longest + fixed), np.uint8)
    ends = np.empty(n, np.int64)
    rows = _OutcomeRows(
        streams=columns.streams,
        outcomes=columns.outcomes,
        ids=columns.ids.view(np.uint8),
        labels=columns.labels,
        learners=columns.learners,
        scores=columns.scores,
        score_bits=columns.scores.view(np.uint32),
        delays_ms=columns.delays_ms,
        example_offsets=columns.example_offsets,
        label_offsets=columns.label_offsets,
        event_times_ms=columns.event_times_ms,
    )
    _encode_outcomes(out, ends, streams, learners, rows)
    return _column(out, ends)


@compiled_without_refcounts
def _encode_outcomes(out: Bytes, ends: Longs, streams: Texts, learners: Texts, rows: _OutcomeRows) -> None:
    """Write the rows one after the other; `ends` gets the end of each."""
    position = 0
    for row in range(len(rows.streams)):
        position = _put_text(out, position, streams, rows.streams[row])
        position = _put_id(out, position, rows.ids, row)
        position = put_long(out, position, np.int64(rows.outcomes[row]))
        position = _put_nullable_long(out, position, np.int64(rows.labels[row]), -1)
        learner = rows.learners[row]
        if learner < 0:
            out[position] = 0
            position += 1
        else:
            position = _put_text(out, position, learners, learner)
        if np.isnan(rows.scores[row]):
            out[position] = 0
            position += 1
        else:
            out[position] = 2
            position = _put_float(out, position + 1, rows.score_bits[row])
        position = _put_nullable_long(out, position, rows.delays_ms[row], NO_LONG)
        position = _put_nullable_long(out, position, rows.example_offsets[row], NO_LONG)
        position = _put_nullable_long(out, position, rows.label_offsets[row], NO_LONG)
        position = put_long(out, position, rows.event_times_ms[row])
        ends[row] = position


def encode_examples(
    stream: str, ids: Sequence[str], features: Floats, wire_format: WireFormat | None = None
) -> list[bytes]:
    """Return the values of n examples of one stream, equal to the values of `codec.encode`, for producers.

    Args:
        stream: 1 to `MAX_STREAM_BYTES` bytes in UTF-8.
        ids: n ids, each of 1 to `MAX_ID_BYTES` bytes in UTF-8.
        features: `[n, d]`, d at least 1, each finite as float32.
        wire_format: By default `avro_single_object`.

    Raises:
        ValueError: An argument is outside these bounds; the message names the row.
    """
    if features.ndim != 2 or len(features) != len(ids) or features.shape[1] < 1:
        raise ValueError(f"{len(ids)} ids need features [{len(ids)}, 1 or more], not {list(features.shape)}")
    n, d = features.shape
    prefix, raw_ids, id_ends = _prefix_and_ids(stream, ids, _header(wire_format, Example))
    count = long_bytes(d)
    out = np.empty(n * (len(prefix) + len(count) + avro.FLOAT_BYTES * d + 3) + len(raw_ids), np.uint8)
    ends = np.empty(n, np.int64)
    with np.errstate(over="ignore"):
        written = np.ascontiguousarray(features, np.float32)
    require_finite(written, features, stream)
    rows = written.view(np.uint8)
    _encode_examples(out, ends, prefix, raw_ids, id_ends, count, rows if rows.flags.writeable else rows.copy())
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_examples(
    out: Bytes, ends: Longs, prefix: Bytes, ids: Bytes, id_ends: Longs, count: Bytes, features: Bytes
) -> None:
    """Write the rows one after the other; `ends` gets the end of each."""
    position, start = 0, 0
    for row in range(len(ends)):
        position = _put_bytes(out, position, prefix, 0, len(prefix))
        position = put_long(out, position, id_ends[row] - start)
        position = _put_bytes(out, position, ids, start, id_ends[row])
        start = id_ends[row]
        position = _put_bytes(out, position, count, 0, len(count))
        for i in range(features.shape[1]):
            out[position + i] = features[row, i]
        position += features.shape[1]
        out[position] = 0
        position += 1
        ends[row] = position


def encode_labels(
    stream: str,
    ids: Sequence[str],
    labels: NDArray[np.int8],
    revisions: Longs | None = None,
    wire_format: WireFormat | None = None,
) -> list[bytes]:
    """Return the values of n labels of one stream, equal to the values of `codec.encode`, for producers.

    Args:
        stream: 1 to `MAX_STREAM_BYTES` bytes in UTF-8.
        ids: n ids, each of 1 to `MAX_ID_BYTES` bytes in UTF-8.
        labels: int8 `[n]`, classes.
        revisions: int64 `[n]`, from 0 to 2**31 - 1; None means that all are 0.
        wire_format: By default `avro_single_object`.

    Raises:
        ValueError: An argument is outside these bounds.
    """
    n = len(ids)
    revisions = np.zeros(n, np.int64) if revisions is None else revisions
    if not len(labels) == len(revisions) == n:
        raise ValueError(f"{n} ids, {len(labels)} labels and {len(revisions)} revisions")
    if revisions.dtype.kind not in "iu":
        raise ValueError(f"revisions are whole numbers, not {revisions.dtype}")
    if n and not (revisions.min() >= 0 and revisions.max() < 1 << 31 and ((labels == 0) | (labels == 1)).all()):
        raise ValueError("a label is 0 or 1, a revision from 0 to 2**31 - 1")
    prefix, raw_ids, id_ends = _prefix_and_ids(stream, ids, _header(wire_format, Label))
    out = np.empty(n * (len(prefix) + 2 + 2 * MAX_INT_BYTES) + len(raw_ids), np.uint8)
    ends = np.empty(n, np.int64)
    _encode_labels(out, ends, prefix, raw_ids, id_ends, labels.astype(np.int64), revisions.astype(np.int64))
    return _sliced(out, ends)


@compiled_without_refcounts
def _encode_labels(
    out: Bytes, ends: Longs, prefix: Bytes, ids: Bytes, id_ends: Longs, labels: Longs, revisions: Longs
) -> None:
    """Write the rows one after the other; `ends` gets the end of each."""
    position, start = 0, 0
    for row in range(len(ends)):
        position = _put_bytes(out, position, prefix, 0, len(prefix))
        position = put_long(out, position, id_ends[row] - start)
        position = _put_bytes(out, position, ids, start, id_ends[row])
        start = id_ends[row]
        position = put_long(out, position, labels[row])
        position = put_long(out, position, revisions[row])
        ends[row] = position


def _prefix_and_ids(stream: str, ids: Sequence[str], header: bytes) -> tuple[Bytes, Bytes, Longs]:
    """Return the header with the stream as written, the ids one after the other, and the end of each id."""
    for text in (stream, *ids):
        if not isinstance(text, str):
            raise ValueError(f"a stream's name and an id are text, not {text!r}")  # noqa: TRY004  (as in `sender_checks`)
    raw_stream = stream.encode()
    if not 1 <= len(raw_stream) <= MAX_STREAM_BYTES:
        raise ValueError(f"stream {stream!r}: a name has 1 to {MAX_STREAM_BYTES} bytes, not {len(raw_stream)}")
    raw_ids = [text.encode() for text in ids]
    lengths = np.fromiter(map(len, raw_ids), np.int64, len(raw_ids))
    wrong = np.flatnonzero((lengths < 1) | (lengths > MAX_ID_BYTES))
    if len(wrong):
        raise ValueError(f"row {wrong[0]}: an id has 1 to {MAX_ID_BYTES} bytes, not {lengths[wrong[0]]}")
    prefix = np.frombuffer(bytearray(header + long_bytes(len(raw_stream)).tobytes() + raw_stream), np.uint8)
    return prefix, np.frombuffer(bytearray().join(raw_ids), np.uint8), np.cumsum(lengths)
