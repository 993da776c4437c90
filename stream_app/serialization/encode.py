"""Encode batches of records: columns become values, one column of bytes for a topic.

The bytes equal the output of `codec.encode`. Compiled code writes rows of Avro into one buffer.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import NO_LONG, Bytes, Doubles, Floats, Longs
from stream_app.jit.compiler import compiled_without_refcounts, inlined_without_refcounts
from stream_app.record_columns import (
    NO_INTEGER,
    PADDING_BYTES,
    BinaryColumn,
    Column,
    MetricRows,
    Rows,
    columns_of,
    window_columns,
)
from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES, Example, Label, Metric, Outcome, Prediction
from stream_app.serialization import avro
from stream_app.serialization.avro import MAX_INT_BYTES, MAX_VARINT_BYTES, Int, long_bytes, put_long
from stream_app.serialization.json_rows import json_metrics, json_rows
from stream_app.serialization.json_text import write_json
from stream_app.serialization.names import Names, Texts
from stream_app.serialization.sender_checks import checked, require_finite
from stream_app.serialization.wire_format import WireFormat, single_object


@inlined_without_refcounts
def _put_byte(out: Bytes, position: int, value: Int) -> int:
    """Write a byte, and return the next position."""
    out[position] = value
    return position + 1


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
def _put_id(out: Bytes, position: int, cells: Bytes, start: int) -> int:
    """Write the id whose words start there among the bytes of a row, and return the next position."""
    length = int(cells[start])  # at most 64, so the other bytes of the word are 0
    position = put_long(out, position, length)
    return _put_bytes(out, position, cells, start + 8, start + 8 + length)


@inlined_without_refcounts
def _put_bits(out: Bytes, position: int, bits: np.uint64, size: int) -> int:
    """Write the lowest bytes of a word, little-endian, and return the next position."""
    for i in range(size):
        out[position + i] = np.uint8((bits >> np.uint64(8 * i)) & np.uint64(0xFF))
    return position + size


@inlined_without_refcounts
def _put_float(out: Bytes, position: int, value: np.float32) -> int:
    """Write the bits of a float32, and return the next position."""
    return _put_bits(out, position, np.uint64(np.float32(value).view(np.uint32)), avro.FLOAT_BYTES)


@inlined_without_refcounts
def _put_double(out: Bytes, position: int, value: np.float64) -> int:
    """Write the bits of a float64, and return the next position."""
    return _put_bits(out, position, np.float64(value).view(np.uint64), avro.DOUBLE_BYTES)


def _header(wire_format: WireFormat | None, record: type[avro.Record]) -> bytes:
    return (wire_format or single_object()).header(record)


def _sliced(out: Bytes, ends: Longs) -> list[bytes]:
    """Return the values that compiled code has written into a buffer, as producers send them one by one."""
    stops = ends.tolist()
    written = out[: stops[-1] if stops else 0].tobytes()
    return [written[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


class _Writing(NamedTuple):
    """How compiled code writes a column of one kind.

    Attributes:
        most_bytes: The most bytes of a value, without those of a name.
        value: The expression that writes a value at `at`, and returns the next position.
        is_null: The expression that says whether the value is null.
    """

    most_bytes: int
    value: str
    is_null: str = ""


_WRITING: Mapping[str, _Writing] = MappingProxyType({
    "id": _Writing(MAX_VARINT_BYTES + MAX_ID_BYTES, "_put_id(out, {at}, raw[row], {start})"),
    "string": _Writing(0, "_put_text(out, {at}, {name}_names, {cell})", "{cell} < 0"),
    "boolean": _Writing(1, "_put_byte(out, {at}, {cell})"),
    "enum": _Writing(MAX_INT_BYTES, "put_long(out, {at}, np.int64({cell}))"),
    "int": _Writing(MAX_INT_BYTES, "put_long(out, {at}, np.int64({cell}))", "{cell} == NO_INTEGER"),
    "long": _Writing(MAX_VARINT_BYTES, "put_long(out, {at}, {cell})", "{cell} == NO_LONG"),
    "float": _Writing(avro.FLOAT_BYTES, "_put_float(out, {at}, {cell})", "np.isnan({cell})"),
    "double": _Writing(avro.DOUBLE_BYTES, "_put_double(out, {at}, {cell})", "np.isnan({cell})"),
})  # fmt: skip


class _Encoder(NamedTuple):
    """A compiled function that writes rows, and how much room it needs.

    Attributes:
        write: Takes buffer, starts and lengths, names of streams and learners, the rows, their bytes, and the windows
            of metrics; returns the end of the last value.
        row_bytes: The most bytes of a row without its names and windows.
        window_bytes: The most bytes of a window of metrics.
    """

    write: Callable[..., int]
    row_bytes: int
    window_bytes: int


@cache
def _encoder(name: str, row_type: np.dtype[np.void]) -> _Encoder:
    """Compile the function that writes rows of a record type.

    Its source is made from the schema: one statement a column, as a person would write it, so that no look-up in a
    table is left in the loop. Of Avro's arrays, metrics have one: the number of windows, the windows, and 0.
    """
    row_bytes = window_bytes = 0
    lines = []
    for column in columns_of(name):
        if column.kind != "array":
            start = str(row_type.fields[column.name][1]) if row_type.fields else ""
            lines.append(_statement(column, f"cells[{column.name!r}]", start))
            row_bytes += _most_bytes(column)
            continue
        parts = window_columns()
        lines += ["position = put_long(out, position, windows.shape[1])", "for w in range(windows.shape[1]):"]
        lines += [f"    {_statement(part, f'windows[row, w, {number}]')}" for number, part in enumerate(parts)]
        lines.append("position = _put_byte(out, position, 0)")
        row_bytes, window_bytes = row_bytes + MAX_VARINT_BYTES + 1, sum(map(_most_bytes, parts))
    body = "\n".join(f"        {line}" for line in lines)
    source = f"""
def encode_{name}(out, starts, lengths, stream_names, learner_names, rows, raw, windows):
    position = 0
    for row in range(len(rows)):
        cells, starts[row] = rows[row], position
{body}
        lengths[row] = position - starts[row]
    return position
"""
    made = globals() | {"NO_INTEGER": NO_INTEGER, "NO_LONG": NO_LONG}
    exec(compile(source, __file__, "exec"), made)  # noqa: S102  (the text is made here, from schemas of this package)
    return _Encoder(compiled_without_refcounts(made[f"encode_{name}"]), row_bytes, window_bytes)


def _statement(column: Column, cell: str, start: str = "") -> str:
    """Return the statement that writes a cell of a column; `start` is where an id begins in the bytes of its row."""
    writing, terms = _WRITING[column.kind], {"cell": cell, "name": column.name, "start": start}
    value = writing.value.format(at="_put_byte(out, position, 2)" if column.nullable else "position", **terms)
    null = f"_put_byte(out, position, 0) if {writing.is_null.format(**terms)} else " if column.nullable else ""
    return f"position = {null}{value}"


def _most_bytes(column: Column) -> int:
    """Return the most bytes of a cell without a name."""
    return _WRITING[column.kind].most_bytes + column.nullable


_NO_WINDOWS = np.zeros((0, 0, 0))


def encode_rows(
    record: type[Prediction | Outcome], rows: Rows, names: Names, wire_format: WireFormat | None = None
) -> BinaryColumn:
    """Return n values for the topic of predictions or outcomes, equal to the values of `codec.encode`.

    Args:
        record: Which of the two.
        rows: `[n]`, contiguous, of its row type.
        names: What the numbers in the columns `stream` and `learner` stand for.
        wire_format: By default `avro_single_object`.
    """
    if wire_format is not None and wire_format.json is not None:
        return json_rows(record, rows, names, wire_format.header(record))
    return _encoded(record, rows, _NO_WINDOWS, names, wire_format)


def encode_metrics(metrics: MetricRows, names: Names, wire_format: WireFormat | None = None) -> BinaryColumn:
    """Return n values for the topic of metrics, as `encode_rows` does."""
    if wire_format is not None and wire_format.json is not None:
        return json_metrics(metrics, names, wire_format.header(Metric))
    return _encoded(Metric, metrics.rows, metrics.windows, names, wire_format)


def _encoded(
    record: type[Prediction | Outcome | Metric],
    rows: Rows,
    windows: Doubles,
    names: Names,
    wire_format: WireFormat | None,
) -> BinaryColumn:
    encoder = _encoder(record.__name__.lower(), rows.dtype)
    streams, learners = names.streams.written(_header(wire_format, record)), names.learners.written()
    most = streams.longest + learners.longest + encoder.row_bytes + windows.shape[1] * encoder.window_bytes
    out = np.empty(len(rows) * most, np.uint8)
    starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    raw = rows.view(np.uint8).reshape(len(rows), rows.itemsize)
    end = encoder.write(out, starts, lengths, streams, learners, rows, raw, windows)
    buffer = np.zeros(end + PADDING_BYTES, np.uint8)  # `out` has room for longer values
    buffer[:end] = out[:end]
    return BinaryColumn(buffer, starts, lengths)


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
    with np.errstate(over="ignore"):
        written = np.ascontiguousarray(features, np.float32)
    require_finite(written, features, stream)
    n, d = features.shape
    if wire_format is not None and wire_format.json is not None:
        header = wire_format.header(Example)
        return [header + write_json(checked(Example(stream, id_, row))) for id_, row in zip(ids, written, strict=True)]
    prefix, raw_ids, id_ends = _prefix_and_ids(stream, ids, _header(wire_format, Example))
    count = long_bytes(d)
    out = np.empty(n * (len(prefix) + len(count) + avro.FLOAT_BYTES * d + 4) + len(raw_ids), np.uint8)
    ends = np.empty(n, np.int64)
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
        out[position] = 0  # the end of the array
        out[position + 1] = 0  # no values by column
        position += 2
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
    if wire_format is not None and wire_format.json is not None:
        rows = zip(ids, labels.tolist(), revisions.tolist(), strict=True)
        header = wire_format.header(Label)
        return [header + write_json(checked(Label(stream, id_, one, revision))) for id_, one, revision in rows]
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
