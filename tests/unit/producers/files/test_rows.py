"""Rows of a file: wrong cells are reported, rows come in the order of time, and memory holds a part of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.errors import DataSetError
from stream_app.producers.external_sort import ExternalSort
from stream_app.producers.files import source
from stream_app.producers.files.source import doubled_rows
from tests.support.row_files import Heard

OPTIONS: dict[str, Any] = {
    "id": "id",
    "time": "at",
    "label": "y",
    "positive": ("yes",),
    "negative": ("no",),
    "label_time": "known",
}
HEAD = "id,at,amount,y,known\n"
GOOD = "a,2024-01-01,1,yes,2024-01-02\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b,2024-01-01,1x,no,2024-01-02", "line 3, column amount: '1x' is not a number"),
        ("b,2024-01-01,1_000,no,2024-01-02", "line 3, column amount: '1_000' is not a number"),
        ("b,2024-01-01,1e39,no,2024-01-02", "line 3, column amount: '1e39' is not a number that a feature can hold"),
        ("b,2024-01-01,inf,no,2024-01-02", "line 3, column amount: 'inf' is not a number"),
        ("b,2024-01-01,,no,2024-01-02", "line 3, column amount: the value is missing"),
        ("b,2024-01-01,NaN,no,2024-01-02", "line 3, column amount: the value is missing"),
        ("b,01/02/2024,1,no,2024-01-02", "line 3, column at: '01/02/2024' is not a time in ISO 8601"),
        ("b,,1,no,2024-01-02", "line 3, column at: the time is missing"),
        ("b,2024-01-01,1,maybe,2024-01-02", r"column y: 'maybe' is neither yes \(--positive\) nor no \(--negative\)"),
        ("b,2024-01-01,1,no,", "line 3, column known: the time is missing"),
        (",2024-01-01,1,no,2024-01-02", "line 3, column id: the id is empty"),
        (f"{'b' * 65},2024-01-01,1,no,2024-01-02", "line 3, column id: .* more than 64 bytes"),
        ("a,2024-01-03,1,no,2024-01-04", "line 3, column id: the id 'a' is that of line 2"),
        ("b,2024-01-01,1,no", "line 3: it has 4 cells, and there are 5 columns"),
        ('b,2024-01-01,"1"2,no,2024-01-02', "line 3: it cannot be read as CSV"),
        ("\udcff,2024-01-01,1,no,2024-01-02", "line 3, column id: .* is not UTF-8"),
    ],
)
def test_a_wrong_row_stops_or_is_left_out(tmp_path: Path, row: str, message: str) -> None:
    """By default nothing is sent; else the rest is, and the user reads where to look."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_bytes((HEAD + GOOD + row + "\nc,2024-01-05,2,no,2024-01-06\n").encode(errors="surrogateescape"))
    with pytest.raises(DataSetError, match=f"rows.csv: .*{message}.*--wrong-rows skip"):
        heard.read(path, **OPTIONS)
    data = heard.read(path, **OPTIONS, skip_wrong_rows=True)
    assert data.ids is not None
    assert data.ids.tolist() == [b"a", b"c"]
    assert "left out 1 of 3 rows" in heard.text
    assert "line 3" in heard.notes[-1]


def test_lines_are_those_of_an_editor(tmp_path: Path) -> None:
    """A cell of two lines and an empty line count."""
    path = tmp_path / "rows.csv"
    path.write_text('x,shop\n1,"a\nb"\n\n2,c\n,d\n')
    with pytest.raises(DataSetError, match="line 6, column x: the value is missing"):
        Heard().read(path)


def test_wrong_rows_of_json_and_parquet_have_a_place(tmp_path: Path) -> None:
    """Types may differ from line to line, and a line may be damaged."""
    path, heard = tmp_path / "rows.jsonl", Heard()
    path.write_text('{"x": 1}\n{"x": "abc"}\n{"x": [1]}\n{"x": 1\n3\n{"x": true}\n{"x": 4}\n')
    data = heard.read(path, skip_wrong_rows=True)
    assert data.features.tolist() == [[1], [1], [4]]
    assert "left out 4 of 7 rows: x: 2 x not a number; 2 x unreadable row" in heard.text
    for line in (2, 3, 4, 5):
        assert f"line {line}" in heard.text


def test_only_the_first_wrong_rows_are_shown(tmp_path: Path) -> None:
    """A million lines on the terminal, or in memory, would help nobody."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_text("x\n1\n2\n" + "a\n1\n" * 500)
    heard.read(path, skip_wrong_rows=True)
    assert "left out 500 of 1,002 rows: x: 500 x not a number" in heard.text
    assert heard.text.count("column x: 'a'") == 10
    assert "and 490 more" in heard.text


def test_all_wrong_is_an_error(tmp_path: Path) -> None:
    """An empty stream would look like a success."""
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(DataSetError, match="no row is left to send"):
        Heard().read(path, label="y", skip_wrong_rows=True)


def test_doubled_ids_are_found_far_apart(tmp_path: Path) -> None:
    """The second row of an id would be a duplicate, or a conflict, in the join."""
    path, heard = tmp_path / "rows.csv", Heard()
    lines = [f"t{number % 4_900},{number},{number}" for number in range(5_000)]
    path.write_text("id,at,x\n" + "\n".join(lines) + "\n")
    data = heard.read(path, id="id", time="at", features=("x",), skip_wrong_rows=True, run_rows=64)
    assert data.features[:, 0].tolist() == list(range(4_900))
    assert "id: 100 x doubled id" in heard.text
    assert "line 4,902, column id: the id 't0' is that of line 2" in heard.text


def test_ids_with_equal_hashes_are_not_doubled() -> None:
    """A row that is right would be lost."""
    rows = np.zeros(6, np.dtype([("hash", np.int64), ("row", np.int64)]))
    rows["hash"], rows["row"] = [1, 5, 5, 5, 5, 9], range(6)
    ids = np.array([b"x", b"a", b"b", b"a", b"c", b"a"])
    for cut in range(7):
        blocks = (block for block in (rows[:cut], rows[cut:]) if len(block))
        assert [tuple(pair) for pair in doubled_rows(blocks, ids)] == [(3, 1)]


def test_memory_holds_a_part_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is larger than memory must pass: no sort and no batch holds more rows than it may."""
    held: list[int] = []

    class Watched(ExternalSort):
        def __exit__(self, *error: object) -> None:
            held.append(self.most_held)
            super().__exit__(*error)  # type: ignore[arg-type]

    monkeypatch.setattr(source, "ExternalSort", Watched)
    monkeypatch.setattr(source, "BATCH_ROWS", 50)
    path = tmp_path / "rows.csv"
    order = np.random.default_rng(1).permutation(3_000)
    path.write_text("id,at,x\n" + "".join(f"t{number},{number},{number}\n" for number in order))
    data = Heard().read(path, id="id", time="at", features=("x",), run_rows=100)
    assert data.features[:, 0].tolist() == list(range(3_000))
    assert held
    assert max(held) <= 100
    assert isinstance(data.features, np.memmap)


def test_a_sorted_file_needs_no_second_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most files are sorted already, and large ones take long enough."""
    monkeypatch.setattr(ExternalSort, "add", None)
    path = tmp_path / "rows.csv"
    path.write_text("at,x\n1,1\n1,2\n3,3\n")
    assert Heard().read(path, time="at", features=("x",)).features.tolist() == [[1], [2], [3]]


def test_limit_takes_the_first_rows(tmp_path: Path) -> None:
    """A first try of a large file should take a moment."""
    path = tmp_path / "rows.csv"
    path.write_text("at,x\n3,1\n1,2\n2,3\n")
    assert Heard().read(path, time="at", features=("x",), limit=2).features.tolist() == [[2], [1]]
