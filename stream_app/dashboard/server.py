"""Serve the page: a few files, and the documents of a feed as server-sent events. Nothing can be written."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_app.dashboard.feed import Feed
from stream_app.errors import ConfigurationError

STATIC = Path(__file__).parent / "static"

_MAX_VIEWERS = 64
"""Browsers at a time; each takes one connection and, in the worst case, some 300 KB a second."""

_CHECK_S = 0.2
"""How often an open connection looks for newer documents."""

_KEEP_ALIVE_S = 15.0
"""A comment is sent after this long without documents, so that a closed connection is noticed."""

HEADERS = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
            b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


class _SafeHeaders:
    """Adds `HEADERS` to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in HEADERS}
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
                message["headers"] = [*kept, *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def application(feed: Feed, allowed_hosts: Sequence[str], is_ending: Callable[[], bool]) -> Starlette:
    """Return the web application over a feed.

    Args:
        feed: The source of the documents.
        allowed_hosts: Values of the Host header that are served: with fixed ones, no other web page that the user opens
            can read the figures under a name that it lets point to this machine.
        is_ending: Whether the server ends: open connections are then closed in an orderly way.
    """
    viewers = 0

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def events(request: Request) -> Response:
        if viewers >= _MAX_VIEWERS:
            return PlainTextResponse(f"{_MAX_VIEWERS} browsers are connected already", 503)
        stream = request.query_params.get("stream")
        return StreamingResponse(documents(stream), media_type="text/event-stream")

    async def documents(stream: str | None) -> AsyncIterator[str]:
        nonlocal viewers
        viewers += 1
        try:
            with feed.viewing(stream):
                sent, silent_s = 0, 0.0
                while not is_ending():
                    found = feed.published
                    if found.number != sent:
                        sent, silent_s = found.number, 0.0
                        yield _event("overview", found.overview)
                        if stream is not None and stream in found.details:
                            yield _event("details", found.details[stream])
                    elif silent_s >= _KEEP_ALIVE_S:
                        silent_s = 0.0
                        yield ": nothing new\n\n"
                    await asyncio.sleep(_CHECK_S)
                    silent_s += _CHECK_S
        finally:
            viewers -= 1

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    middleware = [
        Middleware(_SafeHeaders),
        Middleware(TrustedHostMiddleware, allowed_hosts=list(allowed_hosts), www_redirect=False),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _event(name: str, document: str) -> str:
    return f"event: {name}\ndata: {document}\n\n"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigurationError: The port is in use, or there is no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"{host}:{port}: {error.strerror or error}; choose another --host or --port"
        ) from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server(feed: Feed, host: str, allowed_hosts: Sequence[str] = ()) -> uvicorn.Server:
    """Return the server of a feed; `run(sockets=[...])` serves until SIGINT or SIGTERM.

    Args:
        feed: Where the documents come from.
        host: The address that it listens on.
        allowed_hosts: Names under which the page is served, besides the loopback ones. Without any, a server that
            listens on loopback serves those only, and another one serves every name.
    """
    hosts = ("127.0.0.1", "localhost", "[::1]", host, *allowed_hosts) if allowed_hosts or is_loopback(host) else ("*",)
    config = uvicorn.Config(
        application(feed, hosts, lambda: serving.should_exit),
        log_config=None, access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=2, limit_concurrency=4 * _MAX_VIEWERS,
    )  # fmt: skip
    serving = uvicorn.Server(config)
    return serving
