"""`areba erase` while a worker runs: the changelog loses the person, and the application continues."""

import time

import pytest

from stream_app.backends.base import TopicPartition
from tests.kafka.recovery.applications import STREAMS
from tests.support.kafka.application import App
from tests.support.kafka.exactly_once import check_exactly_once
from tests.support.kafka.processes import areba, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import all_records, example, label
from tests.support.kafka.topics import read_raw

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

PERSON = ("a person, learned", "a person, pending", "a person, early")


def live_values(app: App) -> bytes:
    """Return the values of the changelog that compaction would keep: the newest of each key."""
    records = read_raw(app.cluster, TopicPartition(app.config.topics.changelog, 0))
    newest = dict(zip(records.keys, records.values, strict=True))
    return b"".join(value or b"" for value in newest.values())


def test_a_person_is_erased_while_the_worker_runs(app: App) -> None:
    """A `kill -9` follows: the next process restores what is left, and `verify` and `explain` know the mark."""
    now_ms = int(time.time() * 1000)
    records = all_records(STREAMS, 100, now_ms - 30_000, seed=5)
    person = [example("alpha", id_, [0.5, 1234.5, 1.0], now_ms) for id_ in PERSON[:2]]
    labels = [label("alpha", id_, 1, now_ms + 1) for id_ in (PERSON[0], PERSON[2])]
    file = app.file("w", worker={"snapshot_after_ms": 0})
    with workers(app, "w") as (worker,), Progress(app) as progress:
        worker.start()
        app.send([*records, *person, *labels])
        progress.wait_for_ends(app.input_ends())
        worker.wait_for("snapshot-complete task=0")
        erased = areba(file, "erase", "alpha", *(word for id_ in PERSON for word in ("--id", id_)), "--partition", "0")
        assert (erased.returncode, erased.stderr) == (0, "")
        worker.wait_for("erased task=0 stream='alpha' ids=3 pending=1 waiting=1 closed=1")
        worker.wait_for("purged task=0")
        assert not [id_ for id_ in PERSON if id_.encode() in live_values(app)]
        worker.kill()
        app.send([example("alpha", "after", [0.1, 0.2, 0.3], now_ms + 2), label("alpha", "after", 0, now_ms + 3)])
        worker.start()
        progress.wait_for_ends(app.input_ends())
        assert worker.stop() == 0
    check_exactly_once(app)
    assert areba(file, "verify").returncode == 0
    explained = areba(file, "explain", "alpha", PERSON[0], "--task", "0")
    assert explained.returncode == 0, explained.stderr
    assert "erased by the mark at examples offset" in explained.stdout
