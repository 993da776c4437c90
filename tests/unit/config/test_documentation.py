"""ops/areba.yaml and docs/changes.md agree with each other and with the code about what may change."""

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from stream_app.config import Config, LearnerSettings, must_restart
from stream_app.config.compatibility import LEARNER_SETTINGS_TAKEN_OVER, TASK_SETTINGS_TAKEN_OVER
from tests.unit.config.support import EXAMPLE, ROOT

FREE_SECTIONS = ("application", "kafka", "worker", "breaker")

FREE_SETTINGS = {"schema_registry"}
"""Settings of other sections that change no result."""

SAME_IN_ALL_PLACES = {"features", "champion", "learners", "streams"}
"""Names with separate rows in docs/changes.md, because the effect depends on the stream."""


def _marks() -> dict[str, str]:
    """Return the mark of each setting of the example by its name; names are the same in one section only."""
    found: dict[str, str] = {}
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        match = re.match(r"[\s#]*(\w+):.*# \[(\w+)\]", line)
        if match:
            assert found.setdefault(match[1], match[2]) == match[2], match[1]
    return found


def _rows() -> Iterator[tuple[list[str], str]]:
    """Yield the settings and the outcome of each row of the table in docs/changes.md."""
    for line in (ROOT / "docs" / "changes.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 2 and re.fullmatch(r"(`\w+`,? ?)+", cells[0]):
            yield re.findall(r"`(\w+)`", cells[0]), cells[1]


def _documented() -> dict[str, str]:
    """Return what docs/changes.md says about each setting, as a mark of the example."""
    marks = {"taken over": "change", "that learner starts again": "learner", "refused": "fixed"}
    return {
        name: mark
        for names, outcome in _rows()
        for text, mark in marks.items()
        if outcome.startswith(text)
        for name in names
    }


def _settings(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


def test_the_example_and_the_page_agree() -> None:
    """A user would plan a change by one of the two, and the worker would refuse it or drop a learner's state."""
    marks, documented = _marks(), _documented()
    free = {name for section in FREE_SECTIONS for name in _section(section)} - {"id"} | FREE_SETTINGS
    compared = marks.keys() - free - {"id", "kafka"}
    assert {name: marks[name] for name in compared} == {name: documented.get(name) for name in compared}
    assert documented.keys() - SAME_IN_ALL_PLACES - {"dead_letter_bytes"} == compared
    assert {marks[name] for name in free} == {"free"}
    assert marks["id"] == "fixed"


def _section(name: str) -> set[str]:
    annotation = Config.model_fields[name].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return _settings(annotation)


def test_the_example_marks_what_the_code_does() -> None:
    """Both pages could agree and be wrong."""
    marks = _marks()
    for section in ("join", "metrics", "limits"):
        for name in _section(section):
            taken_over = not {section, f"{section}.{name}"}.isdisjoint(TASK_SETTINGS_TAKEN_OVER)
            assert (marks[name] == "change") == taken_over, name
    for name in ("unknown_streams", "predictions"):
        assert (marks[name] == "change") == (name in TASK_SETTINGS_TAKEN_OVER)
    for name in _settings(LearnerSettings):
        assert (marks[name] == "change") == (name in LEARNER_SETTINGS_TAKEN_OVER), name


@pytest.mark.parametrize(("name", "value"), [("hidden", (9,)), ("l2", 0.5)])
def test_a_mark_of_a_learner_is_what_happens(name: str, value: object) -> None:
    """A learner marked [change] whose state is dropped would be an untrained champion."""
    old = LearnerSettings(method="areba")
    assert must_restart(old, old.model_copy(update={name: value})) == (_marks()[name] == "learner")
