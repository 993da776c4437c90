"""Worker and restore over the in-process log: turn by turn, with a clock that the tests advance.

Each test runs the same records twice, once undisturbed and once with a fault; the outputs must be the same.
"""

import logging
from functools import partial

import pytest

from stream_app.errors import (
    ConfigurationError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from stream_app.progress_records import Act, Commit
from stream_app.records import Example
from stream_app.recovery import progress_script
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker import worker
from stream_app.worker.worker import Worker
from tests.support.world import (
    PARTITIONS,
    FailingTransaction,
    TickingClock,
    World,
    all_at,
    all_beyond,
    make_config,
    never,
    reaches,
    started,
    take_turns,
    undisturbed_outputs,
    world_after,
)

# Recovery -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [1, 2, 7])
def test_a_new_process_continues_bit_by_bit(lives: int) -> None:
    """However often the process is replaced, outputs and models equal those of one process."""
    world = World()
    world.send(40)
    for life in range(lives):
        member = started(world.worker())
        target = 40 * (life + 1) // lives
        take_turns(member, until=all_beyond(member, target))
    assert world.outputs() == undisturbed_outputs(40)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 40))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_an_abort_leaves_no_trace() -> None:
    """The results of an aborted transaction are discarded with the state that computed them."""
    world = World()
    world.send(40)
    failing = FailingTransaction(world.broker, dict.fromkeys((1, 3, 4, 9), TransactionAbortedError))
    member = started(world.worker(transaction=failing))
    take_turns(member, until=all_at(member, 40))
    assert failing.commits > 9
    assert world.outputs() == undisturbed_outputs(40)


def test_endless_aborts_end() -> None:
    """If transaction after transaction is aborted, rebalances are not the cause: the process restarts, and says why."""
    world = World()
    world.send(1)
    failing = FailingTransaction(world.broker, dict.fromkeys(range(1, 100), TransactionAbortedError))
    with pytest.raises(UnknownOutcomeError, match=r"10 transactions in a row were aborted; the last: injected"):
        world.worker(transaction=failing).run(never())


def test_a_rebalance_in_the_midst_of_a_restore() -> None:
    """A task that is taken away while it is restored leaves no trace; its new owner starts over."""
    world = World(make_config(worker={"max_batch_records": 1}))
    world.send(30)
    first = started(world.worker())
    take_turns(first, until=all_at(first, 30))
    world.send(10, first=30)
    world.use(TickingClock())
    one = started(world.worker())
    take_turns(one, until=lambda: any(task.report.reprocessed_records > 4 for task in one.tasks))
    taken = one.tasks
    assert all(task.state is TaskState.REPROCESSING for task in taken)
    two = started(world.worker(make_config(application={"instance": "two"}), joins=True))
    take_turns(one, two, until=lambda: [task.offsets for m in (one, two) for task in m.tasks] == [(40, 40)] * 2)
    assert sorted(task.number for member in (one, two) for task in member.tasks) == [0, 1]
    assert not set(taken) & {*one.tasks, *two.tasks}
    assert world.outputs() == undisturbed_outputs(30, 10)


def test_stopping_while_restoring() -> None:
    """SIGTERM is heeded between two slices, and nothing is committed."""
    world = World()
    world.send(40)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 40))
    before = world.outputs(), [len(world.progress(number)) for number in range(PARTITIONS)]
    world.use(TickingClock())
    stopped = world.worker()
    stopped.run(lambda: any(task.state is TaskState.REPROCESSING for task in stopped.tasks))
    assert (world.outputs(), [len(world.progress(number)) for number in range(PARTITIONS)]) == before
    assert not stopped.tasks


def test_a_script_larger_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weeks of commits are read while they are processed again, so that only a bounded number is in memory."""
    world = World(make_config(worker={"max_batch_records": 1}))
    world.send(40)
    member = started(world.worker())
    take_turns(member, until=all_at(member, 40))
    assert len(world.progress(0)) > 60
    monkeypatch.setattr(progress_script, "SCRIPT_RECORDS", 8)
    monkeypatch.setattr(progress_script, "PROGRESS_RECORDS_PER_POLL", 3)
    again = started(world.worker())
    longest = 0

    def done() -> bool:
        nonlocal longest
        longest = max([longest, *(task.script_records for task in again.tasks)])
        return all_at(again, 40)()

    take_turns(again, until=done)
    assert 0 < longest <= 8 + 3
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_a_recorded_range_larger_than_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with a smaller buffer than its predecessor still collects a complete range."""
    big = "x" * 60
    world = World(make_config(worker={"max_batch_records": 1_000}))
    monster = [codec.encode(Example("s0", f"{number:04d}{big}"[:64], [1.0])) for number in range(900)]
    for number, value in enumerate(monster):
        world.put("examples", 0, b"s0", value, number)
    member = started(world.worker())
    take_turns(member, until=partial(reaches, member, (900, 0)))
    largest = max(r.examples_end - r.examples_start for r in world.progress(0) if isinstance(r, Commit))
    assert largest > 200
    small = make_config(worker={"buffer_bytes": 1 << 16, "max_batch_records": 999}, limits={"max_record_bytes": 1_000})
    assert largest * 250 > small.worker.buffer_bytes
    monkeypatch.setattr(worker, "POLL_RECORDS", 50)
    again = started(world.worker())
    again._owned._config = small  # its limits are part of the task's settings, so the file could not have them
    take_turns(again, until=partial(reaches, again, (900, 0)))


# Configuration --------------------------------------------------------------------------------------------------------


def test_a_new_stream_is_recorded() -> None:
    """A new configuration applies from its act on: a later restore applies both configurations."""
    world = world_after()
    more = make_config(streams={"s0": {"features": 1}, "s1": {"features": 1}, "new": {"features": 1}})
    for expected in (21, 22):
        member = started(world.worker(more))
        world.put("examples", 0, b"new", codec.encode(Example("new", str(expected), [1.0])), 1_000)
        take_turns(member, until=partial(reaches, member, (expected, 20)))
    kinds = [(record.sequence, record.kind) for record in world.progress(0) if isinstance(record, Act)]
    assert [kind for _, kind in kinds] == ["configuration", "configuration"]
    assert len(world.rows("dead-letters", 0)) == 0


def test_a_changed_setting_is_refused() -> None:
    """The worker ends with status 2 and a line for each setting."""
    world = world_after()
    with pytest.raises(ConfigurationError, match=r"metrics.fading_factors: \[0.99\] -> \[0.5\]"):
        world.worker(make_config(metrics={"fading_factors": [0.5], "every_labels": 4})).run(never())


def test_a_changed_setting_begins_with_the_batch_that_follows(caplog: pytest.LogCaptureFixture) -> None:
    """Until a record comes nothing has changed: a stop logs the digest of the models that progress gives."""
    world = world_after()
    learners = {"areba": {"method": "areba", "budget": 4}, "new": {"method": "baseline"}}
    changed = make_config(learners=learners, metrics={"every_labels": 4})
    models = [task.live.model_digest() for task in _at(world.worker(), 20).tasks]
    with caplog.at_level(logging.INFO):
        member = _at(world.worker(changed), 20)
    assert [task.live.model_digest() for task in member.tasks] == models
    assert "learners.new: is new" in caplog.text
    world.send(5, first=20)
    take_turns(member, until=all_at(member, 25))
    assert [isinstance(record, Act) for record in world.progress(0)].count(True) == 2
    again = _at(world.worker(changed), 25)
    assert (
        [task.live.model_digest() for task in again.tasks]
        == [task.live.model_digest() for task in member.tasks]
        != models
    )


def _at(member: Worker, offset: int) -> Worker:
    """Start a worker and run it until all tasks are at this offset."""
    take_turns(started(member), until=all_at(member, offset))
    return member
