"""The records of every topic, one by one (what people and tools see) and in columns (what the stages work on).

Event time is milliseconds since 1970, the CreateTime of the Kafka record. A class is 0 or 1; 1 is the positive one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MAX_ID_BYTES = 64
"""An id fits 8 machine words beside its length; ids of the field (UUIDs, ULIDs, card tokens) are shorter."""

ID_WORDS = 1 + MAX_ID_BYTES // 8
"""uint64 words that hold one id: its length in bytes, then its bytes, little-endian, padded with zeros."""

DEAD_LETTER_BYTES = 256
"""What a dead letter adds in headers, where the name of the input topic has up to 18 bytes."""
MAX_LEARNERS = 16
"""Learners of a stream: each predicts every example and keeps a model and a score for each pending one."""

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = Mapping[int, Sequence[Header]]
"""Headers by row: most records have none."""

UNREADABLE_HEADERS: Sequence[Header] = (("areba.headers.unreadable", None),)
"""In place of headers of which one has a name that is not UTF-8: clients cannot read any of them. The rest of such a
record is as good as that of any other."""

Floats: TypeAlias = NDArray[np.float32]
Longs: TypeAlias = NDArray[np.int64]
Integers: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]


class Side(IntEnum):
    """Which input a record came from; the smaller one goes first on a tie."""

    EXAMPLES = 0
    LABELS = 1


class Kind(IntEnum):
    """What a value decoded to."""

    MALFORMED = 0
    DATA = 1  # an Example on the examples side, a Label on the labels side
    MARK = 2


PREDICT, LEARN, REPORT, CORRECT = 0, 1, 2, 3
"""Codes of the operations that the join asks of the learners; plain integers, because compiled code compares them."""


class MarkKind(IntEnum):
    """What a control record asks for; the order is that of the Avro enum."""

    ADVANCE = 0
    PROMOTE = 1


class OutcomeKind(IntEnum):
    """How an example, or a repeated record, ended; the order is that of the Avro enum."""

    JOINED = 0
    UNLABELLED = 1
    EVICTED = 2
    DUPLICATE = 3
    CORRECTION = 4


class Reason(IntEnum):
    """Why a record became a dead letter."""

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

    @property
    def text(self) -> str:
        """The reason as headers and reports spell it: `wrong-schema`."""
        return self.name.lower().replace("_", "-")

    @property
    def malformed(self) -> bool:
        """Whether the record alone is the cause, whatever the state."""
        return self <= Reason.BAD_TIME or self is Reason.WRONG_KEY


REASONS = {reason.text: reason for reason in Reason}
"""Each reason by its text."""

MAX_STREAM_BYTES = 249
"""Bytes in UTF-8, as for a Kafka topic's name: a stream's name is a key, a metric's label and part of a file's name."""

UNKNOWN_STREAM_NAME = "?"
"""The stream of a record whose value and key name no stream."""


def stream_of_key(key: bytes | None) -> str:
    """Return the stream that a record's key names, else `UNKNOWN_STREAM_NAME`: not UTF-8, empty or too long."""
    if not key or len(key) > MAX_STREAM_BYTES:
        return UNKNOWN_STREAM_NAME
    try:
        return key.decode()
    except UnicodeDecodeError:
        return UNKNOWN_STREAM_NAME


# One by one -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Example:
    """Features of one event; its class is not known yet."""

    stream: str
    id: str
    features: Sequence[float]


@dataclass(frozen=True, slots=True)
class Label:
    """The class of one example, sent later. A higher revision corrects a lower one."""

    stream: str
    id: str
    label: int
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A control record: `advance` has `time_ms`, `promote` has `learner`."""

    stream: str
    kind: MarkKind
    time_ms: int | None = None
    learner: str | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """One learner's answer on the arrival of an example; `score` is P(class 1), `model_version` the updates seen."""

    stream: str
    id: str
    learner: str
    champion: bool
    score: float
    label: int
    model_version: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an example was closed, or that a record was a repeat; None where it does not apply.

    `learner` and `score` are those of the champion's prediction; `delay_ms` is label time less example time. The
    offsets are the input offsets that this outcome settles.
    """

    stream: str
    id: str
    outcome: str
    label: int | None
    learner: str | None
    score: float | None
    delay_ms: int | None
    example_offset: int | None
    label_offset: int | None


@dataclass(frozen=True, slots=True)
class Metric:
    """The state of one learner of a stream after `labelled` accepted labels.

    `recall`, `specificity` and `gmean` are None until both classes were seen. The prequential sums are the faded
    counts of correct predictions and of labels of each class (fading factor of the configuration). A change is that the
    learner recognises a class worse than before; `labels_to_recover` counts from the beginning of the last one, and is
    None while its G-mean is below 90 % of `gmean_before`.
    """

    stream: str
    learner: str
    champion: bool
    labelled: int
    recall: float | None
    specificity: float | None
    gmean: float | None
    positive_correct: float
    positive_total: float
    negative_correct: float
    negative_total: float
    positive_size: float
    negative_size: float
    positive_queue: int
    negative_queue: int
    positive_capacity: int
    negative_capacity: int
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


@dataclass(frozen=True, slots=True)
class Commit:
    """What one transaction did for one task: the ranges it read (start, and behind the last) and what it wrote.

    `digest` is SHA-256 chained over offsets and output bytes, `records` the count of output records, `tripped` why the
    breaker stopped the task behind it. For each output topic, `..._start` is the end offset of the task's partition
    after the previous commit, and `..._records` the count of records that this commit wrote there; a record of
    version 1 has -1 and 0. `rules` is the number of the rules under which it was processed, `partitions` the number of
    tasks of the application; the topic ids tell a topic from another topic that was created later under its name
    (KIP-516). A record of version 1 has rules 1, 0 partitions and empty ids.
    """

    sequence: int
    examples_start: int
    examples_end: int
    labels_start: int
    labels_end: int
    digest: bytes
    records: int
    tripped: str | None
    transactional_id: str = ""
    rules: int = 1
    partitions: int = 0
    examples_topic_id: str = ""
    labels_topic_id: str = ""
    predictions_start: int = -1
    predictions_records: int = 0
    outcomes_start: int = -1
    outcomes_records: int = 0
    metrics_start: int = -1
    metrics_records: int = 0
    dead_letters_start: int = -1
    dead_letters_records: int = 0


CONFIGURATION, RESUME, SEED, SKIP = "configuration", "resume", "seed", "skip"
RESET, REPAIR, ADOPT = "reset", "repair", "adopt"
"""The kinds of acts."""


@dataclass(frozen=True, slots=True)
class Act:
    """An act that changes a result and is no input.

    `configuration` (text: the settings), `resume` (a note), `seed` (a part of a learner's state, see `seed`),
    `skip` (inputs are gone, see `gap`), `reset` (text: the name of a stream, which begins anew), `repair` (outputs
    whose commit markers were lost were published again), `adopt` (records of other writers in the output topics were
    accepted).

    It holds from the commit record with `sequence` on; `engine` is the version of areba that wrote it. A long text is
    cut into `parts` records with consecutive sequences. Only `configuration` has `rules`, the number of the rules that
    decide results, and `partitions`, the number of tasks of the application; 0 in records of older versions.
    """

    sequence: int
    kind: str
    engine: str
    text: str
    rules: int = 0
    partitions: int = 0
    part: int = 0
    parts: int = 1


# In columns -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Consecutive records of one input partition, undecoded, n rows in offset order.

    Attributes:
        offsets: int64 `[n]`, ascending (with gaps where the broker keeps control records).
        timestamps: int64 `[n]`, milliseconds; -1 where the record has no CreateTime.
        keys: n keys.
        values: n values; None is a tombstone, which no input has a use for.
        headers: By row; rows without headers are absent.
    """

    offsets: Longs
    timestamps: Longs
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Headers = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The values of a `RawRecords`, decoded: n rows, the same order.

    Attributes:
        kinds: uint8 `[n]`, `Kind`.
        reasons: uint8 `[n]`, `Reason` where malformed, else 0.
        known: How many names were known to the decoder.
        stream_names: The distinct stream names of these rows that were not, in order of first appearance.
        streams: int32 `[n]`, the number of a known name, or `known` more than an index into `stream_names`; -1 where
            the value does not tell its stream. A malformed row may have a stream.
        ids: uint64 `[n, ID_WORDS]`; zeros where there is none.
        features: float32 `[total]`, the features of all examples behind one another.
        feature_starts: int64 `[n]`, first element of the row in `features`.
        feature_counts: int32 `[n]`; 0 where there are none.
        labels: int8 `[n]`, the class; -1 where there is none.
        revisions: int64 `[n]`, revision of a label; 0 elsewhere.
        marks: The control records, by row.
    """

    kinds: Bytes
    reasons: Bytes
    known: int
    stream_names: Sequence[str]
    streams: Integers
    ids: Words
    features: Floats
    feature_starts: Longs
    feature_counts: Integers
    labels: NDArray[np.int8]
    revisions: Longs
    marks: Mapping[int, Mark]


@dataclass(frozen=True, slots=True)
class PredictionColumns:
    """n predictions; `streams` and `learners` index the name lists."""

    stream_names: Sequence[str]
    learner_names: Sequence[str]
    streams: Integers
    learners: Integers
    ids: Words
    champions: NDArray[np.bool_]
    scores: Floats
    labels: NDArray[np.int8]
    model_versions: Longs


NO_LONG = np.iinfo(np.int64).min
"""A null in a column of longs."""


@dataclass(frozen=True, slots=True)
class OutcomeColumns:
    """n outcomes. Nulls: label -1, learner -1, score NaN, delay and offsets `NO_LONG`."""

    stream_names: Sequence[str]
    learner_names: Sequence[str]
    streams: Integers
    outcomes: Bytes
    ids: Words
    labels: NDArray[np.int8]
    learners: Integers
    scores: Floats
    delays_ms: Longs
    example_offsets: Longs
    label_offsets: Longs


@dataclass(frozen=True, slots=True)
class OutputRecords:
    """Records for one output topic, in the order in which they are sent to the task's partition.

    Attributes:
        keys: n keys.
        values: n values.
        timestamps: n event times in milliseconds: those of the records that caused them.
        headers: By row; rows without headers are absent.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Headers = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


def concatenated_headers(parts: Iterable[RawRecords | OutputRecords]) -> Headers:
    """The headers of all records of the parts, by their row among all."""
    headers: dict[int, Sequence[Header]] = {}
    first = 0
    for part in parts:
        headers.update({first + row: cells for row, cells in part.headers.items()})
        first += len(part)
    return headers


def pack_id(text: str) -> Words:
    """The id as `ID_WORDS` uint64 words.

    Raises:
        ValueError: The id has no byte or more than `MAX_ID_BYTES` in UTF-8.
    """
    raw = text.encode()
    if not 1 <= len(raw) <= MAX_ID_BYTES:
        raise ValueError(f"an id has 1 to {MAX_ID_BYTES} bytes, not {len(raw)}")
    words = np.zeros(ID_WORDS, dtype="<u8")
    words[0] = len(raw)
    words[1:].view(np.uint8)[: len(raw)] = np.frombuffer(raw, np.uint8)
    return words


def unpack_id(words: Words) -> str:
    """The id that `pack_id` packed."""
    return words[1:].tobytes()[: int(words[0])].decode()
