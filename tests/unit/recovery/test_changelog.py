"""Snapshots on the changelog topic: a worker resumes from the newest complete one, and old ones are removed."""

import logging

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.errors import ArebaError, TransactionAbortedError, UnknownOutcomeError
from stream_app.live import snapshot_writer
from stream_app.record_columns import OutputRecords
from stream_app.records import Example
from stream_app.serialization import codec
from tests.support.changelog import (
    changelog_of,
    die_unnamed,
    is_idle,
    manifest_at,
    saved_world,
    snapshot_world,
    snapshots_of,
)
from tests.support.world import (
    PARTITIONS,
    DyingTransaction,
    FailingTransaction,
    World,
    all_at,
    all_beyond,
    make_config,
    never,
    started,
    take_turns,
    undisturbed_outputs,
)


def test_a_clean_stop_leaves_nothing_to_do_again() -> None:
    """SIGTERM, an update, SIGTERM: no record is processed twice, however long the application has run."""
    world = World()
    world.send(40)
    member = world.worker()
    member.run(all_at(member, 40))
    world.send(5, first=40)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 45))
    assert [task.report.reprocessed_records for task in again.tasks] == [0, 0]
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    assert world.outputs() == undisturbed_outputs(40, 5)


def test_a_revoked_task_is_saved_for_its_next_owner() -> None:
    """Joining and leaving the group reprocesses no record."""
    world = World()
    world.send(40)
    one = started(world.worker())
    take_turns(one, until=all_at(one, 40))
    two = started(world.worker(make_config(application={"instance": "two"}), joins=True))
    world.send(5, first=40)
    take_turns(one, two, until=lambda: [task.offsets for m in (one, two) for task in m.tasks] == [(45, 45)] * 2)
    assert [task.report.reprocessed_records for m in (one, two) for task in m.tasks] == [0, 0]
    assert world.outputs() == undisturbed_outputs(40, 5)


@pytest.mark.parametrize("lives", [2, 7])
def test_a_killed_worker_does_again_what_its_last_snapshot_does_not_have(lives: int) -> None:
    """The outputs equal those of one process, and only the last records are processed twice."""
    world = snapshot_world()
    world.send(70)
    for life in range(lives):
        member = started(world.worker())
        take_turns(member, until=all_beyond(member, 70 * (life + 1) // lives))
    again = started(world.worker())
    take_turns(again, until=all_at(again, 70))
    assert world.outputs() == undisturbed_outputs(70)
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]
    assert all(task.report.loaded_sequence > 0 and task.report.reprocessed_records < 100 for task in again.tasks)


def test_a_large_snapshot_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction grows with the state; a worker that is killed between two pieces leaves no half snapshot."""
    monkeypatch.setattr(snapshot_writer, "TRANSACTION_RECORDS", 1)
    monkeypatch.setattr("stream_app.snapshot.format.CHUNK_BYTES", 500)
    world = snapshot_world()
    world.send(70)
    for life in range(8):
        member = started(world.worker())
        take_turns(member, until=all_beyond(member, 8 * (life + 1)))
    take_turns(member, until=all_at(member, 70))
    take_turns(member, until=is_idle(member))
    assert world.outputs() == undisturbed_outputs(70)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 70))
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_an_abort_takes_its_part_of_a_snapshot_along() -> None:
    """The next owner does not rely on chunks that were never committed."""
    world = snapshot_world()
    world.send(60)
    failing = FailingTransaction(world.broker, dict.fromkeys((2, 3, 5, 8, 9, 10, 14), TransactionAbortedError))
    member = started(world.worker(transaction=failing))
    take_turns(member, until=all_at(member, 60))
    assert failing.commits > 14
    assert world.outputs() == undisturbed_outputs(60)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 60))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def _living_keys(world: World, number: int) -> set[bytes]:
    """Return the keys whose last record is not a tombstone: those that compaction keeps."""
    world.broker.compact(changelog_of(world, number))
    return {key for key, value, *_ in world.rows("changelog", number) if value is not None}


@pytest.mark.parametrize("is_saving", [True, False])
def test_a_stop_saves_what_an_aborted_transaction_left_unsaved(*, is_saving: bool) -> None:
    """Retention may delete the inputs before the next start: the restore that follows an abort belongs to the stop."""
    world = World()
    world.send(40)
    failures: dict[int, type[ArebaError]] = {}
    failing = FailingTransaction(world.broker, failures)
    member = world.worker(transaction=failing)
    reached = all_at(member, 40)

    def should_stop() -> bool:
        if reached() and not failures:
            failures[failing.commits + 1] = TransactionAbortedError
            world.send(10, first=40)
            return is_saving
        return member.aborts > 0

    member.run(should_stop)
    assert failing.commits > next(iter(failures))
    again = started(world.worker())
    take_turns(again, until=lambda: bool(again.tasks) and all(task.offsets >= (40, 40) for task in again.tasks))
    assert [task.report.reprocessed_records for task in again.tasks] == [0, 0]


@pytest.mark.slow
def test_nothing_is_left_in_the_changelog_for_good() -> None:
    """Whenever a writer dies, compaction finally keeps the keys that the two newest snapshots list, and no others."""
    world = snapshot_world()
    for commits in range(1, 12):
        world.send(30, first=30 * (commits - 1))
        dying = world.worker(transaction=DyingTransaction(world, commits))
        with pytest.raises(UnknownOutcomeError):
            dying.run(never())
    member = started(world.worker())
    total = 30 * 11
    take_turns(member, until=all_at(member, total))
    for more in range(4):  # what was dropped gets its tombstones with a later snapshot
        world.send(1, first=total + more)
        take_turns(member, until=all_at(member, total + more + 1))
        take_turns(member, until=is_idle(member))
    for number in range(PARTITIONS):
        values = {key: value for key, value, *_ in world.rows("changelog", number)}
        wanted: set[bytes] = set()
        dropped: set[bytes] = set()
        for snapshot in snapshots_of(world, number):
            manifest = manifest_at(world, number, snapshot.manifest.offset)
            wanted |= {f"{entry.key}/{chunk}".encode() for entry in manifest.entries for chunk in range(entry.chunks)}
            wanted.add(f"{manifest.sequence}/manifest/0".encode())
            dropped |= {f"{name}/{chunk}".encode() for name, chunks in manifest.dropped for chunk in range(chunks)}
        living = _living_keys(world, number)
        assert wanted <= living <= wanted | dropped
        assert len(values) > len(living)
    again = started(world.worker())
    take_turns(again, until=all_at(again, total + 4))
    assert [task.live.model_digest() for task in again.tasks] == [task.live.model_digest() for task in member.tasks]


def test_compaction_while_running() -> None:
    """Compaction at any moment never removes what a restore needs."""
    world = snapshot_world()
    for life in range(6):
        world.send(10, first=10 * life)
        member = started(world.worker())
        take_turns(member, until=all_beyond(member, 10 * life + 6))
        for number in range(PARTITIONS):
            world.broker.compact(changelog_of(world, number))
    take_turns(member, until=all_at(member, 60))
    assert world.outputs() == undisturbed_outputs(60)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 60))
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)


def test_a_quiet_stream_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Segments that no record changes are written once, and later snapshots list them again."""
    world = snapshot_world(streams={"s0": {"features": 1}, "s1": {"features": 1}, "quiet": {"features": 1}})
    world.put("examples", 0, b"quiet", codec.encode(Example("quiet", "1", [1.0])), 1)
    world.send(40)
    member = started(world.worker())
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(41, 40), (40, 40)])
    take_turns(member, until=is_idle(member))
    world.broker.compact(changelog_of(world, 0))
    newest = manifest_at(world, 0, snapshots_of(world, 0)[0].manifest.offset)
    written = {entry.stream: entry.offset for entry in newest.entries}
    assert written["quiet"] < written["s0"] - 4
    with caplog.at_level(logging.ERROR, "areba.worker"):
        again = started(world.worker())
        take_turns(again, until=lambda: len(again.tasks) == 2 and again.tasks[0].offsets == (41, 40))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert again.tasks[0].report.loaded_sequence == newest.sequence


def test_inputs_may_be_deleted_before_a_snapshot() -> None:
    """A restore never needs inputs from before its snapshot, so retention may be short."""
    world = saved_world(21)
    for number in range(PARTITIONS):
        for topic in (world.config.topics.examples, world.config.topics.labels):
            world.broker.delete_before(TopicPartition(topic, number), 21)
    world.send(9, first=21)
    again = started(world.worker())
    take_turns(again, until=all_at(again, 30))
    assert world.outputs() == undisturbed_outputs(7, 7, 7, 9)


def test_a_whole_snapshot_that_progress_does_not_name_is_not_used() -> None:
    """Outputs before it may be lost with the markers of its writer: only inputs from before it give them again."""
    world = saved_world(21)
    named = [snapshots_of(world, number) for number in range(PARTITIONS)]
    world.send(5, first=21)
    die_unnamed(world)
    assert [snapshots_of(world, number) for number in range(PARTITIONS)] == named
    again = started(world.worker())
    take_turns(again, until=all_at(again, 26))
    assert [task.report.loaded_sequence for task in again.tasks] == [
        manifest_at(world, number, named[number][0].manifest.offset).sequence for number in range(PARTITIONS)
    ]
    assert world.outputs() == undisturbed_outputs(7, 7, 7, 5)


def test_a_snapshot_is_not_named_before_it_can_be_read() -> None:
    """A restore would take a snapshot whose markers are lost with its writer, and find nothing there."""
    world = saved_world(21)
    named = [snapshots_of(world, number) for number in range(PARTITIONS)]
    member = started(world.worker())
    take_turns(member, until=all_at(member, 21))
    other = world.open_transaction("other")
    other.initialise()
    other.begin()
    other.produce(changelog_of(world, 0), OutputRecords.of([b"key"], [b"value"], [1]))
    other.flush()
    world.send(5, first=21)
    take_turns(member, until=all_at(member, 26))
    take_turns(member, until=lambda: snapshots_of(world, 1) != named[1])
    assert snapshots_of(world, 0) == named[0]
    other.abort()
    take_turns(member, until=lambda: snapshots_of(world, 0) != named[0])
