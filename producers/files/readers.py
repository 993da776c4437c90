"""Files as rows of cells: CSV, JSON lines, Parquet, each also packed by gzip. What a file is, its content says.

The parsers of CSV and JSON are those of Python's library: they know the line of every row, also of one that is damaged,
and take any types in a column. Parquet needs pyarrow.
"""

import csv
import errno
import gzip
import io
import itertools
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from stream_app.errors import ConfigurationError, DataSetError
from stream_app.producers.files.cells import Cell, is_number

if TYPE_CHECKING:
    import _csv

DELIMITERS = (",", ";", "\t", "|")
"""What is tried as delimiter, in this order where two give the same columns."""

SAMPLE_ROWS = 1_000
"""Rows that show what a file is: its delimiter, and the types of its columns."""

MAX_LINE_CHARACTERS = 1 << 24
"""The longest line; a longer one is no line of such a file, and would fill the memory."""

_BATCH_ROWS = 1_024
"""Rows of a Parquet file that are unpacked at a time."""


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        line: The line on which it begins, from 1; of a Parquet file, the number of the row.
        cells: Its cells, one for each column.
        fault: Why it cannot be read; empty if it can.
    """

    line: int
    cells: Sequence[Cell]
    fault: str = ""


class Reader(Protocol):
    """An open file.

    Attributes:
        kind: What it is, for people.
        place: What `Row.line` counts: `line` or `row`.
        names: The names of the columns.
        size: The size of the file, in the unit of `position`.
    """

    kind: str
    place: str
    names: tuple[str, ...]
    size: int

    def rows(self) -> Iterator[Row]:
        """Yield all rows; may be called again."""

    @property
    def position(self) -> int:
        """How much of the file `rows` has read."""


@contextmanager
def open_file(path: Path, delimiter: str | None = None) -> Iterator[Reader]:
    """Open a file of rows.

    Args:
        path: The file.
        delimiter: The delimiter of CSV; None: the one that gives the most columns.

    Raises:
        DataSetError: The file is missing or not such a file.
        ConfigurationError: It is a Parquet file, and pyarrow is missing.
    """
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
        if not path.is_file():
            raise DataSetError(f"{path}: not a regular file")
        with gzip.open(path) if is_packed else path.open("rb") as content:
            beginning = content.read(4_096)
        if beginning.startswith(b"PAR1"):
            with _unpacked(path, is_packed=is_packed) as unpacked:
                yield _ParquetReader(path, unpacked)
        elif beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            yield _JsonReader(path, is_packed=is_packed)
        else:
            _require_text(path, beginning)
            yield _CsvReader(path, is_packed=is_packed, delimiter=delimiter)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # of the temporary files
        reason = getattr(error, "strerror", None) or str(error)
        raise DataSetError(f"{path}: {reason[:1].lower()}{reason[1:]}") from error


def _require_text(path: Path, beginning: bytes) -> None:
    if not beginning.strip():
        raise DataSetError(f"{path}: the file is empty")
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in beginning:
        raise DataSetError(f"{path}: neither UTF-8 text nor Parquet; `iconv -f UTF-16 -t UTF-8` converts UTF-16")
    if beginning.lstrip().startswith(b"["):
        raise DataSetError(f"{path}: a JSON array; needed is one object on each line (`jq -c '.[]'`)")


@contextmanager
def _unpacked(path: Path, *, is_packed: bool) -> Iterator[IO[bytes]]:
    """Open a file, or its unpacked copy: Parquet is read from its end."""
    with tempfile.TemporaryFile() if is_packed else path.open("rb") as file:
        if is_packed:
            with gzip.open(path) as packed:
                shutil.copyfileobj(packed, file)
            file.seek(0)
        yield file


class _TextReader:
    """Lines of a text file."""

    place = "line"

    def __init__(self, path: Path, *, is_packed: bool) -> None:
        self._path = path
        self._is_packed = is_packed
        self.size = path.stat().st_size
        self.position = 0

    def _lines(self) -> Iterator[str]:
        """Yield the lines, with their ends; bytes that are not UTF-8 become lone surrogates."""
        with self._path.open("rb") as raw:
            unpacked: Any = gzip.GzipFile(fileobj=raw) if self._is_packed else raw
            text = _text(unpacked)
            for number in itertools.count(1):
                line = text.readline(MAX_LINE_CHARACTERS)
                if len(line) == MAX_LINE_CHARACTERS:
                    raise DataSetError(f"{self._path}: line {number} has more than {MAX_LINE_CHARACTERS:,} characters")
                if not line:
                    return
                if number % _BATCH_ROWS == 0:
                    self.position = raw.tell()
                yield line


def _text(binary: IO[bytes]) -> IO[str]:
    return io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="")


class _CsvReader(_TextReader):
    """CSV with a line of names."""

    def __init__(self, path: Path, *, is_packed: bool, delimiter: str | None) -> None:
        super().__init__(path, is_packed=is_packed)
        self.delimiter = delimiter or self._likely_delimiter()
        try:
            names = next((cells for cells in self._csv_rows() if cells), [])
        except csv.Error as error:
            raise DataSetError(f"{path}: the line of names cannot be read as CSV: {error}") from None
        self.names = tuple(name.strip() or f"column {number}" for number, name in enumerate(names, 1))
        if 2 * sum(map(is_number, self.names)) > len(self.names):
            shown = self.delimiter.join(names[:3])
            raise DataSetError(
                f"{path}: the first line must have the names of the columns, and has numbers: {shown}..."
            )
        self.kind = f"CSV with the delimiter {self.delimiter!r}"
        _require_distinct(path, self.names)

    def _likely_delimiter(self) -> str:
        """Return the delimiter with which the first rows have the most columns, and most as many as there are names."""
        sample = list(itertools.islice(self._lines(), 100))

        def columns(delimiter: str) -> int:
            try:
                widths = [len(cells) for cells in csv.reader(sample, delimiter=delimiter) if cells]
            except csv.Error:
                return 0
            return widths[0] if widths and 2 * widths.count(widths[0]) > len(widths) else 0

        return max(DELIMITERS, key=columns)

    def _csv_rows(self) -> "_csv.Reader":
        return csv.reader(self._lines(), delimiter=self.delimiter, strict=True)

    def rows(self) -> Iterator[Row]:
        """Yield the rows after the names; lines without anything are no rows."""
        reader = self._csv_rows()
        is_after_names = False
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield Row(line, (), f"it cannot be read as CSV: {error}")
                continue
            if cells is None:
                return
            if not cells:
                continue
            if not is_after_names:
                is_after_names = True
            elif len(cells) == len(self.names):
                yield Row(line, cells)
            else:
                yield Row(line, (), f"it has {len(cells)} cells, and there are {len(self.names)} columns")


class _JsonReader(_TextReader):
    """One JSON object on each line; the first objects say which columns there are."""

    kind = "JSON lines"

    def __init__(self, path: Path, *, is_packed: bool) -> None:
        super().__init__(path, is_packed=is_packed)
        self.names: tuple[str, ...] = ()
        found: dict[str, None] = {}
        for _, value in itertools.islice(self._values(), SAMPLE_ROWS):
            if isinstance(value, dict):
                found.update(dict.fromkeys(value))
        self.names = tuple(found)
        if not found:
            raise DataSetError(f"{path}: no line has a JSON object")

    def _values(self) -> Iterator[tuple[int, object]]:
        for number, line in enumerate(self._lines(), 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, error

    def rows(self) -> Iterator[Row]:
        """Yield the rows; a key that is not there is a missing value."""
        for number, value in self._values():
            if isinstance(value, dict):
                yield Row(number, [value.get(name) for name in self.names])
            elif isinstance(value, Exception):
                yield Row(number, (), f"it cannot be read as JSON: {value}")
            else:
                yield Row(number, (), "it is not a JSON object")


class _ParquetReader:
    """A Parquet file."""

    kind = "Parquet"
    place = "row"

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415  (an extra)
            from pyarrow import parquet  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ConfigurationError(
                f"{path}: reading Parquet needs pyarrow: install areba[parquet], or `pip install pyarrow`"
            ) from None
        self._arrow = pa
        try:
            self._file = parquet.ParquetFile(file)
        except pa.ArrowException as error:
            raise DataSetError(f"{path}: cannot be read as Parquet: {error}") from error
        self._path = path
        self.names = tuple(self._file.schema_arrow.names)
        self.size = self._file.metadata.num_rows
        self.position = 0
        _require_distinct(path, self.names)

    def rows(self) -> Iterator[Row]:
        """Yield the rows; points in time are rounded down to milliseconds."""
        number = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS):
                columns = [self._cells(column) for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield Row(number, cells)
                self.position = number
        except self._arrow.ArrowException as error:
            raise DataSetError(f"{self._path}: cannot be read as Parquet: {error}") from error

    def _cells(self, column: Any) -> list[Cell]:  # noqa: ANN401  (pyarrow has no types)
        """Return the values of a column; Python's times have no nanoseconds."""
        kind = column.type
        if self._arrow.types.is_timestamp(kind) and kind.unit == "ns":
            column = column.cast(self._arrow.timestamp("us", kind.tz), safe=False)
        return column.to_pylist()  # type: ignore[no-any-return]


def _require_distinct(path: Path, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataSetError(f"{path}: two columns have the name {name!r}")


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a file."""

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, reader: Reader) -> "Sample":
        """Read the first rows that can be read."""
        readable = (row for row in reader.rows() if not row.fault)
        return cls(tuple(itertools.islice(readable, SAMPLE_ROWS)))

    def column(self, index: int) -> list[Cell]:
        """Return the cells of a column."""
        return [row.cells[index] for row in self.rows]
