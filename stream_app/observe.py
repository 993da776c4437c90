"""What the worker tells people: every log line's name and meaning in one place.

assigned   the group gave us these tasks
revoked    the group took these tasks back
restoring  every ten seconds while that lasts: offsets that were reached, and those that are committed
damaged    a snapshot cannot be read, and why; the one before is used, or none
restored   a task is live again: its sequence, that of the snapshot (-1: none), and how many records were re-processed
changed    it goes on under another configuration: a setting, and what became of it
saving     a snapshot is taken: the sequence behind which, and how many bytes are new
saved      it is whole in the changelog
trimmed    progress records that nobody needs any more were deleted: the first offset that is left
untrimmed  they could not be, and why; said once, and nothing is lost by it
parked     a task cannot be restored, and why
tripped    the breaker stopped a task, and why; `areba resume` goes on
resumed    an operator let a task go on
aborted    a transaction was given up; its tasks are restored
stopped    a clean stop: the task's last sequence, and the digest of all its models
working    every ten seconds: records committed since the line before, and where each task is
"""

import logging
from collections.abc import Sequence

from stream_app.ports import Clock, TopicPartition

REPORT_INTERVAL_S = 10.0


def way_on(task: int) -> str:
    """What an operator does about a task that the breaker stopped."""
    return f"mend the producer, then: areba resume --task {task}"


class Observer:
    """Writes what happens to the log."""

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        self._clock = clock
        self._log = logger or logging.getLogger("areba.worker")
        self._reported_s = clock.monotonic_s()
        self._outputs = 0
        self._told_s: dict[int, float] = {}
        self._offsets: dict[int, tuple[int, int]] = {}

    def assigned(self, tasks: Sequence[int]) -> None:
        """The group gave us these tasks."""
        self._log.info("assigned tasks=%s", _list(tasks))

    def revoked(self, tasks: Sequence[int]) -> None:
        """The group took these back."""
        self._log.info("revoked tasks=%s", _list(tasks))
        for task in tasks:
            self._offsets.pop(task, None)

    def owned(self, task: int, committed: tuple[int, int]) -> None:
        """A task is to be restored up to these committed offsets; no line: `assigned` or `aborted` came before."""

    def restoring(self, task: int, offsets: tuple[int, int], goal: tuple[int, int]) -> None:
        """A task is being restored."""
        now = self._clock.monotonic_s()
        if now - self._told_s.get(task, self._reported_s) >= REPORT_INTERVAL_S:
            self._told_s[task] = now
            self._log.info("restoring task=%d offsets=%d/%d of=%d/%d", task, *offsets, *goal)

    def damaged(self, task: int, problem: str) -> None:
        """A snapshot cannot be read."""
        self._log.error("damaged task=%d: %s; going on without this snapshot", task, problem)

    def restored(self, task: int, sequence: int, snapshot: int, records: int) -> None:
        """A task is live: where it is, behind which sequence the snapshot was, how many records were re-processed."""
        self._log.info("restored task=%d sequence=%d reprocessed=%d snapshot=%d", task, sequence, records, snapshot)

    def changed(self, task: int, lines: Sequence[str]) -> None:
        """A task goes on under another configuration."""
        for line in lines:
            self._log.info("changed task=%d %s", task, line)

    def saving(self, task: int, sequence: int, size: int) -> None:
        """A snapshot is taken."""
        self._log.info("saving task=%d sequence=%d bytes=%d", task, sequence, size)

    def saved(self, task: int, sequence: int) -> None:
        """A snapshot is whole."""
        self._log.info("saved task=%d sequence=%d", task, sequence)

    def trimmed(self, task: int, offset: int) -> None:
        """Old progress records were deleted."""
        self._log.info("trimmed task=%d progress from offset=%d", task, offset)

    def untrimmed(self, task: int, problem: str) -> None:
        """They could not be."""
        self._log.warning("untrimmed task=%d: %s; progress keeps records that nobody needs", task, problem)

    def hanging(self, places: Sequence[TopicPartition]) -> None:
        """In these partitions a transaction does not end; tasks of ours there wait for it."""
        self._log.warning(
            "hanging: in %s a transaction does not end. If it is ours, it is aborted now. If it is of another "
            "application.instance, start that one, or end it with kafka-transactions.sh; our tasks there wait for it",
            ", ".join(f"{place.topic}[{place.partition}]" for place in places),
        )

    def freed(self, tasks: Sequence[int]) -> None:
        """Nothing hangs in the partitions of these any more."""
        if tasks:
            self._log.info("freed tasks=%s", _list(tasks))

    def parked(self, task: int, problem: str) -> None:
        """A task cannot be restored."""
        self._log.error("parked task=%d: %s", task, problem)

    def tripped(self, task: int, problem: str) -> None:
        """The breaker stopped a task."""
        self._log.error("tripped task=%d: %s; %s", task, problem, way_on(task))

    def resumed(self, task: int) -> None:
        """An operator let it go on."""
        self._log.info("resumed task=%d", task)

    def stopped(self, task: int, sequence: int, models: str) -> None:
        """A clean stop."""
        self._log.info("stopped task=%d sequence=%d models=%s", task, sequence, models)

    def aborted(self, problem: str) -> None:
        """A transaction was given up."""
        self._log.warning("aborted: %s", problem)

    def committed(self, task: int, offsets: tuple[int, int], outputs: int) -> None:
        """A transaction of this task was committed, up to these offsets."""
        self._outputs += outputs
        self._offsets[task] = offsets
        now = self._clock.monotonic_s()
        if now - self._reported_s >= REPORT_INTERVAL_S:
            where = " ".join(f"{number}:{one}/{two}" for number, (one, two) in sorted(self._offsets.items()))
            self._log.info("working outputs=%d offsets=%s", self._outputs, where)
            self._outputs = 0
            self._reported_s = now


def _list(tasks: Sequence[int]) -> str:
    return ",".join(map(str, tasks)) or "none"
