"""The log: events are declared once, and both formats carry their fields."""

import json
import logging
import re

import pytest

from stream_app import events
from stream_app.events import JsonFormatter
from stream_app.terminal import LogFormatter

FIELD = re.compile(r"{(\w+)")


def _record(event: events.Event, caplog: pytest.LogCaptureFixture, **fields: object) -> logging.LogRecord:
    with caplog.at_level(logging.DEBUG):
        events.log(event, logging.getLogger("areba.test"), **fields)
    return caplog.records[-1]


@pytest.mark.parametrize("event", events.declared().values(), ids=events.declared())
def test_each_event_fills_its_fields(event: events.Event, caplog: pytest.LogCaptureFixture) -> None:
    """An operator who filters by event or field finds every line, and no line has an open brace."""
    names = FIELD.findall(event.text)
    record = _record(event, caplog, **dict.fromkeys(names, 7))
    assert record.getMessage().startswith(event.name)
    assert "{" not in record.getMessage()
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["level"], line["logger"]) == (
        event.name,
        logging.getLevelName(event.level),
        "areba.test",
    )
    assert all(line[name] == 7 for name in names)
    assert event.meaning.endswith(".")


def test_a_name_from_a_record_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """A stream's name with a line feed would write a forged line to the log."""
    record = _record(events.LABELS_RETURNED, caplog, task=0, stream="a\nassigned tasks=9")
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
