"""The worker's loop: groups, fencing, pauses, and the size of a batch."""

from collections.abc import Sequence

import pytest

from stream_app.backends.base import Fetched, TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.source import EmbeddedSource
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import (
    FencedAgainError,
    FencedError,
)
from stream_app.record_columns import OutputRecords
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker import worker
from stream_app.worker.batch_limits import BatchLimits
from stream_app.worker.ports import Ports
from stream_app.worker.reports.observer import Observer
from stream_app.worker.worker import Worker
from tests.support.world import (
    BREAKER,
    World,
    all_at,
    make_config,
    started,
    take_turns,
)

# Groups and fencing ---------------------------------------------------------------------------------------------------


class _Forgetful(EmbeddedSource):
    """Loses its membership unnoticed by the worker, as a client does whose heartbeats were late."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker, "app")
        self._asked = 0

    def group_metadata(self) -> object:
        """Our generation, before the group is joined and when it was."""
        self._asked += 1
        return super().group_metadata() if self._asked <= 2 else None


def test_the_generation_is_that_of_the_assignment() -> None:
    """A client without membership may have no generation, and a broker accepts offsets without one from any client."""
    world = World()
    world.send(20)
    ports = Ports(
        _Forgetful(world.broker),
        EmbeddedTransaction(world.broker, "app/w"),
        world.cluster,
        world.clock,
        world.open_transaction,
    )
    member = started(Worker(world.config, ports, Observer(world.clock)))
    take_turns(member, until=all_at(member, 20))


class _Fenced(EmbeddedTransaction):
    """Run a worker that is fenced at its first commit, after this time."""

    def __init__(self, world: World, after_s: float) -> None:
        super().__init__(world.broker, "app-w")
        self._clock = world.clock
        self._after_s = after_s

    def commit(self) -> None:
        """Fenced."""
        self._clock.advance(self._after_s)
        raise FencedError("on purpose")


@pytest.mark.parametrize(
    ("age_s", "open_s", "was_fenced", "again"),
    [
        (0.0, 0.1, False, False),  # another process may have taken our id over while we started
        (20.0, 0.1, False, False),  # the first time: start again, and see
        (20.0, 0.1, True, True),  # the second time: two of one name
        (20.0, 11.0, True, False),  # open for long: timed out
        (301.0, 0.1, True, False),  # long ago
        (0.0, 11.0, False, False),
    ],
)
def test_a_fenced_worker_is_distinguished_from_a_slow_transaction(
    age_s: float, open_s: float, was_fenced: bool, again: bool
) -> None:
    """A second worker of one name ends with status 5, a timed-out transaction with 4, at any speed of the machine."""
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
        assert "another worker runs as 'w'; give each worker its own application.instance" in str(caught.value)


def test_a_closing_error_does_not_hide_the_first(caplog: pytest.LogCaptureFixture) -> None:
    """The first error is raised; the failed close is only logged."""
    world = World()
    member = world.worker()

    def fail() -> None:
        raise OSError("closing")

    member._ports.source.close = fail  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        member.run(lambda: 1 // 0 == 0)
    assert [getattr(record, "event", None) for record in caplog.records] == ["closing-failed"]


# The loop -------------------------------------------------------------------------------------------------------------


class _Polls(EmbeddedSource):
    """Records how long each poll may wait."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker, "app")
        self.waits: list[float] = []

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Poll."""
        self.waits.append(timeout_s)
        return super().poll(max_records, timeout_s)


def test_an_idle_worker_sleeps() -> None:
    """The loop does not spin while records wait for the other input, or while a stream is stopped."""
    world = World(make_config(**BREAKER))
    source = _Polls(world.broker)
    ports = Ports(
        source, EmbeddedTransaction(world.broker, "app/w"), world.cluster, world.clock, world.open_transaction
    )
    member = started(Worker(world.config, ports, Observer(world.clock)))
    world.send(5)
    world.garbage(1)
    take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(5, 5), (8, 5)])
    # a producer's open transaction delays the labels of task 0: their end is not known
    writer = EmbeddedTransaction(world.broker, "producer", 1_000.0)
    writer.initialise()
    writer.begin()
    place = TopicPartition(world.config.topics.labels, 0)
    writer.produce(place, OutputRecords.of([None], [codec.encode(Label("s0", "4", 0))], [0]))
    member.tasks[0].waiting[1].at_end = False
    world.put("examples", 0, b"s0", codec.encode(Example("s0", "99", [1.0])), 1_000)
    for _ in range(10):
        member.turn()
    assert len(member.tasks[0].waiting[0]) == 1
    assert source.waits[-5:] == [worker.IDLE_POLL_S] * 5


def test_a_worker_that_has_no_assignment_yet_polls_often() -> None:
    """An assignment does not end a poll: its tasks would wait for a tenth of a second at each start and rebalance."""
    world = World(make_config())
    source = _Polls(world.broker)
    ports = Ports(
        source, EmbeddedTransaction(world.broker, "app/w"), world.cluster, world.clock, world.open_transaction
    )
    member = started(Worker(world.config, ports, Observer(world.clock)))
    take_turns(member, until=lambda: bool(member.tasks) and all(t.state is TaskState.LIVE for t in member.tasks))
    assert max(source.waits) <= worker.IDLE_POLL_S / 10
    for _ in range(5):
        member.turn()
    assert source.waits[-1] == worker.IDLE_POLL_S


def test_a_batch_is_as_large_as_its_cost_allows() -> None:
    """Batches of slow records are small, so that polls stay frequent; batches of fast ones grow up to the setting."""
    limits = BatchLimits(4_000)
    found = []
    for seconds in (0.01, 0.01, 0.01, 0.01, 0.15, 2.0, 0.15, 0.01):
        limits.learn(0, limits.limit(0), seconds)
        found.append(limits.limit(0))
    assert found == [1_000, 2_000, 4_000, 4_000, 4_000, 400, 400, 800]
    limits.learn(1, 1, 60.0)
    assert limits.limit(1) == 1
