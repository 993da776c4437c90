"""A file of one's own on a real Kafka: from CSV to predictions and outcomes, all accounted for."""

import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ops.broker import Broker
from stream_app.backends.base import TopicPartition
from stream_app.producers import cli
from stream_app.serialization.codec import decode_one
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, run_to
from tests.support.kafka.topics import read_topic

pytestmark = pytest.mark.kafka

ROWS = 600
CITIES = ("Paris", "São Paulo", "")
OPTIONS = ("--id=transaction", "--time=date", "--label=is_fraud", "--positive=yes", "--label-time=known_at")


def _write(path: Path, first_s: float) -> None:
    """Write payments of ten days in any order, with labels that come up to two days later; some never come."""
    numbers = random.Random(1)
    lines = []
    for number in range(ROWS):
        at_s = first_s + number * 10 * 86_400 / ROWS
        is_fraud = number % 20 == 0
        times = [
            datetime.fromtimestamp(time_s, UTC).isoformat() for time_s in (at_s, at_s + numbers.random() * 172_800)
        ]
        label, known = ("yes" if is_fraud else "no", times[1]) if number % 50 else ("", "")
        amount = f"{numbers.gauss(9 if is_fraud else 3, 1):.2f}".replace(".", ",") if number % 7 else "?"
        lines.append(f"t{number};{times[0]};{amount};{CITIES[number % 3]};{label};{known}")
    numbers.shuffle(lines)
    path.write_text("transaction;date;amount;city;is_fraud;known_at\n" + "\n".join(lines) + "\n")


def _replay(settings: Path, file: Path) -> str:
    result = CliRunner().invoke(cli.main, ["run", str(file), "-c", str(settings), *OPTIONS])
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.mark.parametrize("years_ago", [0, 3])
def test_a_file_with_label_times_is_learned_and_verified(
    kafka: Broker, prefix: str, tmp_path: Path, years_ago: int
) -> None:
    """Every label meets its example, in the order of time, whether times are kept or moved; `verify` is clean.

    The description of the file is the configuration, with a category, and gaps in both columns.
    """
    assert kafka.bootstrap_servers is not None
    file = tmp_path / "payments.csv"
    first_s = time.time() - (12.5 + years_ago * 365) * 86_400
    _write(file, first_s)
    described = CliRunner().invoke(cli.main, ["describe", str(file), *OPTIONS])
    assert described.exit_code == 0, described.output
    sections: dict[str, Section] = yaml.safe_load(described.stdout)
    del sections["application"]  # two tests have two applications
    app = App(kafka.bootstrap_servers, prefix, tmp_path, sections)
    settings = app.file("w")
    assert areba(settings, "topics", "create", "--partitions", "1").returncode == 0
    said = _replay(settings, file)
    assert ("are kept" in said) == (years_ago == 0)
    assert ("are moved" in said) == (years_ago != 0)

    run_to(app.config, app.input_ends())
    outputs = app.outputs(0)
    outcomes = [decode_one(read.value) for read in outputs["outcomes"] if read.value is not None]
    joined = {outcome.id: outcome for outcome in outcomes if outcome.outcome == "joined"}  # type: ignore[union-attr]
    assert set(joined) == {f"t{number}" for number in range(ROWS) if number % 50}
    assert all(outcome.label == (int(id_[1:]) % 20 == 0) for id_, outcome in joined.items())  # type: ignore[union-attr]
    assert not outputs["dead-letters"]
    sent = read_topic(app.cluster, TopicPartition(app.config.topics.examples, 0))
    if years_ago == 0:
        assert abs(sent[0].time_ms - first_s * 1_000) < 1
    assert sent[ROWS - 1].time_ms - sent[0].time_ms == pytest.approx((1 - 1 / ROWS) * 10 * 86_400_000, abs=2)
    assert areba(settings, "verify").returncode == 0
