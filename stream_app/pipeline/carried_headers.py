"""The headers of input records that outputs carry: the trace context, and the headers that `pass_headers` names.

An output has the trace context of the record that caused it. A prediction also has the passed headers of its example,
and so has each outcome of the example, whatever record causes it. Producers write these headers, and each output of a
record repeats them, so all of them are bounded. What is not carried is counted.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from stream_app.config.task_settings import MAX_PASSED_BYTES, MAX_PASSED_HEADER_BYTES
from stream_app.records import Header, Headers

TRACE_HEADER = "traceparent"
"""The header of W3C Trace Context. If the record that causes an output has a valid one, the output carries it."""

MAX_TRACE_BYTES = 128
"""The longest trace context that is carried: a later version may append fields."""

_TRACE_BYTES = 55
_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]*)?")


class CarriedHeaders(NamedTuple):
    """The headers of a batch that outputs carry.

    Attributes:
        traces: The valid trace headers of both sides, by row.
        passed: The headers that examples pass on, by row, each in the order of the configuration.
        dropped_traces: Number of records that have a trace header, or several, but no valid one.
        dropped_passed: Number of examples of which a header that the configuration names is not passed on.
    """

    traces: tuple[Headers, Headers]
    passed: Headers
    dropped_traces: int
    dropped_passed: int

    @classmethod
    def of(cls, examples: Headers, labels: Headers, names: Sequence[str]) -> Self:
        """Return what is carried of the headers of both sides; `names` are those that examples pass on."""
        one, two = _traces(examples), _traces(labels)
        passed, dropped_passed = _passed(examples, names) if names else ({}, 0)
        return cls((one[0], two[0]), passed, one[1] + two[1], dropped_passed)

    def trace_bytes(self) -> int:
        """Return the bytes of the largest trace headers of a record."""
        return _largest(headers for traces in self.traces for headers in traces.values())

    def passed_bytes(self) -> int:
        """Return the bytes of the largest headers that an example passes on."""
        return _largest(self.passed.values())


def headers_bytes(headers: Iterable[Header]) -> int:
    """Return the bytes of names and values."""
    return sum(map(_header_bytes, headers))


def _largest(every: Iterable[Sequence[Header]]) -> int:
    return max(map(headers_bytes, every), default=0)


def _header_bytes(header: Header) -> int:
    name, value = header
    return (len(name) if name.isascii() else len(name.encode(errors="surrogatepass"))) + len(value or b"")


def is_trace(value: bytes | None) -> bool:
    """Say whether this is a `traceparent`: W3C Trace Context, level 1, section 3.2, at most `MAX_TRACE_BYTES` long.

    Version 00 has 55 bytes; a later one may append fields after a dash. Ids are not all zeros, letters are lower case.
    """
    if value is None or len(value) > MAX_TRACE_BYTES or _TRACE.fullmatch(value) is None:
        return False
    return len(value) == _TRACE_BYTES or not value.startswith(b"00")


def _traces(headers: Headers) -> tuple[Headers, int]:
    """Find the trace headers to be carried, by row, and count the records whose trace context is dropped."""
    kept: dict[int, Sequence[Header]] = {}
    dropped = 0
    for row, every in headers.items():
        found = [header for header in every if header[0] == TRACE_HEADER]
        if len(found) == 1 and is_trace(found[0][1]):
            kept[row] = found
        elif found:
            dropped += 1
    return kept, dropped


def _passed(headers: Headers, names: Sequence[str]) -> tuple[Headers, int]:
    """Find the headers with these names, by row, and count the records of which one or more are dropped.

    Of several headers with one name, the last counts. In the order of the names, a header is dropped if it is too
    large, or too large together with those before it.
    """
    kept: dict[int, Sequence[Header]] = {}
    dropped = 0
    for row, every in headers.items():
        named = [header for header in every if header[0] in names]
        last = dict(named)
        passed: list[Header] = []
        room = MAX_PASSED_BYTES
        for name in names:
            header = name, last.get(name)
            if name in last and (size := _header_bytes(header)) <= min(room, MAX_PASSED_HEADER_BYTES):
                passed.append(header)
                room -= size
        if passed:
            kept[row] = passed
        dropped += len(passed) < len(named)
    return kept, dropped
