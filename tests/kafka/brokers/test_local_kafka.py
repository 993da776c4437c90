"""The local Kafka starts and stops, and leaves nothing running."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.local_kafka import cluster, processes
from ops.local_kafka.jars import missing_tools
from ops.local_kafka.plan import BrokerPorts, ClusterPlan, broker_properties
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.sender import KafkaSender
from stream_app.errors import ConfigurationError
from tests.contract.backends import DEADLINE_S, log_values

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def tools() -> None:
    """Skip the tests that need Java and Maven if these are missing."""
    if missing := missing_tools():
        reason = f"{' and '.join(missing)} not on the PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _command(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ops.local_kafka", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_up_status_down_keep_the_data(tmp_path: Path) -> None:
    """What was sent before `down` is there after the next `up`, at the same address."""
    folder = tmp_path / "kafka"
    assert _command("status", "--folder", folder).returncode == 1
    try:
        first = _command("up", "--folder", folder)
        assert first.returncode == 0, first.stderr
        (servers,) = re.findall(r"^export AREBA__KAFKA__BOOTSTRAP_SERVERS=(.+)$", first.stdout, re.MULTILINE)
        assert servers.startswith("127.0.0.1:")
        KafkaCluster(servers).create([TopicInfo("kept", 1, {})], 1)
        sender = KafkaSender(servers)
        sender.send("kept", b"k", b"v", time.time_ns() // 1_000_000)
        sender.flush(DEADLINE_S)
        sender.close()
        again = _command("up", "--folder", folder)
        assert (again.returncode, again.stdout) == (0, first.stdout), "it runs already, and says so"
        other = _command("up", "--brokers", "3", "--folder", folder)
        assert other.returncode == 2
        assert other.stderr.strip() == f"{folder} holds a cluster with --brokers 1, not 3; use another folder"
        assert _command("down", "--folder", folder).returncode == 0
        assert _command("status", "--folder", folder).returncode == 1
        second = _command("up", "--folder", folder)
        assert servers in second.stdout
        assert log_values(KafkaCluster(servers), TopicPartition("kept", 0)) == [b"v"]
    finally:
        assert _command("down", "--delete", "--folder", folder).returncode == 0
    assert not folder.exists()


@pytest.mark.slow
def test_nothing_outlives_a_parent_that_was_killed(tmp_path: Path) -> None:
    """A test run that is killed must not leave brokers and folders on the machine, run after run."""
    script = (
        "import os, signal; from ops.local_kafka import cluster; kafka = cluster.start(1); "
        "print(kafka.folder, *[p.pid for p in kafka._processes.values()], flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, pid = done.stdout.split()
    assert folder.startswith(str(tmp_path))
    deadline = time.monotonic() + DEADLINE_S
    while Path(folder).exists() or folder in processes.command_line(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_broker_that_dies_at_start_shows_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user should not have to look for a log file to learn why a broker did not start."""
    right = broker_properties

    def wrong(plan: ClusterPlan, broker: BrokerPorts, data: Path) -> dict[str, object]:
        return {**right(plan, broker, data), "num.network.threads": "many"}

    monkeypatch.setattr(processes, "broker_properties", wrong)
    with pytest.raises(ConfigurationError, match=r"num\.network\.threads"):
        cluster.start(1, tmp_path)
    assert not list(tmp_path.glob("*.pid"))
