"""Calls of the client that may never return."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


class BlockingCallThread:
    """A daemon thread that makes calls of the client which may never return, one at a time.

    `send_offsets_to_transaction` ignores its timeout while the coordinator of the group is away, and it may block
    forever if the coordinator has moved (librdkafka issues 5456 and 5511). Only the end of the process ends such a
    call, so the thread must not keep the process alive.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[None], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="areba-transaction", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def start(self, call: Callable[[], Any]) -> Future[None]:
        """Queue a call; the future ends when the call returns, or has the exception that it raised."""
        future: Future[None] = Future()
        self._jobs.put((future, call))
        return future

    def close(self) -> None:
        """End the thread once its queue is empty; do not wait for it."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            try:
                call()
            except BaseException as problem:  # noqa: BLE001  (the future hands it to the caller)
                future.set_exception(problem)
            else:
                future.set_result(None)
