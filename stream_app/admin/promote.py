"""`areba promote`: write a mark among the examples of a stream, which makes a challenger the champion from there on.

The mark is an input record like any other, so the champion changes at one position in the order of records, and at the
same position whenever the stream is processed again. This takes two things:

    partition   the mark is written to the partition of the stream's own records, which their key decides; in another
                partition it would change the champion of another model
    timestamp   the mark has the timestamp of the record before it, not the current time. Examples and labels are merged
                by their timestamps: a mark with the current time among examples of last year would let a year of
                labels pass before the next example. A mark that is not newer than the next records cannot delay them.
                (A record with timestamp 0 would be a dead letter.)

A mark does not advance stream time, so an old timestamp expires nothing.
"""

from stream_app.backends.base import Clock, Cluster, Sender, TopicPartition
from stream_app.backends.partition_count import partitions_of
from stream_app.backends.partitioner import partition_of
from stream_app.config import Config, or_nearest
from stream_app.errors import ConfigurationError, UnknownOutcomeError
from stream_app.records import MAX_STREAM_BYTES, Mark, MarkKind
from stream_app.serialization import codec
from stream_app.serialization.wire_format import format_of

FIRST_LOOK_RECORDS = 100
"""Offsets at the end that are read first to find the last record; control records of transactions use offsets, too."""

POLL_RECORDS = 10_000

READ_TIMEOUT_S = 30.0
"""How long a broker may be silent while it is read; a change of leader takes 6-9 s."""


def promote(
    config: Config,
    cluster: Cluster,
    sender: Sender,
    clock: Clock,
    stream: str,
    learner: str,
    partition: int | None = None,
) -> tuple[TopicPartition, int]:
    """Write the mark that makes a learner the champion of a stream.

    Args:
        config: The application's configuration.
        cluster: Where the topics are; they were checked before.
        sender: Writes the mark; has not written to this partition before.
        clock: Gives the time of the mark if the partition has no record with a timestamp.
        stream: Name of the stream.
        learner: Name of the new champion.
        partition: The partition with the stream's records; None if Java's default partitioner chooses it.

    Returns:
        The partition and the offset of the mark.

    Raises:
        ConfigurationError: There is no such stream, learner or partition, or the partition never had a record.
        UnknownOutcomeError: The broker did not answer in time.
        DeliveryError: The broker did not accept the mark.
    """
    _check_names(config, stream, learner)
    place = _place(config, cluster, stream, partition)
    mark = Mark(stream, MarkKind.PROMOTE, learner=learner)
    time_ms = _time_ms(cluster, clock, place, stream)
    sender.send(
        place.topic,
        stream.encode(),
        codec.encode(mark, format_of(config.serialization)),
        time_ms,
        partition=place.partition,
    )
    return place, sender.flush(READ_TIMEOUT_S)[place].low


def _check_names(config: Config, stream: str, learner: str) -> None:
    if config.unknown_streams != "model" and stream not in config.streams:
        known = or_nearest(stream, config.streams)
        raise ConfigurationError(f"streams: there is no stream {stream!r}{known}, and unknown_streams is dead-letter")
    if not 1 <= len(stream.encode()) <= MAX_STREAM_BYTES:
        raise ConfigurationError(f"stream: a name has 1 to {MAX_STREAM_BYTES} bytes, not {len(stream.encode())}")
    if learner not in config.learners:
        raise ConfigurationError(f"learners: there is no learner {learner!r}{or_nearest(learner, config.learners)}")


def _place(config: Config, cluster: Cluster, stream: str, partition: int | None) -> TopicPartition:
    topic = config.topics.examples
    partitions = partitions_of(cluster, config.topics)
    if partition is None:
        return TopicPartition(topic, partition_of(stream.encode(), partitions))
    if partition >= partitions:
        raise ConfigurationError(f"the application has {partitions} partitions: there is no partition {partition}")
    return TopicPartition(topic, partition)


def _time_ms(cluster: Cluster, clock: Clock, place: TopicPartition, stream: str) -> int:
    """Return the last timestamp in a partition, or the current time if that is earlier or all records were deleted."""
    low, high = cluster.watermarks(place)
    if not high:
        raise ConfigurationError(
            f"{place.topic}[{place.partition}] has never had a record: to start with another champion, set "
            f"streams.{stream}.champion; if the records of {stream} are in another partition, name this partition"
        )
    now_ms, look = clock.now_ms(), FIRST_LOOK_RECORDS
    while True:
        start = max(low, high - look)
        last_ms = _last_ms(cluster, place, start)
        if last_ms is not None:
            return min(last_ms, now_ms)
        if start == low:
            return now_ms
        look *= 10


def _last_ms(cluster: Cluster, place: TopicPartition, start: int) -> int | None:
    """Return the last timestamp from an offset on; None if no record there has a timestamp."""
    reader = cluster.reader(place)
    last_ms: int | None = None
    try:
        reader.seek(start)
        while True:
            fetched = reader.poll(POLL_RECORDS, READ_TIMEOUT_S)
            if fetched is None:
                raise UnknownOutcomeError(
                    f"{place.topic}[{place.partition}]: the broker did not answer for {READ_TIMEOUT_S:g} s"
                )
            times = fetched.records.timestamps
            if (times > 0).any():
                last_ms = int(times[times > 0][-1])
            if fetched.at_end:
                return last_ms
    finally:
        reader.close()
