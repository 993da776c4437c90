"""A task as it was at a committed point, rebuilt from snapshots, progress and inputs; nothing is written.

It runs through the very code that restores a worker's task (`restore.Restore`), so what it finds is what a worker
would go on with: the digest of every commit record on the way is compared.
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
from stream_app.recovery.buffers import rows_of
from stream_app.recovery.changelog import manifests_of
from stream_app.recovery.commit_point import CommitPoint, RestoreTarget, committed_target, progress_record
from stream_app.recovery.live_task import LiveTask
from stream_app.recovery.restore import Pause, Restore
from stream_app.recovery.restore_request import Logs, RestoreRequest, Times, Writer
from stream_app.serialization import codec
from stream_app.snapshot.parts import WholeActs
from stream_app.task_state import TaskState

READ_TIMEOUT_S = 30.0
"""Longest silence of a broker that is being read; a change of leader takes 6-9 s."""

POLL_RECORDS = 10_000

POLL_S = 0.1

TAIL_RECORDS = 1_000
"""Of progress, read first: seconds of a busy task, and more acts than an operator writes behind its last commit."""

NO_SNAPSHOTS_S = 86_400.0
"""A rebuilt task takes none."""


Answer = TypeVar("Answer")


class Told(Protocol):
    """Hears how far it is: offsets (examples, labels) that are reached, and those that are wanted."""

    def __call__(self, reached: tuple[int, int], wanted: tuple[int, int], /) -> None:
        """Called every now and then."""


class Recorded(NamedTuple):
    """A commit record of a task, its offset in progress, the configuration in force there, and the acts before it."""

    commit: Commit
    progress_offset: int
    settings: TaskSettings
    acts: tuple[Act, ...]

    @property
    def ends(self) -> tuple[int, int]:
        """Offsets (examples, labels) behind what it processed."""
        return self.commit.examples_end, self.commit.labels_end


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A task behind a commit record; before the first one, `sequence` is -1."""

    task: Task
    sequence: int
    offsets: tuple[int, int]


class History:
    """What a task's own topics tell about its past.

    Args:
        config: The application.
        cluster: Where its topics are.
        number: The task's.

    Raises:
        StateError: It never committed, or its offsets are none of ours.
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
                f"task {number} of {config.application.id} never committed anything", ErrorCode.NEVER_COMMITTED
            )
        self.target = target
        self._progress = TopicPartition(topics.progress, number)

    def commits(self) -> Iterator[Recorded]:
        """Its commit records, up to the committed one.

        Of progress that was trimmed, those from the oldest snapshot on: behind the first of them the task can be
        rebuilt, but not what that one did.
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
                    text = self._begins(record.sequence, "and no snapshot that is named can be read")
                    raise StateError(text, ErrorCode.SNAPSHOT_MISSING)
                yield Recorded(record, offset, settings, tuple(acts))
                acts.clear()

    def is_trimmed(self) -> bool:
        """Whether records were deleted from the beginning of progress."""
        return self._cluster.watermarks(self._progress).low > 0

    def _snapshot_settings(self) -> dict[int, TaskSettings]:
        """The configuration in force behind each named snapshot, by the progress offset of its commit record."""
        named, number = self.target.snapshots, self._number
        changelog = TopicPartition(self._config.topics.changelog, number)
        found = finish(self._cluster, changelog, lambda reader: manifests_of(reader, named, number))
        return {snapshot.progress_offset: TaskSettings.from_json(manifest.settings) for snapshot, manifest in found}

    def _begins(self, sequence: int, more: str) -> str:
        where = f"{self._progress.topic}[{self._progress.partition}]"
        return f"{where}: history begins with sequence {sequence}: older records were deleted with their inputs, {more}"

    def check_whole(self, recorded: Recorded) -> None:
        """Refuse the first record of a trimmed history, where what it did is asked for.

        Raises:
            StateError: It is that; the state before it is gone.
        """
        if self.is_trimmed():
            text = f"and the state before it with them; it ends at offsets {pair(recorded.ends)}"
            raise StateError(self._begins(recorded.commit.sequence, text), ErrorCode.SNAPSHOT_MISSING)

    def at(self, offsets: tuple[int, int] | None) -> Recorded:
        """The commit record that ends at these offsets; None: the newest.

        Raises:
            StateError: None does; the message names those beside.
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
                    f"beside it are {known}{pair(recorded.ends)}",
                    ErrorCode.NEVER_COMMITTED,
                )
            before = recorded
        if before is None or offsets is not None:
            end = f"; the last is {pair(before.ends)}" if before else ""
            raise StateError(
                f"task {self._number} was never committed at these offsets{end}", ErrorCode.NEVER_COMMITTED
            )
        return before

    def rebuild(self, recorded: Recorded, clock: Clock, told: Told) -> Rebuilt:
        """The task behind a commit record.

        Raises:
            StateError: Inputs that are needed are gone, or re-processing gives another digest.
            UnknownOutcomeError: The broker fell silent.
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
            live = _drive(restore, readers, recorded.ends, told)
            return Rebuilt(live.task, commit.sequence, recorded.ends)


def _drive(restore: Restore, readers: Sequence[LogReader], wanted: tuple[int, int], told: Told) -> LiveTask:
    """Restore a task, and read of its inputs what the restore asks for."""
    with closing(restore.run()) as steps:
        while True:
            try:
                pause = next(steps)
            except StopIteration as done:
                live: LiveTask = done.value
                told(restore.position.offsets, wanted)
                return live
            if pause is Pause.INPUTS:
                for reader, offset in zip(readers, restore.position.offsets, strict=True):
                    reader.seek(offset)
            elif pause is Pause.WAITING and restore.state is TaskState.REPLAYING:
                told(restore.position.offsets, wanted)
                for side, reader in enumerate(readers):
                    fetched = reader.poll(POLL_RECORDS, POLL_S) if restore.lacks(side) else None
                    if fetched is not None and len(fetched.records):
                        restore.waiting[side].add(fetched)
                        restore.deadline.restart()


class _Until:
    """A reader for which the log ends behind one record."""

    def __init__(self, reader: LogReader, last_offset: int) -> None:
        self._reader = reader
        self._last = last_offset

    def seek(self, offset: int) -> None:
        """Go on reading from this offset."""
        self._reader.seek(offset)

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """The next records, up to that one."""
        fetched = self._reader.poll(max_records, timeout_s)
        if fetched is None or not len(fetched.records) or fetched.records.offsets[-1] < self._last:
            return fetched
        rows = int(np.searchsorted(fetched.records.offsets, self._last + 1))
        return Fetched(fetched.partition, rows_of(fetched.records, 0, rows), at_end=True)

    def close(self) -> None:
        """Release the client."""
        self._reader.close()


class _Patient:
    """A reader that waits for records where it is asked not to."""

    def __init__(self, reader: LogReader) -> None:
        self.seek = reader.seek
        self.close = reader.close
        self._reader = reader

    def poll(self, max_records: int, timeout_s: float) -> Fetched | None:
        """The next records."""
        return self._reader.poll(max_records, max(timeout_s, POLL_S))


def finish(
    cluster: Cluster, place: TopicPartition, work: Callable[[LogReader], Generator[bool, None, Answer]]
) -> Answer:
    """The answer of something that reads a partition and yields behind each poll whether it had news.

    Raises:
        UnknownOutcomeError: The broker fell silent.
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
    raise UnknownOutcomeError(f"{place.topic}[{place.partition}]: no answer for {READ_TIMEOUT_S:g} s")


@contextmanager
def _reading(cluster: Cluster, place: TopicPartition) -> Iterator[LogReader]:
    reader = cluster.reader(place)
    try:
        yield reader
    finally:
        reader.close()


def records_of(cluster: Cluster, place: TopicPartition, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Offset and value of every record of a partition from an offset on.

    Raises:
        UnknownOutcomeError: The broker fell silent.
    """
    with _reading(cluster, place) as reader:
        if start:
            reader.seek(start)
        at_end = False
        while not at_end:
            fetched = reader.poll(POLL_RECORDS, READ_TIMEOUT_S)
            if fetched is None:
                raise UnknownOutcomeError(f"{place.topic}[{place.partition}]: no answer for {READ_TIMEOUT_S:g} s")
            yield from zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True)
            at_end = fetched.at_end


def progress_of(cluster: Cluster, progress: TopicPartition, start: int = 0) -> Iterator[Commit | Act]:
    """The records of progress from an offset on.

    Raises:
        StateError: One is none of ours.
        UnknownOutcomeError: The broker fell silent.
    """
    for offset, value in records_of(cluster, progress, start):
        yield progress_record(value, f"{progress.topic}[{progress.partition}] offset {offset}")


def progress_tail(cluster: Cluster, progress: TopicPartition) -> list[Commit | Act]:
    """The last records of progress, back to a commit record at least, where there is one.

    Raises:
        StateError: One is none of ours.
        UnknownOutcomeError: The broker fell silent.
    """
    low, high = cluster.watermarks(progress)
    size = TAIL_RECORDS
    while True:
        found = list(progress_of(cluster, progress, max(low, high - size)))
        if last_commit(found) is not None or size >= high - low:
            return found
        size *= 10


def last_commit(records: Sequence[Commit | Act]) -> Commit | None:
    """None: there is none among them."""
    return next((record for record in reversed(records) if isinstance(record, Commit)), None)


def resume_after(tail: Sequence[Commit | Act]) -> Act | None:
    """The act that lets a task continue that the breaker stopped; None where it is not stopped."""
    if tripped_by(tail) is None:
        return None
    return Act(tail[-1].sequence + 1, RESUME, __version__, "")


def tripped_by(tail: Sequence[Commit | Act]) -> str | None:
    """Why the breaker stopped the task, unless somebody resumed it; the tail of its progress says so."""
    last = last_commit(tail)
    if last is None:
        return None
    reached = last.sequence
    for act in tail[tail.index(last) + 1 :]:  # two that came at once have one sequence
        if isinstance(act, Act) and act.kind == RESUME and last.sequence < act.sequence <= reached + 1:
            return None
        reached = max(reached, act.sequence)
    return last.tripped
