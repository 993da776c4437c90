"""`areba promote`: a mark among the examples of a stream that makes a challenger its champion from there on.

The mark is an input record like any other, so the change of champion has one place in the order, and whoever processes
the stream again finds it there. Two things make it so:

    partition   that of the stream's own records, by their key; a mark elsewhere would speak to another model
    timestamp   that of the record before it, never the wall clock's. The merge takes the smaller timestamp first: a
                mark from now among examples of last year would let a year of labels pass before the next example,
                and records that are younger than their mark can never be held up by it. (0 is bad-time.)

A mark does not move stream time, so an old timestamp expires nothing.
"""

from stream_app.backends.base import Clock, Cluster, Sender, TopicPartition
from stream_app.backends.partition_count import partitions_of
from stream_app.backends.partitioner import partition_of
from stream_app.config import Config, or_nearest
from stream_app.errors import ConfigurationError, UnknownOutcomeError
from stream_app.records import MAX_STREAM_BYTES, Mark, MarkKind
from stream_app.serialization import codec

FIRST_LOOK_RECORDS = 100
"""How far from the end the last record is looked for first; control records of transactions take offsets too."""

POLL_RECORDS = 10_000

READ_TIMEOUT_S = 30.0
"""Longest silence of a broker that is being read; a change of leader takes 6-9 s."""


def promote(
    config: Config,
    cluster: Cluster,
    sender: Sender,
    clock: Clock,
    stream: str,
    learner: str,
    partition: int | None = None,
) -> tuple[TopicPartition, int]:
    """Write the mark.

    Args:
        config: The application's configuration.
        cluster: Where its topics are, checked before.
        sender: Writes the mark; it has written nothing to this partition before.
        clock: Tells the time where no record does.
        stream: Whose champion changes.
        learner: The new champion.
        partition: Where the stream's records are; None: where Java's default partitioner sends its key.

    Returns:
        Where the mark is, and its offset.

    Raises:
        ConfigurationError: There is no such stream, learner or partition, or the partition never had a record.
        UnknownOutcomeError: The broker fell silent.
        DeliveryError: The broker did not accept the mark.
    """
    _check_names(config, stream, learner)
    place = _place(config, cluster, stream, partition)
    mark = Mark(stream, MarkKind.PROMOTE, learner=learner)
    time_ms = _time_ms(cluster, clock, place, stream)
    sender.send(place.topic, stream.encode(), codec.encode(mark), time_ms, partition=place.partition)
    return place, sender.flush(READ_TIMEOUT_S)[place].low


def _check_names(config: Config, stream: str, learner: str) -> None:
    if config.unknown_streams != "model" and stream not in config.streams:
        known = or_nearest(stream, config.streams)
        raise ConfigurationError(f"streams: there is no stream {stream!r}{known}, and unknown_streams is dead-letter")
    if not 1 <= len(stream.encode()) <= MAX_STREAM_BYTES:
        raise ConfigurationError(f"a stream's name has 1 to {MAX_STREAM_BYTES} bytes, not {len(stream.encode())}")
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
    """The timestamp of the partition's last record, but not one that lies in the future; now, when all are deleted."""
    low, high = cluster.watermarks(place)
    if not high:
        raise ConfigurationError(
            f"{place.topic}[{place.partition}] never had a record: to begin with another champion, set "
            f"streams.{stream}.champion; if the records of {stream} are elsewhere, name their partition"
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
    """The last timestamp from this offset on that is one; None when no record there has any."""
    reader = cluster.reader(place)
    last_ms: int | None = None
    try:
        reader.seek(start)
        while True:
            fetched = reader.poll(POLL_RECORDS, READ_TIMEOUT_S)
            if fetched is None:
                raise UnknownOutcomeError(f"{place.topic}[{place.partition}]: no answer for {READ_TIMEOUT_S:g} s")
            times = fetched.records.timestamps
            if (times > 0).any():
                last_ms = int(times[times > 0][-1])
            if fetched.at_end:
                return last_ms
    finally:
        reader.close()
