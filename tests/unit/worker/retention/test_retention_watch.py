"""A task saves its state before the broker deletes what a restore needs, and whenever it becomes idle."""

import logging
from collections.abc import Sequence

import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.log import LogTransaction, TransactionState
from stream_app.live.snapshot_writer import RETENTION_INTERVAL_S, RETENTION_SHARE
from stream_app.progress_records import REPAIR, Act
from stream_app.records import Example, Label
from stream_app.serialization import codec
from stream_app.task_state import TaskState
from stream_app.worker.reports import metrics
from stream_app.worker.retention.retention_watch import ASK_INTERVAL_S, LOOK_INTERVAL_S
from stream_app.worker.worker import Worker
from tests.support.world import MAX_POLL_INTERVAL_S, World, make_config, started, take_turns

pytestmark = pytest.mark.slow

RETENTION_S = 3_600.0

SOON_S = ASK_INTERVAL_S + 3 * LOOK_INTERVAL_S
"""The worker knows what is kept, and a snapshot can be written, within this time."""

COUNT = 20

BUSY = {"snapshot_when_idle_ms": 3_600_000}
"""No pause is long enough to count."""


class _Quiet:
    """An application whose inputs are kept for an hour, and one worker on it."""

    def __init__(self, worker: dict[str, int] | None = None, **kept: str) -> None:
        self.world = World(make_config(worker=worker or {}))
        self.keep(**{"retention.ms": str(int(1000 * RETENTION_S)), **kept})
        self.sent = 0
        self.member = self.start()

    @property
    def inputs(self) -> Sequence[str]:
        return self.world.config.topics[:2]

    @property
    def digests(self) -> list[str]:
        return [task.live.model_digest() for task in self.member.tasks]

    def keep(self, **settings: str) -> None:
        """Change settings of the inputs, as an administrator does."""
        for name in self.inputs:
            self.world.broker.alter_topic(name, settings)

    def start(self) -> Worker:
        """Return a new worker that has restored all tasks; the one before it is dead."""
        member = started(self.world.worker())
        take_turns(member, until=lambda: len(member.tasks) == 2 and _are_live(member, self.sent))
        return member

    def process(self, count: int = COUNT, age_s: float = 0.0) -> None:
        """Send examples with their labels, with event times of this age, and let the worker process them."""
        time_ms = self.world.clock.now_ms() - int(1000 * age_s)
        for number in range(self.sent, self.sent + count):
            for task in range(2):
                example = codec.encode(Example(f"s{task}", str(number), [float(number % 3)]))
                self.world.put("examples", task, f"s{task}".encode(), example, time_ms)
                label = codec.encode(Label(f"s{task}", str(number), number % 2))
                self.world.put("labels", task, f"s{task}".encode(), label, time_ms)
        self.sent += count
        take_turns(self.member, until=lambda: _are_live(self.member, self.sent))

    def wait(self, seconds: float) -> None:
        """Let this time pass without a new record."""
        until_s = self.world.clock.monotonic_s() + seconds
        while (left_s := until_s - self.world.clock.monotonic_s()) > 0:
            self.world.clock.advance(min(left_s, LOOK_INTERVAL_S))
            self.member.turn()

    def expire(self, before: int | None = None) -> None:
        """Delete inputs, as retention does: all that were sent, or those below an offset."""
        for name in self.inputs:
            for task in range(2):
                self.world.broker.delete_before(TopicPartition(name, task), self.sent if before is None else before)

    def kill(self) -> None:
        self.world.clock.advance(MAX_POLL_INTERVAL_S + 1)

    @property
    def snapshots(self) -> int:
        """How many snapshots the first task has written."""
        rows = self.world.rows("changelog", 0)
        return sum(b"manifest" in (key or b"") and value is not None for key, value, *_ in rows)

    @property
    def used(self) -> float:
        """The share of the retention that the worker reports for the first task."""
        return self.member._observer.figures.values()[metrics.RETENTION_USED]["0",]


def _are_live(member: Worker, offset: int) -> bool:
    return all(task.state is TaskState.LIVE and task.offsets == (offset, offset) for task in member.tasks)


def _check_survives(app: _Quiet) -> None:
    """Check that a kill loses nothing after all inputs are gone."""
    before = app.digests
    app.expire()
    app.kill()
    app.member = app.start()
    assert app.digests == before


@pytest.mark.slow(5)
def test_an_idle_task_saves_its_state_once() -> None:
    """Twenty labelled examples, then nothing for weeks: the model must not depend on inputs that are deleted."""
    app = _Quiet()
    app.process()
    app.wait(20)
    assert app.snapshots == 0, "a pause of some seconds costs nothing"
    app.wait(20)
    assert app.snapshots == 1
    app.wait(3_000)
    assert app.snapshots == 1, "a pause costs one snapshot"
    _check_survives(app)


def test_a_stream_with_many_pauses_costs_a_snapshot_a_minute() -> None:
    """A record every five seconds is five seconds of pause each time; the changelog must not grow with each record."""
    app = _Quiet({"snapshot_when_idle_ms": 2_000})
    for _ in range(60):
        app.process(1)
        app.wait(5)
    assert 3 <= app.snapshots <= 6
    app.wait(62)
    _check_survives(app)


def test_a_task_that_is_never_idle_saves_its_state_in_time() -> None:
    """A stream with a record every few seconds needs two seconds of processing in a month, and is never idle."""
    app = _Quiet(BUSY)
    while app.world.clock.monotonic_s() < MAX_POLL_INTERVAL_S + RETENTION_SHARE * RETENTION_S:
        assert app.snapshots == 0
        app.process(1)
        app.wait(60)
    app.wait(60)
    assert app.snapshots == 1
    assert app.used < RETENTION_SHARE
    _check_survives(app)


def test_a_task_saves_its_state_before_retention_by_size() -> None:
    """A partition that keeps 10 kB has deleted the first inputs long before their time."""
    app = _Quiet(BUSY, **{"retention.bytes": "10000"})
    app.process(COUNT)
    app.wait(SOON_S)
    assert app.snapshots == 0
    app.process(5 * COUNT)
    app.wait(SOON_S)
    assert app.snapshots == 1
    _check_survives(app)


@pytest.mark.slow(5)
def test_inputs_with_old_event_times_die_at_once_and_cost_a_bounded_share_of_snapshots() -> None:
    """The broker deletes by event time; a replay of last month must neither lose its model nor only write snapshots."""
    app = _Quiet(BUSY)
    app.process(age_s=30 * 86_400)
    app.wait(SOON_S)
    assert app.snapshots == 1
    before, minutes = app.snapshots, 10
    for _ in range(60 * minutes):
        app.process(1, age_s=30 * 86_400)
        app.wait(1)
    assert app.snapshots - before <= 60 * minutes / RETENTION_INTERVAL_S
    app.wait(SOON_S)
    _check_survives(app)


@pytest.mark.slow(5)
def test_an_administrator_shortens_the_retention_of_a_running_application() -> None:
    """A task that has used an hour of a week must save its state when only two hours are left."""
    app = _Quiet(BUSY, **{"retention.ms": "604800000"})
    app.process()
    app.wait(3_600)
    assert app.snapshots == 0
    app.keep(**{"retention.ms": "7200000"})
    app.wait(SOON_S)
    assert app.snapshots == 1
    _check_survives(app)


def test_deleted_inputs_lead_to_a_snapshot_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can foresee `kafka-delete-records.sh`; the live task has its state, and saves it before it is killed."""
    app = _Quiet(BUSY, **{"retention.ms": "-1"})
    app.process()
    app.expire(before=5)
    with caplog.at_level(logging.WARNING):
        app.wait(SOON_S)
    assert app.snapshots == 1
    assert app.used == 0
    assert "retention-used" in {getattr(record, "event", "") for record in caplog.records}
    _check_survives(app)


@pytest.mark.slow(5)
def test_the_used_share_of_retention_is_published() -> None:
    """`ArebaSnapshotOld` fires at half of the retention, for a task that cannot write its snapshots."""
    app = _Quiet(BUSY)
    app.process()
    for task in app.member.tasks:
        task.live.snapshots.is_due = lambda *, ending=False: False  # type: ignore[method-assign]  # noqa: ARG005
    app.wait(0.6 * RETENTION_S)
    assert app.used == pytest.approx(0.6, abs=0.01)


def test_progress_counts_as_the_inputs_do() -> None:
    """A restore reads progress from its snapshot on; an administrator has given that topic a retention, too."""
    app = _Quiet(BUSY, **{"retention.ms": "-1"})
    app.process()
    app.world.broker.alter_topic(app.world.config.topics.progress, {"retention.ms": str(int(1000 * RETENTION_S))})
    app.wait(RETENTION_SHARE * RETENTION_S - 60)
    assert app.snapshots == 0
    app.wait(60 + SOON_S)
    assert app.snapshots == 1


def test_a_task_that_is_killed_repeatedly_saves_its_state_in_time() -> None:
    """A task that is killed again and again must not begin to count again."""
    app = _Quiet(BUSY)
    app.process()
    for _ in range(3):
        app.wait(0.05 * RETENTION_S)
        app.kill()
        app.member = app.start()
    app.wait(SOON_S)
    assert app.snapshots == 1
    _check_survives(app)


def test_a_repair_does_not_prevent_a_snapshot() -> None:
    """Outputs lost their markers, and the worker publishes them again; the pause that follows must save the task."""
    app = _Quiet(BUSY)
    app.process()
    app.kill()
    log = app.world.broker._log(TopicPartition(app.world.config.topics.predictions, 0))
    last, aborted = log.entries[-1].transaction, LogTransaction(0.0, 0.0, TransactionState.ABORTED)
    log.entries[:] = [
        entry._replace(transaction=aborted) if entry.transaction is last else entry for entry in log.entries
    ]
    app.world.config = make_config()
    app.member = app.start()
    app.kill()
    app.member = app.start()  # which processes the repair again
    last_record = app.world.progress(0)[-1]
    assert isinstance(last_record, Act)
    assert last_record.kind == REPAIR
    assert app.snapshots == 0
    app.wait(40)
    assert app.snapshots == 1
    _check_survives(app)
