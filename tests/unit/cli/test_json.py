"""With `--json`, commands whose output is data print documents: scripts need no parsing of tables."""

import json
from base64 import b64decode

import pytest

from stream_app.cli import topic_setup
from stream_app.records import Example
from stream_app.serialization import codec
from tests.support.world import World, started, take_turns
from tests.unit.cli.conftest import Run


def test_documents(run: Run) -> None:
    """Each document is complete JSON on one line, and the exit status is that of the text."""
    status, out, _ = run("state", "list", "--json")
    assert status == 0
    assert [(one["task"], one["learner"]) for one in map(json.loads, out)] == [
        (task, learner) for task in (0, 1) for learner in ("areba", "baseline")
    ]
    status, (line,), _ = run("explain", "s0", "7", "--task", "0", "--json")
    explained = json.loads(line)
    assert (status, explained["is_same"], explained["example"]["id"]) == (0, True, "7")
    status, (line,), _ = run("verify", "--no-rerun", "--json")
    report = json.loads(line)
    assert (status, report["ok"], report["findings"]) == (0, True, [])
    assert report["streams"]["s1"]["joined"] == 20
    assert report["streams"]["s1"]["predictions"] == {"areba": 20}


def test_dead_letters(run: Run, world: World) -> None:
    """A script that sends some of them back needs partition and offset as numbers."""
    world.put("examples", 1, b"s1", b"nonsense", 300)
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (21, 20) for task in worker.tasks))
    status, (line,), _ = run("dlq", "show", "--json")
    document = json.loads(line)
    (letter,) = document["dead_letters"]
    assert (status, letter["partition"], letter["bytes"], letter["is_sent_back"]) == (0, 1, 8, False)
    assert document["counts"] == {letter["reason"]: 1}
    status, (line,), _ = run("dlq", "show", f"1:{letter['offset']}", "--json")
    shown = json.loads(line)
    assert (status, {name: shown[name] for name in letter}) == (0, letter)
    assert (b64decode(shown["key_base64"]), b64decode(shown["value_base64"])) == (b"s1", b"nonsense")
    assert (shown["sent_back"], shown["left_out"], shown["problem"]) == (None, {}, None)


def test_show_lists_or_shows_one(run: Run) -> None:
    """Options that would have no effect are refused, not ignored."""
    assert run("dlq", "show", "0:1", "--reason", "undecodable")[0] == 2
    assert run("dlq", "show", "0:1", "--limit", "3")[0] == 2
    assert run("dlq", "show", "--full")[0] == 2


def test_listed_learners(run: Run) -> None:
    """A script that watches models needs each learner's digest, and a clear status where a commit does not exist."""
    status, out, err = run("state", "list", "--json")
    first = [*map(json.loads, out)]
    assert (status, err) == (0, [])
    assert {(one["stream"], one["learner"]) for one in first} >= {("s0", "areba"), ("s0", "baseline")}
    at = f"{first[0]['examples_end']}/{first[0]['labels_end']}"
    status, out, _ = run("state", "list", "--task", "0", "--at", at, "--json")
    assert (status, [*map(json.loads, out)]) == (0, [one for one in first if one["task"] == 0])
    assert run("state", "list", "--task", "0", "--at", "1/0", "--json")[0] == 3


def test_a_rehearsed_resend(run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script decides by reason whether to send dead letters back."""
    world.put("examples", 1, b"s1", codec.encode(Example("s1", "x", [1.0, 2.0])), 300)
    world.put("examples", 1, b"s1", b"nonsense", 300)
    world.put("examples", 1, b"other", codec.encode(Example("s1", "y", [1.0])), 300)
    worker = started(world.worker())
    take_turns(worker, until=lambda: any(task.offsets == (23, 20) for task in worker.tasks))
    monkeypatch.setattr(topic_setup, "check_topics", lambda _config, _cluster: {})  # these topics have no settings
    status, (line,), _ = run("dlq", "resend", "--all", "--dry-run", "--json")
    document = json.loads(line)
    assert (status, document["ok"], document["dry_run"], document["sent_before"], document["left"]) == (
        1, False, True, 0, 0,
    )  # fmt: skip
    assert {(one["reason"], one["topic"], one["records"]) for one in document["sent"]} == {
        ("wrong-dimension", "examples", 1),
        ("wrong-schema", "examples", 1),
    }
    [refused] = document["refused"]
    assert (refused["records"], len(refused["first"])) == (1, 1)
    assert len(document["warnings"]) == 2


def test_nothing_but_errors_on_standard_error(run: Run) -> None:
    """A progress bar without a terminal must not leave an empty line in the mail of a scheduled job."""
    assert run("inspect", "--json")[2] == []
    assert run("verify", "--no-rerun", "--json")[2] == []
    assert run("state", "list", "--json")[2] == []


def test_permissions(run: Run) -> None:
    """An administrator's script applies each permission by itself."""
    status, (line,), _ = run("acls", "--principal", "User:desk", "--role", "subscriber", "--json")
    entries = json.loads(line)
    assert status == 0
    assert {(entry["principal"], entry["operation"]) for entry in entries} == {
        ("User:desk", operation) for operation in ("Read", "Describe", "DescribeConfigs")
    }
    assert "predictions" in {entry["name"] for entry in entries}
