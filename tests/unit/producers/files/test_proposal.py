"""The columns that `areba-replay describe` proposes: what is guessed is said, and the file fits them."""

import random
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stream_app.config import load
from stream_app.producers import cli
from stream_app.producers.files.layout import StreamInput
from tests.support.row_files import Heard, csv_text

HEAD = "streams:\n  rows:\n    learning_rate: 0.01\n"


def _described(tmp_path: Path, columns: dict[str, list[object]], *options: str) -> tuple[str, dict[str, object]]:
    """Describe a file of these columns; return the output, and the stream's columns and marks."""
    path = tmp_path / "rows.csv"
    names = list(columns)
    path.write_text(csv_text([dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]))
    result = CliRunner().invoke(cli.main, ["describe", str(path), *options])
    assert result.exit_code == 0, result.output
    (tmp_path / "my.yaml").write_text(result.stdout)
    stream = load(tmp_path / "my.yaml", {}).streams["rows"]
    data = Heard().read(path, stream=StreamInput(columns=stream.columns, missing_values=stream.missing_values))
    assert len(data) == len(next(iter(columns.values())))  # no row is wrong
    return result.stdout, yaml.safe_load(result.stdout)["streams"]["rows"]


@pytest.mark.parametrize(
    ("name", "cells", "setting", "said"),
    [
        ("amount", [0.5, 1.5, 3.25], "number", ""),
        ("amount", [0.5, None, 3.25], {"missing": "mean"}, "33 of 100 values are missing"),
        ("vip", ["True", "false"], "number", "true is 1, false is 0"),
        ("country", ["DE", "FR", "US"], {"category": {"most": 3}}, "3 different texts"),
        ("country", ["DE", "", "US"], {"category": {"most": 2}, "missing": "mean"}, "2 different texts; 33 of 100"),
        ("hour", [0, 12, 23], {"cyclic": 24}, "by its name, begins again after 24"),
        ("pickup_hour", [0, 12, 23], {"cyclic": 24}, "by its name, begins again after 24"),
        ("hour", [0, 12, 47], "number", "3 different whole numbers; if they only name something"),
        ("weekday", [1, 5, 7], {"cyclic": 7}, "by its name, begins again after 7"),
        ("weekday", ["Mon", "Tue"], {"category": {"most": 2}}, "2 different texts"),
        ("mcc", [5411, 5812, 4829], "number", "if they only name something: {category: {most: 3}}"),
    ],
)
def test_a_column(tmp_path: Path, name: str, cells: list[object], setting: object, said: str) -> None:
    """The type follows from the cells, and what the cells do not show is said in a comment."""
    output, stream = _described(tmp_path, {"x": [0.5] * 100, name: [cells[i % len(cells)] for i in range(100)]})
    assert stream["columns"] == {"x": "number", name: setting}
    (line,) = [line for line in output.splitlines() if line.startswith(f"      {name}:")]
    assert said in line
    assert bool(said) == ("#" in line)


def test_many_texts_are_hashed_and_ids_are_left_out(tmp_path: Path) -> None:
    """One feature for each of 700 merchants would be learned from a handful of examples each."""
    numbers = random.Random(1)
    merchants: list[object] = [f"m{numbers.randrange(700)}" for _ in range(3_000)]
    few: list[object] = [f"c{numbers.randrange(60)}" for _ in range(3_000)]
    columns: dict[str, list[object]] = {
        "merchant": merchants,
        "city": few,
        "note": [f"text {number}" for number in range(3_000)],
        "day": ["2024-01-01"] * 3_000,
        "empty": [None] * 3_000,
    }
    output, stream = _described(tmp_path, columns)
    assert stream["columns"] == {"merchant": {"category": {"hashed": 64}}, "city": {"category": {"hashed": 64}}}
    for reason in ("note: nearly all texts", "day: times are no features", "empty: no values"):
        assert f"# left out: {reason}" in output


def test_marks_of_missing_values_are_found(tmp_path: Path) -> None:
    """9999 as an age would move every weight; each mark that is taken for a missing value is said."""
    columns: dict[str, list[object]] = {
        "age": [20, 40, 9999, 60] * 25,
        "heat": [-3.5, 2.25, "?", 7.5] * 25,
        "country": ["DE", "NA", "FR", "DE"] * 25,
    }
    output, stream = _described(tmp_path, columns)
    assert stream["missing_values"] == [9999, "?", "NA"]
    assert stream["columns"] == {
        "age": {"missing": "mean"},
        "heat": {"missing": "mean"},
        "country": {"category": {"most": 2}, "missing": "mean"},
    }
    for text in ("9999 is taken for a missing value, as in age", "'NA' is taken for a missing value, as in country"):
        assert text in output


def test_a_number_that_is_a_value_elsewhere_is_no_mark(tmp_path: Path) -> None:
    """Marks hold for all columns of a stream, so a price of 999 would be lost."""
    columns: dict[str, list[object]] = {"age": [20, 40, 999, 60] * 25, "price": [900, 999, 1_100, 1_001] * 25}
    output, stream = _described(tmp_path, columns)
    assert "missing_values" not in stream
    assert stream["columns"] == {"age": "number", "price": "number"}
    assert "# 999 in age may stand for a missing value: add it to missing_values" in output


def test_a_rare_or_near_number_is_no_mark(tmp_path: Path) -> None:
    """A price of 999 among prices up to 900 is a price."""
    columns: dict[str, list[object]] = {"near": [10, 900, 999, 500] * 25, "rare": [*([1, 2, 3, 4] * 24), 1, 2, 3, 999]}
    assert "missing_values" not in _described(tmp_path, columns)[1]


def test_very_many_columns_stay_an_array(tmp_path: Path) -> None:
    """The names of 784 pixels would be most of each record."""
    columns: dict[str, list[object]] = {f"p{number}": [0.5, 1.5] for number in range(101)}
    output, stream = _described(tmp_path, columns)
    assert stream == {"learning_rate": 0.01, "features": 101}
    assert "# an array, since" in output


def test_options_and_guesses_are_in_the_command_that_sends_it(tmp_path: Path) -> None:
    """A user copies the line instead of writing the options again."""
    path = tmp_path / "a file.csv"
    path.write_text("my id;at;x;y\n1;2024-01-01;1,5;yes\n2;2024-01-02;2,5;no\n3;2024-01-02;x;no\n")
    options = ["--id", "my id", "--time", "at", "--label", "y", "--positive", "yes"]
    output = CliRunner().invoke(cli.main, ["describe", str(path), *options]).stdout
    words = f"areba-replay run '{path}' --id 'my id' --time at --label y --positive yes --wrong-rows skip"
    assert f"# the file is sent by: {words} -c my.yaml --stream 'a file'\n" in output


def test_labels_times_and_ids_that_no_option_names_are_suggested(tmp_path: Path) -> None:
    """The first look at a file shows which options it needs."""
    path = tmp_path / "rows.csv"
    path.write_text(
        "id,at,fraud,x\n" + "".join(f"t{i},2024-01-01,{'ja' if i == 3 else 'nein'},{i}\n" for i in range(9))
    )
    output = CliRunner().invoke(cli.main, ["describe", str(path)]).stdout
    for line in ("--time may be, and --label-time: at", "--label may be fraud, --positive ja", "--id may be id"):
        assert f"#   {line}\n" in output
    output = CliRunner().invoke(cli.main, ["describe", str(path), "--label", "fraud"]).stdout
    assert "#   --positive may be ja\n" in output
    output = CliRunner().invoke(cli.main, ["describe", str(path), "--label", "fraud", "--positive", "ja"]).stdout
    assert "may be ja" not in output
