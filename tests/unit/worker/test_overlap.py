"""A full batch is computed while the transaction before it is running, and what is committed is the same."""

from collections.abc import Callable, Sequence

import pytest

from stream_app.backends.base import Fetched
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import ForeignRecordsError, TransactionAbortedError
from stream_app.worker import batch_limits, rounds, worker
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns, undisturbed_outputs

RECORDS = 60
"""Of each input of each task: a dozen full batches."""

SLOW_S = 0.2
"""How long a slow transaction takes."""

POLL_S = 0.01
"""How long a poll takes."""


class _Overlapping(EmbeddedTransaction):
    """A transaction whose work runs when its result is asked for; it writes down when things happen.

    Attributes:
        story: `start`, `end` of work in the background, `commit` of any transaction, and `batch` for each computation.
        aborted: Numbers of the works that are aborted at their commit.
    """

    def __init__(self, world: World, aborted: Sequence[int] = ()) -> None:
        super().__init__(world.broker, "app-w")
        self.world = world
        self.story: list[str] = []
        self._aborted = aborted
        self._is_aborted = False

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Note the work, and do it later."""
        self.story.append("start")
        number = self.story.count("start")

        def result() -> bool:
            self.story.append("end")
            self._is_aborted = number in self._aborted
            return work()

        return result

    def commit(self) -> None:
        """Commit, or abort."""
        if self._is_aborted:
            self._is_aborted = False
            self.story.append("abort")
            self.abort()
            raise TransactionAbortedError("injected")
        self.story.append("commit")
        super().commit()


def _observer(world: World, transaction: _Overlapping) -> Observer:
    """Return an observer that writes down when a batch is computed."""
    observer = Observer(world.clock)

    def began(event: events.StepBegan) -> None:
        if "a batch" in event.what:
            transaction.story.append("batch")

    observer.subscribe(events.StepBegan, began)
    return observer


def _member(world: World, transaction: _Overlapping) -> Worker:
    return started(world.worker(transaction=transaction, observer=_observer(world, transaction)))


def _runs(story: Sequence[str]) -> list[Sequence[str]]:
    """Return what happened from each start to its end."""
    starts = [place for place, what in enumerate(story) if what == "start"]
    return [story[place + 1 : story.index("end", place)] for place in starts]


def test_a_full_batch_is_computed_while_a_transaction_runs() -> None:
    """With a backlog, half of a worker's time went into waiting for transactions."""
    world = World()
    world.send(RECORDS)
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    take_turns(member, until=all_at(member, RECORDS))
    runs = _runs(transaction.story)
    assert len(runs) > 5
    assert all({*run} <= {"batch"} for run in runs), "one transaction at a time, and nothing else happens meanwhile"
    assert sum("batch" in run for run in runs) > len(runs) - 3
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_a_full_round_of_small_batches_is_computed_while_a_transaction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many partitions, no batch of a task is full, and the worker waited for each of its transactions."""
    monkeypatch.setattr(rounds, "FULL_RECORDS", 5 * PARTITIONS)
    world = World(make_config(worker={"max_batch_records": 1_000}))
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
    for first in range(0, RECORDS, 5):
        world.send(5, first=first)
        member.turn()
    take_turns(member, until=all_at(member, RECORDS))
    assert sum("batch" in run for run in _runs(transaction.story)) > 3


class _Slow(_Overlapping):
    """A transaction that ends `SLOW_S` after its start."""

    def start(self, work: Callable[[], bool]) -> Callable[[], bool]:
        """Note the work, and do it later."""
        clock, end_s = self.world.clock, self.world.clock.monotonic_s() + SLOW_S
        result = super().start(work)

        def late() -> bool:
            clock.advance(max(0.0, end_s - clock.monotonic_s()))
            return result()

        return late


def test_records_gather_while_a_transaction_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction costs time for each partition: if each carried only a few records, its lag would grow."""
    monkeypatch.setattr(rounds, "FULL_RECORDS", PARTITIONS)
    world = World(make_config(worker={"max_batch_records": 1_000}))
    transaction = _Slow(world)
    member = _member(world, transaction)
    take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
    begin_s, poll, sent = world.clock.monotonic_s(), member._ports.source.poll, 0

    def steady(max_records: int, _: float) -> Sequence[Fetched]:
        nonlocal sent
        world.clock.advance(POLL_S)
        world.send(1, first=sent)
        sent += 1
        return poll(max_records, 0.0)

    monkeypatch.setattr(member._ports.source, "poll", steady)
    while world.clock.monotonic_s() < begin_s + 20 * SLOW_S:
        member.turn()
    assert transaction.story.count("start") > 15
    records = sum(sum(task.offsets) for task in member.tasks)
    assert records > 4 * 2 * PARTITIONS * transaction.story.count("commit"), "what came in more than four polls"


def test_a_worker_with_many_tasks_takes_more_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 64 partitions, a poll that takes as much as with one leaves a hundred records for each transaction."""
    monkeypatch.setattr(worker, "POLL_RECORDS", 5)
    monkeypatch.setattr(worker, "TASK_RECORDS", 4)
    world = World()
    member = _member(world, _Overlapping(world))
    polls: list[int] = []
    poll = member._ports.source.poll

    def noted(max_records: int, timeout_s: float) -> Sequence[Fetched]:
        polls.append(max_records)
        return poll(max_records, timeout_s)

    monkeypatch.setattr(member._ports.source, "poll", noted)
    world.send(RECORDS)
    take_turns(member, until=all_at(member, RECORDS))
    assert polls[0] == 5, "it has no tasks yet"
    assert polls[-1] == 4 * PARTITIONS
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_a_round_that_has_taken_long_leaves_the_other_tasks_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tasks with costly learners would otherwise keep the group waiting for the sum of their batches."""
    monkeypatch.setattr(batch_limits, "ROUND_S", -1.0)
    world = World()
    world.send(RECORDS)
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    take_turns(member, until=all_at(member, RECORDS))
    computed = "".join(what[0] for what in transaction.story if what in {"batch", "commit"})
    assert "bb" not in computed.replace("bc", ""), "a round has one task"
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_at_a_low_rate_nothing_overlaps() -> None:
    """Where a round takes all that is there, a batch costs little, and its outputs would only be reported later."""
    world = World()
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    for number in range(5):
        world.send(1, first=number)
        take_turns(member, until=all_at(member, number + 1))
    assert transaction.story.count("commit") >= 5
    assert "start" not in transaction.story
    assert world.outputs() == undisturbed_outputs(1, 1, 1, 1, 1)


def test_a_batch_that_was_computed_ahead_is_lost_with_the_transaction_before_it() -> None:
    """Its models have learned from a batch that was never committed: its outputs could not be computed again."""
    world = World()
    world.send(RECORDS)
    transaction = _Overlapping(world, aborted=(2, 5))
    member = _member(world, transaction)
    take_turns(member, until=all_at(member, RECORDS))
    assert transaction.story.count("abort") == 2
    for place, what in enumerate(transaction.story):
        if what == "abort":
            assert transaction.story[place - 2 : place] == ["batch", "end"]
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_a_transaction_that_runs_is_settled_before_its_tasks_are_given_up() -> None:
    """A task that is kept, or saved, without its last commit would later be taken for another owner's."""
    world = World(make_config(worker={"max_batch_records": 4}))
    world.send(RECORDS)
    transaction = _Overlapping(world)
    stays = _member(world, transaction)
    take_turns(stays, until=lambda: _is_running(transaction))
    comes = started(world.worker(make_config(application={"instance": "other"}), joins=True))
    take_turns(stays, comes, until=lambda: bool(comes.tasks) and bool(stays.tasks))
    take_turns(
        stays,
        comes,
        until=lambda: (
            sorted(task.offsets for one in (stays, comes) for task in one.tasks) == [(RECORDS, RECORDS)] * PARTITIONS
        ),
    )
    assert all("commit" not in run and "start" not in run for run in _runs(transaction.story))
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_a_transaction_that_runs_is_settled_at_a_stop() -> None:
    """Otherwise the models of the log line, and the last snapshot, would be ahead of the committed offsets."""
    world = World()
    world.send(RECORDS)
    transaction = _Overlapping(world)
    member = world.worker(transaction=transaction, observer=_observer(world, transaction))
    member.run(lambda: _is_running(transaction))
    assert transaction.story.count("start") == transaction.story.count("end") == 1
    next_one = started(world.worker())
    take_turns(next_one, until=all_at(next_one, RECORDS))
    assert world.outputs() == undisturbed_outputs(RECORDS)


def test_snapshots_are_taken_and_never_of_a_batch_that_is_ahead() -> None:
    """A snapshot that holds more than its commit record says makes every later restore wrong."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    world.send(RECORDS)
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    take_turns(member, until=lambda: all_at(member, RECORDS)() and not any(task.is_saving for task in member.tasks))
    assert world.rows("changelog", 0)
    assert "start" not in transaction.story, "a snapshot is always due, or being written"


def test_records_of_another_writer_are_found_while_rounds_overlap() -> None:
    """A consumer would take the records of another application for predictions."""
    world = World()
    world.send(RECORDS)
    transaction = _Overlapping(world)
    member = _member(world, transaction)
    take_turns(member, until=lambda: _is_running(transaction))
    for _ in range(3):
        world.put("predictions", 0, b"s0", b"somebody else's")
    with pytest.raises(ForeignRecordsError):
        take_turns(member, until=all_at(member, RECORDS))


def _is_running(transaction: _Overlapping) -> bool:
    return transaction.story.count("start") > transaction.story.count("end")
