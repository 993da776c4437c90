"""The event times of a replay, and what the topics accept and keep."""

from dataclasses import replace

from stream_app.errors import ConfigurationError
from stream_app.producers.plan import Plan
from stream_app.producers.schedule import span_ms

RETENTION_SHARE = 0.9
"""The share of the age that the topics accept and keep, which a replay may span; the rest remains for reading it."""

_ACCEPTED = "the topics accept and keep (message.timestamp.before.max.ms, retention.ms)"


def fit_to_retention(plan: Plan, retention_ms: int, now_ms: int = 0) -> Plan:
    """Return the plan with a span that the topics keep: halve the intervals that were not asked for until it fits.

    Args:
        plan: What to send.
        retention_ms: How old a record may be that both topics accept and keep; negative: of any age.
        now_ms: The time.

    Raises:
        ConfigurationError: The plan does not fit with any interval, or begins too early.
    """
    if plan.start_ms is not None and 0 <= retention_ms < now_ms - plan.start_ms:
        raise ConfigurationError(
            f"--start-ms {plan.start_ms}: that is {_duration(now_ms - plan.start_ms)} ago; {_ACCEPTED} records up to "
            f"{_duration(retention_ms)} old. For history, create them with `areba topics create --retention`"
        )
    longest = int(retention_ms * RETENTION_SHARE)
    span = span_ms(plan)
    while retention_ms >= 0 and span > longest:
        free = [stream.interval_ms is None and stream.interval > 1 for stream in plan.streams]
        if not any(free):
            raise ConfigurationError(
                f"the streams span {_duration(span)} of event time; {_ACCEPTED} records up to"
                f" {_duration(retention_ms)} old, of which a replay may take {RETENTION_SHARE:.0%}:"
                " lower --interval-ms, --label-delay, --limit or --loops"
            )
        streams = (
            replace(stream, data=replace(stream.data, interval_ms=stream.interval // 2)) if halve else stream
            for stream, halve in zip(plan.streams, free, strict=True)
        )
        plan = replace(plan, streams=tuple(streams))
        span = span_ms(plan)
    return plan


def _duration(milliseconds: int) -> str:
    for unit, length in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / 1000:.1f} seconds"
