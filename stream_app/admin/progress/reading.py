"""Read the partitions of an application to their ends, and the records at the end of a task's progress."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.progress import absent_text, last_records, partitions_of, progress_record
from stream_app.backends.reading import finish, rows_of
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError
from stream_app.progress_records import SKIP, STOP, Act, Commit
from stream_app.recovery.changelog import find_snapshots
from stream_app.snapshot.format import Snapshot
from stream_app.snapshot.stops import Stop


class Stops(NamedTuple):
    """The streams of a task that the breaker has stopped, as far as progress names them.

    Attributes:
        reasons: Why they are stopped, by stream.
        unnamed: Why further streams may be stopped; empty if none can be.
    """

    reasons: Mapping[str, str]
    unnamed: str


def progress_of(cluster: Cluster, progress: TopicPartition, start: int = 0) -> Iterator[Commit | Act]:
    """Return the records of progress from an offset on, as they are read.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    for row in rows_of(cluster, progress, start):
        yield progress_record(row.value, f"{progress.topic}[{progress.partition}] offset {row.offset}")


def progress_tail(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Return the last records of progress: all from the last commit record on, and some before it.

    Without a commit record, all records of progress are returned.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    return [one.record for one in last_records(cluster, progress)]


def chosen_tasks(cluster: Cluster, config: Config, tasks: Iterable[int]) -> Sequence[int]:
    """Return the given tasks of the application, or all tasks if no task is given.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing.
    """
    topics = config.topics
    needed = (topics.examples, topics.labels, topics.progress, topics.changelog)
    found = cluster.topics(needed)
    if missing := [name for name in needed if name not in found]:
        raise TopicError([absent_text(name) for name in missing])
    partitions = partitions_of(cluster, topics)
    chosen = list(tasks) or list(range(partitions))
    if beyond := [task for task in chosen if task >= partitions]:
        raise ConfigurationError(f"there is no task {beyond[0]}: the application has {partitions}")
    return chosen


def named_snapshots(cluster: Cluster, progress: TopicPartition) -> tuple[Snapshot, ...]:
    """Return the snapshots that progress names, newest first.

    Raises:
        StateError: The act that names them cannot be read.
        UnknownOutcomeError: The broker did not answer in time.
    """
    return finish(cluster, progress, lambda reader: find_snapshots(reader, cluster.watermarks(progress)))


def last_commit(records: Sequence[Commit | Act]) -> Commit | None:
    """Return the last commit record; None if there is no commit record."""
    return next((record for record in reversed(records) if isinstance(record, Commit)), None)


def from_last_commit(tail: Sequence[Commit | Act]) -> list[Commit | Act]:
    """Return the last commit record and the acts after it, or all acts if there is no commit record."""
    last = last_commit(tail)
    return list(tail if last is None else tail[tail.index(last) :])


def since_last_commit(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Return the last commit record of a task and the acts after it, or all acts if there is no commit record.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    return from_last_commit(progress_tail(cluster, progress))


def stops_of(tail: Sequence[Commit | Act]) -> Stops:
    """Return which streams are stopped after these records, the last ones of a task's progress.

    Acts after the last commit record count: a task that was moved to more partitions, or that continues from an older
    snapshot, may wait long for its next batch.

    Raises:
        StateError: The text of an act `stop` is damaged.
    """
    last = last_commit(tail)
    acts = [record for record in from_last_commit(tail) if isinstance(record, Act)]
    stops = [Stop.from_text(act.text) for act in acts if act.kind == STOP]
    reasons = {**(last.stops if last is not None else {}), **{stop.stream: stop.reason for stop in stops}}
    unnamed = ""
    if last is not None and last.stopped_streams > len(last.stops):
        unnamed = "more streams are stopped than the commit record names"
    if any(act.kind == SKIP for act in acts):
        unnamed = "the task continues from an older state, and its next commit record names what is stopped there"
    return Stops(reasons, unnamed)
