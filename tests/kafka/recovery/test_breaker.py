"""A producer with the wrong schema stops one task, not the application, and no record is lost."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.records import Act, Commit, Side
from tests.support.kafka.application import App, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import WorkerProcess, areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import example, label
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

IN_A_ROW = 10

SECTIONS: Mapping[str, Section] = {
    "streams": {"bad": {"features": 1}, "good": {"features": 1}},
    "breaker": {"in_a_row": IN_A_ROW},
    "worker": {"http_port": 0},
}

REASON = "tripped: 10 unreadable examples in a row (limit 10)"


def _pairs(stream: str, partition: int, first: int, count: int, start_ms: int) -> list[Sent]:
    """Return examples and their labels."""
    return [
        sent
        for number in range(first, first + count)
        for sent in (
            example(stream, str(number), [float(number)], start_ms + 10 * number, partition),
            label(stream, str(number), number % 2, start_ms + 10 * number + 5, partition),
        )
    ]


def _garbage(start_ms: int, count: int) -> list[Sent]:
    return [Sent(Side.EXAMPLES, 0, start_ms + number, b"bad", b"not Avro") for number in range(count)]


def _get(worker: WorkerProcess, path: str) -> tuple[int, str]:
    """Return status and text of a worker's page, at the port that its log names."""
    found = re.search(r"serving http://127\.0\.0\.1:(\d+)/", worker.log())
    assert found is not None
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=DEADLINE_S)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _check_stopped(worker: WorkerProcess, file: Path) -> None:
    """Check that task 0 is stopped and task 1 runs: readiness, metrics and `areba inspect` say so, and what to do."""
    wait_until(lambda: "task 1: live" in _get(worker, "/ready")[1], "task 1 is live")
    status, ready = _get(worker, "/ready")
    assert status == 503
    assert f"task 0: {REASON}; fix the producer, then: areba resume --task 0\n" in ready
    metrics = _get(worker, "/metrics")[1]
    assert 'areba_task_state{state="tripped",task="0"} 1.0' in metrics
    assert 'areba_task_state{state="live",task="1"} 1.0' in metrics
    result = areba(file, "inspect")
    assert result.returncode == 1, result.stderr
    assert f"task 0: {REASON}; fix the producer, then: areba resume --task 0\n" in result.stdout
    plain = json.loads(areba(file, "inspect", "--json").stdout)
    assert plain["tasks"][0]["state"] == "tripped"
    assert (plain["ok"], plain["workers"]) == (False, 1)


def _check_runs(worker: WorkerProcess, file: Path) -> None:
    """Check that both tasks run."""
    wait_until(lambda: _get(worker, "/ready") == (200, "task 0: live\ntask 1: live\n"), "the worker is ready")
    metrics = _get(worker, "/metrics")[1]
    assert 'areba_task_state{state="live",task="0"} 1.0' in metrics
    assert 'areba_task_state{state="tripped",task="0"} 0.0' in metrics
    result = areba(file, "inspect")
    assert result.returncode == 0, result.stdout


def test_a_bad_run_stops_one_task_until_resume(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Task 0 trips and stays stopped, also after a restart, until `areba resume`; task 1 continues all the time.

    Readiness, metrics and `areba inspect` report this. Otherwise an application would process a day of garbage, or a
    single bad producer would stop it for no visible reason.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2)
    app.create_topics()
    start_ms = int(time.time() * 1000) - 600_000
    app.send([*_pairs("bad", 0, 0, 20, start_ms), *_garbage(start_ms + 200, IN_A_ROW)])
    file = app.file("w")
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        worker.wait_for("tripped task=0: 10 unreadable examples in a row (limit 10)")
        progress.wait_for_ends({0: (20 + IN_A_ROW, 20)})
        last = progress.records[0][-1]
        assert isinstance(last, Commit)
        assert last.tripped
        _check_stopped(worker, file)

        app.send([*_pairs("bad", 0, 30, 20, start_ms), *_pairs("good", 1, 0, 20, start_ms)])
        progress.wait_for_ends({1: (20, 20)})
        assert areba(file, "resume", "--task", "1").returncode == 3, "a task that runs is not resumed"
        assert worker.stop() == 0
        worker.start()
        worker.wait_for("tripped task=0")
        _check_stopped(worker, file)
        app.send(_pairs("good", 1, 20, 20, start_ms))
        progress.wait_for_ends({1: (40, 40)})
        assert progress.offsets[0] == (20 + IN_A_ROW, 20), "later records wait"

        resumed = areba(file, "resume", "--task", "0")
        assert (resumed.returncode, resumed.stderr) == (0, "")
        worker.wait_for("resumed task=0")
        _check_runs(worker, file)
        progress.wait_for_ends({0: (40 + IN_A_ROW, 40)})

        # once more, without a worker that reads the operator's record as it comes
        app.send([*_garbage(start_ms + 600, IN_A_ROW), *_pairs("bad", 0, 70, 1, start_ms)])
        worker.wait_for("tripped task=0", times=2)
        assert worker.stop() == 0
        assert areba(file, "resume", "--task", "0").returncode == 0
        again = areba(file, "resume", "--task", "0")
        assert again.returncode == 3
        assert "nothing to resume" in again.stderr
        worker.start()
        progress.wait_for_ends(app.input_ends())
        worker.wait_for("restored task=0")
        assert worker.stop() == 0
        acts = [record.kind for record in progress.records[0] if isinstance(record, Act)]
        assert acts == ["configuration", "resume", "resume"]
    check_exactly_once(app)
    assert len(app.outputs(0)["dead-letters"]) == 2 * IN_A_ROW
    assert len(app.outputs(0)["predictions"]) == 41
