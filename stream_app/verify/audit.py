"""The books of one task, checked from what its topics hold; pure, and written apart from the join that it checks.

The judge is given the input records in offset order up to the committed offsets, in slices (the ranges of the commit
records), and the outputs of the same partition. It looks for the fate of every input record: a dead letter that names
its offset, an outcome that settles it, or a mark; else an example is pending, a label is waiting. Then it asks whether
that fate is possible, given the records of its side before it: a duplicate needs an equal record inside the horizon,
a record taken as new needs none there, an expired one needs a stream time beyond its life.

The two sides are not merged again: where only the order of the merge could decide, the record has the benefit of the
doubt. Predictions have no offsets, but they leave in the order of the examples: the champion's must be the sequence of
the examples that were neither duplicates nor dead letters.

Memory: open records and remembered ids, both bounded by the settings of the join, and one slice.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import pack
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from stream_app.records import (
    DEAD_LETTER_BYTES,
    REASONS,
    Example,
    Header,
    Label,
    Mark,
    MarkKind,
    Outcome,
    OutcomeKind,
    Prediction,
    Reason,
    Side,
    stream_of_key,
)
from stream_app.serialization.dead_letter import DeadLetterRecord
from stream_app.serialization.left_out import Fields

MAX_FINDINGS = 1_000
"""Lines kept: enough to see what is wrong; behind these they are only counted."""

LOOKAHEAD_GROUPS = 2_000
"""Examples whose predictions are searched for one that is not where it should be; if farther away it is missing."""

MAX_ADVANCES = 1_000
"""Pairs of `advance` marks remembered per stream: a replay sends one."""

NOT_LATE = "is called a late-label, but its example was not closed without a label"

OUTCOMES = {kind.name.lower(): kind for kind in OutcomeKind}

ON_ANY = frozenset({Reason.UNKNOWN_STREAM, Reason.BAD_TIME})
ON_MARKS = ON_ANY | {Reason.UNKNOWN_LEARNER}
ON_DATA = {
    Side.EXAMPLES: ON_ANY | {Reason.WRONG_DIMENSION, Reason.CONFLICTING_EXAMPLE},
    Side.LABELS: ON_ANY | {Reason.CONFLICTING_LABEL, Reason.LATE_LABEL, Reason.ORPHAN_LABEL},
}
"""Reasons that a record may have although its bytes say nothing wrong."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the judge must know of the settings: times in milliseconds of event time, bounds per stream.

    `corrections` is whether a label of a higher revision corrects one of another class; `features` the fixed number of
    features of an example; 0: that of the stream's first.
    """

    life_ms: int
    closed_ttl_ms: int
    max_pending: int
    max_waiting: int
    max_waiting_bytes: int
    max_closed: int
    max_open_marks: int
    corrections: bool = False
    features: int = 0


class Expected(NamedTuple):
    """Whose predictions of an example are published: those of every one of these learners, or of one of them."""

    learners: frozenset[str]
    every: bool

    def others(self, found: frozenset[str]) -> frozenset[str]:
        """Learners that are missing, too much, or not known."""
        if self.every:
            return self.learners ^ found
        return found - self.learners or (found if len(found) > 1 else frozenset())


@dataclass(frozen=True, slots=True)
class Names:
    """Full names of the topics; `inputs` by `Side`."""

    inputs: tuple[str, str]
    predictions: str
    outcomes: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class Input:
    """One input record: what its value says, or (a `Reason`) why it says nothing that is allowed.

    `stream` is what the value tells of its stream where the key tells another.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    content: Example | Label | Mark | Reason
    stream: str | None = None


Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Output(Generic[Content]):
    """One record of an output topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    content: Content


@dataclass(frozen=True, slots=True)
class Finding:
    """Something off, and where; `offset` None is the whole partition."""

    topic: str
    partition: int
    offset: int | None
    text: str

    def __str__(self) -> str:
        where = f"{self.topic}[{self.partition}]"
        return f"{where}: {self.text}" if self.offset is None else f"{where} offset {self.offset}: {self.text}"


@dataclass(slots=True)
class Findings:
    """Everything off so far: at most `MAX_FINDINGS` are kept, all are counted."""

    kept: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, topic: str, partition: int, offset: int | None, text: str) -> None:
        """Count it, and keep it while there is room."""
        self.count += 1
        if len(self.kept) < MAX_FINDINGS:
            self.kept.append(Finding(topic, partition, offset, text))


@dataclass(slots=True)
class Figures:
    """Counts of one stream; predictions by learner, dead letters of each side by reason."""

    examples: int = 0
    example_marks: int = 0
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
    label_duplicates: int = 0
    corrections: int = 0
    label_dead_letters: Counter[str] = field(default_factory=Counter)
    waiting: int = 0

    @property
    def accepted(self) -> int:
        """Records that came to their stream."""
        dead = self.example_dead_letters.total() + self.label_dead_letters.total()
        return self.examples + self.labels - dead

    def equations(self) -> Iterator[tuple[str, int, int]]:
        """The three equations of the books: what, left side, right side."""
        dead = self.example_dead_letters.total()
        yield (
            "examples = marks + champion's predictions + duplicates + dead letters",
            self.examples,
            self.example_marks + self.champion_predictions + self.example_duplicates + dead,
        )
        yield (
            "champion's predictions = joined + unlabelled + evicted + pending",
            self.champion_predictions,
            self.joined + self.unlabelled + self.evicted + self.pending,
        )
        dead = self.label_dead_letters.total()
        yield (
            "labels = marks + joined + corrections + duplicates + dead letters + waiting",
            self.labels,
            self.label_marks + self.joined + self.corrections + self.label_duplicates + dead + self.waiting,
        )

    def add(self, other: "Figures") -> None:
        """Add the counts of the same stream in another partition."""
        for name in self.__slots__:
            mine = getattr(self, name)
            if isinstance(mine, Counter):
                mine.update(getattr(other, name))
            else:
                setattr(self, name, mine + getattr(other, name))


@dataclass(slots=True)
class _Item:
    """An input record: its fate while that is looked for, then what is remembered of its id."""

    side: Side
    offset: int
    timestamp_ms: int
    stream: str
    id: str  # empty: a mark, or a value that says nothing
    slice_number: int
    record: Input | None  # dropped once no dead letter can carry it any more
    features: bytes = b""
    dimension: int = 0
    label: int = -1
    revision: int = 0
    bytes: int = 0  # of a label: what it takes while it waits
    fate: OutcomeKind | Reason | None = None
    closing: int = 0
    closed_slice: int = 0
    closed_ms: int = 0
    again: bool = False  # the id was known before
    was_reset: bool = False  # the stream, while this was open
    prediction: Output[Prediction] | None = None
    outcome: Output[Outcome] | None = None


@dataclass(frozen=True, slots=True)
class _Advance:
    """A pair of `advance` marks: what it closes, and where and when its two records are, by `Side`.

    A mark that may have met its twin or not, for there were more of them than the join keeps, has no `offsets`.
    """

    time_ms: int
    offsets: dict[Side, int]
    timestamps_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Closing:
    """A record that was given up, and the record that says so; its timestamp is that of the cause."""

    item: _Item
    fate: OutcomeKind | Reason
    topic: str
    offset: int
    cause_ms: int


@dataclass(slots=True)
class _Stream:
    """What is remembered of a stream."""

    rules: Rules
    dimension: int
    figures: Figures = field(default_factory=Figures)
    time_ms: int = -1
    closings: int = 0
    open: Counter[Side] = field(default_factory=Counter)
    peak: Counter[Side] = field(default_factory=Counter)
    ahead: Counter[Side] = field(default_factory=Counter)  # closed, but perhaps by records of later slices
    open_bytes: int = 0  # the same three of labels, in bytes
    peak_bytes: int = 0
    ahead_bytes: int = 0
    floating: deque[_Item] = field(default_factory=deque)  # labels of which the same is true
    late: dict[str, _Item] = field(default_factory=dict)  # late labels whose examples have not come
    known: tuple[dict[str, _Item], dict[str, _Item]] = field(default_factory=lambda: ({}, {}))
    settled: tuple[deque[_Item], deque[_Item]] = field(default_factory=lambda: (deque(), deque()))
    unpaired: dict[int, _Item] = field(default_factory=dict)
    is_crowded: bool = False
    corrected: dict[str, tuple[int, int]] = field(default_factory=dict)  # in this slice: offset and class, by id
    advances: deque[_Advance] = field(default_factory=lambda: deque(maxlen=MAX_ADVANCES))
    doubts: deque[_Closing] = field(default_factory=lambda: deque(maxlen=MAX_FINDINGS))

    def surely_remembers(self, item: _Item) -> bool:
        """Whether the join must still know this id: fewer closings since, and less time, than its horizon."""
        if item.fate is None:
            return True
        recent = self.closings - item.closing < self.rules.max_closed
        return recent and self.time_ms - item.timestamp_ms <= self.rules.closed_ttl_ms

    def explains(self, closing: _Closing) -> bool:
        """Whether a record that was given up had to be: its life was over, marks closed it, or a bound was reached."""
        item, cause_ms = closing.item, closing.cause_ms
        if item.was_reset:
            return closing.fate in (OutcomeKind.EVICTED, Reason.ORPHAN_LABEL)
        if closing.fate is not OutcomeKind.EVICTED:
            life_end_ms = item.timestamp_ms + self.rules.life_ms
            if cause_ms > life_end_ms or (cause_ms == item.timestamp_ms and self.time_ms > life_end_ms):
                return True
            if any(pair.time_ms >= item.timestamp_ms and cause_ms in pair.timestamps_ms for pair in self.advances):
                return True
        if closing.fate is OutcomeKind.UNLABELLED:
            return False
        if item.side is Side.EXAMPLES:
            return self.peak[item.side] > self.rules.max_pending
        return self.peak[item.side] > self.rules.max_waiting or self.peak_bytes > self.rules.max_waiting_bytes

    def class_of(self, label: _Item) -> int:
        """The class of a label that met its example, after what had corrected it while it waited.

        What did so in an earlier slice has changed the item.
        """
        offset, corrected = self.corrected.get(label.id, (-1, -1))
        return corrected if offset > label.offset else label.label

    def must_close(self, item: _Item) -> bool:
        """Whether nothing can have kept it open: stream time, or a pair of marks that both lie behind it."""
        if self.time_ms > item.timestamp_ms + self.rules.life_ms:
            return True
        return any(
            item.timestamp_ms <= pair.time_ms and item.offset < pair.offsets.get(item.side, 0) for pair in self.advances
        )

    def expect_marks(self, count: int) -> None:
        """Of more marks than are kept the order of the merge decides which are dropped: no pair is sure any more."""
        self.is_crowded |= len(self.unpaired) + count > self.rules.max_open_marks

    def settle_labels(self) -> None:
        """Count what is remembered of labels from when it is sure that they were closed: at most those that wait."""
        most = self.rules.max_waiting if self.ahead[Side.LABELS] else 0
        while len(self.floating) > most:
            label = self.floating.popleft()
            label.closing = self.closings
            self.settled[Side.LABELS].append(label)

    def forget(self) -> None:
        """End a slice: drop ids that the join cannot know any more; it is behind us by what is open, not by more."""
        self.corrected.clear()
        limit = self.closings - self.rules.max_closed - self.rules.max_pending
        oldest_ms = self.time_ms - self.rules.closed_ttl_ms - self.rules.life_ms
        for known, settled in zip(self.known, self.settled, strict=True):
            while settled and (settled[0].closing < limit or settled[0].closed_ms < oldest_ms):
                item = settled.popleft()
                if known.get(item.id) is item:
                    del known[item.id]


def _bytes(record: Input) -> int:
    """Of a record as a dead letter: key, value and headers, and ours."""
    headers = sum(len(name.encode(errors="surrogatepass")) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + DEAD_LETTER_BYTES


Group: TypeAlias = list[Output[Prediction]]
"""The predictions of one example, one a learner."""


def grouped(predictions: Iterable[Output[Prediction]]) -> Iterator[Group]:
    """Neighbours with one stream and id, as long as no learner comes twice."""
    group: Group = []
    for output in predictions:
        if group:
            first, this = group[0].content, output.content
            same = first.id == this.id and first.stream == this.stream
            if not same or any(this.learner == other.content.learner for other in group):
                yield group
                group = []
        group.append(output)
    if group:
        yield group


class Ahead(Generic[Content]):
    """An iterator that shows what comes."""

    def __init__(self, items: Iterable[Content]) -> None:
        self._items = iter(items)
        self._seen: deque[Content] = deque()

    def peek(self, place: int = 0) -> Content | None:
        """The item so many places on; None: there is none."""
        while len(self._seen) <= place:
            try:
                self._seen.append(next(self._items))
            except StopIteration:
                return None
        return self._seen[place]

    def pop(self) -> Content:
        """Take the next item."""
        item = self.peek()
        if item is None:
            raise IndexError("nothing is left")
        self._seen.popleft()
        return item


class PartitionBooks:
    """The judge of one task.

    Args:
        partition: Its number.
        names: Names of the topics.
        rules: The settings of a stream.
        ends: The committed offsets of both sides: outputs that settle others are newer than the books, or wrong.
        predictions: The predictions of the partition, in offset order.
        outcomes: Its outcomes.
        dead_letters: Its dead letters.
        findings: Where everything off is told.
    """

    def __init__(
        self,
        partition: int,
        *,
        names: Names,
        rules: Callable[[str], Rules],
        ends: tuple[int, int],
        predictions: Iterable[Output[Prediction]],
        outcomes: Iterable[Output[Outcome]],
        dead_letters: Iterable[Output[DeadLetterRecord]],
        findings: Findings,
    ) -> None:
        self._partition = partition
        self._names = names
        self._rules = rules
        self._last = ends
        self._groups = Ahead(grouped(predictions))
        self._outcomes = Ahead(outcomes)
        self._dead_letters = Ahead(dead_letters)
        self._findings = findings
        self._open: tuple[dict[int, _Item], dict[int, _Item]] = ({}, {})
        self._ends = (0, 0)
        self._streams: dict[str, _Stream] = {}
        self._strays: dict[tuple[str, str], deque[Group]] = {}
        self._beyond: list[tuple[str, int, str]] = []
        self._closings: list[_Closing] = []
        self._reset: list[_Item] = []
        self._slice = 0
        self._expected: Callable[[str], Expected] = lambda _: Expected(frozenset(), every=False)

    # What the caller does ---------------------------------------------------------------------------------------------

    def configure(self, expected: Callable[[str], Expected]) -> None:
        """From the next slice on, these learners predict the examples of a stream."""
        self._expected = expected

    def reset(self, name: str) -> None:
        """Let a stream begin anew: the outputs of the next slice have to close all of it that is open."""
        before = self._streams.get(name)
        if before is None:
            return
        self._streams[name] = _Stream(before.rules, before.rules.features, before.figures, open=before.open)
        for item in (*self._open[Side.EXAMPLES].values(), *self._open[Side.LABELS].values()):
            if item.stream == name and item.id:
                item.was_reset = True
                self._reset.append(item)

    def take(self, examples: Iterable[Input], labels: Iterable[Input], ends: tuple[int, int]) -> None:
        """Judge the next slice: all records of both sides below `ends` that were not given before."""
        self._slice += 1
        self._ends = ends
        items = [self._item(Side.EXAMPLES, record) for record in examples]
        labelled = [self._item(Side.LABELS, record) for record in labels]
        self._expect_marks((*items, *labelled))
        for stream in self._streams.values():
            stream.peak = stream.open + stream.ahead
            stream.peak_bytes = stream.open_bytes + stream.ahead_bytes
        self._settle_dead_letters()
        for item in (*items, *labelled):
            self._move_time(item)
        self._settle_outcomes()
        self._check_resets()
        self._check_closings()
        for item in items:
            self._judge_example(item)
        for item in labelled:
            self._judge_label(item)
        self._match([item for item in items if item.id and not _repeat_or_dead(item)])
        for item in items:
            item.record = None if item.id else item.record
        for item in labelled:
            item.record = None if item.fate is not None else item.record
        for stream in self._streams.values():
            stream.settle_labels()
            stream.forget()

    def finish(self, *, running: bool) -> dict[str, Figures]:
        """Judge what is left over, and the equations.

        Args:
            running: Whether the group committed more meanwhile; outputs behind the books are then newer than they.

        Returns:
            The figures of each stream.
        """
        for groups in self._strays.values():
            for group in groups:
                self._stray(group)
        if not running:
            self._leftovers()
        waiting = {(item.stream, item.id): item for item in self._open[Side.LABELS].values() if item.id}
        for item in (*self._open[Side.EXAMPLES].values(), *self._open[Side.LABELS].values()):
            self._finish_item(item)
            label = waiting.get((item.stream, item.id)) if item.id else None
            if label is not None and item.side is Side.EXAMPLES:
                self._input_off(item, f"is pending, and its label at {self._at(label)} is waiting: they never met")
        for name, stream in self._streams.items():
            self._finish_stream(name, stream)
        return {name: stream.figures for name, stream in self._streams.items()}

    # Taking in --------------------------------------------------------------------------------------------------------

    def _stream(self, name: str) -> _Stream:
        stream = self._streams.get(name)
        if stream is None:
            rules = self._rules(name)
            stream = self._streams[name] = _Stream(rules, rules.features)
        return stream

    def _item(self, side: Side, record: Input) -> _Item:
        content = record.content
        name = record.stream or stream_of_key(record.key) if isinstance(content, Reason) else content.stream
        item = _Item(side, record.offset, record.timestamp_ms, name, "", self._slice, record)
        if isinstance(content, Example):
            item.id = content.id
            item.dimension = len(content.features)
            item.features = blake2b(pack(f"<{item.dimension}f", *content.features), digest_size=16).digest()
        elif isinstance(content, Label):
            item.id, item.label, item.revision = content.id, content.label, content.revision
            item.bytes = _bytes(record)
        stream = self._stream(name)
        if side is Side.EXAMPLES:
            stream.figures.examples += 1
        else:
            stream.figures.labels += 1
        if item.id:
            stream.open[side] += 1
            stream.open_bytes += item.bytes
        self._open[side][record.offset] = item
        return item

    def _move_time(self, item: _Item) -> None:
        """Move stream time and note marks; what was refused before it came to its stream moves nothing."""
        if isinstance(item.fate, Reason) and (item.fate.malformed or item.fate is Reason.UNKNOWN_STREAM):
            return
        stream = self._stream(item.stream)
        if item.id:
            stream.time_ms = max(stream.time_ms, item.timestamp_ms)
        elif item.fate is None and item.record is not None and isinstance(item.record.content, Mark):
            del self._open[item.side][item.offset]
            if item.side is Side.EXAMPLES:
                stream.figures.example_marks += 1
            else:
                stream.figures.label_marks += 1
            if item.record.content.kind is MarkKind.ADVANCE:
                _note_advance(stream, item, item.record.content.time_ms or 0)

    def _expect_marks(self, items: Sequence[_Item]) -> None:
        contents = ((item.stream, item.record.content) for item in items if item.record is not None)
        advances = Counter(
            name for name, content in contents if isinstance(content, Mark) and content.kind is MarkKind.ADVANCE
        )
        for name, count in advances.items():
            self._stream(name).expect_marks(count)

    def _anchor(self, side: Side) -> None:
        """A record that some record of this slice caused: what was read before it was closed before it."""
        for stream in self._streams.values():
            del stream.ahead[side]
            if side is Side.LABELS:
                stream.ahead_bytes = 0

    # Dead letters -----------------------------------------------------------------------------------------------------

    def _settle_dead_letters(self) -> None:
        while (output := self._dead_letters.peek()) is not None:
            letter = output.content
            if letter.topic not in self._names.inputs or letter.partition != self._partition:
                text = f"names {letter.topic}[{letter.partition}], which is no input of this task"
                self._off(self._names.dead_letters, output.offset, text)
            else:
                side = Side(self._names.inputs.index(letter.topic))
                if letter.input_offset >= self._last[side]:
                    self._set_aside(self._names.dead_letters, output.offset, side, letter.input_offset)
                elif letter.input_offset >= self._ends[side]:
                    return
                else:
                    self._settle_dead_letter(output, side)
            self._dead_letters.pop()

    def _settle_dead_letter(self, output: Output[DeadLetterRecord], side: Side) -> None:
        letter, topic = output.content, self._names.dead_letters
        where = letter.origin
        item = self._open[side].pop(letter.input_offset, None)
        if item is None or item.record is None:
            self._off(topic, output.offset, f"names {where}, which does not exist, or was settled or taken before")
            return
        record = item.record
        others = list(letter.differences(Fields(record.key, record.value, record.headers)))
        if others:
            self._off(topic, output.offset, f"has not the {' and '.join(others)} of {where}{_of(item)}")
        reason = REASONS.get(letter.reason)
        stream = self._stream(item.stream)
        figures = stream.figures
        counts = figures.example_dead_letters if side is Side.EXAMPLES else figures.label_dead_letters
        counts[letter.reason] += 1
        if reason is None or not _possible(item, reason):
            self._off(topic, output.offset, f"{where}{_of(item)} cannot be {letter.reason!r}: {_what(item)}")
        if reason is Reason.ORPHAN_LABEL:
            self._closings.append(_Closing(item, reason, topic, output.offset, output.timestamp_ms))
            item.closed_ms = output.timestamp_ms
            stream.ahead[side] += 1
            stream.ahead_bytes += item.bytes
        elif reason is not Reason.LATE_LABEL:  # that may be one that waited for an example which came too late
            self._anchor(Side.LABELS)
        self._close(item, Reason.UNDECODABLE if reason is None else reason)

    # Outcomes ---------------------------------------------------------------------------------------------------------

    def _settle_outcomes(self) -> None:
        while (output := self._outcomes.peek()) is not None:
            offsets = (output.content.example_offset, output.content.label_offset)
            pairs = [(side, offset) for side, offset in zip(Side, offsets, strict=True) if offset is not None]
            beyond = [(side, offset) for side, offset in pairs if offset >= self._last[side]]
            if beyond:
                self._set_aside(self._names.outcomes, output.offset, *beyond[0])
            elif any(offset >= self._ends[side] for side, offset in pairs):
                return
            else:
                self._settle_outcome(output, offsets)
            self._outcomes.pop()

    def _settle_outcome(self, output: Output[Outcome], offsets: tuple[int | None, int | None]) -> None:
        outcome = output.content
        kind = OUTCOMES[outcome.outcome]
        stream = self._stream(outcome.stream)
        example = self._settled(Side.EXAMPLES, offsets[0], output)
        label = self._settled(Side.LABELS, offsets[1], output)
        if output.key != outcome.stream.encode():
            self._outcome_off(output, "its key is not its stream")
        _count(stream.figures, kind, offsets)
        settles = (offsets[0] is not None, offsets[1] is not None)
        if kind not in (OutcomeKind.UNLABELLED, OutcomeKind.EVICTED):
            self._anchor(Side.EXAMPLES)
        if not _settles_rightly(kind, settles):
            self._outcome_off(output, f"{outcome.outcome} settles the wrong sides")
        if label is not None and kind in (OutcomeKind.JOINED, OutcomeKind.CORRECTION):
            if kind is OutcomeKind.CORRECTION:
                stream.corrected[label.id] = label.offset, label.label
            self._check_class(output, stream, example, label)
        for item in (example, label):
            if item is not None:
                self._close(item, kind)
        if example is not None and kind is not OutcomeKind.DUPLICATE:
            if kind is not OutcomeKind.JOINED:
                self._give_up(example, kind, output)
            example.outcome = output
            self._compare(example)

    def _check_class(self, output: Output[Outcome], stream: _Stream, example: _Item | None, label: _Item) -> None:
        """Class and delay are those of the label."""
        outcome = output.content
        said = label.label if example is None else stream.class_of(label)
        if outcome.label != said:
            self._outcome_off(output, f"class {outcome.label}, but {self._at(label)} says {said}")
        if example is not None and outcome.delay_ms != (delay_ms := label.timestamp_ms - example.timestamp_ms):
            self._outcome_off(output, f"delay_ms {outcome.delay_ms}, but the records' timestamps say {delay_ms}")

    def _give_up(self, example: _Item, kind: OutcomeKind, output: Output[Outcome]) -> None:
        """Ask later why: what closed it may lie in a later slice, for outcomes are read ahead of the inputs."""
        self._closings.append(_Closing(example, kind, self._names.outcomes, output.offset, output.timestamp_ms))
        example.closed_ms = max(example.closed_ms, output.timestamp_ms)
        self._stream(example.stream).ahead[Side.EXAMPLES] += 1

    def _settled(self, side: Side, offset: int | None, output: Output[Outcome]) -> _Item | None:
        """The open record at this offset."""
        if offset is None:
            return None
        item = self._open[side].get(offset)
        if item is None or not item.id:
            where = f"{self._names.inputs[side]}[{self._partition}] offset {offset}"
            self._outcome_off(output, f"settles {where}, which was settled before or is no {side.name.lower()[:-1]}")
            return None
        outcome = output.content
        if (item.stream, item.id) != (outcome.stream, outcome.id):
            self._outcome_off(output, f"settles {self._at(item)}, which has another stream or id{_of(item)}")
        del self._open[side][offset]
        return item

    def _check_resets(self) -> None:
        for item in self._reset:
            if item.fate not in (OutcomeKind.EVICTED, Reason.ORPHAN_LABEL):
                self._input_off(item, "was open when its stream was reset, but was not closed by that")
        self._reset.clear()

    def _check_closings(self) -> None:
        """Ask why records were given up; outputs are read ahead of the inputs, so some answers come later."""
        for closing in self._closings:
            stream = self._stream(closing.item.stream)
            if not stream.explains(closing):
                stream.doubts.append(closing)
        self._closings.clear()
        for stream in self._streams.values():
            if stream.doubts:
                doubts = [closing for closing in stream.doubts if not stream.explains(closing)]
                stream.doubts.clear()
                stream.doubts.extend(doubts)

    def _close(self, item: _Item, fate: OutcomeKind | Reason) -> None:
        item.fate = fate
        if not item.id:
            return
        stream = self._stream(item.stream)
        stream.open[item.side] -= 1
        stream.open_bytes -= item.bytes
        if item.side is Side.EXAMPLES and not _repeat_or_dead(item):
            stream.closings += 1
        item.closing, item.closed_slice = stream.closings, self._slice
        item.closed_ms = max(item.closed_ms, stream.time_ms)
        if item.slice_number < self._slice:
            self._late_fate(item, fate)
            item.record = None
        if fate in (Reason.ORPHAN_LABEL, Reason.LATE_LABEL):
            stream.floating.append(item)
        elif not _repeat_or_dead(item) or item.slice_number < self._slice:
            stream.settled[item.side].append(item)

    def _late_fate(self, item: _Item, fate: OutcomeKind | Reason) -> None:
        """A record that was open at the end of a slice can no longer become a repeat, or be refused for its content."""
        if fate in (OutcomeKind.DUPLICATE, OutcomeKind.CORRECTION) or fate in (
            Reason.CONFLICTING_EXAMPLE,
            Reason.CONFLICTING_LABEL,
        ):
            self._input_off(item, f"became a {_fate_text(fate)} long after it was taken as new")

    # Is the fate possible? --------------------------------------------------------------------------------------------

    def _judge_example(self, item: _Item) -> None:
        if not item.id:
            return
        stream = self._stream(item.stream)
        known = stream.known[Side.EXAMPLES]
        before = known.get(item.id)
        if _repeat_or_dead(item):
            fault = self._refused_example(item, stream, before)
        else:
            fault = self._new_example(item, stream, before)
            if _unlabelled(item):
                stream.late.pop(item.id, None)
            item.again = before is not None
            known[item.id] = item
        if fault:
            self._input_off(item, fault)

    def _refused_example(self, item: _Item, stream: _Stream, before: _Item | None) -> str | None:
        if item.fate is OutcomeKind.DUPLICATE:
            if before is None:
                return "is called a duplicate, but no such example is known"
            if before.features != item.features:
                return f"is called a duplicate, but its features differ from {self._at(before)}"
        elif item.fate is Reason.CONFLICTING_EXAMPLE:
            if before is None or before.features == item.features:
                return "is called a conflicting-example, but no other features of this id are known"
        elif item.fate is Reason.WRONG_DIMENSION:
            if item.dimension == stream.dimension:
                return f"is called wrong-dimension, but has the stream's {item.dimension} features"
        elif item.fate is Reason.UNKNOWN_STREAM and stream.figures.champion_predictions:
            return "is called unknown-stream, but the stream has a model"
        return None

    def _new_example(self, item: _Item, stream: _Stream, before: _Item | None) -> str | None:
        stream.dimension = stream.dimension or item.dimension
        if item.dimension != stream.dimension:
            return f"was taken with {item.dimension} features; the stream has {stream.dimension}"
        if before is not None and stream.surely_remembers(before):
            return f"was taken as new, but repeats {self._at(before)}"
        return None

    def _judge_label(self, item: _Item) -> None:
        if not item.id:
            return
        stream = self._stream(item.stream)
        known = stream.known[Side.LABELS]
        before = known.get(item.id)
        if isinstance(item.fate, Reason):
            fault = self._refused_label(item, stream, before)
        else:
            fault = self._taken_label(item, stream, before)
        if fault:
            self._input_off(item, fault)
        if not isinstance(item.fate, Reason) or item.fate in (Reason.ORPHAN_LABEL, Reason.LATE_LABEL):
            _remember_label(known, before, item)

    def _refused_label(self, item: _Item, stream: _Stream, before: _Item | None) -> str | None:
        example = stream.known[Side.EXAMPLES].get(item.id)
        if item.fate is Reason.CONFLICTING_LABEL:
            if before is None or before.label == item.label:
                return "is called a conflicting-label, but no other class of this id is known"
            if stream.rules.corrections and item.revision > before.revision:
                return f"is called a conflicting-label, but its revision {item.revision} is a higher one"
        if item.fate is Reason.LATE_LABEL and not (example is not None and (example.again or _unlabelled(example))):
            late = self._stream(item.stream).late
            if (example is not None and stream.surely_remembers(example)) or len(late) == MAX_FINDINGS:
                return NOT_LATE
            late[item.id] = item  # it may have waited for an example that came too late
        if item.fate is Reason.ORPHAN_LABEL and example is not None and example.slice_number < self._slice:
            joined_before = before is not None and before.fate is OutcomeKind.JOINED
            joined_later = (
                example.fate is OutcomeKind.JOINED and example.closed_slice >= self._slice and not joined_before
            )
            if example.fate is None or joined_later:
                return f"is called an orphan-label, but {self._at(example)} was pending"
        return None

    def _taken_label(self, item: _Item, stream: _Stream, before: _Item | None) -> str | None:
        if item.fate is OutcomeKind.DUPLICATE:
            if before is None or before.label != item.label:
                return "is called a duplicate, but no label with this class is known"
        elif item.fate is OutcomeKind.CORRECTION:
            if not stream.rules.corrections:
                return "is called a correction, but the settings know none"
            if before is None or before.label == item.label:
                return "is called a correction, but no other class of this id is known"
            if item.revision <= before.revision:
                return f"is called a correction, but its revision {item.revision} is not a higher one"
        elif before is not None and before.fate in (None, OutcomeKind.JOINED) and stream.surely_remembers(before):
            return f"was taken as new, but repeats {self._at(before)}"
        return None

    # Predictions ------------------------------------------------------------------------------------------------------

    def _match(self, expected: Sequence[_Item]) -> None:
        for item in expected:
            strays = self._strays.get((item.stream, item.id))
            if strays:
                group = strays.popleft()
                self._prediction_off(group[0], f"is out of order: its example is {self._at(item)}")
            else:
                found = self._next_group(item)
                if found is None:
                    self._input_off(item, "has no prediction")
                    continue
                group = found
            self._accept(item, group)

    def _next_group(self, item: _Item) -> Group | None:
        for place in range(LOOKAHEAD_GROUPS):
            group = self._groups.peek(place)
            if group is None:
                return None
            first = group[0].content
            if first.id == item.id and first.stream == item.stream:
                for _ in range(place):
                    skipped = self._groups.pop()
                    key = (skipped[0].content.stream, skipped[0].content.id)
                    self._strays.setdefault(key, deque()).append(skipped)
                return self._groups.pop()
        return None

    def _accept(self, item: _Item, group: Group) -> None:
        stream = self._stream(item.stream)
        key = item.stream.encode()
        for output in group:
            if output.timestamp_ms != item.timestamp_ms:
                self._prediction_off(output, f"timestamp {output.timestamp_ms} is not that of {self._at(item)}")
            if output.key != key:
                self._prediction_off(output, "its key is not its stream")
        champions = _count_predictions(stream.figures, group)
        if len(champions) == 1:
            item.prediction = champions[0]
            self._compare(item)
        else:
            self._prediction_off(group[0], f"{len(champions)} of {len(group)} predictions are the champion's, not 1")
        others = self._expected(item.stream).others(frozenset(output.content.learner for output in group))
        if others:
            self._prediction_off(group[0], f"other learners than are configured: {', '.join(sorted(others))}")

    def _compare(self, item: _Item) -> None:
        """The outcome tells the champion's prediction again."""
        if item.prediction is None or item.outcome is None:
            return
        prediction, outcome = item.prediction.content, item.outcome.content
        if (prediction.learner, prediction.score) != (outcome.learner, outcome.score):
            where = f"{self._names.predictions}[{self._partition}] offset {item.prediction.offset}"
            self._outcome_off(item.outcome, f"learner and score are not those of {where}")
        item.prediction = item.outcome = None

    def _stray(self, group: Group) -> None:
        _count_predictions(self._stream(group[0].content.stream).figures, group)
        self._prediction_off(group[0], "belongs to no example, or to one that has its predictions")

    # What is left -----------------------------------------------------------------------------------------------------

    def _leftovers(self) -> None:
        for topic, offset, text in self._beyond:
            self._off(topic, offset, text)
        while self._groups.peek() is not None:
            self._stray(self._groups.pop())

    def _finish_item(self, item: _Item) -> None:
        figures = self._stream(item.stream).figures
        if not item.id:
            self._input_off(item, f"has no dead letter: {_what(item)}")
            return
        if item.side is Side.EXAMPLES:
            figures.pending += 1
        else:
            figures.waiting += 1
        if self._stream(item.stream).must_close(item):
            state = "pending" if item.side is Side.EXAMPLES else "waiting"
            self._input_off(item, f"is still {state}, but stream time or a pair of marks has closed it")

    def _finish_stream(self, name: str, stream: _Stream) -> None:
        for closing in stream.doubts:
            self._unexplained(closing)
        for item in stream.late.values():
            self._input_off(item, NOT_LATE)
        for equation, left, right in stream.figures.equations():
            if left != right:
                text = f"the books of stream {name} are off by {left - right:+,}: {equation}; {left:,}, not {right:,}"
                self._findings.add(self._names.inputs[0], self._partition, None, text)

    def _unexplained(self, closing: _Closing) -> None:
        item = closing.item
        why = "the stream's bound was not reached" if closing.fate is OutcomeKind.EVICTED else "it had not expired"
        self._off(
            closing.topic, closing.offset, f"{self._at(item)} is {_fate_text(closing.fate)}, but {why}{_of(item)}"
        )

    def _set_aside(self, topic: str, offset: int, side: Side, input_offset: int) -> None:
        if len(self._beyond) < MAX_FINDINGS:
            where = f"{self._names.inputs[side]}[{self._partition}] offset {input_offset}"
            self._beyond.append((topic, offset, f"names {where}, which is not committed ({self._last[side]})"))

    # Naming -----------------------------------------------------------------------------------------------------------

    def _at(self, item: _Item) -> str:
        return f"{self._names.inputs[item.side]}[{self._partition}] offset {item.offset}"

    def _off(self, topic: str, offset: int, text: str) -> None:
        self._findings.add(topic, self._partition, offset, text)

    def _input_off(self, item: _Item, text: str) -> None:
        self._off(self._names.inputs[item.side], item.offset, text + _of(item))

    def _outcome_off(self, output: Output[Outcome], text: str) -> None:
        outcome = output.content
        self._off(self._names.outcomes, output.offset, f"{text} (stream {outcome.stream}, id {outcome.id})")

    def _prediction_off(self, output: Output[Prediction], text: str) -> None:
        prediction = output.content
        named = f"stream {prediction.stream}, id {prediction.id}, learner {prediction.learner}"
        self._off(self._names.predictions, output.offset, f"{text} ({named})")


def _of(item: _Item) -> str:
    return f" (stream {item.stream}, id {item.id})" if item.id else f" (stream {item.stream})"


def _what(item: _Item) -> str:
    content = item.record.content if item.record is not None else None
    if isinstance(content, Reason):
        return f"its value is {content.text}"
    return "it is a well-formed " + ("mark" if not item.id else item.side.name.lower()[:-1])


def _fate_text(fate: OutcomeKind | Reason | None) -> str:
    return fate.text if isinstance(fate, Reason) else "" if fate is None else fate.name.lower()


def _repeat_or_dead(item: _Item) -> bool:
    return item.fate is OutcomeKind.DUPLICATE or isinstance(item.fate, Reason)


def _unlabelled(item: _Item) -> bool:
    return item.fate in (OutcomeKind.UNLABELLED, OutcomeKind.EVICTED)


def _possible(item: _Item, reason: Reason) -> bool:
    """Whether a record that says this can be refused for that reason."""
    content = item.record.content if item.record is not None else None
    if isinstance(content, Reason):
        return reason is content
    if reason is Reason.BAD_TIME:
        return item.timestamp_ms <= 0
    return reason in (ON_DATA[item.side] if item.id else ON_MARKS)


def _note_advance(stream: _Stream, mark: _Item, time_ms: int) -> None:
    """Pair an `advance` mark with its twin, as long as the order of the merge cannot matter."""
    if stream.is_crowded:
        stream.advances.append(_Advance(time_ms, {}, (mark.timestamp_ms,)))
        return
    first = stream.unpaired.setdefault(time_ms, mark)
    if first is not mark and first.side is mark.side:  # which of the two has met a twin, the merge decides
        stream.is_crowded = True
        singles = (*((time_ms, single) for time_ms, single in stream.unpaired.items()), (time_ms, mark))
        stream.advances.extend(_Advance(closes_ms, {}, (single.timestamp_ms,)) for closes_ms, single in singles)
    elif first.side is not mark.side:
        del stream.unpaired[time_ms]
        offsets = {first.side: first.offset, mark.side: mark.offset}
        stream.advances.append(_Advance(time_ms, offsets, (first.timestamp_ms, mark.timestamp_ms)))


def _remember_label(known: dict[str, _Item], before: _Item | None, item: _Item) -> None:
    """The newest label that waited or was learned, as it was corrected or, by a repeat, confirmed."""
    if item.fate not in (OutcomeKind.DUPLICATE, OutcomeKind.CORRECTION):
        known[item.id] = item
    elif before is not None:
        before.label, before.revision = item.label, max(before.revision, item.revision)


def _count(figures: Figures, kind: OutcomeKind, offsets: tuple[int | None, int | None]) -> None:
    if kind is OutcomeKind.JOINED:
        figures.joined += 1
    elif kind is OutcomeKind.UNLABELLED:
        figures.unlabelled += 1
    elif kind is OutcomeKind.EVICTED:
        figures.evicted += 1
    elif kind is OutcomeKind.CORRECTION:
        figures.corrections += 1
    elif offsets[Side.EXAMPLES] is not None:
        figures.example_duplicates += 1
    else:
        figures.label_duplicates += 1


def _settles_rightly(kind: OutcomeKind, settles: tuple[bool, bool]) -> bool:
    """Whether an outcome of this kind settles an example, a label, or both."""
    if kind is OutcomeKind.JOINED:
        return settles == (True, True)
    if kind is OutcomeKind.DUPLICATE:
        return settles in ((True, False), (False, True))
    return settles == ((False, True) if kind is OutcomeKind.CORRECTION else (True, False))


def _count_predictions(figures: Figures, group: Group) -> list[Output[Prediction]]:
    """Count them; those of the champion."""
    champions = [output for output in group if output.content.champion]
    figures.champion_predictions += len(champions)
    for output in group:
        figures.predictions[output.content.learner] += 1
    return champions
