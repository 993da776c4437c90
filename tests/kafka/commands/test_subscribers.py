"""The Python programs of docs/subscribers.md read predictions of a real broker, as printed."""

import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from ops.local_kafka.cluster import LocalKafka
from tests.support.documents import ROOT, blocks
from tests.support.kafka.published import OUTCOME, PREDICTIONS, publish

pytestmark = [pytest.mark.kafka, pytest.mark.slow(20)]

PLAIN, WITH_CLIENT, ALERTS, _ = blocks((ROOT / "docs" / "subscribers.md").read_text(encoding="utf-8"), "python")


def _lines(program: str, servers: str) -> list[str]:
    environment = {**os.environ, "AREBA__KAFKA__BOOTSTRAP_SERVERS": servers, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_python_programs_read_what_is_committed(own_kafka: LocalKafka) -> None:
    """A user who copies a program sees each prediction once, and no aborted prediction."""
    publish(own_kafka.bootstrap_servers)
    assert _lines(PLAIN, own_kafka.bootstrap_servers) == [str(asdict(one)) for one in PREDICTIONS]
    found = _lines(WITH_CLIENT, own_kafka.bootstrap_servers)
    assert sorted(found) == sorted(repr(one) for one in (*PREDICTIONS, OUTCOME))
    alerts = ["alert: pump-1", "alert: pump-2", "checked: pump-2 was right"]
    assert sorted(_lines(ALERTS, own_kafka.bootstrap_servers)) == alerts
