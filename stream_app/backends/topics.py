"""The topics of an application: the settings that they are created with, and the settings that start-up refuses.

A wrong setting breaks a guarantee later without any error: a label misses its example, compaction removes records,
retention deletes outputs by a time that an input record claims, or no retry can commit a transaction. So all topics are
checked before the worker joins its group, and all problems are reported together.
"""

from collections.abc import Iterator, Mapping, Sequence

from stream_app.backends.base import MAX_BATCH_BYTES, TopicInfo
from stream_app.backends.progress import absent_text, grown
from stream_app.backends.retention import TIMES_AFTER, UNLIMITED_MS, Risk, alter_command, input_times, risks
from stream_app.config import Config, JoinSettings, Topics
from stream_app.config.values import DAY_MS

RECORD_OVERHEAD_BYTES = 1_024
"""How much a batch of one record exceeds the record's value: headers of batch and record, the key, `traceparent`."""

_DEAD_LETTER_OVERHEAD_BYTES = 16_384
"""How much a dead letter exceeds its record, by headers that name its origin and the problem. A topic that accepts so
much more than the inputs takes every dead letter whole, except for records that were sent compressed (`left_out`)."""

DEFAULT_MESSAGE_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`."""

_CHANGELOG_SEGMENT_BYTES = 64 << 20
"""Compaction never touches the newest segment: with Kafka's default of 1 GB it would hardly ever begin."""

_COMPACTION_LAG_MS = DAY_MS
"""After this time Kafka compacts the changelog, whatever its size: erased examples leave it within two days."""

_SLOW_COMPACTION_MS = 7 * DAY_MS
"""From a longer lag on, `areba topics check` says so."""

_CREATE_TIME = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete"}
_SIZE = "max.message.bytes"
_COMPACTION_LAG = "max.compaction.lag.ms"


def plan(
    names: Topics,
    partitions: int,
    *,
    max_clock_lead_ms: int = 3_600_000,
    max_record_bytes: int = 1_000_000,
    ttl_ms: int = JoinSettings().ttl_ms,
    retention_ms: int | None = None,
) -> list[TopicInfo]:
    """Return the topics as `areba topics create` creates them; `check` accepts them.

    Args:
        names: The full names of the topics.
        partitions: The number of partitions of each topic: the number of tasks.
        max_clock_lead_ms: How far a producer's clock may run ahead (`join.max_clock_lead_ms`).
        max_record_bytes: The largest value that is accepted (`limits.max_record_bytes`).
        ttl_ms: How long an example waits for its label (`join.ttl_ms`).
        retention_ms: How long the inputs are kept; `retention.FOREVER` keeps everything. None: the default.

    Raises:
        ConfigurationError: The retention is shorter than a join and a pause need.
    """
    largest = max(DEFAULT_MESSAGE_BYTES, max_record_bytes + RECORD_OVERHEAD_BYTES)
    times = input_times(ttl_ms, retention_ms)
    inputs = _CREATE_TIME | {TIMES_AFTER: str(max_clock_lead_ms), _SIZE: str(largest)} | times.settings()
    written = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    dead_letters = written | {_SIZE: str(largest + _DEAD_LETTER_OVERHEAD_BYTES)}
    forever = {"retention.ms": "-1", "retention.bytes": "-1"}
    settings: Mapping[str, Mapping[str, str]] = {
        names.examples: inputs,
        names.labels: inputs,
        names.predictions: written,
        names.outcomes: written,
        names.metrics: written,
        names.dead_letters: dead_letters,
        names.changelog: {
            "cleanup.policy": "compact",
            "segment.bytes": str(_CHANGELOG_SEGMENT_BYTES),
            _COMPACTION_LAG: str(_COMPACTION_LAG_MS),
        },
        names.progress: written | forever,
    }
    return [TopicInfo(name, partitions, chosen) for name, chosen in settings.items()]


def check(
    found: Mapping[str, TopicInfo],
    names: Topics,
    *,
    max_clock_lead_ms: int,
    max_record_bytes: int,
    tasks: int | None = None,
) -> list[str]:
    """Return one line for each problem of the topics; none if the application can start.

    Args:
        found: The topics that exist, with the settings in effect on the broker.
        names: The full names of all topics.
        max_clock_lead_ms: How far a producer's clock may run ahead (`join.max_clock_lead_ms`).
        max_record_bytes: The largest value that is accepted (`limits.max_record_bytes`).
        tasks: The number of tasks of an application that has begun, whose topics may have grown since; None: it has
            not begun.
    """
    lines = [absent_text(name) for name in names if name not in found]
    inputs = [found[name] for name in names.inputs if name in found]
    outputs = [
        found[name] for name in (names.predictions, names.outcomes, names.metrics, names.dead_letters) if name in found
    ]
    lines += _check_equal(found, names) if tasks is None else _check_enough(found, names, tasks)
    for topic in inputs:
        lines += _check_input(topic, max_clock_lead_ms, max_record_bytes)
    for topic in outputs:
        lines += _check_output(topic)
    if names.progress in found:
        lines += _check_progress(found[names.progress])
    if names.changelog in found:
        lines += _check_changelog(found[names.changelog])
    return lines


def problems_of(found: Mapping[str, TopicInfo], config: Config, tasks: int | None) -> list[str]:
    """Return one line for each problem of an application's topics: those of `check`, and topics that have grown."""
    lines = check(
        found,
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        tasks=tasks,
    )
    return [*lines, *(grown(found, config.topics, tasks) if tasks is not None else ())]


def largest_batch_bytes(topic: TopicInfo) -> int:
    """Return the size of the largest batch that a topic accepts, in bytes."""
    return int(topic.settings.get(_SIZE, DEFAULT_MESSAGE_BYTES))


def retention_risks(found: Mapping[str, TopicInfo], names: Topics, ttl_ms: int) -> list[Risk]:
    """Return a line for each input that may lose records before they are used; see `retention.risks`."""
    return list(risks((found[name] for name in names.inputs if name in found), ttl_ms))


def warnings(found: Mapping[str, TopicInfo]) -> list[str]:
    """Return a line for topics that are accepted, but lose committed records if a disk fails."""
    single = ", ".join(name for name, topic in found.items() if topic.replication == 1)
    advice = "on several brokers, create topics with --replication 3 and set min.insync.replicas=2"
    return (
        [f"replication is 1, so only one broker's disk holds what is committed; {advice}: {single}"] if single else []
    )


def slow_compactions(found: Mapping[str, TopicInfo]) -> Iterator[str]:
    """Yield a line for each compacted topic that may keep snapshots with erased examples for long."""
    for name, topic in found.items():
        lag_ms = int(topic.settings.get(_COMPACTION_LAG, _COMPACTION_LAG_MS))
        if topic.settings.get("cleanup.policy") == "compact" and lag_ms > _SLOW_COMPACTION_MS:
            command = alter_command(name, {_COMPACTION_LAG: str(_COMPACTION_LAG_MS)})
            yield f"{name}: {_COMPACTION_LAG} is {lag_ms}, erased examples may stay; change it: {command}"


def rights(names: Topics) -> Mapping[str, Sequence[str]]:
    """Return the operations that a worker needs on each topic, by Kafka's names.

    A worker also reads its outputs: when it restores a task, it has to find out which of them were committed.
    """
    always = ("Describe", "DescribeConfigs")
    written = (names.predictions, names.outcomes, names.metrics, names.dead_letters, names.changelog, names.progress)
    return {
        **dict.fromkeys(names.inputs, ("Read", *always)),
        **dict.fromkeys(written, ("Read", "Write", *always)),
    }


def _check_enough(found: Mapping[str, TopicInfo], names: Topics, tasks: int) -> Iterator[str]:
    """Yield a line for each topic with too few partitions. Topics may have grown; the new partitions are not read."""
    for name in names:
        if name in found and found[name].partitions < tasks:
            yield (
                f"{name}: has {found[name].partitions} partitions and the application has {tasks} tasks; all topics "
                "of an application need at least as many partitions"
            )


def _check_equal(found: Mapping[str, TopicInfo], names: Topics) -> Iterator[str]:
    """Yield a line for each topic whose number of partitions differs; the first start takes it as number of tasks."""
    for name in (names.progress, *names):
        if name in found:
            reference = found[name]
            break
    else:
        return
    for name in names:
        if name in found and found[name].partitions != reference.partitions:
            yield (
                f"{name}: has {found[name].partitions} partitions and {reference.name} has {reference.partitions}; "
                "all topics of an application need the same number"
            )


def _require(topic: TopicInfo, setting: str, wanted: str, reason: str) -> Iterator[str]:
    actual = topic.settings.get(setting, wanted)
    if actual != wanted:
        command = alter_command(topic.name, {setting: wanted})
        yield f"{topic.name}: {setting} is {actual}, must be {wanted}: {reason}; change it: {command}"


def _require_size(topic: TopicInfo, least: int, reason: str) -> Iterator[str]:
    actual = largest_batch_bytes(topic)
    if actual < least:
        yield f"{topic.name}: {_SIZE} is {actual}, must be at least {least}: {reason}"


def _check_input(topic: TopicInfo, max_clock_lead_ms: int, max_record_bytes: int) -> Iterator[str]:
    yield from _require(topic, "message.timestamp.type", "CreateTime", "the producer sets the event time")
    yield from _require(topic, "cleanup.policy", "delete", "compaction removes records before they are read")
    lead_ms = int(topic.settings.get(TIMES_AFTER, UNLIMITED_MS))
    if lead_ms > max_clock_lead_ms:
        yield (
            f"{topic.name}: {TIMES_AFTER} is {lead_ms}, must be at most {max_clock_lead_ms} (join.max_clock_lead_ms): "
            "a clock that runs further ahead makes records expire that are on time"
        )
    least = max_record_bytes + RECORD_OVERHEAD_BYTES
    yield from _require_size(
        topic, least, f"values up to {max_record_bytes} bytes are accepted (limits.max_record_bytes)"
    )


def _check_output(topic: TopicInfo) -> Iterator[str]:
    reason = "retention counts from the moment of writing, whatever time an input record claims"
    yield from _require(topic, "message.timestamp.type", "LogAppendTime", reason)
    yield from _require(
        topic, "cleanup.policy", "delete", "the key is the stream: compaction would keep only its last record"
    )
    yield from _require_size(topic, MAX_BATCH_BYTES + RECORD_OVERHEAD_BYTES, "outputs are sent in batches of that size")


def _check_progress(topic: TopicInfo) -> Iterator[str]:
    yield from _require(
        topic, "message.timestamp.type", "LogAppendTime", "its timestamps say when records were written"
    )
    yield from _require(topic, "cleanup.policy", "delete", "every record is needed to restore a task")
    yield from _require(topic, "retention.ms", "-1", "every record is needed to restore a task")
    yield from _require(topic, "retention.bytes", "-1", "every record is needed to restore a task")
    yield from _require_size(topic, MAX_BATCH_BYTES + RECORD_OVERHEAD_BYTES, "it is written in batches of that size")


def _check_changelog(topic: TopicInfo) -> Iterator[str]:
    yield from _require(topic, "cleanup.policy", "compact", "a snapshot is kept until a newer one replaces it")
    yield from _require_size(topic, MAX_BATCH_BYTES + RECORD_OVERHEAD_BYTES, "it is written in batches of that size")
