"""Rows of a file as values by column: what the configuration says of a stream is what its examples have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_app.config import Config
from stream_app.errors import ConfigurationError, DataSetError
from stream_app.producers.datasets.base import DataSet
from stream_app.producers.events import events
from stream_app.producers.files.layout import StreamInput
from stream_app.producers.plan import StreamPlan
from stream_app.records import Example, Value
from stream_app.serialization.codec import decode_one
from tests.support.replaying import plan_of
from tests.support.row_files import FORMATS, Heard, csv_text

OPTIONS: dict[str, Any] = {"id": "id", "label": "y", "positive": ("yes",)}

ROWS = [
    {"id": "a", "amount": 12.5, "age": 30, "country": "Türkei; Süd", "vip": True, "shop": 7, "y": "no"},
    {"id": "b", "amount": -9999.0, "age": None, "country": None, "vip": False, "shop": 7, "y": "yes"},
    {"id": "c", "amount": 1e-7, "age": 4, "country": "NA", "vip": False, "shop": 8, "y": "no"},
]


def _input(text: str) -> StreamInput:
    stream = Config.model_validate({"streams": {"s": yaml.safe_load(text)}}).streams["s"]
    return StreamInput(columns=stream.columns, missing_values=stream.missing_values, features=stream.features)


STREAM = _input("""
columns:
  country: {category: {most: 5}, missing: mean}
  amount: {missing: mean}
  age: {missing: mean}
  vip: number
  shop: {category: {hashed: 4}}
missing_values: [-9999]
""")


def _sent(data: DataSet) -> list[dict[str, Value]]:
    """Return the values of the examples as they are sent."""
    records = [decode_one(sent.value) for sent in events(plan_of(StreamPlan("s", data)))]
    return [dict(record.values or {}) for record in records if isinstance(record, Example)]


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_the_same_values(tmp_path: Path, name: str) -> None:
    """A gap is null, and `NA` is a country: a mark that no setting names is a category."""
    path = tmp_path / "rows.txt"
    path.write_bytes(FORMATS[name](ROWS))
    found = _sent(Heard().read(path, stream=STREAM, **OPTIONS))
    assert [{**values, "shop": int(values["shop"])} for values in found] == [  # type: ignore[arg-type]
        {"country": "Türkei; Süd", "amount": 12.5, "age": 30.0, "vip": 1.0, "shop": 7},
        {"country": None, "amount": -9999.0, "age": None, "vip": 0.0, "shop": 7},
        {"country": "NA", "amount": 1e-7, "age": 4.0, "vip": 0.0, "shop": 8},
    ]
    is_text = name.startswith("csv")
    assert all(isinstance(values["shop"], str) == is_text for values in found)


def test_rows_come_in_the_order_of_time(tmp_path: Path) -> None:
    """Values must stay with their rows when rows are sorted outside of memory."""
    path = tmp_path / "rows.csv"
    lines = [f"{4_999 - number},t{number},{number}" for number in range(5_000)]
    path.write_text("at,shop,x\n" + "\n".join(lines) + "\n")
    stream = _input("columns: {shop: {category: {hashed: 4}}, x: number}")
    data = Heard().read(path, stream=stream, time="at", run_rows=64)
    assert _sent(data) == [{"shop": f"t{number}", "x": float(number)} for number in reversed(range(5_000))]
    assert _sent(data.prefix(3)) == _sent(data)[:3]
    assert data.dimension == 2


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("12a,DE", "line 3, column amount: '12a' is not a number that a feature can hold"),
        (",DE", "line 3, column amount: the value is missing, and the column has no `missing: mean`"),
        ("-9999,DE", "line 3, column amount: the value is missing, and"),
        ("1, ", "line 3, column country: the value is missing, and"),
        ("1,?", "line 3, column country: the value is missing, and"),
        ("1,\udcff", "line 3, column country: .* is not UTF-8"),
    ],
)
def test_a_wrong_value_stops_or_is_left_out(tmp_path: Path, cells: str, message: str) -> None:
    """It would be a dead letter `bad-column`, of which the user learns only later."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_bytes(f"amount,country\n1,DE\n{cells}\n2,FR\n".encode(errors="surrogateescape"))
    stream = _input("{columns: {amount: number, country: {category: {most: 3}}}, missing_values: [-9999, '?']}")
    with pytest.raises(DataSetError, match=f"{message}.*--wrong-rows skip"):
        heard.read(path, stream=stream)
    data = heard.read(path, stream=stream, skip_wrong_rows=True)
    assert _sent(data) == [{"amount": 1.0, "country": "DE"}, {"amount": 2.0, "country": "FR"}]
    assert "left out 1 of 3 rows" in heard.text


def test_a_fraction_is_no_category(tmp_path: Path) -> None:
    """The application refuses it, too."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"shop": 7}\n{"shop": 7.0}\n{"shop": 7.5}\n{"shop": [1]}\n{"shop": 1e300}\n{"shop": true}\n')
    stream = _input("columns: {shop: {category: {most: 3}}}")
    data = Heard().read(path, stream=stream, skip_wrong_rows=True)
    assert [values["shop"] for values in _sent(data)] == [7, 7, True]


def test_decimal_commas_and_marks_among_numbers(tmp_path: Path) -> None:
    """A text mark is sent as it is: the application takes it for a missing value."""
    path = tmp_path / "rows.csv"
    rows: list[dict[str, object]] = [{"x": 1.5, "n": 1}, {"x": " ? ", "n": 2}, {"x": 2.5, "n": 3}]
    path.write_bytes(csv_text(rows, ";", decimal_comma=True).encode("utf-8-sig"))
    stream = _input("{columns: {x: {missing: mean}, n: number}, missing_values: ['?']}")
    assert _sent(Heard().read(path, stream=stream)) == [
        {"x": 1.5, "n": 1.0},
        {"x": "?", "n": 2.0},
        {"x": 2.5, "n": 3.0},
    ]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("columns: {amout: number}", {}, "columns: amout: the file has no such column; did you mean amount"),
        ("columns: {amount: number}", {"features": ("amount",)}, "--features: the configuration has the columns"),
        ("features: 3", {}, "the stream has 3 features, and the file 2: amount, age"),
    ],
)
def test_a_file_that_contradicts_the_configuration_is_refused(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    """Each of its examples would be a dead letter."""
    path = tmp_path / "rows.csv"
    path.write_text("amount,age\n1,2\n")
    with pytest.raises(ConfigurationError, match=message):
        Heard().read(path, stream=_input(text), **options)


def test_columns_that_are_not_sent_are_named(tmp_path: Path) -> None:
    """A user who adds a column to the file and not to the stream wonders why nothing is learned of it."""
    path, heard = tmp_path / "rows.csv", Heard()
    path.write_text("amount,age,y\n1,2,1\n")
    heard.read(path, stream=_input("columns: {amount: number}"), label="y")
    assert "rows.csv: not sent, since the configuration has no such columns: age" in heard.notes
