"""Read a partition: record by record, as tools do, or step by step, as a worker does, which must not wait."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeVar

import numpy as np

from stream_app.backends.base import Cluster, Fetched, LogReader, TopicPartition
from stream_app.errors import UnknownOutcomeError
from stream_app.record_columns import RawRecords, log_time_ms
from stream_app.records import Header

READ_TIMEOUT_S = 30.0
"""The longest silence of a broker during a read; the election of a leader takes 6-9 s."""

POLL_RECORDS = 2_000
"""Records in one poll: a few MB with the largest values."""

_POLL_TIMEOUT_S = 1.0

_STEP_RECORDS = 1_000
"""Records of one step of a worker: some milliseconds of work."""

_PATIENT_POLL_S = 0.1
"""How long a tool waits for the records of one step."""

Answer = TypeVar("Answer")

Take = Callable[[int, bytes | None, bytes | None, Sequence[Header]], bool]
"""Takes offset, key, value and headers of a record; says whether to continue."""


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
        fetched = reader.poll(POLL_RECORDS, _POLL_TIMEOUT_S)
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


def rows_of(cluster: Cluster, place: TopicPartition, first: int = 0, *, to_end: bool = True) -> Iterator[Row]:
    """Yield the records of a partition from an offset on; see `read_rows`."""
    with closing(cluster.reader(place)) as reader:
        if first:
            reader.seek(first)
        yield from read_rows(reader, f"{place.topic}[{place.partition}]", to_end=to_end)


def columns_of(rows: Sequence[Row]) -> RawRecords:
    """Return records of one partition in columns."""
    return RawRecords.of(
        np.array([row.offset for row in rows], np.int64),
        np.array([row.timestamp_ms for row in rows], np.int64),
        [row.key for row in rows],
        [row.value for row in rows],
        {number: row.headers for number, row in enumerate(rows) if row.headers},
    )


def read_in_steps(reader: LogReader, start: int, end: int, take: Take) -> Generator[bool, None, None]:
    """Give the records from `start` to `end` to `take` until it returns False; yield after each poll if it had news."""
    reader.seek(start)
    while True:
        fetched = reader.poll(_STEP_RECORDS, 0.0)
        if fetched is None:
            yield False
            continue
        records = fetched.records
        for row, offset in enumerate(records.offsets.tolist()):
            if offset >= end or not take(offset, records.keys[row], records.values[row], records.headers.get(row, ())):
                return
        if fetched.at_end or (len(records) and records.offsets[-1] == end - 1):
            return
        yield True


class _Patient:
    """A reader that waits for records, even if it is asked not to wait."""

    def __init__(self, reader: LogReader) -> None:
        self.seek = reader.seek
        self.close = reader.close
        self._reader = reader

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records; None if none came in time."""
        return self._reader.poll(max_records, max(timeout_s, _PATIENT_POLL_S))


def finish(
    cluster: Cluster, place: TopicPartition, work: Callable[[LogReader], Generator[bool, None, Answer]]
) -> Answer:
    """Run a generator that reads a partition step by step, and return its result.

    Args:
        cluster: Where the partition is.
        place: The partition.
        work: Returns the generator, which yields after each poll whether records came.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    with closing(cluster.reader(place)) as reader:
        steps = work(_Patient(reader))
        silent = 0
        while silent * _PATIENT_POLL_S < READ_TIMEOUT_S:
            try:
                silent = 0 if next(steps) else silent + 1
            except StopIteration as done:
                answer: Answer = done.value
                return answer
    raise UnknownOutcomeError(f"{place.topic}[{place.partition}]: the broker did not answer for {READ_TIMEOUT_S:g} s")
