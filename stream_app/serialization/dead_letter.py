"""The records of the dead-letters topic, and the headers that `areba dlq resend` adds to a record; pure.

The topic has three kinds of records, which differ in their last headers:

    dead letter   written by the worker: key, value and headers of the input record, then `DEAD_LETTER_HEADERS`. If the
                  record would be too large, parts are left out, and further headers describe them (see `left_out`)
    sent back     `areba.resent`: the offset of a dead letter of this partition; the transaction that wrote this
                  record has sent that dead letter back to its input
    start         `areba.resend-start`: a resend starts; a reader that has seen it has read everything written before

A record that was sent back has the headers of the producer, then `RESEND_HEADERS`: which dead letter it was, and which
input record that dead letter came from.

Retention deletes a partition from its start, so a record that says that a dead letter was sent back outlives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from stream_app.records import Header
from stream_app.serialization.left_out import HEADERS, KEY, VALUE, Fields, LeftOut, read_left_out

DEAD_LETTER_HEADERS = (
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.exception.class.name",
    "__connect.errors.exception.message",
    "areba.reason",
    "areba.event_time_ms",
)
"""The last headers of a dead letter, in this order."""

RESEND_HEADERS = (
    "areba.resend.topic",
    "areba.resend.partition",
    "areba.resend.offset",
    "areba.resend.origin.topic",
    "areba.resend.origin.partition",
    "areba.resend.origin.offset",
    "areba.resend.attempt",
    "areba.resend.time_ms",
)
"""The last headers of a record that was sent back, in this order; see `Resend`."""

SENT_BACK, START = "areba.resent", "areba.resend-start"


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """One dead letter as its topic has it.

    Attributes:
        topic: The input topic.
        partition: The partition of the input record.
        input_offset: The offset of the input record.
        reason: The text of its `records.Reason`.
        message: The reason in words.
        event_time_ms: The timestamp of the input record, in milliseconds since 1970; -1 if the log has none.
        original: Key, value and headers of the input record, without the parts that were left out.
        left_out: Length and SHA-256 of the parts that were left out, by their names.
    """

    topic: str
    partition: int
    input_offset: int
    reason: str
    message: str
    event_time_ms: int
    original: Fields
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The place of the input record: topic, partition and offset."""
        return f"{self.topic}[{self.partition}] offset {self.input_offset}"

    def differences(self, record: Fields) -> Iterator[str]:
        """Yield the names of the parts in which this record differs from the original."""
        mine = self.original
        equal = {
            HEADERS: list(mine.headers) == list(record.headers),
            VALUE: mine.value == record.value,
            KEY: mine.key == record.key,
        }
        for name, is_equal in equal.items():
            left_out = self.left_out.get(name)
            if not (is_equal if left_out is None else left_out.is_of(record.part(name))):
                yield name

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> Self | None:
        """Return the dead letter, or None if the record has not the headers of a dead letter."""
        headers, left_out = read_left_out(headers)
        texts = _texts(headers, DEAD_LETTER_HEADERS)
        if texts is None:
            return None
        topic, partition, offset, _, message, reason, time_ms = texts
        try:
            original = Fields(key, value, tuple(headers[: -len(DEAD_LETTER_HEADERS)]))
            return cls(topic, int(partition), int(offset), reason, message, int(time_ms), original, left_out)
        except ValueError:
            return None


class Resend(NamedTuple):
    """What the headers of a record that was sent back say.

    `topic`, `partition` and `offset` belong to the dead letter, `origin_...` to its input record. `attempt` is
    1, and one more each time that the record becomes a dead letter again. `time_ms` is the time of the wall clock.
    """

    topic: str
    partition: int
    offset: int
    origin_topic: str
    origin_partition: int
    origin_offset: int
    attempt: int
    time_ms: int

    def headers(self) -> list[Header]:
        """Return the headers for the record."""
        return [(name, str(value).encode()) for name, value in zip(RESEND_HEADERS, self, strict=True)]

    @classmethod
    def read(cls, headers: Sequence[Header]) -> Self | None:
        """Return the content of the headers if the record was sent back, else None."""
        texts = _texts(headers, RESEND_HEADERS)
        if texts is None:
            return None
        try:
            topic, partition, offset, origin, origin_partition, origin_offset, attempt, time_ms = texts
            numbers = (int(origin_partition), int(origin_offset), int(attempt), int(time_ms))
            return cls(topic, int(partition), int(offset), origin, *numbers)
        except ValueError:
            return None


def without_resend(headers: Sequence[Header]) -> Sequence[Header]:
    """Return the headers of the producer, without the headers of a resend."""
    return headers[: -len(RESEND_HEADERS)] if Resend.read(headers) is not None else headers


def read_sent_back(headers: Sequence[Header]) -> int | None:
    """Return the offset of the dead letter that was sent back, or None if this is another kind of record."""
    texts = _texts(headers, (SENT_BACK,))
    return int(texts[0]) if texts is not None and texts[0].isdecimal() else None


def read_start(headers: Sequence[Header]) -> str | None:
    """Return the name of the resend that starts here, or None if this is another kind of record."""
    texts = _texts(headers, (START,))
    return texts[0] if texts is not None else None


def is_of_a_resend(headers: Sequence[Header]) -> bool:
    """Say whether a resend wrote this record of the dead-letters topic, so that it is not a dead letter."""
    return read_sent_back(headers) is not None or read_start(headers) is not None


def _texts(headers: Sequence[Header], names: tuple[str, ...]) -> list[str] | None:
    """Return the values of the last headers, or None if they have other names or are not UTF-8."""
    last = headers[-len(names) :]
    if tuple(name for name, _ in last) != names:
        return None
    try:
        return [(value or b"").decode() for _, value in last]
    except UnicodeDecodeError:
        return None
