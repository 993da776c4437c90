"""Transactions that hang: open in a log, although their coordinator takes them for ended.

Kafka 4.3 leaves out the marker of a partition that has no leader at that moment: its coordinator takes such a partition
for deleted. A broker that was killed and comes back does so with all that was under way. Readers stand still at such
records for ever; and the next transaction of that transactional id in that partition ends them together with its own
records: committed or aborted, whatever that transaction is.

So nothing is left to chance. A transaction that is aborted (a sweep) ends whatever hangs of its transactional id, in
the partitions that it touches and among the group's offsets. The first transaction of a process is a sweep, and so is
the first for each task that is given to it: that sweep leaves the transactional id in the task's progress, where
readers of uncommitted records find it. A task is restored only when all that was open in its partitions has ended.
What stays open for longer than any transaction may is swept by whoever owns the task, under its own transactional id
and under those that progress names, if no member of the group has them. Which of the ended transactions had been
committed, `settle` decides.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from stream_app.backends.base import Clock, Cluster, Committed, TopicPartition, Transaction
from stream_app.errors import (
    FencedError,
    TransactionAbortedError,
    UndecodableError,
    UnknownOutcomeError,
    WrongSchemaError,
)
from stream_app.records import Commit, OutputRecords
from stream_app.recovery.settle import SWEEP_KEY
from stream_app.serialization import codec

LOGGER = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.1
"""Between two looks at what is still open: that of a worker at work ends with its round."""

FIRST_LOOK_S = 0.01
"""From the first look to the second: markers follow the end of a transaction within milliseconds."""

HANGS_AFTER_S = 25.0
"""Open for so long, it hangs: a broker aborts what is older than `transaction.timeout.ms` (10 s) every 10 s."""

TAIL_RECORDS = 1_000
"""Offsets of progress in which the transactional ids of a task are looked for; what hangs is among the last of them."""

TAIL_POLLS = 500
"""Polls of 10 ms for these: a broker that is silent for longer is asked again at the next look."""


class _Open(NamedTuple):
    end: int
    stable: int
    since_s: float


class OpenTransactions:
    """Partitions of which a part has to become readable: what is open there, or what was written there.

    Args:
        cluster: Knows how far committed records may be read.
        clock: For the times above.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._waiting: dict[TopicPartition, _Open | None] = {}
        self._looked_s = -LOOK_INTERVAL_S

    @property
    def places(self) -> Sequence[TopicPartition]:
        """All that are still waited for."""
        return tuple(self._waiting)

    def holds(self, number: int) -> bool:
        """Whether a partition of this number is among them."""
        return any(place.partition == number for place in self._waiting)

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Whatever is open in these at the next look has to end."""
        self._waiting.update(dict.fromkeys(places))
        self.hurry()

    def wrote(self, place: TopicPartition, end: int) -> None:
        """A committed transaction wrote up to this offset."""
        known = self._waiting.get(place)
        since_s = known.since_s if known else self._clock.monotonic_s()
        self._waiting[place] = _Open(end, known.stable if known else -1, since_s)

    def hurry(self) -> None:
        """Let the next look be at once."""
        self._looked_s = self._clock.monotonic_s() - LOOK_INTERVAL_S

    def is_readable(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all below these offsets could be read at the last look."""
        for place, end in ends.items():
            known = self._waiting.get(place)
            if place in self._waiting and (known is None or known.stable < end):
                return False
        return True

    def ends(self, number: int) -> Mapping[TopicPartition, int]:
        """How far the partitions of this number were written, of those that could not be read at the last look."""
        return {place: known.end for place, known in self._waiting.items() if known and place.partition == number}

    def forget(self, number: int) -> None:
        """Wait no more for the partitions of this number."""
        for place in [place for place in self._waiting if place.partition == number]:
            del self._waiting[place]

    def look(self, interval_s: float = LOOK_INTERVAL_S) -> Sequence[TopicPartition]:
        """Forget those that have become readable; those in which something hangs, each once in `HANGS_AFTER_S`.

        Args:
            interval_s: There is no look so soon after another.

        Raises:
            UnknownOutcomeError: No broker answers.
        """
        now = self._clock.monotonic_s()
        if not self._waiting or now - self._looked_s < interval_s:
            return ()
        is_first = any(known is None for known in self._waiting.values())
        self._looked_s = now - interval_s + FIRST_LOOK_S if is_first else now
        hanging = []
        for place, (stable, high) in self._cluster.ends(self.places).items():
            known = self._waiting[place]
            if stable >= (known.end if known else high):
                del self._waiting[place]
            elif known is None or stable > known.stable:
                self._waiting[place] = _Open(known.end if known else high, stable, now)
            elif now - known.since_s > HANGS_AFTER_S:
                hanging.append(place)
                self._waiting[place] = known._replace(since_s=now)
        return hanging


class GroupOffset(NamedTuple):
    """An offset that is never committed.

    Attributes:
        place: A partition that the group has no offset of.
        group: From `Source.group_metadata`.
    """

    place: TopicPartition
    group: object


def sweep(
    transaction: Transaction,
    transactional_id: str,
    places: Iterable[TopicPartition],
    mark: GroupOffset | None = None,
) -> bool:
    """End what hangs of a transactional id in these partitions by a transaction that is aborted.

    Args:
        transaction: Of this id; no transaction is open.
        transactional_id: Stands in each record.
        places: Get a record each, which is aborted.
        mark: Ends what hangs of this id among the group's offsets, too.

    Returns:
        Whether every partition has its record.

    Raises:
        FencedError: A newer producer has this id.
        UnknownOutcomeError: The broker did not answer in time.
    """
    record = OutputRecords([SWEEP_KEY], [transactional_id.encode()], [0])
    try:
        transaction.initialise()  # a client that had to be replaced is a new one
        transaction.begin()
        for place in places:
            transaction.produce(place, record)
        transaction.flush()
        if mark is not None:
            transaction.send_offsets({mark.place: Committed(0, "")}, mark.group)
        transaction.abort()
    except TransactionAbortedError as error:
        LOGGER.debug("a sweep was aborted by itself: %s", error)
        return False
    return True


def writers_of(cluster: Cluster, progress: TopicPartition) -> Sequence[str]:
    """The transactional ids of which something can hang in a task's partitions, from its progress, oldest first.

    These are the id of the last commit that can be read, and all that wrote after it: nothing is committed where
    anything is open.

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


def take_over(
    transactional_ids: Iterable[str],
    open_transaction: Callable[[str], Transaction],
    places: Sequence[TopicPartition],
    mark: GroupOffset,
) -> list[str]:
    """End what hangs of these ids, whose processes are gone; those that were taken over.

    Another worker may do the same at the same time: the broker fences the one that was first, which leaves the rest to
    the other.
    """
    done = []
    for transactional_id in transactional_ids:
        transaction = open_transaction(transactional_id)
        try:
            transaction.initialise()
            if sweep(transaction, transactional_id, places, mark):
                done.append(transactional_id)
        except (FencedError, UnknownOutcomeError) as problem:
            LOGGER.info("%s could not be taken over now: %s", transactional_id, problem)
        finally:
            transaction.close()
    return done
