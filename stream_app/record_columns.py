"""Batches of records in columns: as a log returns and takes them, and as the stages of the pipeline fill them.

A log's keys and values are bytes in one buffer each. Predictions and outcomes, until they are encoded, are the rows of
structured arrays, whose columns are the fields of their schemas.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stream_app import schemas
from stream_app.arrays import NO_LONG, Bytes, Doubles, Floats, Integers, Longs, Words
from stream_app.records import ID_WORDS, Header, Headers, Mark

Cell: TypeAlias = bytes | None

PADDING_BYTES = 16
"""Bytes after the last cell, so that compiled code may read whole words from the beginning of any cell."""


class CellArrays(NamedTuple):
    """A `BinaryColumn` for compiled code."""

    buffer: Bytes
    starts: Longs
    lengths: Longs


class BinaryColumn(Sequence[Cell]):
    """n cells, each of which is a byte string or null. A column is never changed; slices share its buffer.

    Compiled code takes its `arrays`. Python code takes the column as a sequence: an item is `bytes` or None.

    Args:
        buffer: uint8, writable, since Numba compiles code for read-only arrays separately.
        starts: int64 `[n]`, the index of the first byte of each cell.
        lengths: int64 `[n]`, the number of bytes of each cell; -1 is null.
    """

    __slots__ = ("buffer", "lengths", "starts")

    def __init__(self, buffer: Bytes, starts: Longs, lengths: Longs) -> None:
        self.buffer = buffer
        self.starts = starts
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Cell: ...

    @overload
    def __getitem__(self, index: slice) -> "BinaryColumn": ...

    def __getitem__(self, index: int | slice) -> "Cell | BinaryColumn":
        """Return a cell, or a column of the cells of a slice."""
        if isinstance(index, slice):
            return BinaryColumn(self.buffer, self.starts[index], self.lengths[index])
        start, length = self.starts[index], self.lengths[index]
        return None if length < 0 else self.buffer[start : start + length].tobytes()

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        """Say whether the other sequence has the same cells."""
        return self.tolist() == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    def __repr__(self) -> str:
        return f"BinaryColumn({self.tolist()!r})"

    @property
    def arrays(self) -> CellArrays:
        """The column for compiled code."""
        return CellArrays(self.buffer, self.starts, self.lengths)

    @property
    def stops(self) -> Longs:
        """The place after each cell: int64 `[n]`."""
        return self.starts + np.maximum(self.lengths, 0)  # `clip` takes ten times as long for few rows

    @property
    def bytes(self) -> int:
        """The number of bytes of all cells."""
        return int(self.lengths.sum(where=self.lengths > 0))

    @property
    def is_contiguous(self) -> bool:
        """Whether each cell begins where the cell before it ends."""
        return bool((self.starts[1:] == self.stops[:-1]).all())

    def tolist(self) -> list[Cell]:
        """Return the cells."""
        if not len(self):
            return []
        stops = self.stops
        first, last = int(self.starts.min()), int(stops.max())
        data = self.buffer[first:last].tobytes()
        ends = stops if not first else stops - first
        begins = self.starts if not first else self.starts - first
        cells: list[Cell] = [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        for row in np.flatnonzero(self.lengths < 0).tolist():
            cells[row] = None
        return cells

    def joined(self) -> Bytes:
        """Return the bytes of all cells, one after the other: uint8 `[bytes]`, a view where that is possible."""
        if not len(self):
            return self.buffer[:0]
        lengths = np.maximum(self.lengths, 0)
        stops = np.cumsum(lengths)
        if self.is_contiguous:
            return self.buffer[self.starts[0] : self.starts[0] + stops[-1]]
        places = np.arange(stops[-1]) + np.repeat(self.starts - stops + lengths, lengths)
        gathered: Bytes = self.buffer[places]
        return gathered


def binary_column(cells: Iterable[Cell]) -> BinaryColumn:
    """Return the column of these cells; a column is returned as it is."""
    if isinstance(cells, BinaryColumn):
        return cells
    given = cells if isinstance(cells, Sequence) else list(cells)
    try:
        lengths = np.fromiter(map(len, given), np.int64, len(given))
        present = given
    except TypeError:  # a null, which is too rare to look for first
        lengths = np.fromiter((-1 if cell is None else len(cell) for cell in given), np.int64, len(given))
        present = [cell or b"" for cell in given]
    joined = bytearray().join([*present, bytes(PADDING_BYTES)])
    sizes = np.maximum(lengths, 0)
    return BinaryColumn(np.frombuffer(joined, np.uint8), np.cumsum(sizes) - sizes, lengths)


def concatenated(columns: Sequence[BinaryColumn]) -> BinaryColumn:
    """Return the cells of all columns, in order, in a buffer of their own."""
    if not columns:
        return binary_column(())
    lengths = np.concatenate([column.lengths for column in columns])
    sizes = np.maximum(lengths, 0)
    stops = np.cumsum(sizes)
    buffer = np.zeros((int(stops[-1]) if len(stops) else 0) + PADDING_BYTES, np.uint8)
    np.concatenate([column.joined() for column in columns], out=buffer[:-PADDING_BYTES])
    return BinaryColumn(buffer, stops - sizes, lengths)


def repeated(cell: Cell, count: int) -> BinaryColumn:
    """Return a column of this number of equal cells, whose bytes exist once."""
    one = binary_column([cell])
    return BinaryColumn(one.buffer, one.starts.repeat(count), one.lengths.repeat(count))


def log_time_ms(timestamp: int) -> int:
    """Return the timestamp that a record has in the log, whoever set it; -1: it has none; see `RawRecords`."""
    return -timestamp if timestamp < -1 else timestamp


def event_time_ms(timestamp: int) -> int:
    """Return the time that the producer gave a record; -1 if the log has none; see `RawRecords`."""
    return max(timestamp, -1)


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Undecoded records of one input partition, n rows in the order of their offsets.

    Attributes:
        offsets: int64 `[n]`, ascending, with gaps at the control records of transactions.
        timestamps: int64 `[n]`, milliseconds since 1970: the event time (CreateTime) as the producer gave it; -1 if it
            gave none. A time that the log set instead (LogAppendTime) is negative, so that nobody takes it for an
            event time; see `log_time_ms`.
        keys: n keys.
        values: n values; null is a tombstone.
        headers: By row; rows without headers are absent.
    """

    offsets: Longs
    timestamps: Longs
    keys: BinaryColumn
    values: BinaryColumn
    headers: Headers = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first_log_time_ms(self) -> int:
        """The timestamp that the first record has in the log; -1: it has none."""
        return log_time_ms(int(self.timestamps[0]))

    @classmethod
    def of(
        cls,
        offsets: Longs,
        timestamps: Longs,
        keys: Iterable[Cell],
        values: Iterable[Cell],
        headers: Headers | None = None,
    ) -> "RawRecords":
        """Return the records with these keys and values."""
        return cls(offsets, timestamps, binary_column(keys), binary_column(values), headers or {})

    def rows(self, start: int, end: int) -> "RawRecords":
        """Return the rows from `start` up to, but not including, `end`; they share the buffers."""
        headers = {row - start: headers for row, headers in self.headers.items() if start <= row < end}
        part = slice(start, end)
        return RawRecords(self.offsets[part], self.timestamps[part], self.keys[part], self.values[part], headers)


@dataclass(frozen=True, slots=True, eq=False)
class OutputRecords:
    """Records for one output topic, in the order in which they are sent to the task's partition.

    Attributes:
        keys: n keys.
        values: n values.
        timestamps: int64 `[n]`, milliseconds since 1970; 0: the time of sending, as in all records but inputs. Where
            the topic has LogAppendTime, the log sets its own time.
        headers: By row; rows without headers are absent.
    """

    keys: BinaryColumn
    values: BinaryColumn
    timestamps: Longs
    headers: Headers = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.timestamps)

    def __eq__(self, other: object) -> bool:
        """Say whether the records are the same."""
        if not isinstance(other, OutputRecords):
            return NotImplemented
        same = self.keys == other.keys and self.values == other.values and self.headers == other.headers
        return same and np.array_equal(self.timestamps, other.timestamps)

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    @classmethod
    def of(
        cls, keys: Iterable[Cell], values: Iterable[Cell], timestamps: Iterable[int], headers: Headers | None = None
    ) -> "OutputRecords":
        """Return the records with these keys, values and timestamps."""
        return cls(binary_column(keys), binary_column(values), np.array(list(timestamps), np.int64), headers or {})


def concatenated_headers(parts: Iterable[RawRecords | OutputRecords]) -> Headers:
    """Return the headers of all parts, by row in their concatenation."""
    headers: dict[int, Sequence[Header]] = {}
    first = 0
    for part in parts:
        headers.update({first + row: cells for row, cells in part.headers.items()})
        first += len(part)
    return headers


# Predictions, outcomes and metrics before they are encoded ------------------------------------------------------------

Rows: TypeAlias = NDArray[np.void]
"""Rows of `PREDICTION_ROW`, `OUTCOME_ROW` or `METRIC_ROW`."""

NO_INTEGER = np.iinfo(np.int32).min
"""Stands for null in a column of ints."""

_DTYPES: Mapping[str, DTypeLike] = MappingProxyType({
    "id": (np.uint64, (ID_WORDS,)),
    "string": np.int32,
    "boolean": np.bool_,
    "enum": np.uint8,
    "int": np.int32,
    "long": np.int64,
    "float": np.float32,
    "double": np.float64,
})  # fmt: skip

_NULLS: Mapping[str, float] = MappingProxyType({
    "string": -1,
    "int": NO_INTEGER,
    "long": NO_LONG,
    "float": np.nan,
})  # fmt: skip


class Column(NamedTuple):
    """A field of a schema as a column of rows.

    Attributes:
        name: The name of the field.
        kind: Its Avro type without null. A `string` is the number of a name, -1 for null; the string `id` is of kind
            `id`, `ID_WORDS` words. An `enum` is the number of the symbol. Null is `NO_INTEGER`, `NO_LONG` or NaN.
        nullable: Whether it can be null.
    """

    name: str
    kind: str
    nullable: bool


def columns_of(record: str) -> Sequence[Column]:
    """Return the columns of a record type, given in small letters: the fields of its newest schema."""
    return [_column(field["name"], field["type"]) for field in schemas.newest()[record]["fields"]]


def window_columns() -> Sequence[Column]:
    """Return the columns of a window of metrics, each a float64: the fields of its newest schema."""
    [windows] = [field["type"] for field in schemas.newest()["metric"]["fields"] if field["name"] == "windows"]
    return [_column(field["name"], field["type"]) for field in windows["items"]["fields"]]


def _column(name: str, kind: Any) -> Column:  # noqa: ANN401  (a type in a schema)
    nullable = isinstance(kind, list)
    plain = kind[1] if nullable else kind
    return Column(name, "id" if name == "id" else plain if isinstance(plain, str) else plain["type"], nullable)


def _row_type(columns: Sequence[Column]) -> np.dtype[np.void]:
    """Return the type of a row: the columns, and the position of the input record that caused the record.

    An array has as many items as a value says, and so no column.
    """
    cells = [(one.name, _DTYPES[one.kind]) for one in columns if one.kind != "array"]
    return np.dtype([("position", np.int32), *cells], align=True)


PREDICTION_ROW = _row_type(columns_of("prediction"))
OUTCOME_ROW = _row_type(columns_of("outcome"))
METRIC_ROW = _row_type(columns_of("metric"))


class MetricRows(NamedTuple):
    """Records of metrics.

    Attributes:
        rows: `[n]` of `METRIC_ROW`.
        windows: float64 `[n, w, metric_windows.WINDOW_COLUMNS]`, the windows of each; NaN stands for null.
    """

    rows: Rows
    windows: Doubles


NO_OUTCOME: Rows = np.zeros(1, OUTCOME_ROW)
"""One outcome whose columns are null, or 0 if they cannot be null."""
for _one in columns_of("outcome"):
    if _one.nullable:
        NO_OUTCOME[_one.name] = _NULLS[_one.kind]


COLUMNS = -1
"""Stands for the number of features of an example that has values by column."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded values of `RawRecords`, n rows in the same order.

    Attributes:
        kinds: uint8 `[n]`, `Kind`.
        reasons: uint8 `[n]`, the `Reason` of a malformed row, else 0.
        known: How many stream names had numbers before.
        stream_names: The new stream names of these rows, in the order of their first appearance.
        streams: int32 `[n]`, the number of a known name, or `known` plus an index into `stream_names`; -1 if the value
            does not name its stream. A malformed row may have a stream.
        ids: uint64 `[n, ID_WORDS]`; zeros in rows without an id.
        features: float32 `[total]`, the features of all examples, one after the other.
        feature_starts: int64 `[n]`, index of the row's first element in `features`.
        feature_counts: int32 `[n]`; 0 in rows without features; `COLUMNS` in rows with values by column.
        value_starts: int64 `[n]`, where the map of values by column begins in the buffer of `cells`; -1: none.
        labels: int8 `[n]`, the class; -1 in rows without a class.
        revisions: int64 `[n]`, the revision of a label; 0 in other rows.
        marks: The control records, by row.
        cells: The values as Avro, which are those of `RawRecords` unless these have another form.
    """

    kinds: Bytes
    reasons: Bytes
    known: int
    stream_names: Sequence[str]
    streams: Integers
    ids: Words
    features: Floats
    feature_starts: Longs
    feature_counts: Integers
    value_starts: Longs
    labels: NDArray[np.int8]
    revisions: Longs
    marks: Mapping[int, Mark]
    cells: BinaryColumn
