"""Restart this process after an error that a new process can repair.

A restart by an error counts against `worker.max_restarts`; a restart by an outage of the brokers does not. The new
process learns the times of earlier restarts from its arguments.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stream_app import log_lines
from stream_app.errors import FencedError, OutageError, RestartNeededError

RESTART_WINDOW_S = 3600.0
"""`worker.max_restarts` counts the restarts of the last hour."""

BACK_OFF_WINDOW_S = 300.0
"""Each restart within this time of earlier ones doubles the pause before the next."""

_LONGEST_PAUSE_S = 60.0
"""Longest pause: a worker must not be away for longer after the brokers have come back."""

_OUTAGES_KEPT = 10
"""Restarts by outages that are remembered; this many within `BACK_OFF_WINDOW_S` reach the longest pause."""

_STOP_CHECK_S = 0.1
"""Time between two checks whether to stop, during a pause."""


class ProcessRestarts(NamedTuple):
    """The times at which this process restarted itself, in seconds since 1970: by errors, and by outages of brokers."""

    by_errors: tuple[float, ...] = ()
    by_outages: tuple[float, ...] = ()

    def recent(self, now: float) -> "ProcessRestarts":
        """Return the restarts of the last hour; of those by outages, the newest `_OUTAGES_KEPT`."""
        errors, outages = (tuple(at for at in times if now - at < RESTART_WINDOW_S) for times in self)
        return ProcessRestarts(errors, outages[-_OUTAGES_KEPT:])

    def and_now(self, now: float, error: RestartNeededError) -> "ProcessRestarts":
        """Return these restarts and the restart that this error causes now."""
        if isinstance(error, OutageError):
            return self._replace(by_outages=(*self.by_outages, now))
        return self._replace(by_errors=(*self.by_errors, now))

    def pause_s(self, now: float) -> float:
        """Return the pause before the next restart: 0 s, then 1 s, 2 s, 4 s, ... while restarts follow one another."""
        close = sum(now - at < BACK_OFF_WINDOW_S for times in self for at in times)
        return min(_LONGEST_PAUSE_S, 2.0 ** (close - 1)) if close else 0.0


NO_RESTARTS = ProcessRestarts()


def restart_process(
    arguments: Sequence[str],
    restarts: ProcessRestarts,
    max_restarts: int,
    should_stop: Callable[[], bool],
    error: RestartNeededError,
) -> None:
    """Replace this process by a new one that runs `areba run` with the same arguments.

    At most `max_restarts` restarts by errors are allowed within an hour.

    Raises:
        RestartNeededError: The given error: the process has restarted too often, or was asked to stop.
    """
    now = time.time()
    recent = restarts.recent(now)
    if not isinstance(error, OutageError) and len(recent.by_errors) >= max_restarts:
        raise error
    pause_s, recent = recent.pause_s(now), recent.and_now(now, error)
    counted = "an outage" if isinstance(error, OutageError) else f"restarts={len(recent.by_errors)}"
    log_lines.RESTARTING.log(logging.getLogger("areba"), pause_s=pause_s, count=counted, problem=error)
    end = time.monotonic() + pause_s
    while time.monotonic() < end:
        if should_stop():
            raise error
        time.sleep(_STOP_CHECK_S)
    command = [sys.executable, "-m", "stream_app.cli", "run", "-c", *arguments]
    command += [f"--restarted-at={moment:.0f}" for moment in recent.by_errors]
    command += [f"--outage-at={moment:.0f}" for moment in recent.by_outages]
    if isinstance(error, FencedError):
        command.append("--was-fenced")
    os.execv(sys.executable, command)  # noqa: S606  (this program itself)
