"""`areba repartition`: the streams of an application move to more partitions, and nothing else changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stream_app.admin import repartition as module
from stream_app.admin.dead_letters.resend import resend
from stream_app.admin.dead_letters.selection import Selection
from stream_app.admin.explain import explain
from stream_app.admin.inspect_tasks import inspect
from stream_app.admin.models import Application
from stream_app.admin.problems import ProblemCode
from stream_app.admin.repartition import repartition
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.partitioner import partition_of
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.backends.topics import plan
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Example, Label, Mark, MarkKind, Outcome
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.verify.verify import verify
from tests.support.world import MAX_POLL_INTERVAL_S, World, make_config, started, take_turns

STREAMS = ["s0", "s7", "s16", "s18", "s1", "s2", "s5", "s8"]
"""Of two partitions, half are in each; of four, a quarter."""

PROMOTED = 25
"""The example after which all streams get another threshold by a mark."""


def _config(**sections: Any) -> Any:  # noqa: ANN401  (sections of a file)
    streams: dict[str, Any] = {name: {"features": 2} for name in STREAMS}
    streams["s16"] |= {"threshold": {"alerts": 0.1}}
    for name in STREAMS:  # some move, some stay in a task that others leave
        streams[name] |= {"drift": {"reference_examples": 20, "window_examples": 20}}
    learners = {"areba": {"method": "areba"}, "relay": {"method": "relay"}}
    sections = {"worker": {"snapshot_after_ms": 3_600_000}, "join": {"corrections": "correct"}, **sections}
    return make_config(streams=streams, learners=learners, predictions="all", **sections)


@dataclass
class _World(World):
    """An application with any number of partitions."""

    partitions: int = 2

    def add_topic(self, name: str) -> None:
        """Create a topic with a partition for each task."""
        planned = {t.name: t.settings for t in plan(self.config.topics, self.partitions)}
        settings = {**planned.get(name, {}), "retention.ms": "-1"}
        settings.pop(TIMES_BEFORE, None)
        self.broker.create_topic(TopicInfo(name, self.partitions, settings))

    def feed(self, first: int, count: int, partitions: int, shift: int = 7) -> None:
        """Send examples of all streams, and the labels of the examples `shift` before them."""
        for number in range(first, first + count):
            for name in STREAMS[::-1]:  # in a task, those that will move come before those that stay
                key, place = name.encode(), partition_of(name.encode(), partitions)
                features = [float((number * 7 + len(name) + int(name[1:])) % 5), number % 3 - 1.0]
                self.put("examples", place, key, codec.encode(Example(name, f"e{number}", features)), 1_000 + number)
                if number == PROMOTED:
                    mark = Mark(name, MarkKind.DECIDE, threshold_kind="alerts", threshold=0.3)
                    self.put("examples", place, key, codec.encode(mark), 1_000 + number)
                if number >= shift:
                    label = Label(name, f"e{number - shift}", number % 2)
                    self.put("labels", place, key, codec.encode(label), 1_000 + number)
                if number % 5 == 0:  # comes before its example
                    early = codec.encode(Label(name, f"e{number + 3}", 1))
                    self.put("labels", place, key, early, 1_000 + number)

    def run(self) -> dict[str, str]:
        """Let a worker process everything; return the digests of all models, by task."""
        member = started(self.worker())
        wanted = {
            number: tuple(self.cluster.watermarks(place).high for place in places)
            for number, places in enumerate(zip(*self.inputs(), strict=True))
        }
        take_turns(
            member,
            until=lambda: (
                len(member.tasks) == len(wanted)
                and all(task.state is TaskState.LIVE and task.offsets == wanted[task.number] for task in member.tasks)
            ),
        )
        digests = {key: value for task in member.tasks for key, value in task.live.task.model_digests().items()}
        self.clock.advance(MAX_POLL_INTERVAL_S + 1)
        return digests

    def inputs(self) -> list[list[Any]]:
        """Return the partitions of both inputs."""
        found = self.cluster.topics(self.config.topics.inputs)
        return [[TopicPartition(t.name, n) for n in range(t.partitions)] for t in found.values()]

    def by_stream(self) -> Mapping[tuple[str, bytes], list[Any]]:
        """Return all outputs by topic and stream, without offsets and partitions."""
        found: defaultdict[tuple[str, bytes], list[Any]] = defaultdict(list)
        for topic in OUTPUT_TOPICS:
            names = self.cluster.topics(self.config.topics)
            count = names[getattr(self.config.topics, topic.replace("-", "_"))].partitions
            for number in range(count):
                for key, value, _, headers in self.rows(topic, number):
                    record = codec.decode_one(value) if topic == "outcomes" else value
                    if isinstance(record, Outcome):
                        record = codec.encode(replace(record, example_offset=None, label_offset=None))
                    kept = [one for one in headers if not one[0].startswith("__connect.errors")]
                    found[topic, key].append((record, kept))
        return found


def _world(partitions: int, config: Any = None) -> _World:  # noqa: ANN401
    return _World(config or _config(), partitions=partitions)


@pytest.fixture(scope="module")
def always() -> tuple[Any, ...]:
    """Return the outputs and models of an application that always had four partitions."""
    world = _world(4)
    world.feed(0, 40, 4)
    world.run()
    world.feed(40, 40, 4)
    models = world.run()
    return world.by_stream(), models, world


@pytest.mark.parametrize("snapshot_after_ms", [0, 3_600_000])
def test_outputs_are_those_of_an_application_that_always_had_so_many(
    snapshot_after_ms: int, always: tuple[Any, ...]
) -> None:
    """Models, pending examples, waiting labels, closed ids and sums come with their streams."""
    world = _world(2, _config(worker={"snapshot_after_ms": snapshot_after_ms}))
    world.feed(0, 40, 2)
    world.run()
    lines = list(repartition(world.application(), 4))
    assert lines[-1].startswith("app has 4 partitions")
    world.feed(40, 40, 4)
    models = world.run()
    assert models == always[1]
    assert world.by_stream() == always[0]
    assert world.run() == models  # restored, from acts or from snapshots
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    assert not report.is_partial
    assert not inspect(world.cluster, world.config).input_tails.split()
    accepted = verify(always[2].cluster, world.config, rerun=True).figures
    assert {name: one.to_plain() for name, one in report.figures.items()} == {
        name: one.to_plain() for name, one in accepted.items()
    }
    parts = [verify(world.cluster, world.config, rerun=True, tasks=tasks) for tasks in ((0, 1), (2,), (3,))]
    assert [part.finding_count for part in parts] == [0, 0, 0]  # a stream that moved is compared with a second run only
    assert sum(part.commits for part in parts) == report.commits
    assert "2 of 4 partitions" in parts[0].verdict()
    for id_ in ("e3", "e38", "e60"):  # the label of e38 came in the new partition
        for name in STREAMS:
            explained = explain(world.application(), name, id_, None)
            assert explained.is_same
            assert [one.outcome for one in explained.outcomes][:1] == ["joined"]


class _Killed(Exception):  # noqa: N818  (no error: the process is gone)
    """The process was killed."""


class _Steps:
    """Ends the command before or after one of its steps that change something."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def step(self, call: Any, *args: Any) -> Any:  # noqa: ANN401
        """Do a step, unless the process is dead by then."""
        self.left -= 1
        if self.left < 0:
            raise _Killed
        result = call(*args)
        self.left -= 1
        if self.left < 0:
            raise _Killed
        return result


def _killed_after(world: _World, limit: int) -> bool:
    """Run the command, and kill it after some steps; say whether it was killed."""
    steps = _Steps(limit)

    class Transaction(EmbeddedTransaction):
        def initialise(self) -> None:
            steps.step(super().initialise)

        def produce(self, *args: Any) -> None:  # noqa: ANN401
            steps.step(super().produce, *args)

        def commit(self) -> None:
            steps.step(super().commit)

    class Cluster(EmbeddedCluster):
        def grow(self, names: Sequence[str], partitions: int) -> None:
            steps.step(super().grow, names, partitions)

    application = Application(
        world.config, Cluster(world.broker), world.clock, lambda name: Transaction(world.broker, name)
    )
    try:
        list(repartition(application, 4))
    except _Killed:
        return True
    return False


def _refuses_to_start(world: _World) -> bool:
    try:
        world.worker().start()
    except StateError as problem:
        return problem.code is ErrorCode.MOVE_UNFINISHED
    return False


def test_a_command_that_is_killed_at_any_step() -> None:
    """Until it is run again to its end, workers refuse to start, or continue with the old number of partitions."""
    reference = _world(2)
    reference.feed(0, 12, 2)
    reference.run()
    assert not _killed_after(reference, 10_000)
    reference.feed(12, 12, 4)
    reference.run()
    wanted = reference.by_stream()
    limit, refusals, straggler = 0, 0, _moves(0)
    while True:
        world = _world(2)
        world.feed(0, 12, 2)
        world.run()
        if not _killed_after(world, limit):
            break
        if _refuses_to_start(world):
            refusals += 1
            world.put("labels", 0, straggler.encode(), codec.encode(Label(straggler, "straggler", 1)), 1_011)
        world.clock.advance(MAX_POLL_INTERVAL_S + 1)
        list(repartition(world.application(), 4))
        world.feed(12, 12, 4)
        world.run()
        found = world.by_stream()
        stragglers = [key for key in found if key not in wanted or found[key] != wanted[key]]
        assert all(key[0] == "dead-letters" for key in stragglers), (limit, stragglers)
        report = verify(world.cluster, world.config, rerun=True)
        assert report.ok, report.findings
        limit += 1
    assert refusals > 10


def _prepared(count: int = 12, **sections: Any) -> _World:  # noqa: ANN401  (sections of a file)
    """Return a world with two partitions whose worker has processed everything and was stopped."""
    world = _world(2, _config(**sections))
    world.feed(0, count, 2)
    world.run()
    return world


def _moves(home: int, before: int = 2, after: int = 4) -> str:
    """Return a stream that leaves this partition."""
    homes = {name: (partition_of(name.encode(), before), partition_of(name.encode(), after)) for name in STREAMS}
    return next(name for name, (one, two) in homes.items() if one == home != two)


def test_streams_that_have_sent_nothing_since_the_move_are_no_problem() -> None:
    """Their records are where the move found them: `areba inspect` named all quiet streams, and blamed producers."""
    world = _prepared()
    list(repartition(world.application(), 4))
    late_ms = 1_000_000
    name = _moves(0)
    home = partition_of(name.encode(), 4)
    world.put("examples", home, name.encode(), codec.encode(Example(name, "after", [1.0])), late_ms)
    world.run()
    assert list(inspect(world.cluster, world.config).input_tails.problems()) == []
    other = _moves(1)
    world.put("examples", 1, other.encode(), codec.encode(Example(other, "after", [1.0])), late_ms + 1)
    problems = inspect(world.cluster, world.config).input_tails.problems()
    assert [(problem.code, problem.stream) for problem in problems] == [(ProblemCode.MISPLACED, other)]


def test_a_record_of_a_producer_with_the_former_number() -> None:
    """It is a dead letter with its reason, and a resend brings it to the partition where its stream is."""
    world = _prepared()
    list(repartition(world.application(), 4))
    name = _moves(0)
    world.put("labels", 0, name.encode(), codec.encode(Label(name, "e11", 1)), 1_011)
    world.run()
    [letter] = [dict(headers) for key, _, _, headers in world.rows("dead-letters", 0) if key == name.encode()][-1:]
    assert letter["areba.reason"] == b"moved-stream"
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    sent = resend(world.application(), Selection(reasons=frozenset({"moved-stream"})))
    assert sent.sent.total() == 1
    home = partition_of(name.encode(), 4)
    before = len(world.rows("outcomes", home))
    world.run()
    joined = [codec.decode_one(value) for _, value, _, _ in world.rows("outcomes", home)[before:]]
    found = [(one.stream, one.id, one.outcome) for one in joined if isinstance(one, Outcome)]
    assert found == [(name, "e11", "joined")]
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    assert not [note for note in report.notes if "not yet processed" in note]


def test_a_second_move() -> None:
    """A stream may move twice, with examples from before the first move still pending."""
    world, direct = _world(2), _world(8)
    for feeding, numbers in ((world, (2, 4, 8)), (direct, (8, 8, 8))):
        for step, partitions in enumerate(numbers):
            if step and feeding is world:
                list(repartition(feeding.application(), partitions))
            feeding.feed(10 * step, 10, partitions, shift=25)
            models = feeding.run()
    assert world.by_stream() == direct.by_stream()
    assert models == world.run()
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings
    assert explain(world.application(), _moves(1), "e4", None).is_same


def test_a_stream_that_is_stopped_stays_stopped() -> None:
    """The reason moves with it, also if the stream has no state yet."""
    world = _prepared(breaker={"in_a_row": 3})
    name = _moves(1)
    for time_ms in range(1_012, 1_016):
        world.put("examples", 1, name.encode(), b"garbage", time_ms)
        world.run()
    list(repartition(world.application(), 4))
    home = partition_of(name.encode(), 4)
    world.put("examples", home, name.encode(), codec.encode(Example(name, "new", [0.0, 0.0])), 1_020)
    world.run()
    assert {dict(headers)["areba.reason"] for *_, headers in world.rows("dead-letters", home)} == {b"stream-stopped"}
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings


def test_what_is_refused() -> None:
    """Nothing is written where the application could not be moved exactly."""
    world = _prepared()
    for partitions, text in ((3, "must be a multiple"), (1, "must be a multiple")):
        with pytest.raises(ConfigurationError, match=text):
            list(repartition(world.application(), partitions))
    assert list(repartition(world.application(), 2)) == ["app has 2 partitions already"]
    lines = list(repartition(world.application(), 4, dry_run=True))
    assert lines == ["task 0: 2 of 4 streams would move", "task 1: 2 of 4 streams would move"]
    world.put("labels", 1, b"s1", codec.encode(Label("s1", "x", 1)), 1_011)
    with pytest.raises(StateError, match="1 offsets wait") as refused:
        list(repartition(world.application(), 4))
    assert refused.value.code is ErrorCode.MOVE_REFUSED
    world.run()
    stranger = next(name for name in STREAMS if partition_of(name.encode(), 2) == 0)
    world.put("examples", 1, stranger.encode(), codec.encode(Example(stranger, "y", [0.0, 0.0])), 1_012)
    world.run()
    with pytest.raises(StateError, match="belong to other partitions by their keys"):
        list(repartition(world.application(), 4))
    started(world.worker())
    with pytest.raises(StateError, match="workers are running"):
        list(repartition(world.application(), 4))
    assert world.cluster.topics(["examples", "app-progress"])["examples"].partitions == 2


def test_an_application_of_which_a_task_never_began() -> None:
    """A task without records moves, too, and an application that never began needs no move."""
    world = _world(2)
    with pytest.raises(ConfigurationError, match="has not begun"):
        list(repartition(world.application(), 4))
    name = _moves(0)
    world.put("examples", 0, name.encode(), codec.encode(Example(name, "e0", [0.0, 1.0])), 1_000)
    world.run()
    list(repartition(world.application(), 4))
    home = partition_of(name.encode(), 4)
    world.put("labels", home, name.encode(), codec.encode(Label(name, "e0", 1)), 1_001)
    world.run()
    [outcome] = [codec.decode_one(value) for _, value, _, _ in world.rows("outcomes", home)]
    assert isinstance(outcome, Outcome)
    assert (outcome.id, outcome.outcome) == ("e0", "joined")
    report = verify(world.cluster, world.config, rerun=True)
    assert report.ok, report.findings


def test_a_stream_that_no_act_can_hold_is_named_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the move could not be ended, and workers refuse to start before its end."""
    monkeypatch.setattr(module, "_SURELY_FITS_BYTES", 0)
    monkeypatch.setattr(module, "MAX_CHARACTERS", 1_000)
    world = _world(2)
    world.feed(0, 20, 2)
    world.run()
    before = [world.rows("progress", number) for number in range(2)]
    with pytest.raises(StateError, match=r"stream 's\d+' is too large to move: with \d+ pending examples"):
        list(repartition(world.application(), 4))
    assert [world.rows("progress", number) for number in range(2)] == before
    assert world.cluster.topics(world.config.topics.inputs)[world.config.topics.examples].partitions == 2
