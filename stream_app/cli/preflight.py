"""Everything that would stop or endanger a worker, found out without starting one: `areba topics check`."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from typing import NamedTuple, Protocol

from stream_app.admin.inspect_tasks import inspect
from stream_app.backends import topics as topic_plan
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.following import FollowableCluster
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import last_commits, tasks_of
from stream_app.backends.retention import age_risk, deleted_text, duration, retention_of
from stream_app.cli.checks import group_rights
from stream_app.cli.machine_memory import memory_limit_bytes
from stream_app.cli.schemas import with_schemas
from stream_app.config import Config, JoinSettings
from stream_app.config.memory_bound import bound_of
from stream_app.config.table_bytes import pending_bytes
from stream_app.errors import ArebaError
from stream_app.jit.cache import base_folder, is_read_only
from stream_app.lost_markers.output_logs import deleted_outputs
from stream_app.worker.round_transaction import output_ids

_READ_S = 3.0
"""How long a first answer to a read of all topics may take; a live broker answers within half a second."""

_FIRST_RECORDS = 1_000
"""Records of one poll where only the first of each partition is wanted."""

CLOCK_TOLERANCE_MS = 5_000
"""How far the broker's clock may be ahead: more than network time leaves, less than any timeout."""

SPARE_BYTES = 1 << 30
"""Free space that the folder of compiled code needs: four versions of 200 MB each."""


class Level(StrEnum):
    """What a result means for a worker."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


class Result(NamedTuple):
    """The result of one check: `check` is its name, `text` one line."""

    level: Level
    check: str
    text: str


class _CheckedCluster(FollowableCluster, Protocol):
    """A cluster that says who may do what, and what time it is."""

    def broker_count(self) -> int:
        """Return the number of brokers; 0 if none answers."""

    @property
    def no_answer_text(self) -> str:
        """One line that says that no broker answers, with the reason if it is known."""

    def missing_rights(self, topics: Mapping[str, Sequence[str]], groups: Mapping[str, str]) -> list[str]:
        """Return one line for each operation that the broker does not permit."""

    def newest_timestamp_ms(self, partitions: Sequence[TopicPartition]) -> int | None:
        """Return the largest timestamp in these partitions; None if they are empty."""


def preflight(
    config: Config,
    cluster: _CheckedCluster,
    try_transaction: Callable[[], None],
    try_consumer: Callable[[], None],
) -> Iterator[Result]:
    """Check everything, and yield the results as they come.

    Args:
        config: The application's configuration.
        cluster: Its cluster; nothing is written to it.
        try_transaction: Initialises a producer with the transactional id of the worker, which fences an older one.
        try_consumer: Creates a consumer with the worker's settings.
    """
    yield from _registry(config)
    brokers = cluster.broker_count()
    if not brokers:
        yield Result(Level.WRONG, "connection", cluster.no_answer_text)
        yield from _machine()
        return
    yield Result(
        Level.OK, "connection", f"{brokers} broker{'' if brokers == 1 else 's'} at {config.kafka.bootstrap_servers}"
    )
    found: Mapping[str, TopicInfo] = {}
    try:
        found = cluster.topics(config.topics)
    except ArebaError as error:
        yield from _wrong("topics", error.lines)
    else:
        yield from _topics(config, cluster, found)
    if len(found) == len(config.topics):
        for check in (_lanes, _retention, _unread, _rights, _reads, check_tasks, _clock, _memory, _tables):
            yield from _guarded(check, config, cluster, found)
    yield from _consumer(try_consumer)
    yield from _identity(config, cluster, try_transaction)
    yield from _machine()


_Check = Callable[[Config, _CheckedCluster, Mapping[str, TopicInfo]], Iterator[Result]]


def _guarded(
    check: _Check, config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]
) -> Iterator[Result]:
    """Run a check; what the broker refuses or does not answer is wrong, and the other checks continue."""
    try:
        yield from check(config, cluster, found)
    except ArebaError as error:
        yield from _wrong(check.__name__.strip("_"), error.lines)


def _wrong(check: str, lines: Iterable[str]) -> Iterator[Result]:
    return (Result(Level.WRONG, check, line) for line in lines)


def _topics(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    progress = found.get(config.topics.progress)
    try:
        tasks = tasks_of(cluster, progress) if progress is not None else None
    except ArebaError as error:
        yield from _wrong("topics", error.lines)
        return
    lines = topic_plan.check(
        found,
        config.topics,
        max_clock_lead_ms=config.join.max_clock_lead_ms,
        max_record_bytes=config.limits.max_record_bytes,
        tasks=tasks,
    )
    yield from _wrong("topics", lines)
    if not lines:
        begun = "not begun" if tasks is None else f"{tasks} tasks"
        yield Result(Level.OK, "topics", f"{len(found)} topics, as they should be; the application has {begun}")
    risks = topic_plan.warnings(found)
    yield from (Result(Level.WARNING, "replication", line) for line in risks)
    if not risks:
        yield Result(Level.OK, "replication", "each topic has several copies, as far as the brokers say")
    yield from (Result(Level.WARNING, "compaction", line) for line in topic_plan.slow_compactions(found))


def _lanes(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Say on how many partitions the lanes of a stream lie: a partition is learned by one worker."""
    progress = found[config.topics.progress]
    partitions = tasks_of(cluster, progress) or progress.partitions
    for stream, settings in config.streams.items():
        if settings.lanes is None:
            continue
        lanes = Counter(partition_of(name.encode(), partitions) for name in config.names_of(stream))
        most, fewest = max(lanes.values()), math.ceil(settings.lanes / partitions)
        text = f"the {settings.lanes} lanes of {stream} are in {len(lanes)} of {partitions} partitions"
        if most > fewest:
            uneven = f"{text}, up to {most} in one; they are even if one of these two numbers divides the other"
            yield Result(Level.WARNING, "lanes", uneven)
        else:
            yield Result(Level.OK, "lanes", f"{text}, at most {most} in each")
        if config.unknown_streams == "model":
            beside = (
                f"a record of {stream} itself would begin a model beside its lanes: set unknown_streams: dead-letter"
            )
            yield Result(Level.WARNING, "lanes", beside)


def _retention(config: Config, _: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Compare how long the inputs are kept with what a join and a pause need."""
    risks = topic_plan.retention_risks(found, config.topics, config.join.ttl_ms)
    yield from (Result(Level.WRONG if risk.is_wrong else Level.WARNING, "retention", risk.text) for risk in risks)
    if not risks:
        kept_ms = [retention_of(found[name]) for name in config.topics.inputs]
        least = min((kept for kept in kept_ms if kept >= 0), default=None)
        text = "without a limit" if least is None else f"for {duration(least)}, by their event time"
        yield Result(Level.OK, "retention", f"the inputs are kept {text}")


def _unread(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Compare the event times of the first records that no worker has read with the retention."""
    names = config.topics.inputs
    tasks = tasks_of(cluster, found[config.topics.progress]) or min(found[name].partitions for name in names)
    places = [TopicPartition(name, number) for name in names for number in range(tasks)]
    read = {
        TopicPartition(name, number): end
        for number, last in last_commits(cluster, found[config.topics.progress])
        for name, end in zip(names, (last.examples_end, last.labels_end), strict=True)
    }
    ends = cluster.ends(places)
    starts: dict[TopicPartition, int] = {}
    is_ok = True
    for place in places:
        low, end = cluster.watermarks(place).low, read.get(place, 0)
        if low > end:
            is_ok = False
            level = Level.WRONG if place in read else Level.WARNING
            yield Result(level, "unread records", deleted_text(place, low, end))
        starts[place] = max(low, end)
    unread = {place: start for place, start in starts.items() if start < ends[place].stable}
    now_ms = time.time_ns() // 1_000_000
    for place, (offset, time_ms) in _first_records(cluster, unread).items():
        risk = age_risk(place, offset, time_ms, now_ms, retention_of(found[place.topic]))
        if risk is not None:
            is_ok = False
            yield Result(Level.WRONG if risk.is_wrong else Level.WARNING, "unread records", risk.text)
    if is_ok:
        yield Result(Level.OK, "unread records", "none was deleted or is about to be")


def _first_records(
    cluster: _CheckedCluster, starts: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, tuple[int, int]]:
    """Return offset and timestamp of the first record from each start on, if the broker delivers it in time."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    if not starts:
        return found
    deadline_s = time.monotonic() + _READ_S
    with closing(cluster.follow(starts)) as follower:
        while len(found) < len(starts) and time.monotonic() < deadline_s and not follower.problems:
            for fetched in follower.poll(_FIRST_RECORDS, 0.5):
                if len(fetched.records):
                    first = int(fetched.records.offsets[0]), fetched.records.first_log_time_ms
                    found.setdefault(fetched.partition, first)
    return found


def _rights(config: Config, cluster: _CheckedCluster, _: Mapping[str, TopicInfo]) -> Iterator[Result]:
    lines = cluster.missing_rights(topic_plan.rights(config.topics), group_rights(config))
    yield from _wrong("rights", lines)
    trimming = cluster.missing_rights({config.topics.progress: ["Delete"]}, {})
    yield from (Result(Level.WARNING, "rights", f"{line}: progress is never trimmed") for line in trimming)
    if not lines and not trimming:
        yield Result(Level.OK, "rights", "the brokers deny no operation on topics and groups")


def check_tasks(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Find tasks that cannot be restored, and output topics that were deleted and created again."""
    views = inspect(cluster, config).tasks
    parked = [view for view in views if view.code is not None]
    yield from (Result(Level.WRONG, "tasks", f"task {view.task}: {view.problem}") for view in parked)
    ids, replaced = output_ids(found, config.topics), set[str]()
    for _, last in last_commits(cluster, found[config.topics.progress]):
        replaced.update(deleted_outputs(last, ids))
    text = "was deleted and created again: its older records are gone, and the next worker continues in the new topic"
    yield from (Result(Level.WARNING, "tasks", f"{topic} {text}") for topic in sorted(replaced))
    if not parked:
        yield Result(Level.OK, "tasks", f"the topics hold what {len(views)} tasks need")


def _reads(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Read the end of one partition of each topic."""
    places = [TopicPartition(name, 0) for name in found]
    starts = {place: end.stable for place, end in cluster.ends(places).items()}
    silent = set(places)
    deadline_s = time.monotonic() + _READ_S
    with closing(cluster.follow(starts)) as follower:
        while silent and time.monotonic() < deadline_s and not follower.problems:
            silent -= {fetched.partition for fetched in follower.poll(100, 0.5)}
        problems = follower.problems
    yield from _wrong("reading", problems)
    if silent and not problems:
        names = ", ".join(sorted(place.topic for place in silent))
        yield Result(Level.WRONG, "reading", f"no answer within {_READ_S:g} s: {names}")
    elif not problems:
        yield Result(Level.OK, "reading", f"all {len(places)} topics can be read as {config.log_reader_group_id}")


def _clock(config: Config, cluster: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Compare the clocks: the broker sets the timestamps of progress."""
    progress = found[config.topics.progress]
    newest_ms = cluster.newest_timestamp_ms([TopicPartition(progress.name, n) for n in range(progress.partitions)])
    ahead_ms = 0 if newest_ms is None else newest_ms - time.time_ns() // 1_000_000
    if newest_ms is None:
        yield Result(Level.OK, "clock", "cannot be compared before the first commit")
    elif ahead_ms > CLOCK_TOLERANCE_MS:
        text = f"the broker's clock is at least {ahead_ms / 1000:,.0f} s ahead of this machine's"
        yield Result(Level.WRONG, "clock", text)
    else:
        text = f"the newest commit was {max(0, -ahead_ms) / 1000:,.0f} s ago by the broker's clock"
        yield Result(Level.OK, "clock", text)


def _memory(config: Config, _: _CheckedCluster, found: Mapping[str, TopicInfo]) -> Iterator[Result]:
    tasks = found[config.topics.progress].partitions
    bound = bound_of(config, config.task_settings(), topic_plan.largest_batch_bytes(found[config.topics.labels]))
    needed, (limit, who) = bound.total(tasks), memory_limit_bytes()
    text = f"a worker with all {tasks} tasks takes at most {needed >> 20:,} MB; {who} has {limit >> 20:,} MB"
    yield Result(Level.WARNING if needed > limit else Level.OK, "memory", text)


def _tables(config: Config, _: _CheckedCluster, __: Mapping[str, TopicInfo]) -> Iterator[Result]:
    """Check that the tables of a task have room for the pending examples for which the default was raised."""
    settings = config.task_settings()
    join, streams = settings.join, dict(settings.streams)
    if settings.unknown_streams == "model":
        streams["(default)"] = settings.default_stream
    if join.max_pending_per_stream <= JoinSettings().max_pending_per_stream or not streams:
        return
    needed, name = max((pending_bytes(stream, settings), name) for name, stream in streams.items())
    text = (
        f"{join.max_pending_per_stream:,} pending examples of stream {name!r} count {needed:,} bytes; "
        f"join.max_table_bytes_per_task is {join.max_table_bytes_per_task:,}"
    )
    if needed > join.max_table_bytes_per_task:
        yield Result(Level.WARNING, "tables", f"{text}: they would be evicted before")
    else:
        yield Result(Level.OK, "tables", text)


def _consumer(try_consumer: Callable[[], None]) -> Iterator[Result]:
    """Create a consumer: the client refuses a setting that it does not know."""
    try:
        try_consumer()
    except ArebaError as error:
        yield from _wrong("consumer", error.lines)
    else:
        yield Result(Level.OK, "consumer", "the client knows all settings of consumers")


def _identity(config: Config, cluster: _CheckedCluster, try_transaction: Callable[[], None]) -> Iterator[Result]:
    """Try the transactional id, unless that could fence a running worker."""
    try:
        members = len(cluster.members(config.group_id))
        if members:
            text = f"{members} workers run, so {config.transactional_id} is not tried: that would fence a worker"
        else:
            try_transaction()
            text = f"group {config.group_id} has no members; {config.transactional_id} may write transactions"
    except ArebaError as error:
        yield from _wrong("identity", error.lines)
    else:
        yield Result(Level.OK, "identity", text)


def _registry(config: Config) -> Iterator[Result]:
    """Ask the schema registry, if values need one, for our schemas; nothing is registered."""
    if "confluent" not in config.serialization.wire_format:
        return
    try:
        found = with_schemas(config, registers=False)[0].serialization.schema_ids
    except ArebaError as error:
        yield from _wrong("schema registry", error.lines)
    else:
        yield Result(
            Level.OK, "schema registry", f"{len(found)} of areba's schemas are registered; a worker registers the rest"
        )


def _machine() -> Iterator[Result]:
    """Check the folder of compiled code."""
    try:
        folder = base_folder()
    except (ArebaError, OSError) as error:
        yield Result(Level.WRONG, "compile cache", str(error))
        return
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    text = f"{folder} has {free >> 20:,} MB free"
    if is_read_only(folder):
        text = f"{folder} is read-only, as in an image: what is not in it is compiled at each start, into memory"
        yield Result(Level.OK, "compile cache", text)
    else:
        yield Result(Level.WARNING if free < SPARE_BYTES else Level.OK, "compile cache", text)
