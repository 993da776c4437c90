"""Deletes the progress records of a task that no restore can need.

A commit record serves to process its ranges again. Once retention has deleted the inputs below its ends, and the two
newest snapshots lie after it, no restore needs it; but progress has no retention of its own and grows by a record a
commit. A binary search over the offsets of the progress partition, one probe a step, finds the end of these records:
it needs no state, so a new owner of the task finds the same end.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import NamedTuple

from stream_app.backends.base import Answer, Clock, Cluster, LogReader, TopicPartition
from stream_app.errors import ArebaError, TopicError, UnknownOutcomeError
from stream_app.progress_records import Commit
from stream_app.serialization import codec

TRIM_INTERVAL_S = 60.0
"""Time between two checks of the inputs. Retention deletes whole segments; progress grows by some 6,000 a minute."""

_PROBE_RECORDS = 100
"""Records that one probe reads; few records, the acts of operators, are between two commits."""

_PROBE_WAIT_S = 0.05
"""Longest wait of one probe; with the seek (10-40 ms, measured) it bounds how much a round is delayed."""

_PROBE_POLLS = 100
"""Probes of one offset, a few seconds; after a longer silence the broker is asked again in `TRIM_INTERVAL_S`."""


class _Found(NamedTuple):
    offset: int
    commit: Commit


class ProgressTrimmer:
    """Trims the progress of one task.

    Args:
        cluster: Reads and trims the topics.
        clock: Measures `TRIM_INTERVAL_S`.
        inputs: The task's partitions of examples and labels.
        progress: Its progress partition.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, inputs: tuple[TopicPartition, TopicPartition], progress: TopicPartition
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._inputs = inputs
        self._progress = progress
        self._due_s = clock.monotonic_s()
        self._before = 0
        self._is_refused = False
        self._lows: list[int] = []
        self._work: Generator[None, None, int | None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether `step` has something to do."""
        return self._work is not None

    def want(self, before: int) -> None:
        """Start, when due, a search for records to delete below this offset, where the oldest snapshot in use lies."""
        if self.is_busy or self._is_refused or before <= self._before or self._clock.monotonic_s() < self._due_s:
            return
        self._before = before
        self._due_s = self._clock.monotonic_s() + TRIM_INTERVAL_S
        self._work = self._trim(before)

    def step(self) -> int | None:
        """Probe once, in some tens of milliseconds; after a deletion return the first offset that is left.

        Raises:
            ArebaError: The broker refused (no further attempt) or was silent (tried later); neither stops the task.
        """
        if self._work is None:
            return None
        try:
            next(self._work)
        except StopIteration as done:
            self._work = None
            deleted: int | None = done.value
            return deleted
        except ArebaError as problem:
            self._work = None
            self._before = 0
            self._is_refused = isinstance(problem, TopicError)
            raise
        return None

    def close(self) -> None:
        """Close the reader of a search that has not ended."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def _trim(self, before: int) -> Generator[None, None, int | None]:
        places = (*self._inputs, self._progress)
        *lows, first = yield from self._asked(lambda cluster: [cluster.watermarks(place).low for place in places])
        if not any(lows) or lows == self._lows:
            return None
        with closing(self._cluster.reader(self._progress)) as reader:
            end, is_all = yield from self._end_of_useless(reader, lows, first, before)
        deleted = None
        if end > first:
            deleted = yield from self._asked(lambda cluster: cluster.delete_records(self._progress, end))
        self._lows = lows if is_all else []
        return deleted

    def _asked(self, question: Callable[[Cluster], Answer]) -> Generator[None, None, Answer]:
        """Ask the cluster without waiting, and without asking again: the next search does."""
        answer = self._cluster.ask(question)
        while (found := answer()) is None:
            yield
        return found

    def _end_of_useless(
        self, reader: LogReader, lows: Sequence[int], first: int, before: int
    ) -> Generator[None, None, tuple[int, bool]]:
        """Find the end of the commit records below `before` whose inputs are gone, and whether a needed one follows.

        If one follows, a newer snapshot allows no further deletion until retention deletes more inputs.
        """
        end, is_all = first, False
        while end < before:
            middle = (end + before) // 2
            found = yield from self._commit_from(reader, middle)
            if found is not None and found.offset < before and _is_below(found.commit, lows):
                end = found.offset + 1
                continue
            is_all = is_all or (found is not None and found.offset < before)
            before = middle
        return end, is_all

    def _commit_from(self, reader: LogReader, offset: int) -> Generator[None, None, _Found | None]:
        """Find the first commit record at or after this offset; None if there is no such record."""
        reader.seek(offset)
        for _ in range(_PROBE_POLLS):
            fetched = reader.poll(_PROBE_RECORDS, _PROBE_WAIT_S)
            yield
            if fetched is None:
                continue
            for found, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
                record = codec.decode_one(value or b"")
                if isinstance(record, Commit):
                    return _Found(found, record)
            if fetched.at_end:
                return None
        where = f"{self._progress.topic}[{self._progress.partition}] offset {offset}"
        raise UnknownOutcomeError(f"{where}: the broker did not answer for {_PROBE_POLLS * _PROBE_WAIT_S:g} s")


def _is_below(commit: Commit, lows: Sequence[int]) -> bool:
    return commit.examples_end <= lows[0] and commit.labels_end <= lows[1]
