"""The records of every topic, one by one, as people and tools see them; `record_columns` has them in columns.

Event time is the CreateTime of an input record, in milliseconds since 1970. An output has the event time of the record
that caused it as a field; its own timestamp is the time at which the log took it. Class 1 is positive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

MAX_ID_BYTES = 64
"""Most bytes of an id in UTF-8: it fits 8 machine words. Usual ids (UUIDs, ULIDs, card tokens) are shorter."""

ID_WORDS = 1 + MAX_ID_BYTES // 8
"""Number of uint64 words of one id: its length in bytes, then its bytes, little-endian, padded with zeros."""

MAX_LEARNERS = 16
"""Most learners of a stream: each predicts every example, and keeps a model and a score of each pending example."""
DEAD_LETTER_BYTES = 300
"""Bytes that a dead letter adds in headers, when the name of the input topic has up to 18 bytes."""

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Mapping[int, Sequence[Header]]
"""Headers by row; rows without headers are absent."""

UNREADABLE_HEADERS: Sequence[Header] = (("areba.headers.unreadable", None),)
"""Stands for the headers of a record if a header's name is not UTF-8: clients then cannot read any header."""

Value: TypeAlias = bool | int | float | str | None  # of a column; None: it is missing


class Side(IntEnum):
    """The input that a record came from; at equal event times, the smaller number goes first."""

    EXAMPLES = 0
    LABELS = 1


class Kind(IntEnum):
    """The kind of record that a value was decoded to."""

    MALFORMED = 0
    DATA = 1  # an Example or a Label
    MARK = 2
    TOMBSTONE = 3  # no value: it is counted, and does nothing else


class Operation(IntEnum):
    """What the join asks of the learners."""

    PREDICT = 0
    LEARN = 1
    REPORT = 2
    CORRECT = 3


class MarkKind(IntEnum):
    """The kind of a control record, in the order of the Avro enum."""

    ADVANCE = 0
    PROMOTE = 1
    RESUME = 2
    ERASE = 3
    DECIDE = 4


class OutcomeKind(IntEnum):
    """The outcome of an example or of a repeated record, in the order of the Avro enum."""

    JOINED = 0
    UNLABELLED = 1
    EVICTED = 2
    DUPLICATE = 3
    CORRECTION = 4


class ThresholdKind(IntEnum):
    """What decides the class of a prediction, in the order of the Avro enum.

    Attributes:
        MAJORITY: The class that the learner gives: its score is above 0.5; of an ensemble the class of most networks.
        SCORE: The score is above a number.
        PROBABILITY: The probability is above a number.
        COSTS: The probability is above the number from which on class 1 costs less, by the costs of the example.
        ALERTS: The score is above the number that a share of all scores exceeds.
    """

    MAJORITY = 0
    SCORE = 1
    PROBABILITY = 2
    COSTS = 3
    ALERTS = 4

    @property
    def text(self) -> str:
        """The kind as settings and predictions spell it."""
        return self.name.lower()


class Reason(IntEnum):
    """The reason why a record became a dead letter."""

    UNDECODABLE = 1
    WRONG_SCHEMA = 2
    TOO_LARGE = 3
    WRONG_DIMENSION = 4
    NOT_FINITE = 5
    BAD_ID = 6
    BAD_LABEL = 7
    BAD_TIME = 8
    UNKNOWN_STREAM = 9
    CONFLICTING_EXAMPLE = 10
    CONFLICTING_LABEL = 11
    LATE_LABEL = 12
    ORPHAN_LABEL = 13
    UNKNOWN_LEARNER = 14
    WRONG_KEY = 15
    STREAM_STOPPED = 16
    BAD_COLUMN = 17
    MOVED_STREAM = 18
    UNKNOWN_COSTS = 19

    @property
    def text(self) -> str:
        """The reason as headers and reports spell it, such as `wrong-schema`."""
        return self.name.lower().replace("_", "-")

    @property
    def malformed(self) -> bool:
        """Whether the record alone is the cause, not the state of its stream."""
        return self <= Reason.BAD_TIME or self in (Reason.WRONG_KEY, Reason.BAD_COLUMN)


class Cause(IntEnum):
    """Why a label became the dead letter `late-label` or `orphan-label`: which setting, mark or act decided.

    Attributes:
        NONE: Another reason.
        EXPIRED_EXAMPLE: Its example had been closed without a label by `join.ttl_ms`.
        EVICTED_EXAMPLE: Its example had been evicted, because too many waited.
        ADVANCED_EXAMPLE: An `advance` mark had closed its example.
        LATE_EXAMPLE: It waited for its example, which had expired when it came.
        EXPIRED_LABEL: It waited, and no example came within `join.ttl_ms`.
        ADVANCED_LABEL: It waited until an `advance` mark came.
        TOO_MANY_LABELS: It was the oldest of too many waiting labels.
        TOO_MANY_BYTES: It was the oldest of waiting labels that had too many bytes.
        OLD_LABEL: It had expired when it came, and no example of its id was known.
        LARGE_LABEL: It alone is larger than the waiting labels of a stream may be.
        RESET: It waited in a stream that was reset.
        ERASED: It waited when an `erase` mark named its id.
        POOL_EXAMPLE: Its example had been evicted, because the tables of the task had too many bytes.
        POOL_LABEL: It waited, and the tables of the task had too many bytes.
    """

    NONE = 0
    EXPIRED_EXAMPLE = 1
    EVICTED_EXAMPLE = 2
    ADVANCED_EXAMPLE = 3
    LATE_EXAMPLE = 4
    EXPIRED_LABEL = 5
    ADVANCED_LABEL = 6
    TOO_MANY_LABELS = 7
    TOO_MANY_BYTES = 8
    OLD_LABEL = 9
    LARGE_LABEL = 10
    RESET = 11
    ERASED = 12
    POOL_EXAMPLE = 13
    POOL_LABEL = 14


REASONS = {reason.text: reason for reason in Reason}
"""Each reason by its text."""
MAX_STREAM_BYTES = 249
"""Most bytes of a stream's name in UTF-8, as for a topic; it is also a key, a metric's label, part of a file name."""

UNKNOWN_STREAM_NAME = "?"
"""Stands for the stream of a record whose value and key do not name a stream."""


def stream_of_key(key: bytes | None) -> str:
    """Return the stream that a key names, or `UNKNOWN_STREAM_NAME` if the key is empty, too long or not UTF-8."""
    if not key or len(key) > MAX_STREAM_BYTES:
        return UNKNOWN_STREAM_NAME
    try:
        return key.decode()
    except UnicodeDecodeError:
        return UNKNOWN_STREAM_NAME


@dataclass(frozen=True, slots=True)
class Example:
    """One event, whose class is not known yet: its features, or, if its stream has columns, its values by column."""

    stream: str
    id: str
    features: Sequence[float] = ()
    values: Mapping[str, Value] | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """The class of one example, sent later. A higher revision corrects a lower one."""

    stream: str
    id: str
    label: int
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A control record: `advance` has a `time_ms`, `promote` a `learner`, `erase` has `digests`, `resume` nothing.

    `decide` has a `threshold_kind`, a `ThresholdKind` in small letters, and the number of the threshold if it has one.
    """

    stream: str
    kind: MarkKind
    time_ms: int | None = None
    learner: str | None = None
    digests: str | None = None
    threshold_kind: str | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """One learner's prediction of an example: `score` orders the examples, `probability` is what the score means.

    `model_version` is the number of updates so far. `threshold_kind` is what decided the class, a `ThresholdKind` in
    small letters, and `threshold` the number that score or probability was compared with.
    """

    stream: str
    id: str
    learner: str
    champion: bool
    score: float
    probability: float
    predicted_class: int
    model_version: int
    event_time_ms: int
    threshold_kind: str = "majority"
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an example was closed, or that a record was a duplicate; fields that do not apply are None.

    `learner`, `score`, `probability` and `predicted_class` belong to the champion's prediction. `delay_ms` is the
    label's time minus the example's. The offsets belong to the input records that this outcome settles.
    """

    stream: str
    id: str
    outcome: str
    label: int | None
    learner: str | None
    score: float | None
    probability: float | None
    predicted_class: int | None
    delay_ms: int | None
    example_offset: int | None
    label_offset: int | None
    event_time_ms: int


@dataclass(frozen=True, slots=True)
class MetricWindow:
    """How good a learner's predictions are, by the labels so far, faded with one factor.

    Figures are None until both classes were seen; `precision` also while no example is predicted as class 1.
    `cost_per_example` is what a decision has cost, None without `costs` of the stream, and until it has a label.
    `prevalence` is the share of class 1, which `precision`, `f1`, `kappa` and `average_precision` depend on.
    `..._correct` and `..._total` are the prequential sums: counts of correct predictions and of labels of each class.
    """

    fading_factor: float
    recall: float | None
    specificity: float | None
    gmean: float | None
    prevalence: float | None
    precision: float | None
    f1: float | None
    kappa: float | None
    roc_auc: float | None
    average_precision: float | None
    cost_per_example: float | None
    positive_correct: float
    positive_total: float
    negative_correct: float
    negative_total: float


@dataclass(frozen=True, slots=True)
class Metric:
    """The metrics of one learner of a stream after `labelled` accepted labels.

    `windows` has the figures for each of `metrics.fading_factors`; the first is the main window. A change means that
    the learner recognises a class worse than before. `labels_to_recover` counts from the beginning of the last change;
    it is None while the G-mean of the main window is below 90 % of `gmean_before`. Fields of queues that are absent
    are None. `score_psi`, `largest_feature_psi`, the number of this feature, and `features_drifted` are of the window
    that ended with example `drift_examples`; None without `drift` of the stream, and before the first window.
    """

    stream: str
    learner: str
    champion: bool
    labelled: int
    windows: tuple[MetricWindow, ...]
    calibration_error: float | None
    positive_size: float
    negative_size: float
    positive_queue: int | None
    negative_queue: int | None
    positive_capacity: int | None
    negative_capacity: int | None
    updates: int
    examples: int
    unlabelled: int
    evicted: int
    duplicates: int
    pending: int
    waiting: int
    delay_ms_p50: int | None
    delay_ms_p90: int | None
    delay_ms_p99: int | None
    changes: int
    change_flagged: int | None
    change_began: int | None
    gmean_before: float | None
    labels_to_recover: int | None
    drift_examples: int | None
    score_psi: float | None
    largest_feature_psi: float | None
    largest_feature: int | None
    features_drifted: int | None
    event_time_ms: int

    def __post_init__(self) -> None:
        """Refuse a metric without windows: no application writes it, and readers take the first window.

        Raises:
            ValueError: There is no window.
        """
        if not self.windows:
            raise ValueError("a metric has at least one window")

    @property
    def main_window(self) -> MetricWindow:
        """The first window, which the change detector and most readers use."""
        return self.windows[0]


NESTED_RECORDS: Mapping[str, type[MetricWindow]] = MappingProxyType({"areba.MetricWindow": MetricWindow})
"""The classes of the records within records, by their full names in the schemas."""
