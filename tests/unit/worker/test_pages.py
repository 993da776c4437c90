"""The server of a worker's pages: no request, however malformed, affects the worker."""

import contextlib
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from stream_app.backends.clock import ManualClock
from stream_app.cli import start
from stream_app.errors import ConfigurationError, UnknownOutcomeError
from stream_app.worker.reports import http
from stream_app.worker.reports.events import Assigned
from stream_app.worker.reports.http import MAX_REQUESTS, Page, PageServer, StartResponse, pages_of
from stream_app.worker.reports.observer import Observer
from tests.support.pages import get
from tests.support.world import make_config


def _fine(_: object, start_response: StartResponse) -> Iterable[bytes]:
    return http.answer(Page(HTTPStatus.OK, "fine"), start_response)


def test_a_port_in_use_is_a_wrong_setting() -> None:
    """A start fails and names the setting; otherwise the worker would run without its pages."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"worker\.http_port: cannot listen at 127\.0\.0\.1:{port}: "):
            PageServer("127.0.0.1", port, {})
    with pytest.raises(ConfigurationError, match=r"worker\.http_host: cannot listen at 192\.0\.2\.1:0: "):
        PageServer("192.0.2.1", 0, {})  # an address for documentation: no machine has it


def test_a_page_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A page that raises returns status 500 and logs the reason; the next request is answered."""

    def broken(*_: object) -> Iterable[bytes]:
        raise ZeroDivisionError("injected")

    with closing(PageServer("127.0.0.1", 0, {"/broken": broken, "/fine": _fine})) as server:
        assert get(server.port, "/broken") == (500, "failed; the worker's log has the reason\n")
        assert "injected" in caplog.text
        assert get(server.port, "/fine?x=1") == (200, "fine")
        assert get(server.port, "/") == (404, "there is no such page; there are: /broken, /fine\n")
        assert get(server.port, "/fine", "HEAD") == (200, "")
        assert [get(server.port, "/fine", method)[0] for method in ("POST", "DELETE", "OPTIONS")] == [405] * 3


@pytest.mark.parametrize(
    ("host", "listens_at", "is_served"),
    [
        ("127.0.0.1:8080", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("[::1]:8080", "::1", True),
        ("", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("evil.example:8080", "localhost", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("worker-1.internal:8080", "0.0.0.0", True),  # noqa: S104  (only compared)
    ],
)
def test_a_page_of_another_origin_reads_nothing(host: str, listens_at: str, is_served: bool) -> None:
    """A web page in a browser of this machine could read the metrics under a name of its own (DNS rebinding)."""
    assert http.is_served(host, listens_at) is is_served


def test_another_host_is_refused() -> None:
    """The server asks for the header before it asks for the page."""
    with (
        closing(PageServer("127.0.0.1", 0, {"/fine": _fine})) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(b"GET /fine HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(1_000).startswith(b"HTTP/1.0 421 ")


def test_bad_clients_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that send nothing, bytes one by one, or megabytes, or that never read, do not delay other clients."""
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 60.0)
    large = b"x" * 50_000_000

    def flood(_: object, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [large]

    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.05):
                client.sendall(b"x")

    with closing(PageServer("127.0.0.1", 0, {"/": _fine, "/flood": flood})) as server, contextlib.ExitStack() as stack:
        silent, dripping, deaf, wordy, gone = (
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)) for _ in range(5)
        )
        thread = threading.Thread(target=drip, args=(dripping,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        deaf.sendall(b"GET /flood HTTP/1.1\r\n\r\n")
        with contextlib.suppress(OSError):
            wordy.sendall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000)
        gone.close()
        assert get(server.port, "/") == (200, "fine")
        assert len(server._server._open) >= 3, "the others hold their connections meanwhile"
        monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.0)
        assert silent.recv(1) == b"", "given up"
        assert _given_up(dripping)
        _wait(lambda: not server._server._open)


def _given_up(client: socket.socket) -> bool:
    """Wait until the server closes the connection, discarding what it sent; a client with a timeout raises."""
    with contextlib.suppress(ConnectionError):
        while client.recv(65_536):
            pass
    return True


def _wait(condition: Any) -> None:  # noqa: ANN401  (a function)
    for _ in range(2_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("not within 20 s")


@pytest.mark.slow(5)
def test_too_many_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many connections take at most `MAX_REQUESTS` threads, and new ones are served once the others time out."""
    monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 60.0)
    before = threading.active_count()
    with closing(PageServer("127.0.0.1", 0, {"/": _fine})) as server, contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            for _ in range(2 * MAX_REQUESTS)
        ]
        assert all(_given_up(client) for client in clients[MAX_REQUESTS:])
        assert threading.active_count() <= before + 1 + MAX_REQUESTS
        monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 0.0)
        assert all(_given_up(client) for client in clients)
        _wait(lambda: not server._server._open)
        monkeypatch.setattr(http, "REQUEST_TIMEOUT_S", 60.0)
        assert get(server.port, "/") == (200, "fine")


@pytest.mark.slow
def test_a_worker_without_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a port nothing listens, and a start does not spend half a second importing the metrics library."""
    monkeypatch.setattr(http, "PageServer", None)
    with start.open_observer(make_config(), ManualClock()) as observer:
        assert not observer.publishes
    code = (
        "import sys; from stream_app.admin import inspect_tasks; from stream_app.cli import main, start; "
        "from stream_app.worker import worker; "
        "sys.exit('prometheus_client' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False, timeout=120).returncode == 0


def test_the_server_lives_as_long_as_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    """The server answers from the start, and frees its port however the worker ends."""
    caplog.set_level(logging.INFO)
    config = make_config(worker={"http_port": 0})
    ports = []

    def die() -> None:
        with start.open_observer(config, ManualClock()) as observer:
            assert observer.publishes
            found = re.search(r"serving http://127\.0\.0\.1:(\d+)/alive http", caplog.text)
            assert found is not None
            ports.append(int(found[1]))
            assert get(ports[0]) == (503, "the group was not joined yet\n")
            raise UnknownOutcomeError("the worker restarts")

    with pytest.raises(UnknownOutcomeError):
        die()
    [port] = ports
    with pytest.raises(ConnectionRefusedError):
        get(port)
    again = make_config(worker={"http_port": port})
    with start.open_observer(again, ManualClock()):
        assert get(port)[0] == 503


def test_two_workers_of_a_process_share_nothing() -> None:
    """Each worker has its own metrics registry."""
    one, two = Observer(ManualClock(), publishes=True), Observer(ManualClock(), publishes=True)
    one.emit(Assigned([0]))
    with (
        closing(PageServer("127.0.0.1", 0, pages_of(one))) as first,
        closing(PageServer("127.0.0.1", 0, pages_of(two))) as second,
    ):
        state = 'areba_task_state{state="assigned",task="0"} 1.0'
        assert [state in get(server.port, "/metrics")[1] for server in (first, second)] == [True, False]
