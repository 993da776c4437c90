"""Bounds for requests to a schema registry: the time and the size of a whole answer.

The client's own timeout is for each read, so a registry that sends a byte every 0.3 s could hold a caller for ever.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from importlib import import_module
from time import monotonic
from typing import Any

from stream_app.backends.kafka.blocking_calls import start_call

MAX_ANSWER_BYTES = 1 << 20
"""Largest answer that is read; our largest schema takes some kB, and a subject's list of versions less."""

MAX_UNFINISHED = 4
"""Requests that may still run although nobody waits for them any more; with so many, no further request is sent."""


class NoAnswerError(Exception):
    """The registry has not given a whole answer in time, or the answer is too large."""


class _BoundedStream:
    """The body of an answer, until it takes too long or becomes too large."""

    def __init__(self, inner: Any, until_s: float) -> None:  # noqa: ANN401  (a stream of httpx)
        self._inner = inner
        self._until_s = until_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._inner:
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise NoAnswerError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
            if monotonic() > self._until_s:
                raise NoAnswerError("the answer does not end")
            yield part

    def close(self) -> None:
        """Close the connection if the body was not read to its end."""
        self._inner.close()


def bound_answers(session: Any, timeout_s: float) -> None:  # noqa: ANN401  (`httpx.Client`)
    """Bound the time and the size of the body of each answer that this HTTP client will get."""
    library = import_module(type(session).__module__.partition(".")[0])  # httpx, or its successor
    bases = (_BoundedStream, library.SyncByteStream)  # it accepts no other class
    stream = type("BoundedStream", bases, {})

    def bound(response: Any) -> None:  # noqa: ANN401  (`httpx.Response`)
        response.stream = stream(response.stream, monotonic() + timeout_s)

    session.event_hooks = {"response": [bound]}


class BoundedClient:
    """A client of a registry whose calls return in time: each runs in a thread, which is left alone if it does not.

    Args:
        client: A `SchemaRegistryClient` of confluent-kafka, or its mock.
        timeout_s: Longest wait for a whole answer, with its headers.
    """

    def __init__(self, client: Any, timeout_s: float) -> None:  # noqa: ANN401  (the client has no types)
        self._client = client
        self._timeout_s = timeout_s
        self._unfinished = list[Future[Any]]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, name)
        return lambda *arguments: self._call(lambda: method(*arguments))

    def _call(self, request: Callable[[], Any]) -> Any:  # noqa: ANN401  (each request has its own type of answer)
        """Return what the request returns, or raise its error.

        Raises:
            NoAnswerError: It did not return in time.
        """
        self._unfinished = [future for future in self._unfinished if not future.done()]
        if len(self._unfinished) >= MAX_UNFINISHED:
            raise NoAnswerError(f"{len(self._unfinished)} requests are not answered yet")
        future = start_call(request)
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            if future.done():
                raise
            self._unfinished.append(future)
            raise NoAnswerError(f"no whole answer within {self._timeout_s:g} s") from None
