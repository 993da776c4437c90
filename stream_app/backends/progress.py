"""The topic progress: its records, a search from its end, and the number of tasks that is recorded there.

The number of tasks is the number of partitions at the first commit. Kafka topics can grow, and producers then send the
key of a stream to another partition. There the stream would meet an empty model, and labels would miss their examples.
So only `areba repartition` changes the recorded number. Until then, records in further partitions are not read, and
`areba inspect` reports such partitions.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from stream_app.backends.base import Cluster, LogReader, TopicInfo, TopicPartition, Watermarks
from stream_app.backends.reading import finish, read_in_steps
from stream_app.config import Topics
from stream_app.errors import ErrorCode, StateError, TopicError, UndecodableError, WrongSchemaError
from stream_app.progress_records import REPARTITION, Act, Commit
from stream_app.records import Header
from stream_app.serialization import codec

TAIL_OFFSETS = 50
"""The last offsets that a search reads first; each further step takes ten times as many. Most searches end with the
last commit, and a worker makes several of them before it can work: decoding a thousand records takes some 0.4 s."""

Item = TypeVar("Item")


class Recorded(NamedTuple):
    """A progress record and its offset; -1 where it cannot be read."""

    record: Commit | Act
    offset: int


def progress_record(value: bytes | None, where: str) -> Commit | Act:
    """Decode a value of the progress topic.

    Raises:
        StateError: The value is not a record of progress.
    """
    try:
        record = codec.decode_one(value or b"")
    except (UndecodableError, WrongSchemaError) as error:
        raise StateError(f"{where}: not a progress record: {error}") from error
    if not isinstance(record, Commit | Act):
        raise StateError(f"{where}: {type(record).__name__} is not a progress record")
    return record


def search_back(
    reader: LogReader,
    ends: Watermarks,
    take: Callable[[int, bytes | None, bytes | None], Item | None],
    is_wanted: Callable[[Item], bool],
) -> Generator[bool, None, list[Item]]:
    """Read progress from its end on backwards, until an item is wanted.

    `take` decides about damaged records. A caller that continues progress raises, so nothing is written after a record
    that nobody understands; a caller that asks for one fact leaves damaged records out, because they stop only their
    own task.

    Args:
        reader: A reader of the partition.
        ends: Its first offset and its end.
        take: Returns an item for the offset, key and value of a record; None leaves the record out.
        is_wanted: Says whether the search may end with this item.

    Yields:
        After each poll, whether it had news.

    Returns:
        The items of the last records in order: at least all from the last wanted item on; all items if none is wanted.
    """
    items: list[Item] = []
    found: list[Item] = []

    def add(offset: int, key: bytes | None, value: bytes | None, _: Sequence[Header]) -> bool:
        item = take(offset, key, value)
        if item is not None:
            items.append(item)
        return True

    stop, size = ends.high, TAIL_OFFSETS
    while stop > ends.low and not any(map(is_wanted, found)):
        start = max(ends.low, stop - size)
        yield from read_in_steps(reader, start, stop, add)
        found[:0] = items
        items.clear()
        stop, size = start, size * 10
    return found


def _is_commit(record: Commit | Act) -> bool:
    return isinstance(record, Commit)


def newest_records(
    cluster: Cluster, place: TopicPartition, is_wanted: Callable[[Commit | Act], bool] = _is_commit
) -> Sequence[Commit | Act]:
    """Return the last records of a task's progress, newest first, back to a wanted record at least, if there is one.

    Damaged records are left out.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """

    def take(_: int, __: bytes | None, value: bytes | None) -> Commit | Act | None:
        try:
            return progress_record(value, "")
        except StateError:
            return None

    ends = cluster.watermarks(place)
    return finish(cluster, place, lambda reader: search_back(reader, ends, take, is_wanted))[::-1]


def last_records(cluster: Cluster, place: TopicPartition) -> list[Recorded]:
    """Return the last records of progress in order: all from the last commit record on, and some before it.

    Without a commit record, all records of progress are returned.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker stopped answering.
    """

    def take(offset: int, _: bytes | None, value: bytes | None) -> Recorded:
        return Recorded(progress_record(value, f"{place.topic}[{place.partition}] offset {offset}"), offset)

    ends = cluster.watermarks(place)
    return finish(cluster, place, lambda reader: search_back(reader, ends, take, lambda item: _is_commit(item.record)))


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


def recorded_number(cluster: Cluster, progress: TopicInfo) -> Commit | Act | None:
    """Return the last record of the first task that names a number of partitions; None if nothing was recorded.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """
    places = (TopicPartition(progress.name, number) for number in range(progress.partitions))
    return next((found for place in places if (found := _last_numbered(cluster, place)) is not None), None)


def tasks_of(cluster: Cluster, progress: TopicInfo) -> int | None:
    """Return the number of tasks of an application that has begun; None if nothing was ever recorded.

    Raises:
        StateError: `areba repartition` has begun, and has not ended.
        UnknownOutcomeError: The broker stopped answering.
    """
    found = recorded_number(cluster, progress)
    if found is None:
        return None
    is_move = isinstance(found, Act) and found.kind == REPARTITION
    if is_move and unmoved_tasks(cluster, progress, found.partitions):
        raise StateError(
            f"{progress.name}: the application is being moved to {found.partitions} partitions, and not all of its "
            f"tasks have moved. Run `areba repartition --to {found.partitions}` again",
            ErrorCode.MOVE_UNFINISHED,
        )
    return found.partitions


def unmoved_tasks(cluster: Cluster, progress: TopicInfo, partitions: int) -> Sequence[int]:
    """Return the tasks that have not moved to this number of partitions.

    Raises:
        UnknownOutcomeError: The broker stopped answering.
    """
    numbers = range(min(partitions, progress.partitions))
    found = {number: _last_numbered(cluster, TopicPartition(progress.name, number)) for number in numbers}
    missing = range(progress.partitions, partitions)
    return [*(number for number, last in found.items() if not _is_moved(last, partitions)), *missing]


def _is_moved(last: Commit | Act | None, partitions: int) -> bool:
    """Say whether a task has moved, by the last record that names a number of partitions: its act ends its move."""
    is_end = isinstance(last, Commit) or (last is not None and last.kind == REPARTITION)
    return last is not None and is_end and last.partitions == partitions


def _last_numbered(cluster: Cluster, place: TopicPartition) -> Commit | Act | None:
    """Return the last record of a task's progress that names a number of partitions."""
    for record in newest_records(cluster, place, lambda record: record.partitions > 0):
        if record.partitions:
            return record
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


def grown(found: Mapping[str, TopicInfo], names: Iterable[str], partitions: int) -> tuple[str, ...]:
    """Return a line for each topic with more partitions than the application has tasks, and a line with a remedy."""
    lines = [
        f"{name} has {found[name].partitions} partitions, the application has {partitions} tasks: "
        f"records in partitions from {partitions} on are not read"
        for name in names
        if name in found and found[name].partitions > partitions
    ]
    if lines:
        lines.append(
            f"producers must use the first {partitions} partitions only (`areba-replay run --partitions {partitions}`, "
            f"KafkaSender(..., partitions={partitions}), or murmur2(key) mod {partitions} as the partition); records "
            f"in partitions from {partitions} on have to be sent again. `areba repartition` moves to more partitions"
        )
    return tuple(lines)
