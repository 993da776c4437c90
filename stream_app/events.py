"""Declare every event of the log in one place: its level, text, fields and meaning.

A line in text format begins with the name of its event; a line in JSON format has a field for the name and for each
field of the event. All loggers are below `areba`, so one level or filter applies to all of them.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.terminal import LogFormatter


@dataclass(frozen=True, slots=True)
class Event:
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
    meaning: str
    has_traceback: bool = False


def log(event: Event, logger: logging.Logger, /, **fields: object) -> None:
    """Write one line of the log.

    Args:
        event: Which kind of line.
        logger: A logger below `areba`.
        fields: A value for each field of the event's text.
    """
    if logger.isEnabledFor(event.level):
        message = f"{event.name}{event.text.format_map(fields)}"
        extra = {"event": event.name, "fields": fields}
        logger.log(event.level, "%s", message, exc_info=event.has_traceback, extra=extra)


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

STARTED = Event(
    "started",
    _INFO,
    " version={version} application={application} instance={instance} brokers={brokers}",
    "A worker process has read its configuration.",
)
COMPILED_CODE_MISSING = Event(
    "compiling", _INFO, " {function} and more; this takes about a minute", "Compiled code is not in the cache yet."
)
COMPILED_CODE_AWAITED = Event(
    "compiling",
    _WARNING,
    " in another process; waiting for {lock}, at most {timeout_s:g} s",
    "Another process is compiling the same code. This process will use the result.",
)
COMPILED_CODE_READY = Event("compiled", _INFO, " seconds={seconds:.1f}", "Compiled code is loaded.")
SERVING = Event("serving", _INFO, " {addresses}", "The addresses of `/alive`, `/ready` and `/metrics`.")
VIEW_INCOMPLETE = Event(
    "view-incomplete", _WARNING, ": {problem}", "The dashboard cannot read a topic; the rest of its page continues."
)
VIEW_COMPLETE = Event("view-complete", _INFO, "", "The dashboard can read everything again.")
PAGE_FAILED = Event(
    "page-failed", _WARNING, " {path}", "An HTTP page could not be written; the traceback follows.", has_traceback=True
)
TOPICS_AT_RISK = Event(
    "topics",
    _WARNING,
    ": {problem}",
    "A topic is missing, has grown, or has settings that put data at risk. Logged at start, and when it changes.",
)
SERVICE_AWAITED = Event(
    "waiting",
    _WARNING,
    " for {service}: {problem}",
    "A starting process waits for the brokers or the schema registry. Logged every five seconds.",
)
REGISTRY_AWAITED = Event(
    "registry-awaited",
    _WARNING,
    " schema_id={schema_id}: {problem}",
    "The schema registry does not answer what a new schema id means. The task with this record waits; the other tasks "
    "continue. Logged every five seconds.",
)
SCHEMA_ACCEPTED = Event(
    "schema-accepted",
    _INFO,
    " schema_id={schema_id} schema={schema}",
    "The schema registry has another id for a schema of this package. The worker records the id and reads its values.",
)
BROKERS_LOST = Event("brokers-lost", _WARNING, ": {problem}", "No Kafka broker can be reached; the worker waits.")
BROKERS_BACK = Event(
    "brokers-back",
    _WARNING,
    " seconds={seconds:.1f}",
    "A Kafka broker answers again; the field has the outage's length.",
)
REQUEST_REFUSED = Event("request-refused", _ERROR, ": {problem}", "A Kafka broker refused a request of the client.")
FETCH_FAILED = Event("fetch-failed", _WARNING, " {partition}: {problem}", "A fetch from a partition failed.")
TRANSACTION_LEFT_OPEN = Event(
    "transaction-left-open",
    _INFO,
    " transactional_id={transactional_id}: {problem}",
    "A transaction could not be aborted. The broker aborts it after its timeout.",
)
RESTARTING = Event(
    "restarting",
    _WARNING,
    " the process in {pause_s:g} s ({count}): {problem}",
    "The worker replaces its process after an error. The fields have the number of counted restarts, and the error.",
)
ASSIGNED = Event("assigned", _INFO, " tasks={tasks}", "The group has given these tasks to this worker.")
REVOKED = Event("revoked", _INFO, " tasks={tasks}", "The group has taken these tasks back.")
CONTINUED = Event(
    "continued",
    _INFO,
    " task={task} sequence={sequence}",
    "The group has given a task back to its last owner. Nobody has committed anything for it in between, so the task "
    "continues without a restore.",
)
RESTORING = Event(
    "restoring",
    _INFO,
    " task={task} state={state} offsets={examples}/{labels} of={examples_goal}/{labels_goal}",
    "A task is being restored: its state, the offsets that its restore has reached (-1: it has not begun), and those "
    "that it has to reach. Logged every ten seconds.",
)
DAMAGED = Event(
    "damaged",
    _ERROR,
    " task={task}: {problem}; continuing without this snapshot",
    "A snapshot cannot be read. The task is restored from an older snapshot, or from the first offset.",
)
TOPIC_REPLACED = Event(
    "topic-replaced",
    _WARNING,
    " task={task} {problem}",
    "A topic was deleted and created again. The task continues; the line says what is gone.",
)
RESTORED = Event(
    "restored",
    _INFO,
    " task={task} sequence={sequence} reprocessed={records} snapshot={snapshot}",
    "A task is live again: its sequence, the number of records that were processed again, and the sequence of the "
    "snapshot (-1: none).",
)
CHANGED = Event("changed", _INFO, " task={task} {change}", "From now on a task uses the new value of a setting.")
SNAPSHOT_STARTED = Event(
    "snapshot-started",
    _INFO,
    " task={task} sequence={sequence} bytes={size}",
    "A snapshot is being written: the sequence after which it was taken, and how many bytes are new.",
)
SNAPSHOT_COMPLETE = Event(
    "snapshot-complete", _INFO, " task={task} sequence={sequence}", "A snapshot is complete in the changelog."
)
RETENTION_USED = Event(
    "retention-used",
    _WARNING,
    " task={task} share={share:.2f} of what the topics keep; the newest snapshot is too old",
    "A restore of this task needs a record that has used at least half of its topic's retention; from 1 on, the broker "
    "may have deleted it. While the worker runs, nothing is lost: stop it with SIGTERM, which saves the task. Logged "
    "every minute for each task.",
)
OLD_EVENT_TIMES = Event(
    "old-event-times",
    _WARNING,
    ": {streams}",
    "New records of these streams have event times that are close to the retention of the inputs, or beyond it: the "
    "broker deletes them soon, read or not. Logged once for each stream until its times are newer. Correct the "
    "producer, or give the inputs a longer retention (`areba topics check` prints the command).",
)
TRIMMED = Event(
    "trimmed",
    _INFO,
    " task={task} progress from offset={offset}",
    "Progress records that no restore needs were deleted; the field has the first remaining offset.",
)
TRIM_FAILED = Event(
    "trim-failed",
    _WARNING,
    " task={task}: {problem}; progress keeps records that no restore needs",
    "Progress records that no restore needs could not be deleted. Logged once; nothing is lost.",
)
PARKED = Event(
    "parked",
    _ERROR,
    " task={task}: {problem}",
    "A task cannot be restored or processed; the other tasks continue. The line ends with the code of the problem.",
)
STREAM_STOPPED = Event(
    "stream-stopped",
    _ERROR,
    " task={task} stream={stream!r}: {problem}; {hint}",
    "The breaker has stopped a stream; its records become dead letters. Correct the producer, then run `areba resume`.",
)
STREAM_RESUMED = Event(
    "stream-resumed",
    _INFO,
    " task={task} stream={stream!r}; send its dead letters back: areba dlq resend --reason stream-stopped",
    "An operator has resumed a stream that the breaker had stopped.",
)
ERASED = Event(
    "erased",
    _INFO,
    " task={task} stream={stream!r} ids={ids} pending={pending} waiting={waiting} closed={closed} queued={queued}",
    "`areba erase` took effect: the mark names so many ids, and the state had so many pending examples, waiting "
    "labels, closed ids and examples in the queues of all learners with these ids.",
)
PURGED = Event(
    "purged",
    _INFO,
    " task={task} sequence={sequence}",
    "No snapshot that a restore loads has anything of what was erased before this sequence, and the chunks of older "
    "snapshots have tombstones; Kafka deletes them when it compacts the changelog.",
)
ABORTED = Event("aborted", _WARNING, ": {problem}", "A transaction was aborted; its tasks are restored.")
HANGING = Event(
    "hanging",
    _WARNING,
    ": in {partitions} a transaction does not end; it is aborted now, if its transactional id is known",
    "A transaction does not end, and tasks wait for it.",
)
TAKEOVER_POSTPONED = Event(
    "takeover-postponed",
    _INFO,
    " transactional_id={transactional_id}: {problem}",
    "A hanging transaction could not be ended yet; the worker tries again.",
)
TAKEN_OVER = Event(
    "taken-over",
    _WARNING,
    " tasks={tasks} transactional_id={transactional_id}: its open transaction was ended",
    "The worker has ended a transaction that a process which is gone had left open.",
)
UNBLOCKED = Event(
    "unblocked", _INFO, " tasks={tasks}", "The transactions that these tasks were waiting for are no longer open."
)
REPAIRED = Event(
    "repaired",
    _WARNING,
    " task={task} {counts}: they could not be read",
    "Committed outputs that no reader could see were published again; `progress`: only records of progress were lost.",
)
TRACES_DROPPED = Event(
    "traces-dropped",
    _WARNING,
    " task={task} records={records}: traceparent is not a valid W3C value",
    "Records since the last such line whose `traceparent` was dropped. Logged at most once a minute.",
)
CLOSING_FAILED = Event(
    "closing-failed",
    _WARNING,
    "",
    "A Kafka client could not be closed when the worker ended; the traceback follows.",
    has_traceback=True,
)
STOPPED = Event(
    "stopped",
    _INFO,
    " task={task} sequence={sequence} models={models}",
    "A clean stop: the task's last sequence, and the digest of all its models.",
)
MISPLACED = Event(
    "misplaced",
    _WARNING,
    " task={task} records={records}: stream {stream!r} belongs to partition {partition}. Its producer "
    "uses another partitioner: set partitioner=murmur2_random (Java's default), or a label may not meet its example",
    "A record is in a partition to which its key does not belong. Logged for the first such record of a task.",
)
MEMORY_BOUND = Event(
    "memory",
    _INFO,
    " bound={bound} with all {tasks} tasks: {parts}",
    "The memory that a worker needs if it has all tasks, and all tables are full at the configured limits.",
)
MEMORY_ABOVE_LIMIT = Event(
    "memory",
    _WARNING,
    " bound={bound} is above limit={limit} of {limit_name}: lower join.max_..._per_stream, "
    "limits.max_streams_per_task or worker.buffer_bytes",
    "The machine or the cgroup has less memory than the worker may need.",
)
MEMORY_ALLOCATED = Event(
    "memory",
    _INFO,
    " task={task} allocated={size}",
    "The memory of a live task's state, buffers and snapshot. Logged each time it has grown by half.",
)
PROGRESS = Event(
    "progress",
    _INFO,
    " outputs={outputs} offsets={offsets}",
    "The output records since the previous line, and the committed offsets of each task. Logged every ten seconds.",
)
DEAD_LETTERS = Event(
    "dead-letters",
    _WARNING,
    " reason={reason} count={count} last: task={task} stream={stream} {side} offset={offset}; look: {command}{why}",
    "Records became dead letters: their number since the previous line, the last one, the command that shows it, and "
    "for a late or orphan label how late it was and which setting decided.",
)
LABELS_MISSING = Event(
    "labels",
    _WARNING,
    ": {streams}",
    "Labels of some streams have stopped coming, too many of their examples end without a label, or most of their "
    "newest labels meet no example.",
)
TABLE_NEAR_BOUND = Event(
    "table-near-bound",
    _WARNING,
    ": {streams}",
    "A table of these streams is almost full and will lose what is still needed; the line names the setting. Raise it, "
    "or correct what fills the table. Logged once for each stream until the table is smaller.",
)
LABELS_RETURNED = Event(
    "labels", _INFO, " task={task} stream={stream!r}: they are coming again", "Labels of a stream are coming again."
)

VALUES_LIMITED = Event(
    "values-limited",
    _WARNING,
    " task={task} stream={stream!r} learner={learner!r} examples={examples} steps={steps}",
    "A learner has met values that a network cannot take as they stand. The numbers count from the task's restore: of "
    "examples with a feature beyond 1e6, which a learner without a scaler takes as 1e6, and of steps that a network of "
    "your own did not take because a gradient was not finite. Look for marks of missing values, such as 3.4e38, in "
    "what the producer sends, and set `scaler: standard`. At most one such line a minute; `/metrics` has all numbers.",
)

CHANGE_FLAGGED = Event(
    "change-flagged",
    _INFO,
    " task={task} stream={stream!r} learner={learner!r} event_time_ms={event_time_ms} changes={changes} "
    "left_out={left_out}",
    "The change detector has found that a learner recognises a class worse than before: the stream time when the "
    "worker saw it, the learner's changes so far, and the number of changes since the previous such line that have no "
    "line. At most five lines a minute; the topic `metrics` has every change. No model is reset: compare the learners "
    "with `areba watch`.",
)


def declared() -> Mapping[str, Event]:
    """Return all declared events by the name of their constant, in order of declaration."""
    return {name: value for name, value in globals().items() if isinstance(value, Event)}
