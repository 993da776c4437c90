"""Read the input records that became dead letters.

They are read again if a dead letter had no room for the whole record.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Self

from stream_app.admin.dead_letters.record import StoredDeadLetter, decoded
from stream_app.admin.dead_letters.topic import DeadLettersTopic
from stream_app.backends.base import Cluster, LogReader, TopicPartition
from stream_app.backends.reading import Row, read_rows
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.left_out import Fields

NEAR_RECORDS = 5_000
"""An input record that is at most this far after the last one is reached by reading on; the reader seeks to others."""

INPUT_DELETED = "the dead letter had no room for the whole record, and the input record was deleted"
INPUT_DIFFERS = "the dead letter had no room for the whole record, and the input has another record at its offset"
"""Why a dead letter cannot be completed."""


class InputRecords:
    """Finds the input records that became dead letters; used as a context manager."""

    def __init__(self, cluster: Cluster, topic: DeadLettersTopic) -> None:
        self._cluster = cluster
        self._wire_format = topic.wire_format
        self._stack = ExitStack()
        self._readers: dict[TopicPartition, LogReader] = {}
        self._rows: dict[TopicPartition, tuple[int, Iterator[Row]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def completed(self, record: StoredDeadLetter) -> tuple[StoredDeadLetter, str]:
        """Return the dead letter with the parts that it left out, and "" or the reason why it cannot be completed.

        Raises:
            UnknownOutcomeError: The broker did not answer in time.
        """
        dead_letter = record.dead_letter
        if not dead_letter.left_out:
            return record, ""
        row = self._row(dead_letter)
        if row is None:
            return record, INPUT_DELETED
        if not _is_origin(dead_letter, row):
            return record, INPUT_DIFFERS
        original = Fields(row.key, row.value, row.headers)
        whole = replace(dead_letter, original=original, left_out={})
        return decoded(record.record_id, record.log_time_ms, whole, self._wire_format), ""

    def _row(self, dead_letter: DeadLetterRecord) -> Row | None:
        """Return the record at the offset that the dead letter names; None if there is no such record."""
        partition, wanted = TopicPartition(dead_letter.topic, dead_letter.partition), dead_letter.input_offset
        low, high = self._cluster.watermarks(partition)
        if not low <= wanted < high:
            return None
        row = next((row for row in self._rows_from(partition, wanted) if row.offset >= wanted), None)
        if row is None:
            return None
        self._rows[partition] = row.offset, self._rows[partition][1]
        return row if row.offset == wanted else None

    def _rows_from(self, partition: TopicPartition, wanted: int) -> Iterator[Row]:
        """Return the records from an offset on, or those after the last record read if the offset is near it."""
        if partition in self._rows:
            last, rows = self._rows[partition]
            if last < wanted <= last + NEAR_RECORDS:
                return rows
        if partition not in self._readers:
            self._readers[partition] = self._stack.enter_context(closing(self._cluster.reader(partition)))
        self._readers[partition].seek(wanted)
        rows = read_rows(self._readers[partition], f"{partition.topic}[{partition.partition}]")
        self._rows[partition] = wanted - 1, rows
        return rows


def _is_origin(dead_letter: DeadLetterRecord, row: Row) -> bool:
    return not list(dead_letter.differences(Fields(row.key, row.value, row.headers)))
