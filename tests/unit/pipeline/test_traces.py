"""Outputs carry traces that producers write, so a trace must be small and well-formed."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from stream_app.backends.clock import ManualClock
from stream_app.pipeline.batch import open_batch
from stream_app.pipeline.carried_headers import MAX_TRACE_BYTES, is_trace
from stream_app.record_columns import RawRecords
from stream_app.records import UNREADABLE_HEADERS, Header
from stream_app.serialization.decode import DecodeLimits
from stream_app.serialization.names import NameList
from stream_app.worker.reports import events
from stream_app.worker.reports.log import WARNING_INTERVAL_S
from stream_app.worker.reports.observer import Observer

VALID = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

LATER = b"cc" + VALID[2:]


@pytest.mark.parametrize(
    "value", [VALID, VALID[:-2] + b"00", VALID[:-2] + b"ff", LATER, LATER + b"-what-the-future-has"]
)
def test_traces_that_w3c_allows_are_kept(value: bytes) -> None:
    """A trace may have any flags, and in a later version more fields after a dash."""
    assert is_trace(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"x",
        VALID[:-1],
        VALID + b"0",
        VALID + b"\n",
        VALID + b"-more",  # version 00 has 55 bytes
        LATER + b"more",  # without its dash
        LATER + b"-\x1b[2J",
        LATER + b"-" + b"x" * (MAX_TRACE_BYTES - 55),
        b"ff" + VALID[2:],
        VALID.upper(),
        VALID.replace(b"0af7", b"0AF7"),
        VALID.replace(b"-", b"_"),
        b"00-" + b"0" * 32 + VALID[35:],
        VALID[:36] + b"0" * 16 + VALID[52:],
        b" " + VALID,
        VALID.replace(b"a", "\u0430".encode()),  # Cyrillic
        b"0" * 1_000_000,
    ],
)
def test_traces_that_w3c_forbids_are_dropped(value: bytes | None) -> None:
    """A header of a megabyte would make a prediction that its topic never accepts."""
    assert not is_trace(value)


def _records(headers: Mapping[int, Sequence[Header]]) -> RawRecords:
    numbers = np.arange(1, 8, dtype=np.int64)
    return RawRecords.of(numbers, numbers.copy(), [None] * 7, [b"x"] * 7, headers)


def test_records_with_dropped_traces_are_counted() -> None:
    """Records are counted, also those with two traces: 20,000 valid traces are as heavy as one invalid trace."""
    trace, other = ("traceparent", VALID), ("source", b"x" * 100)
    examples = _records(
        {0: [trace, other], 1: [trace, trace], 2: [("traceparent", None)], 3: [other], 4: [other, trace]}
    )
    labels = _records({0: UNREADABLE_HEADERS, 2: [trace], 5: [("traceparent", b"9")]})
    batch = open_batch(examples, labels, DecodeLimits(), NameList())
    assert batch.carried.dropped_traces == 3
    carried = {position for position in range(14) if batch.traces(np.array([position], np.int32))}
    found = {(int(batch.merged.sides[position]), int(batch.merged.rows[position])) for position in carried}
    assert found == {(0, 0), (0, 4), (1, 2)}
    assert set(map(str, batch.traces(np.arange(14, dtype=np.int32)).values())) == {str([trace])}


def test_dropped_traces_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the count since the previous line, because such a producer does it with every record."""
    clock = ManualClock()
    observer = Observer(clock)
    with caplog.at_level("WARNING"):
        for _ in range(3):
            observer.emit(events.TracesDropped(1, 5))
        clock.advance(WARNING_INTERVAL_S)
        observer.emit(events.TracesDropped(1, 5))
    found = [getattr(record, "fields", {}) for record in caplog.records]
    assert found == [{"task": 1, "records": 5}, {"task": 1, "records": 15}]
