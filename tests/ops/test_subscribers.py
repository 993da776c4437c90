"""The programs of docs/subscribers.md in Java and Node read a real broker, as printed."""

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ops.keeper import KeptProcess
from ops.local_kafka.cluster import LocalKafka
from tests.support.documents import ROOT, blocks
from tests.support.kafka.published import publish

pytestmark = pytest.mark.ops

PAGE = (ROOT / "docs" / "subscribers.md").read_text(encoding="utf-8")

ALERTS = ["alert: pump-1", "alert: pump-2", "checked: pump-2 was right"]
"""What a program prints of `published`: no prediction of an aborted transaction, and no example below the limit."""


def _fetch(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _environment(kafka: LocalKafka) -> dict[str, str]:
    return {**os.environ, "AREBA__KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers}


def test_the_java_program_reads_what_is_committed(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """A team that works in Java copies the program and the list of jars."""
    publish(own_kafka.bootstrap_servers)
    (program,), (pom,) = blocks(PAGE, "java"), blocks(PAGE, "xml")
    (tmp_path / "Alerts.java").write_text(program, encoding="utf-8")
    (tmp_path / "pom.xml").write_text(pom, encoding="utf-8")
    _fetch(tmp_path, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    run = ["java", "-cp", f"{tmp_path}/lib/*", str(tmp_path / "Alerts.java")]
    environment = _environment(own_kafka)
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ALERTS, done.stderr


def test_the_node_program_reads_what_is_committed(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """A team that works in Node copies the program and the two packages."""
    publish(own_kafka.bootstrap_servers)
    (program,) = blocks(PAGE, "js")
    (tmp_path / "alerts.mjs").write_text(program, encoding="utf-8")
    (tmp_path / "schemas").symlink_to(ROOT / "schemas")
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    _fetch(tmp_path, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "kafkajs@2.2.4", "avsc@5.7.9")
    assert "npm install kafkajs@2.2.4 avsc@5.7.9" in PAGE
    assert sorted(_first_lines(tmp_path, _environment(own_kafka))) == ALERTS


def _first_lines(folder: Path, environment: dict[str, str]) -> Sequence[str]:
    """Run the program, which does not end, until it has printed as many lines as are expected, or for a minute."""
    command = ["node", "alerts.mjs"]
    with KeptProcess(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        limit = threading.Timer(60.0, program.kill)
        limit.start()
        found: list[str] = []
        for line in program.stdout or ():
            if not line.startswith("{"):  # kafkajs logs to standard output
                found.append(line.strip())
            if len(found) == len(ALERTS):
                break
        limit.cancel()
        program.end(10.0)
    return found
