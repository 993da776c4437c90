"""A real Prometheus scrapes a worker, loads the rules, and answers every query of the dashboard."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
import yaml

from stream_app.cli.restart import NO_RESTARTS
from stream_app.cli.start import report_restarts
from stream_app.worker.reports import metrics
from stream_app.worker.reports.http import PageServer, pages_of
from stream_app.worker.reports.metric_declaration import MetricKind
from stream_app.worker.reports.observer import Observer
from tests.ops.monitoring import DASHBOARD, MONITORING, queries
from tests.ops.prometheus import Prometheus, prometheus_of, tool
from tests.support.pages import get
from tests.support.world import World, all_at, make_config, started, take_turns

pytestmark = pytest.mark.ops

RECORDS = 250
"""Labelled examples of each stream: enough for the usual delay of its labels."""

VARIABLES = {"$instance": ".*", "$stream": ".*", "$__rate_interval": "1m"}


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes a worker with something in every metric."""
    drift = {"reference_examples": 120, "window_examples": 60}
    watched = {"s0": {"features": 1, "costs": {"false_positive": 1, "false_negative": 5}, "drift": drift}}
    world = World(make_config(streams=watched, worker={"snapshot_after_ms": 0, "max_batch_records": 100}))
    observer = Observer(world.clock, publishes=True)
    report_restarts(NO_RESTARTS, observer.figures, was_fenced=False)
    world.send(RECORDS)
    member = started(world.worker(observer=observer))
    take_turns(member, until=all_at(member, RECORDS))
    for _ in range(4):
        world.clock.advance(2)
        member.turn()
    world.clock.advance(60)
    member.turn()
    observer.figures.set(metrics.MEMORY_BOUND, 1 << 33)
    observer.figures.set(metrics.MEMORY_LIMIT, 1 << 34)
    observer.figures.set(metrics.SCORE_PSI, 0.02, task=0, stream="s0")  # too few labels for a reference of its own
    observer.figures.set(metrics.STOPPED_STREAMS, 0, task=0, stream="s0")
    with (
        closing(PageServer("127.0.0.1", 0, pages_of(observer))) as server,
        prometheus_of([server.port]) as running,
    ):
        running.wait_for("count_over_time(areba_build_info[1m]) > 2")
        yield running


def test_prometheus_reads_every_metric(prometheus: Prometheus) -> None:
    """A scrape that Prometheus rejects in one line loses all lines."""
    [target] = prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    found = set(prometheus.ask("label/__name__/values"))
    for metric in (*metrics.METRICS, *metrics.PROCESS_METRICS):
        name = f"{metric.name}_bucket" if metric.kind is MetricKind.HISTOGRAM else metric.name
        assert name in found, name
    kinds = prometheus.ask("targets/metadata")
    declared = {metric.name.removesuffix("_total"): metric.kind for metric in metrics.METRICS}
    assert {one["metric"]: one["type"] for one in kinds if one["metric"] in declared} == declared


def test_a_healthy_worker_raises_no_alert(prometheus: Prometheus) -> None:
    """An alert is pending first, for 15 minutes or less: whoever is called for nothing soon ignores the calls."""
    rules = prometheus.evaluated_rules()
    shipped = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert {rule["alert"] for rule in shipped} == rules.keys()
    wrong = {name: (rule["state"], rule["alerts"]) for name, rule in rules.items() if rule["state"] != "inactive"}
    assert wrong == {}
    assert [(rule["health"], rule.get("lastError", "")) for rule in rules.values()] == [("ok", "")] * len(rules)


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
    _, text = get(prometheus.worker_ports[0], "/metrics")
    command = [tool("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_alerts() -> None:
    """Each alert fires where it must, and not where it must not."""
    command = [tool("promtool"), "test", "rules", str(MONITORING / "test_rules.yml")]
    checked = subprocess.run(command, text=True, capture_output=True, check=False, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_shipped_configuration() -> None:
    """Prometheus does not start with a wrong one."""
    command = [tool("promtool"), "check", "config", str(MONITORING / "prometheus.yml")]
    checked = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
