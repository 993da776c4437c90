"""Rebuild a task as it was at a committed point, from snapshots, progress and inputs, without writing anything.

The task is rebuilt by the same code that restores a task in a worker (`restore.Restore`), which compares the digest of
every commit record. So the result is the state from which a worker would continue.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from stream_app import __version__
from stream_app.backends.base import Clock, Cluster, Fetched, LogReader, TopicPartition, pair
from stream_app.config import Config, TaskSettings
from stream_app.errors import ErrorCode, StateError, UnknownOutcomeError
from stream_app.pipeline.task import Task
from stream_app.records import CONFIGURATION, RESUME, Act, Commit
from stream_app.recovery.breaker import Breaker
from stream_app.recovery.changelog import manifests_of
from stream_app.recovery.commit_point import CommitPoint, RestoreTarget, committed_target, progress_record
from stream_app.recovery.live_task import LiveTask
from stream_app.recovery.restore import Pause, Restore
from stream_app.recovery.restore_request import Logs, RestoreRequest, Times, Writer
from stream_app.serialization import codec
from stream_app.snapshot.parts import WholeActs
from stream_app.task_state import TaskState

READ_TIMEOUT_S = 30.0
"""How long a broker may be silent while it is read; a change of leader takes 6-9 s."""

POLL_RECORDS = 10_000

POLL_S = 0.1

TAIL_RECORDS = 1_000
"""Records at the end of progress that are read first: seconds of a busy task, and more acts than operators write."""

NO_SNAPSHOTS_S = 86_400.0
"""Time until the first snapshot: a rebuilt task does not take any."""

Answer = TypeVar("Answer")


class Reporter(Protocol):
    """A function that is called now and then with the offsets (examples, labels) that were reached and are wanted."""

    def __call__(self, reached: tuple[int, int], wanted: tuple[int, int], /) -> None:
        """Report the offsets."""


class Recorded(NamedTuple):
    """A commit record, its offset in progress, the configuration in force, and the acts since the previous commit."""

    commit: Commit
    progress_offset: int
    settings: TaskSettings
    acts: tuple[Act, ...]

    @property
    def ends(self) -> tuple[int, int]:
        """The offsets (examples, labels) after the last records that the commit has processed."""
        return self.commit.examples_end, self.commit.labels_end


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A task as it was after a commit record, with the record's sequence and end offsets (examples, labels)."""

    task: Task
    sequence: int
    offsets: tuple[int, int]


class History:
    """The commit records of a task, and the states that can be rebuilt from them.

    Args:
        config: The application's configuration.
        cluster: Where its topics are.
        number: Number of the task.

    Raises:
        StateError: The task has never committed, or its committed offsets do not come from a worker.
    """

    def __init__(self, config: Config, cluster: Cluster, number: int) -> None:
        self._config = config
        self._cluster = cluster
        self._number = number
        topics = config.topics
        self.inputs = (TopicPartition(topics.examples, number), TopicPartition(topics.labels, number))
        target = committed_target(self.inputs, cluster.committed(config.group_id, self.inputs))
        if target is None:
            raise StateError(
                f"task {number} of {config.application.id} has never committed anything", ErrorCode.NEVER_COMMITTED
            )
        self.target = target
        self._progress = TopicPartition(topics.progress, number)

    def commits(self) -> Iterator[Recorded]:
        """Yield the commit records up to the commit that the group has committed.

        If the beginning of progress was deleted, the first record is the oldest snapshot's. The task can be rebuilt as
        it was after this commit, but the commit itself cannot be processed again.

        Raises:
            StateError: The beginning of progress was deleted, and no snapshot can be read.
            UnknownOutcomeError: The broker did not answer in time.
        """
        known = self._snapshot_settings() if self.is_trimmed() else {}
        begin = min(known, default=-1)
        settings: TaskSettings | None = None
        acts: list[Act] = []
        whole_acts = WholeActs()
        for offset, value in records_of(self._cluster, self._progress):
            record = codec.decode_one(value or b"")
            if offset < begin:
                continue
            settings = known.get(offset, settings)
            if isinstance(record, Act):
                whole = whole_acts.add(record)
                if whole is not None:
                    acts.append(whole)
                    settings = TaskSettings.from_json(whole.text) if whole.kind == CONFIGURATION else settings
            elif isinstance(record, Commit) and record.sequence <= self.target.point.sequence:
                if settings is None:
                    text = self._begins(record.sequence, "and no named snapshot can be read")
                    raise StateError(text, ErrorCode.SNAPSHOT_MISSING)
                yield Recorded(record, offset, settings, tuple(acts))
                acts.clear()

    def is_trimmed(self) -> bool:
        """Say whether the beginning of progress was deleted."""
        return self._cluster.watermarks(self._progress).low > 0

    def _snapshot_settings(self) -> dict[int, TaskSettings]:
        """Return the configuration in force at each named snapshot, by the progress offset of its commit record."""
        named, number = self.target.snapshots, self._number
        changelog = TopicPartition(self._config.topics.changelog, number)
        found = finish(self._cluster, changelog, lambda reader: manifests_of(reader, named, number))
        return {snapshot.progress_offset: TaskSettings.from_json(manifest.settings) for snapshot, manifest in found}

    def _begins(self, sequence: int, more: str) -> str:
        where = f"{self._progress.topic}[{self._progress.partition}]"
        return f"{where}: history begins with sequence {sequence}: older records were deleted with their inputs, {more}"

    def check_whole(self, recorded: Recorded) -> None:
        """Refuse to process the first commit again if the beginning of progress was deleted.

        Raises:
            StateError: The beginning was deleted, and with it the state before this commit.
        """
        if self.is_trimmed():
            text = f"and the state before it is lost; it ends at offsets {pair(recorded.ends)}"
            raise StateError(self._begins(recorded.commit.sequence, text), ErrorCode.SNAPSHOT_MISSING)

    def at(self, offsets: tuple[int, int] | None) -> Recorded:
        """Return the commit record that ends at these offsets (examples, labels), or the newest one for None.

        Raises:
            StateError: No commit ends there; the message names the nearest commits.
        """
        before: Recorded | None = None
        for recorded in self.commits():
            if recorded.ends == offsets:
                return recorded
            if offsets is not None and sum(recorded.ends) > sum(offsets):
                if before is None:
                    self.check_whole(recorded)
                known = f"{pair(before.ends)} and " if before else ""
                raise StateError(
                    f"task {self._number} was never committed at offsets {pair(offsets)}; "
                    f"the nearest commits are {known}{pair(recorded.ends)}",
                    ErrorCode.NEVER_COMMITTED,
                )
            before = recorded
        if before is None or offsets is not None:
            end = f"; the last is {pair(before.ends)}" if before else ""
            raise StateError(
                f"task {self._number} was never committed at these offsets{end}", ErrorCode.NEVER_COMMITTED
            )
        return before

    def rebuild(self, recorded: Recorded, clock: Clock, report: Reporter) -> Rebuilt:
        """Return the task as it was after a commit record.

        Args:
            recorded: The commit record.
            clock: Measures deadlines.
            report: Called while inputs are processed again.

        Raises:
            StateError: Inputs that are needed were deleted, or processing them again gives another digest.
            UnknownOutcomeError: The broker did not answer in time.
        """
        commit, topics = recorded.commit, self._config.topics
        snapshots = tuple(s for s in self.target.snapshots if s.progress_offset <= recorded.progress_offset)
        with ExitStack() as stack:

            def opened(topic: str) -> LogReader:
                reader = self._cluster.reader(TopicPartition(topic, self._number))
                stack.callback(reader.close)
                return reader

            logs = Logs(
                progress=lambda: _Until(opened(topics.progress), recorded.progress_offset),
                changelog=partial(opened, topics.changelog),
                outputs=None,
            )
            restore = Restore(
                RestoreRequest(
                    self.inputs,
                    recorded.settings,
                    RestoreTarget(CommitPoint(commit.sequence, commit.digest), snapshots),
                    recorded.ends,
                    Writer(""),
                ),
                logs,
                Breaker(self._config.breaker),
                clock,
                Times(READ_TIMEOUT_S, NO_SNAPSHOTS_S),
            )
            readers = [opened(partition.topic) for partition in self.inputs]
            live = _drive(restore, readers, recorded.ends, report)
            return Rebuilt(live.task, commit.sequence, recorded.ends)


def _drive(restore: Restore, readers: Sequence[LogReader], wanted: tuple[int, int], report: Reporter) -> LiveTask:
    """Restore a task, and read the inputs that the restore asks for."""
    with closing(restore.run()) as steps:
        while True:
            try:
                pause = next(steps)
            except StopIteration as done:
                live: LiveTask = done.value
                report(restore.position.offsets, wanted)
                return live
            if pause is Pause.INPUTS:
                for reader, offset in zip(readers, restore.position.offsets, strict=True):
                    reader.seek(offset)
            elif pause is Pause.WAITING and restore.state is TaskState.REPLAYING:
                report(restore.position.offsets, wanted)
                for side, reader in enumerate(readers):
                    fetched = reader.poll(POLL_RECORDS, POLL_S) if restore.lacks(side) else None
                    if fetched is not None and len(fetched.records):
                        restore.waiting[side].add(fetched)
                        restore.deadline.restart()


class _Until:
    """A reader for which the log ends after a given record."""

    def __init__(self, reader: LogReader, last_offset: int) -> None:
        self._reader = reader
        self._last = last_offset

    def seek(self, offset: int) -> None:
        """Continue reading at this offset."""
        self._reader.seek(offset)

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records, up to the last one; None if none came in time."""
        fetched = self._reader.poll(max_records, timeout_s)
        if fetched is None or not len(fetched.records) or fetched.records.offsets[-1] < self._last:
            return fetched
        rows = int(np.searchsorted(fetched.records.offsets, self._last + 1))
        return Fetched(fetched.partition, fetched.records.rows(0, rows), at_end=True)

    def close(self) -> None:
        """Release the client."""
        self._reader.close()


class _Patient:
    """A reader that waits `POLL_S` for records, even if it is asked not to wait."""

    def __init__(self, reader: LogReader) -> None:
        self.seek = reader.seek
        self.close = reader.close
        self._reader = reader

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """Return the next records; None if none came in time."""
        return self._reader.poll(max_records, max(timeout_s, POLL_S))


def finish(
    cluster: Cluster, place: TopicPartition, work: Callable[[LogReader], Generator[bool, None, Answer]]
) -> Answer:
    """Run a generator that reads a partition step by step, and return its result.

    Args:
        cluster: Where the partition is.
        place: The partition.
        work: Returns the generator, which yields after each poll whether records came.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    with _reading(cluster, place) as reader:
        steps = work(_Patient(reader))
        silent = 0
        while silent * POLL_S < READ_TIMEOUT_S:
            try:
                silent = 0 if next(steps) else silent + 1
            except StopIteration as done:
                answer: Answer = done.value
                return answer
    raise UnknownOutcomeError(f"{place.topic}[{place.partition}]: the broker did not answer for {READ_TIMEOUT_S:g} s")


@contextmanager
def _reading(cluster: Cluster, place: TopicPartition) -> Iterator[LogReader]:
    reader = cluster.reader(place)
    try:
        yield reader
    finally:
        reader.close()


def records_of(cluster: Cluster, place: TopicPartition, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of every record of a partition from an offset on.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    with _reading(cluster, place) as reader:
        if start:
            reader.seek(start)
        at_end = False
        while not at_end:
            fetched = reader.poll(POLL_RECORDS, READ_TIMEOUT_S)
            if fetched is None:
                raise UnknownOutcomeError(
                    f"{place.topic}[{place.partition}]: the broker did not answer for {READ_TIMEOUT_S:g} s"
                )
            yield from zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True)
            at_end = fetched.at_end


def progress_of(cluster: Cluster, progress: TopicPartition, start: int = 0) -> Iterator[Commit | Act]:
    """Yield the records of progress from an offset on.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    for offset, value in records_of(cluster, progress, start):
        yield progress_record(value, f"{progress.topic}[{progress.partition}] offset {offset}")


def progress_tail(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """Return the last records of progress: all from the last commit record on, and some before it.

    Without a commit record, all records of progress are returned.

    Raises:
        StateError: A record is not a record of progress.
        UnknownOutcomeError: The broker did not answer in time.
    """
    low, high = cluster.watermarks(progress)
    size = TAIL_RECORDS
    while True:
        found = list(progress_of(cluster, progress, max(low, high - size)))
        if last_commit(found) is not None or size >= high - low:
            return found
        size *= 10


def last_commit(records: Sequence[Commit | Act]) -> Commit | None:
    """Return the last commit record; None if there is no commit record."""
    return next((record for record in reversed(records) if isinstance(record, Commit)), None)


def resume_after(tail: Sequence[Commit | Act]) -> Act | None:
    """Return the act that resumes a task; None if the breaker has not stopped the task."""
    if tripped_by(tail) is None:
        return None
    return Act(tail[-1].sequence + 1, RESUME, __version__, "")


def tripped_by(tail: Sequence[Commit | Act]) -> str | None:
    """Return why the breaker stopped the task, from the tail of its progress; None if it is not stopped, or resumed."""
    last = last_commit(tail)
    if last is None:
        return None
    reached = last.sequence
    for act in tail[tail.index(last) + 1 :]:  # two acts that were written at the same time have the same sequence
        if isinstance(act, Act) and act.kind == RESUME and last.sequence < act.sequence <= reached + 1:
            return None
        reached = max(reached, act.sequence)
    return last.tripped
