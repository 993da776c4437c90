"""The processes of brokers: prepare their folders, start them, find them again, and end them.

All state is in one folder:

    broker-<n>.pid          the id of the broker's process
    broker-<n>.properties   its settings
    broker-<n>.log          its log
    broker-<n>.out          what it prints
    broker-<n>/             its data
"""

import os
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ops.local_kafka.jars import ASSETS, LOG_TAIL_LINES
from ops.local_kafka.plan import ClusterPlan, broker_properties
from stream_app.errors import ConfigurationError

READY_TIMEOUT_S = 90.0
"""Three brokers start within 6 s on two idle cores; a busy machine may take ten times as long."""

STOP_TIMEOUT_S = 15.0
"""A broker with little data stops within 1-2 s; a broker that waits for a dead quorum never does."""

POLL_INTERVAL_S = 0.1

FRUGAL_JVM = ("-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests and demos, which start many brokers: they are ready sooner, and slower once they are warm."""

KAFKA_JVM = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""For benchmarks: the options with which Kafka's own scripts start a broker."""


def prepare_folders(folder: Path, plan: ClusterPlan, library: Path) -> None:
    """Write every broker's settings and format its data folder, unless that is formatted already.

    Raises:
        ConfigurationError: Kafka could not format a folder, or took too long.
    """
    running = []
    for broker in plan.brokers:
        data = folder / f"broker-{broker.node}"
        lines = [f"{name}={value}\n" for name, value in broker_properties(plan, broker, data).items()]
        properties = folder / f"broker-{broker.node}.properties"
        properties.write_text("".join(lines), encoding="utf-8")
        if not (data / "meta.properties").exists():
            command = [*_java(library, folder, broker.node, FRUGAL_JVM), "kafka.tools.StorageTool", "format"]
            command += ["-t", plan.cluster_id, "-c", str(properties), "--ignore-formatted"]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            _write_pid(folder, broker.node, process.pid)
            running.append(process)
    try:
        for process in running:
            text, _ = process.communicate(timeout=READY_TIMEOUT_S)
            if process.returncode != 0:
                lines = text.splitlines()[-LOG_TAIL_LINES:]
                raise ConfigurationError(["Kafka could not prepare its data folder:", *lines])
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"Kafka did not prepare its data folder within {READY_TIMEOUT_S:.0f} s") from None
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _write_pid(folder: Path, node: int, pid: int) -> None:
    """Record the id of the process that runs for this broker, so that other processes can end it."""
    (folder / f"broker-{node}.pid").write_text(f"{pid}\n", encoding="utf-8")


def _java(library: Path, folder: Path, node: int, jvm: Sequence[str]) -> list[str]:
    return [
        "java",
        *jvm,
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={ASSETS / 'log4j2.xml'}",
        f"-Dareba.log={folder / f'broker-{node}.log'}",
        "-cp",
        str(library / "*"),
    ]


def spawn(folder: Path, node: int, library: Path, jvm: Sequence[str] = FRUGAL_JVM) -> "subprocess.Popen[bytes]":
    """Start a broker and record its process. It has a separate session, so that Ctrl-C does not reach it."""
    properties = folder / f"broker-{node}.properties"
    with (folder / f"broker-{node}.out").open("ab") as output:
        process = subprocess.Popen(
            [*_java(library, folder, node, jvm), "kafka.Kafka", str(properties)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _write_pid(folder, node, process.pid)
    return process


def broker_pid(folder: Path, node: int) -> int | None:
    """Return the id of the broker's process; None if it does not run.

    The command line of the process is checked, because systems use process ids again.
    """
    try:
        pid = int((folder / f"broker-{node}.pid").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    marker = str(folder / f"broker-{node}.properties")
    return pid if marker in command_line(pid) else None


def version_of(pid: int) -> str:
    """Return the version of Kafka that a broker's process runs, by the folder of its jars (`kafka_jars`)."""
    found = re.search(r"/kafka-(\d+\.\d+\.\d+)/lib/", command_line(pid))
    return found[1] if found else "of unknown version"


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if there is no such process."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def log_tail(folder: Path, node: int) -> list[str]:
    """Return the last lines of what a broker printed and logged."""
    lines: deque[str] = deque(maxlen=LOG_TAIL_LINES)
    for suffix in ("out", "log"):
        file = folder / f"broker-{node}.{suffix}"
        if file.exists():
            with file.open(encoding="utf-8", errors="replace") as handle:
                lines.extend(line.rstrip() for line in handle)
    return list(lines)


def _signal(folder: Path, node: int, number: signal.Signals) -> None:
    pid = broker_pid(folder, node)
    if pid is not None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def stop_all(folder: Path, nodes: Sequence[int], *, at_once: bool) -> None:
    """End the brokers with SIGTERM, and with SIGKILL if they do not end in time or if `at_once`."""
    if not at_once:
        for node in nodes:
            _signal(folder, node, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline and any(broker_pid(folder, node) for node in nodes):
            time.sleep(POLL_INTERVAL_S)
    for node in nodes:
        _signal(folder, node, signal.SIGKILL)
    while any(broker_pid(folder, node) for node in nodes):  # terminates: no process survives SIGKILL
        time.sleep(POLL_INTERVAL_S)
    for node in nodes:
        (folder / f"broker-{node}.pid").unlink(missing_ok=True)
