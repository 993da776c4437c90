"""Alerts and dashboard name what is published, and every alert is tested and explained."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from stream_app.worker.reports.metric_declaration import MetricDeclaration, MetricKind
from stream_app.worker.reports.metrics import METRICS, PROCESS_METRICS
from tests.ops.monitoring import DASHBOARD, MONITORING, ROOT, queries

DECLARED = {metric.name: metric for metric in (*METRICS, *PROCESS_METRICS)}
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus adds."""


def _rules() -> list[Mapping[str, Any]]:
    groups = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _used() -> Iterator[tuple[str, str]]:
    """Yield all queries, and where they are."""
    yield from ((rule["expr"], rule["alert"]) for rule in _rules())
    yield from ((expression, title) for title, expression in queries(DASHBOARD).items())


def _metric(name: str) -> MetricDeclaration | None:
    found = DECLARED.get(name)
    histogram = DECLARED.get(name.removesuffix("_bucket"))
    return found or (histogram if histogram is not None and histogram.kind is MetricKind.HISTOGRAM else None)


def test_queries_name_what_is_published() -> None:
    """An alert on a metric with another name or label never fires, unnoticed."""
    for expression, where in _used():
        names = re.findall(r"\b(?:areba|process)_\w+", expression)
        assert names or "up{" in expression, where
        for name in names:
            assert _metric(name) is not None, f"{where}: {name}"
        for name, selector in re.findall(r"\b((?:areba|process)_\w+)\{([^}]*)\}", expression):
            metric = _metric(name)
            assert metric is not None
            labels = set(re.findall(r"(\w+)(?:=~|!=|=)", selector))
            assert labels <= {*metric.labels, *OF_PROMETHEUS}, f"{where}: {name}"


def test_counters_are_queried_as_counters() -> None:
    """The value of a counter itself says nothing: it begins at 0 again with each worker."""
    for expression, where in _used():
        for name in re.findall(r"\b(?:areba|process)_\w+_total\b", expression):
            assert re.search(rf"(rate|increase)\({name}\b", expression), where


def test_every_alert_is_seen_to_fire_and_to_stop() -> None:
    """An alert that always fires is as useless as one that never does; one test shows the whole course."""
    tests = yaml.safe_load((MONITORING / "test_rules.yml").read_text(encoding="utf-8"))["tests"]
    for rule in _rules():
        courses = [
            ["exp_alerts" in check for check in test["alert_rule_test"] if check["alertname"] == rule["alert"]]
            for test in tests
        ]
        assert any(_begins_and_ends(course) for course in courses), rule["alert"]


def _begins_and_ends(course: list[bool]) -> bool:
    return True in course and not course[0] and not course[-1]


def test_every_alert_has_its_place_in_the_runbook() -> None:
    """An alert without a cause and a command wakes an operator for nothing."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("\n### Alerts\n")[2].partition("\n#")[0]
    assert re.findall(r"^\| `(Areba\w+)` \|", table, re.MULTILINE) == [rule["alert"] for rule in _rules()]
    for rule in _rules():
        assert rule["annotations"]["runbook"] == "docs/operations.md#alerts"
        assert rule["labels"]["severity"] in {"page", "ticket", "info"}


def test_the_dashboard_can_be_provisioned() -> None:
    """Grafana needs unique ids of panels, and a data source that the provisioning names."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    [source] = yaml.safe_load((DASHBOARD.parent / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    [provider] = yaml.safe_load((DASHBOARD.parent / "dashboards" / "areba.yml").read_text())["providers"]
    assert provider["options"]["path"] == "/etc/grafana/provisioning"
    for panel in dashboard["panels"]:
        assert panel["type"] == "row" or panel["description"], panel["title"]


OPERATED = {"inspect", "tail", "promote", "resume", "dlq show", "dlq resend"}
"""Commands that `_operate` of `tests/ops/test_permissions.py` runs as the role `operator`."""


def test_every_command_of_the_runbook_is_tried() -> None:
    """An operator at night has the role `operator`, and no time to ask for permissions."""
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("\n### Alerts\n")[2].partition("\n#")[0]
    assert set(re.findall(r"`areba ((?:dlq |state |topics )?[a-z]+)", table)) == OPERATED
    tests = (ROOT / "tests" / "ops" / "test_permissions.py").read_text(encoding="utf-8")
    for command in OPERATED:
        assert re.search(", ".join(f'"{word}"' for word in command.split()), tests), command
