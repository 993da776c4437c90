"""The pages of a worker, `/alive`, `/ready` and `/metrics`, and the server that answers for them.

`/metrics` is the WSGI application of Prometheus' client; the other two are a verdict of `health.py`, with status 200 or
503, and its reason as text. The pages need no password and change nothing.

Every answer has `_SECURITY_HEADERS`. The server of the standard library uses a thread for each request, at most
`MAX_REQUESTS` at a time. A connection that is open for longer than `REQUEST_TIMEOUT_S` is closed, even while its client
sends or receives. An error in a request does not affect the worker.
"""

import errno
import logging
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from stream_app import __version__, log_lines
from stream_app.errors import ConfigurationError
from stream_app.task_state import REPORTED, TaskState
from stream_app.worker.reports import metrics
from stream_app.worker.reports.figures import Labels
from stream_app.worker.reports.health import Health
from stream_app.worker.reports.metric_declaration import MetricDeclaration, MetricKind
from stream_app.worker.reports.metrics import INPUTS
from stream_app.worker.reports.observer import Observer

LOG = logging.getLogger("areba.http")

REQUEST_TIMEOUT_S = 5.0
"""Longest life of a connection: request and answer take a packet or two, with many streams a megabyte."""

MAX_REQUESTS = 16
"""Requests at a time; a further connection is closed unread. A supervisor and two scrapers need three."""

_STOP_POLL_S = 0.1
"""Interval at which the server checks whether it must stop and which connections are open for too long."""

JOIN_TIMEOUT_S = 2.0
"""Longest wait for the server's thread in `close`."""

_SECURITY_HEADERS = (
    ("X-Frame-Options", "DENY"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
)
"""No page of another origin may show ours in a frame, and no browser takes plain text for something to run."""

StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], Any]
Application: TypeAlias = Callable[[Mapping[str, Any], StartResponse], Iterable[bytes]]
"""A WSGI application (PEP 3333)."""


class Page(NamedTuple):
    """An answer in plain text."""

    status: HTTPStatus
    text: str


def answer(page: Page, start_response: StartResponse) -> Iterable[bytes]:
    """Send a page as a WSGI application does."""
    body = page.text.encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(f"{page.status.value} {page.status.phrase}", headers)
    return [body]


def _alive_page(health: Health) -> Page:
    """Return the page `/alive`."""
    return Page(HTTPStatus.OK if health.is_alive else HTTPStatus.SERVICE_UNAVAILABLE, health.alive_text())


def _ready_page(health: Health) -> Page:
    """Return the page `/ready`."""
    return Page(HTTPStatus.OK if health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE, health.ready_text())


def pages_of(observer: Observer) -> Mapping[str, Application]:
    """Return all pages by path; the observer is asked at each request."""
    registry = CollectorRegistry()
    registry.register(_Worker(observer))
    ProcessCollector(registry=registry)
    return {
        "/alive": lambda _, start_response: answer(_alive_page(observer.health()), start_response),
        "/ready": lambda _, start_response: answer(_ready_page(observer.health()), start_response),
        "/metrics": make_wsgi_app(registry),
    }


# Metrics --------------------------------------------------------------------------------------------------------------


class _Worker(Collector):
    """Converts the observer's state and figures to metric families of the Prometheus client."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterator[Family]:
        """Yield all metrics."""
        figures = self._observer.figures
        values = {**figures.values(), **values_of(self._observer.health())}
        for metric in metrics.METRICS:
            if metric.kind is MetricKind.HISTOGRAM:
                commits = figures.commits()
                yield HistogramMetricFamily(metric.name, metric.text, commits.buckets, commits.total)
                continue
            kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
            family = kind(metric.name, metric.text, labels=metric.labels)
            for labels, value in sorted(values[metric].items()):
                family.add_metric(labels, value)
            yield family


def values_of(health: Health) -> dict[MetricDeclaration, dict[Labels, float]]:
    """Return the metrics that are derived from the current state."""
    now_s = health.now_s
    ages = ((metrics.ROUND_AGE, health.round_s), (metrics.BROKER_AGE, health.heard_s))
    values: dict[MetricDeclaration, dict[Labels, float]] = {
        metrics.BUILD_INFO: {(__version__, platform.python_version()): 1.0},
        metrics.TASK_STATE: {},
        metrics.COMMITTED_OFFSET: {},
        metrics.SNAPSHOT_AGE: {},
        metrics.STEP_SECONDS: {(): health.step_seconds},
        metrics.COMMIT_AGE: {(): now_s - health.committed_s},
        **{metric: {} if since_s is None else {(): now_s - since_s} for metric, since_s in ages},
    }
    for number, task in health.tasks.items():
        for state in REPORTED:
            values[metrics.TASK_STATE][str(number), state.value] = float(task.state is state)
        for name, offset in zip(INPUTS, task.committed or (), strict=False):
            values[metrics.COMMITTED_OFFSET][str(number), name] = offset
        if task.saved_s is not None and task.state is TaskState.LIVE:
            values[metrics.SNAPSHOT_AGE][str(number),] = now_s - task.saved_s
    return values


# The server -----------------------------------------------------------------------------------------------------------


class PageServer:
    """Serves the pages in its own threads, from construction until `close`.

    Args:
        host: The address to listen at.
        port: The port; 0 chooses a free one, which the attribute `port` holds.
        pages: The applications by path.

    Raises:
        ConfigurationError: It cannot listen there.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Application]) -> None:
        try:
            server = _Server6 if ":" in host else _Server
            self._server = make_server(host, port, _router(pages, host), server, _Handler)
        except OSError as error:
            setting = "http_port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "http_host"
            raise ConfigurationError(
                f"worker.{setting}: cannot listen at {host}:{port}: {error.strerror or error}"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, args=(_STOP_POLL_S,), name="areba-http", daemon=True)
        self._thread.start()
        shown = f"[{host}]" if ":" in host else host
        log_lines.SERVING.log(LOG, addresses=" ".join(f"http://{shown}:{self.port}{path}" for path in pages))

    def close(self) -> None:
        """Stop the server; a request in progress is left to its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(JOIN_TIMEOUT_S)


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def is_served(host: str, listens_at: str) -> bool:
    """Say whether a request with this Host header is answered.

    A web page in a browser of this machine could otherwise read the pages of a server on the loopback interface under a
    name of its own (DNS rebinding). Where others may connect, every name is allowed.

    Args:
        host: The header, with or without a port; empty: there is none, as no browser does.
        listens_at: The address of the server.
    """
    name = urlsplit(f"//{host}").hostname or ""
    return not host or not _is_loopback(listens_at) or _is_loopback(name)


def _router(pages: Mapping[str, Application], listens_at: str) -> Application:
    """Return one application that dispatches to the pages."""

    def route(environ: Mapping[str, Any], start: StartResponse) -> Iterable[bytes]:
        def start_response(status: str, headers: list[tuple[str, str]]) -> object:
            return start(status, [*headers, *_SECURITY_HEADERS])

        if not is_served(environ.get("HTTP_HOST", ""), listens_at):
            text = "the pages are served under the names of the loopback interface only\n"
            return answer(Page(HTTPStatus.MISDIRECTED_REQUEST, text), start_response)
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            return answer(Page(HTTPStatus.METHOD_NOT_ALLOWED, "pages are read with GET\n"), start_response)
        if path not in pages:
            text = f"there is no such page; there are: {', '.join(pages)}\n"
            body = answer(Page(HTTPStatus.NOT_FOUND, text), start_response)
        else:
            try:
                body = pages[path]({**environ, "REQUEST_METHOD": "GET"}, start_response)
            except Exception:  # noqa: BLE001  (a page that fails must not stop the others)
                log_lines.PAGE_FAILED.log(LOG, path=path)
                text = "failed; the worker's log has the reason\n"
                body = answer(Page(HTTPStatus.INTERNAL_SERVER_ERROR, text), start_response)
        return [] if method == "HEAD" else body

    return route


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True  # connections of the previous process may linger after a restart

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401  (the base class's)
        self._open: dict[Any, float] = {}  # when each connection was opened
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without the base class's DNS look-up of the host name, which can block for long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  (a socket; the base class's)
        """Answer in a new thread, or close the connection if `MAX_REQUESTS` are open."""
        if len(self._open) >= MAX_REQUESTS:
            self.shutdown_request(request)
            return
        self._open[request] = monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Forget a request that was answered or abandoned, and close its connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that are open for too long, so that their threads, which wait for the client, end."""
        for request, since_s in [*self._open.items()]:
            if monotonic() - since_s > REQUEST_TIMEOUT_S:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  (the base class's)
        """Log at debug level that a client hung up or was too slow."""
        LOG.debug("request of %s failed: %r", client_address, sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    def address_string(self) -> str:
        """Return the client's IP address, without a DNS look-up."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's)
        """Log a request at debug level only, since supervisors and scrapers send one every few seconds."""
        LOG.debug(format, *args)
