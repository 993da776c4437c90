"""The number of tasks of an application: the number of partitions at its first commit, recorded in progress.

Kafka topics can grow, and producers then send the key of a stream to another partition. There the stream would meet an
empty model, and labels would miss their examples. So the recorded number never changes. Records in further partitions
are not read, and `areba inspect` reports such partitions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from stream_app.backends.base import Cluster, TopicInfo, TopicPartition
from stream_app.backends.reading import read_rows
from stream_app.config import Topics
from stream_app.errors import TopicError, UndecodableError, WrongSchemaError
from stream_app.records import Act, Commit
from stream_app.serialization import codec

TAIL_RECORDS = 1_000
"""Records at the end of progress that are read first: more than an operator writes after the last commit of a task."""


def partitions_of(cluster: Cluster, names: Topics) -> int:
    """Return the number of tasks: the recorded one, or else the number of partitions of the progress topic.

    Raises:
        TopicError: The progress topic does not exist.
        UnknownOutcomeError: The broker stopped answering.
    """
    found = cluster.topics([names.progress])
    if names.progress not in found:
        raise TopicError(f"{names.progress}: the topic does not exist; `areba topics create` creates it")
    return tasks_of(cluster, found[names.progress]) or found[names.progress].partitions


def tasks_of(cluster: Cluster, progress: TopicInfo) -> int | None:
    """Return the number of tasks of an application that has begun; None if nothing was ever recorded.

    The newest records of any task contain the number, unless areba 0.x wrote all of them. In that case it is the number
    of partitions of the progress topic, which the next commit records.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """
    has_begun = False
    for number in range(progress.partitions):
        for record in _newest(cluster, TopicPartition(progress.name, number)):
            has_begun = True
            if record.partitions:
                return record.partitions
    return progress.partitions if has_begun else None


def _newest(cluster: Cluster, place: TopicPartition) -> Sequence[Commit | Act]:
    """Return the last records of a task, newest first, back to a commit record at least.

    Records that cannot be read are skipped: a damaged record must stop its own task only, when that is restored.
    """
    low, high = cluster.watermarks(place)
    size = TAIL_RECORDS
    found: list[Commit | Act] = []
    while low < high and not any(isinstance(record, Commit) for record in found):
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
