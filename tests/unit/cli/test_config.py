"""`areba config` and `areba config --check`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_app.backends.base import TopicPartition
from stream_app.cli.main import cli
from stream_app.config import DEFAULT, effective
from tests.support.world import World
from tests.unit.cli.conftest import FILE, Run


def test_every_setting_has_its_source(tmp_path: Path) -> None:
    """A user who changes a file must see that a variable overrides it; a secret must not end in a ticket."""
    path = tmp_path / "app.yaml"
    path.write_text(
        "kafka:\n  all: {sasl.password: geheim, sasl.username: me}\njoin: {ttl_ms: 7}\n"
        "streams:\n  pumps.eu:\n    features: 3\n"
    )
    environment = {"AREBA__JOIN__TTL_MS": "5", "AREBA__STREAMS__PUMPS_EU__BUDGET": "30", "HOME": "/"}
    found = {one.setting: (one.value, Path(one.source).name) for one in effective(path, environment)}
    assert found["join.ttl_ms"] == (5, "AREBA__JOIN__TTL_MS")
    assert found["join.corrections"] == ("first", DEFAULT)
    assert found["kafka.all.sasl.password"] == ("***", "app.yaml:2")
    assert found["kafka.all.sasl.username"] == ("me", "app.yaml:2")
    assert found["kafka.consumer"] == ({}, DEFAULT)
    assert found["learners.areba.method"] == ("areba", DEFAULT)
    streams = {setting: rest for setting, rest in found.items() if setting.startswith("streams")}
    assert streams == {
        "streams.pumps.eu.features": (3, "app.yaml:6"),
        "streams.pumps.eu.budget": (30, "AREBA__STREAMS__PUMPS_EU__BUDGET"),
    }


def test_the_file_of_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that logs and reports print name no file, so that an operator can paste them."""
    monkeypatch.setenv("AREBA_CONFIG", str(file))
    shown = CliRunner().invoke(cli, ["config", "--json"])
    assert json.loads(shown.stdout.splitlines()[0])["source"].startswith(str(file))


def test_show(run: Run) -> None:
    """The table and the documents have the same settings."""
    status, table, err = run("config")
    documents = [json.loads(line) for line in run("config", "--json")[1]]
    assert (status, err) == (0, [])
    assert len(documents) > 40
    assert len(table) >= len(documents)
    assert documents[0].keys() == {"setting", "value", "source"}


def test_a_file_that_changes_nothing(run: Run) -> None:
    """An operator who only moved lines must not fear the restart."""
    status, out, err = run("config", "--check")
    assert (status, len(out), [line for line in err if line]) == (0, 1, [])


@pytest.mark.parametrize(
    ("change", "effects", "status"),
    [
        ("predictions: all", ["taken-over"], 0),
        ("streams: {s0: {features: 1}, s1: {features: 1, budget: 4}}", ["restarts"], 0),
        ("metrics: {every_labels: 4, fading_factors: [0.5]}\npredictions: all", ["refused", "taken-over"], 1),
    ],
)
def test_config_check_says_what_a_restart_would_do(
    run: Run, file: Path, change: str, effects: list[str], status: int
) -> None:
    """Otherwise the first restarted worker ends with status 2, and the others run on without it."""
    section = change.partition(":")[0]
    file.write_text("".join(f"{line}\n" for line in FILE.splitlines() if not line.startswith(section)) + change + "\n")
    ended, out, _ = run("config", "--check")
    assert (ended, [line.split()[0] for line in out]) == (status, effects)
    ended, (line,), _ = run("config", "--check", "--json")
    document = json.loads(line)
    assert (ended, document["ok"]) == (status, status == 0)
    assert [one["effect"] for one in document["differences"]] == effects
    assert {tuple(one["tasks"]) for one in document["differences"]} <= {(0, 1), (1,)}


def test_a_task_that_cannot_be_compared(run: Run, world: World) -> None:
    """A check that leaves a task out must not succeed."""
    for number in range(2):
        world.broker.append(TopicPartition(world.config.topics.progress, number), [(None, b"foreign", 0, ())])
    status, out, _ = run("config", "--check")
    assert status == 1
    assert [line.split(":")[0] for line in out] == ["task 0", "task 1"]


def test_a_new_application_takes_any_file(run: Run, file: Path) -> None:
    """Before the first start there is nothing to compare with."""
    file.write_text(FILE.replace("id: app", "id: other"))
    assert run("config", "--check")[0] == 2, "its topics do not exist"
