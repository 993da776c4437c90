"""The thread that sends the streams of the demo."""

import threading
from collections.abc import Callable

from stream_app.backends.base import Sender
from stream_app.backends.clock import SystemClock
from stream_app.errors import ArebaError
from stream_app.producers.manifest import Manifest
from stream_app.producers.plan import Plan
from stream_app.producers.replay import replay

JOIN_TIMEOUT_S = 10.0


class _Stopped(Exception):  # noqa: N818  (not an error: the demo ends)
    """The replay was asked to stop."""


class ReplayThread:
    """The replay of the streams, in its own thread.

    Args:
        plan: What is sent.
        sender: Sends it.
        on_sent: Called with the number of records sent so far.
    """

    def __init__(self, plan: Plan, sender: Sender, on_sent: Callable[[int], None]) -> None:
        self._plan = plan
        self._sender = sender
        self._on_sent = on_sent
        self._stop = threading.Event()
        self._manifest: Manifest | None = None
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._manifest = replay(self._plan, self._sender, SystemClock(), self._progress, self._sleep)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001  (`done` raises it)
            self._problem = error

    def _progress(self, sent: int, _total: int) -> None:
        self._on_sent(sent)
        if self._stop.is_set():
            raise _Stopped

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped

    @property
    def done(self) -> bool:
        """Whether everything was sent; raises the error that ended the replay."""
        if self._problem is not None:
            raise self._problem
        return self._manifest is not None

    def result(self) -> Manifest:
        """Return the manifest of what was sent.

        Raises:
            ArebaError: The replay has not ended.
        """
        if self._manifest is None:
            raise ArebaError("the replay has not ended")
        return self._manifest

    def stop(self) -> None:
        """Stop sending, and wait for the thread to end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)
