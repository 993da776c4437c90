"""Workers are killed with SIGKILL again and again, and no reader of the topics can notice it."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ops.broker import Broker
from tests.chaos.forks import Nursery
from tests.chaos.members import Spawn
from tests.support.kafka.application import App, Load, Section
from tests.support.kafka.exactly_once import check_exactly_once, same
from tests.support.kafka.processes import WorkerProcess, run_to, workers
from tests.support.kafka.progress import Progress
from tests.support.kafka.records import StreamOf, all_records
from tests.support.rows import Read

pytestmark = [pytest.mark.kafka, pytest.mark.slow(100)]

KILLS = 10

STREAMS = (StreamOf("alpha", 0, 3), StreamOf("beta", 1, 2), StreamOf("gamma", 1, 5), StreamOf("delta", 2, 2))
"""Streams of the tests; two of them are in one task."""

SECTIONS: Mapping[str, Section] = {
    "streams": {stream.name: {"features": stream.features} for stream in STREAMS},
    "join": {"ttl_ms": 1_500, "max_clock_lead_ms": 100, "max_pending_per_stream": 120},
    "metrics": {"every_labels": 25},
    "predictions": "all",
}

RECOVERING: Mapping[str, Section] = {**SECTIONS, "worker": {"commit_interval_ms": 15, "max_batch_records": 40}}
"""Many small transactions, so that a kill is likely to hit one."""


@pytest.fixture
def spawn_fork(tmp_path: Path) -> Iterator[Spawn]:
    """Return a function that starts `areba` as a fork of a process that has everything loaded, which is faster."""
    file = App("127.0.0.1:9", "none-", tmp_path, SECTIONS).file("nursery")
    with Nursery(file, tmp_path / "nursery.log") as nursery:
        yield nursery.start


def _without_prefix(records: Sequence[Read], prefix: str) -> list[Read]:
    """Return the records without the prefix in headers that name topics: two prefixes may differ in nothing else."""
    name = prefix.encode()
    return [
        record._replace(headers=tuple((key, value and value.replace(name, b"")) for key, value in record.headers))
        for record in records
    ]


def _wait_for_a_moment(worker: WorkerProcess, progress: Progress, draw: random.Random, kill: int) -> None:
    """Wait for a moment: mostly while the worker commits, sometimes while it still restores."""
    worker.wait_for("assigned tasks")
    if kill % 4 == 3:
        time.sleep(draw.random() * 0.2)
    else:
        progress.wait_for_more(draw.randrange(1, 12))
        time.sleep(draw.random() * 0.05)


def test_ten_kills_leave_no_trace(kafka: Broker, prefix: str, tmp_path: Path, spawn_fork: Spawn) -> None:
    """With all inputs there before the first start, every byte of output equals an undisturbed run's.

    Otherwise predictions would exist twice or never, and models would depend on when a machine failed.
    """
    assert kafka.bootstrap_servers is not None
    records = all_records(STREAMS, examples=700, start_ms=int(time.time() * 1000) - 600_000, seed=1)
    name = f"{prefix}app"
    calm = App(kafka.bootstrap_servers, f"{prefix}calm-", tmp_path, SECTIONS, partitions=3, application=name)
    rough = App(kafka.bootstrap_servers, f"{prefix}kill-", tmp_path, RECOVERING, partitions=3, application=name)
    for app in (calm, rough):
        app.create_topics()
        app.send(records)
    ends = calm.input_ends()
    assert rough.input_ends() == ends
    undisturbed = run_to(calm.config, ends)

    draw = random.Random(2)
    with workers(rough, "w", spawn=spawn_fork) as (worker,), Progress(rough) as progress:
        for kill in range(KILLS):
            worker.start()
            _wait_for_a_moment(worker, progress, draw, kill)
            worker.kill()
        progress.poll()
        assert progress.offsets != ends, "all was done before the last kill: nothing was tested"
        worker.start()
        progress.wait_for_ends(ends)
        assert worker.stop() == 0
        assert worker.models() == undisturbed

    for number in range(rough.partitions):
        expected = calm.outputs(number)
        assert all(expected.values()), "every topic has something to compare"
        for topic, found in rough.outputs(number).items():
            same(_without_prefix(found, rough.prefix), _without_prefix(expected[topic], calm.prefix), topic)
    check_exactly_once(rough)


def test_ten_kills_under_live_load(kafka: Broker, prefix: str, tmp_path: Path, spawn_fork: Spawn) -> None:
    """Two workers take turns to die while records keep arriving: the topics hold the recorded ranges' results, once.

    Otherwise two members could process the same records after a rebalance, or neither of them a record.
    """
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, RECOVERING, partitions=3)
    app.create_topics()
    draw = random.Random(4)
    with workers(app, "one", "two", spawn=spawn_fork) as pair, Progress(app) as progress:
        with Load(app, STREAMS, seed=3):
            for worker in pair:
                worker.start()
            for worker in pair:
                worker.wait_for("restored task")
            for kill in range(KILLS):
                victim, survivor = pair[kill % 2], pair[1 - kill % 2]
                if kill % 3 == 2:  # the partitions of the previous worker have moved to another member
                    survivor.wait_for("restored task")
                progress.wait_for_more(draw.randrange(1, 30))
                time.sleep(draw.random() * 0.05)
                victim.kill()
                victim.start()
        progress.wait_for_ends(app.input_ends())
        for worker in pair:
            worker.wait_for("assigned tasks")
            worker.ask_to_stop()
        assert [worker.wait() for worker in pair] == [0, 0]
        models = {**pair[0].models(), **pair[1].models()}
    checked = check_exactly_once(app)
    assert {number: task.models for number, task in checked.items() if number in models} == models
    assert sum(task.commits for task in checked.values()) > 100
