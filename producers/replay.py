"""Replay data sets onto `examples` and, late, onto `labels`: one clock for all streams, events in its order.

    plan -> schedule (when is what sent: columns, no bytes) -> events (encoded, piece by piece) -> sender -> manifest

The schedule and the events are pure: equal plans give equal bytes. A plan without `start_ms` gets one when it is
replayed, so that its last event time is now: Kafka deletes records that are older than the retention time at once.

All streams begin at the same event time. Each ends with a pair of `advance` marks, one on either topic, behind all its
records; their `time_ms` and timestamp are the stream's last event time.
"""

import hashlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.base import DataSet
from producers.draws import Draws
from producers.faults import FURTHEST_EVENTS, GARBAGE_MAX_BYTES, LATEST_EVENTS, NO_FAULTS, Faults
from producers.label_delay import NO_DELAY, LabelDelay
from producers.manifest import (
    FORMAT,
    Counts,
    DriftPoint,
    FaultCounts,
    FaultNumbers,
    Manifest,
    Range,
    StreamManifest,
)
from stream_app.backends.base import Clock, Sender, TopicPartition, Watermarks
from stream_app.errors import ConfigurationError
from stream_app.records import MAX_STREAM_BYTES, Mark, MarkKind, Side
from stream_app.serialization.avro import encode
from stream_app.serialization.codec import encode_examples, encode_labels

MAX_STREAMS = 1_000
"""Of one replay; a task serves 100 by default."""

MAX_EVENTS = 20_000_000
"""Examples of one replay, loops included: their schedule takes about 2 GB."""

CHUNK_RECORDS = 4_096
"""Encoded at a time: 13 MB of MNIST images; the progress bar moves ten times a second."""

FLUSH_TIMEOUT_S = 120.0
"""A broker that is gone for a minute is waited for."""

LONGEST_SLEEP_S = 0.1
"""While keeping a pace, so that the progress bar moves and Ctrl-C is heard."""

RETENTION_SHARE = 0.9
"""Of the topics' retention.ms that a replay may span; the rest is left to read it in."""

ID_HASH_CHARACTERS = 10
"""Of a run's hash in its ids: 40 bits, so that two runs onto one topic do not share ids."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream to send.

    Attributes:
        stream: Its name, the key of its records.
        data: What is sent.
        delay: From each example to its label.
        unlabelled_share: Share of labels that never come, from 0 to 1.
        faults: Made on purpose.
        loops: How often the data is sent, end to end.
        interval_ms: Event time from one example to the next; None: the data's own.
    """

    stream: str
    data: DataSet
    delay: LabelDelay = NO_DELAY
    unlabelled_share: float = 0.0
    faults: Faults = NO_FAULTS
    loops: int = 1
    interval_ms: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.stream.encode()) <= MAX_STREAM_BYTES:
            raise ConfigurationError(f"stream {self.stream!r}: a name has 1 to {MAX_STREAM_BYTES} bytes")
        if not len(self.data):
            raise ConfigurationError(f"{self.stream}: there is no example in it")
        if not 0.0 <= self.unlabelled_share <= 1.0:
            raise ConfigurationError(
                f"{self.stream}: unlabelled-share: {self.unlabelled_share:g} is no share from 0 to 1"
            )
        if self.loops < 1:
            raise ConfigurationError(f"{self.stream}: loops: {self.loops} is less than 1")
        if self.interval < 1:
            raise ConfigurationError(f"{self.stream}: interval-ms: timestamps of one stream differ by at least 1 ms")

    @property
    def interval(self) -> int:
        """Milliseconds of event time from one example to the next."""
        return self.data.interval_ms if self.interval_ms is None else self.interval_ms

    @property
    def events(self) -> int:
        """Examples, loops included, before any is dropped."""
        return len(self.data) * self.loops


@dataclass(frozen=True, slots=True)
class Plan:
    """All streams of one replay.

    Attributes:
        streams: Their names differ.
        seed: Of everything random.
        start_ms: Event time of the first examples; None: so that the last event time is now.
        topic_prefix: Before `examples` and `labels`.
        rate: Examples a second, of all streams together; None: no pace.
        speed: Event time goes by so many times faster than the clock; None: no pace.
        options: As given, in words, for the manifest.
    """

    streams: tuple[StreamPlan, ...]
    seed: int = 0
    start_ms: int | None = None
    topic_prefix: str = ""
    rate: float | None = None
    speed: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [stream.stream for stream in self.streams]
        if not 1 <= len(names) <= MAX_STREAMS:
            raise ConfigurationError(f"a replay has 1 to {MAX_STREAMS} streams, not {len(names)}")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"{twice[0]}: two streams of this name; give one another name with stream=NAME")
        if sum(stream.events for stream in self.streams) > MAX_EVENTS:
            raise ConfigurationError(f"a replay has at most {MAX_EVENTS} examples; lower --limit or --loops")
        if self.rate is not None and self.speed is not None:
            raise ConfigurationError("rate and speed: one of them sets the pace, not both")
        for name, value in (("rate", self.rate), ("speed", self.speed)):
            if value is not None and not 0.0 < value < float("inf"):
                raise ConfigurationError(f"{name}: {value:g} is not above 0")

    @property
    def examples_topic(self) -> str:
        """Name of the topic of examples."""
        return f"{self.topic_prefix}examples"

    @property
    def labels_topic(self) -> str:
        """Name of the topic of labels."""
        return f"{self.topic_prefix}labels"


class Sent(NamedTuple):
    """One record as it is handed to the sender."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


DATA, GARBAGE, MARK = range(3)
"""What a row of a schedule holds."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every record of a replay in the order of sending, in columns `[n]`; times count from the start.

    Attributes:
        times: int64, event time in milliseconds.
        dues: int64, when it is sent, in milliseconds.
        streams: int16, index into the plan's streams.
        sides: int8, `Side`.
        contents: int8: `DATA`, `GARBAGE`, `MARK`.
        numbers: int64, which example of its stream; -1 for a mark.
        labels: int8, the class of a label; -1 elsewhere.
        seconds: bool, a record that repeats or contradicts another one.
        span_ms: The last event time.
        ends_ms: The last event time of each stream.
        dropped: The dropped examples of each stream, ascending.
    """

    times: NDArray[np.int64]
    dues: NDArray[np.int64]
    streams: NDArray[np.int16]
    sides: NDArray[np.int8]
    contents: NDArray[np.int8]
    numbers: NDArray[np.int64]
    labels: NDArray[np.int8]
    seconds: NDArray[np.bool_]
    span_ms: int
    ends_ms: tuple[int, ...]
    dropped: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.times)


class _Rows(NamedTuple):
    """Rows of one stream, as in `Schedule`; `dues` are twice the milliseconds, plus 1 for what was moved."""

    times: NDArray[np.int64]
    dues: NDArray[np.int64]
    sides: NDArray[np.int8]
    contents: NDArray[np.int8]
    numbers: NDArray[np.int64]
    labels: NDArray[np.int8]
    seconds: NDArray[np.bool_]


def _rows(
    times: NDArray[np.int64],
    side: Side,
    numbers: NDArray[np.int64],
    labels: NDArray[np.int8] | None = None,
    *,
    content: int = DATA,
    seconds: bool = False,
) -> _Rows:
    n = len(times)
    return _Rows(
        times=times,
        dues=2 * times,
        sides=np.full(n, side, np.int8),
        contents=np.full(n, content, np.int8),
        numbers=numbers,
        labels=np.full(n, -1, np.int8) if labels is None else labels,
        seconds=np.full(n, seconds),
    )


def _joined(parts: Sequence[_Rows]) -> _Rows:
    return _Rows._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class _StreamScheduler:
    """Makes the rows of one stream; each purpose has random numbers of its own, by the number of the example."""

    def __init__(self, plan: StreamPlan, seed: int) -> None:
        self._plan = plan
        self._seed = seed

    def _draws(self, purpose: str) -> Draws:
        return Draws("replay", self._seed, self._plan.stream, purpose)

    def _hit(self, purpose: str, share: float) -> NDArray[np.bool_]:
        if not share:
            return np.zeros(self._plan.events, np.bool_)
        return self._draws(purpose).uniforms(0, self._plan.events) < share

    def _later(self, purpose: str, numbers: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """1 to `most` events, in milliseconds, for each of these examples."""
        events = 1 + np.floor(self._draws(purpose).uniforms(0, self._plan.events) * most).astype(np.int64)
        return events[numbers] * self._plan.interval

    def rows(self) -> tuple[_Rows, NDArray[np.int64]]:
        """Rows of the stream in no order, and the examples that were dropped."""
        plan, faults = self._plan, self._plan.faults
        every = np.arange(plan.events)
        times = every * plan.interval
        classes = np.tile(plan.data.labels, plan.loops)
        label_times = times + plan.delay.milliseconds(self._draws("delay"), classes, plan.interval)
        dropped = self._hit("dropped", faults.dropped)
        comes = ~self._hit("unlabelled", plan.unlabelled_share)

        sent, labelled = every[~dropped], every[comes]
        examples = self._moved(_rows(times[sent], Side.EXAMPLES, sent), "example")
        labels = self._moved(_rows(label_times[labelled], Side.LABELS, labelled, classes[labelled]), "label")
        parts = [
            examples,
            labels,
            self._seconds(examples, "example again", faults.duplicates),
            self._seconds(labels, "label again", faults.duplicates),
            self._contradicted(self._seconds(labels, "contradiction", faults.conflicting_labels)),
            self._garbage(times, every),
        ]
        rows = _joined(parts)
        return _joined([rows, self._marks(rows, last_ms=int(times[-1]))]), every[dropped]

    def _moved(self, rows: _Rows, what: str) -> _Rows:
        """Some are sent late; their event time stays."""
        if not self._plan.faults.out_of_order:
            return rows
        hit = self._hit(f"{what} moved", self._plan.faults.out_of_order)[rows.numbers]
        late = 2 * self._later(f"{what} moved by", rows.numbers, FURTHEST_EVENTS) + 1
        return rows._replace(dues=np.where(hit, rows.dues + late, rows.dues))

    def _seconds(self, rows: _Rows, purpose: str, share: float) -> _Rows:
        """Some come once more, later, and in any case behind the first one."""
        picked = np.flatnonzero(self._hit(purpose, share)[rows.numbers])
        chosen = _Rows._make(column[picked] for column in rows)
        if not len(picked):
            return chosen
        times = chosen.times + self._later(f"{purpose}, later by", chosen.numbers, LATEST_EVENTS)
        return chosen._replace(
            times=times, dues=np.maximum(2 * times, chosen.dues + 1), seconds=np.ones(len(picked), np.bool_)
        )

    @staticmethod
    def _contradicted(rows: _Rows) -> _Rows:
        return rows._replace(labels=(1 - rows.labels).astype(np.int8))

    def _garbage(self, times: NDArray[np.int64], every: NDArray[np.int64]) -> _Rows:
        hit = every[self._hit("garbage", self._plan.faults.garbage)]
        on_labels = self._draws("garbage side").uniforms(0, len(every))[hit] < 0.5
        sides = ((Side.EXAMPLES, hit[~on_labels]), (Side.LABELS, hit[on_labels]))
        return _joined([_rows(times[numbers], side, numbers, content=GARBAGE) for side, numbers in sides])

    @staticmethod
    def _marks(rows: _Rows, last_ms: int) -> _Rows:
        """The closing pair, behind everything: at the last event time, that of a dropped last example included."""
        end, due = rows.times.max(initial=last_ms), rows.dues.max(initial=2 * last_ms)
        return _joined(
            [
                _rows(np.array([end]), side, np.array([-1]), content=MARK)._replace(dues=np.array([due + 1]))
                for side in Side
            ]
        )


def schedule(plan: Plan) -> Schedule:
    """When is what sent. On equal times examples come first, then streams in the plan's order."""
    made = [_StreamScheduler(stream, plan.seed).rows() for stream in plan.streams]
    rows = _joined([part for part, _ in made])
    streams = np.repeat(np.arange(len(made), dtype=np.int16), [len(part.times) for part, _ in made])
    order = np.lexsort((streams, rows.sides, rows.dues))
    return Schedule(
        times=rows.times[order],
        dues=rows.dues[order] // 2,
        streams=streams[order],
        sides=rows.sides[order],
        contents=rows.contents[order],
        numbers=rows.numbers[order],
        labels=rows.labels[order],
        seconds=rows.seconds[order],
        span_ms=int(rows.times.max()),
        ends_ms=tuple(int(part.times.max()) for part, _ in made),
        dropped=tuple(dropped for _, dropped in made),
    )


def span_ms(plan: Plan) -> int:
    """Event time from the first record to the last."""
    return schedule(plan).span_ms


def fitted(plan: Plan, retention_ms: int) -> Plan:
    """The plan with a span that the topics keep: where no interval was asked for, all are halved until it fits.

    Args:
        plan: What is to be sent.
        retention_ms: The smaller `retention.ms` of both topics; negative: for ever.

    Raises:
        ConfigurationError: It cannot fit.
    """
    longest = int(retention_ms * RETENTION_SHARE)
    span = span_ms(plan)
    while retention_ms >= 0 and span > longest:
        free = [stream.interval_ms is None and stream.interval > 1 for stream in plan.streams]
        if not any(free):
            raise ConfigurationError(
                f"the streams span {_duration(span)} of event time; the topics keep {_duration(retention_ms)}"
                f" (retention.ms), of which a replay may take {RETENTION_SHARE:.0%}:"
                " lower --interval-ms, --label-delay, --limit or --loops"
            )
        streams = (
            replace(stream, data=replace(stream.data, interval_ms=stream.interval // 2)) if halve else stream
            for stream, halve in zip(plan.streams, free, strict=True)
        )
        plan = replace(plan, streams=tuple(streams))
        span = span_ms(plan)
    return plan


def _duration(milliseconds: int) -> str:
    for unit, length in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:.1f} {unit}"
    return f"{milliseconds / 1000:.1f} seconds"


def id_prefix(plan: Plan, stream: StreamPlan) -> str:
    """What the ids of a stream begin with: the same only for the same seed, start and name."""
    digest = hashlib.sha256(f"{plan.seed}/{_start(plan)}/{stream.stream}".encode()).hexdigest()
    return f"{digest[:ID_HASH_CHARACTERS]}-"


def _start(plan: Plan) -> int:
    if plan.start_ms is None:
        raise ValueError("the plan has no start_ms")
    return plan.start_ms


def events(plan: Plan) -> Iterator[Sent]:
    """Every record of a plan that has a `start_ms`, in the order of sending."""
    planned = schedule(plan)
    for first in range(0, len(planned), CHUNK_RECORDS):
        yield from _encoded(plan, planned, first, min(first + CHUNK_RECORDS, len(planned)))


def _encoded(plan: Plan, planned: Schedule, first: int, last: int) -> list[Sent]:
    """The rows first .. last - 1 as records."""
    values: list[bytes] = [b""] * (last - first)
    kinds = planned.contents[first:last] * len(Side) + planned.sides[first:last]
    groups = planned.streams[first:last].astype(np.int64) * 3 * len(Side) + kinds
    for group in np.unique(groups):
        stream_index, kind = divmod(int(group), 3 * len(Side))
        rows = np.flatnonzero(groups == group)
        stream = plan.streams[stream_index]
        end_ms = _start(plan) + planned.ends_ms[stream_index]
        made = _values(plan, stream, planned, first + rows, *divmod(kind, len(Side)), end_ms)
        for row, value in zip(rows.tolist(), made, strict=True):
            values[row] = value
    topics = (plan.examples_topic, plan.labels_topic)
    keys = [stream.stream.encode() for stream in plan.streams]
    times = (planned.times[first:last] + _start(plan)).tolist()
    columns = (planned.sides[first:last].tolist(), planned.streams[first:last].tolist(), values, times)
    return [Sent(topics[side], keys[stream], value, time) for side, stream, value, time in zip(*columns, strict=True)]


def _values(
    plan: Plan, stream: StreamPlan, planned: Schedule, rows: NDArray[np.int64], content: int, side: int, end_ms: int
) -> list[bytes]:
    """The values of rows of one stream, content and side."""
    if content == MARK:
        return [encode(Mark(stream.stream, MarkKind.ADVANCE, time_ms=end_ms))] * len(rows)
    numbers = planned.numbers[rows]
    if content == GARBAGE:
        return _garbage(Draws("replay", plan.seed, stream.stream, "garbage bytes"), numbers.tolist())
    prefix = id_prefix(plan, stream)
    ids = [f"{prefix}{number}" for number in numbers.tolist()]
    if side == Side.EXAMPLES:
        return encode_examples(stream.stream, ids, stream.data.features[numbers % len(stream.data)])
    return encode_labels(stream.stream, ids, planned.labels[rows])


def _garbage(draws: Draws, numbers: Sequence[int]) -> list[bytes]:
    """For each number 1 to `GARBAGE_MAX_BYTES` random bytes."""
    words = 1 + GARBAGE_MAX_BYTES // 8
    blocks = (draws.words(number * words, words) for number in numbers)
    return [block[1:].astype("<u8").tobytes()[: 1 + int(block[0]) % GARBAGE_MAX_BYTES] for block in blocks]


class Digest:
    """SHA-256 over records in order, as the manifest's module describes it."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, records: Sequence[Sent]) -> None:
        """Take more records."""
        parts: list[bytes] = []
        for topic, key, value, timestamp_ms in records:
            parts += (
                topic.encode(),
                struct.pack("<xqI", timestamp_ms, len(key)),
                key,
                struct.pack("<I", len(value)),
                value,
            )
        self._hash.update(b"".join(parts))

    def hexdigest(self) -> str:
        """So far."""
        return self._hash.hexdigest()


class _Pace:
    """How many records may have been sent by now."""

    def __init__(self, plan: Plan, planned: Schedule, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._dues_s: NDArray[np.float64] | None = None
        if plan.rate is not None:
            is_example = (planned.contents == DATA) & (planned.sides == Side.EXAMPLES)
            self._dues_s = (np.cumsum(is_example) - is_example) / plan.rate
        elif plan.speed is not None:
            self._dues_s = planned.dues / 1000.0 / plan.speed

    def allowed(self, sent: int, total: int) -> int:
        """Records that are due, at least `sent`."""
        if self._dues_s is None:
            return total
        now_s = self._clock.monotonic_s() - self._started_s
        return max(sent, int(np.searchsorted(self._dues_s, now_s, side="right")))

    def until_next_s(self, sent: int) -> float:
        """Seconds until the next record is due, at most `LONGEST_SLEEP_S`."""
        if self._dues_s is None:
            return 0.0
        now_s = self._clock.monotonic_s() - self._started_s
        return min(max(float(self._dues_s[sent]) - now_s, 0.0), LONGEST_SLEEP_S)


def replay(
    plan: Plan,
    sender: Sender,
    clock: Clock,
    on_progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Manifest:
    """Send a plan and say what was sent.

    Args:
        plan: What to send.
        sender: Where to. It is flushed, not closed.
        clock: Says what "now" is, and keeps the pace.
        on_progress: Told, now and then, how many records were handed over, of how many.
        sleep: Waits so many seconds.

    Raises:
        DeliveryError: The broker did not take a record.
    """
    planned = schedule(plan)
    if plan.start_ms is None:
        plan = replace(plan, start_ms=clock.now_ms() - planned.span_ms)
    digest = Digest()
    pace = _Pace(plan, planned, clock)
    total = len(planned)
    for first in range(0, total, CHUNK_RECORDS):
        last = min(first + CHUNK_RECORDS, total)
        chunk = _encoded(plan, planned, first, last)
        digest.update(chunk)
        sent = first
        while sent < last:
            due = min(pace.allowed(sent, total), last)
            for topic, key, value, timestamp_ms in chunk[sent - first : due - first]:
                sender.send(topic, key, value, timestamp_ms)
            if due > sent and on_progress is not None:
                on_progress(due, total)
            sent = due
            if sent < last:
                sleep(pace.until_next_s(sent))
    return _manifest(plan, planned, digest, sender.flush(FLUSH_TIMEOUT_S))


def _manifest(plan: Plan, planned: Schedule, digest: Digest, written: Mapping[TopicPartition, Watermarks]) -> Manifest:
    return Manifest(
        format=FORMAT,
        seed=plan.seed,
        start_ms=_start(plan),
        end_ms=_start(plan) + planned.span_ms,
        examples_topic=plan.examples_topic,
        labels_topic=plan.labels_topic,
        records=len(planned),
        digest=digest.hexdigest(),
        options=plan.options,
        ranges=tuple(Range(*place, *span) for place, span in sorted(written.items())),
        streams=tuple(_stream_manifest(plan, planned, index) for index in range(len(plan.streams))),
    )


def _stream_manifest(plan: Plan, planned: Schedule, index: int) -> StreamManifest:
    stream, start = plan.streams[index], _start(plan)
    mine = planned.streams == index
    sides, contents, seconds = planned.sides[mine], planned.contents[mine], planned.seconds[mine]
    numbers, labels, times = planned.numbers[mine], planned.labels[mine], planned.times[mine]
    classes = np.tile(stream.data.labels, stream.loops)

    data = contents == DATA
    examples, label_rows = data & (sides == Side.EXAMPLES), data & (sides == Side.LABELS)
    again = label_rows & seconds & (labels == classes[numbers])
    sent, labelled = numbers[examples & ~seconds], numbers[label_rows & ~seconds]
    touched = FaultNumbers(
        duplicate_examples=_ascending(numbers[examples & seconds]),
        duplicate_labels=_ascending(numbers[again]),
        dropped_examples=_ascending(planned.dropped[index]),
        conflicting_labels=_ascending(numbers[label_rows & seconds & ~again]),
    )
    return StreamManifest(
        stream=stream.stream,
        data=stream.data.name,
        source=stream.data.source,
        features=stream.data.dimension,
        loops=stream.loops,
        id_prefix=id_prefix(plan, stream),
        start_ms=start,
        interval_ms=stream.interval,
        end_ms=start + planned.ends_ms[index],
        label_delay=str(stream.delay),
        unlabelled_share=stream.unlabelled_share,
        examples=_counts(classes[sent]),
        labels=_counts(classes[labelled]),
        never_labelled=len(np.setdiff1d(sent, labelled, assume_unique=True)),
        marks_per_topic=int((contents == MARK).sum()) // len(Side),
        faults=FaultCounts(
            duplicate_examples=len(touched.duplicate_examples),
            duplicate_labels=len(touched.duplicate_labels),
            dropped_examples=len(touched.dropped_examples),
            conflicting_labels=len(touched.conflicting_labels),
            garbage_examples=int(((contents == GARBAGE) & (sides == Side.EXAMPLES)).sum()),
            garbage_labels=int(((contents == GARBAGE) & (sides == Side.LABELS)).sum()),
            out_of_order=sum(_behind_later(times[sides == side]) for side in Side),
        ),
        fault_numbers=touched,
        drifts=_drifts(stream, start),
    )


def _ascending(numbers: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(sorted(numbers.tolist()))


def _counts(classes: NDArray[np.int8]) -> Counts:
    positive = int((classes == 1).sum())
    return Counts(sent=len(classes), positive=positive, negative=len(classes) - positive)


def _behind_later(times: NDArray[np.int64]) -> int:
    """How many of them come behind one with a larger time."""
    return int((times < np.maximum.accumulate(times)).sum())


def _drifts(stream: StreamPlan, start_ms: int) -> tuple[DriftPoint, ...]:
    kind, step = stream.data.drift_kind, stream.data.drift_step
    if kind is None or step is None:
        return ()
    steps = (step + loop * len(stream.data) for loop in range(stream.loops))
    return tuple(DriftPoint(kind, at, start_ms + at * stream.interval) for at in steps)
