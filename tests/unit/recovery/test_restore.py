"""Worker and restore over the in-process log: turn by turn, with a clock that is moved by hand.

The same story is told twice, once undisturbed and once with something that goes wrong; the outputs must be the same.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from stream_app.backends.base import Committed, Fetched, LogReader, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import (
    ConfigurationError,
    ErrorCode,
    FencedAgainError,
    FencedError,
    StateError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from stream_app.records import Act, Commit, Example, Label, OutputRecords
from stream_app.recovery import progress_script
from stream_app.recovery.commit_point import CommitPoint, RestoreTarget, committed_target, parse_metadata
from stream_app.serialization import codec
from stream_app.snapshot.format import Place, Snapshot
from stream_app.task_state import TaskState
from stream_app.worker import worker
from stream_app.worker.batch_limits import BatchLimits
from stream_app.worker.observer import Observer
from stream_app.worker.ports import Ports
from stream_app.worker.worker import Worker
from tests.support.damage import (
    _commit_offsets,
    _foreign_offsets,
    _last,
    _lose_examples,
    _lose_labels_of,
    _lose_offsets,
    _lose_progress,
    _metadata,
    _new_topic,
    _newer_format,
    _older_offsets,
    _other_digest,
    _tripped_world,
)
from tests.support.world import (
    BREAKER,
    MAX_POLL_INTERVAL_S,
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
)

# Recovery -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [1, 2, 7])
def test_a_new_process_goes_on_bit_by_bit(lives: int) -> None:
    """However often the process was replaced, outputs and models are those of one life."""
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
    """What an aborted transaction had computed is thrown away with the state that computed it."""
    world = World()
    world.send(40)
    failing = _Failing(world.broker, dict.fromkeys((1, 3, 4, 9), TransactionAbortedError))
    member = _started(world.worker(transaction=failing))
    _turns(member, until=_all_at(member, 40))
    assert failing.commits > 9
    assert world.outputs() == _undisturbed(40)


def test_endless_aborts_end() -> None:
    """A transaction that no retry commits is no rebalance: after some tries the process starts afresh, and says why."""
    world = World()
    world.send(1)
    failing = _Failing(world.broker, dict.fromkeys(range(1, 100), TransactionAbortedError))
    with pytest.raises(UnknownOutcomeError, match=r"10 transactions in a row were aborted; the last: told to"):
        world.worker(transaction=failing).run(_never())


def test_a_rebalance_in_the_midst_of_a_restore() -> None:
    """A task that is taken away while it is restored leaves nothing behind; its new owner starts over."""
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
    """Weeks of commits are read as they are worked off: what is held at once is bounded."""
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
    """A worker with a smaller buffer than the one before still gets a whole range together."""
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


# The breaker ----------------------------------------------------------------------------------------------------------


def test_tripped_then_resumed() -> None:
    """The task stands until the record comes, and loses nothing that came meanwhile; the other goes on."""
    world, member = _tripped_world()
    world.send(6, first=20)
    _turns(member, until=lambda: member.tasks[1].offsets == (12, 12))
    assert member.tasks[0].offsets[0] == 9
    world.resume(0, member.tasks[0].point.sequence + 5)  # of another life: not for this stop
    for _ in range(5):
        member.turn()
    assert member.tasks[0].state is TaskState.TRIPPED


def test_resume_is_heard() -> None:
    """The right record lets it go on; told twice, it is heard once."""
    world, member = _tripped_world()
    sequence = member.tasks[0].point.sequence + 1
    world.resume(0, sequence)
    world.resume(0, sequence)
    world.send(6, first=20)
    _turns(member, until=lambda: member.tasks[0].offsets == (15, 12))
    again = _started(world.worker())
    _turns(again, until=lambda: len(again.tasks) == 2 and again.tasks[0].offsets == (15, 12))
    _turns(again, until=lambda: again.tasks[0].state is TaskState.LIVE)


@pytest.mark.parametrize("clock", [ManualClock, _Ticking])
def test_a_stop_in_the_past_is_history(clock: type[ManualClock]) -> None:
    """Restoring passes a trip and its resume wherever a slice ends, and does not take the trip for the present."""
    world, member = _tripped_world()
    world.resume(0, member.tasks[0].point.sequence + 1)
    world.send(10, first=20)
    _turns(member, until=lambda: member.tasks[0].offsets == (19, 16) and member.tasks[1].offsets == (16, 16))
    world.use(clock())
    again = _started(world.worker())
    _turns(again, until=lambda: len(again.tasks) == 2 and all(task.state is TaskState.LIVE for task in again.tasks))
    assert [task.offsets for task in again.tasks] == [(19, 16), (16, 16)]


def test_a_restarted_worker_stays_stopped() -> None:
    """Restarting is not mending."""
    world, _ = _tripped_world()
    again = _started(world.worker())
    _turns(again, until=lambda: [task.state for task in again.tasks] == [TaskState.TRIPPED, TaskState.LIVE])
    assert again.tasks[0].problem == "3 unreadable examples in a row (limit 3)"


# What cannot be restored ----------------------------------------------------------------------------------------------


def test_a_zombie_that_wakes_while_restoring_is_no_damage() -> None:
    """It reads what the next owner has recorded since: no reason to ask for an operator, who would find nothing."""
    world = World(_config(worker={"max_batch_records": 1}))
    world.send(4)
    zombie = _started(world.worker())
    zombie._poll(0.0)
    zombie._owned.own_new()
    other = _started(world.worker(_config(application={"instance": "two"})))
    _turns(other, until=_all_at(other, 4))
    zombie._restorer.run_slice()
    assert not zombie.tasks
    two = (zombie, other)
    _turns(*two, until=lambda: [task.offsets for member in two for task in member.tasks] == [(4, 4)] * 2)
    assert world.outputs() == _undisturbed(4)


def _processed(count: int = 20) -> World:
    world = World()
    world.send(count)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, count))
    return world


def test_one_parked_task_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """The line names the task and the way out; the other task goes on, and ends with status 0."""
    world = _processed()
    world.put("progress", 0, None, b"not ours")
    world.broker.delete_before(TopicPartition(world.config.topics.examples, 1), 0)
    member = world.worker()
    world.send(5, first=30)
    with caplog.at_level(logging.ERROR, "areba.worker"):
        member.run(lambda: any(task.offsets == (25, 25) for task in member.tasks))
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("parked task=0: progress[0] offset ")
    assert line.endswith(f"[{ErrorCode.STATE_UNUSABLE}]")


def _forged(world: World, number: int, **changed: Any) -> bytes:  # noqa: ANN401  (fields of a commit record)
    last = _last(world, number)
    values = {name: getattr(last, name) for name in Commit.__slots__}
    starts = {"examples_start": last.examples_end, "labels_start": last.labels_end}
    return codec.encode(Commit(**{**values, **starts, "sequence": last.sequence + 1, **changed}))


def _unequal_offsets(world: World) -> None:
    place = TopicPartition(world.config.topics.labels, 0)
    world.broker.groups.group("app").offsets[place] = Committed(20, "1 0 00")
    _lose_labels_of(world, 1)


def _forge_commit(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, digest=b"\1" * 32))
    _commit_offsets(world, lambda number: (_metadata(world, number), (20, 20)))


def _forge_ranges(world: World) -> None:
    for number in range(PARTITIONS):
        world.put("progress", number, None, _forged(world, number, examples_start=3, digest=b"\1" * 32))
    _commit_offsets(world, lambda number: (_metadata(world, number), (20, 20)))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_lose_offsets, ErrorCode.OFFSETS_LOST),
        (_lose_examples, ErrorCode.INPUTS_DELETED),
        (_lose_progress, ErrorCode.SNAPSHOT_MISSING),
        (_new_topic, ErrorCode.INPUTS_REPLACED),
        (_other_digest, ErrorCode.OFFSETS_RESET),
        (_older_offsets, ErrorCode.OFFSETS_RESET),
        (_foreign_offsets, ErrorCode.OFFSETS_RESET),
        (_newer_format, ErrorCode.FORMAT_UNKNOWN),
        (_unequal_offsets, ErrorCode.OFFSETS_RESET),
        (_forge_commit, ErrorCode.DIGEST_DIFFERS),
        (_forge_ranges, ErrorCode.STATE_UNUSABLE),
    ],
)
def test_state_that_does_not_fit(
    damage: Callable[[World], None], code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3 and one line with both numbers, before a single record is written."""
    monkeypatch.setattr("stream_app.recovery.progress_script.MAX_UNNAMED_COMMITS", 0)
    world = _processed()
    damage(world)
    before = world.outputs()
    with pytest.raises(StateError) as caught:
        world.worker().run(_never())
    assert caught.value.code is code
    assert "\n" not in str(caught.value)
    assert world.outputs() == before


@pytest.mark.parametrize("damage", [_lose_offsets, _older_offsets])
def test_offsets_whose_markers_were_lost_are_committed_again(damage: Callable[[World], None]) -> None:
    """A few commits in a row may have lost the markers of their offsets: progress has them."""
    world = _processed()
    before = world.broker.committed("app", list(world.broker.groups.group("app").offsets))
    outputs = world.outputs()
    damage(world)
    again = _started(world.worker())
    _turns(again, until=lambda: len(again.tasks) == PARTITIONS and all(t.state is TaskState.LIVE for t in again.tasks))
    assert {place: known and known.offset for place, known in world.broker.committed("app", list(before)).items()} == {
        place: known and known.offset for place, known in before.items()
    }
    assert world.outputs() == outputs


def test_metadata() -> None:
    """What is written with the offsets is read again; anything else is refused."""
    point = CommitPoint(7, bytes(range(32)))
    snapshots = (Snapshot(Place(12, 1, 300, "a" * 64), 7), Snapshot(Place(3, 64, 2, "b" * 64), 5))
    target = RestoreTarget(point, snapshots)
    assert parse_metadata(point.metadata(snapshots), "task 0") == target
    assert parse_metadata(f"1 7 {point.digest.hex()}", "of the first releases") == RestoreTarget(point)
    words = " ".join(["2 7", point.digest.hex(), *map(str, snapshots)])
    assert parse_metadata(words, "of areba 0.x") == target
    ids = ("hwuN0cXkTnuGmqm1VQYhKw", "4yVGZmaRSAKLhlPgYiPUwA")
    assert parse_metadata(point.metadata(snapshots, ids), "task 0") == RestoreTarget(point, snapshots, ids)
    inputs = (TopicPartition("examples", 0), TopicPartition("labels", 0))
    assert committed_target(inputs, {}) is None
    committed = {place: Committed(3, point.metadata(snapshots)) for place in inputs}
    assert committed_target(inputs, committed) == target
    with pytest.raises(StateError):
        committed_target(inputs, {inputs[0]: Committed(3, point.metadata()), inputs[1]: None})
    for wrong in ("", "3", f"3 7 {point.digest.hex()}", f"3 7 {point.digest.hex()} a,b,c", f"4 7 {point.digest.hex()}"):
        with pytest.raises(StateError):
            parse_metadata(wrong, "task 0")


class _Silent(EmbeddedCluster):
    """Its readers of this topic have nothing to say once a start has asked progress for the number of tasks."""

    def __init__(self, broker: EmbeddedBroker, topic: str = "progress") -> None:
        super().__init__(broker)
        self._topic = topic
        self._left = topic == "progress"  # a start reads how many tasks there are

    def answers_once(self) -> None:
        """The next reader has something to say."""
        self._left = True

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """A reader."""
        reader = super().reader(partition, committed=committed)
        if partition.topic.endswith(self._topic) and not self._left:
            reader.poll = lambda *_: None  # type: ignore[method-assign]
        self._left = False
        return reader


@pytest.mark.parametrize("topic", ["progress", "changelog"])
def test_a_restore_without_progress_is_given_up(topic: str) -> None:
    """A task that waits forever looks like one that works: after the timeout it says what it has and what it wants."""
    world = _processed()
    start_s = world.clock.monotonic_s()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        world.worker(cluster=_Silent(world.broker, topic)).run(_never())
    assert 60 < world.clock.monotonic_s() - start_s < MAX_POLL_INTERVAL_S + 63


def test_an_outage_is_no_fault_of_the_state() -> None:
    """While no broker can be reached nothing can be read: that time does not count."""
    world = _processed()
    member = world.worker(cluster=_Silent(world.broker), is_cut_off=lambda: True)
    member.run(lambda: world.clock.monotonic_s() > 1_000)
    assert [task.state for task in member.tasks] == []


def test_a_process_that_was_frozen_has_not_waited() -> None:
    """A laptop that slept, a container that was paused in mid-restore: it goes on where it was."""
    world = _processed()
    cluster = _Silent(world.broker)
    member = _started(world.worker(cluster=cluster))
    for _ in range(5):
        member.turn()
    world.clock.advance(MAX_POLL_INTERVAL_S - 5)
    member.turn()
    assert [task.state for task in member.tasks] == [TaskState.READING] * PARTITIONS
    cluster.answers_once()
    with pytest.raises(StateError, match=ErrorCode.NO_RECORDS):
        _turns(*[member] * 20, until=lambda: False)


# Configuration --------------------------------------------------------------------------------------------------------


def test_a_new_stream_is_recorded() -> None:
    """It holds from its act on: a later restore goes through both configurations."""
    world = _processed()
    more = _config(streams={"s0": {"features": 1}, "s1": {"features": 1}, "new": {"features": 1}})
    for expected in (21, 22):
        member = _started(world.worker(more))
        world.put("examples", 0, b"new", codec.encode(Example("new", str(expected), [1.0])), 1_000)
        _turns(member, until=partial(_reaches, member, (expected, 20)))
    kinds = [(record.sequence, record.kind) for record in world.progress(0) if isinstance(record, Act)]
    assert [kind for _, kind in kinds] == ["configuration", "configuration"]
    assert len(world.rows("dead-letters", 0)) == 0


def test_a_changed_setting_is_refused() -> None:
    """Status 2, one line a setting."""
    world = _processed()
    with pytest.raises(ConfigurationError, match=r"metrics.fading_factor: 0.99 -> 0.5"):
        world.worker(_config(metrics={"fading_factor": 0.5, "every_labels": 4})).run(_never())


def test_a_changed_setting_begins_with_the_batch_that_follows(caplog: pytest.LogCaptureFixture) -> None:
    """Until something comes, nothing has changed: the models that a stop tells are those that progress tells."""
    world = _processed()
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
    """Started, with all up to here processed."""
    _turns(_started(member), until=_all_at(member, offset))
    return member


# Groups and fencing ---------------------------------------------------------------------------------------------------


class _Forgetful(EmbeddedSource):
    """Loses its place in the group behind the worker's back, as a client does whose heartbeats were too late."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker, "app")
        self._asked = 0

    def group_metadata(self) -> object:
        """Our generation, before the group is joined and when it was."""
        self._asked += 1
        return super().group_metadata() if self._asked <= 2 else None


def test_the_generation_is_that_of_the_assignment() -> None:
    """A client that lost its place may have no generation left, and a broker takes offsets without one from anybody."""
    world = World()
    world.send(20)
    ports = Ports(
        _Forgetful(world.broker),
        EmbeddedTransaction(world.broker, "app/w"),
        world.cluster,
        world.clock,
        world.open_transaction,
    )
    member = _started(Worker(world.config, ports, Observer(world.clock)))
    _turns(member, until=_all_at(member, 20))


class _Fenced(EmbeddedTransaction):
    """Fenced at its first commit, after so long."""

    def __init__(self, world: World, after_s: float) -> None:
        super().__init__(world.broker, "app-w")
        self._clock = world.clock
        self._after_s = after_s

    def commit(self) -> None:
        """Fenced."""
        self._clock.advance(self._after_s)
        raise FencedError("told to")


@pytest.mark.parametrize(
    ("age_s", "open_s", "was_fenced", "again"),
    [
        (0.0, 0.1, False, False),  # somebody may have taken our id over while we started
        (20.0, 0.1, False, False),  # the first time: start again, and see
        (20.0, 0.1, True, True),  # the second time: two of one name
        (20.0, 11.0, True, False),  # open for long: timed out
        (301.0, 0.1, True, False),  # long ago
        (0.0, 11.0, False, False),
    ],
)
def test_who_was_fenced_by_whom(age_s: float, open_s: float, was_fenced: bool, again: bool) -> None:
    """Status 5 for a second worker of one name, 4 for a transaction that timed out, whatever the machine's speed."""
    world = World()
    member = world.worker(transaction=_Fenced(world, open_s), was_fenced=was_fenced)
    asked = 0

    def first_wait() -> bool:
        nonlocal asked
        asked += 1
        if asked == 10:
            world.clock.advance(age_s)
            world.send(1)
        return False

    with pytest.raises(FencedAgainError if again else FencedError) as caught:
        member.run(first_wait)
    assert caught.value.exit_code == (5 if again else 4)
    if again:
        assert "another worker runs as 'w'; give each its own application.instance" in str(caught.value)


def test_a_closing_error_does_not_hide_the_first(caplog: pytest.LogCaptureFixture) -> None:
    """The reason of the end is the one to report; that closing failed too is a line in the log."""
    world = World()
    member = world.worker()

    def fail() -> None:
        raise OSError("closing")

    member._ports.source.close = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        member.run(lambda: 1 // 0 == 0)
    assert [record.getMessage() for record in caplog.records] == ["closing failed"]


# The loop -------------------------------------------------------------------------------------------------------------


class _Polls(EmbeddedSource):
    """Notes how long each poll may wait."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker, "app")
        self.waits: list[float] = []

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Poll."""
        self.waits.append(timeout_s)
        return super().poll(max_records, timeout_s)


def test_an_idle_worker_sleeps() -> None:
    """Records that must wait for the other side are no reason to spin; nor is a task that stands."""
    world = World(_config(**BREAKER))
    source = _Polls(world.broker)
    ports = Ports(
        source, EmbeddedTransaction(world.broker, "app/w"), world.cluster, world.clock, world.open_transaction
    )
    member = _started(Worker(world.config, ports, Observer(world.clock)))
    world.send(5)
    for _ in range(3):
        world.put("examples", 1, None, b"garbage", 100)
    _turns(member, until=lambda: [task.state for task in member.tasks] == [TaskState.LIVE, TaskState.TRIPPED])
    # an open transaction of a producer holds the labels of task 0 back: their end is not known
    writer = EmbeddedTransaction(world.broker, "producer", 1_000.0)
    writer.initialise()
    writer.begin()
    place = TopicPartition(world.config.topics.labels, 0)
    writer.produce(place, OutputRecords([None], [codec.encode(Label("s0", "4", 0))], [0]))
    member.tasks[0].waiting[1].at_end = False
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "99", [1.0])), 1_000)
    for _ in range(10):
        member.turn()
    assert len(member.tasks[0].waiting[0]) == 1
    assert source.waits[-5:] == [worker.IDLE_POLL_S] * 5


def test_a_batch_is_as_large_as_its_cost_allows() -> None:
    """Dear records make small batches, so that polls stay frequent; cheap ones grow up to the setting."""
    limits = BatchLimits(4_000)
    found = []
    for seconds in (0.01, 0.01, 0.01, 0.01, 0.15, 2.0, 0.15, 0.01):
        limits.learn(0, limits.limit(0), seconds)
        found.append(limits.limit(0))
    assert found == [1_000, 2_000, 4_000, 4_000, 4_000, 400, 400, 800]
    limits.learn(1, 1, 60.0)
    assert limits.limit(1) == 1
