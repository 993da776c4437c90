"""Start workers as forks of a process that has loaded all code, which saves the seconds that this takes.

A thousand starts of an interpreter cost an hour of processor time and test nothing: before it joins the group, a worker
uses nothing but the cache of compiled code. Each fork is a separate process with its own session, log and clients, and
runs `areba run`; when it restarts itself, it does so as a new interpreter.

The nursery is that process: it reads requests, a JSON line each, and answers `started`, `ended`. It has no thread and
no client, so nothing is lost in a fork. When its input ends, because its caller has ended, it kills what it started.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ops.keeper import KeptProcess
from stream_app.cli import main
from stream_app.cli.warm_up import warm_up
from stream_app.config import load

READY_DEADLINE_S = 600.0
"""Time for the nursery to start; it may have to compile everything, on a busy machine."""

ANSWER_DEADLINE_S = 60.0


class Fork:
    """A process that a nursery has started, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._over = threading.Event()

    def ended(self, status: int) -> None:
        """Record that the process has ended."""
        self.returncode = status
        self._over.set()

    def poll(self) -> int | None:
        """Return the exit status, minus the signal's number for a killed process; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process."""
        if not self._over.wait(timeout) or self.returncode is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """The caller's end of a nursery.

    Args:
        config: A configuration file with the streams that will be needed.
        log: The file for the nursery's own errors.
    """

    def __init__(self, config: Path, log: Path) -> None:
        self._lock = threading.Lock()
        self._forks: dict[int, Fork] = {}
        self._started: list[int] = []
        self._news = threading.Condition()
        self._ready = False
        with log.open("ab") as errors:
            self._process = KeptProcess(
                [sys.executable, "-m", __name__, str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._listener.start()
        with self._news:
            if not self._news.wait_for(lambda: self._ready or self._process.poll() is not None, READY_DEADLINE_S):
                raise TimeoutError("the nursery is not ready")
        if self._process.poll() is not None:
            raise ChildProcessError(f"the nursery has ended: {log.read_text(encoding='utf-8')}")

    def start(self, arguments: Sequence[str], log: Path) -> Fork:
        """Start `areba` with these arguments; its output is appended to the log."""
        if self._process.stdin is None:
            raise AssertionError("it was made with a pipe")
        log.touch()  # from now on, it can be read
        with self._lock:
            self._process.stdin.write(json.dumps({"arguments": list(arguments), "log": str(log)}) + "\n")
            self._process.stdin.flush()
            with self._news:
                if not self._news.wait_for(lambda: bool(self._started), ANSWER_DEADLINE_S):
                    raise TimeoutError("the nursery does not answer")
                fork = self._forks[self._started.pop()]
        return fork

    def _listen(self) -> None:
        if self._process.stdout is None:
            raise AssertionError("it was made with a pipe")
        for line in self._process.stdout:
            word, *numbers = line.split()
            with self._news:
                if word == "ready":
                    self._ready = True
                elif word == "started":
                    self._forks[int(numbers[0])] = Fork(int(numbers[0]))
                    self._started.append(int(numbers[0]))
                else:
                    self._forks.pop(int(numbers[0])).ended(int(numbers[1]))
                self._news.notify_all()
        with self._news:
            self._process.wait()
            self._news.notify_all()

    def close(self) -> None:
        """Kill all forks, and end the nursery."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(ANSWER_DEADLINE_S)
        self._listener.join(ANSWER_DEADLINE_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve() -> list[str] | None:
    """Fork on request until the input ends; return the arguments in a fork."""
    alive: set[int] = set()
    inner, outer = os.pipe()
    for descriptor in (inner, outer):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(outer, warn_on_full_buffer=False)
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(inner, selectors.EVENT_READ)
        _answer("ready")
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if inner in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(inner, 1_000)
                _reap(alive)
            if 0 not in ready:
                continue
            chunk = os.read(0, 65_536)
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if (pid := os.fork()) == 0:
                    _become(request, inner, outer)
                    return list(request["arguments"])
                alive.add(pid)
                _answer(f"started {pid}")
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    return None


def _reap(alive: set[int]) -> None:
    for pid in sorted(alive):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            alive.discard(pid)
            _answer(f"ended {pid} {os.waitstatus_to_exitcode(status)}")


def _answer(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _become(request: dict[str, Any], *descriptors: int) -> None:
    """Make the fork a separate process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for descriptor in (nothing, log, *descriptors):
        os.close(descriptor)


if __name__ == "__main__":
    import stream_app.worker.worker  # noqa: F401  (what a worker needs is there before the fork)

    warm_up(load(Path(sys.argv[1]), {}).task_settings())
    if (wanted := _serve()) is not None:
        sys.argv[1:] = wanted
        main.main()
