"""`areba watch` and `areba tail` as scripts call them, over the in-process log."""

import json
import logging
from collections.abc import Sequence

import pytest

from stream_app.backends.partitioner import partition_of
from stream_app.cli.commands import watch
from stream_app.monitor import watcher
from stream_app.records import Example
from stream_app.serialization import codec
from tests.support.world import World, started, take_turns
from tests.unit.cli.conftest import Run

MAX_UPDATES = 3


def test_watch_once(run: Run) -> None:
    """A script or a tutorial needs a table that ends."""
    status, out, err = run("watch", "--once", "--interval", "0")
    assert (status, err) == (0, [])
    assert [line.split()[0] for line in out if line.lstrip().startswith("s")] == ["stream", "s0", "s1"]
    assert sum("baseline" in line for line in out) == 2
    assert logging.getLogger("areba.kafka").level == logging.NOTSET, "the process logs again what its clients report"


def test_watch_once_as_json(run: Run) -> None:
    """Each line is a complete document, and only data is printed."""
    status, out, err = run("watch", "--once", "--interval", "0", "--json", "--stream", "s1", "--stream", "nobody")
    documents = [json.loads(line) for line in out]
    assert status == 0
    assert [(one["stream"], one["learner"], one["labelled"], one["lag_s"]) for one in documents] == [
        ("s1", "areba", 20, 0.0),
        ("s1", "baseline", 20, 0.0),
    ]
    assert len(err) == 1
    assert "nobody" in err[0]


def test_watch_ends_with_status_0(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is how people end it: a traceback or a failure would be wrong."""
    updates = 0

    def update(_: object) -> None:
        nonlocal updates
        updates += 1
        if updates == MAX_UPDATES:
            raise KeyboardInterrupt

    monkeypatch.setattr(watcher.Watcher, "update", update)
    status, out, _ = run("watch", "--json", "--interval", "0")
    assert (status, len(out)) == (0, MAX_UPDATES * 4)


def test_tail(run: Run) -> None:
    """Without options it prints the newest ten records, and ends."""
    status, out, err = run("tail", "outcomes")
    assert (status, err) == (0, [])
    documents = [json.loads(line) for line in out]
    assert (len(documents), documents[-1]["value"]["id"]) == (10, "19")
    assert len(run("tail", "outcomes", "--since", "1970-01-01")[1]) == 40
    assert len(run("tail", "outcomes", "--since", "1970-01-01", "--limit", "3")[1]) == 3


@pytest.mark.parametrize(
    "arguments", [("tail", "outcome"), ("tail", "progress", "--stream", "s0"), ("tail", "metrics", "--since", "soon")]
)
def test_mistakes_are_one_line(run: Run, arguments: Sequence[str]) -> None:
    """An empty output would look like a topic without records."""
    status, out, err = run(*arguments)
    assert (status, out, len(err)) == (2, [], 1)


def test_all_records_of_an_id(run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person asks for everything that is kept about them; an id that only begins alike is somebody else's."""
    monkeypatch.setattr(watch, "SEARCH_REPORT_S", 0.0)
    world.put("examples", 1, b"s1", codec.encode(Example("s1", "1", [1.0, 2.0])), 300)
    world.put("examples", 1, b"s1", b"no schema, but 1 in it", 300)
    world.put("examples", 1, b"s1", b"neither", 300)
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (23, 20) for task in worker.tasks))
    for topic in ("examples", "labels", "predictions", "outcomes"):
        status, out, err = run("tail", topic, "--id", "1")
        found = [one["value"]["id"] for one in map(json.loads, out) if one["type"]]
        assert (status, found) == (0, ["1"] * (3 if topic == "examples" else 2)), topic
        assert err
        assert all("searched" in line for line in err)
    letters = [json.loads(line) for line in run("tail", "dead-letters", "--id", "1")[1]]
    assert [(one["reason"], one["type"]) for one in letters] == [("wrong-dimension", "Example"), ("wrong-schema", None)]
    assert run("tail", "dead-letters", "--id", "19")[1] == []


def test_an_id_of_a_stream_is_looked_for_in_its_partition(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 24 partitions, one stream's records take a twenty-fourth of the time."""
    monkeypatch.setattr(watch, "SEARCH_REPORT_S", 0.0)
    assert {stream: partition_of(stream.encode(), 2) for stream in ("s0", "s1")} == {"s0": 0, "s1": 1}
    _, out, err = run("tail", "outcomes", "--id", "7", "--stream", "s1")
    assert [(one["partition"], one["value"]["id"]) for one in map(json.loads, out)] == [(1, "7")]
    offsets = json.loads(run("tail", "outcomes", "--stream", "s1", "--limit", "1")[1][0])["offset"]
    assert err[-1].endswith(f"of {offsets + 2:,} offsets") or err[-1].endswith(f"of {offsets + 1:,} offsets")
    for topic in ("metrics", "progress"):
        assert run("tail", topic, "--id", "7")[0] == 2
