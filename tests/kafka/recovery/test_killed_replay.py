"""A file with columns is learned by a worker that is killed again and again, and nobody can notice it.

`AREBA_TEST_CSV_ROWS=100000` takes a larger file.
"""

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ops.broker import Broker
from ops.demo_csv.__main__ import COLUMNS
from ops.demo_csv.payments import write_payments
from stream_app.backends.retention import FOREVER
from stream_app.producers import cli
from tests.chaos.forks import Nursery
from tests.chaos.members import Spawn
from tests.support.kafka.application import App, Section
from tests.support.kafka.exactly_once import check_exactly_once, same
from tests.support.kafka.processes import areba, run_to, workers
from tests.support.kafka.progress import Progress

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60), pytest.mark.timeout(1_200)]

ROWS = int(os.environ.get("AREBA_TEST_CSV_ROWS", "20000"))

KILLS = 5

LIVE_KILLS, SECONDS_A_KILL = 2, 5.0
"""Kills while the file is sent, and how long it is sent for each of them."""

DEADLINE_S = 600.0

OPTIONS = COLUMNS.split()

COMMITS = 300
"""About so many transactions, so that a kill is likely to hit one."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of payments with categories, gaps, and labels that come hours or days later."""
    path = tmp_path / "payments.csv"
    write_payments(path, ROWS)
    return path


@pytest.fixture
def sections(file: Path) -> Mapping[str, Section]:
    """Return the configuration that `areba-replay describe` writes for the file."""
    described = CliRunner().invoke(cli.main, ["describe", str(file), *OPTIONS])
    assert described.exit_code == 0, described.output
    found: dict[str, Section] = yaml.safe_load(described.stdout)
    del found["application"]
    return found


@pytest.fixture
def spawn_fork(tmp_path: Path, sections: Mapping[str, Section]) -> Iterator[Spawn]:
    """Return a function that starts `areba` as a fork of a process that has everything loaded, which is faster."""
    settings = App("127.0.0.1:9", "none-", tmp_path, sections).file("nursery")
    with Nursery(settings, tmp_path / "nursery.log") as nursery:
        yield nursery.start


def _small_transactions(sections: Mapping[str, Section]) -> Mapping[str, Section]:
    return {**sections, "worker": {"commit_interval_ms": 15, "max_batch_records": 2 * ROWS // COMMITS}}


def _send(file: Path, settings: Path, *options: str) -> None:
    """Send the file with its own times and ids, so that each replay has equal records."""
    sent = CliRunner().invoke(cli.main, ["run", str(file), "-c", str(settings), "--keep-times", *OPTIONS, *options])
    assert sent.exit_code == 0, sent.output


def _expect_clean(settings: Path) -> None:
    verified = areba(settings, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "all records are accounted for" in verified.stdout


def test_kills_after_the_file_is_sent(
    kafka: Broker, prefix: str, tmp_path: Path, file: Path, sections: Mapping[str, Section], spawn_fork: Spawn
) -> None:
    """Every byte of output, and every bit of the models, equals those of a worker that nobody disturbed.

    Categories that are counted, and means of gaps, are state as well: one value counted twice would change a feature.
    """
    assert kafka.bootstrap_servers is not None
    name = f"{prefix}app"
    calm = App(kafka.bootstrap_servers, f"{prefix}calm-", tmp_path, sections, application=name)
    rough = App(kafka.bootstrap_servers, f"{prefix}kill-", tmp_path, _small_transactions(sections), application=name)
    for app in (calm, rough):
        app.create_topics(FOREVER)
        _send(file, app.file("w"))
    ends = calm.input_ends()
    assert rough.input_ends() == ends
    undisturbed = run_to(calm.config, ends, DEADLINE_S)
    assert len(calm.outputs(0)["outcomes"]) == ROWS

    draw = random.Random(5)
    with workers(rough, "w", spawn=spawn_fork) as (worker,), Progress(rough) as progress:
        for _ in range(KILLS):
            worker.start()
            worker.wait_for("assigned tasks")
            progress.wait_for_more(draw.randrange(1, COMMITS // (2 * KILLS)))
            time.sleep(draw.random() * 0.05)
            worker.kill()
        progress.poll()
        assert progress.offsets != ends, "all was done before the last kill: nothing was tested"
        worker.start()
        progress.wait_for_ends(ends, DEADLINE_S)
        assert worker.stop() == 0
        assert worker.models() == undisturbed

    expected = calm.outputs(0)
    for topic, found in rough.outputs(0).items():
        same(found, expected[topic], topic)
    _expect_clean(rough.file("w"))


def test_kills_while_the_file_is_sent(
    kafka: Broker, prefix: str, tmp_path: Path, file: Path, sections: Mapping[str, Section], spawn_fork: Spawn
) -> None:
    """The outputs equal those of a fresh computation along the committed ranges: here arrival decides on the order."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, _small_transactions(sections))
    app.create_topics(FOREVER)
    settings, rate = app.file("w"), ROWS / (LIVE_KILLS * SECONDS_A_KILL)
    sending = threading.Thread(target=_send, args=(file, settings, "--rate", str(rate)))
    draw = random.Random(6)
    with workers(app, "w", spawn=spawn_fork) as (worker,), Progress(app) as progress:
        sending.start()
        for _ in range(LIVE_KILLS):
            worker.start()
            worker.wait_for("assigned tasks")
            progress.wait_for_more(draw.randrange(1, 20))
            time.sleep(draw.random() * 0.05)
            worker.kill()
        assert sending.is_alive(), "all was sent before the last kill: nothing was tested"
        worker.start()
        sending.join(DEADLINE_S)
        progress.wait_for_ends(app.input_ends(), DEADLINE_S)
        assert worker.stop() == 0
        models = worker.models()
    checked = check_exactly_once(app)
    assert {0: checked[0].models} == models
    assert len(app.outputs(0)["predictions"]) == ROWS
    _expect_clean(settings)
