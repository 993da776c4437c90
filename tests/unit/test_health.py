"""`/ready` and `/metrics`: what a supervisor and Prometheus are told of a worker, over real sockets on loopback."""

import contextlib
import http.client
import logging
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from stream_app import health, start
from stream_app.embedded import EmbeddedTransaction, ManualClock
from stream_app.errors import ConfigurationError, TransactionAbortedError, UnknownOutcomeError
from stream_app.hanging import HANGS_AFTER_S
from stream_app.health import HealthObserver, HealthServer, Page, ready_page
from stream_app.metrics import metrics_page
from stream_app.ports import TopicPartition
from stream_app.records import OutputRecords
from stream_app.restore import Stage
from tests.unit.test_restore import (
    BREAKER,
    PARTITIONS,
    World,
    _all_at,
    _config,
    _Failing,
    _started,
    _Ticking,
    _turns,
)

TOPICS = ("examples", "labels")


def _get(port: int, path: str = "/ready", method: str = "GET") -> tuple[int, str]:
    """Status and text of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@contextlib.contextmanager
def _served(observer: HealthObserver) -> Iterator[int]:
    pages: dict[str, Callable[[], Page]] = {
        "/metrics": metrics_page(observer, TOPICS),
        "/ready": partial(ready_page, observer),
    }
    with closing(HealthServer("127.0.0.1", 0, pages)) as server:
        yield server.port


def _samples(port: int) -> dict[str, float]:
    """By name and labels, as Prometheus reads them."""
    status, text = _get(port, "/metrics")
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
    """Ready once all is restored, not before, nor while the group deals its tasks anew; counts follow what it did."""
    world = World(_config(worker={"snapshot_after_ms": 0}))
    observer = HealthObserver(world.clock)
    world.send(7)
    with _served(observer) as port:
        assert _get(port) == (503, "the group was not joined yet\n")
        assert _states(_samples(port)) == {}
        member = _started(world.worker(observer=observer))
        _turns(member, until=lambda: len(member.tasks) == PARTITIONS)
        _turns(member, until=_all_at(member, 7))
        _turns(member, until=lambda: not any(task.writes_snapshot for task in member.tasks))
        assert _get(port) == (200, "task 0: live\ntask 1: live\n")
        samples = _samples(port)
        assert _states(samples) == {"0": "live", "1": "live"}
        assert samples['areba_committed_offset{task="0",topic="examples"}'] == 7
        assert samples['areba_committed_offset{task="1",topic="labels"}'] == 7
        written = sum(len(rows) for (_, number), rows in world.outputs().items() if number == 0)
        assert samples['areba_output_records_total{task="0"}'] == written > 0
        assert samples['areba_snapshots_total{task="0"}'] >= 1
        assert samples['areba_snapshot_bytes_total{task="0"}'] > 0
        assert samples["areba_aborted_transactions_total"] == 0
        member._close()
        assert _get(port) == (503, "the group was not joined yet\n")
        assert not [name for name in _samples(port) if "task=" in name], "labels of tasks that others have now"


def test_restoring_is_not_ready() -> None:
    """Whoever sends work away from a worker that restores is told how far it is."""
    world = World(_config(worker={"max_batch_records": 1}))
    world.send(30)
    first = _started(world.worker())
    _turns(first, until=_all_at(first, 30))
    world.use(_Ticking())
    observer = HealthObserver(world.clock)
    again = _started(world.worker(observer=observer))
    with _served(observer) as port:
        _turns(again, until=lambda: len(again.tasks) == PARTITIONS)
        status, text = _get(port)
        assert (status, text.splitlines()[0]) == (503, "task 0: restoring: snapshot and progress are read")
        assert _samples(port)['areba_committed_offset{task="0",topic="examples"}'] == 30
        _turns(again, until=lambda: bool(again.tasks) and 4 < again.tasks[0].replayed_records < 40)
        again.turn()
        status, text = _get(port)
        assert status == 503
        assert re.match(r"task 0: restoring: offsets \d+/\d+ of 30/30\n", text), text
        assert _states(_samples(port))["0"] == "restoring"
        _turns(again, until=_all_at(again, 30))
        assert _get(port)[0] == 200


def test_a_trip_and_its_end() -> None:
    """The reason and the command; live again behind the resume."""
    world = World(_config(**BREAKER))
    observer = HealthObserver(world.clock)
    world.send(6)
    for _ in range(3):
        world.put("examples", 0, None, b"garbage", 100)
    member = _started(world.worker(observer=observer))
    _turns(member, until=lambda: [task.stage for task in member.tasks] == [Stage.TRIPPED, Stage.LIVE])
    with _served(observer) as port:
        status, text = _get(port)
        assert status == 503
        assert text == (
            "task 0: stopped by the breaker: 3 malformed records in a row (limit 3); mend the producer, then: "
            "areba resume --task 0\ntask 1: live\n"
        )
        assert _states(_samples(port)) == {"0": "tripped", "1": "live"}
        world.resume(0, member.tasks[0].point.sequence + 1)
        _turns(member, until=lambda: member.tasks[0].stage is Stage.LIVE)
        assert _get(port) == (200, "task 0: live\ntask 1: live\n")


def test_a_task_that_cannot_be_restored() -> None:
    """The worker goes on with the others; that is no reason to call it ready."""
    world = World()
    world.send(5)
    first = _started(world.worker())
    _turns(first, until=_all_at(first, 5))
    for name in TOPICS:
        del world.broker._group("app").offsets[next(p for p in world.broker._group("app").offsets if p == (name, 0))]
    observer = HealthObserver(world.clock)
    again = _started(world.worker(observer=observer))
    _turns(again, until=lambda: [task.stage for task in again.tasks] == [Stage.PARKED, Stage.LIVE])
    text = observer.health().text()
    assert text.startswith("task 0: cannot be restored: ")
    assert "`areba state recommit`" in text
    assert not observer.health().is_ready


def test_a_task_that_waits_for_a_dead_transaction() -> None:
    """It commits nothing there, and says so; the other one goes on, and so does it once that has ended."""
    world = World(_config())
    dead = EmbeddedTransaction(world.broker, "app-other", timeout_s=10 * HANGS_AFTER_S)
    dead.initialise()
    dead.begin()
    place = TopicPartition(world.config.topics.predictions, 1)
    dead.produce(place, OutputRecords([b"s"], [b"never committed"], [1]))
    world.send(7)
    observer = HealthObserver(world.clock)
    member = _started(world.worker(observer=observer, joins=True))
    with _served(observer) as port:
        _turns(member, until=lambda: _get(port)[0] == HTTPStatus.OK)
        begun_s = world.clock.monotonic_s()
        _turns(member, until=lambda: world.clock.monotonic_s() > begun_s + HANGS_AFTER_S + 2)
        assert {task.number: task.offsets for task in member.tasks} == {0: (7, 7), 1: (0, 0)}
        assert _get(port) == (
            503,
            "task 0: live\ntask 1: waits for a transaction in predictions[1] that does not end\n",
        )
        dead.abort()
        _turns(member, until=_all_at(member, 7))
        assert _get(port) == (200, "task 0: live\ntask 1: live\n")
    assert b"never committed" not in [value for _, value, *_ in world.rows("predictions", 1)]


def test_aborts_are_counted() -> None:
    """And the tasks that are restored for it are not called live meanwhile."""
    world = World()
    observer = HealthObserver(world.clock)
    world.send(20)
    failing = _Failing(world.broker, dict.fromkeys((1, 3), TransactionAbortedError))
    member = _started(world.worker(transaction=failing, observer=observer))
    seen = set()

    def done() -> bool:
        states = tuple(task.state.value for task in observer.health().tasks.values())
        seen.add((observer.health().aborts, states))
        return _all_at(member, 20)()

    _turns(member, until=done)
    assert observer.health().aborts == 2
    assert (1, ("restoring", "restoring")) in seen
    assert (1, ("live", "live")) in seen
    assert observer.health().is_ready


def test_a_member_without_tasks_is_ready() -> None:
    """More workers than partitions: those left over stand by, and are no reason for an alarm."""
    observer = HealthObserver(ManualClock())
    observer.assigned([])
    assert ready_page(observer) == Page(HTTPStatus.OK, health.PLAIN_TEXT, b"the group gave this worker no task\n")


# The server -----------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_a_wrong_setting() -> None:
    """Told at start, with the setting's name, in place of a worker that nobody can watch."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"worker\.http_port: cannot listen at 127\.0\.0\.1:{port}: "):
            HealthServer("127.0.0.1", port, {})
    with pytest.raises(ConfigurationError, match=r"worker\.http_host: cannot listen at 192\.0\.2\.1:0: "):
        HealthServer("192.0.2.1", 0, {})  # an address for documentation: no machine has it


def test_a_page_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Status 500 for this one, the reason in the log; the next request is answered."""

    def broken() -> Page:
        raise ZeroDivisionError("told to")

    fine = partial(Page, HTTPStatus.OK, health.PLAIN_TEXT, b"fine")
    with closing(HealthServer("127.0.0.1", 0, {"/broken": broken, "/fine": fine})) as server:
        assert _get(server.port, "/broken") == (500, "failed; the worker's log has the reason\n")
        assert "told to" in caplog.text
        assert _get(server.port, "/fine?x=1") == (200, "fine")
        assert _get(server.port, "/") == (404, "there is no such page; there are: /broken, /fine\n")
        assert _get(server.port, "/fine", "POST")[0] == 501


def test_bad_clients_take_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends nothing, drips for ever, sends megabytes or hangs up holds the one thread up for a moment only."""
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 0.2)
    fine = partial(Page, HTTPStatus.OK, health.PLAIN_TEXT, b"fine")
    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.05):
                client.sendall(b"x")

    with closing(HealthServer("127.0.0.1", 0, {"/": fine})) as server, contextlib.ExitStack() as stack:
        silent, dripping, large, gone = (
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20)) for _ in range(4)
        )
        thread = threading.Thread(target=drip, args=(dripping,))
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        with contextlib.suppress(OSError):
            large.sendall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000)
        gone.close()
        assert _get(server.port, "/") == (200, "fine")
        assert silent.recv(1) == b"", "given up"


def test_a_worker_without_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens, and nothing of it is imported: a start is not a half second later for a page nobody asks for."""
    monkeypatch.setattr(health, "HealthServer", None)
    with start._observed(_config(), ManualClock()) as observer:
        assert not isinstance(observer, HealthObserver)
    code = (
        "import sys; from stream_app import start, worker, cli, inspect_tasks; "
        "sys.exit('prometheus_client' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False, timeout=120).returncode == 0


def test_the_server_lives_as_long_as_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    """It answers from the first moment; however the worker ends, the port is free for the process after it."""
    caplog.set_level(logging.INFO)
    config = _config(worker={"http_port": 0})
    ports = []

    def die() -> None:
        with start._observed(config, ManualClock()) as observer:
            assert isinstance(observer, HealthObserver)
            found = re.search(r"answering at http://127\.0\.0\.1:(\d+)/metrics and http", caplog.text)
            assert found is not None
            ports.append(int(found[1]))
            assert _get(ports[0]) == (503, "the group was not joined yet\n")
            raise UnknownOutcomeError("as a worker ends that starts afresh")

    with pytest.raises(UnknownOutcomeError):
        die()
    [port] = ports
    with pytest.raises(ConnectionRefusedError):
        _get(port)
    again = _config(worker={"http_port": port})
    with start._observed(again, ManualClock()):
        assert _get(port)[0] == 503


def test_two_workers_of_a_process_share_nothing() -> None:
    """Each has a registry of its own."""
    one, two = HealthObserver(ManualClock()), HealthObserver(ManualClock())
    one.assigned([0])
    with _served(one) as first, _served(two) as second:
        assert _states(_samples(first)) == {"0": "restoring"}
        assert _states(_samples(second)) == {}
