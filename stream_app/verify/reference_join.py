"""The rules of the join in plain Python, one record after the other: what must become of every input record.

Written from the rules of order and join and apart from the code that a worker runs, with which it shares the records
and the settings only. It has neither batches nor scores. `stream_app.verify.audit` compares published records with its
events; the property tests and the simulation compare a task with it, record by record.

Memory: the open records and the remembered closed examples, both bounded by the settings.
"""

from typing import TypeVar

from stream_app.config import StreamSettings, TaskSettings, threshold_of
from stream_app.join.constants import MAX_EVICTIONS
from stream_app.key_partition import partition_of
from stream_app.records import Cause, Example, Header, Label, Mark, MarkKind, Reason
from stream_app.serialization.erased_ids import cut_digests
from stream_app.serialization.label_causes import explained
from stream_app.verify.reference_columns import costs_of, identity_of
from stream_app.verify.reference_drift import StreamDrift
from stream_app.verify.reference_ends import EXPIRED, close_advanced, close_until, end_all
from stream_app.verify.reference_headers import passed
from stream_app.verify.reference_pool import level_if_due
from stream_app.verify.reference_refusals import refused
from stream_app.verify.reference_state import (
    Closed,
    Dead,
    ErrorCosts,
    Event,
    ExpectedOutcome,
    Pending,
    Predicted,
    Record,
    ReferenceStream,
    Waiting,
    votes,
)

Known = TypeVar("Known", Waiting, Closed)


class ReferenceJoin:
    """The state of one task, and what becomes of its input records.

    A subclass may override `begin`, `predict`, `learn`, `correct`, `forget` and `report` to do the work of learners.

    Args:
        settings: Everything that changes a result.
        partition: Number of the task.

    Attributes:
        streams: By name.
        events: Events since `take_events` was called.
        position: Number of the last record in merge order; -1 before the first.
        arrivals: Records that its streams have taken since each of them began.
        leftovers: Streams that were reset; the next record closes what they hold.
        stopped: The reasons of the streams that the breaker stopped, the oldest stop first.
        partitions: The number of partitions to which the application moved last; 0: it never moved.
    """

    def __init__(self, settings: TaskSettings, partition: int = 0) -> None:
        self.settings = settings
        self.partitions = 0
        self._partition = partition
        self.streams: dict[str, ReferenceStream] = {}
        self.events: list[Event] = []
        self.position = -1
        self.arrivals = 0
        self.leftovers: list[ReferenceStream] = []
        self.stopped: dict[str, str] = {}

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self.events = self.events, []
        return events

    def apply(self, record: Record) -> None:
        """Process the next record in merge order."""
        self.position += 1
        self.close_leftovers()
        meaning = record.meaning
        if meaning is None:
            return
        if isinstance(meaning, Reason):
            self.bury(record, meaning)
            return
        refusal = refused(self, record, meaning)
        if refusal is not None:
            self.bury(record, refusal[0], detail=refusal[1])
            return
        stream = self.streams[meaning.stream]
        if isinstance(meaning, Mark):
            self.mark(stream, record, meaning)
            return
        stream.time_ms = max(stream.time_ms, record.time_ms)
        stream.arrivals += 1
        self.expire(stream)
        if isinstance(meaning, Example):
            self.example(stream, record, meaning)
        else:
            self.label(stream, record, meaning)
        self.arrivals += 1
        level_if_due(self)

    # Streams ----------------------------------------------------------------------------------------------------------

    def stream(self, meaning: Example | Label | Mark) -> ReferenceStream | None:
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

    def open(self, name: str, settings: StreamSettings) -> ReferenceStream:
        """Begin a stream of which nothing is known."""
        decisions = settings.champion, settings.threshold
        stream = ReferenceStream(name, settings.features, dict(settings.learners), *decisions)
        self.streams[name] = stream
        stream.drift = StreamDrift.of(settings)
        for learner in stream.learners:
            self.begin(stream, learner)
        return stream

    def reset(self, name: str) -> None:
        """Restart a stream, if there is such a stream; the next record closes what it held."""
        if name in self.streams:
            before = self.streams[name]
            self.leftovers.append(before)
            self.arrivals -= before.arrivals
            after = self.open(name, self.settings.of_stream(name))
            after.earlier_examples = before.earlier_examples + before.examples

    def belongs_elsewhere(self, name: str) -> bool:
        """Say whether a stream belongs to another partition since the application moved."""
        return self.partitions > 0 and partition_of(name.encode(), self.partitions) != self._partition

    def repartition(self, partitions: int) -> list[ReferenceStream]:
        """Continue with more partitions; return the streams that leave the task."""
        self.partitions = partitions
        leaving = [stream for name, stream in self.streams.items() if self.belongs_elsewhere(name)]
        self.arrivals -= sum(stream.arrivals for stream in leaving)
        self.streams = {name: stream for name, stream in self.streams.items() if not self.belongs_elsewhere(name)}
        self.stopped = {name: why for name, why in self.stopped.items() if not self.belongs_elsewhere(name)}
        return leaving

    def arrive(self, stream: ReferenceStream) -> None:
        """Take over a stream that has left another partition."""
        self.streams[stream.name] = stream
        self.arrivals += stream.arrivals

    def import_learner(self, name: str, features: int) -> None:
        """Open the stream for a learner whose state was imported, if need be, and fix its number of features."""
        stream = self.streams.get(name) or self.open(name, self.settings.of_stream(name))
        stream.features = stream.features or features

    def close_leftovers(self) -> None:
        """Evict the pending examples of streams that were reset; their waiting labels become orphans."""
        for stream in self.leftovers:
            labels = [label for _, label in stream.waiting.in_order()]
            end_all(self, stream, list(stream.pending.in_order()), labels, Cause.RESET)
        self.leftovers.clear()

    def reconfigure(self, settings: TaskSettings) -> None:
        """Continue under other settings; new learners, and learners of another kind under an old name, begin here."""
        before, self.settings = self.settings, settings
        for name, stream in self.streams.items():
            stream.apply_bounds(settings.join)
            stream.follow(before.of_stream(name).threshold, settings.of_stream(name).threshold)
            if _text(settings, name) != _text(before, name):
                stream.drift = StreamDrift.of(settings.of_stream(name))
            for learner in stream.replace_learners(settings.of_stream(name).learners):
                self.begin(stream, learner)

    # Examples ---------------------------------------------------------------------------------------------------------

    def example(self, stream: ReferenceStream, record: Record, example: Example) -> None:
        """Refuse a repeated example; predict a new one, then close it as too old, join it or let it wait."""
        settings = self.settings.of_stream(stream.name)
        features, costs = identity_of(example, settings), costs_of(example, settings)
        headers = passed(record.headers, self.settings.pass_headers)
        known = stream.pending.get(example.id) or stream.closed.get(example.id)
        if known is not None:
            if known.features == features:
                stream.duplicates += 1
                self.expect_outcome(stream, example.id, "duplicate", example_offset=record.offset, headers=headers)
            else:
                self.bury(record, Reason.CONFLICTING_EXAMPLE)
            return
        pending = Pending(record.time_ms, stream.arrivals, features, record.offset, stream.champion, costs, headers)
        self.predict(stream, example, pending)
        waiting = stream.take_label(example.id)
        if (late_ms := self.late_ms(stream, record.time_ms)) > 0:
            self.close(stream, example.id, pending, Cause.EXPIRED_EXAMPLE)
            if waiting is not None:
                self.bury(waiting.record, Reason.LATE_LABEL, Cause.LATE_EXAMPLE, late_ms)
        elif waiting is not None:
            self.join(stream, example.id, pending, waiting)
        else:
            stream.pending.add(example.id, pending)
            excess = len(stream.pending) - self.settings.join.max_pending_per_stream
            for _ in range(min(excess, MAX_EVICTIONS)):
                self.close_oldest_example(stream, Cause.EVICTED_EXAMPLE)
        if stream.drift is not None and stream.drift.ends_window(stream.examples):
            self.report(stream)

    def predict(self, stream: ReferenceStream, example: Example, pending: Pending) -> None:
        """Let every learner predict; a setting decides whether all predictions are published or the champion's."""
        stream.examples += 1
        if stream.drift is not None:
            place = stream.earlier_examples, stream.examples, stream.labelled
            stream.drift.observe(pending.features, stream.champion, *place)
        for learner, settings in stream.learners.items():
            champion = learner == stream.champion
            stream.decided[learner] += 1
            if champion or self.settings.predictions == "all":
                cells = (learner, champion, stream.labelled - stream.begun[learner], pending.offset)
                decided = (stream.threshold, votes(settings), pending.costs)
                counted = (stream.decided[learner], self.settings.metrics.prevalence_fading_factor, pending.headers)
                self.events.append(Predicted(self.position, stream.name, example.id, *cells, *decided, *counted))

    # Labels -----------------------------------------------------------------------------------------------------------

    def label(self, stream: ReferenceStream, record: Record, label: Label) -> None:
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
            self.bury(record, Reason.LATE_LABEL, closed.cause, stream.time_ms - closed.stream_time_ms)
        elif (late_ms := self.late_ms(stream, record.time_ms)) > 0:
            self.bury(record, Reason.ORPHAN_LABEL, Cause.OLD_LABEL, late_ms)
        elif record.dead_letter_bytes > join.max_waiting_bytes_per_stream:
            self.bury(record, Reason.ORPHAN_LABEL, Cause.LARGE_LABEL)
        else:
            stream.hold_label(label.id, arrived)
            for _ in range(MAX_EVICTIONS):
                if len(stream.waiting) > join.max_waiting_per_stream:
                    self.bury_oldest_label(stream, Cause.TOO_MANY_LABELS)
                elif stream.waiting_bytes > join.max_waiting_bytes_per_stream:
                    self.bury_oldest_label(stream, Cause.TOO_MANY_BYTES)
                else:
                    break

    def again(self, stream: ReferenceStream, record: Record, label: Label, before: Known) -> Known:
        """Process a second label for an id; return what is remembered from then on."""
        corrects = self.settings.join.corrections == "correct" and getattr(before, "correctable", True)
        newer = corrects and label.revision > before.revision
        if label.label == before.label:
            stream.duplicates += 1
            self.expect_outcome(stream, label.id, "duplicate", label=label.label, label_offset=record.offset)
        elif newer:
            cells: dict[str, int] = {"label": label.label, "label_offset": record.offset}
            if isinstance(before, Closed):
                cells["corrects"] = before.offset
                for learner in stream.learners:
                    self.correct(stream, learner, label.id, label.label)
            self.expect_outcome(stream, label.id, "correction", **cells)
        else:
            self.bury(record, Reason.CONFLICTING_LABEL)
        return before._replace(label=label.label, revision=label.revision) if newer else before

    def join(self, stream: ReferenceStream, id_: str, example: Pending, label: Waiting) -> None:
        """Let the learners learn, in their order; report metrics after every `every_labels` labels."""
        stream.labelled += 1
        for learner in stream.learners:
            self.learn(stream, learner, id_, label.label)
        self.expect_outcome(
            stream,
            id_,
            "joined",
            label=label.label,
            delay_ms=label.time_ms - example.time_ms,
            label_offset=label.record.offset,
            costs=example.costs,
            **example.cells,
        )
        corrects = self.settings.join.corrections == "correct"
        content = (example.offset, example.features, label.label, label.revision, "joined", stream.time_ms)
        stream.remember(id_, Closed(*content, correctable=corrects), self.settings.join.max_closed_per_stream)
        if stream.labelled % self.settings.metrics.every_labels == 0:
            self.report(stream)

    # Learners ---------------------------------------------------------------------------------------------------------

    def begin(self, stream: ReferenceStream, learner: str) -> None:
        """Note that a learner knows nothing from here on."""

    def learn(self, stream: ReferenceStream, learner: str, id_: str, label: int) -> None:
        """Note that a learner learns the label of an example that was predicted."""

    def correct(self, stream: ReferenceStream, learner: str, id_: str, label: int) -> None:
        """Note that an example that was learned has another class."""

    def forget(self, stream: ReferenceStream, digests: frozenset[str]) -> None:
        """Note that no learner keeps an example with such an id any more."""

    # Closing ----------------------------------------------------------------------------------------------------------

    def late_ms(self, stream: ReferenceStream, time_ms: int) -> int:
        """Return how long ago, in stream time, a record of this time has expired; 0 or less: it has not."""
        return stream.time_ms - time_ms - self.settings.join.life_ms

    def expire(self, stream: ReferenceStream) -> None:
        """Close what marks have left and what has expired by stream time; forget what was closed long ago."""
        most = close_advanced(self, stream, self.settings.join.max_closings_per_record)
        close_until(self, stream, stream.time_ms - self.settings.join.life_ms - 1, EXPIRED, most)
        stream.forget_until(stream.time_ms - self.settings.join.closed_ttl_ms - 1)

    def close_oldest_example(self, stream: ReferenceStream, cause: Cause) -> None:
        """Close the oldest pending example."""
        oldest = stream.pending.oldest()
        if oldest is not None and (example := stream.pending.pop(oldest[2])) is not None:
            self.close(stream, oldest[2], example, cause)

    def bury_oldest_label(self, stream: ReferenceStream, cause: Cause) -> None:
        """Give up the oldest waiting label."""
        oldest = stream.waiting.oldest()
        if oldest is not None and (label := stream.take_label(oldest[2])) is not None:
            self.bury(label.record, Reason.ORPHAN_LABEL, cause, stream.time_ms - label.time_ms)

    def close(self, stream: ReferenceStream, id_: str, example: Pending, cause: Cause) -> None:
        """End an example without a label."""
        outcome = "evicted" if cause in (Cause.EVICTED_EXAMPLE, Cause.POOL_EXAMPLE) else "unlabelled"
        stream.evicted += outcome == "evicted"
        stream.unlabelled += outcome == "unlabelled"
        self.expect_outcome(stream, id_, outcome, **example.cells)
        closed = Closed(example.offset, example.features, None, 0, outcome, stream.time_ms, cause)
        stream.remember(id_, closed, self.settings.join.max_closed_per_stream)

    # Marks ------------------------------------------------------------------------------------------------------------

    def mark(self, stream: ReferenceStream, record: Record, mark: Mark) -> None:
        """Obey a mark: at once, or if it advances the stream, when both sides have sent it."""
        if mark.kind is MarkKind.RESUME:
            self.stopped.pop(stream.name, None)
        elif mark.kind is MarkKind.ERASE:
            digests = cut_digests(mark.digests or "")
            end_all(self, stream, *stream.erase(digests), Cause.ERASED)
            self.forget(stream, digests)
        elif mark.kind is MarkKind.PROMOTE:
            stream.champion = mark.learner or ""
        elif mark.kind is MarkKind.DECIDE:
            stream.decide_by(threshold_of(mark.threshold_kind, mark.threshold))
        elif stream.is_second_mark(record.side, mark.time_ms or 0, self.settings.join.max_open_marks_per_stream):
            stream.advanced_ms = max(mark.time_ms or 0, stream.advanced_ms or 0)
            close_advanced(self, stream, self.settings.join.max_closings_per_record)
            if stream.examples:
                self.report(stream)

    # Events -----------------------------------------------------------------------------------------------------------

    def bury(
        self, record: Record, reason: Reason, cause: Cause = Cause.NONE, delay_ms: int = 0, detail: str = ""
    ) -> None:
        """Make the record a dead letter, caused by the record at this position, which mostly is the record itself."""
        explanation = detail if cause is Cause.NONE else explained(cause, delay_ms, self.settings.join)
        self.events.append(Dead(self.position, reason, record, explanation))

    def expect_outcome(
        self,
        stream: ReferenceStream,
        id_: str,
        outcome: str,
        **cells: str | int | ErrorCosts | tuple[Header, ...] | None,
    ) -> None:
        """Publish an outcome; `cells` are the fields of `ExpectedOutcome` that apply."""
        self.events.append(ExpectedOutcome(self.position, stream.name, id_, outcome, **cells))  # type: ignore[arg-type]

    def report(self, stream: ReferenceStream) -> None:
        """Publish one record of metrics for each learner."""
        self.events.extend(stream.reports(self.position))


def _text(settings: TaskSettings, stream: str) -> str:
    """Return the settings of a stream as text, in which the order of its learners and columns matters."""
    return settings.of_stream(stream).model_dump_json()
