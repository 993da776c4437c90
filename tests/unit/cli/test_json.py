"""With `--json`, commands whose output is data print documents: scripts need no parsing of tables."""

import json
from base64 import b64decode

from tests.support.world import World, _started, _turns
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
    worker = _started(world.worker())
    _turns(worker, until=lambda: any(task.offsets == (21, 20) for task in worker.tasks))
    status, (line,), _ = run("dlq", "list", "--json")
    document = json.loads(line)
    (letter,) = document["dead_letters"]
    assert (status, letter["partition"], letter["bytes"], letter["is_sent_back"]) == (0, 1, 8, False)
    assert document["counts"] == {letter["reason"]: 1}
    status, (line,), _ = run("dlq", "show", f"1:{letter['offset']}", "--json")
    shown = json.loads(line)
    assert (status, {name: shown[name] for name in letter}) == (0, letter)
    assert (b64decode(shown["key_base64"]), b64decode(shown["value_base64"])) == (b"s1", b"nonsense")
    assert (shown["sent_back"], shown["left_out"], shown["problem"]) == (None, {}, None)


def test_nothing_but_errors_on_standard_error(run: Run) -> None:
    """A progress bar without a terminal must not leave an empty line in the mail of a scheduled job."""
    assert run("inspect", "--json")[2] == []
    assert run("verify", "--no-rerun", "--json")[2] == []


def test_permissions(run: Run) -> None:
    """An administrator's script applies each permission by itself."""
    status, (line,), _ = run("acls", "--principal", "User:desk", "--role", "subscriber", "--json")
    entries = json.loads(line)
    assert status == 0
    assert {(entry["principal"], entry["operation"]) for entry in entries} == {
        ("User:desk", operation) for operation in ("Read", "Describe", "DescribeConfigs")
    }
    assert "predictions" in {entry["name"] for entry in entries}
