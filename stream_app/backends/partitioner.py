"""Where a record belongs: the partition that Java's default partitioner gives to its key, the name of its stream.

All producers of an application must agree on this, or a stream has one model in each partition that they choose, and a
label never meets its example. librdkafka's own default is another one (CRC-32); `partitioner=murmur2_random` is Java's.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stream_app.records import Longs


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with Kafka's seed, as `org.apache.kafka.common.utils.Utils.murmur2` computes it.

    Returns:
        An unsigned 32-bit number (Java's is the same bits, signed).
    """
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    result = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * factor & mask
        word = (word ^ (word >> 24)) * factor & mask
        result = (result * factor & mask) ^ word
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * factor & mask
    result = (result ^ (result >> 13)) * factor & mask
    return result ^ (result >> 15)


@lru_cache(maxsize=4_096)  # keys are names of streams: few, and each comes often
def partition_of(key: bytes, partitions: int) -> int:
    """Where Java's default partitioner sends this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def split_text(stream: str, partitions: Sequence[int]) -> str:
    """What is wrong with a stream that lives in several partitions."""
    places = ", ".join(map(str, partitions))
    return (
        f"stream {stream!r} lives in partitions {places}, with a model in each: its producers choose partitions in "
        "different ways; set partitioner=murmur2_random (Java's default) in all of them"
    )


class Misplaced(NamedTuple):
    """Records of a batch that another partition should have: how many, of how many streams so far, and one of these.

    `belongs_to` is the partition of that stream.
    """

    records: int
    streams: int
    stream: str
    belongs_to: int


class Placement:
    """Counts the records of one task that another partition should have; the key is hashed once for each stream.

    Args:
        partition: The task's number.
        partitions: How many there are.
    """

    def __init__(self, partition: int, partitions: int) -> None:
        self._partition = partition
        self._partitions = partitions
        self._is_misplaced = np.zeros(0, np.bool_)

    def misplaced(self, names: Sequence[str], records: Longs, unknown: Mapping[str, int]) -> Misplaced | None:
        """What is misplaced of a batch; None: nothing.

        Args:
            names: The task's streams; between two calls they only become more.
            records: int64 `[streams]`, how many records came to each.
            unknown: Records of streams that the task does not have, by name.
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
