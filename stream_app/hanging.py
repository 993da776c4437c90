"""Transactions that hang: open in a log, though their coordinator takes them for ended.

Kafka 4.3 leaves out the marker of a partition that has no leader at that moment: its coordinator takes such a partition
for deleted. A broker that was killed and comes back does so to all that was under way. Readers stand still at such
records for ever; and the next transaction of that transactional id in that partition ends them along with its own. If
that one is committed, they are published, though they never were committed.

So a worker commits nothing in a partition before all that was open there at its start, or behind an aborted transaction
of its own, has ended. The first transaction of a process is one that is aborted: it touches whatever is open, and the
group's offsets, which ends what hangs there if it is of our name. The same is done where something stays open for
longer than any transaction may. What hangs there of another name, only a worker of that name can end, or an operator.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stream_app.errors import TransactionAbortedError
from stream_app.ports import Clock, Cluster, Committed, TopicPartition, Transaction
from stream_app.records import OutputRecords

LOGGER = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.1
"""Between two looks at what is still open: that of a worker at work ends with its round."""

HANGS_AFTER_S = 30.0
"""Open for so long, it hangs: a broker aborts what is older than `transaction.timeout.ms` (10 s) every 10 s."""

_SWEEP = OutputRecords([b"sweep"], [b""], [0])
"""Never committed: nobody reads it."""


class _Open(NamedTuple):
    end: int
    since_s: float


class OpenTransactions:
    """Partitions in which something may be open that has to end before we commit there.

    Args:
        cluster: Knows how far committed records may be read.
        clock: For the two times above.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._waiting: dict[TopicPartition, _Open | None] = {}
        self._due_s = 0.0

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
        self._due_s = 0.0

    def look(self) -> Sequence[TopicPartition]:
        """Forget those in which all has ended; those in which something hangs, each once in `HANGS_AFTER_S`.

        Raises:
            UnknownOutcomeError: No broker answers.
        """
        now = self._clock.monotonic_s()
        if not self._waiting or now < self._due_s:
            return ()
        self._due_s = now + LOOK_INTERVAL_S
        hanging = []
        for place, (stable, end) in self._cluster.ends(self.places).items():
            known = self._waiting[place]
            if stable >= (known.end if known else end):
                del self._waiting[place]
            elif known is None:
                self._waiting[place] = _Open(end, now)
            elif now - known.since_s > HANGS_AFTER_S:
                hanging.append(place)
                self._waiting[place] = _Open(known.end, now)
        return hanging


class GroupOffset(NamedTuple):
    """An offset that is never committed.

    Attributes:
        place: A partition that the group has no offset of.
        group: From `Source.group_metadata`.
    """

    place: TopicPartition
    group: object


def sweep(transaction: Transaction, places: Iterable[TopicPartition], mark: GroupOffset | None = None) -> None:
    """End what hangs of our name in these partitions by a transaction that is aborted.

    Args:
        transaction: None is open.
        places: Get a record each, which is aborted.
        mark: Ends what hangs of our name among the group's offsets, too.

    Raises:
        FencedError: A newer producer has our id.
        UnknownOutcomeError: The broker did not answer in time.
    """
    try:
        transaction.begin()
        for place in places:
            transaction.produce(place, _SWEEP)
        transaction.flush()
        if mark is not None:
            transaction.send_offsets({mark.place: Committed(0, "")}, mark.group)
        transaction.abort()
    except TransactionAbortedError as error:
        LOGGER.debug("a sweep was aborted by itself: %s", error)
