"""Files of rows in every format, for tests of replays of files."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_app.producers.datasets.base import DataSet
from stream_app.producers.files.layout import ANY_INPUT, FileOptions, StreamInput
from stream_app.producers.files.source import Reading, read_file

RowsToWrite = Sequence[Mapping[str, object]]


def csv_text(rows: RowsToWrite, delimiter: str = ",", line_end: str = "\n", *, decimal_comma: bool = False) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end)
    writer.writerow(rows[0])
    for row in rows:
        cells = ["" if cell is None else cell for cell in row.values()]
        writer.writerow(
            [str(cell).replace(".", ",") if decimal_comma and isinstance(cell, float) else cell for cell in cells]
        )
    return text.getvalue()


def json_text(rows: RowsToWrite) -> str:
    """Return rows as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def parquet_bytes(rows: RowsToWrite) -> bytes:
    """Return rows as a Parquet file; skip the test without pyarrow."""
    arrow = pytest.importorskip("pyarrow", reason="areba[parquet] is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    buffer = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


FORMATS: Mapping[str, Callable[[RowsToWrite], bytes]] = {
    "csv": lambda rows: csv_text(rows).encode(),
    "csv, semicolons and decimal commas": lambda rows: csv_text(rows, ";", decimal_comma=True).encode(),
    "csv, tabs": lambda rows: csv_text(rows, "\t").encode(),
    "csv, bars": lambda rows: csv_text(rows, "|").encode(),
    "csv, CRLF": lambda rows: csv_text(rows, line_end="\r\n").encode(),
    "csv, BOM": lambda rows: csv_text(rows).encode("utf-8-sig"),
    "csv, empty lines": lambda rows: csv_text(rows, line_end="\n\n").encode(),
    "csv, no last line end": lambda rows: csv_text(rows).encode().rstrip(),
    "csv, gzip": lambda rows: gzip.compress(csv_text(rows).encode()),
    "json lines": lambda rows: json_text(rows).encode(),
    "json lines, CRLF": lambda rows: json_text(rows).replace("\n", "\r\n").encode(),
    "json lines, BOM": lambda rows: json_text(rows).encode("utf-8-sig"),
    "json lines, gzip": lambda rows: gzip.compress(json_text(rows).encode()),
    "parquet": parquet_bytes,
    "parquet, gzip": lambda rows: gzip.compress(parquet_bytes(rows)),
}
"""Functions that write rows in a format, by its name."""


class Heard:
    """Reads files, and keeps what is said about them."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.progress: list[tuple[int, int]] = []

    def read(
        self,
        path: Path,
        *,
        run_rows: int | None = None,
        limit: int | None = None,
        stream: StreamInput = ANY_INPUT,
        **options: Any,  # noqa: ANN401  (any field)
    ) -> DataSet:
        """Read a file with these options (`FileOptions`)."""
        reading = Reading(
            options=FileOptions(**options),
            limit=limit,
            run_rows=run_rows,
            on_note=self.notes.append,
            on_progress=lambda done, size: self.progress.append((done, size)),
        )
        return read_file(path, reading, stream)

    @property
    def text(self) -> str:
        """All notes."""
        return "\n".join(self.notes)
