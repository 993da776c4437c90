"""A proxy between a client and a broker that can hold back one request, as a network or a busy broker may."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import pytest

from ops.local_kafka import cluster, processes
from ops.local_kafka.plan import HOST, broker_properties, free_ports
from tests.support.kafka.waiting import DEADLINE_S

_RECEIVE_BYTES = 65_536


class Request(IntEnum):
    """The requests that can be held back, by their key in Kafka's protocol."""

    PRODUCE = 0
    END_TXN = 26


class Wire:
    """The proxy: it forwards requests one by one, and answers as they come.

    A request that is held back takes its connection with it: the client sees that the connection broke, and repeats the
    request on another connection. The connection to the broker stays open, so the request can still come.

    Args:
        port: Where clients connect.
        broker_port: Where the broker listens.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server((HOST, port))
        self._wanted: Request | None = None
        self._held: list[tuple[socket.socket, bytes]] = []
        self._is_held, self._is_answered = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def hold(self, request: Request) -> None:
        """Hold back the next request of this kind."""
        self._is_held.clear()
        self._wanted = request

    def wait_held(self) -> None:
        """Wait until a request is held back."""
        assert self._is_held.wait(DEADLINE_S), "no such request came"

    def release(self) -> None:
        """Send the broker what was held back, and wait for its answer."""
        self.wait_held()
        self._is_answered.clear()
        broker, frame = self._held.pop()
        broker.sendall(frame)
        assert self._is_answered.wait(DEADLINE_S), "the broker answered nothing"
        broker.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, once both sides have closed their connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _accept(self) -> None:
        with self._listener, contextlib.suppress(OSError):  # `close` ends it
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((HOST, self._broker_port))
                for target in (self._forward, self._answer):
                    self._threads.append(threading.Thread(target=target, args=(client, broker)))
                    self._threads[-1].start()

    def _forward(self, client: socket.socket, broker: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # either side may be closed
            while frame := _frame(client):
                (key,) = struct.unpack_from(">h", frame, 4)
                if key == self._wanted:
                    self._wanted = None
                    client.shutdown(socket.SHUT_RDWR)
                    self._held.append((broker, frame))
                    self._is_held.set()
                    return
                broker.sendall(frame)
            broker.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, broker: socket.socket) -> None:
        with broker, contextlib.suppress(OSError):
            while data := broker.recv(_RECEIVE_BYTES):
                self._is_answered.set()
                with contextlib.suppress(OSError):  # the client was cut off
                    client.sendall(data)


def _frame(sender: socket.socket) -> bytes:
    """Return the next request or answer with its length before it; empty at the end of the connection."""
    frame = b""
    while len(frame) < 4 or len(frame) < 4 + struct.unpack_from(">i", frame)[0]:
        wanted = 4 if len(frame) < 4 else 4 + struct.unpack_from(">i", frame)[0]
        part = sender.recv(wanted - len(frame))
        if not part:
            return b""
        frame += part
    return frame


@contextmanager
def kafka_on_wire() -> Iterator[tuple[str, str, Wire]]:
    """Run a broker during the block; yield its address, its address through the proxy, and the proxy."""
    port, broker_port = free_ports(2, [])

    def properties(*arguments: object) -> dict[str, object]:
        settings = dict(broker_properties(*arguments))  # type: ignore[arg-type]
        for name, where in (("listeners", broker_port), ("advertised.listeners", port)):
            settings[name] = f"{settings[name]},WIRE://{HOST}:{where}"
        settings["listener.security.protocol.map"] = f"{settings['listener.security.protocol.map']},WIRE:PLAINTEXT"
        return settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "broker_properties", properties)
        kafka = cluster.start(1)
    wire = Wire(port, broker_port)
    try:
        with kafka:
            yield kafka.bootstrap_servers, f"{HOST}:{port}", wire
    finally:
        wire.close()
