"""Count the connections of a client that have ended.

librdkafka reports a broken connection, but an error that repeats only every 30 s. It always closes the socket, and lets
a callback do so, in threads of its own, perhaps after Python has ended. So the callback is compiled, and its memory
is kept until the client is destroyed, or for ever.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from stream_app.backends.kafka.librdkafka.library import Library
from stream_app.jit.foreign import call_with_one
from stream_app.jit.memory import longs_at

# isort: split
import numba
from numba.core import types

_COUNT, _CLOSE = 0, 1
"""The words of the memory: connections that have ended, and the address of the C library's `close`."""


def _count_and_close(descriptor: int, opaque: int) -> int:
    """Close a socket for librdkafka."""
    words = longs_at(opaque)
    words[_COUNT] += 1
    call_with_one(words[_CLOSE], np.int64(descriptor))
    return 0


@cache
def count_and_close() -> Any:  # noqa: ANN401  (a function of Numba)
    """Return the compiled callback (`rd_kafka_conf_set_closesocket_cb`)."""
    return numba.cfunc(types.int32(types.int32, types.int64), cache=True)(_count_and_close)


class ClosedConnections:
    """The connections of one client that have ended."""

    def __init__(self) -> None:
        close = ctypes.cast(ctypes.CDLL(None).close, ctypes.c_void_p).value or 0
        self._words = np.array([0, close], np.int64)

    @property
    def count(self) -> int:
        """How many have ended so far."""
        return int(self._words[_COUNT])

    def watch(self, lib: Library, conf: int) -> None:
        """Let the client of this configuration count; `forget` must follow once the client is destroyed."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._words))
        lib.conf_set_opaque(conf, self._words.ctypes.data)
        lib.conf_set_closesocket_cb(conf, count_and_close().address)

    def forget(self) -> None:
        """Let go of the memory."""
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._words))
