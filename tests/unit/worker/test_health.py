"""`/alive`, `/ready`, `/metrics` of a worker: what a supervisor and Prometheus read, over real sockets on loopback."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http import HTTPStatus
from typing import Any

import numba
import numpy as np
import pytest

from stream_app.backends.base import TopicPartition
from stream_app.backends.clock import ManualClock
from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import ErrorCode, TransactionAbortedError
from stream_app.jit.compiler import reporting_compiled
from stream_app.live.live_task import BatchCounts
from stream_app.lost_markers.open_transactions import HANGS_AFTER_S
from stream_app.record_columns import OutputRecords
from stream_app.recovery import reprocessing
from stream_app.task_state import TaskState
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.health import READY_LIMIT_S
from stream_app.worker.reports.http import PageServer, pages_of
from stream_app.worker.reports.observer import STEP_LIMIT_S, Observer
from stream_app.worker.worker import Worker
from tests.support.damages.world import stopped_world
from tests.support.pages import get
from tests.support.world import (
    PARTITIONS,
    FailingTransaction,
    TickingClock,
    World,
    all_at,
    make_config,
    started,
    take_turns,
)

STOPPED = (
    "task 0: stream 's0' is stopped: 3 malformed examples in a row (limit 3); fix the producer, then: areba resume s0"
)


@contextlib.contextmanager
def _served(observer: Observer) -> Iterator[int]:
    with closing(PageServer("127.0.0.1", 0, pages_of(observer))) as server:
        yield server.port


def _samples(port: int) -> dict[str, float]:
    """By name and labels, as Prometheus reads them."""
    status, text = get(port, "/metrics")
    assert status == HTTPStatus.OK
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def _states(samples: dict[str, float]) -> dict[str, str]:
    """Of each task."""
    found = {}
    for name, value in samples.items():
        match = re.fullmatch(r'areba_task_state\{state="(\w+)",task="(\d+)"\}|'
                             r'areba_task_state\{task="(\d+)",state="(\w+)"\}', name)  # fmt: skip
        if match and value == 1:
            found[match[2] or match[3]] = match[1] or match[4]
    return found


def test_the_life_of_a_worker() -> None:
    """Ready once all is restored, not before, nor during a rebalance; counts follow what it did."""
    world = World(make_config(worker={"snapshot_after_ms": 0}))
    observer = Observer(world.clock, publishes=True)
    world.send(7)
    with _served(observer) as port:
        assert get(port) == (503, "the group was not joined yet\n")
        assert _states(_samples(port)) == {}
        member = started(world.worker(observer=observer))
        take_turns(member, until=lambda: len(member.tasks) == PARTITIONS)
        take_turns(member, until=all_at(member, 7))
        take_turns(member, until=lambda: not any(task.is_saving for task in member.tasks))
        assert get(port) == (200, "task 0: live\ntask 1: live\n")
        samples = _samples(port)
        assert _states(samples) == {"0": "live", "1": "live"}
        assert samples['areba_committed_offset{input="examples",task="0"}'] == 7
        assert samples['areba_committed_offset{input="labels",task="1"}'] == 7
        written = sum(len(rows) for (_, number), rows in world.outputs().items() if number == 0)
        outputs = [samples[name] for name in samples if name.startswith("areba_output_records_total{")]
        assert sum(outputs) == 2 * written > 0
        assert samples['areba_snapshots_total{task="0"}'] >= 1
        assert samples['areba_snapshot_bytes_total{task="0"}'] > 0
        assert samples["areba_aborted_transactions_total"] == 0
        member._close()
        assert get(port) == (503, "the group was not joined yet\n")
        tasks = [name.partition("{")[0] for name in _samples(port) if "task=" in name]
        assert all(name.endswith("_total") for name in tasks), "gauges of tasks that others have now"


def _restarted(count: int) -> tuple[World, Worker, Observer]:
    """Return a world with a new worker that has to process this many records again, a batch each."""
    world = World(make_config(worker={"max_batch_records": 1}))
    world.send(count)
    first = started(world.worker())
    take_turns(first, until=all_at(first, count))
    world.use(TickingClock())
    observer = Observer(world.clock, publishes=True)
    return world, started(world.worker(observer=observer)), observer


def test_restoring_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a worker that restores shows how far the restore is."""
    monkeypatch.setattr(reprocessing, "MAX_RECORDS", 8)
    _, again, observer = _restarted(30)
    with _served(observer) as port:
        take_turns(again, until=lambda: len(again.tasks) == PARTITIONS)
        status, text = get(port)
        assert (status, text.splitlines()[0]) == (503, "task 0: loading")
        take_turns(again, until=lambda: bool(again.tasks) and 4 < again.tasks[0].report.reprocessed_records < 40)
        again.turn()
        status, text = get(port)
        assert status == 503
        assert re.match(r"task 0: reprocessing: offsets \d+/\d+ of 30/30\n", text), text
        committed = 'areba_committed_offset{input="examples",task="0"}'
        assert (_states(_samples(port))["0"], _samples(port)[committed]) == ("reprocessing", 30)
        take_turns(again, until=all_at(again, 30))
        assert get(port)[0] == 200
        assert _samples(port)[committed] == 30


def test_a_stopped_stream_and_its_end() -> None:
    """The page shows the reason and the command; the worker is ready, for the sake of the other streams."""
    observer = Observer(ManualClock(), publishes=True)
    world, member = stopped_world(observer=observer)
    with _served(observer) as port:
        assert get(port) == (200, f"task 0: live\n{STOPPED}\ntask 1: live\n")
        series = 'areba_stopped_streams{stream="s0",task="0"}'
        assert _samples(port)[series] == 1
        world.resume(0)
        take_turns(member, until=lambda: member.tasks[0].offsets == (11, 7))
        assert get(port) == (200, "task 0: live\ntask 1: live\n")
        assert _samples(port)[series] == 0


def test_a_task_that_cannot_be_restored() -> None:
    """The worker continues with the others; that is no reason to call it ready."""
    world = World()
    world.send(5)
    first = started(world.worker())
    take_turns(first, until=all_at(first, 5))
    world.put("progress", 0, None, b"not ours")
    observer = Observer(world.clock, publishes=True)
    again = started(world.worker(observer=observer))
    take_turns(again, until=lambda: [task.state for task in again.tasks] == [TaskState.PARKED, TaskState.LIVE])
    text = observer.health().ready_text()
    assert text.startswith("task 0: parked: ")
    assert f"[{ErrorCode.STATE_UNUSABLE}]" in text.splitlines()[0]
    assert not observer.health().is_ready


def test_a_task_that_waits_for_a_dead_transaction() -> None:
    """The task commits nothing and says so; the other task continues, and so does it once the transaction has ended."""
    world = World()
    dead = EmbeddedTransaction(world.broker, "app-other", timeout_s=10 * HANGS_AFTER_S)
    dead.initialise()
    dead.begin()
    place = TopicPartition(world.config.topics.predictions, 1)
    dead.produce(place, OutputRecords.of([b"s"], [b"never committed"], [1]))
    world.send(7)
    observer = Observer(world.clock, publishes=True)
    member = started(world.worker(observer=observer, joins=True))
    with _served(observer) as port:
        take_turns(member, until=lambda: [task.offsets for task in member.tasks] == [(7, 7)])
        for _ in range(30):
            world.clock.advance(HANGS_AFTER_S / 25)
            member.turn()
        assert {task.number: task.offsets for task in member.tasks} == {0: (7, 7)}
        assert get(port) == (
            503,
            "task 0: live\ntask 1: waits for a transaction in predictions[1] that does not end\n",
        )
        dead.abort()
        take_turns(member, until=all_at(member, 7))
        assert get(port) == (200, "task 0: live\ntask 1: live\n")
    assert b"never committed" not in [value for _, value, *_ in world.rows("predictions", 1)]


def test_aborts_are_counted() -> None:
    """Tasks that wait to be restored are not shown as live."""
    world = World()
    observer = Observer(world.clock, publishes=True)
    world.send(20)
    failing = FailingTransaction(world.broker, dict.fromkeys((1, 3), TransactionAbortedError))
    member = started(world.worker(transaction=failing, observer=observer))
    seen = set()

    def aborts() -> float:
        return observer.figures.values()[metrics.ABORTED_TRANSACTIONS][()]

    def done() -> bool:
        states = tuple(task.state.value for task in observer.health().tasks.values())
        seen.add((aborts(), states))
        return all_at(member, 20)()

    take_turns(member, until=done)
    assert aborts() == 2
    assert (1, ("reprocessing", "reprocessing")) in seen
    assert (1, ("live", "live")) in seen
    assert observer.health().is_ready


def test_a_member_without_tasks_is_ready() -> None:
    """More workers than partitions: the others stand by, and raise no alarm."""
    observer = Observer(ManualClock(), publishes=True)
    observer.emit(events.Assigned([]))
    observer.emit(events.RoundEnded(0.0))
    health = observer.health()
    assert (health.is_ready, health.ready_text()) == (True, "the group gave this worker no task\n")


# Alive and ready know time --------------------------------------------------------------------------------------------

GATES: dict[str, threading.Event] = {}
"""The gates that the learner and the broker below wait for."""


class Sleeper:
    """A user's learner whose `learn` never returns."""

    def __init__(self, *_: object) -> None: ...

    def predict(self, _: object) -> float:
        """Return one half."""
        return 0.5

    def learn(self, *_: object) -> None:
        """Sleep, until the test has seen enough."""
        GATES["asleep"].set()
        GATES["wake"].wait(60)

    def arrays(self) -> dict[str, Any]:
        """Return a constant state."""
        return {"nothing": np.zeros(1)}

    def load(self, _: object) -> None:
        """Load nothing: the method has no state to restore."""


class _Stopped(EmbeddedTransaction):
    """A broker that is stopped while a transaction is committed: the call waits."""

    def commit(self) -> None:
        """Wait for the broker."""
        GATES["asleep"].set()
        GATES["wake"].wait(60)
        super().commit()


@contextlib.contextmanager
def _in_a_thread(*members: Any) -> Iterator[threading.Event]:  # noqa: ANN401  (workers)
    """Let a worker turn until the test is over; it waits for the gates on the way."""
    GATES.update(asleep=threading.Event(), wake=threading.Event())
    stop = threading.Event()

    def turn() -> None:
        while not stop.wait(0.001):
            for member in members:
                member.turn()

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield GATES["wake"]
    finally:
        GATES["wake"].set()
        stop.set()
        thread.join(60)


def _until(condition: Callable[[], bool]) -> None:
    """Check repeatedly until a deadline."""
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("not within a minute")


def test_a_learner_that_sleeps_for_ever() -> None:
    """What a user would lose: a worker that hangs for days and is never restarted, since every page says 200."""
    world = World(make_config(learners={"mine": {"method": f"{__name__}:Sleeper"}}))
    observer = Observer(world.clock, publishes=True)
    member = started(world.worker(observer=observer))
    with _served(observer) as port:
        take_turns(member, until=lambda: get(port)[0] == HTTPStatus.OK)
        world.send(1)
        with _in_a_thread(member) as wake:
            assert GATES["asleep"].wait(60)
            assert (get(port)[0], get(port, "/alive")) == (200, (200, "alive\n"))
            world.clock.advance(READY_LIMIT_S + 1)
            status, text = get(port)
            assert (status, "no round has ended for 16 s" in text) == (503, True)
            assert get(port, "/alive")[0] == 200
            world.clock.advance(STEP_LIMIT_S - READY_LIMIT_S)
            status, text = get(port, "/alive")
            assert (status, text) == (503, "one step takes 61 s: task 0: a batch of 1 examples and 1 labels\n")
            assert _samples(port)["areba_step_seconds"] == 61
            wake.set()
            _until(lambda: get(port) == (200, "task 0: live\ntask 1: live\n"))
            assert get(port, "/alive")[0] == 200


def test_a_stopped_broker() -> None:
    """It never makes a worker look dead: to restart all workers would not help. Nor does it look ready."""
    world = World()
    observer = Observer(world.clock, publishes=True)
    stopped = _Stopped(world.broker, world.config.transactional_id, timeout_s=10_000.0)
    member = started(world.worker(transaction=stopped, observer=observer))
    with _served(observer) as port:
        take_turns(member, until=lambda: get(port)[0] == HTTPStatus.OK)
        world.send(1)
        with _in_a_thread(member) as wake:
            assert GATES["asleep"].wait(60)
            world.clock.advance(READY_LIMIT_S - 1)
            assert get(port)[0] == 200
            world.clock.advance(2)
            status, text = get(port)
            assert (status, "no round has ended for 16 s" in text) == (503, True)
            world.clock.advance(5_000)
            assert (get(port)[0], get(port, "/alive")) == (503, (200, "alive\n"))
            wake.set()
            _until(lambda: get(port)[0] == HTTPStatus.OK)


def test_a_broker_that_is_gone_while_there_is_nothing_to_do() -> None:
    """Idle rounds end, so only the age of the last answer shows it."""
    world = World()
    observer = Observer(world.clock, publishes=True)
    silence_s = 0.0
    member = started(world.worker(observer=observer, silence_s=lambda: silence_s))
    take_turns(member, until=lambda: observer.health().is_ready)
    silence_s = READY_LIMIT_S + 3
    member.turn()
    health = observer.health()
    assert (health.is_ready, health.is_alive) == (False, True)
    assert health.ready_text().startswith("no Kafka broker has answered for 18 s\n")
    observer.emit(events.CutOff(": the certificate has expired"))
    text = observer.health().ready_text()
    assert text.startswith("no Kafka broker has answered for 18 s: the certificate has expired\n"), "it says why"
    silence_s = 0.0
    member.turn()
    assert observer.health().is_ready
    assert observer.health().outage_cause == ""


def test_a_long_restore_is_alive() -> None:
    """It is many steps, each of them short: a supervisor that killed it would have it begin again, forever."""
    world, again, observer = _restarted(60)
    begun_s, seen = world.clock.monotonic_s(), []

    def done() -> bool:
        seen.append(observer.health().is_alive)
        return all_at(again, 60)()

    take_turns(again, until=done)
    assert world.clock.monotonic_s() - begun_s > 2 * STEP_LIMIT_S
    assert all(seen)


def test_compiling_gets_ahead() -> None:
    """Compiling takes minutes, function by function; only one function that takes too long is a standstill."""
    clock = ManualClock()
    observer = Observer(clock, publishes=True)
    with observer.step("compiling"), reporting_compiled(lambda: observer.emit(events.StepProgressed())):
        clock.advance(STEP_LIMIT_S + 1)
        assert not observer.health().is_alive
        compile_now: Any = numba.njit  # without a cache
        compile_now(lambda number: number + 1)(1)
        assert observer.health().is_alive
        clock.advance(STEP_LIMIT_S + 1)
        assert observer.health().alive_text() == "one step takes 61 s: compiling\n"
    assert observer.health().is_alive
    with Observer(clock).step("nobody asks"):
        pass


def test_every_metric_is_published() -> None:
    """By name and meaning, with what a scraper wants to know of the build and the process."""
    observer = Observer(ManualClock(), publishes=True)
    observer.emit(events.Assigned([3]))
    observer.emit(events.BatchCommitted(3, (1, 1), BatchCounts((1, 1), (0, 1), {"predictions": 5})))
    with _served(observer) as port:
        _, text = get(port, "/metrics")
        described = set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))
        assert {metric.name for metric in metrics.METRICS} <= described
        assert re.search(r'^areba_build_info\{.*version="\d', text, re.MULTILINE)
        assert _samples(port)["process_resident_memory_bytes"] > 0
        assert _samples(port)['areba_output_records_total{output="predictions",task="3"}'] == 5
