"""The number of tasks of an application: the number of partitions at its first commit, recorded in progress.

Kafka topics can grow, and producers then send the key of a stream to another partition. There the stream would meet an
empty model, and labels would miss their examples. So the recorded number never changes. Records in further partitions
are not read, and `areba inspect` reports such partitions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from stream_app.backends.base import Cluster, TopicInfo, TopicPartition
from stream_app.backends.reading import read_rows
from stream_app.config import Topics
from stream_app.errors import TopicError, UndecodableError, WrongSchemaError
from stream_app.records import Act, Commit
from stream_app.serialization import codec

TAIL_RECORDS = 1_000
"""Records at the end of progress that are read first: more than an operator writes after the last commit of a task."""


def absent_text(name: str) -> str:
    """Return the line about a topic that does not exist."""
    return f"{name}: the topic does not exist; `areba topics create` creates it"


def partitions_of(cluster: Cluster, names: Topics) -> int:
    """Return the number of tasks: the recorded one, or else the number of partitions of the progress topic.

    Raises:
        TopicError: The progress topic does not exist.
        UnknownOutcomeError: The broker stopped answering.
    """
    found = cluster.topics([names.progress])
    if names.progress not in found:
        raise TopicError(absent_text(names.progress))
    return tasks_of(cluster, found[names.progress]) or found[names.progress].partitions


def tasks_of(cluster: Cluster, progress: TopicInfo) -> int | None:
    """Return the number of tasks of an application that has begun; None if nothing was ever recorded.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """
    for number in range(progress.partitions):
        for record in newest_records(cluster, TopicPartition(progress.name, number)):
            if record.partitions:
                return record.partitions
    return None


def last_commits(cluster: Cluster, progress: TopicInfo) -> Iterator[tuple[int, Commit]]:
    """Yield the number and the last commit record of each task that has one.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """
    for number in range(progress.partitions):
        for record in newest_records(cluster, TopicPartition(progress.name, number)):
            if isinstance(record, Commit):
                yield number, record
                break


def _is_commit(record: Commit | Act) -> bool:
    return isinstance(record, Commit)


def newest_records(
    cluster: Cluster, place: TopicPartition, is_wanted: Callable[[Commit | Act], bool] = _is_commit
) -> Sequence[Commit | Act]:
    """Return the last records of a task's progress, newest first, back to a wanted record at least, if there is one.

    Records that cannot be read are skipped: a damaged record must stop its own task only, when that is restored.
    """
    low, high = cluster.watermarks(place)
    size = TAIL_RECORDS
    found: list[Commit | Act] = []
    while low < high and not any(map(is_wanted, found)):
        found = list(_records_from(cluster, place, max(low, high - size)))
        if size >= high - low:
            break
        size *= 10
    return found[::-1]


def _records_from(cluster: Cluster, place: TopicPartition, start: int) -> Iterator[Commit | Act]:
    with closing(cluster.reader(place)) as reader:
        reader.seek(start)
        for row in read_rows(reader, f"{place.topic}[{place.partition}]"):
            with suppress(UndecodableError, WrongSchemaError):
                record = codec.decode_one(row.value or b"")
                if isinstance(record, Commit | Act):
                    yield record


def grown(found: Mapping[str, TopicInfo], names: Iterable[str], partitions: int) -> tuple[str, ...]:
    """Return a line for each topic with more partitions than the application has tasks, and a line with a remedy."""
    lines = [
        f"{name} has {found[name].partitions} partitions, the application has {partitions} tasks, which cannot change: "
        f"records in partitions from {partitions} on are not read"
        for name in names
        if name in found and found[name].partitions > partitions
    ]
    if lines:
        lines.append(
            f"producers must use the first {partitions} partitions only (`areba-replay run --partitions {partitions}`, "
            f"KafkaSender(..., partitions={partitions}), or murmur2(key) mod {partitions} as the partition); records "
            f"in partitions from {partitions} on have to be sent again"
        )
    return tuple(lines)
