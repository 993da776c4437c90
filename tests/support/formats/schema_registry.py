"""A schema registry over HTTP, with Confluent's requests for subjects, versions and schema ids."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class NotFoundError(Exception):
    """There is no such subject, version or schema id."""


@dataclass
class Registry:
    """The registered schemas; equal JSON has one id in all subjects, as in Confluent's registry.

    Attributes:
        texts: The schemas; the id of each is its position, counted from 1.
        types: The types of schemas that are not Avro, by id.
        subjects: By subject, the schema ids of its versions.
        user_info: The `user:password` that each request must have; None: no password is needed.
        is_starting: Whether each request is answered with status 503.
        requests: The requests so far: method and path.
    """

    texts: list[str] = field(default_factory=list)
    types: dict[int, str] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    user_info: str | None = None
    is_starting: bool = False
    requests: list[str] = field(default_factory=list)

    def register(self, subject: str, text: str) -> int:
        """Return the id of a schema; register it first if it is new."""
        same = [schema_id for schema_id, known in enumerate(self.texts, 1) if json.loads(known) == json.loads(text)]
        if not same:
            self.texts.append(text)
            same = [len(self.texts)]
        versions = self.subjects.setdefault(subject, [])
        if same[0] not in versions:
            versions.append(same[0])
        return same[0]

    def answer(self, method: str, path: str, body: dict[str, Any]) -> object:
        """Return what the registry answers as plain data.

        Raises:
            NotFoundError: There is no such subject, version or schema id.
        """
        match [method, *map(unquote, path.strip("/").split("/"))]:
            case ["GET", "schemas", "ids", schema_id] if 0 < int(schema_id) <= len(self.texts):
                return self._schema(int(schema_id))
            case ["GET", "subjects", subject, "versions"] if subject in self.subjects:
                return list(range(1, len(self.subjects[subject]) + 1))
            case ["GET", "subjects", subject, "versions", version] if subject in self.subjects:
                return self._version(subject, self.subjects[subject][int(version) - 1])
            case ["POST", "subjects", subject, "versions"]:
                new_id = self.register(subject, body["schema"])
                if "schemaType" in body:
                    self.types[new_id] = body["schemaType"]
                return {"id": new_id}
            case ["POST", "subjects", subject]:
                for known in self.subjects.get(subject, []):
                    if json.loads(self.texts[known - 1]) == json.loads(body["schema"]):
                        return self._version(subject, known)
        raise NotFoundError

    def _version(self, subject: str, schema_id: int) -> dict[str, object]:
        version = self.subjects[subject].index(schema_id) + 1
        return {"subject": subject, "version": version, "id": schema_id, **self._schema(schema_id)}

    def _schema(self, schema_id: int) -> dict[str, object]:
        kind = {"schemaType": self.types[schema_id]} if schema_id in self.types else {}
        return {"schema": self.texts[schema_id - 1], **kind}


@contextmanager
def serving(registry: Registry) -> Iterator[str]:
    """Serve a registry on a free port of loopback, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            path = urlsplit(self.path).path
            registry.requests.append(f"{self.command} {path}")
            wanted = None if registry.user_info is None else b64encode(registry.user_info.encode()).decode()
            if registry.is_starting:
                self._send(503, {"error_code": 50301, "message": "starting"})
            elif wanted is not None and self.headers["Authorization"] != f"Basic {wanted}":
                self._send(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                try:
                    self._send(200, registry.answer(self.command, path, body))
                except NotFoundError:
                    self._send(404, {"error_code": 40401, "message": "not found"})

        def _send(self, status: int, content: object) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
