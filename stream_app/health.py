"""What a worker is at, for machines: an observer that keeps count, and a small HTTP server for what is to be told.

`/ready` answers 200 once the group was joined and every task that it gave us is live and can go on, else 503; a line
for each task says where it is, and why. `/metrics` is in `metrics.py`. Nobody is asked for a password, and nothing can
be changed.

The server has one thread, which answers one request after the other: each has `REQUEST_TIMEOUT_S` to come and as long
to be taken. Whatever goes wrong there is that request's own affair, never the worker's.
"""

import errno
import logging
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from socketserver import BaseServer, TCPServer
from threading import Lock, Thread
from time import monotonic
from typing import Any, NamedTuple

from stream_app.errors import ConfigurationError
from stream_app.observe import Observer, way_on
from stream_app.ports import Clock, TopicPartition, pair

LOG = logging.getLogger("areba.http")

REQUEST_TIMEOUT_S = 2.0
"""For a request to come whole, and for its answer to be taken: both are a packet or two."""

MAX_REQUEST_BYTES = 8_192
"""A scraper's head has some hundred; nobody sends us a body."""

STOP_POLL_S = 0.1
"""How late the server's thread notices that it is to end."""

PLAIN_TEXT = "text/plain; charset=utf-8"


class TaskState(StrEnum):
    """Of a task of this worker."""

    RESTORING = "restoring"
    LIVE = "live"
    TRIPPED = "tripped"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class TaskHealth:
    """A task of this worker, and what it did since the group gave it to us.

    Attributes:
        state: Where it is.
        committed: Offsets (examples, labels); None: not known yet.
        restored: As far as it was restored, while it is.
        problem: Why it is tripped or parked.
        hanging: Where a transaction does not end for which it waits; "" for nowhere.
        outputs: Committed output records.
        snapshots: Those that are whole.
        snapshot_bytes: What they wrote.
        saving_bytes: Of the one that is being written.
    """

    state: TaskState
    committed: tuple[int, int] | None = None
    restored: tuple[int, int] | None = None
    problem: str | None = None
    hanging: str = ""
    outputs: int = 0
    snapshots: int = 0
    snapshot_bytes: int = 0
    saving_bytes: int = 0

    def text(self, task: int) -> str:
        """For people."""
        if self.state is TaskState.RESTORING:
            if self.committed is None or self.restored is None:
                return f"task {task}: restoring: snapshot and progress are read"
            return f"task {task}: restoring: offsets {pair(self.restored)} of {pair(self.committed)}"
        if self.state is TaskState.TRIPPED:
            return f"task {task}: stopped by the breaker: {self.problem}; {way_on(task)}"
        if self.state is TaskState.PARKED:
            return f"task {task}: cannot be restored: {self.problem}"
        if self.hanging:
            return f"task {task}: waits for a transaction in {self.hanging} that does not end"
        return f"task {task}: live"


class Health(NamedTuple):
    """All of it, at one moment."""

    is_joined: bool
    aborts: int
    tasks: Mapping[int, TaskHealth]

    @property
    def is_ready(self) -> bool:
        """Whether the group was joined and every task is live and can go on."""
        return self.is_joined and all(task.state is TaskState.LIVE and not task.hanging for task in self.tasks.values())

    def text(self) -> str:
        """For people."""
        if not self.is_joined:
            return "the group was not joined yet\n"
        lines = [task.text(number) for number, task in sorted(self.tasks.items())]
        return "".join(f"{line}\n" for line in lines or ["the group gave this worker no task"])


class HealthObserver(Observer):
    """Writes what happens to the log, and remembers it. Told by the worker's thread, asked by the server's."""

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        super().__init__(clock, logger)
        self._lock = Lock()
        self._is_joined = False
        self._aborts = 0
        self._tasks: dict[int, TaskHealth] = {}

    def health(self) -> Health:
        """As it is now."""
        with self._lock:
            return Health(self._is_joined, self._aborts, dict(self._tasks))

    def _update(self, task: int, changed: Callable[[TaskHealth], TaskHealth]) -> None:
        """A task that was not given to us has none."""
        with self._lock:
            if task in self._tasks:
                self._tasks[task] = changed(self._tasks[task])

    def _change(self, task: int, **changed: Any) -> None:  # noqa: ANN401  (fields of TaskHealth)
        self._update(task, lambda known: replace(known, **changed))

    def assigned(self, tasks: Sequence[int]) -> None:
        """The group gave us these tasks."""
        super().assigned(tasks)
        with self._lock:
            self._is_joined = True
            for task in tasks:
                self._tasks[task] = TaskHealth(TaskState.RESTORING)

    def revoked(self, tasks: Sequence[int]) -> None:
        """The group took these back."""
        super().revoked(tasks)
        with self._lock:
            self._is_joined = False
            for task in tasks:
                self._tasks.pop(task, None)

    def owned(self, task: int, committed: tuple[int, int]) -> None:
        """A task is to be restored."""
        super().owned(task, committed)
        self._change(task, state=TaskState.RESTORING, committed=committed, restored=None, problem=None, saving_bytes=0)

    def restoring(self, task: int, offsets: tuple[int, int], goal: tuple[int, int]) -> None:
        """A task is being restored."""
        super().restoring(task, offsets, goal)
        self._change(task, restored=offsets)

    def restored(self, task: int, sequence: int, snapshot: int, records: int) -> None:
        """A task is live."""
        super().restored(task, sequence, snapshot, records)
        self._change(task, state=TaskState.LIVE, restored=None)

    def saving(self, task: int, sequence: int, size: int) -> None:
        """A snapshot is taken."""
        super().saving(task, sequence, size)
        self._change(task, saving_bytes=size)

    def saved(self, task: int, sequence: int) -> None:
        """It is whole."""
        super().saved(task, sequence)
        self._update(
            task,
            lambda known: replace(
                known,
                snapshots=known.snapshots + 1,
                snapshot_bytes=known.snapshot_bytes + known.saving_bytes,
                saving_bytes=0,
            ),
        )

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """Tasks wait for a transaction that does not end."""
        super().hanging(places)
        for place in places:
            self._change(place.partition, hanging=f"{place.topic}[{place.partition}]")

    def freed(self, tasks: Sequence[int]) -> None:
        """They go on."""
        super().freed(tasks)
        for task in tasks:
            self._change(task, hanging="")

    def parked(self, task: int, problem: str) -> None:
        """A task cannot be restored."""
        super().parked(task, problem)
        self._change(task, state=TaskState.PARKED, problem=problem)

    def tripped(self, task: int, problem: str) -> None:
        """The breaker stopped a task."""
        super().tripped(task, problem)
        self._change(task, state=TaskState.TRIPPED, problem=problem)

    def resumed(self, task: int) -> None:
        """An operator let it go on."""
        super().resumed(task)
        self._change(task, state=TaskState.LIVE, problem=None)

    def aborted(self, problem: str) -> None:
        """A transaction was given up."""
        super().aborted(problem)
        with self._lock:
            self._aborts += 1

    def committed(self, task: int, offsets: tuple[int, int], outputs: int) -> None:
        """A transaction of this task was committed."""
        super().committed(task, offsets, outputs)
        self._update(task, lambda known: replace(known, committed=offsets, outputs=known.outputs + outputs))


# The server -----------------------------------------------------------------------------------------------------------


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    content_type: str
    body: bytes


def ready_page(observer: HealthObserver) -> Page:
    """`/ready`."""
    health = observer.health()
    status = HTTPStatus.OK if health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(status, PLAIN_TEXT, health.text().encode())


class HealthServer:
    """Answers GET requests for some pages, in a thread of its own, from its making to `close`.

    Args:
        host: The address to listen at.
        port: 0: any that is free, see `port`.
        pages: By path.

    Raises:
        ConfigurationError: It cannot listen there.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        try:
            self._server = _server_class(host)((host, port), partial(_Handler, pages))
        except OSError as error:
            setting = "http_port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "http_host"
            raise ConfigurationError(
                f"worker.{setting}: cannot listen at {host}:{port}: {error.strerror or error}"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, args=(STOP_POLL_S,), name="areba-http", daemon=True)
        self._thread.start()
        names = " and ".join(f"http://{host}:{self.port}{path}" for path in pages)
        LOG.info("answering at %s", names)

    def close(self) -> None:
        """Answer no more; waits, bounded, for the request that is being answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2 * REQUEST_TIMEOUT_S)


class _Server(TCPServer):
    allow_reuse_address = True  # after a restart of the process connections of the one before may linger

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  (the base class's)
        """Somebody hung up, or was too slow."""
        LOG.debug("request of %s failed: %r", client_address, sys.exception())


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(host: str) -> type[_Server]:
    return _Server6 if ":" in host else _Server


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT_S

    def __init__(
        self,
        pages: Mapping[str, Callable[[], Page]],
        request: socket.socket,
        client_address: object,
        server: BaseServer,
    ) -> None:
        self._pages = pages
        super().__init__(request, client_address, server)

    def setup(self) -> None:
        """Take the head of the request within its time, however slowly it drips."""
        super().setup()
        self.rfile.close()
        self.rfile = BytesIO(_head(self.connection))

    def do_GET(self) -> None:
        """Answer with the page of this path."""
        page = self._page(self.path.partition("?")[0])
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        self.wfile.write(page.body)

    def _page(self, path: str) -> Page:
        if path not in self._pages:
            there = ", ".join(self._pages)
            return Page(HTTPStatus.NOT_FOUND, PLAIN_TEXT, f"there is no such page; there are: {there}\n".encode())
        try:
            return self._pages[path]()
        except Exception:  # a page that fails must not stop the pages
            LOG.warning("%s failed", path, exc_info=True)
            return Page(HTTPStatus.INTERNAL_SERVER_ERROR, PLAIN_TEXT, b"failed; the worker's log has the reason\n")

    def version_string(self) -> str:
        """Who answers; no versions of what is below."""
        return "areba"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's)
        """Requests come every few seconds for ever."""
        LOG.debug(format, *args)


def _head(connection: socket.socket) -> bytes:
    """What came of a request, up to the empty line behind its head."""
    until_s = monotonic() + REQUEST_TIMEOUT_S
    head = b""
    while b"\r\n\r\n" not in head and len(head) < MAX_REQUEST_BYTES:
        connection.settimeout(max(until_s - monotonic(), 1e-3))
        more = connection.recv(MAX_REQUEST_BYTES - len(head))
        if not more:
            break
        head += more
    connection.settimeout(REQUEST_TIMEOUT_S)
    return head
