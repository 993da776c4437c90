"""The partition of a key, as Java's default partitioner computes it (murmur2)."""

from functools import lru_cache


def murmur2(data: bytes) -> int:
    """Return Austin Appleby's MurmurHash2 with Kafka's seed, as `org.apache.kafka.common.utils.Utils.murmur2` does.

    Returns:
        An unsigned 32-bit number; Java returns the same bits as a signed number.
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


def positive(hashed: int) -> int:
    """Return a hash without its highest bit, which Java takes for the sign, as `Utils.toPositive` does."""
    return hashed & 0x7FFFFFFF


@lru_cache(maxsize=4_096)  # keys are names of streams: few, and often the same
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition, of `partitions`, to which Java's default partitioner sends this key."""
    return positive(murmur2(key)) % partitions
