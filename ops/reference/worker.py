"""What a worker reports: metrics, log lines, dead-letter reasons and exit statuses."""

import logging
from collections.abc import Iterator, Mapping
from enum import StrEnum

from ops.reference.settings import attributes_of
from ops.reference.text import table
from stream_app import errors, log_lines
from stream_app.records import Reason
from stream_app.worker.reports import events, metrics

REASONS: Mapping[Reason, str] = {
    Reason.UNDECODABLE: "The value is missing, is not Avro of its schema, has bytes left over, or is a mark that asks "
    "for nothing.",
    Reason.WRONG_SCHEMA: "The value does not begin with the fingerprint or the id of a schema of this topic. The "
    "detail says if it looks like the other wire format, or names an unknown schema id.",
    Reason.TOO_LARGE: "The value has more than `limits.max_record_bytes` bytes.",
    Reason.WRONG_DIMENSION: "The example has no feature, more than `limits.max_features`, or another number of "
    "features than its stream; or values by column although its stream has no columns, or features although it has.",
    Reason.MOVED_STREAM: "Since `areba repartition`, its stream belongs to another partition: its producer uses the "
    "former number of partitions. `areba dlq resend` sends the record to the right partition.",
    Reason.BAD_COLUMN: "A value does not fit its column: the column is unknown, has no value (without "
    "`missing: mean`) or text where it has numbers, or the number is too large. The detail names the column.",
    Reason.NOT_FINITE: "A feature is NaN or infinite.",
    Reason.BAD_ID: "The stream's name does not have 1 to 249 bytes of UTF-8, or the id not 1 to 64.",
    Reason.BAD_LABEL: "The class is neither 0 nor 1, or the revision is negative.",
    Reason.BAD_TIME: "The timestamp is missing or not after the beginning of 1970, or the log set it (LogAppendTime).",
    Reason.UNKNOWN_STREAM: "The stream is not configured and `unknown_streams` is `dead-letter`; or the task has "
    "`limits.max_streams_per_task` streams; or a label or mark comes before the first example of a stream that is "
    "not configured.",
    Reason.CONFLICTING_EXAMPLE: "An example with this id is known and has other features.",
    Reason.CONFLICTING_LABEL: "A label with this id is known and has the other class.",
    Reason.LATE_LABEL: "The example of this label was closed before the label came. The message says how long "
    "before, and which setting decided: `join.ttl_ms`, `join.max_pending_per_stream` or "
    "`join.max_table_bytes_per_task`.",
    Reason.ORPHAN_LABEL: "No example with the id of this label is known. The message says which bound ended the "
    "label: `join.ttl_ms`, `join.max_waiting_...` if too many labels waited, or `join.max_table_bytes_per_task`. A "
    "closed example is known for "
    "`join.closed_ttl_ms`, at most `join.max_closed_per_stream` of them.",
    Reason.UNKNOWN_LEARNER: "A `promote` mark names a learner that the stream does not have.",
    Reason.UNKNOWN_COSTS: "A `decide` mark has the threshold `costs`, and the stream has no `costs`.",
    Reason.WRONG_KEY: "The key of the record is not the name of its stream.",
    Reason.STREAM_STOPPED: "The breaker had stopped the stream. After `areba resume`, the record can be sent back.",
}
"""What each reason means to the sender of the record."""


def metrics_section() -> Iterator[str]:
    """Yield a table of the metrics."""
    yield from table(
        ("metric", "kind", "unit", "labels", "meaning"),
        (
            (f"`{one.name}`", one.kind, one.unit, ", ".join(f"`{label}`" for label in one.labels), one.text)
            for one in (*metrics.METRICS, *metrics.PROCESS_METRICS)
        ),
    )


def meanings_of(words: type[StrEnum]) -> Mapping[str, str]:
    """Return the meaning of each word of an enumeration, from the attributes in its docstring."""
    meanings = attributes_of(words)
    return {word.value: meanings[word.name] for word in words}


def words_section(name: str, words: type[StrEnum]) -> Iterator[str]:
    """Yield a table of an enumeration: each word and its meaning."""
    yield from table((name, "meaning"), ((f"`{word}`", text) for word, text in meanings_of(words).items()))


def log_events() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the level and the meaning of each line of the log."""
    for line in (*log_lines.declared().values(), *(kind.line for kind in events.logged())):
        yield line.name, logging.getLevelName(line.level), line.meaning


def reasons_section() -> Iterator[str]:
    """Yield a table of the reasons of dead letters."""
    yield from table(
        ("reason", "meaning", "counts for the breaker"),
        (
            (f"`{reason.text}`", REASONS[reason], "yes" if reason.malformed else "")
            for reason in sorted(Reason, key=lambda reason: reason.text)
        ),
    )


def _tree(error: type[errors.ArebaError]) -> Iterator[type[errors.ArebaError]]:
    yield error
    for child in error.__subclasses__():
        yield from _tree(child)


def exit_statuses_section() -> Iterator[str]:
    """Yield a table of the exit statuses, with the errors that end a process with them."""
    yield from table(
        ("status", "error", "meaning"),
        [
            ("0", "", "Everything is as it should be."),
            (
                "1",
                "",
                (
                    "The command found something: `inspect`, `topics check`, `config --check`, `verify`, `explain`, "
                    "`dlq resend`."
                ),
            ),
            *sorted(
                (str(error.exit_code), f"`{error.__name__}`", (error.__doc__ or "").split("\n\n")[0])
                for error in _tree(errors.ArebaError)
                if error.__module__ == errors.__name__ and error is not errors.ArebaError
            ),
            ("130", "", "Ctrl-C (`areba-replay`, the demo)."),
        ],
    )
