"""One YAML file and the environment become one frozen, validated `Config`.

The file has sections (`join: {ttl_ms: ...}`). A variable `AREBA__JOIN__TTL_MS` (or `AREBA_JOIN__TTL_MS`) goes before
the file: sections and keys in capitals, joined by two underscores. In a section of librdkafka settings one underscore
stands for a dot (`AREBA__KAFKA__ALL__SASL_PASSWORD` is `kafka.all.sasl.password`). Names of streams and learners are
found whatever their case, with an underscore for a hyphen.

`Config` is what one process runs with. `TaskSettings` is the part of it that changes a result: it is stored in the
progress topic as `to_json` writes it, and `changes` says what a running application may take over.
"""

import difflib
import json
import platform
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WrapSerializer,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticKnownError

from stream_app.errors import ConfigurationError, StateError
from stream_app.records import MAX_LEARNERS, MAX_STREAM_BYTES

METHOD_SETTINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "areba": ("budget", "theta"),
        "qbr": ("budget",),
        "baseline": (),
        "sliding": ("window",),
        "adaptive_cs": ("cost", "largest_cost", "cost_interval_labels", "theta"),
        "oob": ("ensemble_size", "theta"),
        "uob": ("ensemble_size", "theta"),
        "oob_single": ("theta",),
    }
)
"""The learning methods there are, each with the settings that not every method has."""

_SOME_HAVE = frozenset(name for own in METHOD_SETTINGS.values() for name in own)

_OWN_HAVE = frozenset({"method", "options"})
"""What a user's own learner has: its class, and what that takes."""

METHODS = tuple(METHOD_SETTINGS)
"""Their names; `stream_app.learners` has a file for each."""

MAX_FILE_BYTES = 1 << 23
"""10,000 streams with every setting take 6 MB; a larger file is no configuration."""

MAX_DEPTH = 16
"""Nesting of the YAML file; ours needs 5. The parser recurses, so a limit keeps the interpreter's stack whole."""

SECRET = re.compile(
    r"password|secret|token|passphrase|credential|private|jaas|key\.pem|sasl\.oauthbearer\.config", re.IGNORECASE
)
"""Names of settings whose values never reach a log."""

REDACTED = "***"

OWN_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""`package.module:Class`."""

MAX_OPTIONS_BYTES = 10_000
"""A learner's `options` as JSON: they are stored with every change of the configuration."""

_EXACTLY_ONCE = "exactly-once delivery stands on it"
_CALLBACK = "takes a function; the worker has its own"

REFUSED_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap.servers": "has a key of its own: kafka.bootstrap_servers",
        "metadata.broker.list": "has a key of its own: kafka.bootstrap_servers",
        "enable.idempotence": f"always on: {_EXACTLY_ONCE}",
        "acks": f"always all: {_EXACTLY_ONCE}",
        "request.required.acks": f"always all: {_EXACTLY_ONCE}",
        "max.in.flight": "set by the idempotent producer: more than 5 may reorder records",
        "max.in.flight.requests.per.connection": "set by the idempotent producer: more than 5 may reorder records",
        "retries": "set by the idempotent producer: a record that is given up leaves a gap",
        "message.send.max.retries": "set by the idempotent producer: a record that is given up leaves a gap",
        "queuing.strategy": "always fifo: outputs leave in merge order",
        "msg_order_cmp": "outputs leave in merge order",
        "transactional.id": "made of application.id and application.instance: it fences the process before this one",
        "transaction.timeout.ms": "always 10000: exit codes and the wait after a crash are built on it",
        "message.timeout.ms": "follows transaction.timeout.ms: no record outlives its transaction",
        "delivery.timeout.ms": "follows transaction.timeout.ms: no record outlives its transaction",
        "isolation.level": "always read_committed: an aborted record must never be learned",
        "enable.auto.commit": "always off: offsets are committed by the transaction that holds their outputs",
        "auto.commit.enable": "always off: offsets are committed by the transaction that holds their outputs",
        "auto.commit.interval.ms": "there is no auto-commit; see worker.commit_interval_ms",
        "enable.auto.offset.store": "always off: offsets are committed by the transaction that holds their outputs",
        "offset.store.method": "always the broker: offsets are committed by the transaction that holds their outputs",
        "auto.offset.reset": "always error: a jump to another offset would lose records silently",
        "group.id": "is application.id",
        "group.instance.id": "a restarted worker needs a new member: its generation fences the one before",
        "group.protocol": "always classic: the eager assignor gives examples and labels of a partition to one worker",
        "group.remote.assignor": "always range: it gives examples and labels of a partition to one worker",
        "partition.assignment.strategy": "always range: it gives examples and labels of a partition to one worker",
        "enable.partition.eof": "always on: the merge has to know when a partition is at its end",
        "message.max.bytes": "sizes are checked against max.message.bytes of each topic",
        "batch.size": "always 1000000: topics are checked to take it",
        "partitioner": "outputs go to the partition of their inputs; producers of inputs use murmur2_random",
        "partitioner_cb": _CALLBACK,
        "default.topic.config": "is obsolete; its settings stand beside the others",
        "error_cb": _CALLBACK,
        "stats_cb": _CALLBACK,
        "throttle_cb": _CALLBACK,
        "oauth_cb": _CALLBACK,
        "rebalance_cb": _CALLBACK,
        "on_commit": _CALLBACK,
        "on_delivery": _CALLBACK,
        "dr_cb": _CALLBACK,
        "logger": _CALLBACK,
    }
)
"""librdkafka settings that carry a guarantee (or cannot be text), each with the reason why it is not for users."""


# Kinds of values ------------------------------------------------------------------------------------------------------


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, is {value}")  # noqa: TRY004  (pydantic collects ValueError)
    return value


def _client_name(name: str) -> str:
    if name in REFUSED_SETTINGS:
        raise ValueError(f"not for users to set: {REFUSED_SETTINGS[name]}")
    return name


def _client_value(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _empty(value: object) -> object:
    """A section whose lines are all commented out is null in YAML."""
    return {} if value is None else value


def _plain_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy; what JSON cannot hold (a date, infinity) would not come back from the progress topic as it was."""
    try:
        text = json.dumps(dict(options), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("may hold text, numbers, true, false, null, lists and maps only") from error
    if len(text) > MAX_OPTIONS_BYTES:
        raise ValueError(f"may have at most {MAX_OPTIONS_BYTES} bytes, has {len(text)}")
    return MappingProxyType(json.loads(text))


def _as_dict(value: Mapping[str, Any], handler: SerializerFunctionWrapHandler) -> Any:  # noqa: ANN401  (plain data)
    return handler(dict(value))


Item = TypeVar("Item")
Key = TypeVar("Key", bound=str)
Frozen: TypeAlias = Annotated[
    Mapping[Key, Item], BeforeValidator(_empty), AfterValidator(MappingProxyType), WrapSerializer(_as_dict)
]

Options: TypeAlias = Annotated[
    Mapping[str, Any], BeforeValidator(_empty), AfterValidator(_plain_options), WrapSerializer(_as_dict)
]

Integer: TypeAlias = Annotated[int, BeforeValidator(_number)]
Number: TypeAlias = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]

TopicName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,100}$")]
"""What Kafka allows in names of topics; two of them and a suffix stay below its 249 characters."""

LearnerName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]


def _stream_name(name: str) -> str:
    if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_STREAM_BYTES:
        raise ValueError(f"a stream's name has 1 to {MAX_STREAM_BYTES} bytes and no control characters")
    return name


StreamName: TypeAlias = Annotated[str, AfterValidator(_stream_name)]

ClientName: TypeAlias = Annotated[str, AfterValidator(_client_name)]
ClientValue: TypeAlias = Annotated[str, BeforeValidator(_client_value)]

Features: TypeAlias = Annotated[Integer, Field(ge=1, le=1_000_000)]
Budget: TypeAlias = Annotated[Integer, Field(ge=2, le=10_000, multiple_of=2)]
Theta: TypeAlias = Annotated[Number, Field(gt=0, lt=1)]
Window: TypeAlias = Annotated[Integer, Field(ge=1, le=10_000)]
Cost: TypeAlias = Annotated[Number, Field(ge=1, le=1e6)]
CostInterval: TypeAlias = Annotated[Integer, Field(ge=1, le=1_000_000_000)]
EnsembleSize: TypeAlias = Annotated[Integer, Field(ge=1, le=100)]
LearningRate: TypeAlias = Annotated[Number, Field(gt=0, le=1)]
Units: TypeAlias = Annotated[Integer, Field(ge=1, le=16_384)]
Hidden: TypeAlias = Annotated[tuple[Units, ...], Field(min_length=1, max_length=8)]
Penalty: TypeAlias = Annotated[Number, Field(ge=0, le=1)]
Scaler: TypeAlias = Literal["none", "standard"]
Network: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(dense|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]

DAY_MS = 86_400_000
MAX_MS = 3_653 * DAY_MS
"""Ten years: no label is later, and sums of times stay far inside 64 bits."""


class Settings(BaseModel):
    """A section: unknown keys are errors; nothing changes once it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_empty(cls, data: object) -> object:
        return _empty(data)


# What changes a result ------------------------------------------------------------------------------------------------


def is_own(method: str) -> bool:
    """Whether this is the path of a user's own learner and not a name of ours."""
    return OWN_CLASS.fullmatch(method) is not None


def has_setting(method: str, name: str) -> bool:
    """Whether the setting does something in learners of this method."""
    if is_own(method):
        return name in _OWN_HAVE
    if name == "options":
        return False
    return name not in _SOME_HAVE or method not in METHOD_SETTINGS or name in METHOD_SETTINGS[method]


def _no_such_setting(method: str, name: str) -> str:
    if is_own(method):
        return "a learner of your own has only options"
    having = [of for of, own in METHOD_SETTINGS.items() if name in own] or ["learners of your own"]
    return f"the method {method} has no such setting (it belongs to {', '.join(having)})"


class LearnerSettings(Settings):
    """One learner: a method and its hyper-parameters, named as in the paper (AREBA; compared methods).

    A method has the settings that `METHOD_SETTINGS` lists for it, and those from `learning_rate` on; what it does not
    have is refused.

    Attributes:
        method: One of `METHODS`, or `package.module:Class`: a learner of your own, which has `options` and no more.
        budget: B, the examples in both queues together; even.
        theta: Decay of the class sizes.
        window: W, the examples of the sliding window.
        cost: Of an error in a positive at first; of one in a negative it is 1.
        largest_cost: The most that a cost may become.
        cost_interval_labels: Labels from one change of the costs to the next.
        ensemble_size: Networks in the ensemble.
        learning_rate: Of Adam.
        hidden: Units of each hidden layer.
        l2: Weight of the sum of squared hidden-layer weights in the loss.
        scaler: `standard` keeps running means and deviations of the features, updated at prediction.
        network: `dense`, or `package.module:Class`, a `torch.nn.Module` that is trained through autograd.
        options: Of a learner of your own, passed on as they are.
    """

    model_config = ConfigDict(validate_default=False)

    method: str
    budget: Budget = 20
    theta: Theta = 0.99
    window: Window = 100
    cost: Cost = 19.0
    largest_cost: Cost = 50.0
    cost_interval_labels: CostInterval = 250
    ensemble_size: EnsembleSize = 20
    learning_rate: LearningRate = 0.01
    hidden: Hidden = (8,)
    l2: Penalty = 0.0
    scaler: Scaler = "none"
    network: Network = "dense"
    options: Options = Field(default_factory=lambda: MappingProxyType({}))

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Equal for learners that are made alike, but for `options`, which only learners of your own have."""
        return tuple([value for name, value in self.__dict__.items() if name != "options"])

    @field_validator("method")
    @classmethod
    def _known(cls, method: str, info: ValidationInfo) -> str:
        methods: tuple[str, ...] = (info.context or {}).get("methods", METHODS)
        if method not in methods and not is_own(method):
            raise ValueError(f"there is no method {method!r}{or_nearest(method, methods)}")
        return method

    @field_validator("*")
    @classmethod
    def _of_the_method(cls, value: object, info: ValidationInfo) -> object:
        """A setting that does nothing would deceive; a stored one of an older version is let pass."""
        method, name = info.data.get("method", ""), str(info.field_name)
        stored = (info.context or {}).get("stored", False)
        if name != "method" and method and not stored and not has_setting(method, name):
            raise ValueError(_no_such_setting(method, name))
        return value

    @model_serializer(mode="wrap")
    def _without_what_is_not_ours(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {name: value for name, value in plain.items() if has_setting(self.method, name)}


def _from_list(value: object) -> object:
    """`to_json` writes learners as a list, since their order is that of the outputs."""
    if isinstance(value, list):
        return {item["name"]: {key: item[key] for key in item if key != "name"} for item in value}
    return value


class StreamSettings(Settings):
    """A stream as it is run: every learner with all its settings.

    Attributes:
        features: Numbers in an example; None: as many as the first one has.
        champion: The learner whose predictions count.
        learners: In the configured order, which is that of the outputs.
    """

    features: Features | None = None
    champion: LearnerName
    learners: Annotated[Frozen[LearnerName, LearnerSettings], BeforeValidator(_from_list)]

    @model_validator(mode="after")
    def _champion_is_a_learner(self) -> Self:
        if self.champion not in self.learners:
            raise ValueError(f"champion: there is no learner {self.champion!r}")
        return self

    @field_serializer("learners")
    def _as_list(self, learners: Mapping[str, LearnerSettings]) -> list[dict[str, Any]]:
        return [{"name": name, **settings.model_dump(mode="json")} for name, settings in learners.items()]


MAX_HELD = 200_000
"""Examples, or labels, of one stream that wait: one record may close them all, in one transaction of ten seconds."""

MAX_HELD_BYTES = 1 << 26
"""Of the labels of one stream that wait, as dead letters: likewise."""

FORMER_MAX_HELD = 10_000_000
"""What older versions allowed, and recorded."""

Corrections: TypeAlias = Literal["first", "correct"]


class JoinSettings(Settings):
    """How long and how much the join remembers, per stream; times are event time.

    Attributes:
        ttl_ms: How long an example waits for its label, and a label for its example.
        max_clock_lead_ms: How far a producer's clock may run ahead before what is on time expires; the inputs'
            `message.timestamp.after.max.ms` must not be larger.
        max_pending_per_stream: Examples that wait for labels; the oldest is evicted above it.
        max_waiting_per_stream: Labels that wait for examples; the oldest becomes a dead letter above it.
        max_waiting_bytes_per_stream: Bytes of these: keys, values, headers, and 256 each for the headers of a dead
            letter; the oldest becomes a dead letter above it.
        max_closed_per_stream: Closed examples that are remembered, to tell repeats; the longest closed is forgotten.
        closed_ttl_ms: How long they are remembered.
        max_open_marks_per_stream: Marks that wait for their twins; the oldest is dropped above it.
        corrections: `first`: the first label of an example holds, one of another class is a dead letter; `correct`: a
            label of a higher revision corrects it.
    """

    ttl_ms: Annotated[Integer, Field(ge=1, le=MAX_MS)] = DAY_MS
    max_clock_lead_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = 3_600_000
    max_pending_per_stream: Annotated[Integer, Field(ge=1, le=FORMER_MAX_HELD)] = 100_000
    max_waiting_per_stream: Annotated[Integer, Field(ge=1, le=FORMER_MAX_HELD)] = 10_000
    max_waiting_bytes_per_stream: Annotated[Integer, Field(ge=1, le=MAX_HELD_BYTES)] = MAX_HELD_BYTES
    max_closed_per_stream: Annotated[Integer, Field(ge=0, le=100_000_000)] = 200_000
    closed_ttl_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = DAY_MS
    max_open_marks_per_stream: Annotated[Integer, Field(ge=1, le=1_000)] = 16
    corrections: Corrections = "first"

    @field_validator("max_pending_per_stream", "max_waiting_per_stream")
    @classmethod
    def _as_one_transaction_takes(cls, value: int, info: ValidationInfo) -> int:
        """A stored one of an older version is let pass."""
        if value > MAX_HELD and not (info.context or {}).get("stored", False):
            raise PydanticKnownError("less_than_equal", {"le": MAX_HELD})
        return value


ChangeDetector: TypeAlias = Literal["none", "hddm", "ddm"]


class MetricSettings(Settings):
    """When metrics are published, how fast their sums fade (1 never forgets), what finds a change (see `change`)."""

    every_labels: Annotated[Integer, Field(ge=1, le=1_000_000_000)] = 100
    fading_factor: Annotated[Number, Field(gt=0, le=1)] = 0.99
    change_detector: ChangeDetector = "hddm"


class LimitSettings(Settings):
    """Bounds on what comes in. `max_record_bytes` is a value's size, below Kafka's own default of 1 MiB."""

    max_streams_per_task: Annotated[Integer, Field(ge=1, le=100_000)] = 100
    max_record_bytes: Annotated[Integer, Field(ge=100, le=100_000_000)] = 1_000_000
    max_features: Features = 10_000


UnknownStreams: TypeAlias = Literal["dead-letter", "model"]
Predictions: TypeAlias = Literal["champion", "all"]


UNLIMITED_BYTES = 2**31 - 1
"""More than Kafka's protocol can say of a batch."""


class TaskSettings(Settings):
    """Everything that changes a result; equal settings and equal ranges give equal bytes.

    `application_id` is part of it, since random numbers are seeded with it. `default_stream` is that of streams which
    the configuration does not name (`unknown_streams` = `model`). `dead_letter_bytes` is no user's setting: it is the
    topic's `max.message.bytes`, see `left_out`.
    """

    application_id: TopicName
    join: JoinSettings = JoinSettings()
    metrics: MetricSettings = MetricSettings()
    limits: LimitSettings = LimitSettings()
    unknown_streams: UnknownStreams = "dead-letter"
    predictions: Predictions = "champion"
    dead_letter_bytes: Annotated[Integer, Field(ge=0)] = UNLIMITED_BYTES
    streams: Frozen[StreamName, StreamSettings] = Field(default_factory=dict)
    default_stream: StreamSettings

    def of_stream(self, name: str) -> StreamSettings:
        """Those of a stream that has a model."""
        return self.streams.get(name, self.default_stream)

    def to_json(self) -> str:
        """The one text for these settings: keys sorted, no spaces, floats as Python's repr writes them."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str, methods: tuple[str, ...] = METHODS) -> Self:
        """Read what `to_json` wrote.

        Raises:
            StateError: It is not such a text, or names what this version does not have.
        """
        try:
            return cls.model_validate(json.loads(text), context={"methods": methods, "stored": True})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StateError(f"the stored configuration cannot be read: {_first_line(error)}") from error


class Running(NamedTuple):
    """A stream that has state, as far as a change of its settings must know it.

    Attributes:
        features: Numbers in an example; 0: none has come.
        champion: The learner whose predictions count now.
        awaited: Learners of whose predictions, made as champion, some still wait for a label.
    """

    features: int
    champion: str
    awaited: frozenset[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two `TaskSettings`, as far as anything here depends on it.

    Attributes:
        taken_over: One line for each setting that holds from now on, or begins a learner afresh.
        refused: One line for each that a running application cannot take over; empty when the new settings may be used.
    """

    taken_over: tuple[str, ...]
    refused: tuple[str, ...]


# What one process runs with -------------------------------------------------------------------------------------------


def _host() -> str:
    return re.sub(r"[^a-zA-Z0-9._-]", "-", platform.node())[:100] or "worker"


class ApplicationSettings(Settings):
    """The application's name, and that of this process among its workers (the host's name by default)."""

    id: TopicName = "areba"
    instance: TopicName = Field(default_factory=_host)


TopicPrefix: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{0,100}$")]


class KafkaSettings(Settings):
    """Where the brokers are, and librdkafka settings by their own names: for all clients, or for one kind of them.

    Attributes:
        bootstrap_servers: Addresses of some brokers.
        topic_prefix: Before the names of all topics.
        input_prefix: Before those of examples and labels; None: `topic_prefix`. Applications may share inputs.
        output_prefix: Before those of predictions, outcomes, metrics and dead letters; None: `topic_prefix`. Each
            application needs its own.
        all: Settings of every client.
        consumer: Settings of consumers.
        producer: Settings of producers.
    """

    bootstrap_servers: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] = "127.0.0.1:9092"
    topic_prefix: TopicPrefix = ""
    input_prefix: TopicPrefix | None = None
    output_prefix: TopicPrefix | None = None
    all: Frozen[ClientName, ClientValue] = Field(default_factory=dict)
    consumer: Frozen[ClientName, ClientValue] = Field(default_factory=dict)
    producer: Frozen[ClientName, ClientValue] = Field(default_factory=dict)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from _redact(self.model_dump()).items()


class WorkerSettings(Settings):
    """How a process does its work; no result depends on it.

    Attributes:
        commit_interval_ms: Time from one transaction to the next; with exactly-once, latency is about this.
        max_batch_records: Records of one task in one transaction: bounds what an abort re-processes.
        buffer_bytes: Fetched records of one partition that wait for the other side; above it the partition is paused.
        start_timeout_ms: Patience with the brokers and topics at start.
        restore_timeout_ms: A restore without progress for so long parks the task.
        snapshot_after_ms: Processing that a restore would repeat before a snapshot is taken; a dear snapshot is taken
            less often, so that all of them cost at most a twentieth of the time. 0: always one.
        max_restarts: How often a process starts afresh by itself (exit status 4) within an hour; 0: never.
        max_unlabelled_share: Of the newest examples of a stream that were closed; where more of them ended without a
            label, a warning says so. 1: never.
        http_port: Where `/alive`, `/ready` and `/metrics` answer; 0: any free port, see the log; None: nowhere.
        http_host: The address of this machine that they answer at.
    """

    commit_interval_ms: Annotated[Integer, Field(ge=0, le=5_000)] = 10  # half of transaction.timeout.ms
    max_batch_records: Annotated[Integer, Field(ge=1, le=1_000_000)] = 10_000
    buffer_bytes: Annotated[Integer, Field(ge=1 << 16, le=1 << 34)] = 1 << 26
    start_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 60_000
    restore_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 60_000
    snapshot_after_ms: Annotated[Integer, Field(ge=0, le=MAX_MS)] = 2_000
    max_restarts: Annotated[Integer, Field(ge=0, le=1_000)] = 10
    max_unlabelled_share: Annotated[Number, Field(ge=0, le=1)] = 0.5
    http_port: Annotated[Integer, Field(ge=0, le=65_535)] | None = None
    http_host: Annotated[str, StringConstraints(pattern=r"^\S{1,253}$")] = "127.0.0.1"


class BreakerSettings(Settings):
    """When unreadable records pause a task: so many of an input in a row, or a share of them once there were enough."""

    in_a_row: Annotated[Integer, Field(ge=1, le=1_000_000_000)] = 100
    share: Annotated[Number, Field(gt=0, le=1)] = 0.05
    share_after_records: Annotated[Integer, Field(ge=1, le=1_000_000_000_000)] = 10_000


class LearnerOverrides(Settings):
    """Learner settings that a stream has of its own; None: as configured in `learners`."""

    budget: Budget | None = None
    theta: Theta | None = None
    window: Window | None = None
    cost: Cost | None = None
    largest_cost: Cost | None = None
    cost_interval_labels: CostInterval | None = None
    ensemble_size: EnsembleSize | None = None
    learning_rate: LearningRate | None = None
    hidden: Hidden | None = None
    l2: Penalty | None = None
    scaler: Scaler | None = None
    network: Network | None = None
    options: Options | None = None

    def applied_to(self, settings: LearnerSettings) -> LearnerSettings:
        """The learner's settings with those that are given here put in."""
        own = {
            name: getattr(self, name) for name in LearnerOverrides.model_fields if has_setting(settings.method, name)
        }
        return settings.model_copy(update={name: value for name, value in own.items() if value is not None})

    def without_effect(self, methods: Iterable[str]) -> Iterator[str]:
        """Those given here that none of these methods has."""
        known = list(methods)
        for name in LearnerOverrides.model_fields:
            if getattr(self, name) is not None and not any(has_setting(method, name) for method in known):
                yield name


class StreamOverrides(LearnerOverrides):
    """A stream of the file: what is set beside `features` holds for all its learners, `learners` for one by name."""

    features: Features | None = None
    champion: LearnerName | None = None
    learners: Frozen[LearnerName, LearnerOverrides] = Field(default_factory=dict)


class Topics(NamedTuple):
    """Full names of an application's topics."""

    examples: str
    labels: str
    predictions: str
    outcomes: str
    metrics: str
    dead_letters: str
    changelog: str
    progress: str


class _Conflict(NamedTuple):
    path: tuple[str, ...]
    message: str


class _ConflictsError(ValueError):
    """Settings that are right one by one but not together."""

    def __init__(self, conflicts: list[_Conflict]) -> None:
        self.conflicts = conflicts
        super().__init__("; ".join(f"{'.'.join(path)}: {message}" for path, message in conflicts))


class Config(Settings):
    """The whole configuration of one process; its repr and `redacted()` show no secret."""

    application: ApplicationSettings = Field(default_factory=ApplicationSettings)
    kafka: KafkaSettings = Field(default_factory=KafkaSettings)
    worker: WorkerSettings = WorkerSettings()
    join: JoinSettings = JoinSettings()
    metrics: MetricSettings = MetricSettings()
    limits: LimitSettings = LimitSettings()
    breaker: BreakerSettings = BreakerSettings()
    unknown_streams: UnknownStreams = "dead-letter"
    predictions: Predictions = "champion"
    learners: Annotated[Frozen[LearnerName, LearnerSettings], Field(min_length=1, max_length=MAX_LEARNERS)] = Field(
        default_factory=lambda: {name: LearnerSettings(method=name) for name in ("areba", "baseline")}
    )
    streams: Frozen[StreamName, StreamOverrides] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _settings_agree(self) -> Self:
        conflicts = list(_conflicts(self))
        if conflicts:
            raise _ConflictsError(conflicts)
        return self

    # Every name on the broker is made here. No setting in a name may contain "/", so "/" keeps two names apart:
    # fraud/eu-w1 is not fraud-eu/w1, and no instance is called dlq/replay.

    @property
    def transactional_id(self) -> str:
        """Of the worker; stable over restarts: a new process of this name fences the process before."""
        return f"{self.application.id}/{self.application.instance}"

    @property
    def replay_transactional_id(self) -> str:
        """Of `areba dlq replay`: a new run fences the run before."""
        return f"{self.application.id}/dlq/replay"

    @property
    def group_id(self) -> str:
        """The consumer group of the workers."""
        return self.application.id

    @property
    def log_reader_group_id(self) -> str:
        """The group that readers of single partitions name; it has no members and no offsets."""
        return f"{self.application.id}/log-reader"

    @property
    def topics(self) -> Topics:
        """Names with their prefixes."""
        kafka = self.kafka
        inputs = kafka.topic_prefix if kafka.input_prefix is None else kafka.input_prefix
        outputs = kafka.topic_prefix if kafka.output_prefix is None else kafka.output_prefix
        own = kafka.topic_prefix + self.application.id
        return Topics(
            examples=f"{inputs}examples",
            labels=f"{inputs}labels",
            predictions=f"{outputs}predictions",
            outcomes=f"{outputs}outcomes",
            metrics=f"{outputs}metrics",
            dead_letters=f"{outputs}dead-letters",
            changelog=f"{own}-changelog",
            progress=f"{own}-progress",
        )

    def task_settings(self) -> TaskSettings:
        """The part that changes a result, every stream with its learners resolved."""
        return TaskSettings(
            application_id=self.application.id,
            join=self.join,
            metrics=self.metrics,
            limits=self.limits,
            unknown_streams=self.unknown_streams,
            predictions=self.predictions,
            streams={name: self._resolved(stream) for name, stream in self.streams.items()},
            default_stream=self._resolved(StreamOverrides()),
        )

    def _resolved(self, stream: StreamOverrides) -> StreamSettings:
        none = LearnerOverrides()
        learners = {
            name: stream.learners.get(name, none).applied_to(stream.applied_to(settings))
            for name, settings in self.learners.items()
        }
        # Not validated again: its parts are, and a method that was passed to `load` is unknown here.
        return StreamSettings.model_construct(
            features=stream.features,
            champion=stream.champion or next(iter(self.learners)),
            learners=MappingProxyType(learners),
        )

    def redacted(self) -> dict[str, Any]:
        """Plain data for logs and for `areba config`: secrets are replaced by stars."""
        return _redact(self.model_dump(mode="json", exclude_none=True))


def _conflicts(config: Config) -> Iterator[_Conflict]:
    limits = config.limits
    if config.worker.buffer_bytes < limits.max_record_bytes:
        message = f"must be at least limits.max_record_bytes ({limits.max_record_bytes})"
        yield _Conflict(("worker", "buffer_bytes"), f"{message}, is {config.worker.buffer_bytes}")
    if len(config.streams) > limits.max_streams_per_task:
        message = f"must allow the {len(config.streams)} configured streams, is {limits.max_streams_per_task}"
        yield _Conflict(("limits", "max_streams_per_task"), message)
    for name, stream in config.streams.items():
        path = ("streams", name)
        if stream.features is not None and stream.features > limits.max_features:
            message = f"must be at most limits.max_features ({limits.max_features}), is {stream.features}"
            yield _Conflict((*path, "features"), message)
        for setting in stream.without_effect(settings.method for settings in config.learners.values()):
            yield _Conflict((*path, setting), "no learner's method has such a setting")
        for learner, overrides in stream.learners.items():
            if learner not in config.learners:
                message = f"there is no learner {learner!r}{or_nearest(learner, config.learners)}"
                yield _Conflict((*path, "learners", learner), message)
                continue
            method = config.learners[learner].method
            for setting in overrides.without_effect([method]):
                yield _Conflict((*path, "learners", learner, setting), _no_such_setting(method, setting))
        if stream.champion is not None and stream.champion not in config.learners:
            message = f"there is no learner {stream.champion!r}{or_nearest(stream.champion, config.learners)}"
            yield _Conflict((*path, "champion"), message)


def _redact(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _redact(value) if isinstance(value, Mapping) else REDACTED if SECRET.search(name) else value
        for name, value in data.items()
    }


# Changes of a running application -------------------------------------------------------------------------------------


_WAY_OUT = (
    "set it back, or start another application.id with another kafka.output_prefix on the same inputs (`areba state "
    "import` gives it this application's models)"
)

_HOLDS = "holds from now on"
_AFRESH = "starts afresh"

TASK_SETTINGS_TAKEN_OVER = frozenset(
    {
        "predictions",
        "unknown_streams",
        "dead_letter_bytes",
        "metrics.every_labels",
        "metrics.change_detector",
        "limits.max_streams_per_task",
    }
)
"""Of a whole task: what records that came before have become does not depend on them."""

LEARNER_SETTINGS_TAKEN_OVER = frozenset({"theta", "learning_rate", "l2", "largest_cost", "cost_interval_labels"})
"""Rates: the learner goes on with its state. Any other setting shapes the state, so the learner starts afresh."""


def changes(old: TaskSettings, new: TaskSettings, running: Mapping[str, Running]) -> Changes:
    """What a running application with settings `old` does with `new`.

    What was published stays told by inputs and progress, since the new settings are recorded there. Refused is what
    would leave state behind that they do not fit.

    Args:
        old: The settings in force.
        new: Those of the file.
        running: The streams that have state; of others, everything may change.
    """
    taken = [f"streams.{name}: is new" for name in new.streams if name not in old.streams]
    refused = [f"streams.{name}: was removed: {_WAY_OUT}" for name in old.streams if name not in new.streams]
    apart = {"streams", "default_stream"}
    before, after = (_leaves(settings.model_dump(mode="json", exclude=apart)) for settings in (old, new))
    for key, value in after.items():
        if before.get(key) != value:
            text = f"{key}: {before.get(key)} -> {value}"
            if key in TASK_SETTINGS_TAKEN_OVER or _must_be_lowered(key, before.get(key)):
                taken.append(f"{text} {_HOLDS}")
            else:
                refused.append(f"{text} would change results: {_WAY_OUT}")
    streams_of: dict[_StreamChange, list[str]] = {}
    for name, now in running.items():
        one, two = (settings.of_stream(name) for settings in (old, new))
        for change in _stream_changes(one, two, now):
            streams_of.setdefault(change, []).append(name)
    for change, names in sorted(streams_of.items()):
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        (refused if change.is_refused else taken).append(f"{change.text} (streams: {shown}) {change.outcome}")
    return Changes(tuple(taken), tuple(refused))


def _must_be_lowered(key: str, value: object) -> bool:
    """Whether an older version took a value that a file may not have any more: it cannot be set back."""
    bounds = ("join.max_pending_per_stream", "join.max_waiting_per_stream")
    return key in bounds and isinstance(value, int) and value > MAX_HELD


class _StreamChange(NamedTuple):
    """One setting; it may have changed for fifty streams at once."""

    text: str
    outcome: str
    is_refused: bool


def _stream_changes(old: StreamSettings, new: StreamSettings, now: Running) -> Iterator[_StreamChange]:
    if old.features != new.features:
        fits = not now.features or new.features in (None, now.features)
        outcome = _HOLDS if fits else f"cannot be: its examples have {now.features} numbers. Use another stream name"
        yield _StreamChange(f"features: {old.features} -> {new.features}", outcome, not fits)
    if new.champion not in {old.champion, now.champion}:
        text = f"champion: {old.champion} -> {new.champion}"
        yield _StreamChange(text, f"needs a mark: `areba promote STREAM {new.champion}`; set it back until then", True)
    yield from _removals(old, new, now)
    if [name for name in old.learners if name in new.learners] != [
        name for name in new.learners if name in old.learners
    ]:
        yield _StreamChange(f"learners: {', '.join(old.learners)} -> {', '.join(new.learners)}", _HOLDS, False)
    for name, settings in new.learners.items():
        if name not in old.learners:
            yield _StreamChange(f"learners.{name}: is new", "begins here", False)
            continue
        before, after = _leaves(old.learners[name].model_dump(mode="json")), _leaves(settings.model_dump(mode="json"))
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                outcome = _HOLDS if key in LEARNER_SETTINGS_TAKEN_OVER else _AFRESH
                yield _StreamChange(f"learners.{name}.{key}: {before.get(key)} -> {after.get(key)}", outcome, False)


def _removals(old: StreamSettings, new: StreamSettings, now: Running) -> Iterator[_StreamChange]:
    for name in old.learners:
        if name in new.learners:
            continue
        if name == now.champion:
            yield _StreamChange(f"learners.{name}: was removed", "but is the champion: promote another one first", True)
        elif name in now.awaited:
            outcome = "but examples that it predicted as champion wait for labels: remove it when they are closed"
            yield _StreamChange(f"learners.{name}: was removed", outcome, True)
        else:
            yield _StreamChange(f"learners.{name}: was removed", "is dropped here", False)


def begins_afresh(old: LearnerSettings, new: LearnerSettings) -> bool:
    """Whether a learner's state is of no use under the new settings."""
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return any(before.get(key) != after.get(key) for key in (*before, *after) if key not in LEARNER_SETTINGS_TAKEN_OVER)


def _leaves(data: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    leaves: dict[str, object] = {}
    for name, value in data.items():
        leaves |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return leaves


# Loading --------------------------------------------------------------------------------------------------------------

Path_: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[tuple[int, ...], str]
"""Its rank among the lines of errors, and `file:line` or a variable."""


class _Wrong(NamedTuple):
    """A wrong setting: where it stands (`file:line` or a variable), and a line about it."""

    rank: tuple[int, ...]
    line: str


def _dotted(path: Path_) -> str:
    """One line, whatever is in a name."""
    return ".".join(name if name and name.isprintable() else repr(name) for name in path)


class _Document:
    """The merged settings as plain data, and where each of them came from."""

    def __init__(self, file: Path | None) -> None:
        self.file = str(file) if file else "defaults"
        self.data: dict[str, Any] = {}
        self.places: dict[Path_, Place] = {}
        self.wrong: list[_Wrong] = []

    def complain(self, path: Path_, message: str) -> None:
        """Note a wrong setting, with the place of the nearest thing above it that was written down."""
        above = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in self.places), None)
        rank, place = self.places[above] if above is not None else ((0,), self.file)
        key = f"{_dotted(path)}: " if path else ""
        self.wrong.append(_Wrong(rank, f"{place}: {key}{message}"))

    def lines(self) -> list[str]:
        """Every complaint once, in the order of the file, then of the variables."""
        return list(dict.fromkeys(wrong.line for wrong in sorted(self.wrong, key=lambda wrong: wrong.rank)))


def load(path: Path | None, environment: Mapping[str, str], methods: tuple[str, ...] = METHODS) -> Config:
    """Read the file (None: defaults only), put the environment's settings on top, and validate.

    Args:
        path: The YAML file.
        environment: Variables; those that do not look like settings are ignored.
        methods: Names of the learning methods there are.

    Raises:
        ConfigurationError: One line for each wrong setting, all of them at once; or one line when the file cannot be
            read or is no YAML.
    """
    document = _Document(path)
    if path is not None:
        _read_file(document, path)
    _read_environment(document, environment)
    config = _validated(document, methods)
    if config is None or document.wrong:
        raise ConfigurationError(document.lines())
    return config


def _validated(document: _Document, methods: tuple[str, ...]) -> Config | None:
    """Validate; what is wrong is taken out and the rest validated again, so that conflicts are found as well."""
    context = {"methods": methods}
    try:
        return Config.model_validate(document.data, context=context)
    except ValidationError as error:
        _explain(document, error)
        for details in error.errors(include_url=False):
            _take_out(document.data, tuple(map(str, details["loc"])), methods)
    if not document.data.get("learners"):
        document.data.pop("learners", None)
    try:
        Config.model_validate(document.data, context=context)
    except ValidationError as error:
        _explain(document, error)
    return None


def _take_out(data: dict[str, Any], path: Path_, methods: tuple[str, ...]) -> None:
    here = data
    for name in path[:-1]:
        below = here.get(name)
        if not isinstance(below, dict) or (path[-1] == "[key]" and name == path[-2]):
            here.pop(name, None)
            return
        here = below
    if path and path[-1] == "method":
        here["method"] = methods[0]
    elif path:
        here.pop(path[-1], None)


# The file -------------------------------------------------------------------------------------------------------------

_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases (a few of them make gigabytes) and with a limit on nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401  (PyYAML's own)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read: write it out", problem_mark=mark)
        if self.depth == MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels deep", problem_mark=mark)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _read_file(document: _Document, path: Path) -> None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _position(raw[: error.start].decode("utf-8-sig", "replace"))
        raise ConfigurationError(f"{path}: line {line}, column {column}: not UTF-8") from error
    document.data, document.places = {}, {}
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        _take_root(document, loader, node)
    except yaml.reader.ReaderError as error:
        line, column = _position(text[: error.position])
        raise ConfigurationError(f"{path}: line {line}, column {column}: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigurationError(f"{path}: {where}{_problem(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"{path}: {_first_line(error)}") from error
    finally:
        if loader is not None:
            loader.dispose()


def _problem(error: yaml.YAMLError) -> str:
    """Without the lines of the file that PyYAML would quote."""
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(f"{error.context or ''} {error.problem or ''}".split())
    return _first_line(error)


def _position(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _take_root(document: _Document, loader: _Loader, node: yaml.Node | None) -> None:
    document.places[()] = ((0,), document.file)
    if isinstance(node, yaml.MappingNode):
        document.data = _plain(document, loader, node, ())
    elif node is None or (isinstance(node, yaml.ScalarNode) and loader.construct_object(node) is None):
        document.complain((), "is empty; ops/areba.yaml shows every setting")
    else:
        document.complain((), "must be sections, such as `join:`, with settings below them")


def _plain(document: _Document, loader: _Loader, node: yaml.Node, path: Path_) -> Any:  # noqa: ANN401  (plain data)
    """The node as dict, list or scalar, noting the line of every key; `path` is that of the node."""
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_object(node)
        # librdkafka reads text: a password of 0123 must not become 83.
        return node.value if _is_client_setting(path) and value is not None else value
    if node.tag not in _PLAIN_TAGS:
        mark: Any = node.start_mark
        raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not read", problem_mark=mark)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, loader, item, path) for item in node.value]
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        mark = key_node.start_mark
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here = (*path, name)
        place = ((1, mark.line, mark.column), f"{document.file}:{mark.line + 1}")
        if name in data:
            message = f"{_dotted(here)}: is set twice, first in {document.places[here][1]}"
            document.wrong.append(_Wrong(place[0], f"{place[1]}: {message}"))
            continue
        document.places[here] = place
        if not isinstance(key_node, yaml.ScalarNode) or not isinstance(loader.construct_object(key_node), str):
            document.complain(here, "a key must be text: put it in quotes")
            continue
        data[name] = _plain(document, loader, value_node, here)
    return data


def _is_client_setting(path: Path_) -> bool:
    return len(path) == 3 and path[0] == "kafka" and path[1] in {"all", "consumer", "producer"}


# The environment ------------------------------------------------------------------------------------------------------


def _read_environment(document: _Document, environment: Mapping[str, str]) -> None:
    given: dict[str, str] = {}
    for number, variable in enumerate(sorted(environment)):
        rest = variable.removeprefix("AREBA__")
        if rest == variable:
            rest = variable.removeprefix("AREBA_")
            if rest == variable or "__" not in rest:  # AREBA_DATA_DIR and the like are no settings
                continue
        value = environment[variable]
        if rest in given and environment[given[rest]] != value:
            document.wrong.append(
                _Wrong((2, number), f"{variable}: differs from {given[rest]}, which is the same setting")
            )
        given[rest] = variable
        _put(document, ((2, number), variable), rest.lower().split("__"), value)


def _put(document: _Document, place: Place, parts: list[str], text: str) -> None:
    if parts[0] == "kafka" and len(parts) > 2:
        parts = [*parts[:2], ".".join(parts[2:]).replace("_", ".")]
    here = document.data
    path: Path_ = ()
    for number, part in enumerate(parts):
        name = _as_written(here, part, path)
        path = (*path, name)
        if not name:
            document.wrong.append(_Wrong(place[0], f"{place[1]}: not of the form AREBA__SECTION__KEY"))
            return
        if number < len(parts) - 1:
            if here.get(name) is None:
                here[name] = {}
                document.places.setdefault(path, place)
            here = here[name]
            if not isinstance(here, dict):
                return  # what stands there is wrong and gets a line of its own
    document.places = {key: value for key, value in document.places.items() if key[: len(path)] != path}
    document.places[path] = place
    try:
        here[path[-1]] = _parsed(path, text)
    except yaml.YAMLError as error:
        here.pop(path[-1], None)
        document.complain(path, f"not YAML: {_problem(error)}")


def _as_written(here: Mapping[str, Any], part: str, path: Path_) -> str:
    """A stream or learner of the file that a variable can only spell in capitals with underscores."""
    if part in here or not (path and path[-1] in {"streams", "learners"}):
        return part
    alike = [name for name in here if name.lower().replace("-", "_").replace(".", "_") == part]
    return alike[0] if len(alike) == 1 else part


def _parsed(path: Path_, text: str) -> Any:  # noqa: ANN401  (plain data)
    """Text is taken as it is; lists and mappings are YAML's short form (`[512, 512]`)."""
    if not _is_structure(_annotation_at(path)):
        return text
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        own = _Document(None)
        value = None if node is None else _plain(own, loader, node, path)
        if own.wrong:
            raise yaml.MarkedYAMLError(problem=own.wrong[0].line)
        return value
    finally:
        loader.dispose()


# Explaining -----------------------------------------------------------------------------------------------------------


def _explain(document: _Document, error: ValidationError) -> None:
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        if path and path[-1] == "[key]":
            path = path[:-1]
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, _ConflictsError):
            for conflict in cause.conflicts:
                document.complain(conflict.path, conflict.message)
        else:
            document.complain(path, _message(path, details["type"], details.get("ctx", {}), details["input"]))


def _message(path: Path_, kind: str, context: Mapping[str, Any], value: object) -> str:
    if kind == "extra_forbidden":
        return f"unknown setting{_nearest_key(path)}"
    is_now = f", is {_shown(path, value)}"
    texts = {
        "missing": "is missing",
        "string_type": f"must be text: put it in quotes{is_now}"
        if isinstance(value, int | float)
        else f"must be text{is_now}",
        "int_from_float": f"must be a whole number{is_now}",
        "int_type": f"must be a whole number{is_now}",
        "int_parsing": f"must be a whole number{is_now}",
        "float_type": f"must be a number{is_now}",
        "float_parsing": f"must be a number{is_now}",
        "finite_number": f"must be a finite number{is_now}",
        "greater_than_equal": f"must be at least {context.get('ge')}{is_now}",
        "less_than_equal": f"must be at most {context.get('le')}{is_now}",
        "greater_than": f"must be more than {context.get('gt')}{is_now}",
        "less_than": f"must be less than {context.get('lt')}{is_now}",
        "multiple_of": f"must be a multiple of {context.get('multiple_of')}{is_now}",
        "literal_error": f"must be {context.get('expected')}{is_now}{_nearest(value, _choices(path))}",
        "string_pattern_mismatch": f"must match {context.get('pattern')}{is_now}",
        "tuple_type": f"must be a list, such as [8]{is_now}",
        "model_type": f"must be a section with settings below it{is_now}",
        "dict_type": f"must be a section with names below it{is_now}",
        "too_short": f"needs at least {context.get('min_length')}",
        "too_long": f"may have at most {context.get('max_length')}",
        "value_error": f"{context.get('error')}",
    }
    return texts.get(kind, f"wrong ({kind.replace('_', ' ')}: {context or 'see the documentation'}){is_now}")


def _shown(path: Path_, value: object) -> str:
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "empty"
    if any(SECRET.search(part) for part in path):
        return REDACTED
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nearest(word: object, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(word), list(words), 1)
    return f"; did you mean {near[0]}?" if near else ""


def or_nearest(word: object, words: Iterable[str]) -> str:
    """`; did you mean ...?`, or the choice when there is nothing near."""
    known = list(words)
    return _nearest(word, known) or f" (there are: {', '.join(known)})"


def _nearest_key(path: Path_) -> str:
    """Look among the keys of the same section, then among those of all sections."""
    above, name = path[:-1], path[-1]
    siblings = list(_keys_of(_annotation_at(above)))
    near = difflib.get_close_matches(name, siblings, 1)
    if near:
        return f"; did you mean {'.'.join((*above, near[0]))}?"
    elsewhere = {
        key: f"{section}.{key}" for section, field in Config.model_fields.items() for key in _keys_of(field.annotation)
    }
    near = difflib.get_close_matches(name, elsewhere, 1)
    if near:
        return f"; did you mean {elsewhere[near[0]]}?"
    return f" (there are: {', '.join(siblings)})"


def _keys_of(annotation: Any) -> Iterable[str]:  # noqa: ANN401  (a type)
    return annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else ()


def _annotation_at(path: Path_) -> Any:  # noqa: ANN401  (a type)
    """The type of the setting with this path; None where there is none."""
    annotation: Any = Config
    for name in path:
        if get_origin(annotation) is Mapping:
            annotation = _bare(get_args(annotation)[1])
        elif name in _keys_of(annotation):
            annotation = _bare(annotation.model_fields[name].annotation)
        else:
            return None
    return annotation


def _bare(annotation: Any) -> Any:  # noqa: ANN401  (a type)
    """Without `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    others = [choice for choice in get_args(annotation) if choice is not type(None)]
    if type(None) in get_args(annotation) and len(others) == 1:
        return _bare(others[0])
    return annotation


def _is_structure(annotation: Any) -> bool:  # noqa: ANN401  (a type)
    return get_origin(annotation) in {Mapping, tuple} or bool(_keys_of(annotation))


def _choices(path: Path_) -> tuple[str, ...]:
    annotation = _annotation_at(path)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _first_line(error: Exception) -> str:
    lines = str(error).split("\n")
    return " ".join(" ".join(lines[:3]).split())[:300]
