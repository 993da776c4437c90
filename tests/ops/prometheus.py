"""A real Prometheus with the shipped configuration, for tests."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ops.keeper import KeptProcess, temporary_folder
from ops.local_kafka.plan import free_ports
from tests.ops.monitoring import MONITORING
from tests.support.kafka.waiting import wait_until

LIMIT_S = 60.0
"""Longest wait for Prometheus to start, and for two scrapes of everything."""


def tool(name: str) -> str:
    """Return the path of a program; skip on a developer's machine without it, fail on a build server."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed (apt-get install prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class Prometheus(NamedTuple):
    """A running Prometheus at this port, and the ports of the workers that it scrapes."""

    port: int
    worker_ports: tuple[int, ...]

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

    def wait_for(self, expression: str, limit_s: float = LIMIT_S) -> None:
        """Wait until a query has a result."""

        def has_result() -> bool:
            try:
                return bool(self.ask("query", query=expression)["result"])
            except OSError:  # it has not started yet
                return False

        wait_until(has_result, f"a result of {expression}", limit_s)

    def evaluated_rules(self) -> dict[str, Any]:
        """Return the rules by name, with their states, once each was evaluated with what was scraped until now."""
        now = datetime.now(UTC)
        rules: dict[str, Any] = {}

        def are_evaluated() -> bool:
            found = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
            rules.update({rule["name"]: rule for rule in found})
            return all(datetime.fromisoformat(rule["lastEvaluation"]) > now for rule in found)

        wait_until(are_evaluated, "an evaluation of every rule", LIMIT_S)
        return rules


@contextmanager
def prometheus_of(worker_ports: Sequence[int], rules: Callable[[str], str] = lambda text: text) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes workers at these ports every second.

    Args:
        worker_ports: The ports, in place of those of the composition.
        rules: Changes the text of the shipped rules.
    """
    with temporary_folder("areba-prometheus-") as folder:
        (port,) = free_ports(1, [])
        process = KeptProcess(
            [
                tool("prometheus"),
                f"--config.file={_settings(worker_ports, rules, folder)}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Prometheus(port, tuple(worker_ports))
        finally:
            process.end(10.0)


def _settings(worker_ports: Sequence[int], rules: Callable[[str], str], folder: Path) -> Path:
    """Write the shipped configuration with these workers and rules, and return its path."""
    shipped = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = shipped["scrape_configs"]
    assert job["job_name"] == "areba"
    assert len(job["static_configs"][0]["targets"]) == 2
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in worker_ports]}]
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    changed = folder / "rules.yml"
    changed.write_text(rules((MONITORING / "rules.yml").read_text(encoding="utf-8")), encoding="utf-8")
    shipped["rule_files"] = [str(changed)]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(shipped), encoding="utf-8")
    return path
