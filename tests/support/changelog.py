"""Worlds whose workers write snapshots, and readers of their changelogs."""

from collections.abc import Callable

import pytest

from stream_app.admin.progress.reading import named_snapshots
from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import UnknownOutcomeError
from stream_app.snapshot.format import Manifest, Snapshot
from stream_app.worker.worker import Worker
from tests.support.world import (
    PARTITIONS,
    World,
    all_at,
    make_config,
    never,
    started,
    take_turns,
)

EVERY = {"snapshot_after_ms": 0}
"""Takes a snapshot after every commit, as soon as the previous snapshot is complete."""


def snapshot_world(**sections: object) -> World:
    """Return a world whose workers take a snapshot after every commit."""
    worker = {**EVERY, **(sections.pop("worker", {}) or {})}  # type: ignore[dict-item]
    return World(make_config(worker=worker, **sections))


def changelog_of(world: World, number: int) -> TopicPartition:
    """Return the changelog partition of a task."""
    return TopicPartition(world.config.topics.changelog, number)


def snapshots_of(world: World, number: int) -> tuple[Snapshot, ...]:
    """Return the snapshots that the progress of a task names, newest first."""
    return named_snapshots(world.cluster, TopicPartition(world.config.topics.progress, number))


def manifest_at(world: World, number: int, offset: int) -> Manifest:
    """Return the manifest at an offset of the changelog."""
    records, *_ = world.broker.read(changelog_of(world, number), offset, 1)
    return Manifest.from_bytes(records.values[0] or b"", "test")


def is_idle(*members: Worker) -> Callable[[], bool]:
    """Return the condition that no snapshot is being written."""
    return lambda: not any(task.is_saving for member in members for task in member.tasks)


def saved_world(count: int = 20, lives: int = 3, first: int = 0) -> World:
    """Return a world whose workers have processed this number of records and taken a snapshot after the last commit."""
    world = snapshot_world()
    for life in range(lives):
        world.send(count // lives, first=first + life * (count // lives))
        member = started(world.worker())
        take_turns(member, until=all_at(member, (life + 1) * (count // lives)))
        take_turns(member, until=is_idle(member))
    return world


class _DyingUnnamed(EmbeddedTransaction):
    """A transaction whose process dies once each task has a whole snapshot that progress does not name."""

    def __init__(self, world: World) -> None:
        super().__init__(world.broker, world.config.transactional_id)
        self._world = world

    def commit(self) -> None:
        """Commit."""
        super().commit()
        if all(_has_unnamed(self._world, number) for number in range(PARTITIONS)):
            raise UnknownOutcomeError("killed")


def _has_unnamed(world: World, number: int) -> bool:
    whole = [key for key, value, *_ in world.rows("changelog", number) if value is not None and b"/manifest/" in key]
    named = [manifest_at(world, number, snapshot.manifest.offset).key for snapshot in snapshots_of(world, number)[:1]]
    return whole[-1:] != [f"{key}/0".encode() for key in named]


def die_unnamed(world: World) -> None:
    """Let a worker take snapshots and die before progress names them."""
    dying = world.worker(transaction=_DyingUnnamed(world))
    with pytest.raises(UnknownOutcomeError, match="killed"):
        dying.run(never())
