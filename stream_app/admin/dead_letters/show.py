"""`areba dlq show PARTITION:OFFSET`: everything about one dead letter."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stream_app.admin.dead_letters.listing import line_of
from stream_app.admin.dead_letters.origins import InputRecords
from stream_app.admin.dead_letters.record import RecordId, StoredDeadLetter, read_record
from stream_app.admin.dead_letters.selection import Selection, format_time
from stream_app.admin.dead_letters.topic import DeadLettersTopic
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.reading import Row
from stream_app.backends.retention import deleted
from stream_app.config import Config
from stream_app.errors import BooksError, ConfigurationError
from stream_app.records import REASONS
from stream_app.serialization.dead_letter import read_sent_back, read_start
from stream_app.terminal import printable

_SHOWN_BYTES = 4_096
"""How many bytes of a key, a header or a value are shown; `--full` shows the whole value."""


@dataclass(frozen=True, slots=True)
class _ShownLetter:
    """One dead letter with its origin.

    Attributes:
        record: The dead letter, with the parts that it left out if the input still has them.
        topic: The dead letters' topic.
        sent_back: The record that says that it was sent back, if there is one.
        problem: Why the parts that were left out cannot be read; empty if they can.
    """

    record: StoredDeadLetter
    topic: str
    sent_back: Row | None
    problem: str

    def check(self) -> None:
        """Check that no part is missing.

        Raises:
            BooksError: The input no longer has the parts that were left out.
        """
        if self.problem:
            raise BooksError([f"{self.record.dead_letter.origin}: {self.problem}"])

    def texts(self, *, full: bool = False) -> Iterator[str]:
        """Yield lines for people; `full`: with all bytes of the value.

        Raises:
            BooksError: The input no longer has the parts that were left out; raised after all other lines.
        """
        yield from _lines(self.record, f"{self.topic}[{self.record.record_id.partition}]", self.sent_back)
        self.check()
        yield f"decoded      {_content_text(self.record.content)}"
        yield from _hexadecimal(self.record.dead_letter.original.value or b"", None if full else _SHOWN_BYTES)

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document: the fields of the list, and all bytes in Base64."""
        dead_letter, sent_back, resent = self.record.dead_letter, self.sent_back, self.record.resend
        key, value, headers = dead_letter.original
        return {
            **replace(line_of(self.record), is_sent_back=sent_back is not None).to_plain(),
            "topic": self.topic,
            "detail": _detail(self.record),
            "sent_back": sent_back and {"offset": sent_back.offset, "timestamp_ms": sent_back.log_time_ms},
            "before": resent
            and {
                "topic": resent.topic,
                "partition": resent.partition,
                "offset": resent.offset,
                "sent_back_ms": resent.time_ms,
                "attempt": resent.attempt,
            },
            "key_base64": _base64(key),
            "headers": [{"name": name, "value_base64": _base64(cell)} for name, cell in headers],
            "value_base64": _base64(value),
            "left_out": {
                name: {"bytes": part.length, "sha256": part.sha256} for name, part in dead_letter.left_out.items()
            },
            "problem": self.problem or None,
        }


def show_letter(cluster: Cluster, config: Config, record_id: RecordId) -> _ShownLetter:
    """Read one dead letter.

    The rest of its partition is read to find out whether it was sent back. Parts that it left out are read from its
    input.

    Raises:
        ConfigurationError: The topic or partition does not exist, or the record at this offset is not a dead letter.
        StateError: The dead letter was deleted.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topic = DeadLettersTopic(cluster, config)
    Selection(partitions=frozenset({record_id.partition})).partitions_of(topic.partitions, topic.name)
    low, high = topic.watermarks(record_id.partition)
    where = f"{topic.name}[{record_id.partition}]"
    if record_id.offset < low:
        raise deleted(TopicPartition(topic.name, record_id.partition), low, record_id.offset, "the dead letter is gone")
    if record_id.offset >= high:
        held = f"it has offsets {low} to {high - 1}" if high > low else "it is empty"
        raise ConfigurationError(f"{where} has no offset {record_id.offset}: {held}")
    rows = topic.rows(record_id.partition, record_id.offset)
    row = next(rows, None)
    is_there = row is not None and row.offset == record_id.offset
    record = read_record(record_id.partition, row, topic.wire_format) if row is not None and is_there else None
    if record is None:
        kind = _other_kind(row, record_id)
        raise ConfigurationError(f"{where} offset {record_id.offset} is not a dead letter: {kind}")
    sent_back = next((other for other in rows if read_sent_back(other.headers) == record_id.offset), None)
    with InputRecords(cluster, topic) as inputs:
        record, problem = inputs.completed(record)
    return _ShownLetter(record, topic.name, sent_back, problem)


def _other_kind(row: Row | None, record_id: RecordId) -> str:
    """Say what the record is, if it is not a dead letter."""
    if row is None or row.offset != record_id.offset:
        return "it is a control record of a transaction, or part of an aborted transaction"
    offset = read_sent_back(row.headers)
    if offset is not None:
        return f"it says that offset {offset} was sent back"
    return "it says that a resend began" if read_start(row.headers) is not None else "another program wrote it"


def _lines(record: StoredDeadLetter, where: str, sent_back: Row | None) -> Iterator[str]:
    dead_letter, resend = record.dead_letter, record.resend
    key, value, headers = dead_letter.original
    yield f"dead letter  {where} offset {record.record_id.offset}"
    yield f"from         {dead_letter.origin}"
    yield f"reason       {printable(dead_letter.reason)}"
    yield f"detail       {_detail(record)}"
    yield f"written      {format_time(record.log_time_ms)} UTC ({record.log_time_ms} ms)"
    yield f"event time   {_event_time_text(dead_letter.event_time_ms)}"
    yield "sent back    " + (
        f"at {format_time(sent_back.log_time_ms)} UTC (offset {sent_back.offset})" if sent_back else "no"
    )
    if resend is not None:
        yield (
            f"before       it was {printable(resend.topic)}[{resend.partition}] offset {resend.offset}, "
            f"sent back {format_time(resend.time_ms)} UTC (attempt {resend.attempt})"
        )
    yield f"stream, id   {printable(record.stream)}, {printable(record.id) or 'unknown'}"
    yield f"key          {_bytes_text(key)}"
    for name, cell in headers:
        yield f"header       {printable(name)}: {_bytes_text(cell)}"
    yield f"value        {_size_text(value)}"
    for name, part in dead_letter.left_out.items():
        yield f"left out     {name}: {part.length:,} bytes, SHA-256 {printable(part.sha256)}"


def _detail(record: StoredDeadLetter) -> str:
    """Return the worker's message, and the decoder's error if the value is malformed."""
    reason = REASONS.get(record.dead_letter.reason)
    detail = record.dead_letter.message
    if reason is not None and reason.malformed and isinstance(record.content, Exception):
        cause = str(record.content)
        detail += "" if cause in detail else f"; {cause}"
    return printable(detail)


def _event_time_text(time_ms: int) -> str:
    return "none" if time_ms < 0 else f"{format_time(time_ms)} UTC ({time_ms} ms)"


def _content_text(content: object) -> str:
    return f"no: {content}" if isinstance(content, Exception) else printable(repr(content)[: 4 * _SHOWN_BYTES])


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _size_text(value: bytes | None) -> str:
    return "null" if value is None else f"{len(value):,} bytes"


def _bytes_text(value: bytes | None) -> str:
    if value is None:
        return "null"
    if len(value) > _SHOWN_BYTES:
        return f"{_bytes_text(value[:_SHOWN_BYTES])} and {len(value) - _SHOWN_BYTES:,} bytes more"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
    return text if text.isprintable() and text else repr(value)


def _hexadecimal(value: bytes, most: int | None) -> Iterator[str]:
    """Yield lines of sixteen bytes, in the format of `hexdump -C`."""
    shown = value[:most]
    for start in range(0, len(shown), 16):
        part = shown[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # printable ASCII
        yield f"  {start:08x}  {part.hex(' '):<47}  {text}"
    if len(value) > len(shown):
        yield f"  and {len(value) - len(shown):,} bytes more; --full shows them"
