"""The clocks: the machine's, and a clock that moves only when a test moves it."""

import time


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start, which never decrease."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block for this time."""
        time.sleep(seconds)


class ManualClock:
    """A clock for tests: only `advance` and `sleep` move it, and it never blocks.

    Args:
        now_ms: The time at which it starts, in milliseconds since 1970.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._passed_s = 0.0

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return self._start_ms + int(self._passed_s * 1000)

    def monotonic_s(self) -> float:
        """Return the seconds by which the clock was moved."""
        return self._passed_s

    def sleep(self, seconds: float) -> None:
        """Move the clock by this time and return at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock by this time."""
        self._passed_s += seconds
