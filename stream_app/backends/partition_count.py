"""How many tasks an application has: the number of partitions at its first commit, recorded in progress.

Kafka lets topics grow, and sends the key of a stream elsewhere from then on. There the stream would meet an empty
model, and labels would miss their examples. So the recorded number holds for good: what lies in partitions beyond it is
not read, and `areba inspect` says so.
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
"""Of progress, read first: seconds of a busy task, and more acts than an operator writes after its last commit."""


def partitions_of(cluster: Cluster, names: Topics) -> int:
    """The number of tasks: as recorded, else that of the partitions of the progress topic.

    Raises:
        TopicError: There is no progress topic.
        UnknownOutcomeError: The broker fell silent.
    """
    found = cluster.topics([names.progress])
    if names.progress not in found:
        raise TopicError(f"{names.progress}: there is no such topic")
    return tasks_of(cluster, found[names.progress]) or found[names.progress].partitions


def tasks_of(cluster: Cluster, progress: TopicInfo) -> int | None:
    """The number of tasks of an application that has begun; None: nothing was ever recorded.

    The newest records of any task name it. Where no record does, all are of areba 0.x: there the progress topic's own
    number is taken, and recorded with the next commit.

    Raises:
        UnknownOutcomeError: The broker fell silent.
    """
    has_begun = False
    for number in range(progress.partitions):
        for record in _newest(cluster, TopicPartition(progress.name, number)):
            has_begun = True
            if record.partitions:
                return record.partitions
    return progress.partitions if has_begun else None


def _newest(cluster: Cluster, place: TopicPartition) -> Sequence[Commit | Act]:
    """The last records of a task, newest first, back to a commit record at least; what is not ours is left out.

    A damaged record parks its own task when that is restored, and no other.
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
    """A line for each topic that has more partitions than the application has tasks, and a line with the way out."""
    lines = [
        f"{name} has {found[name].partitions} partitions, the application has {partitions} tasks for good: records in "
        f"partitions from {partitions} on are not read"
        for name in names
        if name in found and found[name].partitions > partitions
    ]
    if lines:
        lines.append(
            f"senders have to keep to {partitions} partitions (`areba-replay run --partitions {partitions}`, "
            f"KafkaSender(..., partitions={partitions}), or murmur2(key) mod {partitions} as the partition); what lies "
            f"in partitions from {partitions} on has to be sent again"
        )
    return tuple(lines)
