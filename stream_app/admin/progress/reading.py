"""Read the partitions of an application to their ends, and the records at the end of a task's progress."""

from collections.abc import Iterable, Iterator, Sequence

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.progress import absent_text, last_records, partitions_of, progress_record
from stream_app.backends.reading import finish, rows_of
from stream_app.config import Config
from stream_app.errors import ConfigurationError, TopicError
from stream_app.progress_records import Act, Commit
from stream_app.recovery.changelog import find_snapshots
from stream_app.snapshot.format import Snapshot


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


def since_last_commit(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Return the last commit record of a task and the acts after it, or all acts if there is no commit record.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    tail = progress_tail(cluster, progress)
    last = last_commit(tail)
    return tail if last is None else tail[tail.index(last) :]
