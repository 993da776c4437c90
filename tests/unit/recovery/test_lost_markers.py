"""Markers of transactions are lost (docs/lost_markers.md), and a snapshot depends on one of these transactions."""

from collections.abc import Callable, Hashable, Sequence

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.errors import FencedError
from stream_app.lost_markers.sweeps import sweep
from stream_app.task_state import TaskState
from stream_app.worker.worker import Worker
from tests.support.changelog import EVERY, is_idle, manifest_at, snapshots_of
from tests.support.lost_markers import MarkerLosingBroker
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns, undisturbed_outputs


def _world() -> tuple[World, MarkerLosingBroker]:
    """Return a world whose workers take a snapshot after every commit, and its broker."""
    world = World(make_config(worker=EVERY), broker_type=MarkerLosingBroker)
    assert isinstance(world.broker, MarkerLosingBroker)
    return world, world.broker


def _losing(is_chosen: Callable[[TopicPartition], bool]) -> Callable[[str, Sequence[Hashable]], set[Hashable]]:
    """Return the rule that commits get no markers in these partitions."""
    return lambda _, places: {one for one in places if isinstance(one, TopicPartition) and is_chosen(one)}


def _losing_nothing(*_: object) -> set[Hashable]:
    return set()


def _live(world: World, *members: Worker) -> Callable[[], bool]:
    """Return the condition that the workers have both tasks and process them; time passes while it is checked."""

    def is_true() -> bool:
        world.clock.advance(0.2)
        live = [task.number for member in members for task in member.tasks if task.state is TaskState.LIVE]
        return sorted(live) == [0, 1]

    return is_true


def test_a_snapshot_whose_name_was_lost_is_loaded_after_the_repair() -> None:
    """A task that was restored from an older snapshot would delete it as garbage; its inputs may be gone by then."""
    world, broker = _world()
    world.send(10)
    member = started(world.worker())
    take_turns(member, until=lambda: all_at(member, 10)() and len(snapshots_of(world, 0)) > 0 and is_idle(member)())
    before = snapshots_of(world, 0)
    place = TopicPartition(world.config.topics.progress, 0)
    task = next(task for task in member.tasks if task.number == 0)
    broker.loses_commit_markers = _losing(lambda one: one == place and bool(task.live.snapshots.unrecorded))
    world.send(10, first=10)
    take_turns(member, until=broker.hangs)
    assert snapshots_of(world, 0) == before
    broker.loses_commit_markers = _losing_nothing
    again = started(world.worker())
    take_turns(again, until=all_at(again, 20))
    restored = next(task for task in again.tasks if task.number == 0)
    repaired, *_ = snapshots_of(world, 0)
    assert repaired != before[0]
    assert restored.report.loaded_sequence == manifest_at(world, 0, repaired.manifest.offset).sequence
    take_turns(again, until=is_idle(again))
    assert world.outputs() == undisturbed_outputs(10, 10)


def test_a_first_commit_that_is_lost_leaves_no_snapshot() -> None:
    """Empty progress beside a snapshot means that progress was deleted, which parks the task."""
    world, broker = _world()
    world.send(5)
    broker.loses_commit_markers = _losing(lambda place: place.topic != world.config.topics.changelog)
    member = world.worker()
    member.run(all_at(member, 5))
    broker.loses_commit_markers = _losing_nothing
    for transactional_id in broker.hanging:
        broker.end_by_hand(transactional_id)
    assert [world.progress(number) for number in range(PARTITIONS)] == [[], []]
    again = started(world.worker())
    take_turns(again, until=all_at(again, 5))
    assert world.outputs() == undisturbed_outputs(5)


def _revoked_while_outcomes_hang() -> tuple[World, Worker, Worker]:
    """Return a worker that has lost its tasks while its last outcomes hang, and a second worker that joins."""
    world = World(broker_type=MarkerLosingBroker)
    broker = world.broker
    assert isinstance(broker, MarkerLosingBroker)
    is_cut_off = False
    world.send(5)
    one = started(world.worker(is_cut_off=lambda: is_cut_off))
    outcomes = TopicPartition(world.config.topics.outcomes, 0)
    broker.loses_commit_markers = _losing(lambda place: place == outcomes)
    take_turns(one, until=all_at(one, 5))
    broker.loses_commit_markers = _losing_nothing
    two = started(world.worker(make_config(application={"instance": "two"}), joins=True))
    is_cut_off = True  # so the revocation saves nothing, and waits for no marker
    take_turns(one, until=lambda: not one.tasks)
    is_cut_off = False
    return world, one, two


def test_a_task_that_comes_back_repairs_what_hangs() -> None:
    """What hangs is ended by an abort: a task that continued as it was would have lost these outputs for ever."""
    world, one, two = _revoked_while_outcomes_hang()
    take_turns(one, two, until=_live(world, one, two))
    assert [task.number for task in one.tasks] == [0]
    assert world.outputs() == undisturbed_outputs(5)


def test_a_task_that_comes_back_is_not_continued_after_a_newer_process_ended_what_hangs() -> None:
    """A newer process of the same name aborts what hangs: nothing shows then that a commit of the task was lost."""
    world, one, two = _revoked_while_outcomes_hang()
    newer = world.open_transaction(world.config.transactional_id)
    sweep(newer, world.config.transactional_id, [TopicPartition(world.config.topics.outcomes, 0)])
    newer.close()
    with pytest.raises(FencedError):
        take_turns(one, two, until=_live(world, one, two))
    again = started(world.worker())
    take_turns(again, until=_live(world, again))
    assert world.outputs() == undisturbed_outputs(5)
