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
from stream_app.records import Act, Commit, Example
from stream_app.recovery import progress_script
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker import worker
from stream_app.worker.worker import Worker
from tests.support.world import (
    PARTITIONS,
    World,
    _all_at,
    _all_beyond,
    _config,
    _Failing,
    _never,
    _reaches,
    _started,
    _Ticking,
    _turns,
    _undisturbed,
    _world_after,
)

# Recovery -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [1, 2, 7])
def test_a_new_process_continues_bit_by_bit(lives: int) -> None:
    """However often the process is replaced, outputs and models equal those of one process."""
    world = World()
    world.send(40)
    for life in range(lives):
        member = _started(world.worker())
        target = 40 * (life + 1) // lives
        _turns(member, until=_all_beyond(member, target))
    assert world.outputs() == _undisturbed(40)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 40))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_an_abort_leaves_no_trace() -> None:
    """The results of an aborted transaction are discarded with the state that computed them."""
    world = World()
    world.send(40)
    failing = _Failing(world.broker, dict.fromkeys((1, 3, 4, 9), TransactionAbortedError))
    member = _started(world.worker(transaction=failing))
    _turns(member, until=_all_at(member, 40))
    assert failing.commits > 9
    assert world.outputs() == _undisturbed(40)


def test_endless_aborts_end() -> None:
    """If transaction after transaction is aborted, rebalances are not the cause: the process restarts, and says why."""
    world = World()
    world.send(1)
    failing = _Failing(world.broker, dict.fromkeys(range(1, 100), TransactionAbortedError))
    with pytest.raises(UnknownOutcomeError, match=r"10 transactions in a row were aborted; the last: injected"):
        world.worker(transaction=failing).run(_never())


def test_a_rebalance_in_the_midst_of_a_restore() -> None:
    """A task that is taken away while it is restored leaves no trace; its new owner starts over."""
    world = World(_config(worker={"max_batch_records": 1}))
    world.send(30)
    first = _started(world.worker())
    _turns(first, until=_all_at(first, 30))
    world.send(10, first=30)
    world.use(_Ticking())
    one = _started(world.worker())
    _turns(one, until=lambda: any(task.report.replayed_records > 4 for task in one.tasks))
    taken = one.tasks
    assert all(task.state is TaskState.REPLAYING for task in taken)
    two = _started(world.worker(_config(application={"instance": "two"}), joins=True))
    _turns(one, two, until=lambda: [task.offsets for m in (one, two) for task in m.tasks] == [(40, 40)] * 2)
    assert sorted(task.number for member in (one, two) for task in member.tasks) == [0, 1]
    assert not set(taken) & {*one.tasks, *two.tasks}
    assert world.outputs() == _undisturbed(30, 10)


def test_stopping_while_restoring() -> None:
    """SIGTERM is heeded between two slices, and nothing is committed."""
    world = World()
    world.send(40)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, 40))
    before = world.outputs(), [len(world.progress(number)) for number in range(PARTITIONS)]
    world.use(_Ticking())
    stopped = world.worker()
    stopped.run(lambda: any(task.state is TaskState.REPLAYING for task in stopped.tasks))
    assert (world.outputs(), [len(world.progress(number)) for number in range(PARTITIONS)]) == before
    assert not stopped.tasks


def test_a_script_larger_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weeks of commits are read while they are replayed, so that only a bounded number is in memory."""
    world = World(_config(worker={"max_batch_records": 1}))
    world.send(40)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, 40))
    assert len(world.progress(0)) > 60
    monkeypatch.setattr(progress_script, "SCRIPT_RECORDS", 8)
    monkeypatch.setattr(progress_script, "PROGRESS_RECORDS_PER_POLL", 3)
    again = _started(world.worker())
    longest = 0

    def done() -> bool:
        nonlocal longest
        longest = max([longest, *(task.script_records for task in again.tasks)])
        return _all_at(again, 40)()

    _turns(again, until=done)
    assert 0 < longest <= 8 + 3
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_a_recorded_range_larger_than_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with a smaller buffer than its predecessor still collects a complete range."""
    big = "x" * 60
    world = World(_config(worker={"max_batch_records": 1_000}))
    monster = [codec.encode(Example("s0", f"{number:04d}{big}"[:64], [1.0])) for number in range(900)]
    for number, value in enumerate(monster):
        world.put("examples", 0, b"s0", value, number)
    member = _started(world.worker())
    _turns(member, until=partial(_reaches, member, (900, 0)))
    largest = max(r.examples_end - r.examples_start for r in world.progress(0) if isinstance(r, Commit))
    assert largest > 200
    small = _config(worker={"buffer_bytes": 1 << 16, "max_batch_records": 1_000}, limits={"max_record_bytes": 1_000})
    assert largest * 250 > small.worker.buffer_bytes
    monkeypatch.setattr(worker, "POLL_RECORDS", 50)
    again = _started(world.worker())
    again._owned._config = small  # its limits are part of the task's settings, so the file could not have them
    _turns(again, until=partial(_reaches, again, (900, 0)))


# Configuration --------------------------------------------------------------------------------------------------------


def test_a_new_stream_is_recorded() -> None:
    """A new configuration applies from its act on: a later restore applies both configurations."""
    world = _world_after()
    more = _config(streams={"s0": {"features": 1}, "s1": {"features": 1}, "new": {"features": 1}})
    for expected in (21, 22):
        member = _started(world.worker(more))
        world.put("examples", 0, b"new", codec.encode(Example("new", str(expected), [1.0])), 1_000)
        _turns(member, until=partial(_reaches, member, (expected, 20)))
    kinds = [(record.sequence, record.kind) for record in world.progress(0) if isinstance(record, Act)]
    assert [kind for _, kind in kinds] == ["configuration", "configuration"]
    assert len(world.rows("dead-letters", 0)) == 0


def test_a_changed_setting_is_refused() -> None:
    """The worker ends with status 2 and a line for each setting."""
    world = _world_after()
    with pytest.raises(ConfigurationError, match=r"metrics.fading_factor: 0.99 -> 0.5"):
        world.worker(_config(metrics={"fading_factor": 0.5, "every_labels": 4})).run(_never())


def test_a_changed_setting_begins_with_the_batch_that_follows(caplog: pytest.LogCaptureFixture) -> None:
    """Until a record comes nothing has changed: a stop logs the digest of the models that progress gives."""
    world = _world_after()
    learners = {"areba": {"method": "areba", "budget": 4}, "new": {"method": "baseline"}}
    changed = _config(learners=learners, metrics={"every_labels": 4})
    models = [task.live.model_digest() for task in _at(world.worker(), 20).tasks]
    with caplog.at_level(logging.INFO):
        member = _at(world.worker(changed), 20)
    assert [task.live.model_digest() for task in member.tasks] == models
    assert "learners.new: is new" in caplog.text
    world.send(5, first=20)
    _turns(member, until=_all_at(member, 25))
    assert [isinstance(record, Act) for record in world.progress(0)].count(True) == 2
    again = _at(world.worker(changed), 25)
    assert (
        [task.live.model_digest() for task in again.tasks]
        == [task.live.model_digest() for task in member.tasks]
        != models
    )


def _at(member: Worker, offset: int) -> Worker:
    """Start a worker and run it until all tasks are at this offset."""
    _turns(_started(member), until=_all_at(member, offset))
    return member
