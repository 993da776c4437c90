"""Which headers of an input record its outputs have: the rule once more, for one record."""

import re
from collections.abc import Sequence

from stream_app.config.task_settings import MAX_PASSED_BYTES, MAX_PASSED_HEADER_BYTES
from stream_app.records import Header

TRACE = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<rest>-[\x21-\x7e]*)?"
)
"""A `traceparent` of W3C Trace Context, level 1, section 3.2: versions after 00 may append fields."""

MAX_TRACE_BYTES = 128


def traces(headers: Sequence[Header]) -> tuple[Header, ...]:
    """Return the trace context of a record that causes an output; empty: it has none, several, or no valid one."""
    found = tuple(header for header in headers if header[0] == "traceparent")
    return found if len(found) == 1 and _is_trace(found[0][1]) else ()


def passed(headers: Sequence[Header], names: Sequence[str]) -> tuple[Header, ...]:
    """Return the headers of an example that its predictions and outcomes have, in the order of the configured names."""
    found: list[Header] = []
    for name in names:
        of_name = [header for header in headers if header[0] == name]
        if of_name and _size(of_name[-1:]) <= MAX_PASSED_HEADER_BYTES:
            longer = [*found, of_name[-1]]
            found = longer if _size(longer) <= MAX_PASSED_BYTES else found
    return tuple(found)


def _size(headers: Sequence[Header]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def _is_trace(value: bytes | None) -> bool:
    if value is None or len(value) > MAX_TRACE_BYTES or (match := TRACE.fullmatch(value)) is None:
        return False
    return match["rest"] is None or not value.startswith(b"00")
