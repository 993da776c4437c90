"""Declare the lines of the log, each with its level, text, fields and meaning; a worker's events have their own.

A line in text format begins with the name of its event; a line in JSON format has a field for the name and for each
field of its text. All loggers are below `areba`, so one level or filter applies to all of them.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.terminal import LogFormatter


@dataclass(frozen=True, slots=True)
class LogLine:
    """A kind of log line.

    Attributes:
        name: First word of the line.
        level: Level of the `logging` module.
        text: The rest of the line; each name in braces is a field.
        meaning: What has happened and, if an operator must act, what to do.
        has_traceback: Whether the traceback of the current exception follows.
    """

    name: str
    level: int
    text: str
    meaning: str = ""
    has_traceback: bool = False

    def log(self, logger: logging.Logger, /, **fields: object) -> None:
        """Write one line of this kind to a logger below `areba`, with a value for each field of its text."""
        if logger.isEnabledFor(self.level):
            message = f"{self.name}{self.text.format_map(fields)}"
            extra = {"event": self.name, "fields": fields}
            logger.log(self.level, "%s", message, exc_info=self.has_traceback, extra=extra)


class JsonFormatter(LogFormatter):
    """Formats each record as one JSON object: time, level, logger, event, the event's fields, and the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        fields: Mapping[str, object] = getattr(record, "fields", {})
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "event": getattr(record, "event", "message"),
            **{name: value if isinstance(value, int | float | str) else str(value) for name, value in fields.items()},
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR

STARTED = LogLine(
    "started",
    _INFO,
    " version={version} application={application} instance={instance} brokers={brokers}",
    "A worker process has read its configuration.",
)
COMPILED_CODE_MISSING = LogLine(
    "compiling", _INFO, " {function} and more; this takes about a minute", "Compiled code is not in the cache yet."
)
COMPILED_CODE_AWAITED = LogLine(
    "compiling",
    _WARNING,
    " in another process; waiting for {lock}, at most {timeout_s:g} s",
    "Another process is compiling the same code. This process will use the result.",
)
COMPILED_CODE_READY = LogLine("compiled", _INFO, " seconds={seconds:.1f}", "Compiled code is loaded.")
SERVING = LogLine("serving", _INFO, " {addresses}", "The addresses of `/alive`, `/ready` and `/metrics`.")
VIEW_INCOMPLETE = LogLine(
    "view-incomplete", _WARNING, ": {problem}", "The dashboard cannot read a topic; the rest of its page continues."
)
VIEW_COMPLETE = LogLine("view-complete", _INFO, "", "The dashboard can read everything again.")
PAGE_FAILED = LogLine(
    "page-failed", _WARNING, " {path}", "An HTTP page could not be written; the traceback follows.", has_traceback=True
)
SERVICE_AWAITED = LogLine(
    "waiting",
    _WARNING,
    " for {service}: {problem}",
    "A starting process waits for the brokers or the schema registry. Logged every five seconds.",
)
REGISTRY_AWAITED = LogLine(
    "registry-awaited",
    _WARNING,
    " schema_id={schema_id}: {problem}",
    "The schema registry does not answer what a new schema id means. The task with this record waits; the other tasks "
    "continue. Logged every five seconds.",
)
SCHEMA_ACCEPTED = LogLine(
    "schema-accepted",
    _INFO,
    " schema_id={schema_id} schema={schema}",
    "The schema registry has another id for a schema of this package, or a schema of another writer that resolves to "
    "it. The worker records the id and reads its values.",
)
SCHEMA_REFUSED = LogLine(
    "schema-refused",
    _WARNING,
    " schema_id={schema_id}: {problem}",
    "A schema of another writer resolves neither to examples nor to labels. The worker records the id, and its values "
    "become dead letters.",
)
BROKERS_LOST = LogLine("brokers-lost", _WARNING, ": {problem}", "No Kafka broker can be reached; the worker waits.")
BROKERS_BACK = LogLine(
    "brokers-back",
    _WARNING,
    " seconds={seconds:.1f}",
    "A Kafka broker answers again; the field has the outage's length.",
)
REQUEST_REFUSED = LogLine("request-refused", _ERROR, ": {problem}", "A Kafka broker refused a request of the client.")
FETCH_FAILED = LogLine("fetch-failed", _WARNING, " {partition}: {problem}", "A fetch from a partition failed.")
TRANSACTION_LEFT_OPEN = LogLine(
    "transaction-left-open",
    _INFO,
    " transactional_id={transactional_id}: {problem}",
    "A transaction could not be aborted. The broker aborts it after its timeout.",
)
RESTARTING = LogLine(
    "restarting",
    _WARNING,
    " the process in {pause_s:g} s ({count}): {problem}",
    "The worker replaces its process after an error. The fields have the number of counted restarts, and the error.",
)
TAKEOVER_POSTPONED = LogLine(
    "takeover-postponed",
    _INFO,
    " transactional_id={transactional_id}: {problem}",
    "A hanging transaction could not be ended yet; the worker tries again.",
)
MEMORY_BOUND = LogLine(
    "memory",
    _INFO,
    " bound={bound} with all {tasks} tasks: {parts}",
    "The memory that a worker needs if it has all tasks, and all tables are full at the configured limits.",
)
MEMORY_ABOVE_LIMIT = LogLine(
    "memory",
    _WARNING,
    " bound={bound} is above limit={limit} of {limit_name}: lower join.max_table_bytes_per_task, "
    "limits.max_streams_per_task, limits.max_features (of streams that name no features) or worker.buffer_bytes",
    "The machine or the cgroup has less memory than the worker may need.",
)


def declared() -> Mapping[str, LogLine]:
    """Return all lines that are declared here by the name of their constant, in order of declaration."""
    return {name: value for name, value in globals().items() if isinstance(value, LogLine)}
