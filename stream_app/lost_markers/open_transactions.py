"""Wait until partitions can be read up to an offset: readers of committed records stop at an open transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stream_app.backends.base import Clock, Cluster, Ends, TopicPartition
from stream_app.backends.questions import Question

LOOK_INTERVAL_S = 0.1
"""Interval at which open transactions are checked; a transaction of a busy worker ends with its round."""

_FIRST_LOOK_S = 0.01
"""Time from the first check to the second: markers follow the end of a transaction within milliseconds."""

HANGS_AFTER_S = 25.0
"""A transaction that is open for this long hangs: every 10 s, a broker aborts those older than `transaction.timeout.ms`
(10 s)."""


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
        self._waiting[place] = _Open(end, known.stable if known else self._ends.get(place, -1), since_s)

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
        self._ends = {place: end for place, end in self._ends.items() if place.partition != number}
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
            self._pause_s = _FIRST_LOOK_S if None in self._waiting.values() else None
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
