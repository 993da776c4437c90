"""Rebalances: a task that stays continues as it is, unless another worker has committed for it."""

from collections.abc import Callable, Sequence

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.broker import TRANSACTION_TIMEOUT_S
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.record_columns import OutputRecords
from stream_app.task_state import TaskState
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.world import World, all_at, make_config, started, take_turns, undisturbed_outputs


class _Starts:
    """Records how each task became live."""

    def __init__(self, world: World) -> None:
        self.observer = Observer(world.clock)
        self.continued_tasks: list[int] = []
        self.restored_tasks: list[int] = []
        self.observer.subscribe(events.TaskContinued, lambda event: self.continued_tasks.append(event.task))
        self.observer.subscribe(events.TaskRestored, lambda event: self.restored_tasks.append(event.task))


def _live(members: Sequence[Worker], offset: int) -> bool:
    tasks = [task for member in members for task in member.tasks]
    return len(tasks) == 2 and all(task.state is TaskState.LIVE and task.offsets == (offset, offset) for task in tasks)


def test_a_task_that_stays_is_not_restored() -> None:
    """Two workers join and one leaves again: only the task that moves is restored, and nothing else changes."""
    world = World()
    first, second = _Starts(world), _Starts(world)
    world.send(20)
    stays = started(world.worker(observer=first.observer))
    take_turns(stays, until=all_at(stays, 20))
    assert sorted(first.restored_tasks) == [0, 1]

    other = make_config(application={"instance": "other"})
    comes = started(world.worker(other, observer=second.observer, joins=True))
    world.send(20, first=20)
    take_turns(stays, comes, until=lambda: bool(comes.tasks) and _live([stays, comes], 40))
    assert len(second.restored_tasks) == 1
    assert {*first.continued_tasks, *second.restored_tasks} == {0, 1}
    assert sorted(first.restored_tasks) == [0, 1]

    comes._close()
    world.send(20, first=40)
    take_turns(stays, until=all_at(stays, 60))
    assert sorted(first.restored_tasks) == sorted([0, 1, *second.restored_tasks])
    assert world.outputs() == undisturbed_outputs(20, 20, 20)


def test_a_task_is_restored_if_another_worker_has_committed_for_it() -> None:
    """A worker that stood still keeps its tasks in memory, and finds that progress is longer than its own."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    starts = _Starts(world)
    world.send(20)
    frozen = started(world.worker(observer=starts.observer))
    take_turns(frozen, until=lambda: all_at(frozen, 20)() and not any(task.is_saving for task in frozen.tasks))

    other = make_config(application={"instance": "other"}, worker={"snapshot_after_ms": 0})
    world.send(20, first=20)
    newer = started(world.worker(other))
    take_turns(newer, until=all_at(newer, 40))
    newer._close()

    world.send(20, first=40)
    take_turns(frozen, until=all_at(frozen, 60))
    assert starts.continued_tasks == []
    assert sorted(starts.restored_tasks) == [0, 0, 1, 1]
    assert world.outputs() == undisturbed_outputs(20, 20, 20)


def test_open_offsets_of_a_killed_worker_hold_nobody() -> None:
    """Nobody reads the group's offsets, so their transaction may stay open for as long as it likes."""
    world = World()
    world.send(20)
    other = make_config(application={"instance": "other"})
    killed = started(world.worker(other))
    heir = started(world.worker(joins=True))
    take_turns(killed, heir, until=lambda: bool(killed.tasks) and bool(heir.tasks) and _live([killed, heir], 20))

    examples = TopicPartition(world.config.topics.examples, killed.tasks[0].number)
    transaction = world.open_transaction(other.transactional_id)
    transaction.initialise()
    transaction.begin()
    source = killed._ports.source
    assert isinstance(source, EmbeddedSource)
    transaction.send_offsets({examples: 20}, source.group_metadata())
    world.broker.groups.leave(world.config.group_id, source._name)

    world.send(20, first=20)
    killed_s = world.clock.monotonic_s()
    take_turns(heir, until=all_at(heir, 40))
    assert world.clock.monotonic_s() - killed_s < TRANSACTION_TIMEOUT_S / 2
    assert world.outputs() == undisturbed_outputs(20, 20)


class _Late(EmbeddedTransaction):
    """A transaction before whose next record something happens."""

    happens: Callable[[], object] | None = None

    def produce(self, partition: TopicPartition, records: OutputRecords, offsets: list[int] | None = None) -> None:
        """Produce."""
        if self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
        super().produce(partition, records, offsets)


def test_a_worker_that_has_lost_a_task_commits_nothing_for_it() -> None:
    """Its records came after the next owner had looked for open transactions: the group must refuse them."""
    world = World()
    world.send(20)
    transaction = _Late(world.broker, world.config.transactional_id)
    loses = started(world.worker(transaction=transaction))
    take_turns(loses, until=all_at(loses, 20))
    owns = world.worker(make_config(application={"instance": "owns"}), joins=True)

    def lose() -> None:
        world.broker.groups.leave(world.config.group_id, loses._ports.source._name)  # type: ignore[attr-defined]
        take_turns(started(owns), until=all_at(owns, 40))

    transaction.happens = lose
    world.send(20, first=20)
    take_turns(loses, owns, until=lambda: transaction.happens is None and _live([loses, owns], 40))
    world.send(20, first=40)
    take_turns(loses, owns, until=lambda: _live([loses, owns], 60))
    assert world.outputs() == undisturbed_outputs(20, 20, 20)
