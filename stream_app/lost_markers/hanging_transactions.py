"""End hanging transactions: those that are still open in a partition although their coordinator has ended them.

Kafka 4.3 leaves out the marker of a partition that has no leader at that moment, because its coordinator takes such a
partition for deleted. When a broker is killed and comes back, every transaction that was in progress can hang. Readers
of committed records wait at such a transaction forever. The next transaction of the same transactional id in the same
partition ends the hanging records together with its own records: it commits or aborts both.

So a hanging transaction must be ended by a transaction that aborts: a sweep. A sweep ends all hanging records of its
transactional id in the partitions that it writes to. The first transaction of a process is a sweep, and so is the first
transaction for each task that the process is given. The latter sweep leaves the transactional id in the progress of the
task, where readers of uncommitted records find it. A task is restored only once everything that was open in its
partitions has ended. What stays open for longer than a transaction may last is swept by the owner of the task, under
its own transactional id and under those that progress names, unless a member of the group uses them. The new owner of a
task does not wait so long for a process that has left the group: it has the coordinator abort the open transaction of
that process at once. `settle` then decides which of the ended transactions had been committed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from stream_app import log_lines
from stream_app.backends.base import Clock, Cluster, Ends, TopicPartition, Transaction
from stream_app.backends.questions import Question
from stream_app.errors import (
    FencedError,
    TransactionAbortedError,
    UndecodableError,
    UnknownOutcomeError,
    WrongSchemaError,
)
from stream_app.lost_markers.settle import SWEEP_KEY
from stream_app.record_columns import OutputRecords
from stream_app.records import Commit
from stream_app.serialization import codec

LOGGER = logging.getLogger("areba.recovery")

LOOK_INTERVAL_S = 0.1
"""Interval at which open transactions are checked; a transaction of a busy worker ends with its round."""

FIRST_LOOK_S = 0.01
"""Time from the first check to the second: markers follow the end of a transaction within milliseconds."""

HANGS_AFTER_S = 25.0
"""A transaction that is open for this long hangs: every 10 s, a broker aborts those older than `transaction.timeout.ms`
(10 s)."""

GONE_AFTER_S = 0.5
"""A transaction that is open for this long where a task is to be restored, and whose process has left the group, was
left behind: the broker would abort it some 10 s later."""

TAIL_RECORDS = 1_000
"""The last offsets of progress that are searched for transactional ids: every hanging record is among them."""

TAIL_POLLS = 500
"""Polls of 10 ms for these records; a broker that is silent for longer is asked again at the next check."""


class _Open(NamedTuple):
    """A partition that has to become readable up to `end`; it was readable up to `stable` from `since_s` on."""

    end: int
    stable: int
    since_s: float


class OpenTransactions:
    """Partitions that have to become readable up to an offset: the end of open transactions, or of our own writes.

    Args:
        cluster: Returns up to which offset committed records can be read.
        clock: A monotonic clock.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._waiting: dict[TopicPartition, _Open | None] = {}
        self._question: Question[Cluster, Mapping[TopicPartition, Ends]] | None = None
        self._asked_s = -LOOK_INTERVAL_S
        self._checked_s = -LOOK_INTERVAL_S  # when it asked the last question that has an answer
        self._ends: dict[TopicPartition, int] = {}  # of partitions that have become readable
        self._pause_s: float | None = None  # before the next check, if shorter than the interval

    @property
    def places(self) -> Sequence[TopicPartition]:
        """The partitions that are not readable yet."""
        return tuple(self._waiting)

    def holds(self, number: int) -> bool:
        """Say whether a partition of this number is not readable yet."""
        return any(place.partition == number for place in self._waiting)

    def held(self, seconds: float) -> Sequence[TopicPartition]:
        """Return the partitions that could be read no further for at least this long, as of the last check."""
        before_s = self._checked_s - seconds
        return [place for place, known in self._waiting.items() if known is not None and known.since_s <= before_s]

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Wait for the end of everything that is open in these partitions at the next check."""
        self._waiting.update(dict.fromkeys(places))
        self._question = None  # its answer may be older than what is open now
        self.hurry()

    def wrote(self, place: TopicPartition, end: int) -> None:
        """Wait until a partition is readable up to this offset, because a committed transaction wrote up to there."""
        known = self._waiting.get(place)
        since_s = known.since_s if known else self._clock.monotonic_s()
        self._waiting[place] = _Open(end, known.stable if known else -1, since_s)

    def hurry(self) -> None:
        """Let the next check take place at once."""
        self._pause_s = 0.0

    def is_readable(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Say whether everything below these offsets could be read at the last check."""
        for place, end in ends.items():
            known = self._waiting.get(place)
            if place in self._waiting and (known is None or known.stable < end):
                return False
        return True

    def ends(self, number: int) -> Mapping[TopicPartition, int]:
        """Return the ends of what was written to partitions of this number and could not be read at the last check."""
        return {place: known.end for place, known in self._waiting.items() if known and place.partition == number}

    def end(self, place: TopicPartition) -> int:
        """Return the end of a partition when it had become readable."""
        return self._ends[place]

    def forget(self, number: int) -> None:
        """Stop waiting for the partitions of this number."""
        for place in [place for place in self._waiting if place.partition == number]:
            del self._waiting[place]
        self._question = None  # its answer may be about a topic that was deleted

    def look(self, interval_s: float = LOOK_INTERVAL_S) -> Sequence[TopicPartition]:
        """Check which partitions are readable now, and stop waiting for them; return without waiting for a broker.

        Args:
            interval_s: The shortest time between two checks; an earlier call does nothing.

        Returns:
            The partitions in which a transaction hangs, each of them once in `HANGS_AFTER_S`.

        Raises:
            TopicError: The broker refuses.
        """
        now_s = self._clock.monotonic_s()
        if self._question is None:
            if not self._waiting or now_s - self._asked_s < (interval_s if self._pause_s is None else self._pause_s):
                return ()
            self._asked_s, places = now_s, self.places
            self._pause_s = FIRST_LOOK_S if None in self._waiting.values() else None
            self._question = Question(self._cluster, lambda cluster: cluster.ends(places))
        found = self._question.answer()
        if found is None:
            return ()
        self._question = None
        self._checked_s, hanging = self._asked_s, []
        for place, (stable, high) in found.items():
            known = self._waiting[place]
            if stable >= (known.end if known else high):
                del self._waiting[place]
                self._ends[place] = high
            elif known is None or stable > known.stable:
                self._waiting[place] = _Open(known.end if known else high, stable, now_s)
            elif self._checked_s - known.since_s > HANGS_AFTER_S:
                hanging.append(place)
                self._waiting[place] = known._replace(since_s=now_s)
        return hanging


def open_places(cluster: Cluster, places: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    """Return those of the partitions in which a transaction is open; wait for the answer, as a tool or a start may."""
    return [place for place, (stable, high) in cluster.ends(places).items() if stable < high]


def sweep(transaction: Transaction, transactional_id: str, places: Iterable[TopicPartition]) -> bool:
    """End the hanging records of a transactional id in these partitions, by aborting another transaction of that id.

    Args:
        transaction: A producer of this id, without an open transaction.
        transactional_id: The id; it is the value of each record.
        places: The partitions; each gets one record, which is aborted.

    Returns:
        Whether every partition got its record.

    Raises:
        FencedError: A newer producer has this id.
        UnknownOutcomeError: The broker did not answer in time.
    """
    record = OutputRecords.of([SWEEP_KEY], [transactional_id.encode()], [0])
    try:
        transaction.initialise()  # in case a lost client was replaced by a new one
        transaction.begin()
        for place in places:
            transaction.produce(place, record)
        transaction.flush()
        transaction.abort()
    except TransactionAbortedError as error:
        LOGGER.debug("a sweep was aborted before it was complete: %s", error)
        return False
    return True


def writers_of(cluster: Cluster, progress: TopicPartition) -> Sequence[str]:
    """Return the transactional ids whose transactions can hang in a task's partitions, oldest first.

    These are the id of the last commit that can be read in progress, and all ids that wrote after it: a task commits
    nothing while a transaction is open in its partitions.

    Raises:
        UnknownOutcomeError: The broker does not answer.
    """
    (stable, high) = cluster.ends([progress])[progress]
    found: dict[str, None] = {}
    with closing(cluster.reader(progress, committed=False)) as reader:
        reader.seek(max(cluster.watermarks(progress).low, stable - TAIL_RECORDS))
        for _ in range(TAIL_POLLS):
            fetched = reader.poll(TAIL_RECORDS, 0.01)
            if fetched is None:
                continue
            records = fetched.records
            for offset, key, value in zip(records.offsets.tolist(), records.keys, records.values, strict=True):
                for name, is_commit in _writer_of(key, value):
                    if is_commit and offset < stable:
                        found.clear()
                    found[name] = None
            if fetched.at_end or (len(records) and records.offsets[-1] >= high - 1):
                break
    return tuple(name for name in found if name)


def _writer_of(key: bytes | None, value: bytes | None) -> Iterator[tuple[str, bool]]:
    if key == SWEEP_KEY:
        yield (value or b"").decode(errors="replace"), False
        return
    try:
        record = codec.decode_one(value or b"")
    except (UndecodableError, WrongSchemaError):
        return
    if isinstance(record, Commit):
        yield record.transactional_id, True


def end_open(transactional_id: str, open_transaction: Callable[[str], Transaction]) -> bool:
    """Abort what a process that is gone has open, by a newer producer of its id; return whether that was done.

    This asks the coordinator alone, not the leaders of the partitions, of which one may be away.
    """
    transaction = open_transaction(transactional_id)
    try:
        transaction.initialise()
    except (FencedError, UnknownOutcomeError) as problem:
        log_lines.TAKEOVER_POSTPONED.log(LOGGER, transactional_id=transactional_id, problem=problem)
        return False
    else:
        return True
    finally:
        transaction.close()


def take_over(
    transactional_id: str, open_transaction: Callable[[str], Transaction], places: Sequence[TopicPartition]
) -> bool:
    """End the hanging records of this id, whose process is gone; return whether that was done.

    Another worker may do the same at the same time: then the broker fences the worker that began first, and the other
    worker ends the rest.
    """
    transaction = open_transaction(transactional_id)
    try:
        transaction.initialise()
        return sweep(transaction, transactional_id, places)
    except (FencedError, UnknownOutcomeError) as problem:
        log_lines.TAKEOVER_POSTPONED.log(LOGGER, transactional_id=transactional_id, problem=problem)
        return False
    finally:
        transaction.close()
