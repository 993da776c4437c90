"""The settings that change a result: equal settings and equal inputs give equal bytes."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, field_serializer, model_validator

from stream_app.config.column_settings import (
    Columns,
    ColumnSettings,
    MissingValues,
    columns_as_list,
    columns_from_list,
    width_of,
)
from stream_app.config.decision_settings import CostSettings, Threshold, ThresholdSettings
from stream_app.config.drift_settings import DriftSettings
from stream_app.config.learner_settings import LearnerSettings
from stream_app.config.messages import first_line
from stream_app.config.values import (
    DAY_MS,
    MAX_MS,
    Change,
    Features,
    Frozen,
    Integer,
    LearnerName,
    Number,
    Settings,
    StreamName,
    TopicName,
)
from stream_app.errors import StateError


def _from_list(value: object) -> object:
    """Return learners by name from the list that `to_json` writes: a list, since the outputs have the same order."""
    if isinstance(value, list):
        return {item["name"]: {key: item[key] for key in item if key != "name"} for item in value}
    return value


class StreamSettings(Settings):
    """The settings of one stream: every learner with all of its settings.

    Attributes:
        features: Number of features of an example; None takes the number of the first example. With columns, it is
            the number of their features.
        columns: The columns by name, in the order of their features; without any, examples have arrays of features.
        missing_values: Numbers and texts that stand for a missing value in any column.
        champion: The learner whose predictions are the application's answers.
        costs: What errors cost; None: the cost of decisions is not counted.
        threshold: From when on an example is predicted as class 1.
        drift: How drift is found without labels; None: it is not looked for.
        learners: Settings by name, in the configured order, which is also the order of the outputs.
    """

    features: Features | None = None
    columns: Annotated[Columns, BeforeValidator(columns_from_list)] = Field(default_factory=dict)
    missing_values: MissingValues = ()
    champion: LearnerName
    costs: CostSettings | None = None
    threshold: Threshold = ThresholdSettings()
    drift: DriftSettings | None = None
    learners: Annotated[Frozen[LearnerName, LearnerSettings], BeforeValidator(_from_list)]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if self.champion not in self.learners:
            raise ValueError(f"champion: there is no learner {self.champion!r}")
        if self.columns and self.features != width_of(self.columns):
            raise ValueError(f"features: is {self.features}, the columns have {width_of(self.columns)}")
        return self

    @field_serializer("columns")
    def _columns_as_list(self, columns: Mapping[str, ColumnSettings]) -> list[dict[str, Any]]:
        return columns_as_list(columns)

    @field_serializer("learners")
    def _as_list(self, learners: Mapping[str, LearnerSettings]) -> list[dict[str, Any]]:
        return [{"name": name, **settings.model_dump(mode="json")} for name, settings in learners.items()]


MAX_PASSED_HEADERS = 8
"""Most headers of an example that are copied to its outputs."""

MAX_PASSED_HEADER_BYTES, MAX_PASSED_BYTES = 256, 1_024
"""Most bytes of such a header, its name and its value, and of all such headers of a record: each output has them."""

_OWN_HEADERS, _OWN_PREFIXES = ("traceparent", "tracestate"), ("areba.", "__connect.")
"""Headers that have a meaning of their own in the outputs."""


def _header_name(name: str) -> str:
    if name in _OWN_HEADERS:
        raise ValueError(f"{name!r} cannot be passed on: it belongs to the trace context, which is carried without it")
    if name.startswith(_OWN_PREFIXES):
        raise ValueError(f"{name!r} cannot be passed on: dead letters have headers of our own with such names")
    return name


def _distinct_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice!r} is named twice")
    return names


_HeaderName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(_header_name)]
PassHeaders: TypeAlias = Annotated[
    tuple[_HeaderName, ...],
    Field(max_length=MAX_PASSED_HEADERS),
    AfterValidator(_distinct_names),
    Change.TAKEN_OVER,
]


MAX_HELD = 200_000
"""Most output records of a transaction, which takes at most ten seconds; and most labels of a stream that may wait."""

MAX_PENDING = 10_000_000
"""Most examples of one stream that may wait; docs/scale.md says what five million take."""

MAX_HELD_BYTES = 1 << 26
"""Most bytes of the waiting labels of one stream, as dead letters, for the same reason."""

Corrections: TypeAlias = Literal["first", "correct"]


class JoinSettings(Settings):
    """How long and how much the join remembers of each stream. Times are event time.

    Attributes:
        ttl_ms: How long an example waits for its label, and a label for its example, besides `max_clock_lead_ms`.
        max_clock_lead_ms: How far a producer's clock may run ahead without making records expire that are on time; the
            input topics' `message.timestamp.after.max.ms` must not be larger.
        max_pending_per_stream: Most examples that wait for labels; above it, the oldest is evicted.
        max_waiting_per_stream: Most labels that wait for examples; above it, the oldest becomes a dead letter.
        max_waiting_bytes_per_stream: Most bytes of the waiting labels: keys, values, headers, and 256 for each label
            (the headers of a dead letter); above it, the oldest becomes a dead letter.
        max_closings_per_record: Most examples and labels that one record closes because they have expired, or a pair of
            `advance` marks because of its time; the next records of the stream close the rest.
        max_closed_per_stream: Most closed examples that are remembered, to detect duplicates and late labels; above it,
            the example that was closed first is forgotten.
        max_table_bytes_per_task: Most bytes of what the join holds for all streams of a task together: pending
            examples, waiting labels and closed ids. Above it, the streams that hold most give up their oldest. A stream
            that holds less than this divided by `limits.max_streams_per_task` loses nothing because of other streams.
        closed_ttl_ms: How long closed examples are remembered after they were closed.
        max_open_marks_per_stream: Most marks that wait for the same mark in the other input; above it, the oldest is
            dropped.
        corrections: `first`: the first label of an example counts, and a later label of another class is a dead letter.
            `correct`: a label of a higher revision corrects the example's class.
    """

    change: ClassVar[Change] = Change.TAKEN_OVER

    ttl_ms: Annotated[Integer, Field(ge=1, le=MAX_MS)] = 30 * DAY_MS
    max_clock_lead_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = 3_600_000
    max_pending_per_stream: Annotated[Integer, Field(ge=1, le=MAX_PENDING)] = 100_000
    max_waiting_per_stream: Annotated[Integer, Field(ge=1, le=MAX_HELD)] = 10_000
    max_waiting_bytes_per_stream: Annotated[Integer, Field(ge=1, le=MAX_HELD_BYTES)] = MAX_HELD_BYTES
    max_closings_per_record: Annotated[Integer, Field(ge=2, le=MAX_HELD)] = 100_000
    max_closed_per_stream: Annotated[Integer, Field(ge=0, le=100_000_000)] = 200_000
    max_table_bytes_per_task: Annotated[Integer, Field(ge=1, le=1 << 50)] = 1 << 28
    closed_ttl_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = 60 * DAY_MS
    max_open_marks_per_stream: Annotated[Integer, Field(ge=1, le=1_000)] = 16
    corrections: Corrections = "first"

    @property
    def life_ms(self) -> int:
        """How long an example or a label is kept: for the TTL, and for as long as a producer's clock may run ahead."""
        return self.ttl_ms + self.max_clock_lead_ms


def _distinct(factors: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(factors)) < len(factors):
        raise ValueError("must have different numbers: each is a window of its own")
    return factors


_FadingFactor: TypeAlias = Annotated[Number, Field(gt=0, le=1)]
FadingFactors: TypeAlias = Annotated[
    tuple[_FadingFactor, ...], Field(min_length=1, max_length=8), AfterValidator(_distinct)
]

ChangeDetector: TypeAlias = Literal["none", "hddm", "ddm"]


class MetricSettings(Settings):
    """When metrics are published, and how they are computed.

    Attributes:
        every_labels: Number of labels between two metric records of a learner.
        fading_factors: Fading factors of 1 to 8 windows: different numbers above 0 up to 1; 1 never forgets. A record
            of metrics has the figures of each window. The first is the main window, which the change detector, `areba
            watch`, the dashboard and Prometheus use.
        prevalence_fading_factor: How all labels fade from which the share of class 1 is estimated, which precision, F1,
            kappa and average precision need; a window whose fading factor is nearer to 1 uses that.
        change_detector: The method that detects that a learner has become worse at recognising a class.
    """

    change: ClassVar[Change] = Change.TAKEN_OVER

    every_labels: Annotated[Integer, Field(ge=1, le=1_000_000_000)] = 100
    fading_factors: Annotated[FadingFactors, Change.FIXED] = (0.99,)
    prevalence_fading_factor: Annotated[_FadingFactor, Change.FIXED] = 0.9995
    change_detector: ChangeDetector = "hddm"


class LimitSettings(Settings):
    """Bounds on the inputs.

    Attributes:
        max_streams_per_task: Most streams of one task; records of further streams are dead letters (`unknown-stream`).
        max_record_bytes: Most bytes of a record's value; Kafka's default limit on a batch is 1,048,588.
        max_features: Most features of an example.
    """

    max_streams_per_task: Annotated[Integer, Field(ge=1, le=100_000), Change.TAKEN_OVER] = 100
    max_record_bytes: Annotated[Integer, Field(ge=100, le=100_000_000)] = 1_000_000
    max_features: Features = 10_000


UnknownStreams: TypeAlias = Annotated[Literal["dead-letter", "model"], Change.TAKEN_OVER]
Predictions: TypeAlias = Annotated[Literal["champion", "all"], Change.TAKEN_OVER]

WireFormatName: TypeAlias = Literal["avro_single_object", "confluent", "json", "confluent_json"]

MAX_SCHEMA_ID = 2**32 - 1


def _schema_id(text: str) -> str:
    if int(text) > MAX_SCHEMA_ID:
        raise ValueError(f"a schema id is at most {MAX_SCHEMA_ID}")
    return text


_SchemaId: TypeAlias = Annotated[Integer, Field(ge=0, le=MAX_SCHEMA_ID)]
SchemaIds: TypeAlias = Annotated[
    Frozen[str, Annotated[tuple[_SchemaId, ...], Field(min_length=1, max_length=1_000)]], Change.TAKEN_OVER
]

_SchemaNumber: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,9})$"), AfterValidator(_schema_id)
]
WriterSchemas: TypeAlias = Annotated[
    Frozen[_SchemaNumber, Annotated[str, StringConstraints(max_length=100_000)]],
    Field(max_length=10_000),
    Change.TAKEN_OVER,
]

_LabelText: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=100)]
LabelClasses: TypeAlias = Annotated[
    Frozen[_LabelText, Annotated[Integer, Field(ge=0, le=1)]], Field(max_length=1_000), Change.TAKEN_OVER
]

_UNLIMITED_BYTES = 2**31 - 1
"""Stands for no limit: a batch in Kafka's protocol is never larger."""


class TaskSettings(Settings):
    """Every setting that changes a result: equal settings and equal input ranges give equal output bytes.

    The progress topic stores them as `to_json` writes them. `Config` has their defaults.

    Attributes:
        application_id: Part of the settings, since random numbers are seeded with it.
        join: See `JoinSettings`.
        metrics: See `MetricSettings`.
        limits: See `LimitSettings`.
        unknown_streams: `dead-letter`, or `model`: streams that `streams` does not name get `default_stream`.
        predictions: Whether the predictions of the `champion` or of `all` learners are published.
        dead_letter_bytes: Largest batch that the dead-letters topic accepts. It is no setting of the file: the worker
            reads the topic's `max.message.bytes` (see `stream_app.serialization.left_out`).
        wire_format: How input and output values begin (see `stream_app.serialization.wire_format`).
        schema_ids: The ids of each schema in the registry, by names such as `example.v1`; the first one is written.
        writer_schemas: The schemas of other writers by their ids in the registry (see
            `stream_app.serialization.writer_schema`); an empty text: it cannot be used.
        label_classes: What texts of labels mean.
        pass_headers: Names of the headers of an example that are copied to its predictions and outcomes.
        streams: The configured streams, by name.
        default_stream: The settings of streams that the configuration does not name.
    """

    application_id: TopicName
    join: JoinSettings
    metrics: MetricSettings
    limits: LimitSettings
    unknown_streams: UnknownStreams
    predictions: Predictions
    dead_letter_bytes: Annotated[Integer, Field(ge=0), Change.TAKEN_OVER] = _UNLIMITED_BYTES
    wire_format: WireFormatName
    schema_ids: SchemaIds
    writer_schemas: WriterSchemas
    label_classes: LabelClasses
    pass_headers: PassHeaders
    streams: Frozen[StreamName, StreamSettings]
    default_stream: StreamSettings

    def of_stream(self, name: str) -> StreamSettings:
        """Return the settings of a stream."""
        return self.streams.get(name, self.default_stream)

    def with_schema_ids(
        self, more: Mapping[str, Sequence[int]], writers: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """Return the settings with these schema ids besides their own: values that were accepted once stay readable.

        The number that is written stays the first; the others are in order, whoever has found which first.

        Args:
            more: Ids of the application's schemas, by the names of the schemas.
            writers: Schemas of other writers by id.
        """
        ids: dict[str, tuple[int, ...]] = {}
        for name in (*self.schema_ids, *more):
            first, *others = (*self.schema_ids.get(name, ()), *more.get(name, ()))
            ids[name] = (first, *sorted(set(others) - {first}))
        found = {**writers, **self.writer_schemas}
        schemas = {schema_id: found[schema_id] for schema_id in sorted(found, key=int)}
        if ids == self.schema_ids and schemas == self.writer_schemas:
            return self
        update = {"schema_ids": MappingProxyType(ids), "writer_schemas": MappingProxyType(schemas)}
        return self.model_copy(update=update)

    def to_json(self) -> str:
        """Return the canonical text: keys sorted, no spaces, floats as Python's `repr` writes them."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values; it writes a text of its own."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_json", None)
        return copied

    @staticmethod
    def from_json(text: str) -> "TaskSettings":
        """Read the settings from text that `to_json` wrote.

        Raises:
            StateError: The text is damaged, or names a setting or method that this version does not have.
        """
        try:
            return _from_json(text)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StateError(f"the stored configuration cannot be read: {first_line(error)}") from error


@lru_cache(maxsize=2)
def _from_json(text: str) -> TaskSettings:
    """Return the settings: the tasks of a worker share them, since each has stored the settings of all streams."""
    return TaskSettings.model_validate(json.loads(text))
