"""`worker.log_format: json` makes every line of the log an object that a collector can read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TIMEOUT_S = 120


@pytest.mark.slow
def test_a_worker_logs_objects(tmp_path: Path) -> None:
    """A collector that parses JSON would drop each line of another format, the first lines of a start included."""
    file = tmp_path / "areba.yaml"
    worker = {"log_format": "json", "start_timeout_ms": 1_000}
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    file.write_text(yaml.safe_dump({"application": {"id": "fraud"}, "kafka": kafka, "worker": worker}))
    done = subprocess.run(
        [sys.executable, "-m", "stream_app.cli", "run", "-c", str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    *log, error = done.stderr.splitlines()
    assert error.startswith("kafka.bootstrap_servers: ")
    events = [json.loads(line) for line in log]
    assert (events[0]["event"], events[0]["application"]) == ("started", "fraud")
    assert all({"time", "level", "logger", "event", "message"} <= event.keys() for event in events)
    assert all(event["logger"].split(".")[0] == "areba" for event in events)
