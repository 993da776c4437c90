"""The Java program of docs/subscribers.md reads predictions of a real broker, as printed."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ops.local_kafka.cluster import LocalKafka
from tests.support.documents import ROOT, blocks
from tests.support.kafka.published import PREDICTIONS, publish

pytestmark = pytest.mark.ops

PAGE = (ROOT / "docs" / "subscribers.md").read_text(encoding="utf-8")


def test_the_java_program_reads_what_is_committed(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """A team that works in Java copies the program and the list of jars."""
    publish(own_kafka.bootstrap_servers)
    (program,), (pom,) = blocks(PAGE, "java"), blocks(PAGE, "xml")
    (tmp_path / "Predictions.java").write_text(program, encoding="utf-8")
    (tmp_path / "pom.xml").write_text(pom, encoding="utf-8")
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    fetched = subprocess.run(fetch, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert fetched.returncode == 0, fetched.stdout + fetched.stderr
    run = ["java", "-cp", f"{tmp_path}/lib/*", str(tmp_path / "Predictions.java")]
    environment = {**os.environ, "AREBA_KAFKA__BOOTSTRAP_SERVERS": own_kafka.bootstrap_servers}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert re.findall(r'"id": "([^"]+)"', done.stdout) == [one.id for one in PREDICTIONS], done.stdout
