"""The partition of a record, as Java's default partitioner computes it from the key.

The key is the name of the stream. All producers of an application must agree on the partition of a stream. Otherwise
the stream has a separate model in each partition that they choose, and labels miss their examples. librdkafka uses
another partitioner by default (CRC-32); `partitioner=murmur2_random` is Java's.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stream_app.arrays import Longs
from stream_app.key_partition import murmur2, partition_of

__all__ = ["Misplaced", "Placement", "misplaced_text", "murmur2", "partition_of", "split_text"]


def misplaced_text(partition: int, belongs_to: int) -> str:
    """Return what is wrong with a stream that has records in another partition than its key demands."""
    return (
        f"has records in partition {partition}, but belongs to partition {belongs_to}: its producer uses another "
        "partitioner; set partitioner=murmur2_random (Java's default), or a label may not meet its example"
    )


def split_text(partitions: Sequence[int]) -> str:
    """Return what is wrong with a stream that has records in several partitions."""
    places = ", ".join(map(str, partitions))
    return (
        f"has records in partitions {places}, and a separate model in each: its producers use "
        "different partitioners; set partitioner=murmur2_random (Java's default) in all of them"
    )


class Misplaced(NamedTuple):
    """Records of a batch that belong to other partitions.

    Attributes:
        records: How many records of the batch.
        streams: How many streams were misplaced so far, in this batch or before.
        stream: The name of one of the streams in this batch.
        belongs_to: The partition that this stream belongs to.
    """

    records: int
    streams: int
    stream: str
    belongs_to: int


class Placement:
    """A counter of the records of one task that belong to other partitions. Each stream's key is hashed once."""

    def __init__(self, partition: int, partitions: int) -> None:
        self._partition = partition
        self._partitions = partitions
        self._is_misplaced = np.zeros(0, np.bool_)

    def misplaced(self, names: Sequence[str], records: Longs, unknown: Mapping[str, int]) -> Misplaced | None:
        """Return the misplaced records of a batch; None if there are none.

        Args:
            names: The task's streams; from one call to the next, names are only appended.
            records: int64 `[streams]`, the number of records of each.
            unknown: The number of records of each stream that the task does not have, by name.
        """
        new = range(len(self._is_misplaced), len(records))
        if new:
            misplaced = [self._place_of(names[number]) != self._partition for number in new]
            self._is_misplaced = np.concatenate([self._is_misplaced, misplaced])
        met = np.flatnonzero(self._is_misplaced & (records > 0)).tolist()
        found = {names[number]: int(records[number]) for number in met}
        found |= {name: count for name, count in unknown.items() if self._place_of(name) != self._partition}
        if not found:
            return None
        first = next(iter(found))
        streams = int(np.count_nonzero(self._is_misplaced))
        return Misplaced(sum(found.values()), streams, first, self._place_of(first))

    def _place_of(self, name: str) -> int:
        return partition_of(name.encode(), self._partitions)
