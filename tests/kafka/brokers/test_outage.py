"""Brokers go away: workers wait, report it once, and continue; no record is lost or duplicated."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ops.local_kafka.cluster import LocalKafka, start
from stream_app.errors import ConfigurationError
from stream_app.worker.reports.health import READY_LIMIT_S
from tests.kafka.brokers import outages
from tests.support.kafka.application import App, Load, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import ROOT, WorkerProcess, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import StreamOf
from tests.support.kafka.waiting import START_DEADLINE_S, wait_until
from tests.support.pages import get

pytestmark = [pytest.mark.kafka, pytest.mark.slow(40)]

OUTAGE_S = 60.0
"""Longer than any session, transaction or request lasts."""

SHORT_OUTAGE_S = 8.0

LONGEST_WAIT_S = 20.0
"""From the moment at which a new producer could commit to the worker's first commit."""

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2))

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100},
    "worker": {"http_port": 0},
}

GONE = "brokers-lost: "
BACK = "brokers-back "


@dataclass
class Outage:
    """A broker that was killed while a worker was busy and records kept coming."""

    kafka: LocalKafka
    app: App
    worker: WorkerProcess
    progress: Progress
    load: Load
    since_s: float


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    """Cause an outage; without pytest-xdist, it lasts while the other tests of this file run."""
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(start(1))
        except ConfigurationError as problem:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(problem))
        app = App(kafka.bootstrap_servers, "gone-", tmp_path_factory.mktemp("outage"), SECTIONS, partitions=2)
        app.create_topics()
        [worker] = stack.enter_context(workers(app, "w"))
        progress = stack.enter_context(Progress(app))
        load = stack.enter_context(Load(app, STREAMS, seed=10))
        worker.start()
        worker.wait_for("restored task=1")
        progress.wait_for_more(20)
        kafka.kill(1)
        yield Outage(kafka, app, worker, progress, load, time.monotonic())


def _page(worker: WorkerProcess, path: str) -> int:
    """Return the status of a worker's page, at the port that its log names last; 0: its process is restarting."""
    found = re.findall(r"serving http://127\.0\.0\.1:(\d+)/", worker.log())
    try:
        return get(int(found[-1]), path)[0]
    except OSError:
        return 0


def test_an_outage_is_said_while_it_lasts(outage: Outage) -> None:
    """A line that comes after the outage is useless, and so is a page that sends work to a worker that cannot do it."""
    outage.worker.wait_for(GONE, deadline_s=OUTAGE_S)
    wait_until(lambda: _page(outage.worker, "/ready") == 503, "the worker is not ready", READY_LIMIT_S + 5)
    wait_until(lambda: _page(outage.worker, "/alive") == 200, "the worker is alive")


def test_the_first_commit_after_an_outage(tmp_path: Path) -> None:
    """After a broker's restart of 30 s the worker stood still for 107 s, and restarted itself again and again.

    `python -m tests.kafka.brokers.outages` prints the table of all kinds and lengths.
    """
    with outages.scene(1, tmp_path) as carry_out:
        outage = carry_out("kill", [1], SHORT_OUTAGE_S)
    assert outage.first_s < LONGEST_WAIT_S
    assert outage.restarts == 0


def test_one_of_three_brokers_dies(kafka3: LocalKafka, prefix: str, tmp_path: Path) -> None:
    """Everything is on three brokers: if the leader dies, the others take over immediately."""
    app = App(kafka3.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2, replication=3)
    app.create_topics()
    with workers(app, "one", "two") as pair, Progress(app) as progress:
        with Load(app, STREAMS, seed=11):
            for worker in pair:
                worker.start()
            for worker in pair:
                worker.wait_for("restored task")
            progress.wait_for_more(20)
            kafka3.kill(1)
            progress.wait_for_more(40, START_DEADLINE_S)
            kafka3.restart(1)
            progress.wait_for_more(20, START_DEADLINE_S)
        progress.wait_for_ends(app.input_ends())
        assert [worker.stop() for worker in pair] == [0, 0]
        assert not any(GONE in worker.log() for worker in pair), "there was always one that answered"
    check_exactly_once(app)


@pytest.mark.slow(10)
def test_no_broker_at_start(tmp_path: Path) -> None:
    """A wrong address ends in one line with the setting's name, and status 2, after the configured patience."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        servers = f"127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "areba.yaml"
        file.write_text(
            yaml.safe_dump({"kafka": {"bootstrap_servers": servers}, "worker": {"start_timeout_ms": 2_000}})
        )
        command = [sys.executable, "-m", "stream_app.cli", "run", "-c", str(file)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_DEADLINE_S, check=False)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[-1].startswith(f"kafka.bootstrap_servers: no Kafka broker answers at {servers}: ")
    assert lines[-1].endswith("(waited 2000 ms)")
    assert "refused" in lines[-1]
    assert [line for line in lines if "WARNING" in line or "ERROR" in line] == lines[1:-1]
    assert len(lines) == 3, "what runs, that it waits, that it gave up"


def test_a_minute_without_a_broker(outage: Outage) -> None:
    """A minute without a broker is one line at its start and one at its end, and every record is processed once."""
    wait_until(lambda: time.monotonic() - outage.since_s > OUTAGE_S, "a minute", 2 * OUTAGE_S)
    pages = "/ready", "/alive"
    wait_until(lambda: [_page(outage.worker, path) for path in pages] == [503, 200], "not ready, and alive")
    outage.kafka.restart(1)
    outage.progress.wait_for_more(20, START_DEADLINE_S)
    wait_until(lambda: _page(outage.worker, "/ready") == 200, "the worker is ready again")
    outage.load.end()
    outage.progress.wait_for_ends(outage.app.input_ends())
    assert outage.worker.stop() == 0
    assert outage.worker.log().count(GONE) == 1, outage.worker.log()
    assert outage.worker.log().count(BACK) <= 1, outage.worker.log()
    check_exactly_once(outage.app)
