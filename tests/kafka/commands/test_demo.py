"""The short demo is often the first command that a stranger runs: it must work, end, and leave nothing running."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ops.broker import Broker
from ops.keeper import KeptProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow(20), pytest.mark.timeout(420)]

ROOT = Path(__file__).parents[3]

RUN_TIMEOUT_S = 300.0
"""Time to run, including compiling on a busy machine."""

STOP_TIMEOUT_S = 60.0


def start(arguments: Sequence[str], folder: Path) -> "subprocess.Popen[str]":
    """Start `python -m ops.demo --short` in a folder; its output goes to `out.txt` there."""
    with (folder / "out.txt").open("w", encoding="utf-8") as out:
        return KeptProcess(
            [sys.executable, "-m", "ops.demo", "--short", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )


def output(folder: Path) -> str:
    """Return what the demo has printed so far."""
    return (folder / "out.txt").read_text(encoding="utf-8")


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]", folder: Path) -> None:
    """Wait until the condition is true while the demo runs."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while not condition():
        assert process.poll() is None, output(folder)
        assert time.monotonic() < deadline, output(folder)
        time.sleep(0.05)


def alive(text: str) -> list[int]:
    """Return the processes named by the demo that still run."""
    found = []
    for pid in map(int, re.findall(r"\(process (\d+)\)", text)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        found.append(pid)
    return found


@pytest.mark.slow(30)
def test_the_short_demo(kafka: Broker, tmp_path: Path) -> None:
    """The demo ends with table, figure and a clean verification, and with status 0, although a worker is killed."""
    process = start(["--bootstrap-servers", str(kafka.bootstrap_servers)], tmp_path)
    try:
        status = process.wait(RUN_TIMEOUT_S)
    finally:
        process.kill()
    text = output(tmp_path)
    assert status == 0, text
    lines = text.splitlines()
    assert lines[0] == f"Kafka: the cluster at {kafka.bootstrap_servers}, because it was given"
    assert re.search(r"^worker-[12] was killed with SIGKILL after [\d,]+ of 12,400 examples", text, re.MULTILINE)
    for stream, examples in (("fraud", "4,000"), ("forest", "2,000"), ("mnist", "400"), ("sine", "2,000")):
        row = re.search(rf"^ ?{stream} +areba \* +{examples} +([\d,]+) +([\d,]+) ", text, re.MULTILINE)
        assert row is not None, text
        labelled, unlabelled = (int(count.replace(",", "")) for count in row.groups())
        assert labelled + unlabelled == int(examples.replace(",", "")), "each example is closed in the end"
    for challenger in ("baseline", "relay"):
        assert len(re.findall(rf"^ +{challenger} ", text, re.MULTILINE)) == 6
        line = re.search(rf"^G-mean of {challenger} against the champion's on 6 streams.*$", text, re.MULTILINE)
        assert line is not None, text
        counts = [int(count) for count in re.findall(r"(\d) (?:higher|equal|lower)", line[0])]
        assert (sum(counts[:3]), sum(counts[3:])) == (6, 6), line[0]
    assert "all records are accounted for (4 partitions" in text
    figure = Path(text.rpartition("Figure: ")[2].strip())
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert not alive(text)
    assert not re.search(r"rdkafka|thrd:|log4j|SLF4J|WARN|ERROR", text), "a line that is not the demo's own"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(kafka: Broker, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, or SIGTERM from a build server, must leave no process while two workers run."""
    process = start(["--bootstrap-servers", str(kafka.bootstrap_servers)], tmp_path)
    try:
        after = "Workers:" if number is signal.SIGTERM else "processed"
        wait_for(lambda: after in output(tmp_path), process, tmp_path)
        process.send_signal(number)
        process.send_signal(number)  # people do it twice
        status = process.wait(STOP_TIMEOUT_S)
    finally:
        process.kill()
    text = output(tmp_path)
    assert status == 130, text
    assert "interrupted; everything that was started has been stopped" in text
    assert not alive(text)


def test_a_kafka_that_is_not_there(tmp_path: Path) -> None:
    """A wrong address gives one line, no traceback, and no endless wait."""
    process = start(["--bootstrap-servers", "127.0.0.1:9"], tmp_path)
    try:
        status = process.wait(STOP_TIMEOUT_S)
    finally:
        process.kill()
    text = output(tmp_path)
    assert status == 2, text
    assert "no Kafka broker answers at 127.0.0.1:9" in text
    assert "Traceback" not in text
