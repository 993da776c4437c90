"""Progress is trimmed as far as retention and the two newest snapshots allow; its readers accept the new beginning."""

import logging
from collections.abc import Sequence

import pytest

from stream_app.admin.explain import explain
from stream_app.admin.models import rebuild
from stream_app.backends.base import Fetched, LogReader, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.errors import ArebaError, ErrorCode, StateError, TopicError, UnknownOutcomeError
from stream_app.progress_records import Commit
from stream_app.serialization import codec
from stream_app.verify.verify import verify
from stream_app.worker.retention import progress_trimmer
from stream_app.worker.worker import Worker
from tests.support.changelog import snapshots_of
from tests.support.damages.world import processed_world
from tests.support.world import PARTITIONS, World, all_at, make_config, started, take_turns, undisturbed_outputs

pytestmark = pytest.mark.slow

COUNT = 60


def _place(world: World, topic: str, number: int) -> TopicPartition:
    return TopicPartition(getattr(world.config.topics, topic), number)


def _retain(world: World, examples: int, labels: int, numbers: Sequence[int] = range(PARTITIONS)) -> None:
    """Delete the inputs below these offsets, as retention does."""
    for number in numbers:
        world.broker.delete_before(_place(world, "examples", number), examples)
        world.broker.delete_before(_place(world, "labels", number), labels)


def _begin(world: World, number: int = 0) -> int:
    return world.cluster.watermarks(_place(world, "progress", number)).low


def _commits(world: World, number: int = 0) -> list[tuple[int, Commit]]:
    """Return the commits that are left, with their offsets."""
    place = _place(world, "progress", number)
    low, high = world.cluster.watermarks(place)
    records, *_ = world.broker.read(place, low, high)
    found = zip(records.offsets.tolist(), map(codec.decode_one, filter(None, records.values)), strict=True)
    return [(offset, record) for offset, record in found if isinstance(record, Commit)]


def _more(world: World, member: Worker, total: int) -> None:
    """Process more records, wait until a later snapshot is named and progress has been checked."""
    world.clock.advance(progress_trimmer.TRIM_INTERVAL_S)
    world.send(6, first=total - 6)
    take_turns(member, until=all_at(member, total))
    take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
    take_turns(member, until=lambda: not any(task.trimmer.is_busy for task in member.tasks))


def _trimmed(examples: int = 40, labels: int = 30) -> tuple[World, Worker]:
    """Return a world whose progress begins after the commits whose inputs retention has deleted."""
    world, member = processed_world(COUNT)
    _retain(world, examples, labels)
    _more(world, member, COUNT + 6)
    return world, member


@pytest.mark.parametrize(("examples", "labels"), [(40, 30), (30, 40), (40, 0), (0, 40), (0, 0)])
def test_commits_without_their_inputs_are_deleted(examples: int, labels: int) -> None:
    """A worker deletes exactly the commits whose inputs were deleted on both sides."""
    world, member = processed_world(COUNT)
    before = {number: _commits(world, number) for number in range(PARTITIONS)}
    _retain(world, examples, labels)
    _more(world, member, COUNT + 6)
    for number in range(PARTITIONS):
        useless = [at for at, one in before[number] if one.examples_end <= examples and one.labels_end <= labels]
        assert len(useless) > 3 or not (examples and labels)
        assert _begin(world, number) == max(useless, default=-1) + 1
        assert len(_commits(world, number)) > 5


def test_a_new_worker_continues_after_trimmed_progress() -> None:
    """The outputs equal an undisturbed run's outputs."""
    world, _ = _trimmed()
    again = started(world.worker())
    _more(world, again, COUNT + 12)
    assert all(task.report.loaded_sequence > 0 for task in again.tasks)
    assert world.outputs() == undisturbed_outputs(COUNT, 6, 6)


def test_both_snapshots_can_still_be_used() -> None:
    """Even if all inputs are deleted, progress that the older of the two snapshots needs is kept."""
    world, member = processed_world(COUNT)
    before = _commits(world)
    _retain(world, COUNT, COUNT)
    _more(world, member, COUNT + 6)
    oldest = min(snapshot.progress_offset for snapshot in snapshots_of(world, 0))
    assert len(snapshots_of(world, 0)) == 2
    assert 0 < _begin(world) <= oldest
    assert oldest in [offset for offset, _ in _commits(world)]
    _more(world, member, COUNT + 12)
    useless = [offset for offset, one in before if max(one.examples_end, one.labels_end) <= COUNT]
    assert _begin(world) == useless[-1] + 1, "what that snapshot needed is no longer needed"


class _Watching(EmbeddedCluster):
    """A cluster that compares every deletion with the snapshots that progress names at that moment."""

    def __init__(self, world: World) -> None:
        super().__init__(world.broker)
        self._world = world
        self.deleted = 0

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete."""
        self.deleted += 1
        named = snapshots_of(self._world, partition.partition)
        assert before <= min(snapshot.progress_offset for snapshot in named)
        return super().delete_records(partition, before)


def test_no_snapshot_that_is_named_is_undercut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither snapshot loses what it needs while the next is written, which may be damaged, or lose its writer."""
    monkeypatch.setattr(progress_trimmer, "TRIM_INTERVAL_S", 0.0)
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    watching = _Watching(world)
    member = started(world.worker(cluster=watching))
    world.send(3 * COUNT)

    def done() -> bool:
        for task in member.tasks:
            _retain(world, *task.offsets, numbers=[task.number])
            while task.trimmer.is_busy:  # before anything else is committed
                task.trimmer.step()
        return all_at(member, 3 * COUNT)()

    take_turns(member, until=done)
    assert watching.deleted > 5


class _Counting(EmbeddedCluster):
    """A cluster that counts requests, and refuses or ignores them if a test says so."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker)
        self.deleted: list[int] = []
        self.readers = 0
        self.failure: ArebaError | None = None

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader."""
        self.readers += partition.topic.endswith("progress")
        return super().reader(partition, committed=committed)

    def delete_records(self, partition: TopicPartition, before: int) -> int:
        """Delete, or not."""
        self.deleted.append(before)
        if self.failure is not None:
            raise self.failure
        return super().delete_records(partition, before)


def _counted() -> tuple[World, _Counting, Worker]:
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    cluster = _Counting(world.broker)
    world.send(COUNT)
    member = started(world.worker(cluster=cluster))
    take_turns(member, until=all_at(member, COUNT))
    _retain(world, 40, 30)
    return world, cluster, member


def test_progress_is_looked_at_once_a_minute_and_only_beyond_retention() -> None:
    """A busy task takes a snapshot every few seconds: looking each time would cost more than it gives."""
    world, cluster, member = _counted()
    _more(world, member, COUNT + 6)
    looked = cluster.readers
    assert len(cluster.deleted) == PARTITIONS
    end = COUNT + 6
    for round_ in range(5):
        world.clock.advance(progress_trimmer.TRIM_INTERVAL_S / 10)
        _retain(world, 41 + round_, 31 + round_)
        end += 6
        world.send(6, first=end - 6)
        take_turns(member, until=all_at(member, end))
    assert (cluster.readers, len(cluster.deleted)) == (looked, PARTITIONS), "a minute is not over"
    _more(world, member, end + 6)
    assert (cluster.readers, len(cluster.deleted)) == (looked + PARTITIONS, 2 * PARTITIONS)
    _more(world, member, end + 12)
    assert (cluster.readers, len(cluster.deleted)) == (looked + PARTITIONS, 2 * PARTITIONS), (
        "retention has taken nothing since"
    )


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    ("failure", "attempts"), [(TopicError("progress[0]: not allowed"), 1), (UnknownOutcomeError("silent"), 3)]
)
def test_a_refusal_does_no_harm(failure: ArebaError, attempts: int, caplog: pytest.LogCaptureFixture) -> None:
    """Without the permission the worker continues; it warns once and does not ask the broker again."""
    world, cluster, member = _counted()
    cluster.failure = failure
    with caplog.at_level(logging.INFO, "areba.worker"):
        for life in range(3):
            _more(world, member, COUNT + 6 * (life + 1))
    said = [line.getMessage() for line in caplog.records if "trim" in line.getMessage()]
    assert said == [f"trim-failed task=0: {failure}; progress keeps records that no restore needs"]
    assert len(cluster.deleted) == attempts * PARTITIONS
    assert _begin(world) == 0
    assert world.outputs() == undisturbed_outputs(COUNT, 6, 6, 6)


class _Mute(_Counting):
    """A cluster whose readers of progress return nothing once retention has deleted inputs."""

    def reader(self, partition: TopicPartition, *, committed: bool = True) -> LogReader:
        """Open a reader."""
        made = super().reader(partition, committed=committed)
        if partition.topic.endswith("progress") and self.failure is not None:
            made.poll = _nothing  # type: ignore[method-assign]
        return made


def _nothing(max_records: int, timeout_s: float) -> Fetched | None:
    del max_records, timeout_s
    return None


def test_a_silent_broker_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """The search ends, and delays a round by at most one poll."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    cluster = _Mute(world.broker)
    world.send(COUNT)
    member = started(world.worker(cluster=cluster))
    take_turns(member, until=all_at(member, COUNT))
    _retain(world, 40, 30)
    cluster.failure = UnknownOutcomeError("silent")
    with caplog.at_level(logging.WARNING, "areba.worker"):
        _more(world, member, COUNT + 6)
    assert [vars(record)["event"] for record in caplog.records] == ["trim-failed"]
    assert cluster.deleted == []


# What begins later ----------------------------------------------------------------------------------------------------


def _damage_snapshots(world: World) -> None:
    for number in range(PARTITIONS):
        place = _place(world, "changelog", number)
        world.broker.delete_before(place, world.cluster.watermarks(place).high)


def test_without_a_snapshot_the_task_is_parked() -> None:
    """The error has the first sequence that exists, the sequence that is needed, and why there is no snapshot."""
    world, _ = _trimmed()
    _damage_snapshots(world)
    with pytest.raises(StateError) as caught:
        world.worker().run(lambda: False)
    assert caught.value.code is ErrorCode.PROGRESS_LOST
    assert str(caught.value).count(ErrorCode.STATE_UNUSABLE) == 2, "both snapshots are named"


def test_a_snapshot_before_the_beginning_is_no_beginning() -> None:
    """If an operator deleted records, the error names both sequences."""
    world, _ = _trimmed()
    rarely = started(world.worker(make_config()))
    for end in (COUNT + 9, COUNT + 12):
        world.send(3, first=end - 3)
        take_turns(rarely, until=all_at(rarely, end))
    newest = max(snapshot.progress_offset for snapshot in snapshots_of(world, 0))
    for number in range(PARTITIONS):
        world.cluster.delete_records(_place(world, "progress", number), newest + 1)
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        world.worker().run(lambda: False)


def test_a_model_is_rebuilt_from_a_snapshot() -> None:
    """`areba state` still works: it uses the snapshot's configuration."""
    world, member = _trimmed()
    expected = member.tasks[0].live.task.model_digests()
    place = world.application()
    assert rebuild(place, 0, None).task.model_digests() == expected
    end = member.tasks[0].offsets
    assert rebuild(place, 0, end).task.model_digests() == expected
    assert explain(place, "s0", str(COUNT + 5), 0).is_same


def test_history_begins_somewhere() -> None:
    """For a point before it, the command says where it begins, and gives no other model."""
    world, _ = _trimmed()
    place = world.application()
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        rebuild(place, 0, (10, 10))
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        explain(place, "s0", "45", 0)
    _damage_snapshots(world)
    with pytest.raises(StateError, match=ErrorCode.PROGRESS_LOST):
        rebuild(place, 0, None)


def test_verify_begins_at_the_oldest_snapshot() -> None:
    """It names the share that it covered, and finds nothing wrong in it."""
    world, _ = _trimmed()
    snapshots = snapshots_of(world, 0)
    report = verify(world.cluster, world.config, rerun=True)
    assert (report.findings, report.is_partial) == ((), True)
    oldest = min(snapshot.progress_offset for snapshot in snapshots)
    ends = {offset: (commit.examples_end, commit.labels_end) for offset, commit in _commits(world)}
    assert report.scopes[0].start == ends[oldest]


def test_verify_reports_deleted_progress_once() -> None:
    """Without any state there is one line for each partition, not hundreds that follow from it."""
    world, _ = _trimmed()
    _damage_snapshots(world)
    report = verify(world.cluster, world.config, rerun=True)
    assert len(report.findings) == PARTITIONS
    topics = world.config.topics
    assert str(report.findings[0]) == (
        "deleted-records "
        f"{topics.progress}[0]: starts at offset {_begin(world)}, {topics.examples} at 40 and "
        f"{topics.labels} at 30: the audit needs every record, older records are gone (retention); this "
        "partition was not checked"
    )
