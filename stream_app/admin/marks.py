"""`areba promote`, `areba resume` and `areba erase`: write a mark among the examples of a stream.

From a `promote` mark on, a challenger is the champion; from a `decide` mark on, another threshold decides. From a
`resume` mark on, a stopped stream continues. At an `erase` mark, the task forgets the examples that the mark names. A
mark is an input record like any other, so it takes effect at one position in the order of records, and at the same
position whenever the stream is processed again. This takes two things:

    partition   the mark is written to the partition of the stream's own records, which their key decides; in another
                partition it would change another model
    timestamp   the mark has the timestamp of the record before it, not the current time. Examples and labels are merged
                by their timestamps: a mark with the current time among examples of last year would let a year of
                labels pass before the next example. A mark that is not newer than the next records cannot delay them.
                (A record with timestamp 0 would be a dead letter.)

A mark does not advance stream time, so an old timestamp expires nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stream_app.admin.models import Application
from stream_app.admin.progress.reading import progress_tail, stops_of
from stream_app.backends.base import Cluster, Sender, TopicPartition
from stream_app.backends.partitioner import partition_of
from stream_app.backends.progress import partitions_of
from stream_app.backends.reading import READ_TIMEOUT_S, rows_of
from stream_app.config import Config, ThresholdSettings, or_nearest, read_threshold
from stream_app.errors import ConfigurationError, ErrorCode, StateError
from stream_app.records import MAX_ID_BYTES, MAX_STREAM_BYTES, Mark, MarkKind
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import DIGEST_CHARACTERS, id_digest

FIRST_LOOK_RECORDS = 100
"""Offsets at the end that are read first to find the last record; control records of transactions use offsets, too."""

MAX_DIGESTS = 4_000
"""Digests of one mark, 256 kB: a task hashes all ids that it keeps once for each mark."""

MARK_BYTES = 40
"""The most bytes of an `erase` mark, besides the stream and the digests."""


class _Resumed(NamedTuple):
    """A `resume` mark: the partition, the stream and the mark's offset, and why the breaker had stopped the stream."""

    place: TopicPartition
    stream: str
    offset: int
    reason: str


def promote(
    application: Application, sender: Sender, stream: str, learner: str, partition: int | None = None
) -> tuple[TopicPartition, int]:
    """Write the mark that makes a learner the champion of a stream.

    The topics were checked before. Without a `partition`, Java's default partitioner chooses it.

    Returns:
        The partition and the offset of the mark.

    Raises:
        ConfigurationError: There is no such stream, learner or partition, or the partition never had a record.
        UnknownOutcomeError: The broker did not answer in time.
        DeliveryError: The broker did not accept the mark.
    """
    _check_names(application.config, stream, learner)
    return _write(application, sender, Mark(stream, MarkKind.PROMOTE, learner=learner), partition)


def decide(
    application: Application, sender: Sender, stream: str, threshold: str, partition: int | None = None
) -> tuple[TopicPartition, int, ThresholdSettings]:
    """Write the mark from which on another threshold decides the classes of a stream.

    The topics were checked before. Without a `partition`, Java's default partitioner chooses it.

    Args:
        application: The application.
        sender: Writes the mark.
        stream: The stream.
        threshold: As the setting `threshold` of the stream would have it, such as `probability: 0.3`.
        partition: The partition of the stream's records.

    Returns:
        The partition and the offset of the mark, and the threshold.

    Raises:
        ConfigurationError: There is no such stream or partition, the stream cannot have the threshold, or the partition
            never had a record.
        UnknownOutcomeError: The broker did not answer in time.
        DeliveryError: The broker did not accept the mark.
    """
    _check_stream(application.config, stream)
    wanted = read_threshold(threshold, stream, application.config)
    mark = Mark(stream, MarkKind.DECIDE, threshold_kind=wanted.kind.text, threshold=wanted.value)
    return *_write(application, sender, mark, partition), wanted


def resume(application: Application, sender: Sender, stream: str) -> Sequence[_Resumed]:
    """Write the mark that lets a stopped stream continue, in each partition in which the breaker stopped the stream.

    The topics were checked before. Of a stream with lanes, those continue that are stopped.

    Raises:
        StateError: The breaker has not stopped the stream, or progress cannot be read.
        UnknownOutcomeError: The broker did not answer in time.
        DeliveryError: The broker did not accept a mark.
    """
    reasons: dict[tuple[int, str], str] = {}
    cluster, topics = application.cluster, application.config.topics
    for task in range(partitions_of(cluster, topics)):
        stops = stops_of(progress_tail(cluster, TopicPartition(topics.progress, task)))
        for name in application.config.names_of(stream):
            if reason := stops.reasons.get(name, stops.unnamed):
                reasons[task, name] = reason
    if not reasons:
        raise StateError(
            f"stream {stream!r}: the breaker has not stopped it, so there is nothing to resume",
            ErrorCode.STREAM_STATE,
        )
    found = []
    for (task, name), reason in reasons.items():
        place = TopicPartition(topics.examples, task)
        time_ms = _time_ms(application, place, name)
        _send(application, sender, place, Mark(name, MarkKind.RESUME), time_ms)
        found.append(_Resumed(place, name, _written(sender, place)[-1], reason))
    return found


def erase(
    application: Application, sender: Sender, stream: str, ids: Iterable[str], partition: int | None = None
) -> tuple[TopicPartition, range]:
    """Write the marks that let a task forget examples; each mark has up to `MAX_DIGESTS` digests of ids.

    The topics were checked before, and the sender has not written to this partition. Without a `partition`, Java's
    default partitioner chooses it.

    Returns:
        The partition, and the offsets of the marks, with those of other records between them.

    Raises:
        ConfigurationError: There is no such stream or partition, the partition never had a record, an id is empty or
            too long, there are no ids, or `limits.max_record_bytes` is too small for a mark.
        StateError: The breaker has stopped the stream, so the marks would become dead letters.
        UnknownOutcomeError: The broker did not answer in time.
        DeliveryError: The broker did not accept the marks.
    """
    config = application.config
    _check_stream(config, stream)
    digests = [_checked_digest(stream, id_) for id_ in dict.fromkeys(ids)]
    room = config.limits.max_record_bytes - len(stream.encode()) - MARK_BYTES
    at_once = min(MAX_DIGESTS, room // DIGEST_CHARACTERS)
    if not digests or at_once < 1:
        problem = "there are no ids" if not digests else "limits.max_record_bytes is too small for an erase mark"
        raise ConfigurationError(f"erase: {problem}")
    place = _place(application, stream, partition)
    stops = stops_of(progress_tail(application.cluster, place._replace(topic=config.topics.progress)))
    if reason := stops.reasons.get(stream):
        text = f"stream {stream!r}: the breaker has stopped it: {reason}; resume it first"
        raise StateError(text, ErrorCode.STREAM_STATE)
    time_ms = _time_ms(application, place, stream)
    parts = ["".join(digests[begin : begin + at_once]) for begin in range(0, len(digests), at_once)]
    marks = [Mark(stream, MarkKind.ERASE, digests=part) for part in parts]
    for mark in marks:
        _send(application, sender, place, mark, time_ms)
    return place, _written(sender, place)


def ids_by_name(config: Config, stream: str, ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return ids by what their records name as their stream: their lanes, or the stream itself."""
    found: dict[str, list[str]] = {}
    for id_ in ids:
        found.setdefault(config.name_of(stream, id_), []).append(id_)
    return found or {config.names_of(stream)[0]: []}


def _checked_digest(stream: str, id_: str) -> str:
    if not 1 <= len(id_.encode()) <= MAX_ID_BYTES:
        raise ConfigurationError(f"erase: an id has 1 to {MAX_ID_BYTES} bytes, not {len(id_.encode())}")
    return id_digest(stream, id_)


def _write(application: Application, sender: Sender, mark: Mark, partition: int | None) -> tuple[TopicPartition, int]:
    """Write a mark after the last example of the stream's partition; return the partition and the mark's offset."""
    place = _place(application, mark.stream, partition)
    _send(application, sender, place, mark, _time_ms(application, place, mark.stream))
    return place, _written(sender, place)[-1]


def _send(application: Application, sender: Sender, place: TopicPartition, mark: Mark, time_ms: int) -> None:
    """Write a mark."""
    value = codec.encode(mark, application.wire_format)
    sender.send(place.topic, mark.stream.encode(), value, time_ms, partition=place.partition)


def _written(sender: Sender, place: TopicPartition) -> range:
    """Return the offsets from the first mark that was written to the last."""
    written = sender.flush(READ_TIMEOUT_S)[place]
    return range(written.low, written.high)


def _check_stream(config: Config, stream: str) -> None:
    if config.unknown_streams != "model" and stream not in config.record_streams:
        known = or_nearest(stream, config.record_streams)
        raise ConfigurationError(f"streams: there is no stream {stream!r}{known}, and unknown_streams is dead-letter")
    if not 1 <= len(stream.encode()) <= MAX_STREAM_BYTES:
        raise ConfigurationError(f"stream: a name has 1 to {MAX_STREAM_BYTES} bytes, not {len(stream.encode())}")


def _check_names(config: Config, stream: str, learner: str) -> None:
    _check_stream(config, stream)
    if learner not in config.learners:
        raise ConfigurationError(f"learners: there is no learner {learner!r}{or_nearest(learner, config.learners)}")


def _place(application: Application, stream: str, partition: int | None) -> TopicPartition:
    topics = application.config.topics
    topic, partitions = topics.examples, partitions_of(application.cluster, topics)
    if partition is None:
        return TopicPartition(topic, partition_of(stream.encode(), partitions))
    if partition >= partitions:
        raise ConfigurationError(f"the application has {partitions} partitions: there is no partition {partition}")
    return TopicPartition(topic, partition)


def _time_ms(application: Application, place: TopicPartition, stream: str) -> int:
    """Return the last timestamp in a partition, or the current time if that is earlier or all records were deleted."""
    low, high = application.cluster.watermarks(place)
    if not high:
        raise ConfigurationError(
            f"{place.topic}[{place.partition}] has never had a record: to start with another champion or threshold, "
            f"set streams.{stream}.champion or streams.{stream}.threshold; if the records of {stream} are in another "
            "partition, name this partition"
        )
    now_ms, look = application.clock.now_ms(), FIRST_LOOK_RECORDS
    while True:
        start = max(low, high - look)
        last_ms = _last_ms(application.cluster, place, start)
        if last_ms is not None:
            return min(last_ms, now_ms)
        if start == low:
            return now_ms
        look *= 10


def _last_ms(cluster: Cluster, place: TopicPartition, start: int) -> int | None:
    """Return the last timestamp from an offset on; None if no record there has a timestamp."""
    times_ms = [row.timestamp_ms for row in rows_of(cluster, place, start) if row.timestamp_ms > 0]
    return times_ms[-1] if times_ms else None
