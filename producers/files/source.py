"""A file as a data set: its rows on disk, in the order of time, as arrays that are memory maps.

The rows are written to a temporary file without a name as they are read. If their times ascend and no id comes twice,
that is all; else they are sorted (`ExternalSort`) into a second one.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers.datasets.base import DEFAULT_INTERVAL_MS, DataSet
from stream_app.producers.datasets.column_values import ColumnValues, values_as_bytes
from stream_app.producers.external_sort import ExternalSort, Rows
from stream_app.producers.files.cells import Fault, shown
from stream_app.producers.files.layout import ANY_INPUT, Example, FileOptions, Layout, StreamInput, WrongCellError
from stream_app.producers.files.readers import Reader, Row, Sample, open_file
from stream_app.producers.files.wrong_rows import WrongRows
from stream_app.records import MAX_ID_BYTES

BATCH_ROWS = 4_096
"""Rows that are read at a time."""

_ID_ROW = np.dtype([("hash", np.int64), ("row", np.int64)])


def _no_progress(_done: int, _size: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a file is read, and who hears about it.

    Attributes:
        options: What the user says about the file.
        limit: Read at most so many rows; None: all.
        on_note: Called with each line for people: what was guessed, and what was left out.
        on_progress: Called regularly with how much of the file was read, and its size.
        run_rows: Most rows that are sorted in memory; None: as many as `ExternalSort` holds.
    """

    options: FileOptions
    limit: int | None = None
    on_note: Callable[[str], None] = print
    on_progress: Callable[[int, int], None] = _no_progress
    run_rows: int | None = None


def read_file(path: Path, reading: Reading, stream: StreamInput = ANY_INPUT) -> DataSet:
    """Read a file of rows as a data set.

    Args:
        path: The file.
        reading: How it is read.
        stream: What the configuration says about the stream.

    Raises:
        ConfigurationError: An option does not fit the file.
        DataSetError: The file cannot be read, or a row is wrong and wrong rows are not skipped.
    """
    with open_file(path, reading.options.delimiter) as reader:
        layout = Layout(reader, Sample.of(reader), reading.options, stream)
        for note in layout.notes:
            reading.on_note(f"{path.name}: {note}")
        if layout.not_sent:
            names = ", ".join(layout.not_sent)
            reading.on_note(f"{path.name}: not sent, since the configuration has no such columns: {names}")
        wrong = WrongRows(str(path), reader.place, is_skipped=reading.options.skip_wrong_rows)
        count = 0
        with _Table(layout, reading.run_rows) as table:
            for batch in batches(reader, reading):
                count += len(batch)
                table.add([(row.line, example) for row, example in examples_of(batch, layout, wrong)])
            reading.on_note(f"{path.name}: {layout.classes_note}")
            rows = table.finish(wrong)
            values = table.values(rows) if layout.has_columns else None
        for line in wrong.report(count):
            reading.on_note(f"{path.name}: {line}")
    if not len(rows):
        raise DataSetError(f"{path}: no row is left to send")
    return _data_set(path.name, rows, values, layout)


def batches(reader: Reader, reading: Reading) -> Iterator[list[Row]]:
    """Yield the rows of a file, up to the limit, in batches, and report the progress."""
    rows = itertools.islice(reader.rows(), reading.limit)
    while batch := list(itertools.islice(rows, BATCH_ROWS)):
        yield batch
        reading.on_progress(reader.position, reader.size)
    reading.on_progress(reader.size, reader.size)


def examples_of(batch: list[Row], layout: Layout, wrong: WrongRows) -> Iterator[tuple[Row, Example]]:
    """Yield each row that is right, with its example."""
    for row in batch:
        if row.fault:
            wrong.add(row.line, WrongCellError("", Fault.BAD_ROW, row.fault))
            continue
        try:
            example = layout.example_of(row.cells)
        except WrongCellError as error:
            wrong.add(row.line, error)
        else:
            yield row, example


class _Table:
    """The rows of a file on disk."""

    def __init__(self, layout: Layout, run_rows: int | None) -> None:
        self._layout = layout
        self._run_rows = run_rows
        self._type = np.dtype(
            [
                ("time", np.int64),
                ("label_time", np.int64),
                ("line", np.int64),
                ("label", np.int8),
                ("id", f"S{MAX_ID_BYTES if layout.has_ids else 1}"),
                ("start", np.int64),
                ("size", np.int32),
                ("features", np.float32, (0 if layout.has_columns else len(layout.features),)),
            ]
        )
        self._content = tempfile.TemporaryFile()  # noqa: SIM115  (closed by __exit__)
        self._content_bytes = 0
        self._rows = _RowFile(self._type)
        self._result = _RowFile(self._type)
        self._ids = ExternalSort(_ID_ROW, ("hash", "row"), run_rows)
        self._latest = -(2**63)
        self._is_sorted = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files; memory maps of them stay."""
        self._rows.close()
        self._result.close()
        self._ids.close()
        self._content.close()

    def add(self, examples: list[tuple[int, Example]]) -> None:
        """Write rows in the order of the file."""
        if not examples:
            return
        rows = np.empty(len(examples), self._type)
        rows["line"] = [line for line, _ in examples]
        columns = zip(*(example[:5] for _, example in examples), strict=True)
        for name, column in zip(("time", "label_time", "label", "id", "features"), columns, strict=True):
            rows[name] = column
        if self._layout.has_columns:
            self._add_values(rows, [values_as_bytes(example.values) for _, example in examples])
        if self._layout.has_ids:
            self._add_ids(rows["id"].tolist())
        times = rows["time"]
        self._is_sorted &= int(times[0]) >= self._latest and bool((times[1:] >= times[:-1]).all())
        self._latest = int(times[-1])
        self._rows.append(rows)

    def _add_values(self, rows: Rows, values: list[bytes]) -> None:
        rows["size"] = [len(value) for value in values]
        rows["start"] = self._content_bytes + np.cumsum(rows["size"], dtype=np.int64) - rows["size"]
        self._content_bytes += self._content.write(b"".join(values))

    def values(self, rows: Rows) -> ColumnValues:
        """Return the values of the rows of `finish`."""
        self._content.flush()
        content = np.memmap(self._content, np.uint8, "r") if self._content_bytes else np.empty(0, np.uint8)
        return ColumnValues(self._layout.features, content, rows["start"], rows["size"])

    def _add_ids(self, ids: list[bytes]) -> None:
        entries = np.empty(len(ids), _ID_ROW)
        hashes = (int.from_bytes(blake2b(id_, digest_size=8).digest(), "little", signed=True) for id_ in ids)
        entries["hash"] = np.fromiter(hashes, np.int64, len(ids))
        entries["row"] = np.arange(len(self._rows), len(self._rows) + len(ids))
        self._ids.add(entries)

    def finish(self, wrong: WrongRows) -> Rows:
        """Return the rows in the order of time, without those whose id came before."""
        rows = self._rows.as_array()
        earlier = self._earlier_rows(rows)
        if earlier is not None:
            self._report(rows, earlier, wrong)
        elif self._is_sorted:
            return rows
        with ExternalSort(self._type, ("time", "line"), self._run_rows) as sort:
            for piece in _pieces(len(rows)):
                part = np.array(rows[piece])
                sort.add(part if earlier is None else part[earlier[piece] == 0])
            for block in sort.blocks():
                self._result.append(block)
        return self._result.as_array()

    def _earlier_rows(self, rows: Rows) -> NDArray[np.int64] | None:
        """Return for each row 1 + the earlier row that has the same id, else 0; None: no id comes twice."""
        pairs = doubled_rows(self._ids.blocks(), rows["id"])
        first = next(pairs, None)
        if first is None:
            return None
        with tempfile.TemporaryFile() as file:
            earlier = np.memmap(file, np.int64, "w+", shape=(len(rows),))
        for pair in itertools.chain([first], pairs):
            earlier[pair.row] = 1 + pair.earlier
        return earlier

    def _report(self, rows: Rows, earlier: NDArray[np.int64], wrong: WrongRows) -> None:
        """Report the rows whose id came before, in the order of the file."""
        for piece in _pieces(len(rows)):
            for row in piece.start + np.flatnonzero(earlier[piece]):
                text = shown(rows["id"][row].decode())
                first_line = int(rows["line"][earlier[row] - 1])
                detail = f"the id {text} is that of {wrong.place} {first_line:,}"
                wrong.add(int(rows["line"][row]), WrongCellError(self._layout.id_name, Fault.DOUBLED_ID, detail))


def _pieces(count: int) -> Iterator[slice]:
    return (slice(first, min(first + BATCH_ROWS, count)) for first in range(0, count, BATCH_ROWS))


class _RowFile:
    """Rows in a temporary file without a name, which lasts as long as it is open or mapped."""

    def __init__(self, row_type: np.dtype[np.void]) -> None:
        self._type = row_type
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (see close)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: Rows) -> None:
        """Write rows at the end."""
        self._file.write(rows.tobytes())
        self._count += len(rows)

    def as_array(self) -> Rows:
        """Return the rows as a memory map."""
        self._file.flush()
        return np.memmap(self._file, self._type, "r", shape=(self._count,)) if self._count else np.empty(0, self._type)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Pair(NamedTuple):
    """A row whose id an earlier row has."""

    row: int
    earlier: int


def doubled_rows(blocks: Iterator[Rows], ids: NDArray[np.bytes_]) -> Iterator[_Pair]:
    """Yield each row whose id an earlier row has, and that row, in no particular order.

    Args:
        blocks: Hash of the id, and row, of each row, in this order.
        ids: The ids by row. Different ids may have the same hash.
    """
    current, earlier = None, dict[bytes, int]()
    for block in blocks:
        hashes = block["hash"]
        differs = hashes[1:] != hashes[:-1]
        # neighbours with equal hashes, and both ends of the block, beside which the other block's rows lie
        is_alone = np.concatenate([[False], differs]) & np.concatenate([differs, [False]])
        for entry in block[~is_alone]:
            if entry["hash"] != current:
                current, earlier = entry["hash"], {}
            row = int(entry["row"])
            first = earlier.setdefault(bytes(ids[row]), row)
            if first != row:
                yield _Pair(row, first)


def _data_set(name: str, rows: Rows, values: ColumnValues | None, layout: Layout) -> DataSet:
    times = rows["time"]
    gaps = max(1, len(rows) - 1)
    mean_ms = max(1, round((int(times[-1]) - int(times[0])) / gaps))
    return DataSet(
        name=name,
        features=rows["features"],
        labels=rows["label"],
        clean_labels=None,
        preprocessing=f"the columns {', '.join(layout.features)}",
        source="file",
        learning_rate=0.01,
        interval_ms=mean_ms if layout.has_times else DEFAULT_INTERVAL_MS,
        times_ms=times if layout.has_times else None,
        label_times_ms=rows["label_time"] if layout.has_label_times else None,
        ids=rows["id"] if layout.has_ids else None,
        values=values,
    )
