"""An application over the in-process log: its topics, its workers, and a clock that tests advance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stream_app.admin.models import Application
from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.cluster import EmbeddedCluster
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.backends.retention import TIMES_BEFORE
from stream_app.backends.schema_names import NO_REGISTRY
from stream_app.backends.topics import plan
from stream_app.config import Config
from stream_app.errors import (
    ArebaError,
    UnknownOutcomeError,
)
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.progress_records import Act, Commit
from stream_app.records import Example, Label, Mark, MarkKind
from stream_app.serialization import codec
from stream_app.serialization.wire_format import format_of
from stream_app.task_state import TaskState
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.brokers import AdministeredBroker

PARTITIONS = 2

TURNS = 500
"""Far more turns than any test takes."""

MAX_POLL_INTERVAL_S = 300.0
"""The setting of the in-process log: a member that does not poll for this time is removed from its group."""


def make_config(**sections: Any) -> Config:  # noqa: ANN401  (sections of a file)
    """Return a small configuration with these sections, or these values of a section."""
    data: dict[str, Any] = {
        "application": {"id": "app", "instance": "w"},
        "streams": {"s0": {"features": 1}, "s1": {"features": 1}},
        "worker": {"commit_interval_ms": 0, "max_batch_records": 5, "snapshot_when_idle_ms": 30_000},
        "metrics": {"every_labels": 4},
    }
    for name, section in sections.items():
        data[name] = {**data.get(name, {}), **section} if isinstance(section, dict) else section
    return Config.model_validate(data, context={})


@dataclass
class World:
    """A broker with the topics of an application, and the workers on it."""

    config: Config = field(default_factory=make_config)
    clock: ManualClock = field(default_factory=ManualClock)
    broker_type: type[AdministeredBroker] = AdministeredBroker

    def __post_init__(self) -> None:
        self.broker = self.broker_type(self.clock)
        self.cluster = EmbeddedCluster(self.broker)
        for name in self.config.topics:
            self.add_topic(name)

    def add_topic(self, name: str) -> None:
        """Create a topic with a partition for each task; its records have times of 1970, and are kept all the same."""
        lead_ms = self.config.join.max_clock_lead_ms
        planned = {t.name: t.settings for t in plan(self.config.topics, PARTITIONS, max_clock_lead_ms=lead_ms)}
        settings = {**planned.get(name, {}), "retention.ms": "-1"}  # a topic of another application has no plan
        settings.pop(TIMES_BEFORE, None)
        self.broker.create_topic(TopicInfo(name, PARTITIONS, settings))

    def open_transaction(self, transactional_id: str) -> EmbeddedTransaction:
        """Return a producer with any transactional id."""
        return EmbeddedTransaction(self.broker, transactional_id)

    def use(self, clock: ManualClock) -> None:
        """Continue with another clock."""
        clock.advance(self.clock.monotonic_s())
        self.clock = self.broker.clock = clock

    def send(self, count: int, first: int = 0, partitions: Sequence[int] = range(PARTITIONS)) -> None:
        """Send this number of examples, each with its label, to each of these partitions."""
        wire_format = format_of(self.config.serialization)
        for number in range(first, first + count):
            for partition in partitions:
                stream = f"s{partition}"
                example = codec.encode(Example(stream, str(number), [float(number % 3)]), wire_format)
                label = codec.encode(Label(stream, str(number), number % 2), wire_format)
                key = stream.encode()
                self.put("examples", partition, key, example, 10 * number + 1)
                self.put("labels", partition, key, label, 10 * number + 15)

    def put(self, topic: str, partition: int, key: bytes | None, value: bytes | None, time_ms: int = 1) -> None:
        """Send one record."""
        name = getattr(self.config.topics, topic)
        self.broker.append(TopicPartition(name, partition), [(key, value, time_ms, ())])

    def application(self, config: Config | None = None) -> Application:
        """Return the application as commands see it."""
        return Application(config or self.config, self.cluster, self.clock, self.open_transaction)

    def garbage(self, partition: int, count: int = 3, time_ms: int = 61) -> None:
        """Send values of no schema as examples of the partition's stream."""
        for _ in range(count):
            self.put("examples", partition, f"s{partition}".encode(), b"garbage", time_ms)

    def resume(self, partition: int, time_ms: int = 61) -> None:
        """Write what `areba resume` writes for the partition's stream."""
        mark = codec.encode(Mark(f"s{partition}", MarkKind.RESUME), format_of(self.config.serialization))
        self.put("examples", partition, f"s{partition}".encode(), mark, time_ms)

    def worker(
        self,
        config: Config | None = None,
        transaction: EmbeddedTransaction | None = None,
        cluster: EmbeddedCluster | None = None,
        **options: Any,  # noqa: ANN401  (as the worker takes them)
    ) -> Worker:
        """Return a new worker. Unless it joins others, earlier workers are dead, and the group knows it."""
        if not options.pop("joins", False):
            self.clock.advance(MAX_POLL_INTERVAL_S + 1)
        chosen = config or self.config
        source = EmbeddedSource(self.broker, chosen.group_id)
        writer = transaction or EmbeddedTransaction(self.broker, chosen.transactional_id)
        is_cut_off = options.pop("is_cut_off", lambda: False)
        silence_s = options.pop("silence_s", lambda: 0.0)
        schemas = options.pop("schemas", NO_REGISTRY)
        world = (cluster or self.cluster, self.clock, self.open_transaction, is_cut_off, silence_s)
        ports = Ports(source, writer, *world, schemas=schemas)
        return Worker(chosen, ports, options.pop("observer", None) or Observer(self.clock), **options)

    def rows(self, topic: str, partition: int) -> list[tuple[Any, ...]]:
        """Return the committed records of a partition: key, value, timestamp, headers."""
        name = getattr(self.config.topics, topic.replace("-", "_"))
        records, _, at_end = self.broker.read(TopicPartition(name, partition), 0, 10**6)
        assert at_end
        cells = zip(records.keys, records.values, records.timestamps.tolist(), strict=True)
        return [(*row, tuple(records.headers.get(number, ()))) for number, row in enumerate(cells)]

    def outputs(self) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
        """Return key, value and headers of all outputs; the log sets their timestamps."""
        places = [(topic, number) for topic in OUTPUT_TOPICS for number in range(PARTITIONS)]
        return {place: [(key, value, headers) for key, value, _, headers in self.rows(*place)] for place in places}

    def progress(self, partition: int) -> list[Commit | Act]:
        """Return the records of a task's progress."""
        found = [codec.decode_one(value) for _, value, _, _ in self.rows("progress", partition)]
        return [record for record in found if isinstance(record, Commit | Act)]


def take_turns(*members: Worker, until: Callable[[], bool]) -> None:
    """Let the workers take turns until the condition is true."""
    for _ in range(TURNS):
        if until():
            return
        for member in members:
            member.turn()
    raise AssertionError([(task.number, task.state, task.offsets) for member in members for task in member.tasks])


def never() -> Callable[[], bool]:
    """Return the condition of a worker that must end by itself."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        assert asked < 20 * TURNS, "it runs and runs"
        return False

    return should_stop


def all_at(member: Worker, offset: int, state: TaskState = TaskState.LIVE) -> Callable[[], bool]:
    """Return the condition that a worker has all tasks, processed up to this offset."""
    return lambda: (
        len(member.tasks) == PARTITIONS
        and all(task.state is state and task.offsets == (offset, offset) for task in member.tasks)
    )


def all_beyond(member: Worker, offset: int) -> Callable[[], bool]:
    """Return the condition that a worker has all tasks, processed at least up to this offset."""
    return lambda: (
        len(member.tasks) == PARTITIONS
        and all(task.state is TaskState.LIVE and min(task.offsets) >= offset for task in member.tasks)
    )


def reaches(member: Worker, offsets: tuple[int, int]) -> bool:
    """Say whether a live task is at these offsets."""
    return any(task.state is TaskState.LIVE and task.offsets == offsets for task in member.tasks)


def started(member: Worker) -> Worker:
    """Start a worker, and return it."""
    member.start()
    return member


def undisturbed_outputs(*counts: int) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """Return the outputs of a single worker that processes records in portions of these sizes."""
    calm = World()
    member = started(calm.worker())
    sent = 0
    for count in counts:
        calm.send(count, first=sent)
        sent += count
        take_turns(member, until=all_at(member, sent))
    return calm.outputs()


def world_after(count: int = 20) -> World:
    """Return a world whose worker has processed this number of records of each partition."""
    world = World()
    world.send(count)
    member = started(world.worker())
    take_turns(member, until=all_at(member, count))
    return world


class FailingTransaction(EmbeddedTransaction):
    """A transaction that fails at the commits that the test chooses."""

    def __init__(self, broker: AdministeredBroker, failures: Mapping[int, type[ArebaError]]) -> None:
        super().__init__(broker, "app-w")
        self.commits = 0
        self._failures = failures

    def commit(self) -> None:
        """Commit, or fail."""
        self.commits += 1
        failure = self._failures.get(self.commits)
        if failure is not None:
            self.abort()
            raise failure("injected")
        super().commit()


class TickingClock(ManualClock):
    """A clock that advances with every call, so that a slice of a restore ends after each commit record."""

    def monotonic_s(self) -> float:
        """Return seconds, which never decrease."""
        self.advance(0.6)
        return super().monotonic_s()


BREAKER = {"breaker": {"in_a_row": 3}}


class DyingTransaction(EmbeddedTransaction):
    """A transaction whose process dies after the n-th commit, before the worker gets its result."""

    def __init__(self, world: World, commits: int) -> None:
        super().__init__(world.broker, "app-w")
        self._left = commits

    def commit(self) -> None:
        """Commit."""
        super().commit()
        self._left -= 1
        if not self._left:
            raise UnknownOutcomeError("killed")
