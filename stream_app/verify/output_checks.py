"""Compare the records of each output topic with the events of the reference join, field by field; pure."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from stream_app.config import Topics
from stream_app.record_columns import event_time_ms
from stream_app.records import Header, Outcome, Prediction, Reason, Side, stream_of_key
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.left_out import Fields
from stream_app.verify.reference_alerts import AlertThresholds
from stream_app.verify.reference_decisions import decision_faults
from stream_app.verify.reference_headers import traces
from stream_app.verify.reference_state import Dead, ExpectedOutcome, Predicted, Record
from stream_app.verify.results import Code, Findings, StreamTotals

Content = TypeVar("Content")
Published = TypeVar("Published", Predicted, ExpectedOutcome, Dead)


@dataclass(frozen=True, slots=True)
class Output(Generic[Content]):
    """One record of an output topic."""

    offset: int
    key: bytes | None
    content: Content
    headers: Sequence[Header] = ()


class Due(NamedTuple, Generic[Published]):
    """A record that must be published, and the input record that causes it."""

    event: Published
    cause: Record


@dataclass(frozen=True, slots=True)
class Context:
    """The task whose outputs are compared, and where the results go."""

    names: Topics
    partition: int
    findings: Findings
    figures: defaultdict[str, StreamTotals] = field(default_factory=lambda: defaultdict(StreamTotals))

    def figures_of(self, stream: str) -> StreamTotals:
        """Return the counts of a stream."""
        return self.figures[stream]

    def add(self, code: Code, topic: str, offset: int | None, text: str) -> None:
        """Add a finding about a record of a topic."""
        self.findings.add(code, topic, self.partition, offset, text)

    def place(self, side: Side, offset: int | None) -> str:
        """Name an input record."""
        return f"{self.names.inputs[side]}[{self.partition}] offset {offset}"


CHAMPION_FIELDS = ("score", "probability", "predicted_class")
"""Fields of an outcome that are those of the champion's prediction."""


class ChampionScores:
    """Answers of champions, by offset of the example, until the outcomes that repeat them came."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._predicted: dict[int, Output[Prediction]] = {}
        self._outcomes: dict[int, Output[Outcome]] = {}
        self._carried: dict[tuple[str, str], Output[Prediction]] = {}

    def carry(self, stream: str, predictions: Mapping[str, Output[Prediction]]) -> None:
        """Take the predictions, by id, of a stream's examples that another task had predicted."""
        self._carried |= {(stream, id_): output for id_, output in predictions.items()}

    def left(self, stream: str) -> Mapping[str, Output[Prediction]]:
        """Return the predictions of a stream that have no outcome yet, by id."""
        open_ = [output for output in self._predicted.values() if output.content.stream == stream]
        carried = {id_: output for (name, id_), output in self._carried.items() if name == stream}
        return carried | {output.content.id: output for output in open_}

    def predicted(self, example_offset: int, output: Output[Prediction]) -> None:
        """Note the champion's prediction."""
        outcome = self._outcomes.pop(example_offset, None)
        if outcome is None:
            self._predicted[example_offset] = output
        else:
            self._compare(output, outcome)

    def outcome(self, example_offset: int, output: Output[Outcome]) -> None:
        """Note the outcome of a predicted example."""
        content = output.content
        predicted = self._carried.pop((content.stream, content.id), None)  # its offset is one of another partition
        predicted = predicted or self._predicted.pop(example_offset, None)
        if predicted is None:
            self._outcomes[example_offset] = output
        else:
            self._compare(predicted, output)

    def _compare(self, predicted: Output[Prediction], outcome: Output[Outcome]) -> None:
        context = self._context
        where = f"{context.names.predictions}[{context.partition}] offset {predicted.offset}"
        for name in CHAMPION_FIELDS:
            found, expected = getattr(outcome.content, name), getattr(predicted.content, name)
            if found != expected:
                example = f"(stream {outcome.content.stream}, id {outcome.content.id})"
                text = f"{name} is {found}, the champion's at {where} is {expected} {example}"
                context.add(Code.WRONG_SCORE, context.names.outcomes, outcome.offset, text)


class PredictionHandler:
    """Predictions against events `Predicted`.

    Attributes:
        alerts: The thresholds that have a share of alerts.
    """

    def __init__(self, context: Context, scores: ChampionScores) -> None:
        self._context = context
        self._topic = context.names.predictions
        self._scores = scores
        self.alerts = AlertThresholds()

    def key_of_expected(self, expected: Due[Predicted]) -> Hashable:
        """Return stream, id and learner."""
        return expected.event.stream, expected.event.id, expected.event.learner

    def key_of_found(self, found: Output[Prediction]) -> Hashable:
        """Return stream, id and learner."""
        return found.content.stream, found.content.id, found.content.learner

    def on_match(self, expected: Due[Predicted], found: Output[Prediction]) -> None:
        """Compare all fields, key and headers."""
        event = expected.event
        self._count(found)
        wrong = [*_differences(event, found.content, ("stream", "id", "learner", "champion"))]
        wrong += decision_faults(event, found.content)
        if fault := self.alerts.fault(event, found.content):
            wrong.append(fault)
        wrong += _envelope(expected.cause, event.stream, event.headers, found)
        if wrong:
            text = f"{', '.join(wrong)}; it belongs to {self._of(event)}"
            self._context.add(Code.WRONG_PREDICTION, self._topic, found.offset, text)
        if event.champion:
            self._scores.predicted(event.offset, found)

    def on_missing(self, expected: Due[Predicted], previous: Output[Prediction] | None) -> None:
        """Report a missing prediction, at its input record."""
        event = expected.event
        after = "at the beginning" if previous is None else f"after offset {previous.offset}"
        text = f"{self._topic} lacks, {after}, the prediction of learner {event.learner} (stream {event.stream}, "
        self._context.add(
            Code.MISSING_PREDICTION, self._context.names.inputs[Side.EXAMPLES], event.offset, f"{text}id {event.id})"
        )

    def on_misplaced(self, expected: Due[Predicted], found: Output[Prediction]) -> None:
        """Report a prediction that comes too early."""
        text = f"comes too early; it belongs to {self._of(expected.event)}"
        self._context.add(Code.MISPLACED_PREDICTION, self._topic, found.offset, text)

    def on_unexpected(self, found: Output[Prediction]) -> None:
        """Report a prediction that must not exist."""
        self._count(found)
        content = found.content
        text = (
            "belongs to no example, or to an example that has its predictions "
            f"(stream {content.stream}, id {content.id}, learner {content.learner})"
        )
        self._context.add(Code.UNEXPECTED_PREDICTION, self._topic, found.offset, text)

    def _of(self, event: Predicted) -> str:
        where = self._context.place(Side.EXAMPLES, event.offset)
        return f"{where} (stream {event.stream}, id {event.id}, learner {event.learner})"

    def _count(self, found: Output[Prediction]) -> None:
        self._context.figures_of(found.content.stream).count_prediction(found.content)


class OutcomeHandler:
    """Outcomes against events `ExpectedOutcome`."""

    FIELDS = tuple(name for name in ExpectedOutcome._fields if name not in {"position", "corrects", "costs", "headers"})

    def __init__(self, context: Context, scores: ChampionScores) -> None:
        self._context = context
        self._topic = context.names.outcomes
        self._scores = scores

    def key_of_expected(self, expected: Due[ExpectedOutcome]) -> Hashable:
        """Return the kind of outcome and the offsets that it is about."""
        return expected.event.outcome, expected.event.example_offset, expected.event.label_offset

    def key_of_found(self, found: Output[Outcome]) -> Hashable:
        """Return the kind of outcome and the offsets that it is about."""
        return found.content.outcome, found.content.example_offset, found.content.label_offset

    def on_match(self, expected: Due[ExpectedOutcome], found: Output[Outcome]) -> None:
        """Compare all fields, key and headers."""
        event = expected.event
        self._count(found)
        wrong = _differences(event, found.content, self.FIELDS)
        wrong += _envelope(expected.cause, event.stream, event.headers, found)
        if event.learner is None:
            answers = {name: getattr(found.content, name) for name in CHAMPION_FIELDS}
            wrong += [f"{name} is {number}, must be None" for name, number in answers.items() if number is not None]
        if wrong:
            text = f"{', '.join(wrong)} (stream {event.stream}, id {event.id})"
            self._context.add(Code.WRONG_OUTCOME, self._topic, found.offset, text)
        if event.learner is not None and event.example_offset is not None:
            self._scores.outcome(event.example_offset, found)

    def on_missing(self, expected: Due[ExpectedOutcome], previous: Output[Outcome] | None) -> None:
        """Report a missing outcome, at its input record."""
        event = expected.event
        side, offset = Side.EXAMPLES, event.example_offset
        if offset is None:
            side, offset = Side.LABELS, event.label_offset
        label = ""
        if event.label_offset is not None and side is Side.EXAMPLES:
            label = f" with the label at {self._context.place(Side.LABELS, event.label_offset)}"
        after = "at the beginning" if previous is None else f"after offset {previous.offset}"
        text = (
            f"{self._topic} lacks, {after}, the outcome {event.outcome}{label} (stream {event.stream}, id {event.id})"
        )
        self._context.add(Code.MISSING_OUTCOME, self._context.names.inputs[side], offset, text)

    def on_misplaced(self, expected: Due[ExpectedOutcome], found: Output[Outcome]) -> None:
        """Report an outcome that comes too early."""
        text = f"comes too early (stream {expected.event.stream}, id {expected.event.id})"
        self._context.add(Code.MISPLACED_OUTCOME, self._topic, found.offset, text)

    def on_unexpected(self, found: Output[Outcome]) -> None:
        """Report an outcome that must not exist."""
        self._count(found)
        content = found.content
        offsets = zip(Side, (content.example_offset, content.label_offset), strict=True)
        places = " and ".join(self._context.place(side, offset) for side, offset in offsets if offset is not None)
        text = f"{content.outcome} does not follow from {places} (stream {content.stream}, id {content.id})"
        self._context.add(Code.UNEXPECTED_OUTCOME, self._topic, found.offset, text)

    def _count(self, found: Output[Outcome]) -> None:
        self._context.figures_of(found.content.stream).count_outcome(found.content)


class DeadLetterHandler:
    """Dead letters against events `Dead`.

    Attributes:
        moved: The offsets of those that a resend sends to another partition.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = context.names.dead_letters
        self.moved: set[int] = set()

    def key_of_expected(self, expected: Due[Dead]) -> Hashable:
        """Return the place of the input record."""
        record = expected.event.record
        return self._context.names.inputs[record.side], self._context.partition, record.offset

    def key_of_found(self, found: Output[DeadLetterRecord]) -> Hashable:
        """Return the place of the input record."""
        return found.content.topic, found.content.partition, found.content.input_offset

    def on_match(self, expected: Due[Dead], found: Output[DeadLetterRecord]) -> None:
        """Compare origin, reason, content and event time."""
        event, letter = expected.event, found.content
        record = event.record
        self._context.figures_of(record.stream).count_dead_letter(record.side, letter.reason)
        self.moved.update([found.offset] if event.reason is Reason.MOVED_STREAM else [])
        wrong = []
        place = self._context.place(record.side, record.offset)
        if self.key_of_found(found) != self.key_of_expected(expected):
            wrong.append(f"names {letter.origin}, must name {place}")
        if letter.reason != event.reason.text:
            wrong.append(f"reason is {letter.reason}, must be {event.reason.text}")
        if not letter.message.endswith(event.explanation):
            wrong.append(f"message is {letter.message!r}, must end with {event.explanation!r}")
        parts = list(letter.differences(Fields(record.key, record.value, record.headers)))
        if parts:
            wrong.append(f"{' and '.join(parts)} differ from the input record")
        if letter.event_time_ms != event_time_ms(record.time_ms):
            wrong.append(f"event time is {letter.event_time_ms}, must be {event_time_ms(record.time_ms)}")
        if wrong:
            text = f"{', '.join(wrong)}; it belongs to {place} (stream {record.stream})"
            self._context.add(Code.WRONG_DEAD_LETTER, self._topic, found.offset, text)

    def on_missing(self, expected: Due[Dead], previous: Output[DeadLetterRecord] | None) -> None:
        """Report a missing dead letter, at its input record."""
        event = expected.event
        after = "at the beginning" if previous is None else f"after offset {previous.offset}"
        text = f"{self._topic} lacks, {after}, the dead letter {event.reason.text} (stream {event.record.stream})"
        side = event.record.side
        self._context.add(Code.MISSING_DEAD_LETTER, self._context.names.inputs[side], event.record.offset, text)

    def on_misplaced(self, expected: Due[Dead], found: Output[DeadLetterRecord]) -> None:
        """Report a dead letter that comes too early."""
        place = self._context.place(expected.event.record.side, expected.event.record.offset)
        text = f"comes too early; it belongs to {place}"
        self._context.add(Code.MISPLACED_DEAD_LETTER, self._topic, found.offset, text)

    def on_unexpected(self, found: Output[DeadLetterRecord]) -> None:
        """Report a dead letter that must not exist."""
        letter = found.content
        if letter.topic in self._context.names.inputs:
            side = Side(self._context.names.inputs.index(letter.topic))
            self._context.figures_of(stream_of_key(found.key)).count_dead_letter(side, letter.reason)
        text = f"{letter.reason} does not follow from {letter.origin}"
        self._context.add(Code.UNEXPECTED_DEAD_LETTER, self._topic, found.offset, text)


def _differences(event: Predicted | ExpectedOutcome, content: Prediction | Outcome, names: Sequence[str]) -> list[str]:
    """Say in which fields a record differs from the event."""
    pairs = ((name, getattr(content, name), getattr(event, name)) for name in names)
    return [f"{name} is {found}, must be {wanted}" for name, found, wanted in pairs if found != wanted]


def _envelope(cause: Record, stream: str, passed: Sequence[Header], found: Output[Any]) -> list[str]:
    """Say whether key, event time and headers of an output are others than its cause and its example give."""
    wrong = []
    if found.key != stream.encode():
        wrong.append(f"key is {found.key!r}, must be the stream")
    if found.content.event_time_ms != cause.time_ms:
        wrong.append(f"event_time_ms is {found.content.event_time_ms}, must be {cause.time_ms}")
    if list(found.headers) != [*traces(cause.headers), *passed]:
        wrong.append("headers are not the trace header of the record that caused it, and those of its example")
    return wrong
