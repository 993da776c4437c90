"""How long the inputs are kept, which event times they accept, and what that means for the records in them.

Kafka measures the age of a record by its timestamp, and the timestamp of an input is the event time: a segment is
deleted once its largest timestamp is older than `retention.ms`, however recently it was written. So a record that was
old on arrival lives shorter by its age. The inputs therefore accept only records whose rest of life covers a join and a
pause:

    retention.ms = join.ttl_ms + PAUSE_MS + LATE_MS        message.timestamp.before.max.ms = LATE_MS

The broker refuses an older record to its producer with INVALID_TIMESTAMP (KIP-937), for example a time in seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.questions import Retention
from stream_app.config.values import DAY_MS
from stream_app.errors import ConfigurationError, ErrorCode, StateError

PAUSE_MS = 14 * DAY_MS
"""The longest pause that an input record outlasts: two weeks in which nobody starts a stopped worker again."""

LATE_MS = 14 * DAY_MS
"""How old a record may be on arrival: its producer was held up for a week, and its dead letter, which Kafka keeps for a
week by default, is sent back with the event time."""

_LEAST_LATE_MS = DAY_MS
"""The least that a retention must leave for records that are old on arrival."""

UNLIMITED_MS = 2**63 - 1
"""Kafka's default of `message.timestamp.before.max.ms`."""

CLOSE_SHARE = 0.75
"""The share of `retention.ms` from which on an unread record is close to its deletion."""

RETENTION = "retention.ms"
_RETENTION_BYTES = "retention.bytes"
TIMES_AFTER = "message.timestamp.after.max.ms"
TIMES_BEFORE = "message.timestamp.before.max.ms"

FOREVER = -1
"""`retention.ms` of a topic that keeps everything."""


_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}


def parse_retention(text: str) -> int:
    """Return the milliseconds of a retention such as `365d`, `52w` or `48h`; `FOREVER` for `unlimited`.

    Raises:
        ConfigurationError: The text is not a retention.
    """
    if text == "unlimited":
        return FOREVER
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and unit in _UNITS_MS):
        raise ConfigurationError(f"--retention {text}: must be like 365d, 52w or 48h, or `unlimited`")
    return int(number) * _UNITS_MS[unit]


class _InputTimes(NamedTuple):
    """How long an input keeps records, and how old a record may be on arrival, in milliseconds."""

    retention_ms: int
    before_max_ms: int

    def settings(self) -> dict[str, str]:
        """Return the settings of a topic."""
        return {RETENTION: str(self.retention_ms), _RETENTION_BYTES: "-1", TIMES_BEFORE: str(self.before_max_ms)}


def input_times(ttl_ms: int, retention_ms: int | None = None) -> _InputTimes:
    """Return the times of the inputs.

    Args:
        ttl_ms: How long an example waits for its label (`join.ttl_ms`).
        retention_ms: The retention that the user wants; `FOREVER` keeps everything, and accepts any time. None: the
            default.

    Raises:
        ConfigurationError: The retention is shorter than a join and a pause need.
    """
    needed_ms = ttl_ms + PAUSE_MS
    if retention_ms is None:
        retention_ms = needed_ms + LATE_MS
    if retention_ms == FOREVER or retention_ms > UNLIMITED_MS:
        return _InputTimes(FOREVER, UNLIMITED_MS)
    if retention_ms < needed_ms + _LEAST_LATE_MS:
        least, ttl, pause, late = map(duration, (needed_ms + _LEAST_LATE_MS, ttl_ms, PAUSE_MS, _LEAST_LATE_MS))
        raise ConfigurationError(
            f"--retention {duration(retention_ms)}: must be at least {least}: join.ttl_ms ({ttl}), a pause of {pause}, "
            f"and records that are {late} old on arrival"
        )
    return _InputTimes(retention_ms, retention_ms - needed_ms)


def retention_of(topic: TopicInfo) -> int:
    """Return the retention of a topic in milliseconds; `FOREVER` where age deletes nothing."""
    return max(FOREVER, Retention.of(topic.settings).ms)


def before_max_of(topic: TopicInfo) -> int:
    """Return how old a record of a topic may be on arrival, in milliseconds."""
    return int(topic.settings.get(TIMES_BEFORE, UNLIMITED_MS))


class Risk(NamedTuple):
    """A line about records that may be deleted before they are used; `is_wrong`: as it stands, they will be."""

    is_wrong: bool
    text: str


def risks(inputs: Iterable[TopicInfo], ttl_ms: int) -> Iterator[Risk]:
    """Yield a line for each input whose retention or accepted times endanger records, with the correcting command."""
    for topic in inputs:
        found = list(_risks(topic, ttl_ms))
        if found:
            problems = "; ".join(risk.text for risk in found)
            command = alter_command(topic.name, _corrected(topic, ttl_ms).settings())
            text = f"{topic.name}: {problems}. Correct it: {command}"
            yield Risk(any(risk.is_wrong for risk in found), text)


def _risks(topic: TopicInfo, ttl_ms: int) -> Iterator[Risk]:
    kept_ms, before_ms, needed_ms = retention_of(topic), before_max_of(topic), ttl_ms + PAUSE_MS
    kept_bytes = int(topic.settings.get(_RETENTION_BYTES, -1))
    if kept_bytes >= 0:
        yield Risk(False, f"{_RETENTION_BYTES} is {kept_bytes}: it deletes records however new they are")
    if kept_ms == FOREVER:
        return
    kept, ttl, before = duration(kept_ms), duration(ttl_ms), duration(before_ms)
    suffices = kept_ms >= needed_ms + _LEAST_LATE_MS
    if kept_ms < ttl_ms:
        yield Risk(True, f"{RETENTION} is {kept}, shorter than join.ttl_ms ({ttl})")
    elif not suffices:
        pause = duration(PAUSE_MS)
        yield Risk(False, f"{RETENTION} is {kept}, which does not cover join.ttl_ms ({ttl}) and a pause of {pause}")
    if before_ms > kept_ms:
        text = f"{TIMES_BEFORE} is {before}: records with event times older than {kept} are accepted and deleted"
        yield Risk(True, text)
    elif suffices and before_ms > kept_ms - needed_ms:
        yield Risk(False, f"{TIMES_BEFORE} is {before}: records that old are deleted before a join and a pause end")


def _corrected(topic: TopicInfo, ttl_ms: int) -> _InputTimes:
    """Return the times that an input needs; a retention that suffices is kept."""
    kept_ms = retention_of(topic)
    suffices = kept_ms == FOREVER or kept_ms >= ttl_ms + PAUSE_MS + _LEAST_LATE_MS
    return input_times(ttl_ms, kept_ms if suffices else None)


def alter_command(name: str, settings: Mapping[str, str]) -> str:
    """Return the command that gives an existing topic these settings."""
    return (
        f"kafka-configs.sh --bootstrap-server SERVERS --alter --entity-type topics --entity-name {name} "
        f"--add-config {','.join(f'{setting}={value}' for setting, value in settings.items())}"
    )


def differences(inputs: Iterable[TopicInfo], times: _InputTimes) -> Iterator[str]:
    """Yield a line for each existing input that has other times than the user asks for, with the command."""
    for topic in inputs:
        found = _InputTimes(retention_of(topic), before_max_of(topic))
        if found != times:
            text = (
                f"{topic.name}: it exists with {RETENTION}={found.retention_ms}, {TIMES_BEFORE}={found.before_max_ms}"
            )
            command = alter_command(topic.name, times.settings())
            yield f"{text}; `create` changes no existing topic. Change it: {command}"


def age_risk(place: TopicPartition, offset: int, time_ms: int, now_ms: int, kept_ms: int) -> Risk | None:
    """Return a line if a record that nobody has read is near its deletion; None if it is not.

    `kept_ms` is the retention of its topic.
    """
    age_ms = now_ms - time_ms
    if kept_ms == FOREVER or age_ms <= CLOSE_SHARE * kept_ms:
        return None
    where = f"{place.topic}[{place.partition}] offset {offset}, which no worker has read"
    text = f"{where}, has the event time {date(time_ms)}; {RETENTION} is {duration(kept_ms)}"
    if age_ms <= kept_ms:
        return Risk(
            False, f"{text}: it is deleted in {duration(kept_ms - age_ms)}, unless later records share its segment"
        )
    return Risk(True, f"{text}: the broker may delete it at its next check (log.retention.check.interval.ms)")


def refused_time_text(place: str, time_ms: int) -> str:
    """Return the line about a record that the broker refused for its timestamp."""
    return (
        f"{place}: the event time {date(time_ms)} ({time_ms} ms) was refused (INVALID_TIMESTAMP): the topic accepts "
        f"times from {TIMES_BEFORE} before now to {TIMES_AFTER} after now. Event times are in milliseconds. For "
        f"history: `areba topics create --retention`, or change {RETENTION} and {TIMES_BEFORE} with kafka-configs.sh"
    )


def deleted_text(place: TopicPartition, low: int, needed: int) -> str:
    """Return the line with which every tool says that records which it needs were deleted.

    `low` is the first offset that is left, `needed` the first that is needed.
    """
    return f"{place.topic}[{place.partition}]: offsets {needed} to {low - 1} were deleted (retention)"


def deleted(place: TopicPartition, low: int, needed: int, consequence: str) -> StateError:
    """Return the error of a tool that needs deleted records; `consequence` says what it cannot do without them."""
    return StateError(f"{deleted_text(place, low, needed)}: {consequence}", ErrorCode.INPUTS_DELETED)


def date(time_ms: int) -> str:
    """Return an event time as UTC; as milliseconds where the calendar ends."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def duration(milliseconds: int) -> str:
    """Return a duration as text, in the largest unit of which there are at least two, or one exactly."""
    if milliseconds == UNLIMITED_MS:
        return "unlimited"
    for unit, length in (("day", DAY_MS), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)):
        if milliseconds >= 2 * length or milliseconds == length:
            count = milliseconds / length
            return f"{count:,.1f} {unit}s".replace(".0 ", " ") if milliseconds != length else f"1 {unit}"
    return f"{milliseconds} ms"
