"""All records of a partition, one by one: what tools see of a topic."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stream_app.backends.base import LogReader
from stream_app.errors import UnknownOutcomeError
from stream_app.records import Header

READ_TIMEOUT_S = 30.0
"""Longest silence of a broker that is being read; a change of leader takes 6-9 s."""

POLL_RECORDS = 2_000
"""Records at a time: with the largest values some MB."""

POLL_TIMEOUT_S = 1.0


class Row(NamedTuple):
    """One record as it is on a topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


def read_rows(reader: LogReader, where: str, *, to_end: bool = True) -> Iterator[Row]:
    """All records up to the end as it is met first, or (not `to_end`) for as long as the caller asks for more.

    Raises:
        UnknownOutcomeError: Nothing came for `READ_TIMEOUT_S`.
    """
    heard_s = time.monotonic()
    while True:
        fetched = reader.poll(POLL_RECORDS, POLL_TIMEOUT_S)
        if fetched is None:
            if time.monotonic() - heard_s > READ_TIMEOUT_S:
                raise UnknownOutcomeError(f"{where}: no answer for {READ_TIMEOUT_S:g} s")
            continue
        records = fetched.records
        if to_end or len(records):
            heard_s = time.monotonic()
        rows = zip(records.offsets.tolist(), records.timestamps.tolist(), records.keys, records.values, strict=True)
        for place, (offset, timestamp_ms, key, value) in enumerate(rows):
            yield Row(offset, timestamp_ms, key, value, records.headers.get(place, ()))
        if fetched.at_end and to_end:
            return
