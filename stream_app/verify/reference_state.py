"""What the reference join reads, keeps and says: input records, the state of a stream, and events."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from stream_app.config import METHOD_FACTS, JoinSettings, LearnerSettings, ThresholdSettings
from stream_app.records import DEAD_LETTER_BYTES, Cause, Example, Header, Label, Mark, Reason, Side, stream_of_key
from stream_app.verify.reference_drift import ExpectedDrift, StreamDrift

Meaning: TypeAlias = Example | Label | Mark | Reason | None
"""What a value says; a `Reason` where the value alone is cause enough for a dead letter; None: a tombstone."""


class ErrorCosts(NamedTuple):
    """What an error costs at one example; both are float32."""

    false_positive: float
    false_negative: float


class Record(NamedTuple):
    """One input record."""

    side: Side
    offset: int
    time_ms: int
    meaning: Meaning
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()

    @property
    def stream(self) -> str:
        """The stream that the value names; without a value that can be read, the stream that the key names."""
        return stream_of_key(self.key) if isinstance(self.meaning, Reason | None) else self.meaning.stream

    @property
    def dead_letter_bytes(self) -> int:
        """The size of the record as a dead letter: its key, value and headers, and the headers that areba adds."""
        headers = sum(len(name.encode(errors="surrogatepass")) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + DEAD_LETTER_BYTES


# Events ---------------------------------------------------------------------------------------------------------------


class Predicted(NamedTuple):
    """A prediction that is published.

    `position` counts all records of the task in merge order; it is that of the record which causes the event, as in
    all events. `updates` is the number of labels that the learner has seen, `offset` that of the example. `votes` says
    whether several networks vote for the class, so that it need not follow from the score. `costs` are those of the
    example, `headers` those that it passes on. `number` counts the learner's predictions under the threshold in force,
    from 1 on; `fading` is how the counts of their scores fade.
    """

    position: int
    stream: str
    id: str
    learner: str
    champion: bool
    updates: int
    offset: int
    threshold: ThresholdSettings = ThresholdSettings()
    votes: bool = False
    costs: ErrorCosts | None = None
    number: int = 0
    fading: float = 1.0
    headers: tuple[Header, ...] = ()


class ExpectedOutcome(NamedTuple):
    """An outcome; `corrects` is the offset of the joined example whose class changes with it, `costs` are its costs.

    `headers` are those that its example passes on.
    """

    position: int
    stream: str
    id: str
    outcome: str
    label: int | None = None
    learner: str | None = None
    delay_ms: int | None = None
    example_offset: int | None = None
    label_offset: int | None = None
    corrects: int | None = None
    costs: ErrorCosts | None = None
    headers: tuple[Header, ...] = ()


class Dead(NamedTuple):
    """A dead letter: the record and the reason, and for a label that was not joined, the words that explain it."""

    position: int
    reason: Reason
    record: Record
    explanation: str = ""


class Reported(NamedTuple):
    """The metrics of one learner; `updates` is the number of the stream's labels that it has seen."""

    position: int
    stream: str
    learner: str
    champion: bool
    updates: int
    labelled: int
    examples: int
    unlabelled: int
    evicted: int
    duplicates: int
    pending: int
    waiting: int
    drift: ExpectedDrift | None = None


Event: TypeAlias = Predicted | ExpectedOutcome | Dead | Reported


# State ----------------------------------------------------------------------------------------------------------------


class Pending(NamedTuple):
    """An example that was predicted and has no label yet."""

    time_ms: int
    arrival: int
    features: bytes
    offset: int
    champion: str
    costs: ErrorCosts | None = None
    headers: tuple[Header, ...] = ()

    @property
    def cells(self) -> dict[str, str | int | tuple[Header, ...]]:
        """The fields of its outcome that it decides, whatever its end."""
        return {"learner": self.champion, "example_offset": self.offset, "headers": self.headers}


class Waiting(NamedTuple):
    """A label whose example has not arrived; its class and revision may have been corrected."""

    time_ms: int
    arrival: int
    label: int
    revision: int
    record: Record


class Closed(NamedTuple):
    """What is remembered of an example.

    `stream_time_ms` is the stream time at which it was closed, `cause` that of a label that comes now. It is
    `correctable` if it was joined while labels were corrected.
    """

    offset: int
    features: bytes
    label: int | None
    revision: int
    outcome: str
    stream_time_ms: int
    cause: Cause = Cause.NONE
    correctable: bool = False


Held = TypeVar("Held", Pending, Waiting)


@dataclass
class _ByAge(Generic[Held]):
    """Open examples or labels by id, with the oldest at hand; age is (timestamp, arrival).

    The heap may hold ids that were taken out or that stand for another arrival by now. They are dropped when they reach
    the top, or all at once when they are the majority.
    """

    by_id: dict[str, Held] = field(default_factory=dict)
    heap: list[tuple[int, int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, id_: str) -> bool:
        return id_ in self.by_id

    def get(self, id_: str) -> Held | None:
        """Return the record that is held under this id."""
        return self.by_id.get(id_)

    def add(self, id_: str, held: Held) -> None:
        """Hold this under an id that is free."""
        self.by_id[id_] = held
        heappush(self.heap, (held.time_ms, held.arrival, id_))
        if len(self.heap) > 2 * len(self.by_id) + 64:
            self.heap = [(one.time_ms, one.arrival, each) for each, one in self.by_id.items()]
            heapify(self.heap)

    def replace(self, id_: str, held: Held) -> None:
        """Hold another content of the same age under this id."""
        self.by_id[id_] = held

    def pop(self, id_: str) -> Held | None:
        """Remove the record that is held under this id."""
        return self.by_id.pop(id_, None)

    def oldest(self) -> tuple[int, int, str] | None:
        """Return timestamp, arrival and id of the oldest."""
        while self.heap:
            _, arrival, id_ = self.heap[0]
            held = self.by_id.get(id_)
            if held is not None and held.arrival == arrival:
                return self.heap[0]
            heappop(self.heap)
        return None

    def in_order(self) -> Iterator[tuple[str, Held]]:
        """Yield everything from the oldest on."""
        yield from sorted(self.by_id.items(), key=lambda pair: pair[1][:2])


@dataclass
class ReferenceStream:
    """Everything that is known of one stream.

    `begun` is the number of labels that there had been when each learner began. `decided` counts the predictions of
    each learner under the threshold in force. `closed` is in order of closing.
    `earlier_examples` were predicted before the last reset. `advanced_ms` is the time of a pair of `advance` marks that
    has not closed everything up to it yet.
    """

    name: str
    features: int | None
    learners: dict[str, LearnerSettings]
    champion: str
    threshold: ThresholdSettings
    begun: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    decided: Counter[str] = field(default_factory=Counter)
    time_ms: int = -1
    arrivals: int = 0
    pending: _ByAge[Pending] = field(default_factory=_ByAge)
    waiting: _ByAge[Waiting] = field(default_factory=_ByAge)
    waiting_bytes: int = 0
    closed: OrderedDict[str, Closed] = field(default_factory=OrderedDict)
    open_marks: list[tuple[Side, int]] = field(default_factory=list)
    advanced_ms: int | None = None
    labelled: int = 0
    examples: int = 0
    unlabelled: int = 0
    evicted: int = 0
    duplicates: int = 0
    drift: StreamDrift | None = None
    earlier_examples: int = 0

    def replace_learners(self, learners: Mapping[str, LearnerSettings]) -> list[str]:
        """Take other learners; return the names of those that begin here: new, or of another kind under an old name."""
        before, self.learners = self.learners, dict(learners)
        begin = [name for name in learners if name not in before or _shape(before[name]) != _shape(learners[name])]
        self.begun |= dict.fromkeys(begin, self.labelled)
        for name in before.keys() - learners.keys():
            del self.decided[name]
        return begin

    def follow(self, before: ThresholdSettings, after: ThresholdSettings) -> None:
        """Take the threshold of another configuration, if it is another than that of the configuration before."""
        if after != before:
            self.decide_by(after)

    def decide_by(self, threshold: ThresholdSettings) -> None:
        """Take a threshold; if it is another than the one in force, it counts scores from here on."""
        if threshold != self.threshold:
            self.threshold = threshold
            self.decided.clear()

    def hold_label(self, id_: str, label: Waiting) -> None:
        """Let a label wait for its example."""
        self.waiting.add(id_, label)
        self.waiting_bytes += label.record.dead_letter_bytes

    def erase(self, digests: frozenset[str]) -> tuple[list[tuple[str, Pending]], list[Waiting]]:
        """Forget the ids with these digests; return the pending examples and the waiting labels, the oldest first."""
        named = {id_ for id_ in (*self.pending.by_id, *self.waiting.by_id, *self.closed) if self.digest(id_) in digests}
        examples = [(id_, held) for id_, held in self.pending.in_order() if id_ in named]
        labels = [held for id_, held in self.waiting.in_order() if id_ in named]
        for id_ in named:
            self.pending.pop(id_)
            self.take_label(id_)
            self.closed.pop(id_, None)
        return examples, labels

    def digest(self, id_: str) -> str:
        """Return the digest by which an `erase` mark names an id."""
        return sha256(self.name.encode() + bytes(1) + id_.encode()).hexdigest()

    def take_label(self, id_: str) -> Waiting | None:
        """Take out the label that waits under this id."""
        label = self.waiting.pop(id_)
        if label is not None:
            self.waiting_bytes -= label.record.dead_letter_bytes
        return label

    def oldest_until(self, time_ms: int) -> tuple[Side, str] | None:
        """Return side and id of the oldest that is open, if its timestamp is not later than this."""
        example, label = self.pending.oldest(), self.waiting.oldest()
        if example is not None and (label is None or example < label):
            return (Side.EXAMPLES, example[2]) if example[0] <= time_ms else None
        return (Side.LABELS, label[2]) if label is not None and label[0] <= time_ms else None

    def forget_until(self, time_ms: int) -> None:
        """Forget the examples that were closed up to this stream time."""
        while self.closed and next(iter(self.closed.values())).stream_time_ms <= time_ms:
            self.closed.popitem(last=False)

    def remember(self, id_: str, closed: Closed, most: int) -> None:
        """Remember a closed example, and forget the longest closed beyond the bound."""
        self.closed[id_] = closed
        while len(self.closed) > most:
            self.closed.popitem(last=False)

    def apply_bounds(self, join: JoinSettings) -> None:
        """Forget what exceeds other bounds, and without corrections what they need."""
        del self.open_marks[: -join.max_open_marks_per_stream]
        while len(self.closed) > join.max_closed_per_stream:
            self.closed.popitem(last=False)
        if join.corrections == "first":
            for id_, closed in self.closed.items():
                self.closed[id_] = closed._replace(correctable=False)

    def is_second_mark(self, side: Side, time_ms: int, most_open: int) -> bool:
        """Say whether the other side has sent this mark; if not, remember it, but no more than this many."""
        other = Side.LABELS if side is Side.EXAMPLES else Side.EXAMPLES
        if (other, time_ms) in self.open_marks:
            self.open_marks.remove((other, time_ms))
            return True
        if (side, time_ms) not in self.open_marks:
            self.open_marks.append((side, time_ms))
            if len(self.open_marks) > most_open:
                del self.open_marks[0]
        return False

    def reports(self, position: int) -> Iterator[Reported]:
        """Yield the metrics of each learner."""
        counts = (self.labelled, self.examples, self.unlabelled, self.evicted, self.duplicates)
        for learner in self.learners:
            updates = self.labelled - self.begun[learner]
            champion = learner == self.champion
            held = (len(self.pending), len(self.waiting))
            drift = None if self.drift is None else self.drift.expected
            yield Reported(position, self.name, learner, champion, updates, *counts, *held, drift)


def votes(learner: LearnerSettings) -> bool:
    """Say whether several networks of a learner vote for the class."""
    facts = METHOD_FACTS.get(learner.method)
    return facts is not None and facts.predictor is None and facts.networks(learner) > 1


def _shape(learner: LearnerSettings) -> dict[str, object]:
    """Return what a learner cannot change and continue: all settings but those that steer its next steps."""
    steering = {"theta", "learning_rate", "l2", "largest_cost", "cost_interval_labels"}
    return learner.model_dump(exclude=steering)
