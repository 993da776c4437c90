"""`areba dashboard` as its user starts it, on a real broker: numbers, a killed worker, an outage, a deleted topic."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ops.local_kafka.cluster import LocalKafka
from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.dashboard.model import STALLED_S
from stream_app.producers.plan import uniform_plan
from stream_app.producers.replay import replay
from stream_app.producers.sources import parse_source
from stream_app.records import Metric
from stream_app.serialization.codec import decode_one
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import WorkerProcess, spawn, workers
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import DEADLINE_S, START_DEADLINE_S, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow(90)]

STREAM = "sine"
EXAMPLES, DRIFT = 2_000, 1_000
INTERVAL_MS = 1_000
SECTIONS: Mapping[str, Section] = {
    "streams": {STREAM: {"features": 2, "learning_rate": 0.01}},
    "learners": {"areba": {"method": "areba", "budget": 20}, "baseline": {"method": "baseline"}},
    "join": {"ttl_ms": 600_000},
}


@dataclass(frozen=True)
class Page:
    """The documents of the page, as a browser gets them."""

    port: int

    def read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the newest overview and the details of the stream."""
        found: dict[str, dict[str, Any]] = {}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)) as connection:
            connection.request("GET", f"/events?stream={STREAM}")
            with connection.getresponse() as answer:
                while "details" not in found:  # comes after its overview
                    event, data, _ = (answer.readline().decode() for _ in range(3))
                    found[event.removeprefix("event: ").strip()] = json.loads(data.removeprefix("data: "))
        return found["overview"], found["details"]

    def wait_for(self, *states: str, problem: str | None = None) -> dict[str, Any]:
        """Return the details once the stream has one of these states, and the page names this problem, or none."""
        details: dict[str, Any] = {}

        def is_shown() -> bool:
            overview, found = self.read()
            details.update(found)
            notes = overview["notes"]
            return found["state"] in states and (any(problem in one for one in notes) if problem else not notes)

        wait_until(is_shown, f"the page says {states} and {problem or 'no problem'}")
        return details


@contextmanager
def _dashboard(app: App, log: Path) -> Iterator[Page]:
    """Run the dashboard on a free port until the end of the block; then SIGINT must end it with status 0."""
    arguments = ["dashboard", "-c", str(app.file("page")), "--port", "0", "--drift", f"{STREAM}:{DRIFT}"]
    process = spawn(arguments, log)
    try:
        wait_until(lambda: "http://" in log.read_text(), "the dashboard serves", START_DEADLINE_S)
        [port] = re.findall(r"http://127\.0\.0\.1:(\d+)/", log.read_text())
        yield Page(int(port))
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


def _send(app: App, start_ms: int, examples: int = EXAMPLES) -> None:
    """Replay the stream up to an example; it drifts in the middle."""
    source = parse_source(f"sine:imbalance=10,drift=posterior,length={EXAMPLES},seed=1,limit={examples}")
    plan = uniform_plan([source], label_delay="fixed:10ev", interval_ms=INTERVAL_MS)
    with closing(KafkaSender(app.servers)) as sender:
        examples_topic, labels_topic = app.config.topics.inputs
        plan = replace(plan, start_ms=start_ms, examples_topic=examples_topic, labels_topic=labels_topic)
        replay(plan, sender, SystemClock(), lambda *_: None)


def _metrics(app: App) -> dict[str, list[tuple[int, Metric]]]:
    """Return the metrics of each learner, with their event times, from the topic."""
    found: dict[str, list[tuple[int, Metric]]] = {}
    for row in read_topic(app.cluster, TopicPartition(app.config.topics.metrics, 0)):
        metric = decode_one(row.value or b"")
        if isinstance(metric, Metric):
            found.setdefault(metric.learner, []).append((row.time_ms, metric))
    return found


def _is_that_of_the_topic(details: dict[str, Any], app: App) -> None:
    metrics = _metrics(app)
    assert {learner["metric"]["learner"] for learner in details["learners"]} == metrics.keys()
    marks = []
    for learner in details["learners"]:
        rows = metrics[learner["metric"]["learner"]]
        newest = rows[-1][1]
        assert learner["metric"] == {name: getattr(newest, name) for name in Metric.__slots__}
        assert learner["curve"]["time_ms"] == [time_ms for time_ms, _ in rows]
        assert learner["curve"]["gmean"] == [metric.main_window.gmean for _, metric in rows]
        pairs = pairwise(rows)
        marks += [
            (one.learner, time_ms, one.changes) for (_, last), (time_ms, one) in pairs if one.changes > last.changes
        ]
    assert sorted((mark["learner"], mark["time_ms"], mark["changes"]) for mark in details["marks"]) == sorted(marks)
    assert marks, "the drift is flagged"


def test_the_page_of_an_application(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Its user looks at it when something is wrong; then the page must be right, say so, and continue by itself."""
    app = App(own_kafka.bootstrap_servers, "page-", tmp_path, SECTIONS)
    app.create_topics()
    start_ms = int(time.time() * 1000) - 2 * EXAMPLES * INTERVAL_MS
    log = tmp_path / "dashboard.log"
    with workers(app, "w") as (worker,), _dashboard(app, log) as page:
        worker.start()
        _send(app, start_ms)
        details = page.wait_for("idle")
        _is_that_of_the_topic(details, app)
        [drift] = details["drifts"]
        assert drift["examples"] == DRIFT
        assert abs(drift["time_ms"] - (start_ms + DRIFT * INTERVAL_MS)) <= INTERVAL_MS

        _survives_a_kill(page, app, worker, start_ms)

        own_kafka.kill(1)
        page.wait_for("idle", "stalled", problem="no Kafka broker has answered")
        own_kafka.restart(1)
        page.wait_for("idle")
        _send(app, start_ms + EXAMPLES * INTERVAL_MS * 3 // 2, 200)
        page.wait_for("live")
        _is_that_of_the_topic(page.wait_for("idle"), app)

        worker.stop()
        admin = AdminClient({"bootstrap.servers": app.servers})
        admin.delete_topics([app.config.topics.predictions])[app.config.topics.predictions].result(DEADLINE_S)
        page.wait_for("idle", problem=f"{app.config.topics.predictions}: the topic was deleted")
    events = re.findall("view-(?:in)?complete", log.read_text())
    assert events == ["view-incomplete", "view-complete", "view-incomplete"], "not a line for each second"


def _survives_a_kill(page: Page, app: App, worker: WorkerProcess, start_ms: int) -> None:
    """Kill the worker: the page shows a gap, and then its return."""
    worker.kill()
    _send(app, start_ms + EXAMPLES * INTERVAL_MS * 5 // 4, 200)
    since_s = time.monotonic()
    gap = page.wait_for("stalled")
    assert time.monotonic() - since_s > STALLED_S / 2
    assert gap["work"]["labelled_per_s"][-1] is None
    assert gap["lag_ms"] > 0
    worker.start()
    back = page.wait_for("idle")
    _is_that_of_the_topic(back, app)
    assert None in back["work"]["labelled_per_s"], "the gap stays on the page"
    assert back["work"]["labelled_per_s"][-1] is not None
