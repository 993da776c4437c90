"""The rules of the join in plain Python, one record after the other: what must become of every input record.

Written from the rules of order and join and apart from the code that a worker runs, with which it shares the records
and the settings only. It has neither batches nor scores. `stream_app.verify.audit` compares published records with its
events; the property tests and the simulation compare a task with it, record by record.

Memory: the open records and the remembered closed examples, both bounded by the settings.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import TypeVar

from stream_app.config import StreamSettings, TaskSettings
from stream_app.records import Example, Label, Mark, MarkKind, Reason, Side
from stream_app.verify.reference_state import (
    Closed,
    Dead,
    Event,
    Pending,
    Predicted,
    Record,
    Settled,
    Stream,
    Waiting,
)

Known = TypeVar("Known", Waiting, Closed)


def merge(examples: Iterable[Record], labels: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of one range in the order in which they count.

    Of the two next records, the record with the smaller timestamp comes first, the example on a tie. Each side keeps
    its order, regardless of its timestamps.
    """
    sides = iter(examples), iter(labels)
    example, label = next(sides[0], None), next(sides[1], None)
    while example is not None or label is not None:
        if label is None or (example is not None and example.time_ms <= label.time_ms):
            assert example is not None  # noqa: S101  (for the type checker)
            yield example
            example = next(sides[0], None)
        else:
            yield label
            label = next(sides[1], None)


class ReferenceJoin:
    """The state of one task, and what becomes of its input records.

    A subclass may override `begin`, `predict`, `learn`, `correct` and `report` to do the work of learners.

    Args:
        settings: Everything that changes a result.

    Attributes:
        streams: By name.
        events: Events since `take_events` was called.
        position: Number of the last record in merge order; -1 before the first.
        leftovers: Streams that were reset; the next record closes what they hold.
    """

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings
        self.streams: dict[str, Stream] = {}
        self.events: list[Event] = []
        self.position = -1
        self.leftovers: list[Stream] = []

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self.events = self.events, []
        return events

    def apply(self, record: Record) -> None:
        """Process the next record in merge order."""
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

    # Streams ----------------------------------------------------------------------------------------------------------

    def stream(self, meaning: Example | Label | Mark) -> Stream | None:
        """Return the stream of a well-formed record, which opens it if need be; None where it may not be opened.

        A stream that is not configured is opened by an example only.
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

    def open(self, name: str, settings: StreamSettings) -> Stream:
        """Begin a stream of which nothing is known."""
        stream = Stream(name, settings.features, dict(settings.learners), settings.champion)
        self.streams[name] = stream
        for learner in stream.learners:
            self.begin(stream, learner)
        return stream

    def reset(self, name: str) -> None:
        """Restart a stream, if there is such a stream; the next record closes what it held."""
        if name in self.streams:
            self.leftovers.append(self.streams[name])
            self.open(name, self.settings.of_stream(name))

    def import_learner(self, name: str, features: int) -> None:
        """Open the stream for a learner whose state was imported, if need be, and fix its number of features."""
        stream = self.streams.get(name) or self.open(name, self.settings.of_stream(name))
        stream.features = stream.features or features

    def close_leftovers(self) -> None:
        """Evict the pending examples of streams that were reset; their waiting labels become orphans."""
        for stream in self.leftovers:
            for id_, example in stream.pending.in_order():
                self.close(stream, id_, example, "evicted")
            for _, waiting in stream.waiting.in_order():
                self.bury(waiting.record, Reason.ORPHAN_LABEL)
        self.leftovers.clear()

    def reconfigure(self, settings: TaskSettings) -> None:
        """Continue under other settings; new learners, and learners of another kind under an old name, begin here."""
        self.settings = settings
        for stream in self.streams.values():
            for name in stream.replace_learners(settings.of_stream(stream.name).learners):
                self.begin(stream, name)

    # Examples ---------------------------------------------------------------------------------------------------------

    def example(self, stream: Stream, record: Record, example: Example) -> None:
        """Refuse a repeated example; predict a new one, then close it as too old, join it or let it wait."""
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
        waiting = stream.take_label(example.id)
        if self.expired(stream, record.time_ms):
            self.close(stream, example.id, pending, "unlabelled")
            if waiting is not None:
                self.bury(waiting.record, Reason.LATE_LABEL)
        elif waiting is not None:
            self.join(stream, example.id, pending, waiting)
        else:
            stream.pending.add(example.id, pending)
            if len(stream.pending) > self.settings.join.max_pending_per_stream:
                self.close_oldest_example(stream, "evicted")

    def predict(self, stream: Stream, example: Example, offset: int) -> None:
        """Let every learner predict; a setting decides whether all predictions are published or the champion's."""
        stream.examples += 1
        for learner in stream.learners:
            champion = learner == stream.champion
            if champion or self.settings.predictions == "all":
                cells = (learner, champion, stream.labelled - stream.begun[learner], offset)
                self.events.append(Predicted(self.position, stream.name, example.id, *cells))

    # Labels -----------------------------------------------------------------------------------------------------------

    def label(self, stream: Stream, record: Record, label: Label) -> None:
        """Join a label, treat it as a repeat or a correction, refuse it as too late, or let it wait."""
        join = self.settings.join
        arrived = Waiting(record.time_ms, stream.arrivals, label.label, label.revision, record)
        waiting, closed = stream.waiting.get(label.id), stream.closed.get(label.id)
        if (pending := stream.pending.pop(label.id)) is not None:
            self.join(stream, label.id, pending, arrived)
        elif waiting is not None:
            stream.waiting.replace(label.id, self.again(stream, record, label, waiting))
        elif closed is not None and closed.outcome == "joined":
            stream.closed[label.id] = self.again(stream, record, label, closed)
        elif closed is not None:
            self.bury(record, Reason.LATE_LABEL)
        elif self.expired(stream, record.time_ms) or record.dead_letter_bytes > join.max_waiting_bytes_per_stream:
            self.bury(record, Reason.ORPHAN_LABEL)
        else:
            stream.hold_label(label.id, arrived)
            most, most_bytes = join.max_waiting_per_stream, join.max_waiting_bytes_per_stream
            while len(stream.waiting) > most or stream.waiting_bytes > most_bytes:
                self.bury_oldest_label(stream)

    def again(self, stream: Stream, record: Record, label: Label, before: Known) -> Known:
        """Process a second label for an id; return what is remembered from then on."""
        newer = self.settings.join.corrections == "correct" and label.revision > before.revision
        if label.label == before.label:
            stream.duplicates += 1
            self.settle(stream, label.id, "duplicate", label=label.label, label_offset=record.offset)
        elif newer:
            cells: dict[str, int] = {"label": label.label, "label_offset": record.offset}
            if isinstance(before, Closed):
                cells["corrects"] = before.offset
                for learner in stream.learners:
                    self.correct(stream, learner, label.id, label.label)
            self.settle(stream, label.id, "correction", **cells)
        else:
            self.bury(record, Reason.CONFLICTING_LABEL)
        return before._replace(label=label.label, revision=label.revision) if newer else before

    def join(self, stream: Stream, id_: str, example: Pending, label: Waiting) -> None:
        """Let the learners learn, in their order; report metrics after every `every_labels` labels."""
        stream.labelled += 1
        for learner in stream.learners:
            self.learn(stream, learner, id_, label.label)
        self.settle(
            stream,
            id_,
            "joined",
            label=label.label,
            learner=example.champion,
            delay_ms=label.time_ms - example.time_ms,
            example_offset=example.offset,
            label_offset=label.record.offset,
        )
        closed = Closed(example.offset, example.features, label.label, label.revision, "joined", stream.time_ms)
        self.remember(stream, id_, closed)
        if stream.labelled % self.settings.metrics.every_labels == 0:
            self.report(stream)

    # Learners ---------------------------------------------------------------------------------------------------------

    def begin(self, stream: Stream, learner: str) -> None:
        """Note that a learner knows nothing from here on."""

    def learn(self, stream: Stream, learner: str, id_: str, label: int) -> None:
        """Note that a learner learns the label of an example that was predicted."""

    def correct(self, stream: Stream, learner: str, id_: str, label: int) -> None:
        """Note that an example that was learned has another class."""

    # Closing ----------------------------------------------------------------------------------------------------------

    def expired(self, stream: Stream, time_ms: int) -> bool:
        """Say whether stream time has passed the life of a record; a clock that runs ahead within its bound has not."""
        return stream.time_ms > time_ms + self.settings.join.ttl_ms + self.settings.join.max_clock_lead_ms

    def expire(self, stream: Stream) -> None:
        """Close what has expired by stream time, and forget what was closed long ago."""
        join = self.settings.join
        self.close_until(stream, stream.time_ms - join.ttl_ms - join.max_clock_lead_ms - 1)
        stream.forget_until(stream.time_ms - join.closed_ttl_ms - 1)

    def close_until(self, stream: Stream, time_ms: int) -> None:
        """Close everything with a timestamp up to this one, the oldest first."""
        while (oldest := stream.oldest_until(time_ms)) is not None:
            if oldest[0] is Side.EXAMPLES:
                self.close_oldest_example(stream, "unlabelled")
            else:
                self.bury_oldest_label(stream)

    def close_oldest_example(self, stream: Stream, outcome: str) -> None:
        """Close the oldest pending example."""
        oldest = stream.pending.oldest()
        if oldest is not None and (example := stream.pending.pop(oldest[2])) is not None:
            self.close(stream, oldest[2], example, outcome)

    def bury_oldest_label(self, stream: Stream) -> None:
        """Give up the oldest waiting label."""
        oldest = stream.waiting.oldest()
        if oldest is not None and (label := stream.take_label(oldest[2])) is not None:
            self.bury(label.record, Reason.ORPHAN_LABEL)

    def close(self, stream: Stream, id_: str, example: Pending, outcome: str) -> None:
        """End an example without a label."""
        stream.evicted += outcome == "evicted"
        stream.unlabelled += outcome == "unlabelled"
        self.settle(stream, id_, outcome, learner=example.champion, example_offset=example.offset)
        self.remember(stream, id_, Closed(example.offset, example.features, None, 0, outcome, stream.time_ms))

    def remember(self, stream: Stream, id_: str, closed: Closed) -> None:
        """Remember a closed example, and forget the longest closed beyond the bound."""
        stream.closed[id_] = closed
        while len(stream.closed) > self.settings.join.max_closed_per_stream:
            stream.closed.popitem(last=False)

    # Marks ------------------------------------------------------------------------------------------------------------

    def mark(self, stream: Stream, record: Record, mark: Mark) -> None:
        """Promote a learner at once, or advance the stream when both sides have sent the mark."""
        if mark.kind is MarkKind.PROMOTE:
            if mark.learner in stream.learners:
                stream.champion = mark.learner
            else:
                self.bury(record, Reason.UNKNOWN_LEARNER)
            return
        assert mark.time_ms is not None  # noqa: S101  (the decoder refuses such a mark)
        if stream.is_second_mark(record.side, mark.time_ms, self.settings.join.max_open_marks_per_stream):
            self.close_until(stream, mark.time_ms)
            if stream.examples:
                self.report(stream)

    # Events -----------------------------------------------------------------------------------------------------------

    def bury(self, record: Record, reason: Reason) -> None:
        """Make the record a dead letter, caused by the record at this position, which mostly is the record itself."""
        self.events.append(Dead(self.position, reason, record))

    def settle(self, stream: Stream, id_: str, outcome: str, **cells: str | int | None) -> None:
        """Publish an outcome; `cells` are the fields of `Settled` that apply."""
        self.events.append(Settled(self.position, stream.name, id_, outcome, **cells))  # type: ignore[arg-type]

    def report(self, stream: Stream) -> None:
        """Publish one record of metrics for each learner."""
        self.events.extend(stream.reports(self.position))
