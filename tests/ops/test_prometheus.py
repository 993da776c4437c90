"""A real Prometheus scrapes a worker, loads the rules, and answers every query of the dashboard."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ops.keeper import KeptProcess, temporary_folder
from stream_app.worker.pages import metrics
from stream_app.worker.pages.health import HealthObserver
from stream_app.worker.pages.http import PageServer, pages_of
from tests.ops.monitoring import DASHBOARD, MONITORING, queries
from tests.support.pages import get
from tests.support.world import World, _all_at, _config, _started, _turns

pytestmark = pytest.mark.ops

LIMIT_S = 60.0
"""Longest wait for Prometheus to start, and for two scrapes of everything."""

RECORDS = 250
"""Labelled examples of each stream: enough for the usual delay of its labels."""

VARIABLES = {"$instance": ".*", "$stream": ".*", "$__rate_interval": "1m"}


def _tool(name: str) -> str:
    """Return the path of a program; skip on a developer's machine without it, fail on a build server."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed (apt-get install prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class Prometheus(NamedTuple):
    """A running Prometheus and the port of the worker that it scrapes."""

    port: int
    worker_port: int

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the data of an answer of the API.

        Raises:
            AssertionError: Prometheus does not accept the query.
        """
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it starts: an OSError, for `wait_for`
                raise
            raise AssertionError(f"{parameters}: {text}") from error
        assert found["status"] == "success"
        return found["data"]

    def wait_for(self, expression: str) -> None:
        """Wait until a query has a result."""
        until_s = time.monotonic() + LIMIT_S
        while time.monotonic() < until_s:
            try:
                if self.ask("query", query=expression)["result"]:
                    return
            except OSError:  # it has not started yet
                pass
            time.sleep(0.2)
        pytest.fail(f"Prometheus has no {expression} after {LIMIT_S:g} s")


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _settings(worker_port: int, folder: Path) -> Path:
    """Write the shipped configuration with this worker in place of the composition's workers, and return its path."""
    shipped = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = shipped["scrape_configs"]
    assert job["job_name"] == "areba"
    assert len(job["static_configs"][0]["targets"]) == 2
    job["static_configs"] = [{"targets": [f"127.0.0.1:{worker_port}"]}]
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    shipped["rule_files"] = [str(MONITORING / "rules.yml")]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(shipped), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes a worker with something in every metric."""
    program = _tool("prometheus")
    world = World(_config(worker={"snapshot_after_ms": 0, "max_batch_records": 100}))
    observer = HealthObserver(world.clock)
    observer.restarted(errors=0, outages=0, was_fenced=False)
    world.send(RECORDS)
    member = _started(world.worker(observer=observer))
    _turns(member, until=_all_at(member, RECORDS))
    for _ in range(4):
        world.clock.advance(2)
        member.turn()
    world.clock.advance(60)
    member.turn()
    observer.figures.set(metrics.MEMORY_BOUND, 1 << 33)
    observer.figures.set(metrics.MEMORY_LIMIT, 1 << 34)
    with (
        temporary_folder("areba-prometheus-") as folder,
        closing(PageServer("127.0.0.1", 0, pages_of(observer))) as server,
    ):
        port = _free_port()
        process = KeptProcess(
            [
                program,
                f"--config.file={_settings(server.port, folder)}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            running = Prometheus(port, server.port)
            running.wait_for("count_over_time(areba_build_info[1m]) > 2")
            yield running
        finally:
            process.end(10.0)


def test_prometheus_reads_every_metric(prometheus: Prometheus) -> None:
    """A scrape that Prometheus rejects in one line loses all lines."""
    [target] = prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    found = set(prometheus.ask("label/__name__/values"))
    for metric in (*metrics.METRICS, *metrics.PROCESS_METRICS):
        name = f"{metric.name}_bucket" if metric.kind is metrics.Kind.HISTOGRAM else metric.name
        assert name in found, name
    kinds = prometheus.ask("targets/metadata")
    declared = {metric.name.removesuffix("_total"): metric.kind for metric in metrics.METRICS}
    assert {one["metric"]: one["type"] for one in kinds if one["metric"] in declared} == declared


def test_the_rules_are_loaded(prometheus: Prometheus) -> None:
    """A rule with an error would make Prometheus refuse all rules; a healthy worker fires no alert."""
    prometheus.wait_for("ALERTS or vector(1)")
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    shipped = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in shipped}
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
    firing = {
        alert["labels"]["alertname"] for alert in prometheus.ask("alerts")["alerts"] if alert["state"] == "firing"
    }
    assert firing == set()


@pytest.mark.parametrize("title", queries(DASHBOARD))
def test_every_query_of_the_dashboard_is_answered(prometheus: Prometheus, title: str) -> None:
    """A panel with an error, or without data, would be found by an operator at night."""
    expression = queries(DASHBOARD)[title]
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert prometheus.ask("query", query=expression)["result"], expression


def test_the_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    """An empty list of workers or streams would empty the page."""
    dashboard: Mapping[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["query"]["query"].removeprefix("label_values(").removesuffix(")").split(", ")
            assert prometheus.ask(f"label/{label}/values", **{"match[]": metric}), variable["name"]


def test_promtool_accepts_the_page(prometheus: Prometheus) -> None:
    """It checks names, units, help texts and types, and reports what is against Prometheus' conventions."""
    _, text = get(prometheus.worker_port, "/metrics")
    command = [_tool("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_alerts() -> None:
    """Each alert fires where it must, and not where it must not."""
    command = [_tool("promtool"), "test", "rules", str(MONITORING / "test_rules.yml")]
    checked = subprocess.run(command, text=True, capture_output=True, check=False, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_shipped_configuration() -> None:
    """Prometheus does not start with a wrong one."""
    command = [_tool("promtool"), "check", "config", str(MONITORING / "prometheus.yml")]
    checked = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
