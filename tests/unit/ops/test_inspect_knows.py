"""What the log, `verify` or an alert knows, `inspect` knows too, or the page for operators says why it cannot."""

import re
from typing import NamedTuple

import yaml

from ops.reference.worker import log_events
from stream_app.admin.problems import ProblemCode
from stream_app.verify.results import Code
from tests.ops.monitoring import MONITORING, ROOT

ALL_OTHERS = "all others"

ONLY_VERIFY = set(Code) - {Code.DELETED_RECORDS, Code.SPLIT_STREAM, Code.UNREAD_PARTITION}
"""Findings that need all records."""

FINDINGS = 34
"""A new finding may belong to a state that `inspect` should show: decide, then raise the number."""


class _Row(NamedTuple):
    """A row of the table: the names of the state, and what `inspect` says."""

    log: set[str]
    alerts: set[str]
    findings: str
    said: str


def _rows() -> list[_Row]:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("### From a log line, an alert or a finding to inspect\n")[2].partition("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [_Row(_words(log), _words(alerts), findings, said) for log, alerts, findings, said in cells]


def _words(text: str) -> set[str]:
    return set(re.findall(r"`([\w-]+)`", text))


def _all(sets: list[set[str]]) -> list[str]:
    return sorted(word for words in sets for word in words)


def test_every_warning_of_the_log_has_its_row() -> None:
    """A line at night that `inspect` contradicts in the morning costs an hour."""
    named = {name for name, level, _ in log_events() if level in ("WARNING", "ERROR")}
    assert _all([row.log for row in _rows()]) == sorted(named)


def test_every_alert_has_its_row() -> None:
    """The pager names the alert alone."""
    groups = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))["groups"]
    named = {rule["alert"] for group in groups for rule in group["rules"]}
    assert _all([row.alerts for row in _rows()]) == sorted(named)


def test_every_finding_has_its_row() -> None:
    """A finding of the nightly run is a state of the application, unless only `verify` can see it."""
    cells = [row.findings for row in _rows()]
    assert _all([_words(cell) for cell in cells]) == sorted(set(Code) - ONLY_VERIFY)
    assert cells.count(ALL_OTHERS) == 1
    assert len(Code) == FINDINGS


def test_every_row_ends_with_a_line_or_a_reason() -> None:
    """And every line of `inspect` has a row."""
    codes = set[str]()
    for row in _rows():
        if row.said.startswith("none: "):
            assert row.log or row.alerts or row.findings, row
        else:
            assert re.match(r"`([\w-]+)`", row.said), row
            codes |= _words(row.said) & set(ProblemCode)
    assert codes == set(ProblemCode)
