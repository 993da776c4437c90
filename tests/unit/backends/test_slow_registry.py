"""A schema registry that answers slowly, endlessly or with too much: every wait for it has a bound."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stream_app.backends.clock import SystemClock
from stream_app.backends.kafka.registry.bounded import MAX_ANSWER_BYTES, MAX_UNFINISHED, BoundedClient, NoAnswerError
from stream_app.backends.kafka.registry.client import SchemaRegistry, open_registry
from stream_app.cli.checks import wait_for_schemas
from stream_app.config import load
from stream_app.errors import ConfigurationError
from tests.support.kafka.waiting import wait_until

pytestmark = pytest.mark.slow

pytest.importorskip("confluent_kafka.schema_registry")

TIMEOUT_S = 0.3
BYTE_S = 0.05
"""Pause between two bytes: shorter than the timeout, which an HTTP library counts from the last byte."""

AT_ONCE_S = 0.2
"""A call that waits for no network returns in this time, on a busy machine too."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _slow_body(connection: socket.socket, is_over: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
    while not is_over.wait(BYTE_S):
        connection.sendall(b" ")


def _slow_head(connection: socket.socket, is_over: threading.Event) -> None:
    connection.sendall(HEAD)
    while not is_over.wait(BYTE_S):
        connection.sendall(b"X")


def _endless_body(connection: socket.socket, is_over: threading.Event) -> None:
    connection.sendall(HEAD + b"Connection: close\r\n\r\n")
    while not is_over.is_set():
        connection.sendall(b" " * 65_536)


Answer = Callable[[socket.socket, threading.Event], None]
ANSWERS = [_slow_body, _slow_head, _endless_body]


@contextmanager
def _serving(answer: Answer) -> Iterator[str]:
    """Serve an endless answer to each request, and yield the URL."""
    is_over = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            answer(connection, is_over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        is_over.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for thread in (acceptor, *threads):
            thread.join()


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_loop_never_waits_for_a_registry(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    """A registry that sends a byte every 0.3 s stopped the whole worker, for as long as the answer took."""
    with _serving(answer) as url:
        names = open_registry({"url": url, "timeout": f"{TIMEOUT_S}"})
        begun_s = time.monotonic()
        assert names.registered([7]) is None
        assert time.monotonic() - begun_s < AT_ONCE_S
        wait_until(lambda: any(vars(line).get("event") == "registry-awaited" for line in caplog.records), "a line", 5.0)
        assert names.registered([7]) is None


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_start_ends_in_time(answer: Answer, tmp_path: Path) -> None:
    """A worker whose registry does not answer ends with status 2 after `worker.start_timeout_ms`, not never."""
    with _serving(answer) as url:
        path = tmp_path / "areba.yaml"
        registry = f"{{url: '{url}', timeout: {TIMEOUT_S}}}"
        serialization = f"serialization: {{wire_format: confluent, schema_registry: {registry}}}"
        path.write_text(f"{serialization}\nworker: {{start_timeout_ms: 1000}}\n")
        begun_s = time.monotonic()
        with pytest.raises(ConfigurationError, match=r"serialization\.schema_registry\.url: subject examples-value"):
            wait_for_schemas(load(path, {}), lambda: False, restarted=False)
        assert time.monotonic() - begun_s < 1.0 + 4 * TIMEOUT_S + AT_ONCE_S


def test_an_answer_that_is_too_large() -> None:
    """Memory is bounded as well: a broken proxy can send a gigabyte in a second."""
    with _serving(_endless_body) as url:
        registry = open_registry({"url": url, "timeout": "20"})
        begun_s = time.monotonic()
        with pytest.raises(NoAnswerError, match=str(MAX_ANSWER_BYTES)):
            registry._schema(7)
        assert time.monotonic() - begun_s < 20


def test_the_number_of_requests_that_nobody_waits_for_is_bounded() -> None:
    """Each has a thread and a connection."""
    is_over = threading.Event()

    class Silent:
        """A client whose answers do not come."""

        asked = 0

        def get_schema(self, _: int) -> None:
            self.asked += 1
            is_over.wait()

    client = Silent()
    registry = SchemaRegistry(BoundedClient(client, 0.01), SystemClock())
    for _ in range(2 * MAX_UNFINISHED):
        with pytest.raises(NoAnswerError):
            registry._schema(7)
    assert client.asked == MAX_UNFINISHED
    is_over.set()


@pytest.mark.parametrize("timeout", ["0", "-1", "31", "nan", "soon"])
def test_a_timeout_has_bounds(tmp_path: Path, timeout: str) -> None:
    """A timeout of an hour would be none."""
    path = tmp_path / "areba.yaml"
    path.write_text(f"serialization: {{schema_registry: {{url: 'http://127.0.0.1:9', timeout: {timeout}}}}}\n")
    with pytest.raises(ConfigurationError, match="timeout: must be more than 0 and at most 30 seconds"):
        load(path, {})
