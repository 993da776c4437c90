"""Worlds whose workers write snapshots, and readers of their changelogs."""

from collections.abc import Callable

from stream_app.backends.base import TopicPartition
from stream_app.recovery.commit_point import RestoreTarget, parse_metadata
from stream_app.snapshot.format import Manifest, read_manifest
from stream_app.worker.worker import Worker
from tests.support.world import (
    World,
    _all_at,
    _config,
    _started,
    _turns,
)

EVERY = {"snapshot_after_ms": 0}
"""Takes a snapshot after every commit, as soon as the previous snapshot is complete."""


def snapshot_world(**sections: object) -> World:
    """Return a world whose workers take a snapshot after every commit."""
    worker = {**EVERY, **(sections.pop("worker", {}) or {})}  # type: ignore[dict-item]
    return World(_config(worker=worker, **sections))


def changelog_of(world: World, number: int) -> TopicPartition:
    """Return the changelog partition of a task."""
    return TopicPartition(world.config.topics.changelog, number)


def target_of(world: World, number: int) -> RestoreTarget:
    """Return the restore target that the committed offsets of a task name."""
    place = TopicPartition(world.config.topics.examples, number)
    known = world.cluster.committed("app", [place])[place]
    assert known is not None
    return parse_metadata(known.metadata, "test")


def manifest_at(world: World, number: int, offset: int) -> Manifest:
    """Return the manifest at an offset of the changelog."""
    records, *_ = world.broker.read(changelog_of(world, number), offset, 1)
    return read_manifest(records.values[0] or b"", "test")


def is_idle(*members: Worker) -> Callable[[], bool]:
    """Return the condition that no snapshot is being written."""
    return lambda: not any(task.is_saving for member in members for task in member.tasks)


def saved_world(count: int = 20, lives: int = 3, first: int = 0) -> World:
    """Return a world whose workers have processed this number of records and taken a snapshot after the last commit."""
    world = snapshot_world()
    for life in range(lives):
        world.send(count // lives, first=first + life * (count // lives))
        member = _started(world.worker())
        _turns(member, until=_all_at(member, (life + 1) * (count // lives)))
        _turns(member, until=is_idle(member))
    return world
