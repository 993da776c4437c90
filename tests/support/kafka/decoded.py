"""Decode values of the progress topic."""

from stream_app.progress_records import Act, Commit
from stream_app.serialization import codec


def progress_record_of(value: bytes | None) -> Commit | Act:
    """Return the commit record or act in a value of progress."""
    record = codec.decode_one(value or b"")
    assert isinstance(record, Commit | Act)
    return record
