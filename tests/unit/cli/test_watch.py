"""`areba watch` and `areba tail` as scripts call them, over the in-process log."""

import json
from collections.abc import Sequence

import pytest

from stream_app.monitor import watcher
from tests.unit.cli.conftest import Run

MAX_UPDATES = 3


def test_watch_once(run: Run) -> None:
    """A script or a tutorial needs a table that ends."""
    status, out, err = run("watch", "--once", "--interval", "0")
    assert (status, err) == (0, [])
    assert [line.split()[0] for line in out if line.lstrip().startswith("s")] == ["stream", "s0", "s1"]
    assert sum("baseline" in line for line in out) == 2


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
    assert [one["value"]["id"] for one in documents] == [str(15 + number // 2) for number in range(10)]
    assert len(run("tail", "outcomes", "--since", "1970-01-01")[1]) == 40
    assert len(run("tail", "outcomes", "--since", "1970-01-01", "--limit", "3")[1]) == 3


@pytest.mark.parametrize(
    "arguments", [("tail", "outcome"), ("tail", "progress", "--stream", "s0"), ("tail", "metrics", "--since", "soon")]
)
def test_mistakes_are_one_line(run: Run, arguments: Sequence[str]) -> None:
    """An empty output would look like a topic without records."""
    status, out, err = run(*arguments)
    assert (status, out, len(err)) == (2, [], 1)
