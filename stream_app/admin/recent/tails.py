"""The newest records of a partition, decoded."""

from collections.abc import Sequence
from typing import NamedTuple

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.reading import Row, rows_of
from stream_app.errors import UndecodableError, WrongSchemaError
from stream_app.serialization.codec import decode_one
from stream_app.serialization.wire_format import WireFormat

TAIL_RECORDS = 2_000
"""Records that are read at the end of each partition, which takes some 50 ms."""

WINDOW_MS = 3_600_000
"""What the outputs show is reported until an output is an hour newer in the log: by then someone has seen it, or there
is more."""


class Tail(NamedTuple):
    """The newest records of a partition of a topic, in this format; `is_whole`: there are no older ones."""

    topic: str
    rows: Sequence[Row]
    wire_format: WireFormat
    is_whole: bool

    @property
    def newest_ms(self) -> int:
        """When the log took the newest of them, or 0."""
        return max((row.log_time_ms for row in self.rows), default=0)

    def content(self, row: Row) -> object:
        """Return the decoded value of a row, or the error that decoding it raised."""
        try:
            return decode_one(row.value or b"", self.wire_format)
        except (UndecodableError, WrongSchemaError) as error:
            return error


def tail_of(cluster: Cluster, place: TopicPartition, wire_format: WireFormat, records: int) -> Tail:
    """Read the end of a partition.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
        TopicError: The broker does not allow us to read.
    """
    low, high = cluster.watermarks(place)
    if low == high:
        return Tail(place.topic, (), wire_format, is_whole=True)
    rows = list(rows_of(cluster, place, max(low, high - records)))
    return Tail(place.topic, rows, wire_format, is_whole=high - records <= low)
