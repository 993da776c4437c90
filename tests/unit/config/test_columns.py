"""Columns in the configuration: what may be said, how wrong settings are reported, and what may change."""

from pathlib import Path
from typing import Any

import pytest

from stream_app.config import Config, TaskSettings, ThresholdSettings, changes, effective, load
from stream_app.config.compatibility import Running
from stream_app.errors import ConfigurationError

TEXT = """
streams:
  payments:
    columns:
      amount: number
      age: {missing: mean}
      country: {category: {most: 50}}
      merchant: {category: {hashed: 32}, missing: mean}
      weekday: {cyclic: 7}
    missing_values: [-9999, ""]
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "areba.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_number_of_features_follows(tmp_path: Path) -> None:
    """A user who has to count features would count them wrong."""
    settings = load(_file(tmp_path, TEXT), {}).task_settings()
    stream = settings.streams["payments"]
    assert stream.features == 1 + 2 + 51 + 33 + 2
    assert stream.missing_values == (-9999.0, "")
    again = TaskSettings.from_json(settings.to_json())
    assert again == settings
    assert list(again.streams["payments"].columns) == ["amount", "age", "country", "merchant", "weekday"]
    assert again.to_json() == settings.to_json()


def test_columns_are_listed_with_their_lines(tmp_path: Path) -> None:
    """`areba config` must show what the file says, and where."""
    found = {one.setting: (one.value, one.source) for one in effective(_file(tmp_path, TEXT), {})}
    assert found["streams.payments.columns.country.category.most"] == (50, f"{tmp_path}/areba.yaml:7")
    assert found["streams.payments.columns.weekday.cyclic"] == (7.0, f"{tmp_path}/areba.yaml:9")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("amount: number", "amount: nummber", "columns.amount: must be `number`, or a section"),
        ("{most: 50}", "{most: 50, hashed: 3}", "category: a category needs either `most` or `hashed`"),
        ("{most: 50}", "{most: 0}", "most: must be at least 1, is 0"),
        ("{cyclic: 7}", "{cyclic: 7, category: {most: 3}}", "a column is either a `category` or `cyclic`"),
        ("{missing: mean}", "{missing: median}", "missing: must be 'mean', is 'median'"),
        ("{missing: mean}", "{mising: mean}", "unknown setting; did you mean .*missing"),
        ("{hashed: 32}", "{hashed: 99999}", "columns: have .* features together; limits.max_features is 10000"),
        ('[-9999, ""]', "[true]", "missing_values.*: must be text or a number, is True"),
        ("    columns:", "    features: 3\n    columns:", "features: follows from the columns: leave it out"),
    ],
)
def test_wrong_columns(tmp_path: Path, before: str, after: str, problem: str) -> None:
    """A wrong column must be named with its line before a worker starts."""
    with pytest.raises(ConfigurationError, match=problem):
        load(_file(tmp_path, TEXT.replace(before, after)), {})


def test_marks_need_columns() -> None:
    """A setting without effect would be believed to work."""
    with pytest.raises(ValueError, match="missing_values: has no effect without columns"):
        Config.model_validate({"streams": {"s": {"missing_values": [1]}}})


def _settings(columns: dict[str, Any], marks: list[Any]) -> TaskSettings:
    stream = {"columns": columns, "missing_values": marks} if columns else {"features": 2}
    return Config.model_validate({"streams": {"s": stream}}).task_settings()


def test_what_may_change() -> None:
    """A change of columns would give learned weights to other features; new marks hold for what comes."""
    old = _settings({"a": "number", "b": {"category": {"most": 2}}}, [])
    running = {"s": Running(4, "areba", frozenset(), ThresholdSettings())}
    assert changes(old, _settings({"a": "number", "b": {"category": {"most": 2}}}, [-1]), running).taken_over == (
        "missing_values: [] -> [-1.0] (streams: s) holds from now on",
    )
    for other in (
        {"b": {"category": {"most": 2}}, "a": "number"},
        {"a": "number"},
        {"a": "number", "b": {"category": {"most": 1}}},
        {"a": "number", "b": {"category": {"hashed": 3}}},
        {"a": {"cyclic": 7}, "b": {"category": {"most": 2}}},
        {"c": "number"},
        {},
    ):
        found = changes(old, _settings(other, []), running)
        assert any(line.startswith("columns: ") for line in found.refused), other
        assert not changes(old, _settings(other, []), {}).refused
    for grown in (
        {"new": "number", "a": "number", "b": {"category": {"most": 2}}},
        {"a": {"missing": "mean"}, "b": {"category": {"most": 3}, "missing": "mean"}},
    ):
        found = changes(old, _settings(grown, []), running)
        assert not found.refused
        assert any(line.startswith("columns: ") for line in found.taken_over), grown
    assert changes(_settings(grown, []), old, running).refused


def test_words_that_stand_for_sections_are_listed(tmp_path: Path) -> None:
    """`areba config` is where one looks for what is in force; a setting that it leaves out seems not to be."""
    file = tmp_path / "areba.yaml"
    file.write_text(
        "streams:\n  s:\n    columns: {a: number, b: {cyclic: 7}}\n    costs: {false_positive: 1, false_negative: a}\n"
        "    threshold: costs\n"
    )
    found = {one.setting: one.value for one in effective(file, {}) if one.setting.startswith("streams.")}
    assert found == {
        "streams.s.columns.a": "number",
        "streams.s.columns.b.cyclic": 7.0,
        "streams.s.costs.false_positive": 1.0,
        "streams.s.costs.false_negative": "a",
        "streams.s.threshold": "costs",
    }
