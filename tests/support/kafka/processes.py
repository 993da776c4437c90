"""Workers in this process, and workers as processes that can be killed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ops.keeper import KeptProcess
from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.cluster import KafkaCluster
from stream_app.backends.kafka.source import KafkaSource
from stream_app.backends.kafka.transaction import KafkaTransaction
from stream_app.cli.warm_up import warm_up
from stream_app.config import Config
from stream_app.task_state import TaskState
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.kafka.application import App, Section
from tests.support.kafka.waiting import DEADLINE_S, START_DEADLINE_S, wait_until
from tests.support.resident_memory import resident_bytes

ROOT = Path(__file__).parents[3]


def worker_of(config: Config, transaction: KafkaTransaction | None = None) -> Worker:
    """Return a worker of this process."""
    clock = SystemClock()
    instance = config.application.instance
    settings = {**config.kafka.all, **config.kafka.consumer, "client.id": instance, "group.instance.id": instance}
    source = KafkaSource(config.kafka.bootstrap_servers, config.group_id, settings)
    transaction = transaction or KafkaTransaction(config.kafka.bootstrap_servers, config.transactional_id)
    cluster = KafkaCluster(config.kafka.bootstrap_servers)

    def open_transaction(transactional_id: str) -> KafkaTransaction:
        return KafkaTransaction(config.kafka.bootstrap_servers, transactional_id)

    return Worker(config, Ports(source, transaction, cluster, clock, open_transaction), Observer(clock))


def run_until(worker: Worker, condition: Callable[[Worker], bool], deadline_s: float = DEADLINE_S) -> None:
    """Run the worker in this process until the condition is true."""
    deadline = time.monotonic() + deadline_s

    def should_stop() -> bool:
        tasks = [(task.number, task.state, task.offsets) for task in worker.tasks]
        assert time.monotonic() < deadline, f"the condition did not hold within {deadline_s:g} s: {tasks}"
        return condition(worker)

    worker.run(should_stop)


def run_to(config: Config, ends: Mapping[int, tuple[int, int]], deadline_s: float = DEADLINE_S) -> dict[int, str]:
    """Run the worker in this process until these offsets are committed; return the digests of the tasks' models."""
    warm_up(config.task_settings())
    models: dict[int, str] = {}

    def done(worker: Worker) -> bool:
        live = {task.number: task for task in worker.tasks if task.state is TaskState.LIVE}
        if not all(number in live and live[number].offsets == end for number, end in ends.items()):
            return False
        models.update({number: live[number].live.model_digest() for number in ends})
        return True

    run_until(worker_of(config), done, deadline_s)
    return models


class Process(Protocol):
    """The part of `subprocess.Popen` that tests need."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process."""

    def kill(self) -> None:
        """Send SIGKILL."""


def spawn(arguments: Sequence[str], log_file: Path) -> Process:
    """Start `areba` with these arguments in a new interpreter."""
    with log_file.open("ab") as log:
        return KeptProcess(
            [sys.executable, "-m", "stream_app.cli", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


SHOWN_LOG_CHARACTERS = 6_000
"""How much of a log the error of a wait shows."""


class WorkerProcess:
    """A process of `areba run`, whose log goes to a file."""

    def __init__(self, file: Path, spawn: Callable[[Sequence[str], Path], Process] = spawn) -> None:
        self._file = file
        self._spawn = spawn
        self.log_file = file.with_suffix(".log")
        self._process: Process | None = None
        self._from = 0  # where in the log the current run of the process begins

    def start(self) -> None:
        """Start the process, for the first time or again."""
        assert self._process is None
        self._from = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = self._spawn(["run", "-c", str(self._file)], self.log_file)

    def log(self) -> str:
        """Return what the process has logged since its start."""
        with self.log_file.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def wait_for(self, text: str, times: int = 1, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until the log has this text this many times."""
        process = self._running()

        def said() -> bool:
            there = self.log().count(text) >= times
            assert there or process.poll() is None, f"ended with {process.returncode}:\n{self.log()}"
            return there

        try:
            wait_until(said, f"{text!r} in the log of {self._file.name}", deadline_s)
        except AssertionError as late:
            raise AssertionError(f"{late}; its end:\n{self.log()[-SHOWN_LOG_CHARACTERS:]}") from None

    def _running(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._running().poll() is not None

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the process; 0 while it does not run."""
        process = self._process
        return resident_bytes(process.pid) if process is not None else 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        os.kill(self._running().pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        process = self._running()
        assert process.poll() is None, f"it had ended with {process.returncode} before:\n{self.log()}"
        process.kill()
        process.wait()
        self._process = None

    def wait(self, deadline_s: float = START_DEADLINE_S) -> int:
        """Wait until the process ends by itself; return its exit status."""
        status = self._running().wait(deadline_s)
        self._process = None
        return status

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        self.signal(signal.SIGTERM)

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.ask_to_stop()
        return self.wait(DEADLINE_S)

    def models(self) -> dict[int, str]:
        """Return the model digests that the process logged at its clean stop, by task."""
        return {int(task): digest for task, digest in re.findall(r"stopped task=(\d+) .*models=(\w+)", self.log())}

    def end(self) -> None:
        """End the process in any state."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def workers(
    app: App, *instances: str, spawn: Callable[[Sequence[str], Path], Process] = spawn, **changed: Section
) -> Iterator[list[WorkerProcess]]:
    """Yield worker processes that are not started yet, and end them after the block."""
    made = [WorkerProcess(app.file(instance, **changed), spawn) for instance in instances]
    try:
        yield made
    finally:
        for worker in made:
            worker.end()


def areba(file: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one command of `areba` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "stream_app.cli", *arguments, "-c", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )
