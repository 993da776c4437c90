"""The whole configuration of one process, section by section.

`Config` is what one process runs with. The part that changes a result is `TaskSettings`, in `task_settings`.
"""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from stream_app.config.client_settings import ClientName, ClientValue, redact
from stream_app.config.column_settings import Columns, MissingValues, column_conflicts, width_of
from stream_app.config.decision_settings import CostSettings, Threshold, ThresholdSettings, decision_conflicts
from stream_app.config.drift_settings import DriftSettings
from stream_app.config.lane_settings import lane_conflicts
from stream_app.config.learner_settings import LearnerOverrides, LearnerSettings, no_such_setting
from stream_app.config.messages import or_nearest
from stream_app.config.serialization_settings import SerializationSettings, serialization_conflicts
from stream_app.config.task_settings import (
    JoinSettings,
    LimitSettings,
    MetricSettings,
    PassHeaders,
    Predictions,
    StreamSettings,
    TaskSettings,
    UnknownStreams,
)
from stream_app.config.topics import FullTopicName, TopicPrefix, TopicRole, Topics, same_names, usual_topics
from stream_app.config.values import (
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
from stream_app.lanes import MAX_LANES, MIN_LANES, lane_names, lane_of
from stream_app.records import MAX_LEARNERS


def _host() -> str:
    """Return the name of this machine in characters that a topic's name may have."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", platform.node())[:100] or "worker"


class ApplicationSettings(Settings):
    """The names of the application and of this process.

    Attributes:
        id: The consumer group, a part of the seed of each learner, and a part of the names of the application's topics.
        instance: The name of this worker among all workers; by default the name of the host.
    """

    id: TopicName = "areba"
    instance: Annotated[TopicName, Change.FREE] = Field(default_factory=_host)


class _KafkaSettings(Settings):
    """The brokers, the prefixes of topics, and settings of librdkafka by their own names.

    Attributes:
        bootstrap_servers: Addresses of some brokers.
        topic_prefix: Prefix of the names of all topics.
        input_prefix: Prefix of the examples and labels topics, which applications may share; by default `topic_prefix`.
        output_prefix: Prefix of the predictions, outcomes, metrics and dead-letters topics, which no two applications
            may share; by default `topic_prefix`.
        topics: Full names of topics that exist already or follow another custom, without the prefixes. Keys:
            `examples`, `labels`, `predictions`, `outcomes`, `metrics`, `dead_letters`, `changelog`, `progress`.
        all: Settings of every client.
        consumer: Settings of consumers.
        producer: Settings of producers.
    """

    change: ClassVar[Change] = Change.FREE

    bootstrap_servers: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] = "127.0.0.1:9092"
    topic_prefix: TopicPrefix = ""
    input_prefix: TopicPrefix | None = None
    output_prefix: TopicPrefix | None = None
    topics: Frozen[TopicRole, FullTopicName] = Field(default_factory=dict)
    all: Frozen[ClientName, ClientValue] = Field(default_factory=dict)
    consumer: Frozen[ClientName, ClientValue] = Field(default_factory=dict)
    producer: Frozen[ClientName, ClientValue] = Field(default_factory=dict)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from redact(self.model_dump()).items()


_LogFormat: TypeAlias = Literal["text", "json"]


class WorkerSettings(Settings):
    """How a process works; no result depends on these settings.

    Attributes:
        commit_interval_ms: Time from the beginning of a transaction to the beginning of the next: shorter if a full
            batch waits, and never less than 5/4 of the time that the transaction took. On average, a prediction takes
            half of it and one transaction.
        max_batch_records: Most records of one task in one transaction: an aborted transaction repeats no more.
        buffer_bytes: Most bytes of fetched records of one partition that wait for the other input; when there are more,
            the partition is paused.
        start_timeout_ms: How long a starting worker waits for the brokers.
        restore_timeout_ms: A task is parked when its restore makes no progress for this time.
        snapshot_after_ms: Processing time after which a snapshot is taken: about what a restore repeats. Snapshots that
            take long are taken less often, so that they cost at most a twentieth of the time. 0 takes one after
            every transaction.
        snapshot_when_idle_ms: Time without new records after which a task saves what it has not saved, at most once a
            minute.
        max_restarts: How often within an hour a process restarts itself before it ends with exit status 4; 0 is never.
        max_unlabelled_share: A warning is logged when more than this share of a stream's newest closed examples ended
            without a label; 1 is never.
        log_format: Format of the log's lines: `text`, or `json` with one object for each line.
        http_port: Port that serves `/alive`, `/ready` and `/metrics`; 0 takes a free port and logs it; by default
            no port is open.
        http_host: Address of this machine that the port belongs to.
    """

    change: ClassVar[Change] = Change.FREE

    commit_interval_ms: Annotated[Integer, Field(ge=0, le=5_000)] = 10  # half of transaction.timeout.ms
    max_batch_records: Annotated[Integer, Field(ge=1, le=1_000_000)] = 10_000
    buffer_bytes: Annotated[Integer, Field(ge=1 << 16, le=1 << 34)] = 1 << 26
    start_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 60_000
    restore_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 60_000
    snapshot_after_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = 500
    snapshot_when_idle_ms: Annotated[Integer, Field(ge=100, le=3_600_000)] = 2_000
    max_restarts: Annotated[Integer, Field(ge=0, le=1_000)] = 10
    max_unlabelled_share: Annotated[Number, Field(ge=0, le=1)] = 0.5
    log_format: _LogFormat = "text"
    http_port: Annotated[Integer, Field(ge=0, le=65_535)] | None = None
    http_host: Annotated[str, StringConstraints(pattern=r"^\S{1,253}$")] = "127.0.0.1"


class BreakerSettings(Settings):
    """When malformed records stop their stream; each stream is counted by itself, and each input by itself.

    Attributes:
        in_a_row: The stream stops after this number of malformed records in a row.
        share: The stream stops when more than this share of its records is malformed.
        share_after_records: `share` counts only after this number of records from the first malformed record on.
    """

    change: ClassVar[Change] = Change.FREE

    in_a_row: Annotated[Integer, Field(ge=1, le=1_000_000_000)] = 100
    share: Annotated[Number, Field(gt=0, le=1)] = 0.05
    share_after_records: Annotated[Integer, Field(ge=1, le=1_000_000_000_000)] = 10_000


class _StreamOverrides(LearnerOverrides):
    """A stream as the file has it. Settings of learners apply to all learners of the stream.

    Attributes:
        features: Number of features of an example; None takes the number of the first example.
        lanes: Over how many streams of the same settings the examples are spread by their ids (`stream_app.lanes`);
            None: over none.
        columns: The columns of an example by name, instead of `features`: each is `number`, or a section.
        missing_values: Numbers and texts that stand for a missing value in any column.
        champion: The first champion; None takes the first entry of `learners` in `Config`.
        costs: What errors cost; None: the cost of decisions is not counted.
        threshold: From when on an example is predicted as class 1.
        drift: How drift is found without labels; None: it is not looked for.
        learners: Settings for one learner by its name; they override the settings of the stream.
    """

    features: Features | None = None
    lanes: Annotated[Integer, Field(ge=MIN_LANES, le=MAX_LANES)] | None = None
    columns: Columns = Field(default_factory=dict)
    missing_values: MissingValues = ()
    champion: LearnerName | None = None
    costs: CostSettings | None = None
    threshold: Threshold = ThresholdSettings()
    drift: DriftSettings | None = None
    learners: Frozen[LearnerName, LearnerOverrides] = Field(default_factory=dict)


class _Conflict(NamedTuple):
    """A setting that contradicts another one, and the line that says so."""

    path: tuple[str, ...]
    message: str


class ConflictsError(ValueError):
    """Settings contradict one another, though each of them is valid."""

    def __init__(self, conflicts: list[_Conflict]) -> None:
        self.conflicts = conflicts
        super().__init__("; ".join(f"{'.'.join(path)}: {message}" for path, message in conflicts))


class Config(Settings):
    """The whole configuration of one process; its `repr` shows no secret.

    Attributes:
        application: See `ApplicationSettings`.
        kafka: See `_KafkaSettings`.
        serialization: See `SerializationSettings`.
        worker: See `WorkerSettings`.
        join: See `JoinSettings`.
        metrics: See `MetricSettings`.
        limits: See `LimitSettings`.
        breaker: See `BreakerSettings`.
        unknown_streams: What a record of a stream that `streams` does not name becomes: a dead letter, or the first
            record of a new model with the learners below.
        predictions: Whose predictions are published.
        pass_headers: Names of at most 8 headers of an example, such as `[tenant, correlation-id]`, that are copied to
            its predictions and outcomes; `[]`: none. A larger header than 256 bytes (name and value) is dropped, and
            so is a header with which those of the record are larger than 1,024 bytes.
        learners: The learners by name, at most 16; their order is that of the outputs, and the first is the champion
            unless a stream says otherwise.
        streams: The streams by name, each with `features` or `columns`, `missing_values`, `lanes`, `champion`, `costs`,
            `threshold`, `drift`, any setting of a learner, and `learners` for settings of one learner.
    """

    application: ApplicationSettings = Field(default_factory=ApplicationSettings)
    kafka: _KafkaSettings = Field(default_factory=_KafkaSettings)
    serialization: SerializationSettings = Field(default_factory=SerializationSettings)
    worker: WorkerSettings = WorkerSettings()
    join: JoinSettings = JoinSettings()
    metrics: MetricSettings = MetricSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
    unknown_streams: UnknownStreams = "dead-letter"
    predictions: Predictions = "champion"
    pass_headers: PassHeaders = ()
    learners: Annotated[Frozen[LearnerName, LearnerSettings], Field(min_length=1, max_length=MAX_LEARNERS)] = Field(
        default_factory=lambda: {name: LearnerSettings(method=name) for name in ("areba", "baseline")}
    )
    streams: Frozen[StreamName, _StreamOverrides] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        conflicts = list(_conflicts(self))
        if conflicts:
            raise ConflictsError(conflicts)
        return self

    # Every name on the broker is made here. No part of a name may contain "/", so names with "/" between their parts
    # never collide: fraud/eu-w1 is not fraud-eu/w1, and no instance is called dlq/resend.

    @property
    def transactional_id_prefix(self) -> str:
        """The beginning of all transactional ids of the application, and of no other."""
        return f"{self.application.id}/"

    @property
    def transactional_id(self) -> str:
        """The transactional id of the worker: the same after a restart, so that a new process fences the former one."""
        return self.transactional_id_prefix + self.application.instance

    @property
    def resend_transactional_id(self) -> str:
        """The transactional id of `areba dlq resend`: a new run fences the former one."""
        return f"{self.application.id}/dlq/resend"

    @property
    def tools_transactional_id(self) -> str:
        """The transactional id of all commands that write to progress: a new command fences the former one."""
        return f"{self.application.id}/tools/progress"

    @property
    def group_id(self) -> str:
        """The consumer group of the workers."""
        return self.application.id

    @property
    def log_reader_group_id(self) -> str:
        """The group id of readers of single partitions; the group has no members and no offsets."""
        return f"{self.application.id}/log-reader"

    @property
    def topics(self) -> Topics:
        """The full names of all topics."""
        kafka = self.kafka
        inputs = kafka.topic_prefix if kafka.input_prefix is None else kafka.input_prefix
        outputs = kafka.topic_prefix if kafka.output_prefix is None else kafka.output_prefix
        usual = usual_topics(inputs, outputs, f"{kafka.topic_prefix}{self.application.id}-")
        return usual._replace(**{str(topic): name for topic, name in kafka.topics.items()})

    @property
    def record_streams(self) -> Mapping[str, str]:
        """The streams that records name, each with the entry of `streams` that describes it.

        A stream with lanes is there once for each lane, and not by its own name.
        """
        return {name: stream for stream in self.streams for name in self.names_of(stream)}

    def names_of(self, stream: str) -> Sequence[str]:
        """Return what records name a stream: its lanes, or the stream itself if it has none."""
        settings = self.streams.get(stream)
        return (stream,) if settings is None or settings.lanes is None else lane_names(stream, settings.lanes)

    def name_of(self, stream: str, id_: str) -> str:
        """Return what the records of an id name as their stream: its lane, or the stream itself if it has none."""
        settings = self.streams.get(stream)
        return stream if settings is None or settings.lanes is None else lane_of(stream, settings.lanes, id_)

    def stream_settings(self, stream: str) -> _StreamOverrides | None:
        """Return what the file says about a stream or about the stream of a lane; None: nothing."""
        return self.streams.get(self.record_streams.get(stream, stream))

    def task_settings(self) -> TaskSettings:
        """Return the part that changes a result, with all settings of each stream's learners."""
        resolved = {name: self._resolved(stream) for name, stream in self.streams.items()}
        return TaskSettings(
            application_id=self.application.id,
            join=self.join,
            metrics=self.metrics,
            limits=self.limits,
            unknown_streams=self.unknown_streams,
            predictions=self.predictions,
            wire_format=self.serialization.wire_format,
            schema_ids=self.serialization.schema_ids,
            writer_schemas=self.serialization.writer_schemas,
            label_classes=self.serialization.label_classes,
            pass_headers=self.pass_headers,
            streams={name: resolved[configured] for name, configured in self.record_streams.items()},
            default_stream=self._resolved(_StreamOverrides()),
        )

    def with_schema_ids(self, ids: Mapping[str, Sequence[int]], writers: Mapping[str, str]) -> Self:
        """Return the configuration with these schema ids from a registry, and with these schemas of other writers."""
        own = MappingProxyType({name: tuple(own) for name, own in ids.items()})
        others = MappingProxyType({**writers, **self.serialization.writer_schemas})
        update = {"schema_ids": own, "writer_schemas": others}
        return self.model_copy(update={"serialization": self.serialization.model_copy(update=update)})

    def _resolved(self, stream: _StreamOverrides) -> StreamSettings:
        none = LearnerOverrides()
        learners = {
            name: stream.learners.get(name, none).applied_to(stream.applied_to(settings))
            for name, settings in self.learners.items()
        }
        # The parts are valid already.
        return StreamSettings.model_construct(
            features=width_of(stream.columns) if stream.columns else stream.features,
            columns=stream.columns,
            missing_values=stream.missing_values,
            champion=stream.champion or next(iter(self.learners)),
            costs=stream.costs,
            threshold=stream.threshold,
            drift=stream.drift,
            learners=MappingProxyType(learners),
        )


def _conflicts(config: Config) -> Iterator[_Conflict]:
    """Yield the settings that contradict one another."""
    for setting, message in serialization_conflicts(config.serialization):
        yield _Conflict(("serialization", setting), message)
    for topic, message in same_names(config.topics):
        yield _Conflict(("kafka", "topics", topic), message)
    limits = config.limits
    if config.worker.buffer_bytes < limits.max_record_bytes:
        message = f"must be at least limits.max_record_bytes ({limits.max_record_bytes})"
        yield _Conflict(("worker", "buffer_bytes"), f"{message}, is {config.worker.buffer_bytes}")
    lanes = {name: stream.lanes for name, stream in config.streams.items()}
    yield from (_Conflict(("streams", name, "lanes"), message) for name, message in lane_conflicts(lanes))
    if (count := len(config.record_streams)) > limits.max_streams_per_task:
        message = f"must allow the {count} configured streams, is {limits.max_streams_per_task}"
        yield _Conflict(("limits", "max_streams_per_task"), message)
    yield from _stream_conflicts(config)


def _stream_conflicts(config: Config) -> Iterator[_Conflict]:
    for name, stream in config.streams.items():
        path = ("streams", name)
        for setting, message in column_conflicts(stream, config.limits.max_features):
            yield _Conflict((*path, setting), message)
        for setting, message in decision_conflicts(stream.threshold, stream.costs, stream.columns):
            yield _Conflict((*path, setting), message)
        for setting in stream.without_effect(settings.method for settings in config.learners.values()):
            yield _Conflict((*path, setting), "no learner's method has such a setting")
        for learner, overrides in stream.learners.items():
            if learner not in config.learners:
                message = f"there is no learner {learner!r}{or_nearest(learner, config.learners)}"
                yield _Conflict((*path, "learners", learner), message)
                continue
            method = config.learners[learner].method
            for setting in overrides.without_effect([method]):
                yield _Conflict((*path, "learners", learner, setting), no_such_setting(method, setting))
        if stream.champion is not None and stream.champion not in config.learners:
            message = f"there is no learner {stream.champion!r}{or_nearest(stream.champion, config.learners)}"
            yield _Conflict((*path, "champion"), message)
