"""Incidents with real workers, Kafka and Prometheus: each alert fires, `inspect` agrees, and the alert stops."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from ops.broker import Broker
from ops.local_kafka.plan import free_ports
from stream_app.admin.problems import ProblemCode
from stream_app.records import Side
from tests.ops.prometheus import Prometheus, prometheus_of
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import WorkerProcess, areba, workers
from tests.support.kafka.records import example, label
from tests.support.kafka.waiting import DEADLINE_S
from tests.support.rows import Sent

pytestmark = [pytest.mark.ops, pytest.mark.slow(400), pytest.mark.timeout(900)]

FASTER = 10
"""The rules run at so many times their speed: a minute is 6 s."""

IN_A_ROW = 10

SECTIONS: Mapping[str, Section] = {
    "streams": {"bad": {"features": 1}, "good": {"features": 1}},
    "breaker": {"in_a_row": IN_A_ROW},
}

ALERT_S = 120.0
"""The longest wait for an alert: the longest course of a rule takes 70 s at this speed."""


def _faster(rules: str) -> str:
    """Return the rules with shorter times: `for`, ranges, and thresholds in seconds."""

    def shorter(found: re.Match[str]) -> str:
        seconds = int(found[2]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[3]]
        return f"{found[1]}{max(2, seconds // FASTER)}s"

    text = re.sub(r"(for: |\[)(\d+)([smhd])\b", shorter, rules)
    return re.sub(r"(_seconds > )(\d+)", lambda found: f"{found[1]}{int(found[2]) // FASTER}", text)


@dataclass(frozen=True)
class Site:
    """An application with two workers of one task each, and the Prometheus that watches them."""

    app: App
    workers: list[WorkerProcess]
    prometheus: Prometheus

    def fires(self, alert: str, **labels: str) -> None:
        """Wait until an alert with these labels fires."""
        chosen = "".join(f', {name}="{value}"' for name, value in labels.items())
        self.prometheus.wait_for(f'ALERTS{{alertname="{alert}", alertstate="firing"{chosen}}}', ALERT_S)

    def stops(self, alert: str) -> None:
        """Wait until an alert no longer fires."""
        self.prometheus.wait_for(f'absent(ALERTS{{alertname="{alert}", alertstate="firing"}})', ALERT_S)

    def is_healthy(self) -> None:
        """Wait until all tasks are live, and no alert is left."""
        self.prometheus.wait_for('sum(areba_task_state{state="live"}) == 2', ALERT_S)
        self.prometheus.wait_for('absent(ALERTS{alertstate="firing"})', ALERT_S)

    def inspected(self) -> set[str]:
        """Return the codes of the problems that `areba inspect` finds."""
        done = areba(self.app.file("operator"), "inspect", "--json")
        found = {problem["code"] for problem in json.loads(done.stdout)["problems"]}
        assert done.returncode == (1 if found else 0)
        return found


@pytest.fixture(scope="module")
def site(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start everything, with a record of each input in both tasks."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, "incidents-", tmp_path_factory.mktemp("incidents"), SECTIONS, partitions=2)
    app.create_topics()
    now_ms = int(time.time() * 1000)
    for partition, stream in enumerate(("bad", "good")):
        app.send([example(stream, "0", [1.0], now_ms, partition), label(stream, "0", 1, now_ms, partition)])
    ports = free_ports(2, [])
    with workers(app, "one", "two") as made, prometheus_of(ports, _faster) as prometheus:
        for worker, name, port in zip(made, ("one", "two"), ports, strict=True):
            app.file(name, worker={"http_port": port, "commit_interval_ms": 50})
            worker.start()
        found = Site(app, made, prometheus)
        found.is_healthy()
        yield found


def test_the_rules_run_faster() -> None:
    """Else the tests would wait in vain, or take an hour."""
    text = _faster("expr: areba_lag_seconds > 60 and deriv(areba_lag_seconds[5m]) > 0\n for: 5m\n for: 1m\n [1d]")
    assert text == ("expr: areba_lag_seconds > 6 and deriv(areba_lag_seconds[30s]) > 0\n for: 30s\n for: 6s\n [8640s]")


def test_a_worker_in_a_crash_loop(site: Site) -> None:
    """It answers a scrape between two deaths, so nothing else would say that it never stays."""
    one, instance = site.workers[0], f"127.0.0.1:{site.prometheus.worker_ports[0]}"
    for number in range(1, 4):
        one.kill()
        one.start()
        site.prometheus.wait_for(
            f'changes(process_start_time_seconds{{instance="{instance}"}}[5m]) >= {number}', ALERT_S
        )
    site.fires("ArebaCrashLoop", instance=instance)
    site.stops("ArebaCrashLoop")
    site.is_healthy()
    assert site.inspected() == set()


def test_an_open_transaction_of_an_outside_producer(site: Site) -> None:
    """The labels of a task wait, although it has read everything that it can read."""
    other = Producer(
        {
            "bootstrap.servers": site.app.servers,
            "transactional.id": "incidents-outside",
            "transaction.timeout.ms": "240000",
        }
    )
    other.init_transactions(DEADLINE_S)
    other.begin_transaction()
    other.produce(site.app.config.topics.labels, b"held", b"good", 1)
    assert other.flush(DEADLINE_S) == 0
    site.fires("ArebaLagGrows", task="1", input="labels")
    began_s = time.monotonic()
    assert site.inspected() == {ProblemCode.HELD_BACK}
    assert time.monotonic() - began_s < DEADLINE_S
    other.abort_transaction(DEADLINE_S)
    site.stops("ArebaLagGrows")
    site.is_healthy()
    assert site.inspected() == set()


def test_a_stream_that_the_breaker_stops(site: Site) -> None:
    """From the first malformed record to the resumed stream."""
    now_ms = int(time.time() * 1000)
    site.app.send([Sent(Side.EXAMPLES, 0, now_ms + number, b"bad", b"not Avro") for number in range(IN_A_ROW)])
    site.fires("ArebaDeadLetters", task="0", reason="wrong-schema")
    site.app.send([Sent(Side.EXAMPLES, 0, now_ms + IN_A_ROW, b"bad", b"not Avro")])  # a stop is recorded with a batch
    site.fires("ArebaStreamStopped", task="0", stream="bad")
    assert site.inspected() == {ProblemCode.STREAM_STOPPED, ProblemCode.DEAD_LETTERS}
    resumed = areba(site.app.file("operator"), "resume", "bad")
    assert resumed.returncode == 0, resumed.stderr
    site.stops("ArebaStreamStopped")
    site.is_healthy()
    assert ProblemCode.STREAM_STOPPED not in site.inspected()


def test_no_worker_is_left(site: Site) -> None:
    """A clean stop of all workers is an incident, too, unless somebody wanted it."""
    for worker in site.workers:
        assert worker.stop() == 0
    site.fires("ArebaWorkerDown")
    site.fires("ArebaTasksMissing")
    assert ProblemCode.NO_WORKER in site.inspected()
    for worker in site.workers:
        worker.start()
    site.stops("ArebaTasksMissing")
    site.is_healthy()
    assert ProblemCode.NO_WORKER not in site.inspected()
