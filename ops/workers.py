"""The workers of the demo: processes that can be killed, or, without a broker, threads that can be abandoned."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from ops.keeper import KeptProcess
from stream_app.backends.base import CLIENT_NAME
from stream_app.backends.clock import SystemClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.config import Config

INSTANCE_VARIABLE = "AREBA__APPLICATION__INSTANCE"

STOP_TIMEOUT_S = 15.0
"""A worker that is asked to stop ends its round, commits and leaves the group within 1 s, or 3 s on a busy machine."""

POLL_INTERVAL_S = 0.05

LOG_TAIL_LINES = 20

LOG_READ_BYTES = 1 << 16
"""How much of the end of a worker's log is read, in bytes; a complete demo writes less."""

ASSIGNED = re.compile(r"(assigned|revoked) tasks=(\S+)")
LIVE = re.compile(r"(?:restored|continued) task=(\d+) sequence=-?\d+(?: reprocessed=(\d+))?")
"""A task is live: restored, or continued without a restore."""


class Workers(Protocol):
    """The workers of one consumer group, each with a name."""

    def start(self, name: str) -> str:
        """Start a worker and return what it is, for people: `process 4711`."""

    def kill(self, name: str) -> str:
        """End a worker without warning and return how, for people: `killed with SIGKILL`."""

    def failed(self) -> str | None:
        """Describe a worker that ended without being asked to, with its last lines; None if no worker did."""

    def lines(self, name: str) -> Sequence[str]:
        """Return the log lines of a worker, of all its starts."""

    def stop(self) -> None:
        """Stop all workers and wait for them."""


def tasks_of(lines: Sequence[str]) -> frozenset[int]:
    """Return the tasks that a worker owns according to its log."""
    for line in reversed(lines):
        found = ASSIGNED.search(line)
        if found:
            given = found[1] == "assigned" and found[2] != "none"
            return frozenset(map(int, found[2].split(","))) if given else frozenset()
    return frozenset()


class ProcessWorkers:
    """Workers as processes that run `areba run`, each with a log in the folder."""

    def __init__(self, config_path: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._config_path = config_path
        self._folder = folder
        self._environment = environment
        self._processes: dict[str, KeptProcess] = {}

    def log_path(self, name: str) -> Path:
        """Return the path of the worker's log."""
        return self._folder / f"{name}.log"

    def start(self, name: str) -> str:
        """Start a worker in a separate session, so that Ctrl-C at the terminal does not reach it."""
        with self.log_path(name).open("ab") as log:
            process = KeptProcess(
                [sys.executable, "-m", "stream_app.cli", "run", "-c", str(self._config_path)],
                env={**self._environment, INSTANCE_VARIABLE: name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes[name] = process
        return f"process {process.pid}"

    def kill(self, name: str) -> str:
        """Kill a worker with SIGKILL and wait for its end."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return "killed with SIGKILL"

    def failed(self) -> str | None:
        """See `Workers`."""
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None:
                tail = "\n".join(self.lines(name)[-LOG_TAIL_LINES:])
                return f"{name} ended by itself with status {status}; the end of {self.log_path(name)}:\n{tail}"
        return None

    def lines(self, name: str) -> Sequence[str]:
        """See `Workers`."""
        try:
            with self.log_path(name).open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_READ_BYTES))
                return log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return ()

    def stop(self) -> None:
        """Send SIGTERM to all workers, and SIGKILL to those that do not end in time."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        self._processes.clear()


class _AbandonedError(BaseException):
    """Ends a worker's thread between two rounds, without a commit. No error handler catches a BaseException."""


class _LineBuffer(logging.Handler):
    """A handler that keeps the last log lines of a worker."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: deque[str] = deque(maxlen=1_000)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(self.format(record))


class _WorkerThread:
    """The state of a worker thread from its start to its end."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.is_abandoned = False
        self.problem: BaseException | None = None
        self.thread: threading.Thread | None = None

    def should_stop(self) -> bool:
        if self.is_abandoned:
            raise _AbandonedError
        return self.stopping.is_set()


class ThreadWorkers:
    """Workers over the in-process log, each in a thread; killing a worker abandons it without a commit."""

    def __init__(self, config: Config, broker: EmbeddedBroker) -> None:
        self._config = config
        self._broker = broker
        self._threads: dict[str, _WorkerThread] = {}
        self._logs: dict[str, _LineBuffer] = {}

    def start(self, name: str) -> str:
        """See `Workers`."""
        buffer = self._logs.setdefault(name, _LineBuffer())
        logger = logging.getLogger(f"areba.demo.{name}")
        logger.handlers, logger.propagate = [buffer], False
        logger.setLevel(logging.INFO)
        worker_thread = _WorkerThread()
        worker_thread.thread = threading.Thread(
            target=self._run, args=(name, worker_thread, logger), name=name, daemon=True
        )
        self._threads[name] = worker_thread
        worker_thread.thread.start()
        return "thread"

    def _run(self, name: str, worker_thread: _WorkerThread, logger: logging.Logger) -> None:
        from stream_app.cli.warm_up import warm_up  # noqa: PLC0415  (Numba takes a second, and only this way needs it here)
        from stream_app.worker.ports import Ports  # noqa: PLC0415  (as above)
        from stream_app.worker.reports.observer import Observer  # noqa: PLC0415  (as above)
        from stream_app.worker.worker import Worker  # noqa: PLC0415  (as above)

        clock = SystemClock()
        application = self._config.application.model_copy(update={"instance": name})
        config = self._config.model_copy(update={"application": application})
        ports = Ports(
            EmbeddedSource(self._broker, config.group_id, f"{CLIENT_NAME}/{name}"),
            EmbeddedTransaction(self._broker, config.transactional_id),
            EmbeddedCluster(self._broker),
            clock,
            partial(EmbeddedTransaction, self._broker),
        )
        try:
            warm_up(config.task_settings())
            Worker(config, ports, Observer(clock, logger)).run(worker_thread.should_stop)
        except _AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001  (`failed` reports it)
            worker_thread.problem = error

    def kill(self, name: str) -> str:
        """See `Workers`."""
        worker_thread = self._threads.pop(name)
        worker_thread.is_abandoned = True
        self._join(worker_thread)
        return "dropped without a commit"

    def failed(self) -> str | None:
        """See `Workers`."""
        for name, worker_thread in self._threads.items():
            if worker_thread.problem is not None:
                return f"{name} ended by itself: {worker_thread.problem}"
        return None

    def lines(self, name: str) -> Sequence[str]:
        """See `Workers`."""
        return tuple(self._logs[name].kept) if name in self._logs else ()

    def stop(self) -> None:
        """See `Workers`."""
        for worker_thread in self._threads.values():
            worker_thread.stopping.set()
        for worker_thread in self._threads.values():
            self._join(worker_thread)
        self._threads.clear()

    @staticmethod
    def _join(worker_thread: _WorkerThread) -> None:
        if worker_thread.thread is not None:
            worker_thread.thread.join(STOP_TIMEOUT_S)
