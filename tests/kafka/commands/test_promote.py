"""A challenger becomes the champion, or a threshold decides, while the stream is running, and after any crash, too."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ops.broker import Broker
from stream_app.backends.partitioner import partition_of
from stream_app.records import Outcome, Prediction
from stream_app.serialization import codec
from tests.support.kafka.application import App, Section
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import example, label
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

PARTITIONS = 3
STREAM = "pumps"
PARTITION = partition_of(STREAM.encode(), PARTITIONS)
SECTIONS: Mapping[str, Section] = {"streams": {STREAM: {"features": 2}}, "predictions": "all"}
LATE = 5
"""The number of examples between an example and its label."""


def _records(first: int, end: int, start_ms: int) -> list[Sent]:
    """Return examples, and the labels of earlier ones."""
    records = []
    for number in range(first, end):
        now_ms = start_ms + 10 * number
        records.append(example(STREAM, str(number), [number % 7, number % 3], now_ms, PARTITION))
        if number >= LATE:
            records.append(label(STREAM, str(number - LATE), number % 2, now_ms + 1, PARTITION))
    return records


def _named(app: App, topic: str) -> list[tuple[int, str | None]]:
    """Return the number of each example, and the champion that is named with it."""
    found: Sequence[object] = [codec.decode_one(read.value or b"") for read in app.outputs(PARTITION)[topic]]
    return [
        (int(record.id), record.learner)
        for record in found
        if isinstance(record, Outcome) or (isinstance(record, Prediction) and record.champion)
    ]


def test_promote_while_running(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The command runs next to a worker that processes a stream of last week; SIGKILL and a restart change nothing.

    Otherwise a change of champion would have no date, could be undone by a crash, or would wait for the clock.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    file = app.file("w")
    missing = areba(file, "promote", STREAM, "baseline")
    assert missing.returncode == 2
    assert f"{prefix}examples: the topic does not exist" in missing.stderr
    app.create_topics()
    for wrong in (("nobody", "baseline"), (STREAM, "nobody"), (STREAM, "baseline")):
        refused = areba(file, "promote", *wrong)
        assert (refused.returncode, refused.stdout) == (2, ""), "the last: there is no record yet"
        assert len(refused.stderr.splitlines()) == 1

    start_ms = int(time.time() * 1000) - 86_400_000
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        app.send(_records(0, 50, start_ms))
        progress.wait_for_ends({PARTITION: (50, 45)})
        promoted = areba(file, "promote", STREAM, "baseline")
        assert (promoted.returncode, promoted.stderr) == (0, "")
        line = f"{prefix}examples[{PARTITION}] offset 50: baseline is the champion of {STREAM} from here on\n"
        assert promoted.stdout == line
        progress.wait_for_ends({PARTITION: (51, 45)})
        app.send(_records(50, 80, start_ms))
        progress.wait_for_ends({PARTITION: (81, 75)})

        worker.kill()
        app.send(_records(80, 100, start_ms))
        worker.start()
        progress.wait_for_ends({PARTITION: (101, 95)})
        assert worker.stop() == 0
        models = worker.models()[PARTITION]
    wanted = [(number, "areba" if number < 50 else "baseline") for number in range(100)]
    assert _named(app, "predictions") == wanted
    assert _named(app, "outcomes") == wanted[:95], "the label came later, but who had answered did not change"
    assert not app.outputs(PARTITION)["dead-letters"]
    assert check_exactly_once(app)[PARTITION].models == models
    books = areba(file, "verify")
    assert books.returncode == 0, books.stdout


def test_promote_a_threshold_while_running(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """The command runs next to a worker, and neither SIGKILL nor a restart with the same file takes it back.

    Otherwise the desk that checks the alerts would have to wait for a restart, or would get the old flood back by one.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    file = app.file("w")
    app.create_topics()
    for wrong in (("--threshold", "score: 2"), ("--threshold", "costs"), ("areba", "--threshold", "majority"), ()):
        refused = areba(file, "promote", STREAM, *wrong)
        assert (refused.returncode, refused.stdout) == (2, "")

    start_ms = int(time.time() * 1000) - 86_400_000
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        app.send(_records(0, 50, start_ms))
        progress.wait_for_ends({PARTITION: (50, 45)})
        promoted = areba(file, "promote", STREAM, "--threshold", "alerts: 0.1")
        assert (promoted.returncode, promoted.stderr) == (0, "")
        line = f"{prefix}examples[{PARTITION}] offset 50: the threshold of {STREAM} is alerts 0.1 from here on\n"
        assert promoted.stdout == line
        app.send(_records(50, 80, start_ms))
        progress.wait_for_ends({PARTITION: (81, 75)})
        worker.kill()
        app.send(_records(80, 100, start_ms))
        worker.start()
        progress.wait_for_ends({PARTITION: (101, 95)})
        checked = areba(file, "config", "--check")
        assert "threshold: alerts 0.1 in place of the file's majority (streams: pumps) was promoted" in checked.stdout
        assert checked.returncode == 0
        assert worker.stop() == 0
        models = worker.models()[PARTITION]
    found = [codec.decode_one(read.value or b"") for read in app.outputs(PARTITION)["predictions"]]
    kinds = [(one.id, one.threshold_kind) for one in found if isinstance(one, Prediction) and one.champion]
    assert kinds == [(str(number), "majority" if number < 50 else "alerts") for number in range(100)]
    assert check_exactly_once(app)[PARTITION].models == models
    books = areba(file, "verify")
    assert books.returncode == 0, books.stdout
