"""Helpers of damages: find records in a log, and state the expected findings."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from stream_app.progress_records import Commit
from stream_app.records import Example, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.verify.results import Code
from tests.support.verified_log import TOPICS, Log, Stored, where

Found: TypeAlias = Sequence[tuple[Code, str, int | None, str]]
"""Code, topic and offset of findings that must be there, and what their text contains."""

ANY = -1
"""Stands for the offset of any record of the topic."""


def missing(topic: str, offset: int, text: str) -> tuple[Code, str, None, str]:
    """Return the finding that a record is missing before an offset."""
    return Code.MISSING_FROM_TOPIC, topic, None, f"after offset {offset - 1} a fresh run writes the record of {text}"


def prediction_where(log: Log, test: Callable[[Prediction], bool]) -> tuple[int, Prediction]:
    """Return the offset and the first prediction that passes the test."""
    offset, record = where(log, TOPICS.predictions, test)
    assert isinstance(record, Prediction)
    return offset, record


def outcome_where(log: Log, test: Callable[[Outcome], bool]) -> tuple[int, Outcome]:
    """Return the offset and the first outcome that passes the test."""
    offset, record = where(log, TOPICS.outcomes, test)
    assert isinstance(record, Outcome)
    return offset, record


def example_at(log: Log, id_: str) -> int:
    """Return the offset of the example with this id."""
    return next(
        offset
        for offset, stored in enumerate(log.records[TOPICS.examples])
        if isinstance(example := decoded_or_none(stored), Example) and example.id == id_
    )


def commit_at(log: Log, offset: int) -> Commit:
    """Return the commit record at an offset of progress."""
    record = codec.decode_one(log.records[TOPICS.progress][offset].value or b"")
    assert isinstance(record, Commit)
    return record


def next_score(score: float) -> float:
    """Return the float32 that differs in the last bit."""
    (bits,) = struct.unpack("<I", struct.pack("<f", score))
    (result,) = struct.unpack("<f", struct.pack("<I", bits ^ 1))
    return float(result)


def decoded_or_none(stored: Stored) -> Any:  # noqa: ANN401  (any record, or none)
    """Decode a stored record; None if it cannot be decoded."""
    try:
        return codec.decode_one(stored.value or b"")
    except Exception:  # noqa: BLE001  (some are damaged on purpose)
        return None
