"""The demo's workers: processes that can be killed with SIGKILL, or, without a broker, threads that can be dropped."""

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
"""A worker that is asked to stop ends its round, commits and leaves the group: a second, or three on a busy machine."""

POLL_INTERVAL_S = 0.05

LOG_TAIL_LINES = 20

LOG_READ_BYTES = 1 << 16
"""Of a worker's log at a time: what a demo writes in all is less."""

ASSIGNED = re.compile(r"(assigned|revoked) tasks=(\S+)")
RESTORED = re.compile(r"restored task=(\d+) sequence=(-?\d+) reprocessed=(\d+)")


class Workers(Protocol):
    """A consumer group of named workers."""

    def start(self, name: str) -> str:
        """Start one; what it is, for people: `process 4711`."""

    def kill(self, name: str) -> str:
        """End it without any warning; what was done, for people: `killed with SIGKILL`."""

    def failed(self) -> str | None:
        """The end of one that nobody asked to end, with its last lines; None while all is well."""

    def lines(self, name: str) -> Sequence[str]:
        """What it has told so far, from all of its lives."""

    def stop(self) -> None:
        """Ask all to stop, and see to it."""


def tasks_of(lines: Sequence[str]) -> frozenset[int]:
    """The tasks that a worker has, by its log."""
    for line in reversed(lines):
        found = ASSIGNED.search(line)
        if found:
            given = found[1] == "assigned" and found[2] != "none"
            return frozenset(map(int, found[2].split(","))) if given else frozenset()
    return frozenset()


class ProcessWorkers:
    """`areba run` in processes of their own, each with a log in the folder."""

    def __init__(self, config_path: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._config_path = config_path
        self._folder = folder
        self._environment = environment
        self._processes: dict[str, KeptProcess] = {}

    def log_path(self, name: str) -> Path:
        """Where it writes to."""
        return self._folder / f"{name}.log"

    def start(self, name: str) -> str:
        """Start one in a session of its own: a Ctrl-C at the terminal is for us, not for it."""
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
        """SIGKILL, and wait for the end."""
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
        """SIGTERM to all, and SIGKILL to those that do not end in time."""
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


class _Dropped(BaseException):
    """Ends a worker's thread between two rounds, with nothing committed; no handler of errors may catch it."""


class _Memory(logging.Handler):
    """Keeps a worker's last lines."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: deque[str] = deque(maxlen=1_000)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(self.format(record))


class _Life:
    """One life of a worker thread."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.dropped = False
        self.problem: BaseException | None = None
        self.thread: threading.Thread | None = None

    def should_stop(self) -> bool:
        if self.dropped:
            raise _Dropped
        return self.stopping.is_set()


class ThreadWorkers:
    """Workers over the in-process log, each in a thread; killing one drops it without a commit."""

    def __init__(self, config: Config, broker: EmbeddedBroker) -> None:
        self._config = config
        self._broker = broker
        self._lives: dict[str, _Life] = {}
        self._logs: dict[str, _Memory] = {}

    def start(self, name: str) -> str:
        """See `Workers`."""
        memory = self._logs.setdefault(name, _Memory())
        logger = logging.getLogger(f"areba.demo.{name}")
        logger.handlers, logger.propagate = [memory], False
        logger.setLevel(logging.INFO)
        life = _Life()
        life.thread = threading.Thread(target=self._run, args=(name, life, logger), name=name, daemon=True)
        self._lives[name] = life
        life.thread.start()
        return "thread"

    def _run(self, name: str, life: _Life, logger: logging.Logger) -> None:
        from stream_app.cli.warm_up import warm_up  # noqa: PLC0415  (as above)
        from stream_app.worker.observer import Observer  # noqa: PLC0415  (Torch takes seconds, and only this way needs it here)
        from stream_app.worker.ports import Ports  # noqa: PLC0415  (as above)
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
            Worker(config, ports, Observer(clock, logger)).run(life.should_stop)
        except _Dropped:
            return
        except BaseException as error:  # noqa: BLE001  (whatever ended it, `failed` tells)
            life.problem = error

    def kill(self, name: str) -> str:
        """See `Workers`."""
        life = self._lives.pop(name)
        life.dropped = True
        self._join(life)
        return "dropped without a commit"

    def failed(self) -> str | None:
        """See `Workers`."""
        for name, life in self._lives.items():
            if life.problem is not None:
                return f"{name} ended by itself: {life.problem}"
        return None

    def lines(self, name: str) -> Sequence[str]:
        """See `Workers`."""
        return tuple(self._logs[name].kept) if name in self._logs else ()

    def stop(self) -> None:
        """See `Workers`."""
        for life in self._lives.values():
            life.stopping.set()
        for life in self._lives.values():
            self._join(life)
        self._lives.clear()

    @staticmethod
    def _join(life: _Life) -> None:
        if life.thread is not None:
            life.thread.join(STOP_TIMEOUT_S)
