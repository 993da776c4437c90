"""What `areba watch` says of drift without labels: which column, which streams, and nothing of calm streams."""

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest

from stream_app.config import Config
from stream_app.monitor.drift import DriftReader
from stream_app.monitor.figures import LiveFigures
from stream_app.monitor.model import LiveModel
from stream_app.monitor.table import MAX_DRIFTED, figures_table
from stream_app.records import Metric
from stream_app.terminal import Terminal
from tests.support.formats.metrics import metric
from tests.support.world import make_config

COLUMNS = {"hour": {"cyclic": 24}, "amount": "number"}


def _config(count: int = 1) -> Config:
    with_drift = {"drift": {"threshold": 0.3}}
    named = {f"s{number}": {"columns": COLUMNS, **with_drift} for number in range(count)}
    return make_config(streams={**named, "plain": {"features": 9, **with_drift}})


def _drifted(figures: Mapping[str, float | None], stream: str = "s0") -> Metric:
    """Return the champion's metric of a stream with these figures of drift; the others are those of a calm stream."""
    calm = {"drift_examples": 2_000, "score_psi": 0.02, "largest_feature_psi": 0.05, "largest_feature": 2}
    return replace(metric(stream=stream), **{**calm, "features_drifted": 0, **figures})  # type: ignore[arg-type]


def _figures(config: Config, *found: Metric) -> LiveFigures:
    model = LiveModel(config.streams, drift=DriftReader(config.task_settings().streams))
    for each in found:
        model.add_metric(each, 0)
    return model.figures()


def _lines(figures: LiveFigures) -> list[str]:
    out = io.StringIO()
    Terminal(file=out, width=200).print(figures_table(figures, "app"))
    return [line for line in out.getvalue().splitlines() if line.startswith("drift")]


@pytest.mark.parametrize(
    ("figures", "lines"),
    [
        ({}, []),
        ({"drift_examples": None, "largest_feature_psi": None, "largest_feature": None, "features_drifted": None}, []),
        ({"largest_feature_psi": 0.42, "features_drifted": 1}, ["drift of s0, by PSI: amount 0.42"]),
        ({"score_psi": 0.31}, ["drift of s0, by PSI: score 0.31"]),
        ({"score_psi": 0.29}, []),
        (
            {"score_psi": 0.31, "largest_feature_psi": 0.42, "largest_feature": 1, "features_drifted": 2},
            ["drift of s0, by PSI: hour 0.42 (largest of 2 features), score 0.31"],
        ),
    ],
)
def test_a_line_names_the_column_that_drifted(figures: dict[str, float | None], lines: list[str]) -> None:
    """A number of a feature says nothing to the people who own the column; a calm stream needs no line."""
    assert _lines(_figures(_config(), _drifted(figures))) == lines


def test_a_stream_without_columns_has_the_number() -> None:
    """Also a column that the configuration at hand does not have: it may be newer than the metric."""
    found = {"largest_feature_psi": 0.42, "features_drifted": 1}
    assert _lines(_figures(_config(), _drifted(found, "plain"))) == ["drift of plain, by PSI: feature 2 0.42"]
    assert _lines(_figures(_config(), _drifted({**found, "largest_feature": 3}))) == [
        "drift of s0, by PSI: feature 3 0.42"
    ]


def test_many_streams_leave_room_for_the_table() -> None:
    """A feed that breaks makes a hundred streams drift; their lines must not take the whole terminal."""
    config = _config(MAX_DRIFTED + 3)
    found = (
        _drifted({"largest_feature_psi": 0.5, "features_drifted": 1}, f"s{number}") for number in range(MAX_DRIFTED + 3)
    )
    lines = _lines(_figures(config, *found))
    assert len(lines) == MAX_DRIFTED + 1
    assert lines[-1] == "drift of 3 more streams"


def test_json_has_the_figures_and_the_column() -> None:
    """A script reads them from `areba watch --json`."""
    [stream] = (each for each in _figures(_config(), _drifted({})).streams if each.stream == "s0")
    [row] = stream.rows()
    assert (row["largest_feature"], row["largest_feature_psi"], row["score_psi"]) == (2, 0.05, 0.02)
    assert (row["features_drifted"], row["largest_feature_column"]) == (0, "amount")
