"""What one task must do with its inputs, in plain Python: lists, dicts, one record after the other.

Written from the rules of order and join, not from stream_app: it shares only the records and the settings with it. It
is slow, has no batches and no scores; the property tests and the simulation compare the real task with it, event by
event (`tests.oracle_checks`). `tests.learner_oracle` has the learners.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from stream_app.config import LearnerSettings, StreamSettings, TaskSettings
from stream_app.records import Example, Header, Label, Mark, MarkKind, Reason, Side

Meaning: TypeAlias = Example | Label | Mark | Reason
"""What a value says; a `Reason` where the decoder must refuse it."""


class Record(NamedTuple):
    """One input record."""

    side: Side
    offset: int
    time_ms: int
    meaning: Meaning
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


class Predicted(NamedTuple):
    """A prediction; `updates` is how many labels the learner had seen, `offset` that of the example."""

    position: int
    stream: str
    id: str
    learner: str
    champion: bool
    updates: int
    offset: int


class Settled(NamedTuple):
    """An outcome; `corrects` is the offset of the joined example that has another class from then on."""

    position: int
    stream: str
    id: str
    outcome: str
    label: int | None = None
    learner: str | None = None
    delay_ms: int | None = None
    example_offset: int | None = None
    label_offset: int | None = None
    corrects: int | None = None


class Dead(NamedTuple):
    """A dead letter: this record, for this reason."""

    position: int
    reason: Reason
    record: Record


class Reported(NamedTuple):
    """The metrics of one learner; `updates` is how many of the stream's labels it has seen."""

    position: int
    stream: str
    learner: str
    champion: bool
    updates: int
    labelled: int
    examples: int
    unlabelled: int
    evicted: int
    duplicates: int
    pending: int
    waiting: int


Event: TypeAlias = Predicted | Settled | Dead | Reported


class Pending(NamedTuple):
    """An example that was predicted and has no label yet."""

    time_ms: int
    arrival: int
    features: bytes
    offset: int
    champion: str


class Waiting(NamedTuple):
    """A label whose example has not come; class and revision may have been corrected."""

    time_ms: int
    arrival: int
    label: int
    revision: int
    record: Record


def size_of(record: Record) -> int:
    """Bytes of a record as a dead letter: key, value, headers, and 256 for ours."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 256


class Closed(NamedTuple):
    """What is remembered of an example; `stream_time_ms` is that of its closing."""

    offset: int
    features: bytes
    label: int | None
    revision: int
    outcome: str
    stream_time_ms: int


Known = TypeVar("Known", Waiting, Closed)


@dataclass
class Stream:
    """All that is known of one stream; `begun` is how many labels there had been before each learner began."""

    name: str
    features: int | None
    learners: dict[str, LearnerSettings]
    champion: str
    begun: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    time_ms: int = -1
    arrivals: int = 0
    pending: dict[str, Pending] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    closed: dict[str, Closed] = field(default_factory=dict)  # in order of closing
    open_marks: list[tuple[Side, int]] = field(default_factory=list)
    labelled: int = 0
    examples: int = 0
    unlabelled: int = 0
    evicted: int = 0
    duplicates: int = 0


def merge(examples: Sequence[Record], labels: Sequence[Record]) -> Iterator[Record]:
    """The head with the smaller timestamp goes first, examples first on a tie; then the next head."""
    example, label = 0, 0
    while example < len(examples) or label < len(labels):
        if label == len(labels):
            take_example = True
        elif example == len(examples):
            take_example = False
        else:
            take_example = examples[example].time_ms <= labels[label].time_ms
        if take_example:
            yield examples[example]
            example += 1
        else:
            yield labels[label]
            label += 1


class Oracle:
    """A task's state; `run` takes all records, `apply` one of them in merge order."""

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings
        self.streams: dict[str, Stream] = {}
        self.events: list[Event] = []
        self.position = -1
        self.leftovers: list[Stream] = []

    def run(self, examples: Sequence[Record], labels: Sequence[Record]) -> list[Event]:
        """All events, in order."""
        for record in merge(examples, labels):
            self.apply(record)
        return self.events

    def apply(self, record: Record) -> None:
        """One record: checks that need no state, then its stream, then what it is."""
        self.position += 1
        self.close_leftovers()
        meaning = record.meaning
        if isinstance(meaning, Reason):
            self.bury(record, meaning)
            return
        if record.key != meaning.stream.encode():
            self.bury(record, Reason.WRONG_KEY)
            return
        if record.time_ms <= 0:
            self.bury(record, Reason.BAD_TIME)
            return
        stream = self.stream(meaning)
        if stream is None:
            self.bury(record, Reason.UNKNOWN_STREAM)
            return
        if isinstance(meaning, Mark):
            self.mark(stream, record, meaning)
            return
        if isinstance(meaning, Example):
            if stream.features is None:
                stream.features = len(meaning.features)
            if stream.features != len(meaning.features):
                self.bury(record, Reason.WRONG_DIMENSION)
                return
        stream.time_ms = max(stream.time_ms, record.time_ms)
        stream.arrivals += 1
        self.expire(stream)
        if isinstance(meaning, Example):
            self.example(stream, record, meaning)
        else:
            self.label(stream, record, meaning)

    def stream(self, meaning: Example | Label | Mark) -> Stream | None:
        """The stream, opened by the first well-formed record that names it; None where it may not be.

        One that is not configured is opened by an example only.
        """
        name = meaning.stream
        if name not in self.streams:
            settings: StreamSettings | None = self.settings.streams.get(name)
            if settings is None and self.settings.unknown_streams == "model" and isinstance(meaning, Example):
                settings = self.settings.default_stream
            if settings is None or len(self.streams) >= self.settings.limits.max_streams_per_task:
                return None
            self.open(name, settings)
        return self.streams[name]

    def open(self, name: str, settings: StreamSettings) -> None:
        """Nothing is known of it."""
        stream = Stream(name, settings.features, dict(settings.learners), settings.champion)
        self.streams[name] = stream
        for learner in stream.learners:
            self.begin(stream, learner)

    def reset(self, name: str) -> None:
        """A stream begins anew; what it held is closed by the next record, whatever that is."""
        self.leftovers.append(self.streams[name])
        self.open(name, self.settings.streams.get(name) or self.settings.default_stream)

    def close_leftovers(self) -> None:
        """Pending examples are evicted, waiting labels become orphans, by (timestamp, arrival)."""
        for stream in self.leftovers:
            for id_, example in sorted(stream.pending.items(), key=lambda held: held[1][:2]):
                self.close(stream, id_, example, "evicted")
            for waiting in sorted(stream.waiting.values(), key=lambda held: held[:2]):
                self.bury(waiting.record, Reason.ORPHAN_LABEL)
        self.leftovers.clear()

    def reconfigure(self, settings: TaskSettings) -> None:
        """Go on under other settings; learners that are new, or are others under their names, begin here."""
        self.settings = settings
        for stream in self.streams.values():
            before = stream.learners
            stream.learners = dict((settings.streams.get(stream.name) or settings.default_stream).learners)
            for name, learner in stream.learners.items():
                if name not in before or _shape(before[name]) != _shape(learner):
                    stream.begun[name] = stream.labelled
                    self.begin(stream, name)

    # Examples -----------------------------------------------------------------------------------------------------

    def example(self, stream: Stream, record: Record, example: Example) -> None:
        """Repeat, or predict and then: too old, meets its label, or waits for it."""
        features = struct.pack(f"<{len(example.features)}f", *example.features)
        known = stream.pending.get(example.id) or stream.closed.get(example.id)
        if known is not None:
            if known.features == features:
                stream.duplicates += 1
                self.settle(stream, example.id, "duplicate", example_offset=record.offset)
            else:
                self.bury(record, Reason.CONFLICTING_EXAMPLE)
            return
        self.predict(stream, example, record.offset)
        pending = Pending(record.time_ms, stream.arrivals, features, record.offset, stream.champion)
        if self.expired(stream, record.time_ms):
            self.close(stream, example.id, pending, "unlabelled")
            late = stream.waiting.pop(example.id, None)
            if late is not None:
                self.bury(late.record, Reason.LATE_LABEL)
        elif example.id in stream.waiting:
            waiting = stream.waiting.pop(example.id)
            self.join(stream, example.id, pending, waiting.label, waiting.revision, waiting.record)
        else:
            stream.pending[example.id] = pending
            if len(stream.pending) > self.settings.join.max_pending_per_stream:
                oldest = min(stream.pending, key=lambda id_: stream.pending[id_][:2])
                self.close(stream, oldest, stream.pending.pop(oldest), "evicted")

    def predict(self, stream: Stream, example: Example, offset: int) -> None:
        """Every learner answers; which answers are published is a setting."""
        stream.examples += 1
        for learner in stream.learners:
            champion = learner == stream.champion
            if champion or self.settings.predictions == "all":
                updates = stream.labelled - stream.begun[learner]
                self.events.append(
                    Predicted(self.position, stream.name, example.id, learner, champion, updates, offset)
                )

    # Labels -------------------------------------------------------------------------------------------------------

    def label(self, stream: Stream, record: Record, label: Label) -> None:
        """Meets its example, repeats or corrects another label, comes too late, or waits."""
        if label.id in stream.pending:
            self.join(stream, label.id, stream.pending.pop(label.id), label.label, label.revision, record)
        elif label.id in stream.waiting:
            stream.waiting[label.id] = self.again(stream, record, label, stream.waiting[label.id])
        elif label.id in stream.closed:
            closed = stream.closed[label.id]
            if closed.outcome == "joined":
                stream.closed[label.id] = self.again(stream, record, label, closed)
            else:
                self.bury(record, Reason.LATE_LABEL)
        elif self.expired(stream, record.time_ms) or size_of(record) > self.settings.join.max_waiting_bytes_per_stream:
            self.bury(record, Reason.ORPHAN_LABEL)
        else:
            stream.waiting[label.id] = Waiting(record.time_ms, stream.arrivals, label.label, label.revision, record)
            while self.is_crowded(list(stream.waiting.values())):
                oldest = min(stream.waiting, key=lambda id_: stream.waiting[id_][:2])
                self.bury(stream.waiting.pop(oldest).record, Reason.ORPHAN_LABEL)

    def is_crowded(self, waiting: Sequence[Waiting]) -> bool:
        """Whether more labels of a stream wait than may, in records or in bytes."""
        join = self.settings.join
        size = sum(size_of(label.record) for label in waiting)
        return len(waiting) > join.max_waiting_per_stream or size > join.max_waiting_bytes_per_stream

    def again(self, stream: Stream, record: Record, label: Label, before: Known) -> Known:
        """A second label for an id; what is held from then on."""
        newer = self.settings.join.corrections == "correct" and label.revision > before.revision
        if label.label == before.label:
            stream.duplicates += 1
            self.settle(stream, label.id, "duplicate", label=label.label, label_offset=record.offset)
        elif newer:
            corrects = None
            if isinstance(before, Closed):
                corrects = before.offset
                for learner in stream.learners:
                    self.correct(stream, learner, label.id, label.label)
            self.settle(stream, label.id, "correction", label.label, label_offset=record.offset, corrects=corrects)
        else:
            self.bury(record, Reason.CONFLICTING_LABEL)
        return before._replace(label=label.label, revision=label.revision) if newer else before

    def join(self, stream: Stream, id_: str, example: Pending, label: int, revision: int, record: Record) -> None:
        """The learners learn, in this order; metrics follow every so many labels."""
        stream.labelled += 1
        for learner in stream.learners:
            self.learn(stream, learner, id_, label)
        self.settle(
            stream,
            id_,
            "joined",
            label=label,
            learner=example.champion,
            delay_ms=record.time_ms - example.time_ms,
            example_offset=example.offset,
            label_offset=record.offset,
        )
        self.remember(stream, id_, Closed(example.offset, example.features, label, revision, "joined", stream.time_ms))
        if stream.labelled % self.settings.metrics.every_labels == 0:
            self.report(stream)

    # Learners: their turns; what they do in them is for those who have any ------------------------------------------

    def begin(self, stream: Stream, learner: str) -> None:
        """A learner knows nothing from here on."""

    def learn(self, stream: Stream, learner: str, id_: str, label: int) -> None:
        """The label of an example that was predicted."""

    def correct(self, stream: Stream, learner: str, id_: str, label: int) -> None:
        """Another class for an example that was learned."""

    # Closing ------------------------------------------------------------------------------------------------------

    def expired(self, stream: Stream, time_ms: int) -> bool:
        """A clock that runs ahead within its bound cannot expire what is on time."""
        return stream.time_ms > time_ms + self.settings.join.ttl_ms + self.settings.join.max_clock_lead_ms

    def expire(self, stream: Stream) -> None:
        """Close what stream time has left behind, and forget what was closed long ago."""
        expired = [held.time_ms for held in self.held(stream) if self.expired(stream, held.time_ms)]
        if expired:
            self.close_until(stream, max(expired))
        for id_, closed in list(stream.closed.items()):
            if closed.stream_time_ms + self.settings.join.closed_ttl_ms < stream.time_ms:
                del stream.closed[id_]

    def held(self, stream: Stream) -> list[Pending | Waiting]:
        """Everything that waits for its other half."""
        return [*stream.pending.values(), *stream.waiting.values()]

    def close_until(self, stream: Stream, time_ms: int) -> None:
        """Close all with timestamps up to this one, by (timestamp, arrival)."""
        ids = {(held.time_ms, held.arrival): id_ for id_, held in stream.pending.items()}
        ids |= {(held.time_ms, held.arrival): id_ for id_, held in stream.waiting.items()}
        for key in sorted(ids):
            if key[0] > time_ms:
                break
            id_ = ids[key]
            if id_ in stream.pending:
                self.close(stream, id_, stream.pending.pop(id_), "unlabelled")
            else:
                self.bury(stream.waiting.pop(id_).record, Reason.ORPHAN_LABEL)

    def close(self, stream: Stream, id_: str, example: Pending, outcome: str) -> None:
        """An example ends without a label."""
        if outcome == "evicted":
            stream.evicted += 1
        else:
            stream.unlabelled += 1
        self.settle(stream, id_, outcome, learner=example.champion, example_offset=example.offset)
        self.remember(stream, id_, Closed(example.offset, example.features, None, 0, outcome, stream.time_ms))

    def remember(self, stream: Stream, id_: str, closed: Closed) -> None:
        """The longest closed is forgotten first."""
        stream.closed[id_] = closed
        while len(stream.closed) > self.settings.join.max_closed_per_stream:
            del stream.closed[next(iter(stream.closed))]

    # Marks --------------------------------------------------------------------------------------------------------

    def mark(self, stream: Stream, record: Record, mark: Mark) -> None:
        """A promotion holds at once; an advance once it was seen on both sides."""
        if mark.kind is MarkKind.PROMOTE:
            if mark.learner in stream.learners:
                stream.champion = mark.learner
            else:
                self.bury(record, Reason.UNKNOWN_LEARNER)
            return
        assert mark.time_ms is not None
        other = Side.LABELS if record.side is Side.EXAMPLES else Side.EXAMPLES
        if (other, mark.time_ms) in stream.open_marks:
            stream.open_marks.remove((other, mark.time_ms))
            self.close_until(stream, mark.time_ms)
            if stream.examples:
                self.report(stream)
        elif (record.side, mark.time_ms) not in stream.open_marks:
            stream.open_marks.append((record.side, mark.time_ms))
            if len(stream.open_marks) > self.settings.join.max_open_marks_per_stream:
                del stream.open_marks[0]

    # Outputs ------------------------------------------------------------------------------------------------------

    def bury(self, record: Record, reason: Reason) -> None:
        """The record becomes a dead letter, caused by the record at this position (itself, mostly)."""
        self.events.append(Dead(self.position, reason, record))

    def settle(
        self,
        stream: Stream,
        id_: str,
        outcome: str,
        label: int | None = None,
        learner: str | None = None,
        delay_ms: int | None = None,
        example_offset: int | None = None,
        label_offset: int | None = None,
        corrects: int | None = None,
    ) -> None:
        """An outcome."""
        offsets = (example_offset, label_offset, corrects)
        self.events.append(Settled(self.position, stream.name, id_, outcome, label, learner, delay_ms, *offsets))

    def report(self, stream: Stream) -> None:
        """One record of metrics for each learner."""
        for learner in stream.learners:
            self.events.append(
                Reported(
                    self.position,
                    stream.name,
                    learner,
                    learner == stream.champion,
                    stream.labelled - stream.begun[learner],
                    stream.labelled,
                    stream.examples,
                    stream.unlabelled,
                    stream.evicted,
                    stream.duplicates,
                    len(stream.pending),
                    len(stream.waiting),
                )
            )


def _shape(learner: LearnerSettings) -> dict[str, object]:
    """What a learner cannot change and go on: all but the numbers that steer its next steps."""
    steering = {"theta", "learning_rate", "l2", "largest_cost", "cost_interval_labels"}
    return learner.model_dump(exclude=steering)
