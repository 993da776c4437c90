"""Decide which of a task's last transactions were committed, and which of their records nobody can read.

Kafka 4.3 can leave out the marker of a partition that has no leader at the moment of a commit (see `hanging`). The
records of a committed transaction then hang in that partition, and are aborted there before the task is restored. So
the owner of a task asks, once nothing is open in its partitions:

1. Which transactions were committed? A transaction was committed if any of its records or offsets can be read: its
   progress record, the offsets that name it, or a record of its outputs. If nothing can be read, it was aborted. The
   progress records of transactions that cannot be read are found by reading uncommitted records (`_attempts`).
2. Which outputs of committed transactions cannot be read? Each commit record has the offset at which its outputs begin
   in each partition, and their count. No later record is readable after a hanging one, so what is missing in a
   partition are the last commits there.
3. Did somebody else write to the output partitions?

The restorer then computes the missing outputs again along the recorded ranges, and one transaction publishes them with
an act `repair`. That act has offsets and counts as a commit has, so that a repair whose markers are lost is repaired.

A snapshot is named only when all outputs before it can be read. So after a clean stop there is nothing to read: the
offsets alone show that nobody else wrote, as a transaction takes one offset for each record and one for its marker.
Otherwise the last records of each output partition are read.
"""

import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stream_app.backends.base import Ends, LogReader, TopicPartition
from stream_app.errors import StateError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import ADOPT, REPAIR, RESET, RESUME, SEED, SKIP, Act, Commit, Header, Longs
from stream_app.serialization.dead_letter import SENT_BACK, START

POLL_RECORDS = 1_000
"""Records of one poll: some milliseconds of work."""

BY_OPERATORS = frozenset({RESUME, RESET, SEED, SKIP})
"""Acts that commands write, each by itself: they belong to no transaction of a worker."""

MARK_OFFSETS = 2
"""Offsets of the record with which an owner announces itself, and of its abort marker."""

MARKER_OFFSETS = 1
"""Offsets of the marker that ends a transaction in a partition."""

MAX_UNNAMED_COMMITS = 8
"""Commits in a row whose offsets can have lost their markers. More than these were not lost: the group's offsets were
reset."""

SWEEP_KEY = b"sweep"
"""The key of records that are never committed (see `hanging`)."""


class Recorded(NamedTuple):
    """A progress record and its offset; -1 where it cannot be read."""

    record: Commit | Act
    offset: int


class Window(NamedTuple):
    """What a transaction wrote to one output partition: no record of it lies before `start`."""

    start: int
    records: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The answers.

    Attributes:
        lost: Records of progress that were committed and cannot be read, in order.
        missing: By output topic, the sequences of commits whose records cannot be read there.
        ends: By output topic, the end offset of the task's partition.
        foreign: By output topic, the offset of the first record that somebody else wrote.
    """

    lost: tuple[Commit | Act, ...] = ()
    missing: Mapping[str, frozenset[int]] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputLogs:
    """What there is to ask of a task's partitions.

    Attributes:
        places: The partition of each of these topics; "progress" is one of them.
        ends: Ends of these partitions.
        low: The first offset of the partition of an output topic.
        reader: Opens a reader of the partition of an output topic.
        uncommitted: Opens a reader of progress that gives what is aborted, too.
    """

    places: Mapping[str, TopicPartition]
    ends: Callable[[], Mapping[str, Ends]]
    low: Callable[[str], int]
    reader: Callable[[str], LogReader]
    uncommitted: Callable[[], LogReader]


def windows_of(record: Commit | Act) -> Mapping[str, Window]:
    """What a transaction wrote, by output topic; empty for an act that publishes nothing and for a commit of version 1.

    Raises:
        StateError: The text of a `repair` is not one.
    """
    if isinstance(record, Act):
        return {topic: window for topic, (window, _) in _republished(record).items()}
    if record.predictions_start < 0:
        return {}
    return {
        topic: Window(getattr(record, f"{name}_start"), getattr(record, f"{name}_records"))
        for topic in OUTPUT_TOPICS
        for name in [topic.replace("-", "_")]
    }


def is_by_task(headers: Sequence[Header]) -> bool:
    """Whether a task wrote this record of an output topic; `areba dlq replay` writes records to `dead-letters`, too."""
    return not any(name in (SENT_BACK, START) for name, _ in headers)


def repair_text(windows: Mapping[str, Window], commits: Mapping[str, frozenset[int]]) -> str:
    """The text of an act `repair`: by output topic, where its records begin, their count, and whose they are."""
    return json.dumps(
        {
            topic: {"start": window.start, "records": window.records, "commits": sorted(commits[topic])}
            for topic, window in windows.items()
        }
    )


def _republished(act: Act) -> Mapping[str, tuple[Window, frozenset[int]]]:
    if act.kind != REPAIR:
        return {}
    try:
        plain: Mapping[str, Any] = json.loads(act.text)
        return {
            topic: (Window(int(one["start"]), int(one["records"])), frozenset(map(int, one["commits"])))
            for topic, one in plain.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateError(f"sequence {act.sequence}: not the text of a repair ({problem})") from None


# Attempts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The records of progress that one transaction wrote and that cannot be read: acts, and a commit or a `repair`."""

    records: tuple[Commit | Act, ...]

    @property
    def first(self) -> int:
        return self.records[0].sequence

    @property
    def last(self) -> Commit | Act:
        return self.records[-1]


def _attempts(rows: Iterable[tuple[bytes | None, bytes | None]], decode: "Decoder") -> list[_Attempt]:
    """Transactions in the order of their records, from (key, value) of records that cannot be read."""
    found: list[_Attempt] = []
    records: list[Commit | Act] = []
    for key, value in rows:
        if key == SWEEP_KEY:
            records.clear()
            continue
        record = decode(value)
        if isinstance(record, Act) and record.kind in BY_OPERATORS:
            continue
        if records and record.sequence != records[-1].sequence + 1:
            records.clear()  # its transaction ended before its commit record was written
        records.append(record)
        if isinstance(record, Commit) or record.kind == REPAIR:
            found.append(_Attempt(tuple(records)))
            records = []
    return found


Decoder = Callable[[bytes | None], Commit | Act]


def _committed(
    attempts: Sequence[_Attempt], reached: int, at: tuple[int, int] | None, has_evidence: Callable[[int], bool]
) -> list[_Attempt]:
    """Those that were committed: each that has evidence, and those that it follows.

    Args:
        attempts: In the order of the log.
        reached: The sequence of the last record that can be read.
        at: Offsets of both inputs up to which that record leads; None where there is no commit.
        has_evidence: Whether something of an attempt can be read.
    """
    best: list[_Attempt] = []
    chains: list[list[_Attempt]] = []
    for number, attempt in enumerate(attempts):
        chain = _chain_before(chains, attempt, reached, at)
        chains.append([*chain, attempt] if chain is not None else [])
        if chain is not None and has_evidence(number):
            best = chains[-1]
    return best


def _chain_before(
    chains: Sequence[list[_Attempt]], attempt: _Attempt, reached: int, at: tuple[int, int] | None
) -> list[_Attempt] | None:
    """The attempts that this one follows, the newest that fit; None where it follows nothing."""
    for chain in reversed([[], *chains]):
        last = chain[-1].last.sequence if chain else reached
        if attempt.first == last + 1 and _starts_at(attempt, _end_of(chain, at)):
            return chain
    return None


def _end_of(chain: Sequence[_Attempt], at: tuple[int, int] | None) -> tuple[int, int] | None:
    for attempt in reversed(chain):
        if isinstance(attempt.last, Commit):
            return attempt.last.examples_end, attempt.last.labels_end
    return at


def _starts_at(attempt: _Attempt, at: tuple[int, int] | None) -> bool:
    last = attempt.last
    return at is None or isinstance(last, Act) or (last.examples_start, last.labels_start) == at


# Settling -------------------------------------------------------------------------------------------------------------


def settle(
    logs: OutputLogs,
    decode: Decoder,
    readable: Collection[Recorded],
    reached: int,
    target: tuple[int, bytes] | None,
    *,
    is_anchored: bool,
) -> Generator[bool, None, Settled]:
    """Answer the three questions of the module's docstring.

    Args:
        logs: The task's partitions; nothing is open in them that was open when the task was given to its owner.
        decode: Decodes a value of the progress topic.
        readable: Records of progress that can be read, from the commit record of the loaded snapshot on.
        reached: Sequence of the last of them; -1 where there is no record.
        target: Sequence and digest that the committed offsets name.
        is_anchored: Whether the first of the records is the one of a snapshot that was loaded.

    Yields:
        After each poll, whether it had news.

    Raises:
        StateError: A part of a transaction's records in one partition can be read, and another part cannot.
    """
    readable = list(readable)
    ends = {topic: found.stable for topic, found in logs.ends().items()}
    found = yield from _read_attempts(logs, decode, readable, ends["progress"])
    attempts = [attempt for attempt in found if attempt.first > reached]  # those of a zombie are older
    known = [windows_of(one.record) for one in readable]
    tried = [windows_of(attempt.last) for attempt in attempts]
    partitions = {}
    for topic in OUTPUT_TOPICS:
        windows = [written[topic] for written in known if topic in written]
        more = [written[topic] for written in tried if topic in written]
        is_old = not windows and any(isinstance(one.record, Commit) for one in readable)
        log = _Output(logs, topic, ends[topic])
        partitions[topic] = log
        if not is_old or more:
            anchored = int(is_anchored and bool(known) and topic in known[0])
            yield from log.read(windows, more, anchored, is_first=not windows)

    def has_evidence(number: int) -> bool:
        last = attempts[number].last
        if isinstance(last, Commit) and target == (last.sequence, last.digest):
            return True
        return any(
            partitions[topic].count(window.start, _following(tried, number, topic)) > 0
            for topic, window in tried[number].items()
            if window.records
        )

    at = next((one.record for one in reversed(readable) if isinstance(one.record, Commit)), None)
    committed = _committed(attempts, reached, (at.examples_end, at.labels_end) if at else None, has_evidence)
    lost = tuple(record for attempt in committed for record in attempt.records)
    records = [*(one.record for one in readable), *lost]
    missing: dict[str, frozenset[int]] = {}
    foreign: dict[str, int] = {}
    is_adopted = _last_adopt(records)
    for topic, log in partitions.items():
        missing[topic] = log.missing(records, is_adopted)
        stranger = log.stranger(records, is_adopted)
        if stranger is not None:
            foreign[topic] = stranger
    return Settled(
        lost, {topic: found for topic, found in missing.items() if found}, {t: ends[t] for t in OUTPUT_TOPICS}, foreign
    )


def _following(tried: Sequence[Mapping[str, Window]], number: int, topic: str) -> int | None:
    """Where the records of the attempt after this one begin; None: there is no other."""
    return next((windows[topic].start for windows in tried[number + 1 :] if topic in windows), None)


def _last_adopt(records: Sequence[Commit | Act]) -> int:
    """The sequence of the last act `adopt`; -1: there is no such act."""
    return max((one.sequence for one in records if isinstance(one, Act) and one.kind == ADOPT), default=-1)


def _read_attempts(
    logs: OutputLogs, decode: Decoder, readable: Sequence[Recorded], end: int
) -> Generator[bool, None, list[_Attempt]]:
    last = readable[-1] if readable else None
    start = last.offset + 1 if last else 0
    ordinary = MARK_OFFSETS + (MARKER_OFFSETS if last and isinstance(last.record, Commit) else 0)
    if end - start <= ordinary:
        return []
    rows: list[tuple[bytes | None, bytes | None]] = []

    def take(_: int, key: bytes | None, value: bytes | None, __: object) -> bool:
        rows.append((key, value))
        return True

    reader = logs.uncommitted()
    try:
        yield from _read(reader, start, end, take)
    finally:
        reader.close()
    return _attempts(rows, decode)


Row = Callable[[int, bytes | None, bytes | None, Sequence[Header]], bool]


def _read(reader: LogReader, start: int, end: int, take: Row) -> Generator[bool, None, None]:
    """Give the records from `start` to `end` to `take`, until it returns False."""
    reader.seek(start)
    while True:
        fetched = reader.poll(POLL_RECORDS, 0.0)
        if fetched is None:
            yield False
            continue
        records = fetched.records
        for row, offset in enumerate(records.offsets.tolist()):
            if offset >= end or not take(offset, records.keys[row], records.values[row], records.headers.get(row, ())):
                return
        if fetched.at_end or (len(records) and records.offsets[-1] == end - 1):
            return
        yield True


class _Output:
    """One output partition: which of its records can be read, as far as that has to be known."""

    def __init__(self, logs: OutputLogs, topic: str, end: int) -> None:
        self._logs = logs
        self._topic = topic
        self._end = end
        self._from = end
        self._low = 0
        self._offsets: Longs = np.zeros(0, np.int64)

    def read(
        self, known: Sequence[Window], tried: Sequence[Window], anchored: int, *, is_first: bool
    ) -> Generator[bool, None, None]:
        """Read from the last window that has records, and the windows before it as long as nothing can be read.

        Args:
            known: Windows of transactions that were committed.
            tried: Windows of transactions of which nobody knows.
            anchored: How many of the first belong to a snapshot, and so could be read when it was named.
            is_first: Whether the application has not committed anything yet.
        """
        filled = [number for number, window in enumerate(known) if window.records] or [len(known) - 1]
        place = filled.pop()
        begin = known[place].start if known else (0 if is_first else self._end)
        room = self._end - begin - sum(window.records for window in known[max(place, 0) :])
        can_be_lost = place >= anchored and bool(known) and bool(known[place].records)
        is_settled = not can_be_lost and (room <= 2 * MARKER_OFFSETS if known else not room)
        if not tried and is_settled:
            return
        self._low = self._logs.low(self._topic)
        self._from = min([begin, *(window.start for window in tried[:1])])
        yield from self._load(self._from, self._end, sum(window.records for window in (*known, *tried)))
        while place >= anchored and filled and not self.count(known[place].start, None):
            stop, place = self._from, filled.pop()
            self._from = known[place].start
            yield from self._load(self._from, stop, known[place].records)

    def _load(self, start: int, stop: int, expected: int) -> Generator[bool, None, None]:
        found: list[int] = []

        def take(offset: int, _: object, __: object, headers: Sequence[Header]) -> bool:
            if is_by_task(headers):
                found.append(offset)
            return len(found) <= expected

        if start >= stop:
            return
        reader = self._logs.reader(self._topic)
        try:
            yield from _read(reader, start, stop, take)
        finally:
            reader.close()
        self._offsets = np.concatenate([np.array(found, np.int64), self._offsets])

    def count(self, start: int, stop: int | None) -> int:
        """How many records can be read there."""
        first, last = np.searchsorted(self._offsets, (start, self._end if stop is None else stop))
        return int(last - first)

    def missing(self, records: Sequence[Commit | Act], adopted: int) -> frozenset[int]:
        """Sequences of commits whose records cannot be read here."""
        outstanding: set[int] = set()
        for record, window, stop in self._windows(records):
            readable = self._readable(window, stop)
            if readable and isinstance(record, Act):
                outstanding -= _republished(record)[self._topic][1]
            elif readable < window.records and readable and record.sequence > adopted:
                raise StateError(
                    f"{self._topic}: {readable} of the {window.records} records of sequence {record.sequence} from "
                    f"offset {window.start} on can be read; a part of a transaction cannot be lost"
                )
            elif not readable and window.records and isinstance(record, Commit):
                outstanding.add(record.sequence)
        return frozenset(outstanding)

    def _readable(self, window: Window, stop: int | None) -> int:
        if window.start < max(self._from, self._low):  # it was readable before, or retention deleted it since
            return window.records
        return self.count(window.start, stop)

    def stranger(self, records: Sequence[Commit | Act], adopted: int) -> int | None:
        """The offset of the first record that somebody else wrote."""
        own = list(self._windows(records))
        if not own:
            is_new = not any(isinstance(record, Commit) for record in records)
            return int(self._offsets[0]) if is_new and len(self._offsets) else None
        for record, window, stop in own:
            if record.sequence <= adopted or window.start < max(self._from, self._low):
                continue
            first = int(np.searchsorted(self._offsets, window.start))
            if self.count(window.start, stop) > window.records:
                return int(self._offsets[first + window.records])
        return None

    def _windows(self, records: Sequence[Commit | Act]) -> Iterable[tuple[Commit | Act, Window, int | None]]:
        """What each of these wrote here, and where what follows begins."""
        all_ = [(record, windows[self._topic]) for record in records if self._topic in (windows := windows_of(record))]
        for number, (record, window) in enumerate(all_):
            yield record, window, all_[number + 1][1].start if number + 1 < len(all_) else None
