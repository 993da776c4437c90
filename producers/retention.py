"""The event times of a replay: kept, or moved so that the last is now, and within what the topics accept and keep."""

from dataclasses import replace

from stream_app.backends.retention import PAUSE_MS, date
from stream_app.config.task_settings import JoinSettings
from stream_app.config.values import DAY_MS
from stream_app.errors import ConfigurationError
from stream_app.producers.plan import Plan
from stream_app.producers.schedule import span_ms

RETENTION_SHARE = 0.9
"""The share of the age that the topics accept and keep, which a replay may span; the rest remains for reading it."""

_CLOCK_LEAD_MS = 3_600_000
"""How far a kept time may be after now: Kafka's default of `message.timestamp.after.max.ms`."""

_ACCEPTED = "the topics accept and keep (message.timestamp.before.max.ms, retention.ms)"


def retention_for(age_ms: int, ttl_ms: int | None = None) -> str:
    """Return the `--retention` of `areba topics create` that accepts records which are so old when they are sent.

    Args:
        age_ms: The age of the oldest record.
        ttl_ms: How long an example waits for its label; None: the default.
    """
    ttl_ms = JoinSettings().ttl_ms if ttl_ms is None else ttl_ms
    return f"{-(-int(age_ms / RETENTION_SHARE + ttl_ms + PAUSE_MS) // DAY_MS) + 1}d"


def place_times(plan: Plan, accepted_ms: int, now_ms: int, *, keeps: bool | None) -> tuple[Plan, str]:
    """Decide whether event times that the data has are kept or moved.

    Args:
        plan: What to send.
        accepted_ms: How old a record may be that both topics accept and keep; negative: of any age.
        now_ms: The time.
        keeps: Whether the user wants to keep them; None: if the topics accept them.

    Returns:
        The plan, which has a `start_ms` if times are kept, and a line that says what was decided, or nothing.

    Raises:
        ConfigurationError: The user's wish does not fit the data or the topics.
    """
    has_times = any(stream.data.times_ms is not None for stream in plan.streams)
    if keeps is not None and (not has_times or plan.start_ms is not None):
        reason = "--start-ms says when they begin" if has_times else "no stream has event times of its own (--time)"
        raise ConfigurationError(f"{'--keep-times' if keeps else '--shift-to-now'}: {reason}")
    if not has_times or plan.start_ms is not None:
        return plan, ""
    age_ms, span = now_ms - plan.origin_ms, span_ms(plan)
    # what is nearly too old may be so when it is sent
    most_ms = accepted_ms if keeps else int(accepted_ms * RETENTION_SHARE)
    too_old, too_new = accepted_ms >= 0 and most_ms < age_ms, span - age_ms > _CLOCK_LEAD_MS
    begin = f"the event times begin at {date(plan.origin_ms)}"
    limit = f"{_ACCEPTED} records up to {_duration(accepted_ms)} old"
    if keeps and too_old:
        raise ConfigurationError(
            f"--keep-times: {begin}; {limit}. For history, create them with `areba topics create --retention "
            f"{retention_for(age_ms)}`; --shift-to-now moves the times instead"
        )
    if keeps or not (too_old or too_new or keeps is False):
        return replace(plan, start_ms=plan.origin_ms), f"{begin} and are kept (--shift-to-now moves them)"
    why = f"; {limit}" if too_old else "; they end in the future" if too_new else ""
    return plan, f"{begin}{why}: all times are moved, so that the last is now (--keep-times)"


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
        free = [
            stream.interval_ms is None and stream.data.times_ms is None and stream.interval > 1
            for stream in plan.streams
        ]
        if not any(free):
            raise ConfigurationError(
                f"the streams span {_duration(span)} of event time; {_ACCEPTED} records up to"
                f" {_duration(retention_ms)} old, of which a replay may take {RETENTION_SHARE:.0%}:"
                " lower --interval-ms, --label-delay, --limit or --loops, or create the topics with"
                f" `areba topics create --retention {retention_for(span)}`"
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
