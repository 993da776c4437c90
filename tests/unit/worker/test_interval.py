"""When the next transaction begins: an interval after the last one began, and later if that took long."""

from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.task_state import TaskState
from tests.support.world import PARTITIONS, World, make_config, started, take_turns

INTERVAL_S = 0.1

WEEK_S = 7 * 86_400.0


class _Timed(EmbeddedTransaction):
    """A transaction whose commit takes a time; it notes when each begins."""

    def __init__(self, world: World, takes_s: float) -> None:
        super().__init__(world.broker, "app-w")
        self.begun_s: list[float] = []
        self._clock, self._takes_s, self.frozen_s = world.clock, takes_s, 0.0

    def begin(self) -> None:
        """Note the time, at which the process may have been frozen."""
        self._clock.advance(self.frozen_s)
        self.frozen_s = 0.0
        self.begun_s.append(self._clock.monotonic_s())
        super().begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: object) -> None:
        """Take time."""
        self._clock.advance(self._takes_s)
        super().send_offsets(offsets, group)


@pytest.mark.parametrize(("takes_s", "period_s"), [(0.0, 0.1), (0.06, 0.1), (0.08, 0.1), (0.4, 0.5), (2.0, 2.5)])
def test_transactions_begin_an_interval_apart_or_leave_the_brokers_a_fifth_of_the_time(
    takes_s: float, period_s: float
) -> None:
    """An interval that began at the end of a transaction made predictions wait for both, one after the other."""
    world = World(make_config(worker={"commit_interval_ms": 1000 * INTERVAL_S, "max_batch_records": 1_000}))
    transaction = _Timed(world, takes_s)
    member = started(world.worker(transaction=transaction))
    take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
    first, sent = len(transaction.begun_s), 0
    while len(transaction.begun_s) < first + 8:
        world.send(1, first=sent)
        sent += 1
        world.clock.advance(INTERVAL_S / 100)
        member.turn()
    begun_s = transaction.begun_s[first + 2 :]
    assert [after - before for before, after in pairwise(begun_s)] == pytest.approx(
        [period_s] * (len(begun_s) - 1), abs=INTERVAL_S / 20
    )


def test_a_process_that_was_frozen_in_a_round_goes_to_the_next_one_soon() -> None:
    """A quarter of a frozen week is two days, in which the worker answered nothing and no alert said so."""
    world = World(make_config())
    transaction = _Timed(world, 0.0)
    member = started(world.worker(transaction=transaction))
    take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
    world.send(1)
    transaction.frozen_s = WEEK_S
    take_turns(member, until=lambda: transaction.begun_s[-1] > WEEK_S)
    rounds = len(transaction.begun_s)
    world.send(1, first=1)
    take_turns(member, until=lambda: len(transaction.begun_s) > rounds)
    assert transaction.begun_s[-1] - transaction.begun_s[-2] < 1.0


@pytest.mark.parametrize(("silent_s", "pause_s"), [(0.0, 0.4), (5.0, 0.1)])
def test_a_round_leaves_as_much_time_to_a_restore_as_it_took(
    monkeypatch: pytest.MonkeyPatch, silent_s: float, pause_s: float
) -> None:
    """A restore looks for answers between two rounds only: with 64 tasks, the last was live after twenty seconds.

    A restore whose brokers do not answer keeps nobody waiting.
    """
    world = World(make_config(worker={"commit_interval_ms": 1000 * INTERVAL_S}))
    member = started(world.worker())
    take_turns(member, until=lambda: [task.state for task in member.tasks] == [TaskState.LIVE] * PARTITIONS)
    restored = SimpleNamespace(state=TaskState.LOADING, silent_s=silent_s)
    monkeypatch.setitem(member._owned._tasks, PARTITIONS, restored)
    began_s = world.clock.monotonic_s()
    world.clock.advance(0.4)
    assert member._rounds._due_after(began_s) == pytest.approx(world.clock.monotonic_s() + pause_s)
