"""A producer with the wrong schema stops one task, not the application, and nothing is lost on the way."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.records import Act, Commit, Side
from tests.kafka.support import (
    App,
    Progress,
    Section,
    Sent,
    areba,
    check_exactly_once,
    example,
    label,
    workers,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IN_A_ROW = 10

SECTIONS: Mapping[str, Section] = {
    "streams": {"bad": {"features": 1}, "good": {"features": 1}},
    "breaker": {"in_a_row": IN_A_ROW},
}


def _pairs(stream: str, partition: int, first: int, count: int, start_ms: int) -> list[Sent]:
    """Examples and their labels."""
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


def test_a_bad_run_stops_one_task_until_resume(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Task 0 trips and stays paused, over a restart too; task 1 goes on; `areba resume` lets task 0 go on.

    What a user would lose: an application that eats a day of garbage, or one that a single bad producer stops.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=2)
    app.create_topics()
    start_ms = int(time.time() * 1000) - 600_000
    app.send([*_pairs("bad", 0, 0, 20, start_ms), *_garbage(start_ms + 200, IN_A_ROW)])
    file = app.file("w")
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        worker.wait_for("tripped task=0: 10 malformed records in a row (limit 10)")
        progress.wait_for_ends({0: (20 + IN_A_ROW, 20)})
        last = progress.records[0][-1]
        assert isinstance(last, Commit)
        assert last.tripped

        app.send([*_pairs("bad", 0, 30, 20, start_ms), *_pairs("good", 1, 0, 20, start_ms)])
        progress.wait_for_ends({1: (20, 20)})
        assert areba(file, "resume", "--task", "1").returncode == 3, "a task that runs is not resumed"
        assert worker.stop() == 0
        worker.start()
        worker.wait_for("tripped task=0")
        app.send(_pairs("good", 1, 20, 20, start_ms))
        progress.wait_for_ends({1: (40, 40)})
        assert progress.offsets[0] == (20 + IN_A_ROW, 20), "what came behind waits"

        resumed = areba(file, "resume", "--task", "0")
        assert (resumed.returncode, resumed.stderr) == (0, "")
        worker.wait_for("resumed task=0")
        progress.wait_for_ends({0: (40 + IN_A_ROW, 40)})

        # once more, with nobody there to see the record of the operator come
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
