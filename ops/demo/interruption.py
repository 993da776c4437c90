"""SIGINT and SIGTERM during the demo."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Turns the first SIGINT or SIGTERM into a KeyboardInterrupt, but not while something is started or stopped."""

    def __init__(self) -> None:
        self._held = False
        self._asked = False

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._asked:
            return
        self._asked = True
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay a signal until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Ignore signals from now on, since everything is being stopped already."""
        self._held = self._asked = True


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Handle signals during the block; in a thread that is not the main thread, signals cannot be handled."""
    interruption = Interruption()
    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption.ask) for number in numbers}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
