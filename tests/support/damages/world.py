"""Damage of topics and of the group's offsets, as an operator or a lost topic can cause."""

from typing import Any

from stream_app.backends.base import TopicPartition
from stream_app.progress_records import Commit
from stream_app.worker.worker import Worker
from tests.support.world import BREAKER, PARTITIONS, World, all_at, make_config, started, take_turns


def stopped_world(**options: Any) -> tuple[World, Worker]:  # noqa: ANN401  (as the worker takes them)
    """Return a world in which stream s0 of task 0 is stopped, and s1 of task 1 is not; each sent 7 examples."""
    world = World(make_config(**BREAKER))
    world.send(6)
    world.garbage(0)
    member = started(world.worker(**options))
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(9, 6), (6, 6)])
    world.send(1, first=6)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(10, 7), (7, 7)])
    return world, member


def last_commit(world: World, partition: int = 0) -> Commit:
    """Return the last commit record of a task's progress."""
    last = [record for record in world.progress(partition) if isinstance(record, Commit)][-1]
    assert isinstance(last, Commit)
    return last


COUNT = 40


def processed_world(count: int = COUNT, *, after_ms: int = 0) -> tuple[World, Worker]:
    """Run a worker until it has processed this number of records of each partition and written its snapshots."""
    world = World(make_config(worker={"snapshot_after_ms": after_ms}))
    world.send(count)
    member = started(world.worker())
    take_turns(member, until=all_at(member, count))
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    return world, member


# Topics ---------------------------------------------------------------------------------------------------------------


def lose_examples(world: World) -> None:
    """Delete the first examples of each partition."""
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.examples, number), 7)


def lose_progress(world: World) -> None:
    """Delete the first records of each task's progress."""
    for number in range(PARTITIONS):
        world.broker.delete_before(TopicPartition(world.config.topics.progress, number), 3)


def empty_progress(world: World) -> None:
    """Delete all records of progress, as `kafka-delete-records.sh` does."""
    for number in range(PARTITIONS):
        place = TopicPartition(world.config.topics.progress, number)
        world.broker.delete_before(place, world.cluster.watermarks(place).high)


def recreate_progress(world: World) -> None:
    """Delete progress and create it again."""
    name = world.config.topics.progress
    world.broker.delete_topic(name)
    world.add_topic(name)


# The group's offsets --------------------------------------------------------------------------------------------------


def committed_offsets(world: World) -> dict[TopicPartition, int]:
    """Return the offsets that the group has committed."""
    return dict(world.broker.groups.group("app").offsets)


def _commit_offsets(world: World, offset: int) -> None:
    """Commit this offset for all inputs of the group."""
    for place in committed_offsets(world):
        world.broker.groups.group("app").offsets[place] = offset


def lose_offsets(world: World) -> None:
    """Delete the group, or let its offsets expire."""
    world.broker.groups.group("app").offsets.clear()


def lose_labels(world: World) -> None:
    """Delete the offsets of one topic."""
    for number in range(PARTITIONS):
        del world.broker.groups.group("app").offsets[TopicPartition(world.config.topics.labels, number)]


def to_the_first(world: World) -> None:
    """Reset the offsets as `kafka-consumer-groups.sh --reset-offsets --to-earliest` does."""
    _commit_offsets(world, 0)


def one_back(world: World) -> None:
    """Commit one offset less for the examples alone."""
    for place, known in committed_offsets(world).items():
        if place.topic == world.config.topics.examples:
            world.broker.groups.group("app").offsets[place] = known - 1


def beyond_the_end(world: World) -> None:
    """Commit offsets that the inputs do not have."""
    _commit_offsets(world, 1_000)
