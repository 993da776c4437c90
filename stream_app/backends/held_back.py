"""What an open transaction holds back: read-committed clients read no further than the last stable offset.

The Kafka client cannot name the producer of an open transaction (it has no DescribeProducers, KIP-664);
`kafka-transactions.sh` can.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from stream_app.backends.base import Clock, Cluster, Ends, TopicPartition

WATCH_S = 2.0
"""What does not move for this long is reported: a producer of inputs should commit every second, and so do workers."""

LOOK_INTERVAL_S = 0.5
"""Time between two looks."""

Value = TypeVar("Value")


def open_ends(cluster: Cluster, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Ends]:
    """Return the ends of each partition with an open transaction.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    return {place: found for place, found in cluster.ends(places).items() if found.stable < found.high}


def held_text(place: TopicPartition, ends: Ends) -> str:
    """Return what an open transaction holds back, with the command that names the producer."""
    return (
        f"an open transaction of a producer holds {place.topic}[{place.partition}] back at offset {ends.stable}: "
        f"{ends.high - ends.stable} offsets wait; find the producer: kafka-transactions.sh --bootstrap-server SERVERS "
        f"describe-producers --topic {place.topic} --partition {place.partition}"
    )


def unmoved(
    looks: Sequence[Callable[[], Mapping[TopicPartition, int]]], clock: Clock
) -> Sequence[Mapping[TopicPartition, int]]:
    """Return of each look the offsets that stay the same for `WATCH_S`; takes no time if there are none."""
    found = [look() for look in looks]
    until_s = clock.monotonic_s() + WATCH_S
    while any(found) and clock.monotonic_s() < until_s:
        clock.sleep(LOOK_INTERVAL_S)
        found = [_equal(one, look()) if one else one for one, look in zip(found, looks, strict=True)]
    return found


def _equal(one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    return {place: offset for place, offset in one.items() if other.get(place) == offset}


def held_back(cluster: Cluster, places: Sequence[TopicPartition], clock: Clock) -> str | None:
    """Watch partitions; return what an open transaction holds back in the first of them, or None.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    ends: dict[TopicPartition, Ends] = {}

    def look() -> Mapping[TopicPartition, int]:
        found = open_ends(cluster, places)
        ends.update(found)
        return {place: one.stable for place, one in found.items()}

    (held,) = unmoved([look], clock)
    return next((held_text(place, ends[place]) for place in held), None)
