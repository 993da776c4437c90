"""Calls of the client that take long, or may never return."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


def start_call(call: Callable[[], Result]) -> Future[Result]:
    """Make a call in a daemon thread of its own; the future has what the call returns, or the exception it raises."""
    future: Future[Result] = Future()
    threading.Thread(target=_make, args=(future, call), name="areba-question", daemon=True).start()
    return future


def _make(future: Future[Result], call: Callable[[], Result]) -> None:
    try:
        result = call()
    except BaseException as problem:  # noqa: BLE001  (the future hands it to the caller)
        future.set_exception(problem)
    else:
        future.set_result(result)


class BlockingCallThread:
    """A daemon thread that makes calls of the client, one at a time.

    Some may never return: `send_offsets_to_transaction` ignores its timeout while the coordinator of the group is away,
    and it may block forever if the coordinator has moved (librdkafka issues 5456 and 5511). Only the end of the process
    ends such a call, so the thread must not keep the process alive.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="areba-transaction", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def start(self, call: Callable[[], Result]) -> Future[Result]:
        """Queue a call; the future has what the call returns, or the exception that it raises."""
        future: Future[Result] = Future()
        self._jobs.put((future, call))
        return future

    def close(self) -> None:
        """End the thread once its queue is empty; do not wait for it."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _make(*job)
