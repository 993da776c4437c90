"""A dead letter at its offset in the dead-letters topic, decoded."""

from dataclasses import dataclass
from typing import NamedTuple

from stream_app.backends.reading import Row
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.records import Example, Label, Mark, stream_of_key
from stream_app.serialization.codec import decode_one
from stream_app.serialization.dead_letter import DeadLetterRecord, Resend
from stream_app.serialization.wire_format import WireFormat


class RecordId(NamedTuple):
    """Partition and offset of a record of the dead-letters topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter as a tool sees it.

    Attributes:
        record_id: Its partition and offset.
        log_time_ms: When the log took the dead letter, in milliseconds since 1970.
        dead_letter: What the worker's headers say, and the original record.
        stream: Name of the stream, from the value if it can be decoded, otherwise from the key.
        id: Id of the example or label; empty if the value cannot be decoded.
        content: The decoded value, or the error that decoding it raised.
        resend: Which dead letter the record was before, if it had already been sent back; otherwise None.
    """

    record_id: RecordId
    log_time_ms: int
    dead_letter: DeadLetterRecord
    stream: str
    id: str
    content: object
    resend: Resend | None


def read_record(partition: int, row: Row, wire_format: WireFormat) -> StoredDeadLetter | None:
    """Return the dead letter in a record of the topic; None if the record is not a dead letter."""
    dead_letter = DeadLetterRecord.read(row.key, row.value, row.headers)
    if dead_letter is None:
        return None
    return decoded(RecordId(partition, row.offset), row.log_time_ms, dead_letter, wire_format)


def decoded(
    record_id: RecordId, log_time_ms: int, dead_letter: DeadLetterRecord, wire_format: WireFormat
) -> StoredDeadLetter:
    """Return a dead letter with its value decoded, as far as that is possible."""
    key, value, headers = dead_letter.original
    stream, id_ = stream_of_key(key), ""
    content: object
    try:
        content = decode_one(value or b"", wire_format)
    except (UndecodableError, WrongSchemaError) as error:
        content = error
    if isinstance(content, Example | Label):
        stream, id_ = content.stream, content.id
    elif isinstance(content, Mark):
        stream = content.stream
    return StoredDeadLetter(record_id, log_time_ms, dead_letter, stream, id_, content, Resend.read(headers))
