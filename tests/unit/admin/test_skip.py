"""Inputs were deleted before a task had processed them: it continues without them once an operator says so."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from stream_app.admin import skip as skip_module
from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.models import rebuild
from stream_app.admin.progress.reading import progress_of
from stream_app.admin.reset import reset
from stream_app.admin.skip import skip
from stream_app.backends.base import TopicPartition
from stream_app.errors import ErrorCode, StateError
from stream_app.progress_records import SKIP, Act, Commit
from stream_app.record_columns import OutputRecords
from stream_app.serialization import codec
from stream_app.snapshot.skipped_inputs import Gap
from stream_app.task_state import TaskState
from stream_app.verify.results import Code
from stream_app.verify.verify import verify
from stream_app.worker.worker import Worker
from tests.support.changelog import changelog_of, snapshots_of
from tests.support.damages.world import processed_world
from tests.support.world import MAX_POLL_INTERVAL_S, PARTITIONS, World, all_at, make_config, started, take_turns

pytestmark = pytest.mark.slow

COUNT = 40

OFTEN = {"snapshot_after_ms": 0}
NEVER = {"snapshot_after_ms": 3_600_000}


def _ran(*, snapshot_after_ms: int) -> tuple[World, Worker]:
    """Run a worker over this many records of each task, then kill it."""
    world, member = processed_world(COUNT, after_ms=snapshot_after_ms)
    _kill(world)
    return world, member


def _kill(world: World) -> None:
    world.clock.advance(MAX_POLL_INTERVAL_S + 1)


def _delete(world: World, before: int, topics: Sequence[str] = ("examples", "labels")) -> None:
    for number in range(PARTITIONS):
        for topic in topics:
            world.broker.delete_before(TopicPartition(getattr(world.config.topics, topic), number), before)


def _skip(world: World, tasks: Iterable[int] = (), *, dry_run: bool = False) -> list[str]:
    application = world.application()
    return list(skip(application, tasks, dry_run=dry_run))


def _gaps(world: World, number: int = 0) -> list[Gap]:
    acts = [record for record in world.progress(number) if isinstance(record, Act) and record.kind == SKIP]
    return [Gap.from_text(act.text) for act in acts]


def _parked(world: World) -> ErrorCode:
    """Return the code with which a worker ends that can restore none of its tasks."""
    member = started(world.worker())
    with pytest.raises(StateError) as caught:
        take_turns(member, until=lambda: _passes(world))  # some wait, for what a dead worker may hide
    _kill(world)
    return caught.value.code


def _passes(world: World) -> bool:
    """Advance the clock by one second; never stop the turns."""
    world.clock.advance(1.0)
    return False


def _check_continues(world: World, start: int, count: int = 20) -> Worker:
    """Check that a worker continues at this offset, and that its successor restores the same bits."""
    member = started(world.worker())
    take_turns(member, until=all_at(member, start))
    world.send(count, first=start)
    take_turns(member, until=all_at(member, start + count))
    _kill(world)
    again = started(world.worker())
    take_turns(again, until=all_at(again, start + count))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]
    _kill(world)
    return again


def _updates(member: Worker) -> int:
    task = member.tasks[0].live.task
    return int(task.stream("s0").learners[0].arrays()["updates"].sum())


def test_inputs_that_nobody_processed_are_gone() -> None:
    """If an application was stopped for longer than its topics keep records, records are lost, but no model."""
    world, member = _ran(**OFTEN)
    before = [task.live.model_digest() for task in member.tasks]
    world.send(30, first=COUNT)
    _delete(world, COUNT + 30)
    assert _parked(world) is ErrorCode.INPUTS_DELETED
    said = _skip(world, dry_run=True)
    assert _gaps(world) == []
    lost = (
        "skips 0 offsets of examples and 0 of labels that were processed after this state, "
        "and 30 offsets of examples and 30 of labels that were never processed"
    )
    assert said == [
        f"task {task.number}: would continue from the snapshot of sequence {task.position.anchor.sequence}: {lost}"
        for task in member.tasks
    ]
    assert [line.replace(": continues", ": would continue") for line in _skip(world)] == said
    again = started(world.worker())
    take_turns(again, until=all_at(again, COUNT + 30))
    assert [task.live.model_digest() for task in again.tasks] == before
    _kill(world)
    _check_continues(world, COUNT + 30)
    progress = TopicPartition(world.config.topics.progress, 0)
    recorded = progress_of(world.cluster, progress, world.cluster.watermarks(progress).low)
    commits = [record for record in recorded if isinstance(record, Commit)]
    assert (COUNT, COUNT + 30) in [(one.examples_end, two.examples_start) for one, two in pairwise(commits)]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_an_input_that_ends_with_a_transaction_was_processed(outcome: str) -> None:
    """After a quiet week in which retention deletes everything, a marker or aborted records are no lost input."""
    world = World(make_config(worker=OFTEN))
    world.send(COUNT)
    member = started(world.worker())
    take_turns(member, until=all_at(member, COUNT))
    producer = world.open_transaction("producer")
    producer.initialise()
    producer.begin()
    places = [partition for task in member.tasks for partition in task.inputs]
    for partition in places:
        producer.produce(partition, OutputRecords.of([b"s0"], [b"garbage"], [10 * COUNT]))
    getattr(producer, outcome)()
    take_turns(member, until=all_at(member, COUNT + 2))
    take_turns(member, until=lambda: not any(task.is_saving or task.live.snapshots.is_due() for task in member.tasks))
    _kill(world)
    for partition in places:
        world.broker.delete_before(partition, world.broker.watermarks(partition).high)
    assert [line.partition(": ")[2] for line in _skip(world)] == ["no input that it needs was deleted"] * PARTITIONS
    assert [view.problem for view in inspect(world.cluster, world.config).tasks] == [None] * PARTITIONS
    again = started(world.worker())
    take_turns(again, until=all_at(again, COUNT + 2))
    _kill(world)
    assert {one.code for one in verify(world.cluster, world.config).findings} == {Code.DELETED_RECORDS}
    _check_continues(world, COUNT + 2)


def test_retention_that_is_faster_than_a_running_worker() -> None:
    """The task that lost its inputs is parked and names the command that lets it continue; the other loses nothing."""
    world = World(make_config(worker=OFTEN))
    world.send(COUNT)
    member = started(world.worker())
    take_turns(member, until=all_at(member, COUNT))
    world.send(30, first=COUNT)
    for topic in (world.config.topics.examples, world.config.topics.labels):
        world.broker.delete_before(TopicPartition(topic, 0), COUNT + 10)
    take_turns(member, until=lambda: _offsets(member)[1] == COUNT + 30 and member.tasks[-1].state is TaskState.PARKED)
    assert member.tasks[-1].code is ErrorCode.INPUTS_DELETED
    world.send(10, first=COUNT + 30, partitions=[1])
    take_turns(member, until=lambda: _offsets(member)[1] == COUNT + 40)
    _kill(world)
    assert "skips 0 offsets of examples and 0 of labels that were processed" in _skip(world, [0])[0]
    again = started(world.worker())
    take_turns(again, until=lambda: _offsets(again) == {0: COUNT + 30, 1: COUNT + 40})


def _offsets(member: Worker) -> dict[int, int]:
    return {task.number: task.offsets[0] for task in member.tasks}


def test_a_skip_without_a_snapshot_publishes_no_output_twice() -> None:
    """Without a snapshot the models start untrained; committed outputs stay, and none is published twice."""
    world, _ = _ran(**NEVER)
    outputs = world.outputs()
    _delete(world, 7)
    assert _parked(world) is ErrorCode.INPUTS_DELETED
    [line, _] = _skip(world)
    assert line == (
        f"task 0: continues from untrained models: skips {COUNT} offsets of examples and {COUNT} of labels "
        "that were processed after this state, and 0 offsets of examples and 0 of labels that were never processed"
    )
    member = _check_continues(world, COUNT)
    assert _updates(member) == 20, "of the new ones alone"
    for partition, rows in world.outputs().items():
        assert rows[: len(outputs[partition])] == outputs[partition]
        assert partition[0] != "predictions" or len(rows) == COUNT + 20


def test_a_stream_that_was_reset_after_the_snapshot_that_is_left() -> None:
    """If the state from which a task continues does not have the stream yet, its reset has no effect."""
    world, _ = _ran(**NEVER)
    application = world.application()
    assert list(reset(application, "s0", 0))
    _delete(world, 7)
    assert _parked(world) is ErrorCode.INPUTS_DELETED
    _skip(world)
    _check_continues(world, COUNT)


def test_skip_changes_no_task_that_can_be_restored() -> None:
    """Run for all tasks, or twice, the command changes no task that can be restored."""
    world, _ = _ran(**OFTEN)
    assert _skip(world) == [f"task {number}: no input that it needs was deleted" for number in range(PARTITIONS)]
    world.send(30, first=COUNT)
    _delete(world, COUNT + 10)
    _skip(world, [1])
    assert [len(_gaps(world, number)) for number in range(PARTITIONS)] == [0, 1]
    _skip(world)
    assert [len(_gaps(world, number)) for number in range(PARTITIONS)] == [1, 1]
    assert _skip(world) == [f"task {number}: no input that it needs was deleted" for number in range(PARTITIONS)]


def test_a_second_skip_before_the_next_snapshot() -> None:
    """Batches that were processed after the first gap are lost with it if their inputs are deleted too."""
    world, _ = _ran(**NEVER)
    _delete(world, 7)
    _skip(world)
    _check_continues(world, COUNT)
    _delete(world, COUNT + 3)
    assert _parked(world) is ErrorCode.INPUTS_DELETED
    _skip(world)
    assert [gap.end for gap in _gaps(world)] == [(COUNT, COUNT), (COUNT + 20, COUNT + 20)]
    member = _check_continues(world, COUNT + 20)
    assert _updates(member) == 20
    point = member.tasks[0].offsets
    held = rebuild(world.application(), 0, point).task
    assert held.model_digests() == member.tasks[0].live.task.model_digests()


def test_a_skip_of_examples_or_labels_alone() -> None:
    """Topics may keep their records for different times."""
    world, _ = _ran(**OFTEN)
    world.send(30, first=COUNT)
    _delete(world, COUNT + 10, ["labels"])
    _skip(world)
    assert _gaps(world)[0].skipped == (0, 10)
    member = started(world.worker())
    take_turns(member, until=all_at(member, COUNT + 30))
    assert _updates(member) == COUNT + 20
    _kill(world)
    _check_continues(world, COUNT + 30)


def test_inspect_and_verify_know_of_a_skip() -> None:
    """A later operator sees what was done, and no damage where there is none."""
    world, _ = _ran(**NEVER)
    _delete(world, 7)
    broken = inspect(world.cluster, world.config)
    assert [view.state for view in broken.tasks] == [TaskState.PARKED] * PARTITIONS
    assert {view.command for view in broken.tasks} == {"areba state skip"}
    _skip(world)
    assert all(view.ok for view in inspect(world.cluster, world.config).tasks)
    _check_continues(world, COUNT)
    assert all(view.ok for view in inspect(world.cluster, world.config).tasks)
    report = verify(world.cluster, world.config)
    assert [note for note in report.notes if "accepted it: the task continues from untrained models" in note]
    assert not {Code.WRONG_RANGE, Code.WRONG_SEQUENCE} & {finding.code for finding in report.findings}


def test_a_gap_after_another_snapshot_is_refused() -> None:
    """A restore from another state would give other models; run again, the command names the state that is left."""
    world, _ = _ran(**OFTEN)
    world.send(30, first=COUNT)
    _delete(world, COUNT + 10)
    _skip(world)
    for number in range(PARTITIONS):  # both snapshots are lost
        changelog = TopicPartition(world.config.topics.changelog, number)
        world.broker.delete_before(changelog, world.cluster.watermarks(changelog).high)
    assert _parked(world) is ErrorCode.SKIP_MISFIT
    assert "from untrained models" in _skip(world)[0]
    member = started(world.worker())
    take_turns(member, until=lambda: _passes(world) or all_at(member, COUNT + 30)())
    assert _updates(member) == 20


def test_a_refused_skip_writes_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused command writes nothing, and its error says why."""
    world, _ = _ran(**NEVER)
    member = started(world.worker())
    take_turns(member, until=all_at(member, COUNT))
    with pytest.raises(StateError, match=r"workers are running.*\[in-use"):
        _skip(world)
    _kill(world)
    _delete(world, 7)
    monkeypatch.setattr(skip_module, "SCRIPT_RECORDS", 1)
    with pytest.raises(StateError, match=r"can be skipped.*\[skip-misfit"):
        _skip(world)
    monkeypatch.undo()
    _delete(world, 3, ["progress"])  # after the record of who wrote it, and its marker
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        _skip(world)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"behind":1,"digest":"x","end":[1,1],"processed":[0,0],"start":[0,0]}',
        '{"behind":1,"digest":"00","end":[1],"processed":[0,0],"start":[0,0]}',
        '{"behind":1,"digest":"00","end":[0,0],"processed":[0,0],"start":[1,1]}',
        '{"behind":-2,"digest":"00","end":[1,1],"processed":[0,0],"start":[0,0]}',
    ],
)
def test_a_record_that_is_no_gap(text: str) -> None:
    """The error names the record, and no task continues from it."""
    with pytest.raises(StateError, match=ErrorCode.STATE_UNUSABLE):
        Gap.from_text(text)
    world, _ = _ran(**OFTEN)
    last = world.progress(0)[-1].sequence
    for number in range(PARTITIONS):
        world.put("progress", number, None, _act(last + 1, text))
    assert _parked(world) is ErrorCode.STATE_UNUSABLE


def _act(sequence: int, text: str) -> bytes:
    return codec.encode(Act(sequence, SKIP, "0", text))


def test_the_newest_snapshot_is_damaged() -> None:
    """The command and a restore choose the same snapshot."""
    world, _ = _ran(**OFTEN)
    for number in range(PARTITIONS):
        newest = snapshots_of(world, number)[0].manifest.offset
        entries = world.broker._log(changelog_of(world, number)).entries
        del entries[world.broker._log(changelog_of(world, number)).index(newest)]
    world.send(30, first=COUNT)
    _delete(world, COUNT + 10)
    assert all("skips 0 offsets" not in line for line in _skip(world))
    assert _skip(world) == [f"task {number}: no input that it needs was deleted" for number in range(PARTITIONS)]
    member = started(world.worker())
    take_turns(member, until=lambda: _passes(world) or all_at(member, COUNT + 30)())  # the snapshot might be hidden
    assert [len(task.report.damage) for task in member.tasks] == [1] * PARTITIONS
