"""Worker processes that faults are applied to, and what their logs say about them."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.chaos.plan import Fault, Kind, Moment
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import Process, WorkerProcess

PAUSE_S = 0.03
"""Pause between two reads of a log: short compared with anything that a worker does."""

READY_DEADLINE_S = 300.0
"""A worker that has not loaded its compiled code after this time hangs: four workers that start together on a busy
machine take a minute."""

MOMENT_PATIENCE_S: Mapping[Moment, float] = {
    Moment.START: 0.0,
    Moment.ASSIGNED: 25.0,
    Moment.LIVE: 25.0,
    Moment.SAVING: 3.0,
}
"""How long to wait for a moment that may never come (a member without tasks takes no snapshots) before the fault."""

STOP_DEADLINE_S = 90.0

RESTARTING = "restarting the process"
STOPPED = (0, 4, -signal.SIGTERM)
"""Exit statuses of a worker that is asked to stop. Only the first is a clean stop. With the second, a broker was too
slow for the last transaction. With the third, the worker was restarting itself, and a new one has no handler."""

READY = "compiled seconds="
TIME_FORMAT = "%Y-%m-%d %H:%M:%S,%f"

LINE = re.compile(r"^(\d+-\d+-\d+ \d+:\d+:\d+,\d+) (\w+) \S+ (.*)$")
ASSIGNED = re.compile(r"assigned tasks=(\S+)")
OF_TASK = re.compile(r"(restored|continued|snapshot-taken|snapshot-complete) task=(\d+)")

WRONG = ("Traceback", "parked task", "stream-stopped task", "damaged task")
"""No fault may cause these log lines."""


class ChaosError(Exception):
    """A trial did not run correctly."""


class HaltedError(ChaosError):
    """The trial was abandoned because something else failed."""


Spawn: TypeAlias = Callable[[Sequence[str], Path], Process]


class Line(NamedTuple):
    """A line of a worker's log: its time, in seconds since the epoch, and its text."""

    time_s: float
    text: str


def lines_of(log: str) -> Iterator[Line]:
    """Yield the lines that have a time."""
    for text in log.splitlines():
        if found := LINE.match(text):
            yield Line(datetime.strptime(found[1], TIME_FORMAT).astimezone().timestamp(), found[3])


@dataclass
class State:
    """The state of a worker according to its log so far."""

    stage: str = "starting"
    tasks: frozenset[int] = frozenset()
    waiting: set[int] = field(default_factory=set)
    saving: set[int] = field(default_factory=set)

    def read(self, text: str) -> None:
        """Update the state with the next line."""
        if RESTARTING in text:
            self.__init__()  # type: ignore[misc]  # a new life begins
        elif READY in text or text.startswith("revoked"):
            self.stage, self.tasks = "joining", frozenset()
            self.saving.clear()
        elif found := ASSIGNED.match(text):
            self.tasks = frozenset() if found[1] == "none" else frozenset(map(int, found[1].split(",")))
            self.waiting = set(self.tasks)
            self.stage = "restoring" if self.waiting else "idle"
        elif found := OF_TASK.match(text):
            self._read_of_task(found[1], int(found[2]))

    def _read_of_task(self, what: str, task: int) -> None:
        if what in {"restored", "continued"}:
            self.waiting.discard(task)
            if not self.waiting:
                self.stage = "live"
        elif what == "snapshot-taken":
            self.saving.add(task)
        else:
            self.saving.discard(task)

    @property
    def name(self) -> str:
        """Name of the state, for the count of kills by stage."""
        return "saving" if self.stage == "live" and self.saving else self.stage


def state_of(log: str) -> State:
    """Return the state of a worker whose log ended here."""
    state = State()
    for line in lines_of(log):
        state.read(line.text)
    return state


class Life(NamedTuple):
    """One run of a worker process, from its start to its end in seconds since the epoch, with its log lines."""

    start_s: float
    end_s: float
    log: str


class Member:
    """A named worker, which is killed and started again.

    Args:
        app: Its application.
        name: Its instance.
        halt: Set when the trial is abandoned.
        spawn: How its process is started.
        changed: Sections of the configuration that differ for this worker.
    """

    def __init__(self, app: App, name: str, halt: threading.Event, spawn: Spawn, **changed: Section) -> None:
        self.name = name
        self.lives: list[Life] = []
        self.done: list[tuple[Kind, str]] = []  # the faults, each with what the worker was doing then
        self._process = WorkerProcess(app.file(name, **changed), spawn)
        self._halt = halt
        self._start_s = 0.0
        self._runs = False

    def start(self) -> None:
        """Start the worker."""
        self._start_s = time.time()
        self._process.start()
        self._runs = True

    @property
    def log(self) -> str:
        """The log of the current process."""
        return self._process.log()

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the current process."""
        return self._process.resident_bytes

    def suffer(self, fault: Fault) -> None:
        """Apply a fault; afterwards, the worker runs again, or is about to.

        Raises:
            ChaosError: The worker ended by itself, or did not end as it should.
        """
        self._await(fault.moment)
        self._sleep(fault.delay_s)
        self.check()
        stage = state_of(self.log).name
        if fault.kind is Kind.KILL:
            self.kill()
        elif fault.kind is Kind.FREEZE:
            self._process.signal(signal.SIGSTOP)
            try:
                self._sleep(fault.lasts_s)
            finally:
                self._process.signal(signal.SIGCONT)
        else:
            self.wait_ready()
            self.stop()
            self._sleep(fault.lasts_s)
        self.done.append((fault.kind, stage))
        if not self._runs:
            self.start()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()
        self._bury()

    def check(self) -> None:
        """Check that the worker runs, and has logged no error.

        Raises:
            ChaosError: The worker has ended, or has logged an error.
        """
        log = self.log
        if self._process.has_ended:
            raise ChaosError(f"{self.name} ended by itself:\n{_tail(log)}")
        if wrong := next((word for word in WRONG if word in log), None):
            raise ChaosError(f"{self.name}: {wrong!r} in its log:\n{_tail(log)}")

    def wait_ready(self) -> None:
        """Wait until the worker handles SIGTERM."""
        self.wait_for(lambda: READY in self.log, READY_DEADLINE_S, "compiled code")

    def wait_for(self, condition: Callable[[], object], deadline_s: float, what: str) -> None:
        """Wait until a condition is true.

        Raises:
            ChaosError: The condition did not become true in time.
        """
        if not self._comes(condition, deadline_s):
            raise ChaosError(f"{self.name}: no {what} within {deadline_s:g} s:\n{_tail(self.log)}")

    def stop(self) -> int:
        """Send SIGTERM, and check that the worker ends with a status of `STOPPED`."""
        self._process.ask_to_stop()
        try:
            status = self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise ChaosError(
                f"{self.name} still runs {STOP_DEADLINE_S:g} s after SIGTERM:\n{_tail(self.log)}"
            ) from None
        self._bury()
        if status not in STOPPED:
            raise ChaosError(f"{self.name} ended with status {status} when asked to stop:\n{_tail(self.lives[-1].log)}")
        return status

    def models(self) -> dict[int, str]:
        """Return the model digests that the worker logged at its stop, by task."""
        return self._process.models()

    def end(self) -> None:
        """End the process in any state."""
        self._process.end()

    def _bury(self) -> None:
        self.lives.append(Life(self._start_s, time.time(), self.log))
        self._runs = False

    def _await(self, moment: Moment) -> None:
        """Wait until the log shows this moment, or the patience ends."""
        if moment is Moment.START:
            return
        self.wait_ready()
        saved = self.log.count("snapshot-taken task")

        def has_come() -> bool:
            if moment is Moment.SAVING:
                return self.log.count("snapshot-taken task") > saved
            stage = state_of(self.log).stage
            return stage in ("live", "idle") or (moment is Moment.ASSIGNED and stage == "restoring")

        self._comes(has_come, MOMENT_PATIENCE_S[moment])

    def _comes(self, condition: Callable[[], object], patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.check()
            self._sleep(PAUSE_S)
        return True

    def _sleep(self, seconds: float) -> None:
        if self._halt.wait(seconds):
            raise HaltedError("the trial was given up")


def _tail(log: str, lines: int = 25) -> str:
    return "\n".join(log.splitlines()[-lines:])
