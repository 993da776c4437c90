"""With `--json`, commands whose output is data print documents: scripts need no parsing of tables."""

import json

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
