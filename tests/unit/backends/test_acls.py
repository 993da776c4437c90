"""The permissions of each role: least privilege, stated where an administrator looks for it."""

import itertools
import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_app.backends import topics as topic_plan
from stream_app.backends.acls import Pattern, Resource, Role, acl_entries, commands
from stream_app.cli.commands.acls import acls
from stream_app.config import Config, load
from tests.support.documents import ROOT

CONFIG = load(None, {"AREBA__APPLICATION__ID": "my-app", "AREBA__APPLICATION__INSTANCE": "w-1"})

IMPLIED = "Describe"
"""What Kafka permits along with Read, Write and Delete."""


def _granted(role: Role, config: Config = CONFIG) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in acl_entries(config, role, "User:a"):
        found[entry.resource.value, entry.name].add(entry.operation)
    return dict(found)


def test_a_worker_may_do_what_its_start_checks() -> None:
    """A worker that was granted exactly this must pass its own check."""
    granted = _granted(Role.WORKER)
    for name, operations in topic_plan.rights(CONFIG.topics).items():
        more = {"Delete"} if name == CONFIG.topics.progress else set()
        assert granted.pop(("topic", name)) == set(operations) - {IMPLIED} | more
    assert granted == {
        ("group", "my-app"): {"Read"},
        ("group", "my-app/log-reader"): {"Describe"},
        ("transactional-id", "my-app/"): {"Write"},
    }
    assert CONFIG.transactional_id.startswith("my-app/")


def test_producers_and_subscribers_see_their_own_side_only() -> None:
    """A producer that could read predictions, or a subscriber that could write examples, would be a hole."""
    topics = CONFIG.topics
    assert _granted(Role.PRODUCER) == {
        ("topic", topics.examples): {"Write", "DescribeConfigs"},
        ("topic", topics.labels): {"Write", "DescribeConfigs"},
    }
    assert _granted(Role.SUBSCRIBER) == {
        ("topic", topics.predictions): {"Read", "DescribeConfigs"},
        ("topic", topics.outcomes): {"Read", "DescribeConfigs"},
        ("topic", topics.metrics): {"Read", "DescribeConfigs"},
        ("group", "my-app-subscribers"): {"Read"},
        ("group", "my-app/log-reader"): {"Describe"},
    }
    named = acl_entries(CONFIG, Role.SUBSCRIBER, "User:a", "desk")
    assert [e.name for e in named if e.resource is Resource.GROUP] == ["desk", "my-app/log-reader"]


def test_an_operator_cannot_write_what_only_workers_write() -> None:
    """A forged prediction or snapshot would be believed."""
    granted, topics = _granted(Role.OPERATOR), CONFIG.topics
    written = {name for (kind, name), operations in granted.items() if kind == "topic" and "Write" in operations}
    assert written == {topics.examples, topics.labels, topics.dead_letters, topics.progress}
    assert granted["transactional-id", "my-app/dlq/resend"] == {"Write"}


@pytest.mark.parametrize("role", Role)
def test_nothing_is_granted_twice_or_without_reason(role: Role) -> None:
    """Each permission can be taken away, and an auditor asks for the reason of each."""
    entries = acl_entries(CONFIG, role, "User:a")
    places = [(entry.resource, entry.name, entry.operation) for entry in entries]
    assert len(set(places)) == len(places)
    assert all(entry.reason for entry in entries)
    for operations in _granted(role).values():
        assert IMPLIED not in operations or operations == {IMPLIED}
    prefixed = [entry for entry in entries if entry.pattern is Pattern.PREFIXED]
    assert all(entry.name.endswith("/") for entry in prefixed), "another application's names may begin alike"


def test_the_commands_are_quoted() -> None:
    """Names of principals contain blanks, commas and quotes: a distinguished name of a certificate does."""
    principal = "User:CN=a'b; rm -rf,O=Example Ltd"
    entries = acl_entries(CONFIG, Role.WORKER, principal)
    lines = commands(entries, "a:1,b:2", "/etc/admin client.properties")
    found: set[tuple[str, ...]] = set()
    for line in lines:
        words = shlex.split(line)
        assert words[:6] == [
            "kafka-acls.sh", "--bootstrap-server", "a:1,b:2", "--command-config", "/etc/admin client.properties",
            "--add",
        ]  # fmt: skip
        assert words[6:8] == ["--allow-principal", principal]
        assert words[-2] == "--resource-pattern-type"
        operations = [after for word, after in itertools.pairwise(words) if word == "--operation"]
        found |= {(words[-4].removeprefix("--"), words[-3], words[-1], operation) for operation in operations}
    assert found == {(e.resource.value, e.name, e.pattern.value, e.operation) for e in entries}


def test_acls_prints_commands_that_a_shell_can_run(tmp_path: Path) -> None:
    """What is printed can be piped into a shell, so each line is complete, however long it is."""
    file = tmp_path / "areba.yaml"
    file.write_text("application: {id: my-app}\nkafka: {bootstrap_servers: 'b:9092'}\n")
    arguments = ["-c", str(file), "--principal", "User:a", "--role", "worker"]
    done = CliRunner().invoke(acls, arguments)
    assert done.exit_code == 0
    assert done.output.splitlines() == commands(acl_entries(CONFIG, Role.WORKER, "User:a"), "b:9092")
    for wrong in (["--principal", "a"], ["--role", "king"], ["--group", "g"]):
        assert CliRunner().invoke(acls, [*arguments, *wrong]).exit_code == 2


def test_the_docs_name_the_reason_of_each_grant() -> None:
    """The table in docs/operations.md is what an auditor reads; it is exactly what the command grants."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (topic|group|transactional id) (`.+`) \| (.+) \|$", text, re.MULTILINE)
    wanted: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for role in Role:
        for entry in acl_entries(CONFIG, role, "User:a"):
            name = entry.name.replace("my-app", "<application.id>")
            shown = f"`{name}...`" if entry.pattern is Pattern.PREFIXED else f"`{name}`"
            kind = entry.resource.value.replace("-", " ")
            wanted[role.value, entry.operation, kind, entry.reason].append(shown)
    found = {(role, operation, kind, reason): names.split(", ") for role, operation, kind, names, reason in rows}
    assert found == wanted
