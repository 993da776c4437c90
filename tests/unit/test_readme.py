"""The README: its programs run as printed, its numbers were measured, its links work."""

import json
import re
import tomllib
from pathlib import Path
from statistics import median

import click
import pytest

from stream_app.cli.main import cli as areba_command
from stream_app.config import load
from stream_app.producers.cli import main as replay_command
from tests.support.documents import ROOT, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

MAX_LINES = 75


def test_the_readme_is_short() -> None:
    """A stranger decides within a minute; longer explanations belong in docs. Programs do not count."""
    text = re.sub(r"^```\w*\n.*?^```\n", "", README, flags=re.MULTILINE | re.DOTALL)
    assert len(text.splitlines()) <= MAX_LINES


def test_the_extras_that_are_installed_are_there() -> None:
    """Pip only warns of an extra that does not exist, and the first command of areba would fail."""
    (extras,) = re.findall(r"^pip install .* -e '\.\[(.*)\]'$", README, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_readmes_configuration_is_valid(tmp_path: Path) -> None:
    """A wrong setting in the first file that a user copies would be the user's first error."""
    (printed,) = blocks(README, "yaml")
    (tmp_path / "my.yaml").write_text(printed, encoding="utf-8")
    config = load(tmp_path / "my.yaml", {})
    assert next(iter(config.streams["payments"].columns)) == "amount"
    assert config.join.ttl_ms > 3 * 86_400_000  # labels come days later


def test_the_readmes_numbers_are_measured() -> None:
    """A number that is in no file of results is an advertisement."""
    rows = {row["name"]: row for row in json.loads((ROOT / "benchmarks" / "results.json").read_text())}

    def measured(start: str, end: str = "", *, field: str = "ours_us") -> float:
        (value,) = [row[field] for name, row in rows.items() if name.startswith(start) and name.endswith(end)]
        return float(value)

    latency = "2,000 examples and labels a second, median of 5 runs: example sent to prediction readable"
    same, other = ("from SIGKILL to the next commit, " + who for who in ("the same instance", "another takes over"))
    assert f"p50 {measured(latency, 'p50'):.0f} ms, p99 {measured(latency, 'p99'):.0f} ms" in README
    peers = json.loads((ROOT / "benchmarks" / "peers" / "results.json").read_text())["full speed"]
    ours, streams, quix = (
        median(second["program_us"] for _, second in peers[name]) for name in ("areba", "Kafka Streams", "Quix Streams")
    )
    assert f"{ours:.0f} µs of CPU for each labelled example in a warm worker" in README
    assert f"takes Kafka Streams {streams:.0f} µs and Quix Streams {quix:.0f} µs" in README
    assert f"p50 {measured(same, 'p50'):.1f} s, p99 {measured(same, 'p99'):.1f} s from `SIGKILL`" in README
    assert f"{measured(other, 'p50'):.1f} s and {measured(other, 'p99'):.1f} s if another" in README
    chaos = (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8")
    for number in ("1,100", "1,556,521"):
        assert number in README
        assert number in chaos
    calibration = (
        (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("### Probabilities")[2][:3_000]
    )
    errors = [row.split("|")[2:4] for row in re.findall(r"^\| s.*%.* \|$|^\| circle.* \|$", calibration, re.MULTILINE)]
    scores, probabilities = (max(float(row[place]) for row in errors) for place in (0, 1))
    assert len(errors) == 8
    assert f"at most {probabilities:.3f} with AREBA on eight streams; that of the score is up to {scores:.3f}" in README


def test_links_lead_somewhere() -> None:
    """A broken link to a file or heading makes a reader doubt the rest."""
    wrong = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, heading = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (page.parent / path) if path else page
            if not target.exists():
                wrong.append(f"{page.name}: {link}")
            elif heading and heading not in headings(target.read_text(encoding="utf-8")):
                wrong.append(f"{page.name}: {link} (no such heading)")
    assert wrong == []


def test_the_picture_is_light() -> None:
    """Every clone downloads each of its bytes."""
    assert (ROOT / "docs" / "demo.png").stat().st_size <= 200_000


def headings(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(text: str, program: str) -> set[str]:
    """Find the commands of a program in code: in blocks of a shell, and between back quotes in prose."""
    code = "\n".join([*blocks(text, "sh"), *re.findall(r"`([^`\n]+)`", text)])
    return set(re.findall(rf"^{program} ([a-z-]+(?: [a-z-]+)?)", code, re.MULTILINE))


@pytest.mark.parametrize(("program", "group"), [("areba", areba_command), ("areba-replay", replay_command)])
def test_commands_that_are_printed_are_there(program: str, group: click.Group) -> None:
    """An operator copies these commands in the middle of the night."""
    wrong = []
    for page in PAGES:
        if page.name in {"CHANGELOG.md", "reference.md"}:
            continue
        for line in commands(page.read_text(encoding="utf-8"), program):
            first, _, second = line.partition(" ")
            command = group.commands.get(first)
            if command is None or (isinstance(command, click.Group) and second not in {"", *command.commands}):
                wrong.append(f"{page.name}: {program} {line}")
    assert wrong == []


def test_make_targets_that_are_printed_are_there() -> None:
    """The same applies to targets of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code = "\n".join([*blocks(text, "sh"), *re.findall(r"`([^`\n]+)`", text)])
        wrong += [f"{page.name}: make {name}" for name in re.findall(r"(?:^|\s)make ([a-z-]+)", code, re.MULTILINE)
                  if name not in targets]  # fmt: skip
    assert wrong == []


def test_tests_that_are_named_are_there() -> None:
    """A promise whose test is missing is only a wish."""
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for tier, name in re.findall(r"`(unit|property|contract|simulation|kafka|fuzz)/(test_\w+)`", text):
            if len(list((ROOT / "tests" / tier).rglob(f"{name}.py"))) != 1:
                wrong.append(f"{page.name}: {tier}/{name}")
        paths = re.findall(r"`((?:tests|stream_app|ops|study|producers|schemas|docs)/[\w./]+)`", text)
        wrong += [f"{page.name}: {path}" for path in paths if not (ROOT / path).exists()]
    assert wrong == []
