"""What consumers and producers have in common: their settings, callbacks, errors, and their end."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from stream_app.backends.kafka.librdkafka.connections import ClosedConnections
from stream_app.backends.kafka.librdkafka.library import (
    CONSUMER,
    ERROR_CALLBACK,
    LOG_CALLBACK,
    TEXT_BYTES,
    Library,
    library,
)

LEVELS = (50, 50, 50, 40, 30, 20, 20, 10)
"""The levels of `logging` by those of syslog, which librdkafka uses."""

FATAL = KafkaError._FATAL  # noqa: SLF001  (the client's names for its own errors begin with an underscore)


class Callbacks(NamedTuple):
    """What librdkafka calls while a client is served, in the thread that serves it.

    Attributes:
        error: Gets errors that belong to no call, except fatal ones.
        log: Gets the level of `logging`, the facility and the text of each log line.
        rebalance: Gets the code and the list of a rebalance; consumers only.
        delivery: The address of a compiled function that gets delivery reports; producers only.
        connections: Counts the connections that end; None: nobody wants to know.
    """

    error: Callable[[KafkaError], None]
    log: Callable[[int, str, str], None]
    rebalance: Any = None
    delivery: int = 0
    connections: ClosedConnections | None = None


class Client:
    """A client of librdkafka. Not thread-safe, unless a method says otherwise.

    Python code that librdkafka calls cannot raise through it. An exception is kept, and raised by the next `checked`.

    Args:
        kind: `PRODUCER` or `CONSUMER`.
        settings: Settings of librdkafka by name.
        callbacks: What is called while the client is served.

    Raises:
        KafkaException: librdkafka does not know a setting, or does not accept its value.
    """

    def __init__(self, kind: int, settings: Mapping[str, object], callbacks: Callbacks) -> None:
        self.lib = library()
        self._callbacks = callbacks
        self._raised: BaseException | None = None
        self._held = (ERROR_CALLBACK(self._on_error), LOG_CALLBACK(self._on_log), callbacks.rebalance)
        self._handle: int | None = self._create(kind, settings)
        self.lib.set_log_queue(self.handle, None)
        if kind == CONSUMER:
            self.lib.poll_set_consumer(self.handle)

    def _create(self, kind: int, settings: Mapping[str, object]) -> int:
        conf = self.lib.conf_new()
        try:
            for name, value in {**settings, "log.queue": True}.items():
                _set(self.lib, conf, name, value)
        except KafkaException:
            self.lib.conf_destroy(conf)
            raise
        on_error, on_log, on_rebalance = self._held
        self.lib.conf_set_error_cb(conf, on_error)
        self.lib.conf_set_log_cb(conf, on_log)
        if on_rebalance is not None:
            self.lib.conf_set_rebalance_cb(conf, on_rebalance)
        if self._callbacks.delivery:
            self.lib.conf_set_dr_msg_cb(conf, self._callbacks.delivery)
        if self._callbacks.connections is not None:
            self._callbacks.connections.watch(self.lib, conf)
        text = ctypes.create_string_buffer(TEXT_BYTES)
        handle: int | None = self.lib.new(kind, conf, text, TEXT_BYTES)
        if not handle:
            self.lib.conf_destroy(conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text.value.decode()))  # noqa: SLF001
        return handle

    def _on_error(self, _: int, code: int, reason: bytes | None, __: int) -> None:
        text = (reason or b"").decode(errors="replace")
        if code != FATAL:
            self.keeping_errors(lambda: self._callbacks.error(KafkaError(code, text)))
            return
        self._raised = KafkaException(self.fatal_error())

    def fatal_error(self) -> KafkaError | None:
        """Return the error after which the client does nothing any more; None without such an error."""
        room = ctypes.create_string_buffer(TEXT_BYTES)
        code = self.lib.fatal_error(self.handle, room, TEXT_BYTES)
        return KafkaError(code, room.value.decode(errors="replace"), fatal=True) if code else None

    def _on_log(self, _: int, level: int, facility: bytes | None, text: bytes | None) -> None:
        line = (text or b"").decode(errors="replace")
        self.keeping_errors(lambda: self._callbacks.log(LEVELS[level], (facility or b"").decode(), line))

    def keeping_errors(self, call: Callable[[], None]) -> None:
        """Call; keep the first exception for the next `checked`."""
        try:
            call()
        except BaseException as problem:  # noqa: BLE001  (the caller is C code)
            self._raised = self._raised or problem

    def checked(self) -> None:
        """Raise what a callback has raised, or the fatal error that the client has reported, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def reaches_broker(self, timeout_s: float) -> bool:
        """Say whether a broker answers within this time."""
        found = ctypes.c_void_p()
        code = self.lib.metadata(self.handle, 0, None, ctypes.byref(found), milliseconds(timeout_s))
        if not code:
            self.lib.metadata_destroy(found)
        return not code

    @property
    def handle(self) -> int:
        """The address of the client in librdkafka.

        Raises:
            RuntimeError: The client is destroyed.
        """
        self.require_open()
        return self._handle or 0

    def require_open(self) -> None:
        """Raise a RuntimeError if the client is destroyed."""
        if self._handle is None:
            raise RuntimeError("this Kafka client is closed")

    @property
    def is_destroyed(self) -> bool:
        """Whether `destroy` was called."""
        return self._handle is None

    def destroy(self) -> None:
        """Release the client; no other call may be running."""
        handle, self._handle = self.handle, None
        self.lib.destroy(handle)
        if self._callbacks.connections is not None:
            self._callbacks.connections.forget()


def milliseconds(seconds: float) -> int:
    """Return a timeout as librdkafka takes it, rounded up, so that a short wait does not become a busy loop."""
    return max(0, -int(-seconds * 1000 // 1))


def _set(lib: Library, conf: int, name: str, value: object) -> None:
    """Set one setting.

    Raises:
        KafkaException: librdkafka does not know it, or does not accept the value.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    room = ctypes.create_string_buffer(TEXT_BYTES)
    if lib.conf_set(conf, name.encode(), text.encode(), room, TEXT_BYTES):
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, room.value.decode(errors="replace")))  # noqa: SLF001
