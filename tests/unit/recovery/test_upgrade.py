"""A log of areba 0.x under this version: old rules end at a snapshot, and old and new workers do no harm together."""

import pytest

from stream_app import __version__
from stream_app.admin.inspect_tasks import inspect
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.partitioner import partition_of
from stream_app.cli import checks
from stream_app.errors import ErrorCode, StateError
from stream_app.records import CONFIGURATION, Act, Commit, Example, Label
from stream_app.serialization import codec
from stream_app.snapshot.identity import RULES
from stream_app.task_state import TaskState
from stream_app.verify.verify import verify
from tests.support.old_logs import OldLog
from tests.support.world import PARTITIONS, World, _all_at, _started, _turns, _undisturbed


def test_an_older_worker_in_the_group_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that went back and forth between two versions could be restored by neither."""
    broker = EmbeddedBroker(ManualClock())
    broker.create_topic(TopicInfo("examples", 1, {}))
    cluster = EmbeddedCluster(broker)
    assert checks.wait_for_older_workers("app", cluster, lambda: False), "nobody is there"
    broker.groups.join("app", ["examples"])
    assert checks.wait_for_older_workers("app", cluster, lambda: False), "one of this version is there"
    old = broker.groups.join("app", ["examples"], client_id="rdkafka")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            broker.groups.leave("app", old)

    monkeypatch.setattr("time.sleep", sleep)
    assert not checks.wait_for_older_workers("app", cluster, lambda: len(waits) == 2), "a stop ends it"
    assert checks.wait_for_older_workers("app", cluster, lambda: False)
    assert len(waits) == 3


def _under_older_rules(world: World, until: int, *, killed: bool) -> None:
    """Run a worker of older rules up to these offsets, then kill or stop it."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("snapshot.identity", "recovery.live_task"):
            patch.setattr(f"stream_app.{module}.RULES", RULES - 1)
        member = world.worker()
        if killed:
            _turns(_started(member), until=_all_at(member, until))
        else:
            member.run(_all_at(member, until))


def test_new_rules_begin_at_a_snapshot_by_a_recorded_act() -> None:
    """Progress records which rules made each output."""
    world = World()
    world.send(10)
    _under_older_rules(world, 10, killed=False)
    world.send(10, first=10)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, 20))
    assert world.outputs() == _undisturbed(10, 10)
    for number in range(PARTITIONS):
        story = world.progress(number)
        acts = [record for record in story if isinstance(record, Act)]
        assert [(act.kind, act.rules, act.partitions) for act in acts] == [
            (CONFIGURATION, RULES - 1, PARTITIONS),
            (CONFIGURATION, RULES, PARTITIONS),
        ]
        for record in story:
            if isinstance(record, Commit):
                assert record.rules == (RULES - 1 if record.sequence < acts[1].sequence else RULES)
    again = _started(world.worker())
    _turns(again, until=_all_at(again, 20))
    assert sum(isinstance(record, Act) for record in world.progress(0)) == 2, "once is enough"


def test_what_older_rules_processed_is_not_processed_again_by_new_rules() -> None:
    """Other rules give other outputs than those that are published: the older version has to finish first."""
    world = World()
    world.send(10)
    _under_older_rules(world, 10, killed=True)
    world.send(10, first=10)
    before = [world.outputs(), *map(world.progress, range(PARTITIONS))]
    with pytest.raises(StateError, match=ErrorCode.OTHER_RULES):
        world.worker().run(lambda: False)
    found = inspect(world.cluster, world.config)
    assert [view.state for view in found.tasks] == [TaskState.PARKED] * PARTITIONS
    assert [world.outputs(), *map(world.progress, range(PARTITIONS))] == before, "no task was harmed"
    _under_older_rules(world, 20, killed=False)
    world.send(10, first=20)
    member = _started(world.worker())
    _turns(member, until=_all_at(member, 30))
    assert world.outputs() == _undisturbed(10, 10, 10)
    assert inspect(world.cluster, world.config).ok


def test_a_fresh_run_ends_where_other_rules_begin() -> None:
    """Outputs of other rules are no findings: they cannot be made again here."""
    world = World()
    world.send(10)
    _under_older_rules(world, 10, killed=False)
    report = verify(world.cluster, world.config)
    assert report.ok


def _old_world(name: str) -> World:
    """Load the in-process log that areba 0.1 (commit 7af97ba) left on a broker."""
    log = OldLog(f"7af97ba/{name}")
    world = World(log.config)
    world.broker = EmbeddedBroker(world.clock)
    world.cluster = EmbeddedCluster(world.broker)
    log.load(world.broker)
    return world


def _send(world: World, count: int) -> None:
    """Send this many more examples and labels of each stream."""
    now_ms = 2_000_000_000_000
    for stream, features in (("pumps", 2), ("valves", 3), ("doors", 1)):
        key, partition = stream.encode(), partition_of(stream.encode(), PARTITIONS)
        for number in range(count):
            example = Example(stream, f"new-{number}", [float(number % 3)] * features)
            world.put("examples", partition, key, codec.encode(example), now_ms + 2 * number)
            label = Label(stream, f"new-{number}", number % 2)
            world.put("labels", partition, key, codec.encode(label), now_ms + 2 * number + 1)


def test_a_log_of_areba_0_that_ended_by_sigterm_is_continued() -> None:
    """The old worker was stopped cleanly: every task has a snapshot of all that it processed."""
    world = _old_world("sigterm")
    before = {place: rows for place, rows in world.outputs().items() if rows}
    _send(world, 20)
    member = _started(world.worker())
    ends = [tuple(world.broker.watermarks(place).high for place in pair) for pair in _inputs(world)]
    _turns(member, until=lambda: [task.offsets for task in member.tasks] == ends)
    assert [task.report.loaded_sequence for task in member.tasks] == [3, 2]
    assert [task.report.replayed_records for task in member.tasks] == [0, 0]
    after = world.outputs()
    assert {place: after[place][: len(rows)] for place, rows in before.items()} == before
    assert sum(map(len, after.values())) > sum(map(len, before.values()))
    for number in range(PARTITIONS):
        acts = [record for record in world.progress(number) if isinstance(record, Act)]
        assert [(act.engine, act.rules, act.partitions) for act in acts] == [
            ("0.1.0", 0, 0),
            (__version__, RULES, PARTITIONS),
        ]
    assert inspect(world.cluster, world.config).ok
    again = _started(world.worker())
    _turns(again, until=lambda: [task.offsets for task in again.tasks] == ends)


def test_a_log_of_areba_0_that_ended_by_sigkill_is_parked_unharmed() -> None:
    """The old worker was killed: it left commits after its newest snapshots, and an open transaction."""
    world = _old_world("sigkill")
    topics = world.config.topics
    before = [world.outputs(), *map(world.progress, range(PARTITIONS))]
    with pytest.raises(StateError, match=ErrorCode.OTHER_RULES):
        world.worker().run(lambda: False)
    found = inspect(world.cluster, world.config)
    assert {view.state for view in found.tasks} == {TaskState.PARKED}
    assert {view.code for view in found.tasks} == {ErrorCode.OTHER_RULES}
    assert [world.outputs(), *map(world.progress, range(PARTITIONS))] == before
    for place in world.broker.committed("fraud", [TopicPartition(topics.examples, 0)]).values():
        assert place is not None
        assert place.metadata.startswith("2 "), "the old version still reads its own offsets"


def _inputs(world: World) -> list[tuple[TopicPartition, TopicPartition]]:
    examples, labels = world.config.topics[:2]
    return [(TopicPartition(examples, number), TopicPartition(labels, number)) for number in range(PARTITIONS)]
