"""The description of a file: its figures are right, and its output is a configuration."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from stream_app.config import load
from stream_app.config.table_bytes import pending_bytes
from stream_app.config.task_settings import JoinSettings
from stream_app.producers import cli
from stream_app.producers.files import describe, figures
from stream_app.producers.files.figures import Delays, Pending
from stream_app.producers.files.layout import NO_TIME, Example
from tests.support.row_files import csv_text

OPTIONS = ("--id=id", "--time=at", "--label=fraud", "--positive=yes", "--label-time=known")
DAY_MS = 86_400_000


def _payments(tmp_path: Path) -> Path:
    """Write 1,000 payments, one an hour; a label comes after two days, one after nine days, and ten never."""
    start = 1_700_000_000
    rows = [
        {
            "id": f"t{number}",
            "at": start + number * 3_600,
            "amount": number / 2 if number % 10 else None,
            "shop": f"m{number % 7}",
            "vip": number % 2 == 0,
            "fraud": ("yes" if number % 50 == 0 else "no") if number >= 10 else None,
            "known": start + number * 3_600 + (9 if number == 21 else 2) * 86_400 if number >= 10 else None,
        }
        for number in range(1_000)
    ]
    path = tmp_path / "payments.csv"
    path.write_text(csv_text(rows).replace(",250.5,", ",2x,"))
    return path


def _describe(path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(cli.main, ["describe", str(path), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_figures_of_a_file(tmp_path: Path) -> None:
    """A user decides by them which columns to use, and how long labels are waited for."""
    output = _describe(_payments(tmp_path), *OPTIONS, "--features", "vip")
    lines = [line.removeprefix("# ") for line in output.splitlines()]
    for line in (
        "payments.csv: 1,000 rows",
        "amount  number     10.00%  0.5 to 499.5, and 1 that are no numbers",
        "shop    text        0.00%  7 different: 'm0' 143, 'm1' 143, 'm2' 143",
        "vip     boolean     0.00%  2 different: 'True' 500, 'False' 500",
        "id      text        0.00%  1,000 different",
        "fraud: yes is class 1 (--positive), no class 0 (--negative)",
        "class 1: 19 (1.90%); class 0: 971 (97.10%); without a label: 10 (1.00%)",
        "event times: 2023-11-14T22:13:20Z to 2023-12-26T13:13:20Z (41.6 days); rows are in their order",
        "delays of labels: p50 2 days, p99 2 days, max 9 days",
    ):
        assert line in lines
    assert "examples that wait for labels at a time: at most 60" in lines  # 49, the late one, and ten without labels


def test_the_output_is_a_configuration(tmp_path: Path) -> None:
    """It is saved as my.yaml and used as it stands."""
    output = _describe(_payments(tmp_path), *OPTIONS, "--stream", "pay: ments", "--limit", "500")
    path = tmp_path / "my.yaml"
    path.write_text("kafka: {bootstrap_servers: 'localhost:9092'}\n" + output)
    config = load(path, {})
    assert list(config.streams["pay: ments"].columns) == ["amount", "shop", "vip"]
    assert config.join.ttl_ms == 10 * DAY_MS
    assert config.join.max_pending_per_stream == JoinSettings().max_pending_per_stream, "more wait in a fast replay"
    assert "--retention" in output


def test_many_waiting_examples_get_room_in_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bound of the stream alone, the pool of the task would evict examples before their labels come."""
    monkeypatch.setattr(describe, "_MARGIN", 100_000)
    path = tmp_path / "my.yaml"
    path.write_text(_describe(_payments(tmp_path), *OPTIONS))
    config = load(path, {})
    settings = config.task_settings()
    assert config.join.max_pending_per_stream == 6_000_000
    (needed,) = (pending_bytes(stream, settings) for stream in settings.streams.values())
    assert JoinSettings().max_table_bytes_per_task < needed <= config.join.max_table_bytes_per_task


@pytest.mark.parametrize(
    ("rows", "every", "is_recommended"), [(2_000, 100, True), (2_000, 120, False), (900, 10, False)]
)
def test_challengers_are_recommended_where_the_study_shows_them_ahead(
    tmp_path: Path, rows: int, every: int, is_recommended: bool
) -> None:
    """Whoever reads only my.yaml should know of them; on few labels, or few of a class, RELAY was not ahead."""
    path = tmp_path / "sensors.csv"
    path.write_text("x,y\n" + "".join(f"{row % 9},{int(row % every == 0)}\n" for row in range(rows)))
    output = _describe(path, "--label", "y")
    assert ("  # relay: {method: relay}" in output) == is_recommended
    configuration = tmp_path / "my.yaml"
    configuration.write_text(
        "kafka: {bootstrap_servers: 'localhost:9092'}\n" + re.sub("  # (relay|uob):", r"  \1:", output)
    )
    learners = load(configuration, {}).learners
    assert list(learners) == ["areba", "baseline", *["relay", "uob"] * is_recommended]


def test_wrong_rows_are_counted_and_do_not_stop(tmp_path: Path) -> None:
    """The description is for files that nobody has looked at."""
    output = _describe(_payments(tmp_path), *OPTIONS)
    assert "# left out 1 of 1,000 rows: amount: 1 x not a number" in output
    assert "#   line 503, column amount: '2x' is not a number that a feature can hold" in output
    assert "--wrong-rows skip -c my.yaml" in output


def test_a_file_without_options_is_described(tmp_path: Path) -> None:
    """The first look needs nothing but the file's name."""
    path = tmp_path / "a.b.jsonl"
    path.write_text('{"x": 1.5, "day": "2024-01-01", "n": null}\n{"x": 2, "day": "2024-01-02", "n": null}\n')
    output = _describe(path)
    assert yaml.safe_load(output)["streams"] == {"a": {"columns": {"x": "number"}, "learning_rate": 0.01}}
    assert "# day     time        0.00%\n" in output
    assert "# n       empty     100.00%\n" in output
    assert "no column of labels (--label)" in output
    assert "#   --time may be, and --label-time: day\n" in output
    assert "join" not in yaml.safe_load(output)


def test_categories_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of ids has as many texts as the file has rows."""
    monkeypatch.setattr(figures, "MAX_CATEGORIES", 5)
    path = tmp_path / "rows.csv"
    path.write_text("x,shop\n" + "".join(f"{number},s{number}\n" for number in range(20)))
    assert "more than 5 different" in _describe(path)


def test_quantiles_of_delays_are_exact_to_one_percent() -> None:
    """They are counted in bins, so that any number of labels takes the same memory."""
    values = np.random.default_rng(1).lognormal(10, 3, 5_000).astype(np.int64)
    delays = Delays()
    for value in values.tolist():
        delays.add(value)
    for share in (0.5, 0.9, 0.99):
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        assert exact <= delays.quantile(share) <= exact * 1.0101 + 1
    assert delays.quantile(1.0) == delays.largest == values.max()


def test_pending_examples_are_counted_at_their_peak() -> None:
    """join.max_pending_per_stream is set by it; an example beyond is evicted and never learned."""
    random = np.random.default_rng(2)
    examples = []
    for _ in range(300):
        time_ms = int(random.integers(0, 1_000))
        known = time_ms + int(random.integers(-50, 200))
        examples.append(Example(time_ms, NO_TIME if random.random() < 0.1 else known, 0, b"", []))
    with Pending() as pending:
        pending.add(examples[:100])
        pending.add(examples[100:])
        found = pending.most(150)
    spans = [
        (example.time_ms, example.time_ms + 150 if example.label_time_ms == NO_TIME else example.label_time_ms)
        for example in examples
    ]
    # at equal times, examples come first: an example whose label comes at once waits for it
    assert found == max(sum(begin <= now <= end for begin, end in spans) for now in range(1_200))
