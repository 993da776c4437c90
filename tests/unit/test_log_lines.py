"""The log: events are declared once, and both formats carry their fields."""

import json
import logging
import re
from dataclasses import fields

import pytest

from stream_app import log_lines
from stream_app.backends.clock import ManualClock
from stream_app.log_lines import JsonFormatter, LogLine
from stream_app.terminal import LogFormatter
from stream_app.worker.reports import events
from stream_app.worker.reports.log import EventLog

FIELD = re.compile(r"{(\w+)")


def _record(line: LogLine, caplog: pytest.LogCaptureFixture, **fields: object) -> logging.LogRecord:
    with caplog.at_level(logging.DEBUG):
        line.log(logging.getLogger("areba.test"), **fields)
    return caplog.records[-1]


LINES = {**log_lines.declared(), **{kind.__name__: kind.line for kind in events.logged()}}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_each_line_fills_its_fields(line: LogLine, caplog: pytest.LogCaptureFixture) -> None:
    """An operator who filters by event or field finds every line, and no line has an open brace."""
    names = FIELD.findall(line.text)
    record = _record(line, caplog, **dict.fromkeys(names, 7))
    assert record.getMessage().startswith(line.name)
    assert "{" not in record.getMessage()
    written = json.loads(JsonFormatter().format(record))
    assert (written["event"], written["level"], written["logger"]) == (
        line.name,
        logging.getLevelName(line.level),
        "areba.test",
    )
    assert all(written[name] == 7 for name in names)
    assert line.meaning.endswith(".")


def test_each_event_has_the_fields_of_its_line() -> None:
    """A worker would end with an error when such an event comes, perhaps after months."""
    log = EventLog(ManualClock())
    at_once = [kind for kind in events.logged() if log.handlers[kind] == log._write]
    assert len(at_once) > 10
    missing = [
        (kind.__name__, name)
        for kind in at_once
        for name in FIELD.findall(kind.line.text)
        if name not in {field.name for field in fields(kind)}  # type: ignore[arg-type]
    ]
    assert missing == []


def test_a_name_from_a_record_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """A stream's name with a line feed would write a forged line to the log."""
    record = _record(events.LabelsReturned.line, caplog, task=0, stream="a\nassigned tasks=9")
    assert "\n" not in LogFormatter("%(message)s").format(record)
    assert "\n" not in JsonFormatter().format(record)


def test_a_traceback_is_in_the_line(caplog: pytest.LogCaptureFixture) -> None:
    """A collector of JSON lines would take each line of a traceback for a record."""
    nothing: dict[str, int] = {}
    try:
        nothing["missing"]
    except KeyError:
        logging.getLogger("areba.test").exception("it failed")
    [line] = JsonFormatter().format(caplog.records[-1]).splitlines()
    assert "KeyError" in json.loads(line)["traceback"]
