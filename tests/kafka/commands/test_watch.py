"""`areba watch` and `areba tail` next to a worker, on a real broker."""

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ops.broker import Broker
from stream_app.backends.partitioner import partition_of
from tests.support.kafka.application import App, Section
from tests.support.kafka.processes import Process, areba, spawn, workers
from tests.support.kafka.records import example, label
from tests.support.kafka.waiting import DEADLINE_S, START_DEADLINE_S, wait_until
from tests.support.rows import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.slow(30)]

PARTITIONS = 2
STREAM = "pumps"
PARTITION = partition_of(STREAM.encode(), PARTITIONS)
EXAMPLES = 100
SECTIONS: Mapping[str, Section] = {"streams": {STREAM: {"features": 2}}, "metrics": {"every_labels": 10}}


def _records(first: int, end: int, start_ms: int) -> Iterator[Sent]:
    for number in range(first, end):
        now_ms = start_ms + 10 * number
        yield example(STREAM, str(number), [number % 7, number % 3], now_ms, PARTITION)
        yield label(STREAM, str(number), number % 2, now_ms + 1, PARTITION)


@contextmanager
def _running(arguments: Sequence[str], output: Path) -> Iterator[Process]:
    """Run a command until the end of the block, which ends it with Ctrl-C; its exit status must be 0."""
    process = spawn(arguments, output)
    try:
        yield process
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def _documents(output: Path) -> list[dict[str, Any]]:
    """Return the complete lines of JSON that a command has written."""
    lines = output.read_text().splitlines(keepends=True) if output.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]


def test_a_stream_that_learns(kafka: Broker, prefix: str, tmp_path: Path) -> None:
    """Both commands show what happens while it happens, and end with Ctrl-C; a user sees that the model learns."""
    assert kafka.bootstrap_servers is not None
    app = App(kafka.bootstrap_servers, prefix, tmp_path, SECTIONS, partitions=PARTITIONS)
    file, watched, tailed = app.file("w"), tmp_path / "watch.txt", tmp_path / "tail.txt"
    for command in (("watch", "--once"), ("tail", "metrics")):
        refused = areba(file, *command)
        assert (refused.returncode, refused.stdout) == (2, ""), "there are no topics yet"
    app.create_topics()
    start_ms = int(time.time() * 1000) - 60_000
    app.send(list(_records(0, 20, start_ms)))

    follow = ["tail", "outcomes", "--follow", "--limit", "5", "-c", str(file)]
    with workers(app, "w") as (worker,), _running(follow, tailed):
        with _running(["watch", "--json", "--interval", "0.2", "-c", str(file)], watched):
            wait_until(lambda: bool(_documents(watched)), "a first table", START_DEADLINE_S)
            assert _documents(watched)[-1]["stream"] == STREAM
            worker.start()
            worker.wait_for("restored", deadline_s=START_DEADLINE_S)
            app.send(list(_records(20, EXAMPLES, start_ms)))

            def shows_all() -> bool:
                newest = _documents(watched)[-1]
                return newest.get("labelled") == EXAMPLES and newest["lag_s"] == 0

            wait_until(shows_all, "the metric after all labels", DEADLINE_S)
        wait_until(lambda: len(_documents(tailed)) >= EXAMPLES, "all outcomes", DEADLINE_S)
    assert max(one["labelled_per_s"] or 0 for one in _documents(watched)) > 0
    ids = [one["value"]["id"] for one in _documents(tailed)]
    assert ids == [str(number) for number in range(EXAMPLES)], "each once, in order"

    once = areba(file, "watch", "--once", "--interval", "0")
    assert (once.returncode, once.stderr) == (0, "")
    assert once.stdout.count(STREAM) == 1
    newest = areba(file, "tail", "predictions", "--limit", "3")
    assert [json.loads(line)["value"]["id"] for line in newest.stdout.splitlines()] == ["97", "98", "99"]
    since = areba(file, "tail", "examples", "--stream", STREAM, "--since", "1d")
    assert len(since.stdout.splitlines()) == EXAMPLES
