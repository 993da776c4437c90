"""Wait for a condition, with a deadline."""

import time
from collections.abc import Callable

DEADLINE_S = 120.0
"""The longest wait for a condition; it takes some seconds, unless the machine is very busy."""

START_DEADLINE_S = 180.0
"""The longest wait for a worker process, which may have to compile first."""

PAUSE_S = 0.01


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Check the condition again and again until the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        time.sleep(PAUSE_S)
