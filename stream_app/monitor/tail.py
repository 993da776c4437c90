"""Decoded records of one topic, as documents for JSON: the newest ones, those since a moment, and those that arrive."""

import heapq
import math
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_app.backends.base import TopicPartition
from stream_app.backends.following import FollowableCluster
from stream_app.backends.progress import absent_text
from stream_app.backends.reading import READ_TIMEOUT_S, Row
from stream_app.backends.retention import deleted_text
from stream_app.config import Topics, or_nearest
from stream_app.errors import ConfigurationError, TopicError, UndecodableError, UnknownOutcomeError, WrongSchemaError
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Mark, stream_of_key
from stream_app.serialization.codec import decode_one, may_have
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.wire_format import WireFormat

POLL_RECORDS = 2_000
POLL_S = 0.5

FIRST_SPAN = 1_000
"""Offsets at the end of each partition in which the newest records are searched first; then ever larger spans are."""

_SPAN_GROWTH = 8

TOPIC_NAMES = tuple(name.replace("_", "-") for name in Topics._fields if name != "changelog")
"""The short names of the topics that have records to show."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records to show.

    Attributes:
        streams: Names of streams, by the records' keys; empty: all records.
        since_ms: Earliest timestamp in the log: event time in an input, the time of writing elsewhere; None: any.
        limit: At most this many of the existing records, the newest; None: all of them.
        id: Id of the records, or of the original of a dead letter; None: any.
        wire_format: The format of the values, in which ids are looked for.
        partitions: Numbers of the partitions that are read; empty: all.
    """

    streams: frozenset[str] = frozenset()
    since_ms: int | None = None
    limit: int | None = None
    id: str | None = None
    wire_format: WireFormat | None = None
    partitions: frozenset[int] = frozenset()

    def matches(self, row: Row) -> bool:
        """Say whether a record is wanted."""
        is_early = self.since_ms is not None and row.log_time_ms < self.since_ms
        has_stream = not self.streams or stream_of_key(row.key) in self.streams
        return not is_early and has_stream and (self.id is None or self._has_id(self.id, row.value))

    def _has_id(self, wanted: str, value: bytes | None) -> bool:
        """Say whether a value has this id; a value that cannot be decoded has it if the bytes occur in it."""
        if value is None or not may_have(value, wanted):
            return False
        try:
            return getattr(decode_one(value, self.wire_format), "id", None) == wanted
        except (UndecodableError, WrongSchemaError):
            return wanted.encode() in value


Reporter: TypeAlias = Callable[[int, int], None]


class Found(NamedTuple):
    """A record and its partition."""

    place: TopicPartition
    row: Row


def topic_named(topics: Topics, text: str) -> str:
    """Return the full name of a topic of the application from its full or short name, such as `dead-letters`.

    Raises:
        ConfigurationError: The application has no such topic, or it holds no records to show.
    """
    full = dict(zip((name.replace("_", "-") for name in Topics._fields), topics, strict=True))
    name = full.get(text, text)
    if name == topics.changelog:
        raise ConfigurationError(f"{name} holds parts of snapshots; `areba state list` shows what they contain")
    if name not in topics:
        raise ConfigurationError(f"there is no topic {text!r}{or_nearest(text, TOPIC_NAMES)}")
    return name


def newest(
    cluster: FollowableCluster, topic: str, wanted: Wanted, report: Reporter = lambda *_: None
) -> tuple[Iterator[Found], dict[TopicPartition, int]]:
    """Find the records that a topic has now.

    Args:
        cluster: Where the topic is.
        topic: Its full name.
        wanted: Which records to find.
        report: Is called after each poll with the offsets that were read, and with those that will be read.

    Returns:
        The records, and the offset of each partition after them, for `arriving`. With a limit the records come in the
        order of their timestamps, else as they are read; records of one partition are always in order.

    Raises:
        TopicError: The topic does not exist, or the broker refuses to let us read it.
        UnknownOutcomeError: The broker did not answer in time.
    """
    found = cluster.topics([topic])
    if topic not in found:
        raise TopicError(absent_text(topic))
    numbers = wanted.partitions or range(found[topic].partitions)
    places = [TopicPartition(topic, number) for number in sorted(numbers) if number < found[topic].partitions]
    ends = {place: end.stable for place, end in cluster.ends(places).items()}
    firsts = (
        dict.fromkeys(places, 0) if wanted.since_ms is None else dict(cluster.offsets_since(places, wanted.since_ms))
    )
    if wanted.limit is None:
        return (one for one in _between(cluster, firsts, ends, report) if wanted.matches(one.row)), ends
    return iter(_newest(cluster, firsts, ends, wanted, wanted.limit, report)), ends


def deleted_before(cluster: FollowableCluster, places: Iterable[TopicPartition], since_ms: int | None) -> Iterator[str]:
    """Yield a line for each partition whose oldest records were deleted, if they could have been wanted."""
    for place in places:
        low = cluster.watermarks(place).low
        if low and (since_ms is None or cluster.offsets_since([place], since_ms)[place] <= low):
            yield deleted_text(place, low, 0)


def _newest(
    cluster: FollowableCluster,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    wanted: Wanted,
    limit: int,
    report: Reporter,
) -> Sequence[Found]:
    span = max(FIRST_SPAN, 2 * limit)  # the markers of transactions take offsets, too
    while limit:
        starts = {place: max(first, ends[place] - span) for place, first in firsts.items()}
        kept: dict[TopicPartition, deque[Found]] = {place: deque(maxlen=limit) for place in firsts}
        for one in _between(cluster, starts, ends, report):
            if wanted.matches(one.row):
                kept[one.place].append(one)
        if sum(map(len, kept.values())) >= limit or starts == firsts:
            return deque(heapq.merge(*kept.values(), key=lambda one: one.row.log_time_ms), maxlen=limit)
        span *= _SPAN_GROWTH
    return ()


def _between(
    cluster: FollowableCluster,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    report: Reporter,
) -> Iterator[Found]:
    """Yield the committed records from the starts to the ends of the partitions.

    Raises:
        TopicError: The broker refuses to let us read.
        UnknownOutcomeError: The broker gave no answer for `READ_TIMEOUT_S`.
    """
    waiting = {place for place, start in starts.items() if start < ends[place]}
    if not waiting:
        return
    heard_s = time.monotonic()
    read, every = 0, sum(ends[place] - starts[place] for place in waiting)
    reached = {place: starts[place] for place in waiting}
    with closing(cluster.follow({place: starts[place] for place in waiting})) as follower:
        while waiting:
            found = follower.poll(POLL_RECORDS, POLL_S)
            if found:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > READ_TIMEOUT_S:
                raise UnknownOutcomeError(
                    "; ".join(follower.problems) or f"the broker did not answer for {READ_TIMEOUT_S:g} s"
                )
            for fetched in found:
                place, records = fetched.partition, fetched.records
                yield from (Found(place, row) for row in _rows(records) if row.offset < ends[place])
                if len(records):
                    after = min(int(records.offsets[-1]) + 1, ends[place])
                    read, reached[place] = read + after - reached[place], after
                if fetched.at_end or (len(records) and int(records.offsets[-1]) >= ends[place] - 1):
                    waiting.discard(place)
            report(read, every)


def arriving(
    cluster: FollowableCluster,
    starts: Mapping[TopicPartition, int],
    wanted: Wanted,
    on_problem: Callable[[str], None],
) -> Iterator[Found]:
    """Yield the records that arrive, for ever.

    Args:
        cluster: Where the topic is.
        starts: The offset of each partition at which to begin.
        wanted: Which records to yield; the limit is ignored.
        on_problem: Is called with a line when reading stops, and with another when it continues.
    """
    problems: Sequence[str] = ()
    with closing(cluster.follow(starts)) as follower:
        while True:
            for fetched in follower.poll(POLL_RECORDS, POLL_S):
                for row in _rows(fetched.records):
                    if wanted.matches(row):
                        yield Found(fetched.partition, row)
            if bool(follower.problems) != bool(problems):
                for line in follower.problems or ("reading continues",):
                    on_problem(line)
            problems = follower.problems


def _rows(records: RawRecords) -> Iterator[Row]:
    rows = zip(records.offsets.tolist(), records.timestamps.tolist(), records.keys, records.values, strict=True)
    for number, (offset, timestamp_ms, key, value) in enumerate(rows):
        yield Row(offset, timestamp_ms, key, value, records.headers.get(number, ()))


# Documents ------------------------------------------------------------------------------------------------------------


def document(found: Found, wire_format: WireFormat | None = None) -> dict[str, Any]:
    """Return a record as a document: where it is, its key, and its content or its bytes."""
    (topic, partition), row = found
    plain: dict[str, Any] = {"topic": topic, "partition": partition, "offset": row.offset}
    plain["timestamp_ms"] = None if row.log_time_ms < 0 else row.log_time_ms
    letter = DeadLetterRecord.read(row.key, row.value, row.headers)
    if letter is not None:
        plain["reason"], plain["message"], plain["event_time_ms"] = letter.reason, letter.message, letter.event_time_ms
        plain["origin"] = {"topic": letter.topic, "partition": letter.partition, "offset": letter.input_offset}
    headers = row.headers if letter is None else letter.original.headers
    if headers:
        plain["headers"] = {name: _text(value) for name, value in headers}
    plain["key"] = _text(row.key)
    return plain | _content(row.value, wire_format)


_SINGLES = ("score", "probability", "threshold")
"""Fields of predictions and outcomes that are float32."""


def _content(value: bytes | None, wire_format: WireFormat | None) -> dict[str, Any]:
    """Return the type and the fields of a value, or its bytes in base64 and why they cannot be decoded."""
    if value is None:
        return {"type": None, "value": None}
    try:
        record = decode_one(value, wire_format)
    except (UndecodableError, WrongSchemaError) as error:
        return {"type": None, "problem": str(error), "base64": b64encode(value).decode()}
    fields = {name: _plain(field) for name, field in asdict(record).items()}
    if isinstance(record, Mark):
        fields["kind"] = record.kind.name.lower()
    for name in _SINGLES:
        number = getattr(record, name, None)
        if number is not None:
            fields[name] = _single(number)
    if isinstance(record, Example):
        fields["features"] = [_single(feature) for feature in record.features]
        if record.values is None:
            del fields["values"]
    return {"type": type(record).__name__, "value": fields}


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _single(number: float) -> float | str:
    """Return the shortest decimal number of a float32; JSON has no NaN and no infinity, which become text."""
    return float(str(np.float32(number))) if math.isfinite(number) else str(number)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
