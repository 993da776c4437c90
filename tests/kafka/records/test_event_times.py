"""Records of any event time on a real broker that deletes what is old: nothing that the worker writes vanishes."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ops.local_kafka import processes
from ops.local_kafka.cluster import LocalKafka
from ops.local_kafka.plan import broker_properties
from stream_app.backends import topics
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.backends.retention import FOREVER
from stream_app.records import Side
from stream_app.verify.verify import verify
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import areba, run_to
from tests.support.kafka.records import example, label
from tests.support.kafka.topics import read_topic
from tests.support.kafka.waiting import START_DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

CHECKED: Mapping[str, object] = {"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 200}
"""The broker looks for old records five times a second, not every five minutes."""

SHORT: Mapping[str, str] = {"retention.ms": "3600000", "segment.ms": "100"}
"""Far longer than this test, far shorter than the age of its records."""

YEAR_2013_MS = 1_380_000_000_000
COUNT = 60
SECTIONS: Mapping[str, Section] = {"streams": {"pumps": {"features": 1}, "broken": {"features": 1}}}


@pytest.fixture
def checks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a broker that starts from now on look for old records often."""
    monkeypatch.setattr(processes, "broker_properties", lambda *given: {**broker_properties(*given), **CHECKED})


def _create(app: App, control: str) -> None:
    """Create the topics: inputs that accept and keep any time, outputs with a short retention, and a control topic."""
    names = app.config.topics
    outputs = {names.predictions, names.outcomes, names.metrics, names.dead_letters}
    planned = topics.plan(names, 1, retention_ms=FOREVER)
    chosen = [replace(one, settings={**one.settings, **(SHORT if one.name in outputs else {})}) for one in planned]
    app.cluster.create([*chosen, TopicInfo(control, 1, dict(SHORT))], 1)


def _records() -> list[Sent]:
    """Return examples of 2013 with their labels, labels in seconds, and records with the timestamp -1."""
    records = []
    for number in range(COUNT):
        now_ms = YEAR_2013_MS + 100 * number
        records += [
            example("pumps", str(number), [number % 5], now_ms),
            label("pumps", str(number), number % 2, now_ms + 9),
        ]
        records += [label("pumps", f"unknown-{number}", 1, now_ms // 1000)]
        records += [example("broken", str(number), [1.0], -1), label("broken", str(number), 1, -1)]
    return sorted(records, key=lambda record: record.time_ms)


def test_outputs_of_old_records_survive(
    checks_often: None,  # noqa: ARG001  (the broker starts after it)
    own_kafka: LocalKafka,
    prefix: str,
    tmp_path: Path,
) -> None:
    """1,000 predictions of 2013, and 200 dead letters of 1970, were deleted within minutes; `dlq show` said 0."""
    app = App(own_kafka.bootstrap_servers, prefix, tmp_path, SECTIONS)
    control = f"{prefix}control"
    _create(app, control)
    began_ms = int(time.time() * 1000)
    records = _records()
    app.send(records)
    counts = [sum(record.side is side for record in records) for side in Side]
    run_to(app.config, {0: (counts[0], counts[1])})
    sender = KafkaSender(app.servers)
    sender.send(control, b"k", b"old", YEAR_2013_MS, partition=0)
    sender.flush(START_DEADLINE_S)
    place = TopicPartition(control, 0)
    wait_until(lambda: app.cluster.watermarks(place).low == 1, "the broker's deletion of an old record")
    outputs = app.outputs(0)
    assert len(outputs["predictions"]) == len(outputs["outcomes"]) == COUNT
    assert len(outputs["dead-letters"]) == 3 * COUNT
    now_ms = int(time.time() * 1000)
    for topic, rows in outputs.items():
        assert all(began_ms <= -row.time_ms <= now_ms for row in rows), f"{topic} has the log's time"
    assert verify(app.cluster, app.config).ok
    file = app.file("operator")
    assert f"{3 * COUNT} dead letters" in areba(file, "dlq", "show", "--since", "1h").stdout
    assert areba(file, "inspect").returncode == 1
    dry = areba(file, "dlq", "resend", "--all", "--dry-run")
    assert (dry.returncode, f"{2 * COUNT} not sent" in dry.stdout + dry.stderr) == (1, True)
    assert areba(file, "dlq", "resend", "--reason", "orphan-label").returncode == 0
    back = read_topic(app.cluster, TopicPartition(app.config.topics.labels, 0))[counts[1] :]
    assert sorted(row.time_ms for row in back) == sorted((YEAR_2013_MS + 100 * n) // 1000 for n in range(COUNT))
