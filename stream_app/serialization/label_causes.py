"""The words of a dead letter for a label that was not joined: by how long it was late, and which setting decided; pure.

The text is part of the output bytes, so it is a function of the inputs and of the recorded settings only. Durations
are in stream time:

    since its example was closed   EXPIRED_EXAMPLE, EVICTED_EXAMPLE, ADVANCED_EXAMPLE, POOL_EXAMPLE
    beyond the time to live        LATE_EXAMPLE (its example), OLD_LABEL (the label itself)
    since its own time             EXPIRED_LABEL, ADVANCED_LABEL, TOO_MANY_LABELS, TOO_MANY_BYTES, POOL_LABEL
"""

from collections.abc import Mapping
from types import MappingProxyType

from stream_app.config import JoinSettings
from stream_app.records import Cause

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))

LATE = frozenset(
    {
        Cause.EXPIRED_EXAMPLE,
        Cause.EVICTED_EXAMPLE,
        Cause.ADVANCED_EXAMPLE,
        Cause.LATE_EXAMPLE,
        Cause.POOL_EXAMPLE,
    }
)
"""The causes of `late-label`; the others are those of `orphan-label`."""

_TEXTS: Mapping[Cause, str] = MappingProxyType(
    {
        Cause.EXPIRED_EXAMPLE: "came {delay} after its example was closed without a label (join.ttl_ms is {ttl_ms})",
        Cause.EVICTED_EXAMPLE: "came {delay} after its example was evicted (join.max_pending_per_stream is {pending})",
        Cause.ADVANCED_EXAMPLE: "came {delay} after an advance mark closed its example",
        Cause.LATE_EXAMPLE: "its example came {delay} after it had expired (join.ttl_ms is {ttl_ms})",
        Cause.EXPIRED_LABEL: "waited {delay} (join.ttl_ms is {ttl_ms})",
        Cause.ADVANCED_LABEL: "waited {delay} until an advance mark closed it",
        Cause.TOO_MANY_LABELS: "waited {delay}, the oldest of too many (join.max_waiting_per_stream is {waiting})",
        Cause.TOO_MANY_BYTES: "waited {delay}, the oldest of too many (join.max_waiting_bytes_per_stream is {size})",
        Cause.OLD_LABEL: "came {delay} after it had expired (join.ttl_ms is {ttl_ms})",
        Cause.LARGE_LABEL: "is too large to wait (join.max_waiting_bytes_per_stream is {size})",
        Cause.RESET: "waited when its stream was reset",
        Cause.ERASED: "waited when its id was erased",
        Cause.POOL_EXAMPLE: "came {delay} after its example was evicted (join.max_table_bytes_per_task is {pool})",
        Cause.POOL_LABEL: "waited {delay}, one of the oldest in full tables (join.max_table_bytes_per_task is {pool})",
    }
)

_NO_EXAMPLE = (
    "; no example with its id is known: closed ones are remembered for join.closed_ttl_ms ({closed_ttl_ms}), "
    "at most join.max_closed_per_stream ({closed})"
)


def duration(milliseconds: int) -> str:
    """Return a duration in its two largest units, rounded down: `2 d 3 h`, `59 s 1 ms`, `0 ms`."""
    rest = max(0, milliseconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(filter(None, parts)) or "0 ms"


def explained(cause: Cause, delay_ms: int, join: JoinSettings) -> str:
    """Return why a label was not joined.

    Args:
        cause: The cause, not `NONE`.
        delay_ms: Its duration in milliseconds, see above.
        join: The settings in force.
    """
    text = _TEXTS[cause] + ("" if cause in LATE else _NO_EXAMPLE)
    return text.format(
        delay=duration(delay_ms),
        ttl_ms=join.ttl_ms,
        pending=join.max_pending_per_stream,
        waiting=join.max_waiting_per_stream,
        size=join.max_waiting_bytes_per_stream,
        closed_ttl_ms=join.closed_ttl_ms,
        closed=join.max_closed_per_stream,
        pool=join.max_table_bytes_per_task,
    )
