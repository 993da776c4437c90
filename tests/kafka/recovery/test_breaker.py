"""A producer with the wrong schema stops its stream, not the task, and no record is lost."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.progress_records import SNAPSHOT, Act, Commit
from stream_app.records import Side
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import WorkerProcess, areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import example, label
from tests.support.kafka.waiting import DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(60)]

IN_A_ROW = 10

SECTIONS: Mapping[str, Section] = {
    "streams": {"bad": {"features": 1}, "good": {"features": 1}, "near": {"features": 1}},
    "breaker": {"in_a_row": IN_A_ROW},
    "worker": {"http_port": 0},
}

REASON = "10 malformed examples in a row (limit 10); fix the producer, then: areba resume bad\n"
LINE = f"task 0: stream 'bad' is stopped: {REASON}"


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
    """Check that the stream is stopped: readiness, metrics and `areba inspect` say so, and what to do."""

    def is_ready() -> bool:
        status, text = _get(worker, "/ready")
        return status == 200 and LINE in text

    wait_until(is_ready, "the page names the stream, and the other streams of the task are processed")
    assert 'areba_stopped_streams{stream="bad",task="0"} 1.0' in _get(worker, "/metrics")[1]
    result = areba(file, "inspect")
    assert result.returncode == 1, result.stderr
    assert f"stream-stopped task 0: stream 'bad': {REASON}" in result.stdout
    plain = json.loads(areba(file, "inspect", "--json").stdout)
    assert plain["tasks"][0]["state"] == "running"
    assert plain["tasks"][0]["stopped"] == {"bad": "10 malformed examples in a row (limit 10)"}


def test_a_bad_run_stops_one_stream_until_resume(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The stream stays stopped, also after a restart, until `areba resume`; the others of its task never notice.

    Readiness, metrics and `areba inspect` report this, and what came meanwhile is sent back.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2)
    app.create_topics()
    start_ms = int(time.time() * 1000) - 600_000
    app.send([*_pairs("bad", 0, 0, 20, start_ms), *_garbage(start_ms + 200, IN_A_ROW)])
    file = app.file("w")
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        progress.wait_for_ends({0: (20 + IN_A_ROW, 20)})
        app.send([*_pairs("bad", 0, 30, 20, start_ms), *_pairs("near", 0, 30, 20, start_ms)])
        worker.wait_for("stream-stopped task=0 stream='bad': 10 malformed examples in a row (limit 10)")
        progress.wait_for_ends({0: (60 + IN_A_ROW, 60)})
        last = progress.records[0][-1]
        assert isinstance(last, Commit)
        assert [*last.stops] == ["bad"]
        _check_stopped(worker, file)
        assert areba(file, "resume", "near").returncode == 3, "a stream that runs is not resumed"

        assert worker.stop() == 0
        worker.start()
        worker.wait_for("stream-stopped task=0")
        _check_stopped(worker, file)

        resumed = areba(file, "resume", "bad")
        assert (resumed.returncode, resumed.stderr) == (0, "")
        worker.wait_for("stream-resumed task=0 stream='bad'")
        wait_until(lambda: _get(worker, "/ready") == (200, "task 0: live\ntask 1: live\n"), "no stream is stopped")
        again = areba(file, "resume", "bad")
        assert again.returncode == 3
        assert "nothing to resume" in again.stderr
        sent = areba(file, "dlq", "resend", "--reason", "stream-stopped")
        assert sent.returncode == 0, sent.stderr
        progress.wait_for_ends(app.input_ends())
        assert worker.stop() == 0
        acts = [one.kind for one in progress.records[0] if isinstance(one, Act) and one.kind != SNAPSHOT]
        assert acts == ["configuration", "stop"]
    letters = app.outputs(0)["dead-letters"]
    assert len(letters) >= IN_A_ROW + 40
    assert len(app.outputs(0)["predictions"]) == 60
    assert areba(file, "verify").returncode == 0
