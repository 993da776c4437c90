"""`areba explain`: show how a prediction came about."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from typing import Any

from stream_app.admin.dead_letters.buried_examples import BuriedExamples
from stream_app.admin.history import History, RecordedCommit
from stream_app.admin.influence import Influence, step_through
from stream_app.admin.models import Application, waiting_for
from stream_app.backends.base import TopicPartition
from stream_app.backends.partitioner import partition_of
from stream_app.backends.reading import columns_of, rows_of
from stream_app.backends.retention import deleted, deleted_text
from stream_app.config import TaskSettings
from stream_app.errors import ConfigurationError, ErrorCode, StateError, UndecodableError, WrongSchemaError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.task import Task
from stream_app.record_columns import RawRecords
from stream_app.records import Example, Mark, MarkKind, Outcome, Prediction
from stream_app.serialization import codec
from stream_app.serialization.erased_ids import id_digest
from stream_app.serialization.wire_format import WireFormat, format_of


@dataclass(frozen=True, slots=True)
class _Explanation:
    """The predictions of one example, computed again and as published.

    Attributes:
        example: The example.
        offset: Its offset in the examples topic.
        recorded: The commit record of the batch that contains the example.
        again: The predictions that processing this batch again gives, with the state before it.
        published: The predictions in the predictions topic.
        outcomes: The outcomes of the example so far.
        deleted: The line that says that the published predictions were deleted; empty if they were not.
        erased: The offset of the `erase` mark in the examples topic that names the example; None if there is none.
        influence: What moved the score; None if the stream has no columns, or begins with the example.
    """

    example: Example
    offset: int
    recorded: RecordedCommit
    again: Sequence[Prediction]
    published: Sequence[Prediction]
    outcomes: Sequence[Outcome]
    deleted: str = ""
    erased: int | None = None
    influence: Influence | None = None

    @property
    def is_same(self) -> bool:
        """Whether the predictions are equal to the published ones, bit by bit."""
        return [codec.encode(one) for one in self.again] == [codec.encode(one) for one in self.published]

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return {
            "example": asdict(self.example),
            "offset": self.offset,
            "sequence": self.recorded.commit.sequence,
            "is_same": self.is_same,
            "deleted": self.deleted or None,
            "erased": self.erased,
            "again": [asdict(one) for one in self.again],
            "published": [asdict(one) for one in self.published],
            "outcomes": [asdict(one) for one in self.outcomes],
            "influence": None if self.influence is None else self.influence.to_plain(),
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation line by line, for people."""
        ends = self.recorded.commit
        yield (
            f"{self.example.stream} {self.example.id}: examples offset {self.offset}, predicted in sequence "
            f"{ends.sequence} (examples {ends.examples_start}..{ends.examples_end}, labels {ends.labels_start}"
            f"..{ends.labels_end})"
        )
        if self.example.values is None:
            yield "features " + " ".join(f"{value:g}" for value in self.example.features)
        elif self.influence is None:
            yield "values " + " ".join(f"{name}={value!r}" for name, value in self.example.values.items())
        for one in self.again:
            role = "champion" if one.champion else "challenger"
            by = "" if one.threshold is None else f", since {_compared(one)} (threshold: {one.threshold_kind})"
            answer = f"class {one.predicted_class}, score {one.score!r}, probability {one.probability:.4g}{by}"
            yield f"{one.learner} ({role}): {answer}, after {one.model_version} updates"
        if self.influence is not None:
            yield from self.influence.lines()
        for outcome in self.outcomes:
            yield f"outcome {outcome.outcome}" + ("" if outcome.label is None else f": label {outcome.label}")
        if self.erased is not None:
            yield f"erased by the mark at examples offset {self.erased}: the application keeps nothing of it"
        if self.deleted:
            yield f"cannot be compared with what was published: {self.deleted} [{ErrorCode.INPUTS_DELETED}]"
            return
        yield (
            "the same bits as published"
            if self.is_same
            else "NOT what was published: " + "; ".join(f"{one.learner} score {one.score!r}" for one in self.published)
        )


def _compared(prediction: Prediction) -> str:
    """Say how the number that decided the class compares with the threshold."""
    what = "score" if prediction.threshold_kind in {"score", "alerts"} else "probability"
    return f"the {what} is {'' if prediction.predicted_class else 'not '}above {prediction.threshold:.4g}"


class DeadExampleError(Exception):
    """The example became a dead letter, and was never predicted."""


def explain(application: Application, stream: str, id_: str, task: int | None) -> _Explanation:
    """Predict an example again with the state that the task had when it first predicted the example.

    Without a `task`, the name of the stream decides; if it has lanes, the id decides the lane.

    Raises:
        ConfigurationError: There is no such stream.
        DeadExampleError: All examples with this id became dead letters.
        StateError: There is no such example, it was not processed yet, or the state before it cannot be rebuilt.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topics = application.config.topics
    stream = application.config.name_of(stream, id_)
    numbers = _homes(application, stream) if task is None else [task]
    example, offset, erased, number = _find_in(application, numbers, stream, id_)
    form = _recorded_format(application, number)
    history = History(application.config, application.cluster, number)
    before, recorded = _around(history, offset, f"{stream} {id_}")
    rebuilt_task = _state_before(history, application, number, before, recorded)
    batch = _batch(application, history, recorded)
    values, influence = step_through(rebuilt_task, *batch, offset, example)
    predictions = codec.decode_many(values, format_of(rebuilt_task.settings))
    starts = recorded.commit.predictions_start, recorded.commit.outcomes_start
    partitions = TopicPartition(topics.predictions, number), TopicPartition(topics.outcomes, number)
    published, outcomes = (
        _of_id(application, partition, start, stream, id_, form)
        for partition, start in zip(partitions, starts, strict=True)
    )
    found = [one for one in published if isinstance(one, Prediction)]
    later = [TopicPartition(topics.outcomes, other) for other in numbers[: numbers.index(number)]]
    outcomes = chain(outcomes, *(_of_id(application, place, 0, stream, id_, form) for place in reversed(later)))
    low = application.cluster.watermarks(partitions[0]).low
    return _Explanation(
        example,
        offset,
        recorded,
        [one for one in predictions if isinstance(one, Prediction) and (one.stream, one.id) == (stream, id_)],
        found,
        [one for one in outcomes if isinstance(one, Outcome)],
        deleted_text(partitions[0], low, starts[0]) if low > starts[0] and not found else "",
        erased,
        influence,
    )


def _homes(application: Application, stream: str) -> Sequence[int]:
    """Return the partitions in which a stream can have been, the newest first: `areba repartition` multiplies them."""
    partitions = application.partitions()
    divisors = [number for number in range(partitions, 0, -1) if partitions % number == 0]
    return list(dict.fromkeys(partition_of(stream.encode(), number) for number in divisors))


def _find_in(
    application: Application, numbers: Sequence[int], stream: str, id_: str
) -> tuple[Example, int, int | None, int]:
    """Return what `_find_example` finds in the first of these partitions that has the example, and its number.

    Raises:
        ConfigurationError, DeadExampleError, StateError: None of them has it; the text is about the newest of them.
    """
    problem: Exception | None = None
    for number in numbers:
        try:
            form = _recorded_format(application, number)
            place = TopicPartition(application.config.topics.examples, number)
            return *_find_example(application, place, stream, id_, form), number
        except (ConfigurationError, DeadExampleError, StateError) as error:
            problem = error if problem is None or isinstance(error, DeadExampleError) else problem
    raise problem or AssertionError("a stream has a partition")


def _recorded_format(application: Application, number: int) -> WireFormat:
    """Return the format of all values of a task: schemas are recorded when a worker meets them."""
    config = application.config
    if config.serialization.wire_format != "confluent":
        return application.wire_format
    settings = config.task_settings()
    for recorded in History(config, application.cluster, number).commits():
        settings = settings.with_schema_ids(recorded.settings.schema_ids, recorded.settings.writer_schemas)
    return format_of(settings)


def _find_example(
    application: Application, partition: TopicPartition, stream: str, id_: str, form: WireFormat
) -> tuple[Example, int, int | None]:
    """Return the first example with this id that is no dead letter, its offset, and that of a mark that erased it.

    Later examples with the id are repetitions.
    """
    buried = BuriedExamples(application.cluster, application.config, partition)
    problem, found, erased = None, None, None
    name, digest = stream.encode(), id_digest(stream, id_)
    is_known = stream in application.config.record_streams
    where = f"{partition.topic}[{partition.partition}]"
    for row in rows_of(application.cluster, partition):
        is_known = is_known or (row.value is not None and name in row.value)
        if row.value and (codec.may_have(row.value, id_) or codec.may_have(row.value, digest)):
            record = _decoded(row.value, form)
            is_known = is_known or getattr(record, "stream", None) == stream
            if isinstance(record, Mark) and (record.stream, record.kind) == (stream, MarkKind.ERASE):
                erased = row.offset
            elif isinstance(record, Example) and (record.stream, record.id) == (stream, id_) and found is None:
                problem = buried.problem(row)
                found = (record, row.offset) if problem is None else None
    if found is not None:
        return *found, erased
    if problem is not None:
        raise DeadExampleError(f"{stream} {id_}: {problem}; it was never predicted")
    if erased is not None:
        text = f"{stream} {id_}: its example is gone, and the mark at offset {erased} of {where} has erased it"
        raise StateError(text, ErrorCode.NOT_FOUND)
    low = application.cluster.watermarks(partition).low
    if low:
        raise deleted(
            partition, low, 0, f"these inputs are gone, and no later one is the example {id_!r} of {stream!r}"
        )
    if not is_known:
        raise ConfigurationError(
            f"there is no stream {stream!r}: none is configured, and {where} has no example of this stream"
        )
    raise StateError(f"{where} has no example {id_!r} of stream {stream!r}", ErrorCode.NOT_FOUND)


def _decoded(value: bytes, form: WireFormat) -> object:
    try:
        return codec.decode_one(value, form)
    except (UndecodableError, WrongSchemaError):
        return None


def _around(history: History, offset: int, what: str) -> tuple[RecordedCommit | None, RecordedCommit]:
    """Return the commit before the one that processed an offset of examples (None if there is none), and this commit.

    Raises:
        StateError: The offset was not processed yet, or the commit before is lost.
    """
    before: RecordedCommit | None = None
    for recorded in history.commits():
        if recorded.commit.examples_end > offset:
            if before is None:
                history.check_whole(recorded)
            return before, recorded
        before = recorded
    raise StateError(f"{what}: examples offset {offset} was not processed yet", ErrorCode.NOT_FOUND)


def _state_before(
    history: History, application: Application, number: int, before: RecordedCommit | None, recorded: RecordedCommit
) -> Task:
    """Return the task as it was before the batch."""
    if before is None:
        first = TaskSettings.from_json(recorded.acts[0].text)
        topics = (history.inputs[0].topic, history.inputs[1].topic)
        task = Task(number, first, topics, secrets.token_bytes(HASH_KEY_BYTES))
    else:
        with waiting_for(number) as report:
            task = history.rebuild(before, application.clock, report).task
    for act in recorded.acts:
        task.apply(act)
    return task


def _batch(application: Application, history: History, recorded: RecordedCommit) -> tuple[RawRecords, RawRecords]:
    commit = recorded.commit
    ranges = ((commit.examples_start, commit.examples_end), (commit.labels_start, commit.labels_end))
    one, two = (_range(application, partition, *part) for partition, part in zip(history.inputs, ranges, strict=True))
    return one, two


def _range(application: Application, partition: TopicPartition, start: int, end: int) -> RawRecords:
    rows = rows_of(application.cluster, partition, start) if start < end else ()
    records = columns_of(list(takewhile(lambda row: row.offset < end, rows)))
    low = application.cluster.watermarks(partition).low
    if start < low and start < end:
        raise deleted(partition, low, start, "without these inputs, the batch of the example cannot be processed again")
    return records


def _of_id(
    application: Application, partition: TopicPartition, start: int, stream: str, id_: str, form: WireFormat
) -> Iterator[object]:
    """Yield the predictions or outcomes of an example; none is older than the commit that processed the example."""
    for row in rows_of(application.cluster, partition, max(start, application.cluster.watermarks(partition).low)):
        if row.value and codec.may_have(row.value, id_):
            record = _decoded(row.value, form)
            if isinstance(record, Prediction | Outcome) and (record.stream, record.id) == (stream, id_):
                yield record
