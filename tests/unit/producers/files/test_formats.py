"""The formats of files: the same rows are the same examples, whatever the format and however it is written."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.errors import ConfigurationError, DataSetError
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.events import events
from stream_app.producers.files import readers
from stream_app.producers.files.cells import TimeUnit
from stream_app.producers.plan import StreamPlan
from tests.support.replaying import plan_of
from tests.support.row_files import FORMATS, Heard, csv_text, parquet_bytes

ROWS = [
    {
        "transaction": "t1",
        "date": "2024-01-01T10:00:00Z",
        "amount": 12.5,
        "age": 3,
        "shop": "Café, Lyon",
        "fraud": "no",
    },
    {
        "transaction": "t2",
        "date": "2024-01-01T12:00:01.250+01:00",
        "amount": -0.25,
        "age": 4,
        "shop": 'a "b"',
        "fraud": "yes",
    },
    {
        "transaction": "é3",
        "date": "2024-01-01T10:30:00Z",
        "amount": 1e-7,
        "age": 5,
        "shop": "two\nlines",
        "fraud": "no",
    },
    {"transaction": "t4", "date": "2024-01-01T13:00:00Z", "amount": 7.0, "age": 0, "shop": None, "fraud": None},
]
OPTIONS: dict[str, Any] = {
    "id": "transaction",
    "time": "date",
    "label": "fraud",
    "positive": ("yes",),
    "negative": ("no",),
}
IDS = [b"t1", "é3".encode(), b"t2", b"t4"]


def _read(path: Path, content: bytes, **options: Any) -> DataSet:  # noqa: ANN401  (any field)
    path.write_bytes(content)
    return Heard().read(path, **options)


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_are_the_same_events_in_each_format(tmp_path: Path, name: str) -> None:
    """A user converts a file and sends it again: another example would be another model."""
    data = _read(tmp_path / "payments.txt", FORMATS[name](ROWS), **OPTIONS)
    assert data.ids is not None
    assert data.ids.tolist() == IDS
    assert data.labels.tolist() == [0, 0, 1, -1]
    assert data.features.tolist() == np.array([[12.5, 3], [1e-7, 5], [-0.25, 4], [7, 0]], np.float32).tolist()
    plain = _read(tmp_path / "plain.csv", csv_text(ROWS).encode(), **OPTIONS)
    sent, expected = (list(events(plan_of(StreamPlan("payments", found)))) for found in (data, plain))
    assert sent == expected
    assert len(sent) == 4 + 3 + 2  # examples, labels, marks


HOUR_MS = 3_600_000
NOON_MS = 1_704_110_400_000  # 2024-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("2024-01-01T12:00:00Z", "2024-01-01T13:00:00Z", "2024-01-01T14:00:00Z"),
        ("2024-01-01 12:00", "2024-01-01 13:00", "2024-01-01 14:00"),
        ("2024-01-01T12:00:00.0009", "2024-01-01T14:00:00+01:00", "2024-01-01T09:00:00-05:00"),
        ("20240101T120000Z", "20240101T130000Z", "20240101T140000Z"),
        ("1704110400", "1704114000", "1704117600.0"),
        (1_704_110_400, 1_704_114_000, 1_704_117_600),
        ("1704110400000", "1704114000000", "1704117600000"),
        ("1704110400000999", "1704114000000000", "1704117600000000"),
        (1_704_110_400_000_000_001, 1_704_114_000_000_000_000, 1_704_117_600_000_000_000),
    ],
)
def test_times_are_read_as_they_are_written(tmp_path: Path, first: object, second: object, third: object) -> None:
    """A time in another unit or zone would move an example by hours, or by centuries."""
    rows = [{"at": time, "x": number} for number, time in enumerate((first, second, third))]
    for name in ("csv", "json lines"):
        data = _read(tmp_path / "rows.txt", FORMATS[name](rows), time="at")
        assert data.times_ms is not None
        assert data.times_ms.tolist() == [NOON_MS, NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS]
        assert data.interval_ms == HOUR_MS


@pytest.mark.parametrize(
    "cells",
    [
        [datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=UTC)],
        [datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 13)],  # noqa: DTZ001  (a column without a zone)
    ],
)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_parquet_keep_their_type(tmp_path: Path, cells: list[datetime], unit: str) -> None:
    """Pandas writes nanoseconds, Spark microseconds."""
    arrow = pytest.importorskip("pyarrow", reason="areba[parquet] is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    zone = "Europe/Paris" if cells[0].tzinfo else None
    table = arrow.table({"at": arrow.array(cells, arrow.timestamp(unit, zone)), "x": [1, 2]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    data = Heard().read(tmp_path / "rows.parquet", time="at")
    assert data.times_ms is not None
    assert data.times_ms.tolist() == [NOON_MS, NOON_MS + HOUR_MS]


def test_days_of_parquet_begin_at_midnight(tmp_path: Path) -> None:
    """A column of dates has no time of day."""
    rows = [{"at": date(2024, 1, 1), "x": 1.0}, {"at": date(2024, 1, 2), "x": 2.0}]
    data = _read(tmp_path / "rows.parquet", parquet_bytes(rows), time="at")
    assert data.times_ms is not None
    assert data.times_ms.tolist() == [NOON_MS - 12 * HOUR_MS, NOON_MS + 12 * HOUR_MS]


def test_without_times_rows_come_at_an_interval(tmp_path: Path) -> None:
    """A file without times is sent in its order, as the shipped data are."""
    data = _read(tmp_path / "rows.csv", b"x,y\n1,0\n2,1\n3,0\n", label="y")
    sent = list(events(plan_of(StreamPlan("rows", data, interval_ms=250))))
    assert [record.timestamp_ms - sent[0].timestamp_ms for record in sent] == [0, 0, 250, 250, 500, 500, 500, 500]


@pytest.mark.parametrize(
    ("values", "options", "labels"),
    [
        (["1", "0", "1.0"], {}, [1, 0, 1]),
        ([1, 0, 1.0], {}, [1, 0, 1]),
        ([True, False, None], {}, [1, 0, -1]),
        (["true", "False", ""], {}, [1, 0, -1]),
        (["bad", "good", "good"], {"positive": ("bad",)}, [1, 0, 0]),
        (["Bad", "bad", "good"], {"positive": ("BAD",)}, [1, 1, 0]),
        (["a", "b", "c"], {"positive": ("a", "b")}, [1, 1, 0]),
        (["a", "b", "c"], {"positive": ("a",), "negative": ("b", "c")}, [1, 0, 0]),
        ([2, 1, 1], {"positive": ("2",)}, [1, 0, 0]),
    ],
)
def test_labels_are_read_as_one_says(
    tmp_path: Path, values: list[object], options: dict[str, Any], labels: list[int]
) -> None:
    """A label that is taken for the other class would teach the opposite; a missing label is not yet known."""
    rows = [{"x": number, "y": value} for number, value in enumerate(values)]
    for name in ("csv", "json lines"):
        data = _read(tmp_path / "rows.txt", FORMATS[name](rows), label="y", **options)
        assert data.labels.tolist() == labels


def test_what_is_guessed_is_said(tmp_path: Path) -> None:
    """A wrong guess that nobody sees is a wrong model."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_text(
        "at;amount;code;y\n1704110400;1,5;x7;no\n1704110401;2,5;9;yes\n1704110402;;z;no\n1704110403;4;w;no\n"
    )
    with pytest.raises(DataSetError, match=r"line 4, column amount: the value is missing"):
        heard.read(path, time="at", label="y", positive=("yes",))
    assert "CSV with the delimiter ';'" in heard.text
    assert "at: times are in seconds since 1970 (--time-unit)" in heard.text
    assert "amount: 1,5 is a number with a decimal comma (--decimal)" in heard.text
    assert "1 features: amount (--features)" in heard.text
    assert "left out, because most of their cells are no numbers: code" in heard.text
    heard.read(path, time="at", label="y", positive=("yes",), skip_wrong_rows=True)
    assert "y: yes is class 1 (--positive), no class 0 (--negative)" in heard.text
    assert heard.progress[-1] == (path.stat().st_size, path.stat().st_size)


def test_options_take_the_place_of_guesses(tmp_path: Path) -> None:
    """`1,5` may be two cells, and `20240102` a day or seconds."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_text("at;a,b\n20240102;1,5\n20240103;2,5\n")
    data = heard.read(path, delimiter=";", decimal="comma", time="at", time_unit=TimeUnit.ISO, features=("a,b",))
    assert data.features.tolist() == [[1.5], [2.5]]
    assert data.times_ms is not None
    assert data.times_ms.tolist() == [NOON_MS + 12 * HOUR_MS, NOON_MS + 36 * HOUR_MS]
    assert len(heard.notes) == 2  # the format, and that there are no labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        ("a,b\n1,2\n".encode("utf-16"), "neither UTF-8 text nor Parquet"),
        (b'[{"a": 1}]', "a JSON array; needed is one object on each line"),
        (b"a,a\n1,2\n", "two columns have the name 'a'"),
        (b"1.5,2,no\n2.5,3,no\n", "the first line must have the names of the columns, and has numbers: 1.5,2,no"),
        (b"PAR1 and no more", "cannot be read as Parquet"),
        (b"\x1f\x8b\x08 cut off", "eof|Compressed file|end-of-stream|not a gzip|invalid|corrupt"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    """One line with the file and what is wrong, not a traceback."""
    if content.startswith(b"PAR1"):
        pytest.importorskip("pyarrow", reason="areba[parquet] is not installed")
    with pytest.raises(DataSetError, match=f"(?i){message}") as caught:
        _read(tmp_path / "rows.csv", content)
    assert "rows.csv" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """So is a folder."""
    for path, reason in ((tmp_path / "no.csv", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(DataSetError, match=reason):
            Heard().read(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV and JSON lines need no extra."""
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"install areba\[parquet\]"):
        _read(tmp_path / "rows.parquet", b"PAR1....PAR1")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another kind may be one line of any length."""
    monkeypatch.setattr(readers, "MAX_LINE_CHARACTERS", 100)
    with pytest.raises(DataSetError, match="line 2 has more than 100 characters"):
        _read(tmp_path / "rows.csv", b"x\n" + b"1" * 1_000)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The nearest name is the likely one."""
    with pytest.raises(
        ConfigurationError, match=r"--label is_fraud: the file has no such column; did you mean isFraud\?"
    ):
        _read(tmp_path / "rows.csv", b"x,isFraud\n1,0\n", label="is_fraud")
    with pytest.raises(ConfigurationError, match="no column of numbers is left for the features"):
        _read(tmp_path / "rows.csv", b"x,y\na,b\n")


def test_keys_of_json_may_be_left_out(tmp_path: Path) -> None:
    """Many programs leave out what is null."""
    content = "".join(json.dumps(row) + "\n" for row in ({"x": 1}, {"x": 2, "y": 1}, {"y": 0, "x": 3}))
    data = _read(tmp_path / "rows.jsonl", content.encode(), label="y")
    assert data.labels.tolist() == [-1, 1, 0]
    assert data.features.tolist() == [[1], [2], [3]]
