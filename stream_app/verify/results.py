"""What the checks find: findings by code and place, and counts by stream."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from stream_app.records import Outcome, Prediction, Side

MAX_FINDINGS = 1_000
"""Findings that are kept: enough to see what is wrong. Further findings are only counted."""


class Code(StrEnum):
    """The kinds of findings; a line of the report begins with the code.

    Attributes:
        UNREADABLE_RECORD: The value or the headers do not belong to a record of this topic.
        DELETED_RECORDS: Records were deleted (retention), so that something could not be checked; or the end of a
            partition is gone.
        UNREAD_PARTITION: An input has records in a partition that no task reads.
        SPLIT_STREAM: A stream has records in several partitions.
        MISSING_PREDICTION: The reference join has a prediction that the topic lacks.
        UNEXPECTED_PREDICTION: The topic has a prediction that the reference join does not have.
        MISPLACED_PREDICTION: A prediction is in another place of the order.
        WRONG_PREDICTION: A prediction has another field than the example demands.
        MISSING_OUTCOME: The reference join has an outcome that the topic lacks.
        UNEXPECTED_OUTCOME: The topic has an outcome that the reference join does not have.
        MISPLACED_OUTCOME: An outcome is in another place of the order.
        WRONG_OUTCOME: An outcome has another field than the example and its label demand.
        MISSING_DEAD_LETTER: The reference join has a dead letter that the topic lacks.
        UNEXPECTED_DEAD_LETTER: The topic has a dead letter that the reference join does not have.
        MISPLACED_DEAD_LETTER: A dead letter is in another place of the order.
        WRONG_DEAD_LETTER: A dead letter has another reason, value or header than its record demands.
        WRONG_SCORE: An outcome has another score or probability than the champion's prediction.
        WRONG_TOTALS: The records of a stream do not add up.
        WRONG_RECORD_COUNT: The topics have more or fewer records than the commit records say.
        SENT_BACK_TWICE: A dead letter was sent back to its input twice, or two records say that it was sent back.
        SENT_BACK_UNMARKED: An input record was a dead letter, but no dead letter says that it was sent back.
        WRONG_SEQUENCE: Commits or acts are missing, or are repeated.
        WRONG_RANGE: A commit does not start where the previous commit ended.
        MISSING_CONFIGURATION: No configuration is recorded before the first commit.
        INVALID_ACT: The text of an act cannot be read.
        WRONG_DIGEST: A commit record has another digest than a second run, or than before.
        WRONG_STOPPED_STREAMS: A commit record names other stopped streams than the acts and the marks so far.
        WRONG_METRIC: Predictions and outcomes give another figure.
        DECREASED_METRIC: A count is smaller than in the previous record.
        WRONG_CHANGE: What a metric says about changes contradicts itself or the previous record.
        NOT_REPRODUCED: A second run writes another record.
        MISSING_FROM_TOPIC: A second run writes a record that the topic lacks.
        NOT_WRITTEN_BY_RERUN: The topic has a record that a second run does not write.
        WRONG_MODELS: A second run ends with other models than `--models` says.
    """

    UNREADABLE_RECORD = "unreadable-record"
    DELETED_RECORDS = "deleted-records"
    UNREAD_PARTITION = "unread-partition"
    SPLIT_STREAM = "split-stream"
    MISSING_PREDICTION = "missing-prediction"
    UNEXPECTED_PREDICTION = "unexpected-prediction"
    MISPLACED_PREDICTION = "misplaced-prediction"
    WRONG_PREDICTION = "wrong-prediction"
    MISSING_OUTCOME = "missing-outcome"
    UNEXPECTED_OUTCOME = "unexpected-outcome"
    MISPLACED_OUTCOME = "misplaced-outcome"
    WRONG_OUTCOME = "wrong-outcome"
    MISSING_DEAD_LETTER = "missing-dead-letter"
    UNEXPECTED_DEAD_LETTER = "unexpected-dead-letter"
    MISPLACED_DEAD_LETTER = "misplaced-dead-letter"
    WRONG_DEAD_LETTER = "wrong-dead-letter"
    WRONG_SCORE = "wrong-score"
    WRONG_TOTALS = "wrong-totals"
    WRONG_RECORD_COUNT = "wrong-record-count"
    SENT_BACK_TWICE = "sent-back-twice"
    SENT_BACK_UNMARKED = "sent-back-unmarked"
    WRONG_SEQUENCE = "wrong-sequence"
    WRONG_RANGE = "wrong-range"
    MISSING_CONFIGURATION = "missing-configuration"
    INVALID_ACT = "invalid-act"
    WRONG_DIGEST = "wrong-digest"
    WRONG_STOPPED_STREAMS = "wrong-stopped-streams"
    WRONG_METRIC = "wrong-metric"
    DECREASED_METRIC = "decreased-metric"
    WRONG_CHANGE = "wrong-change"
    NOT_REPRODUCED = "not-reproduced"
    MISSING_FROM_TOPIC = "missing-from-topic"
    NOT_WRITTEN_BY_RERUN = "not-written-by-rerun"
    WRONG_MODELS = "wrong-models"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        code: What kind of error it is.
        text: What it is, in words.
        topic: The topic; empty where the finding is about no single topic.
        partition: The partition.
        offset: The record; None where the finding is about a whole partition.
    """

    code: Code
    text: str
    topic: str = ""
    partition: int = 0
    offset: int | None = None

    def __str__(self) -> str:
        """Return one line: code, place, text."""
        if not self.topic:
            return f"{self.code} {self.text}"
        where = f"{self.topic}[{self.partition}]"
        return f"{self.code} {where if self.offset is None else f'{where} offset {self.offset}'}: {self.text}"


class Scope(NamedTuple):
    """Which input offsets (examples, labels) of one partition were checked.

    Attributes:
        since: Where the first run began whose checkpoints led here.
        start: Where this run began.
        end: Where this run ended.
        committed: The input offsets after the last commit.
        low: The first offsets that are left.
    """

    since: tuple[int, int]
    start: tuple[int, int]
    end: tuple[int, int]
    committed: tuple[int, int]
    low: tuple[int, int]

    @property
    def is_partial(self) -> bool:
        """Whether inputs are left that neither this run nor the runs before it covered."""
        return self.end != self.committed or any(
            low < end and since > low for low, since, end in zip(self.low, self.since, self.end, strict=True)
        )


@dataclass(slots=True)
class Findings:
    """All findings so far: the first `MAX_FINDINGS` are kept, all are counted."""

    kept: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, code: Code, topic: str, partition: int, offset: int | None, text: str) -> None:
        """Count a finding about a partition or a record, and keep it while there is room."""
        self.count += 1
        if len(self.kept) < MAX_FINDINGS:
            self.kept.append(Finding(code, text, topic, partition, offset))

    def mark(self) -> tuple[int, int]:
        """Return a place to which `forget_after` can go back."""
        return len(self.kept), self.count

    def add_always(self, finding: Finding) -> None:
        """Count and keep a finding, however many there are."""
        self.count += 1
        self.kept.append(finding)

    def forget_after(self, mark: tuple[int, int]) -> None:
        """Forget all findings since this mark."""
        del self.kept[mark[0] :]
        self.count = mark[1]


@dataclass(slots=True)
class StreamTotals:
    """Counts of one stream: of input records, published records, and records that are still open.

    Predictions are counted by learner, dead letters of each side by reason.
    """

    examples: int = 0
    example_marks: int = 0
    example_tombstones: int = 0
    champion_predictions: int = 0
    predictions: Counter[str] = field(default_factory=Counter)
    joined: int = 0
    unlabelled: int = 0
    evicted: int = 0
    example_duplicates: int = 0
    example_dead_letters: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    labels: int = 0
    label_marks: int = 0
    label_tombstones: int = 0
    label_duplicates: int = 0
    corrections: int = 0
    label_dead_letters: Counter[str] = field(default_factory=Counter)
    waiting: int = 0

    @property
    def accepted(self) -> int:
        """Records that are neither dead letters nor tombstones."""
        dead = self.example_dead_letters.total() + self.label_dead_letters.total()
        return self.examples + self.labels - dead - self.example_tombstones - self.label_tombstones

    def count_mark(self, side: Side, count: int) -> None:
        """Add marks of an input."""
        self._add("marks", side, count)

    def count_tombstone(self, side: Side) -> None:
        """Count a record of an input that has no value."""
        self._add("tombstones", side, 1)

    def _add(self, what: str, side: Side, count: int) -> None:
        name = f"{('example', 'label')[side]}_{what}"
        setattr(self, name, getattr(self, name) + count)

    def count_prediction(self, prediction: Prediction) -> None:
        """Count a published prediction."""
        self.champion_predictions += prediction.champion
        self.predictions[prediction.learner] += 1

    def count_outcome(self, outcome: Outcome) -> None:
        """Count a published outcome."""
        names = {"joined": "joined", "unlabelled": "unlabelled", "evicted": "evicted", "correction": "corrections"}
        repeat = "label_duplicates" if outcome.example_offset is None else "example_duplicates"
        name = names.get(outcome.outcome, repeat)
        setattr(self, name, getattr(self, name) + 1)

    def count_dead_letter(self, side: Side, reason: str) -> None:
        """Count a published dead letter of an input."""
        (self.example_dead_letters if side is Side.EXAMPLES else self.label_dead_letters)[reason] += 1

    def count(self, column: str) -> int:
        """Return the number of records in a column of `EQUATIONS`."""
        found = getattr(self, column)
        return found.total() if isinstance(found, Counter) else found

    def to_plain(self) -> dict[str, Any]:
        """Return the counts by their names, for JSON."""
        counts = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(count) if isinstance(count, Counter) else count for name, count in counts.items()}

    def add(self, other: "StreamTotals") -> None:
        """Add the counts of the same stream in another partition."""
        for name in self.__slots__:
            mine = getattr(self, name)
            if isinstance(mine, Counter):
                mine.update(getattr(other, name))
            else:
                setattr(self, name, mine + getattr(other, name))


EQUATIONS: Sequence[Mapping[str, str]] = (
    {
        "examples": "examples",
        "= marks": "example_marks",
        "+ tombstones": "example_tombstones",
        "+ predicted": "champion_predictions",
        "+ duplicates": "example_duplicates",
        "+ dead": "example_dead_letters",
    },
    {
        "predicted": "champion_predictions",
        "= joined": "joined",
        "+ unlabelled": "unlabelled",
        "+ evicted": "evicted",
        "+ pending": "pending",
    },
    {
        "labels": "labels",
        "= marks": "label_marks",
        "+ tombstones": "label_tombstones",
        "+ joined": "joined",
        "+ corrections": "corrections",
        "+ duplicates": "label_duplicates",
        "+ dead": "label_dead_letters",
        "+ waiting": "waiting",
    },
)
"""The three equations that account for all records: headings of a table, and fields of `StreamTotals`. The first is the
sum of the others; `predicted` counts the champion's predictions."""
