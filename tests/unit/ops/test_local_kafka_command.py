"""`python -m ops.local_kafka up` says that it uses a cluster that already runs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.local_kafka import __main__ as command
from ops.local_kafka import processes
from ops.local_kafka.plan import BrokerPorts, ClusterPlan


def test_a_cluster_that_runs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line goes to standard error: `eval "$(... up | grep export)"` hides what is on standard output."""
    ClusterPlan("id", (BrokerPorts(1, 20_001, 20_002),)).save(tmp_path)
    monkeypatch.setattr(command, "kafka_jars", lambda: tmp_path)
    monkeypatch.setattr(processes, "broker_pid", lambda _folder, _node: 4711)
    line = f"java -cp /cache/kafka-3.9.2/lib/* kafka.Kafka {tmp_path}/broker-1.properties"
    monkeypatch.setattr(processes, "command_line", lambda _pid: line)
    result = CliRunner().invoke(command.main, ["up", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    [said] = result.stderr.splitlines()
    assert {"3.9.2", "127.0.0.1:20001,"} <= {*said.split()}
    assert str(tmp_path) in said
    assert "export AREBA__KAFKA__BOOTSTRAP_SERVERS=127.0.0.1:20001" in result.stdout.splitlines()
