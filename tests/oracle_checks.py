"""Compare what a task published with the events of the reference join; a difference names both sides."""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from struct import pack
from typing import Any, NamedTuple, TypeVar

from stream_app.config import TaskSettings
from stream_app.record_columns import OutputRecords
from stream_app.records import Header, Metric, Outcome, Prediction, Reason
from stream_app.serialization import codec
from stream_app.verify.output_checks import CHAMPION_FIELDS, OutcomeHandler
from stream_app.verify.reference_decisions import decision_faults
from stream_app.verify.reference_merge import merge
from stream_app.verify.reference_state import Dead, Event, ExpectedOutcome, Predicted, Record, Reported
from tests.engine_oracle import EngineOracle, Memory
from tests.support.formats.wire_formats import CONFLUENT, explained

ONE_STEP_A_LABEL = frozenset({"areba", "qbr", "baseline", "sliding", "adaptive_cs"})
"""Methods whose model version is the number of labels learned; an ensemble draws how often it learns each label."""

TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A `traceparent` of W3C Trace Context, level 1; later versions may append fields, which the tests never do."""

Predictions = dict[tuple[int, str], Prediction]
"""Predictions by offset of the example and by learner."""


class Row(NamedTuple):
    """One output record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def rows_of(records: OutputRecords) -> Iterator[Row]:
    """Yield the rows of one topic."""
    for number, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
        yield Row(key, value, tuple(records.headers.get(number, ())))


class DiffersError(AssertionError):
    """A task published something else than the reference join says."""


def same(what: str, found: object, wanted: object) -> None:
    """Compare something that was published with what it should be.

    Raises:
        DiffersError: They differ.
    """
    if found != wanted:
        raise DiffersError(f"{what}: published is {found}, the reference join says {wanted}")


class SecondOpinion:
    """What the reference join says about a task, batch by batch.

    Args:
        settings: Settings of the task.
        topics: Full names of the two input topics, `examples` first.
        partition: Number of the task.

    Attributes:
        oracle: The reference join, after all records so far.
        predictions: All predictions that were published.
        sequence: All records so far, in merge order.
    """

    def __init__(self, settings: TaskSettings, topics: tuple[str, str], partition: int) -> None:
        self.oracle = EngineOracle(settings)
        self.predictions: Predictions = {}
        self.sequence: list[Record] = []
        self._inputs = topics, partition

    def check(self, examples: Sequence[Record], labels: Sequence[Record], rows: Mapping[str, list[Row]]) -> list[Event]:
        """Compare the outputs of one batch with the events that the reference join derives from it; return the events.

        Raises:
            DiffersError: A record is not what it should be, is missing, or should not be there.
        """
        reported = len(self.oracle.memories)
        for record in merge(examples, labels):
            self.sequence.append(record)
            self.oracle.apply(record)
        events = self.oracle.take_events()
        self._check_predictions(rows["predictions"], [event for event in events if isinstance(event, Predicted)])
        self._check_outcomes(rows["outcomes"], [event for event in events if isinstance(event, ExpectedOutcome)])
        self._check_dead(rows["dead-letters"], [event for event in events if isinstance(event, Dead)])
        reports = [event for event in events if isinstance(event, Reported)]
        self._check_metrics(rows["metrics"], reports, self.oracle.memories[reported:])
        return events

    def _check_predictions(self, got: Sequence[Row], wanted: Sequence[Predicted]) -> None:
        """Compare which learner predicted which example after how many updates."""
        same("predictions", len(got), len(wanted))
        for row, event in zip(got, wanted, strict=True):
            record = _decoded(Prediction, row)
            found = event._replace(stream=record.stream, id=record.id, learner=record.learner, champion=record.champion)
            if self._takes_one_step(event.stream, event.learner):
                found = found._replace(updates=record.model_version)
            same("a prediction", found, event)
            same("the decision", [*decision_faults(event, record)], [])
            same("a score between 0 and 1", 0 <= record.score <= 1, wanted=True)
            same("a probability between 0 and 1", 0 <= record.probability <= 1, wanted=True)
            self.predictions[event.offset, event.learner] = record
            self._check_envelope(row, event.stream, event.position, record.event_time_ms, event.headers)

    def _check_outcomes(self, got: Sequence[Row], wanted: Sequence[ExpectedOutcome]) -> None:
        """Compare how each example and repeat ended; scores and probabilities are those of the arrival."""
        same("outcomes", len(got), len(wanted))
        for row, event in zip(got, wanted, strict=True):
            answers: dict[str, Any] = dict.fromkeys(CHAMPION_FIELDS)
            if event.learner is not None and event.example_offset is not None:
                prediction = self.predictions[event.example_offset, event.learner]
                answers = {name: getattr(prediction, name) for name in CHAMPION_FIELDS}
            found = _decoded(Outcome, row)
            settled = {name: getattr(event, name) for name in OutcomeHandler.FIELDS}
            expected = Outcome(**settled, **answers, event_time_ms=found.event_time_ms)
            same("an outcome", found, expected)
            self._check_envelope(row, event.stream, event.position, found.event_time_ms, event.headers)

    def _check_dead(self, got: Sequence[Row], wanted: Sequence[Dead]) -> None:
        """Compare which records became dead letters, why, and whether they are unchanged."""
        topics, partition = self._inputs
        same("dead letters", len(got), len(wanted))
        for row, event in zip(got, wanted, strict=True):
            record = event.record
            topic, reason = topics[record.side], event.reason.text
            is_wrong_schema = event.reason is Reason.WRONG_SCHEMA
            why = explained(record.value, self.oracle.settings.wire_format) if is_wrong_schema else ""
            if event.reason is Reason.BAD_TIME:
                why = ", no timestamp" if record.time_ms == -1 else f", timestamp {record.time_ms}"
                if record.time_ms < -1:  # the log's own time, see `RawRecords`
                    why = f", its topic has LogAppendTime ({-record.time_ms})"
            why += f", {event.explanation}" if event.explanation else ""
            ours = (
                ("__connect.errors.topic", topic.encode()),
                ("__connect.errors.partition", b"%d" % partition),
                ("__connect.errors.offset", b"%d" % record.offset),
                ("__connect.errors.exception.class.name", b"areba." + reason.encode()),
                (
                    "__connect.errors.exception.message",
                    f"{topic}[{partition}] offset {record.offset}: {reason}{why}".encode(),
                ),
                ("areba.reason", reason.encode()),
                ("areba.event_time_ms", b"%d" % max(record.time_ms, -1)),
            )
            expected = _letter(record, ours, self.oracle.settings.dead_letter_bytes)
            same("a dead letter", (row.key, row.value, row.headers), expected)

    def _check_metrics(self, got: Sequence[Row], wanted: Sequence[Reported], memories: Sequence[Memory | None]) -> None:
        """Compare when metrics are published, their counts, and what the learner keeps."""
        same("metrics", len(got), len(wanted))
        for row, event, memory in zip(got, wanted, memories, strict=True):
            metric = _decoded(Metric, row)
            cells: list[Any] = [getattr(metric, name) for name in Reported._fields[1:-1]]
            found = Reported(event.position, *cells)._replace(drift=event.drift)  # `areba verify` compares the drift
            if not self._takes_one_step(event.stream, event.learner):
                found = found._replace(updates=event.updates)
            same("metrics", found, event)
            if memory is not None:
                same(f"the queues of {event.learner}", Memory.of_metric(metric), memory)
            self._check_envelope(row, event.stream, event.position, metric.event_time_ms)

    def _takes_one_step(self, stream: str, learner: str) -> bool:
        return self.oracle.streams[stream].learners[learner].method in ONE_STEP_A_LABEL

    def _check_envelope(
        self, row: Row, stream: str, position: int, event_time_ms: int, passed: tuple[Header, ...] = ()
    ) -> None:
        """Compare key, event time and headers of an output with its stream, its cause and its example."""
        cause = self.sequence[position]
        traces = tuple(header for header in cause.headers if header[0] == "traceparent")
        carried = traces if len(traces) == 1 and TRACE.fullmatch(traces[0][1] or b"") else ()
        expected = stream.encode(), cause.time_ms, (*carried, *passed)
        same("key, time and headers", (row.key, event_time_ms, row.headers), expected)


def _letter(
    record: Record, ours: tuple[Header, ...], most_bytes: int
) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
    """Return key, value and headers of a dead letter; headers, value and key are left out while it is too large."""
    parts = {
        "headers": b"".join(
            pack("<i", -1) if cell is None else pack("<i", len(cell)) + cell
            for name, value in record.headers
            for cell in (name.encode(), value)
        ),
        "value": record.value or b"",
        "key": record.key or b"",
    }
    key, value, headers, said = record.key, record.value, record.headers, ours
    for name, part in parts.items():
        every = (*headers, *said)
        size = len(key or b"") + len(value or b"") + sum(len(one.encode()) + len(cell or b"") for one, cell in every)
        if size + 100 + 10 * len(every) <= most_bytes:  # a batch's own bytes, and a header's
            break
        if part:
            key, value = (None if name == "key" else key), (None if name == "value" else value)
            headers = () if name == "headers" else headers
            digest = sha256(part).hexdigest().encode()
            said = (*said, (f"areba.{name}.length", b"%d" % len(part)), (f"areba.{name}.sha256", digest))
    return key, value, (*headers, *said)


Published = TypeVar("Published", Prediction, Outcome, Metric)


def _decoded(kind: type[Published], row: Row) -> Published:
    record = codec.decode_one(row.value or b"", CONFLUENT)  # reads both formats
    if not isinstance(record, kind):
        raise DiffersError(f"{record} is not a {kind.__name__}")
    return record
