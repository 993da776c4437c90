"""Damage of committed offsets and topics, as an operator or a lost topic can cause."""

from collections.abc import Callable

from stream_app.backends.base import Committed, TopicPartition
from stream_app.records import Commit
from stream_app.recovery.commit_point import CommitPoint, parse_metadata
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.world import BREAKER, PARTITIONS, World, _all_at, _config, _started, _turns


def _tripped_world() -> tuple[World, Worker]:
    """Return a world in which task 0 has tripped and task 1 runs."""
    world = World(_config(**BREAKER))
    world.send(6)
    for _ in range(3):
        world.put("examples", 0, None, b"garbage", 100)
    member = _started(world.worker())
    _turns(member, until=lambda: [task.state for task in member.tasks] == [TaskState.TRIPPED, TaskState.LIVE])
    return world, member


def _last(world: World, partition: int = 0) -> Commit:
    last = world.progress(partition)[-1]
    assert isinstance(last, Commit)
    return last


def _commit_offsets(world: World, committed: Callable[[int], tuple[str, tuple[int, int]]]) -> None:
    """Commit this metadata and these offsets for the group, by task."""
    topics = world.config.topics
    for number in range(PARTITIONS):
        metadata, offsets = committed(number)
        for name, offset in zip((topics.examples, topics.labels), offsets, strict=True):
            world.broker.groups.group("app").offsets[TopicPartition(name, number)] = Committed(offset, metadata)


def _metadata(world: World, number: int) -> str:
    return CommitPoint(_last(world, number).sequence, _last(world, number).digest).metadata()


def _lose_offsets(world: World) -> None:
    world.broker.groups.group("app").offsets.clear()


def _lose_examples(world: World) -> None:
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.examples, number), 7)


def _lose_progress(world: World) -> None:
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.progress, number), 3)


def _new_topic(world: World) -> None:
    _commit_offsets(world, lambda number: (_metadata(world, number), (99, 20)))


def _other_digest(world: World) -> None:
    _commit_offsets(world, lambda number: (CommitPoint(_last(world, number).sequence, bytes(32)).metadata(), (20, 20)))


def _older_offsets(world: World) -> None:
    def committed(number: int) -> tuple[str, tuple[int, int]]:
        older = [record for record in world.progress(number) if isinstance(record, Commit)][-2]
        return CommitPoint(older.sequence, older.digest).metadata(), (older.examples_end, older.labels_end)

    _commit_offsets(world, committed)


def _foreign_offsets(world: World) -> None:
    _commit_offsets(world, lambda _: ("", (20, 20)))


def _newer_format(world: World) -> None:
    _commit_offsets(world, lambda _: ("4 1 00", (20, 20)))


def _lose_labels_of(world: World, number: int) -> None:
    del world.broker.groups.group("app").offsets[TopicPartition(world.config.topics.labels, number)]


COUNT = 40


def _processed(count: int = COUNT, *, after_ms: int = 0) -> tuple[World, Worker]:
    """Run a worker until it has processed this number of records of each partition and written its snapshots."""
    world = World(_config(worker={"snapshot_after_ms": after_ms}))
    world.send(count)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, count))
    _turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    return world, member


def _committed(world: World) -> dict[TopicPartition, Committed]:
    return dict(world.broker.groups.group("app").offsets)


def _to_the_first(world: World) -> None:
    """Reset the offsets as `kafka-consumer-groups.sh --reset-offsets --to-earliest` does."""
    _commit_offsets(world, lambda _: ("", (0, 0)))


def _other_offsets(world: World) -> None:
    """Commit the metadata of a backup with the offsets of another time."""
    places = {known: number for number, known in enumerate(sorted(_committed(world)))}
    for place in places:
        known = world.broker.groups.group("app").offsets[place]
        world.broker.groups.group("app").offsets[place] = Committed(known.offset - 1, known.metadata)


def _unequal_offsets(world: World) -> None:
    """Commit the labels' offsets with metadata that lost a part."""
    for place, known in _committed(world).items():
        if place.topic == world.config.topics.labels:
            metadata = parse_metadata(known.metadata, "test").point.metadata()
            world.broker.groups.group("app").offsets[place] = Committed(known.offset, metadata)
