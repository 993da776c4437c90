"""Decide which of a task's last transactions were committed, and which of their records nobody can read.

Kafka 4.3 can leave out the marker of a partition that has no leader at the moment of a commit (see
`hanging_transactions`). The records of a committed transaction then hang in that partition, and are aborted there
before the task is restored. So the owner of a task asks, once nothing is open in its partitions:

1. Which transactions were committed? A transaction counts as committed if any of its records can be read: its progress
   record, or a record of its outputs. Otherwise nobody has seen it, and it counts as aborted. The progress records of
   transactions that cannot be read are found by reading uncommitted records (`find_attempts`).
2. Which outputs of committed transactions cannot be read? Each commit record has the offset at which its outputs begin
   in each partition, and their count. No record after a hanging one is readable, so the missing outputs of a
   partition are those of the last commits there.
3. Did another program write to the output partitions?

The restore then computes the missing outputs again along the recorded ranges, and one transaction publishes them with
an act `repair`. That act has offsets and counts, as a commit has, so a repair that loses its markers is itself
repaired.

A snapshot is named only when all outputs before it can be read. So after a clean stop there is nothing to read: a
transaction takes one offset for each record and one for its marker, so the offsets alone show that no other program
wrote. Otherwise the last records of each output partition are read.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.backends.progress import Recorded
from stream_app.backends.reading import read_in_steps
from stream_app.lost_markers.output_logs import MARKER_OFFSETS, OutputLogs, OutputPartition, Window, windows_of
from stream_app.lost_markers.sweeps import SWEEP_KEY
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.progress_records import ADOPT, IMPORT, REPAIR, RESET, SKIP, Act, Commit

_BY_OPERATORS = frozenset({RESET, IMPORT, SKIP})
"""Acts that commands write, one at a time; they belong to no transaction of a worker."""

_MARK_OFFSETS = 2
"""Offsets of the record with which an owner announces itself, and of its abort marker."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a task's last transactions.

    Attributes:
        lost: Records of progress that were committed and cannot be read, in order.
        missing: By output topic, the sequences of commits whose records cannot be read there.
        ends: By output topic, the end offset of the task's partition.
        foreign: By output topic, the offset of the first record that another program wrote.
    """

    lost: tuple[Commit | Act, ...] = ()
    missing: Mapping[str, frozenset[int]] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)


# Attempts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The records of progress of one transaction that cannot be read: acts, then a commit or a `repair`."""

    records: tuple[Commit | Act, ...]

    @property
    def first(self) -> int:
        return self.records[0].sequence

    @property
    def last(self) -> Commit | Act:
        return self.records[-1]


def find_attempts(rows: Iterable[tuple[bytes | None, bytes | None]], decode: "Decoder") -> list[_Attempt]:
    """Return the transactions in the order of their records, from (key, value) of records that cannot be read."""
    found: list[_Attempt] = []
    records: list[Commit | Act] = []
    for key, value in rows:
        if key == SWEEP_KEY:
            records.clear()
            continue
        record = decode(value)
        if isinstance(record, Act) and record.kind in _BY_OPERATORS:
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
    """Return the attempts that were committed: each attempt with evidence, and the attempts that it follows.

    Args:
        attempts: In the order of the log.
        reached: The sequence of the last record that can be read.
        at: The input offsets at which the last commit ends; None where there is no commit.
        has_evidence: Says whether anything that an attempt wrote can be read, by its number.
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
    """Return the newest attempts that this attempt can follow; None where it follows nothing."""
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
    *,
    is_anchored: bool,
) -> Generator[bool, None, Settled]:
    """Answer the three questions in the docstring of this module.

    Args:
        logs: The task's partitions; nothing is open in them that was open when the task was given to its owner.
        decode: Decodes a value of the progress topic.
        readable: Records of progress that can be read, from the commit record of the loaded snapshot on.
        reached: Sequence of the last of these records; -1 where there is no record.
        is_anchored: Whether the first of the records is the commit record of the snapshot that was loaded.

    Yields:
        After each poll, whether it had news.

    Raises:
        StateError: A part of a transaction's records in one partition can be read, and another part cannot.
    """
    readable = list(readable)
    ends = {topic: found.stable for topic, found in (yield from logs.ends()).items()}
    found = yield from _read_attempts(logs, decode, readable, ends["progress"])
    attempts = [attempt for attempt in found if attempt.first > reached]  # the attempts of a zombie are older
    known = [windows_of(one.record, logs.topic_ids) for one in readable]
    tried = [windows_of(attempt.last, logs.topic_ids) for attempt in attempts]
    partitions = {}
    for topic in OUTPUT_TOPICS:
        windows = [written[topic] for written in known if topic in written]
        more = [written[topic] for written in tried if topic in written]
        has_committed = any(isinstance(one.record, Commit) for one in readable)
        is_old = not windows and has_committed  # to a topic that was deleted since
        log = OutputPartition(logs, topic, ends[topic])
        partitions[topic] = log
        if not is_old or more:
            anchored = int(is_anchored and bool(known) and topic in known[0])
            yield from log.read(windows, more, anchored, is_first=not has_committed)

    def has_evidence(number: int) -> bool:
        return any(  # fewer records are another program's: a transaction is readable as a whole in each partition
            partitions[topic].count(window.start, _following(tried, number, topic)) >= window.records
            for topic, window in tried[number].items()
            if window.records
        )

    at = next((one.record for one in reversed(readable) if isinstance(one.record, Commit)), None)
    committed = _committed(attempts, reached, (at.examples_end, at.labels_end) if at else None, has_evidence)
    lost = tuple(record for attempt in committed for record in attempt.records)
    records = [*(one.record for one in readable), *lost]
    missing: dict[str, frozenset[int]] = {}
    foreign: dict[str, int] = {}
    adopted = _last_adopt(records)
    for topic, log in partitions.items():
        missing[topic] = log.missing(records, adopted)
        first = log.first_foreign(records, adopted)
        if first is not None:
            foreign[topic] = first
    return Settled(
        lost, {topic: found for topic, found in missing.items() if found}, {t: ends[t] for t in OUTPUT_TOPICS}, foreign
    )


def _following(tried: Sequence[Mapping[str, Window]], number: int, topic: str) -> int | None:
    """Return where the records of the next attempt begin in this topic; None where there is no further attempt."""
    return next((windows[topic].start for windows in tried[number + 1 :] if topic in windows), None)


def _last_adopt(records: Sequence[Commit | Act]) -> int:
    """Return the sequence of the last act `adopt`, or -1 where there is no such act."""
    return max((one.sequence for one in records if isinstance(one, Act) and one.kind == ADOPT), default=-1)


def _read_attempts(
    logs: OutputLogs, decode: Decoder, readable: Sequence[Recorded], end: int
) -> Generator[bool, None, list[_Attempt]]:
    last = readable[-1] if readable else None
    start = last.offset + 1 if last else 0
    ordinary = _MARK_OFFSETS + (MARKER_OFFSETS if last and isinstance(last.record, Commit) else 0)
    if end - start <= ordinary:
        return []
    rows: list[tuple[bytes | None, bytes | None]] = []

    def take(_: int, key: bytes | None, value: bytes | None, __: object) -> bool:
        rows.append((key, value))
        return True

    reader = logs.uncommitted()
    try:
        yield from read_in_steps(reader, start, end, take)
    finally:
        reader.close()
    return find_attempts(rows, decode)
