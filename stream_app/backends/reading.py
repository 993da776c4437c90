"""Records of a partition one by one, as tools read them."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stream_app.backends.base import LogReader
from stream_app.errors import UnknownOutcomeError
from stream_app.record_columns import log_time_ms
from stream_app.records import Header

READ_TIMEOUT_S = 30.0
"""The longest silence of a broker during a read; the election of a leader takes 6-9 s."""

POLL_RECORDS = 2_000
"""Records in one poll: a few MB with the largest values."""

POLL_TIMEOUT_S = 1.0


class Row(NamedTuple):
    """One record of a partition; `timestamp_ms` as in `RawRecords`."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @property
    def log_time_ms(self) -> int:
        """The timestamp that the record has in the log, whoever set it; -1: it has none."""
        return log_time_ms(self.timestamp_ms)


def read_rows(reader: LogReader, where: str, *, to_end: bool = True) -> Iterator[Row]:
    """Yield the records of a partition, from the reader's position.

    Args:
        reader: The reader.
        where: The partition, for the error message.
        to_end: Stop when the end of the partition is first reached; otherwise wait for further records.

    Raises:
        UnknownOutcomeError: The broker gave no answer (or, without `to_end`, no record) for `READ_TIMEOUT_S`.
    """
    heard_s = time.monotonic()
    while True:
        fetched = reader.poll(POLL_RECORDS, POLL_TIMEOUT_S)
        if fetched is None:
            if time.monotonic() - heard_s > READ_TIMEOUT_S:
                raise UnknownOutcomeError(f"{where}: the broker did not answer for {READ_TIMEOUT_S:g} s")
            continue
        records = fetched.records
        if to_end or len(records):
            heard_s = time.monotonic()
        rows = zip(records.offsets.tolist(), records.timestamps.tolist(), records.keys, records.values, strict=True)
        for place, (offset, timestamp_ms, key, value) in enumerate(rows):
            yield Row(offset, timestamp_ms, key, value, records.headers.get(place, ()))
        if fetched.at_end and to_end:
            return
