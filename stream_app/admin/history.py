"""Rebuild a task as it was at a committed point, from snapshots, progress and inputs, without writing anything.

The task is rebuilt by the same code that restores a task in a worker (`restore.Restore`), which compares the digest of
every commit record. So the result is the state from which a worker would continue.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from stream_app.admin.progress.reading import (
    last_commit,
    named_snapshots,
    progress_tail,
)
from stream_app.backends.base import Clock, Cluster, Fetched, LogReader, TopicPartition, pair
from stream_app.backends.reading import READ_TIMEOUT_S, finish, rows_of
from stream_app.backends.retention import deleted
from stream_app.config import Config, TaskSettings
from stream_app.errors import ErrorCode, StateError
from stream_app.live.breaker import Breaker
from stream_app.live.live_task import LiveTask
from stream_app.live.snapshot_writer import SnapshotTimes
from stream_app.live.task_request import TaskRequest, Writer
from stream_app.pipeline.task import Task
from stream_app.progress_records import CONFIGURATION, Act, Commit
from stream_app.recovery.changelog import manifests_of
from stream_app.recovery.restore import Pause, Restore
from stream_app.recovery.restore_request import Logs, Times
from stream_app.serialization import codec
from stream_app.snapshot.format import Snapshot
from stream_app.snapshot.parts import WholeActs
from stream_app.task_state import TaskState

_POLL_RECORDS = 10_000
_POLL_S = 0.1
"""Of the inputs that a rebuilt task processes again."""

_NO_SNAPSHOTS = SnapshotTimes(86_400.0, 86_400.0)
"""Time until the first snapshot: a rebuilt task does not take any."""


class Reporter(Protocol):
    """A function that is called now and then with the offsets (examples, labels) that were reached and are wanted."""

    def __call__(self, reached: tuple[int, int], wanted: tuple[int, int], /) -> None:
        """Report the offsets."""


class RecordedCommit(NamedTuple):
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

    Raises:
        StateError: The task has never committed.
    """

    def __init__(self, config: Config, cluster: Cluster, number: int) -> None:
        self._config = config
        self._cluster = cluster
        self._number = number
        topics = config.topics
        self.inputs = (TopicPartition(topics.examples, number), TopicPartition(topics.labels, number))
        self._progress = TopicPartition(topics.progress, number)
        last = last_commit(progress_tail(cluster, self._progress))
        if last is None:
            raise StateError(
                f"task {number} of {config.application.id} has never committed anything", ErrorCode.NOT_FOUND
            )
        self._last_sequence = last.sequence
        self._named = named_snapshots(cluster, self._progress)

    def commits(self) -> Iterator[RecordedCommit]:
        """Yield the commit records up to the last commit.

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
        for row in rows_of(self._cluster, self._progress):
            record, offset = codec.decode_one(row.value or b""), row.offset
            if offset < begin:
                continue
            settings = known.get(offset, settings)
            if isinstance(record, Act):
                whole = whole_acts.add(record)
                if whole is not None:
                    acts.append(whole)
                    settings = TaskSettings.from_json(whole.text) if whole.kind == CONFIGURATION else settings
            elif isinstance(record, Commit) and record.sequence <= self._last_sequence:
                if settings is None:
                    text = self._begins(record.sequence, "and no named snapshot can be read")
                    raise StateError(text, ErrorCode.PROGRESS_LOST)
                yield RecordedCommit(record, offset, settings, tuple(acts))
                acts.clear()

    def is_trimmed(self) -> bool:
        """Say whether the beginning of progress was deleted."""
        return self._cluster.watermarks(self._progress).low > 0

    def _snapshot_settings(self) -> dict[int, TaskSettings]:
        """Return the configuration in force at each named snapshot, by the progress offset of its commit record."""
        named, number = self._named, self._number
        changelog = TopicPartition(self._config.topics.changelog, number)
        found = finish(self._cluster, changelog, lambda reader: manifests_of(reader, named, number))
        return {snapshot.progress_offset: TaskSettings.from_json(manifest.settings) for snapshot, manifest in found}

    def _begins(self, sequence: int, more: str) -> str:
        where = f"{self._progress.topic}[{self._progress.partition}]"
        return f"{where}: history begins with sequence {sequence}: older records were deleted with their inputs, {more}"

    def check_whole(self, recorded: RecordedCommit) -> None:
        """Refuse to process the first commit again if the beginning of progress was deleted.

        Raises:
            StateError: The beginning was deleted, and with it the state before this commit.
        """
        if self.is_trimmed():
            text = f"and the state before it is lost; it ends at offsets {pair(recorded.ends)}"
            raise StateError(self._begins(recorded.commit.sequence, text), ErrorCode.PROGRESS_LOST)

    def at(self, offsets: tuple[int, int] | None) -> RecordedCommit:
        """Return the commit record that ends at these offsets (examples, labels), or the newest one for None.

        Raises:
            StateError: No commit ends there; the message names the nearest commits.
        """
        before: RecordedCommit | None = None
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
                    ErrorCode.NOT_FOUND,
                )
            before = recorded
        if before is None or offsets is not None:
            end = f"; the last is {pair(before.ends)}" if before else ""
            raise StateError(f"task {self._number} was never committed at these offsets{end}", ErrorCode.NOT_FOUND)
        return before

    def rebuild(self, recorded: RecordedCommit, clock: Clock, report: Reporter) -> Rebuilt:
        """Return the task as it was after a commit record.

        Raises:
            StateError: Inputs that are needed were deleted, or processing them again gives another digest.
            UnknownOutcomeError: The broker did not answer in time.
        """
        commit, topics = recorded.commit, self._config.topics
        snapshots = tuple(s for s in self._named if s.progress_offset <= recorded.progress_offset)
        with ExitStack() as stack:

            def opened(topic: str) -> LogReader:
                reader = self._cluster.reader(TopicPartition(topic, self._number))
                stack.callback(reader.close)
                return reader

            def found() -> Generator[bool, None, tuple[Snapshot, ...]]:
                yield from ()
                return snapshots

            logs = Logs(
                snapshots=found,
                progress=lambda: _Until(opened(topics.progress), recorded.progress_offset),
                changelog=partial(opened, topics.changelog),
                outputs=None,
            )
            restore = Restore(
                TaskRequest(
                    self.inputs,
                    recorded.settings,
                    recorded.ends,
                    Writer(""),
                ),
                logs,
                Breaker(self._config.breaker),
                clock,
                Times(READ_TIMEOUT_S, _NO_SNAPSHOTS),
            )
            readers = [opened(partition.topic) for partition in self.inputs]
            live = _drive(restore, readers, recorded.ends, report, partial(_check_inputs, self._cluster, self.inputs))
            return Rebuilt(live.task, commit.sequence, recorded.ends)


def _check_inputs(
    cluster: Cluster, inputs: Sequence[TopicPartition], offsets: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Refuse to wait for inputs that were deleted.

    Both pairs are offsets (examples, labels): what was reached, and what is wanted.

    Raises:
        StateError: Records in these ranges were deleted.
    """
    for place, offset, end in zip(inputs, offsets, wanted, strict=True):
        low = cluster.watermarks(place).low
        if offset < min(low, end):
            text = f"task {place.partition} cannot be rebuilt without these inputs as it was at offsets {pair(wanted)}"
            raise deleted(place, low, offset, text)


def _drive(
    restore: Restore,
    readers: Sequence[LogReader],
    wanted: tuple[int, int],
    report: Reporter,
    check: Callable[[tuple[int, int], tuple[int, int]], None],
) -> LiveTask:
    """Restore a task, and read the inputs that the restore asks for after checking that they are there."""
    with closing(restore.run()) as steps:
        while True:
            try:
                pause = next(steps)
            except StopIteration as done:
                live: LiveTask = done.value
                report(restore.position.offsets, wanted)
                return live
            if pause is Pause.INPUTS:
                check(restore.position.offsets, wanted)
                for reader, offset in zip(readers, restore.position.offsets, strict=True):
                    reader.seek(offset)
            elif pause is Pause.WAITING and restore.state is TaskState.REPROCESSING:
                report(restore.position.offsets, wanted)
                for side, reader in enumerate(readers):
                    fetched = reader.poll(_POLL_RECORDS, _POLL_S) if restore.lacks(side) else None
                    if fetched is not None:
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
        return Fetched(fetched.partition, fetched.records.rows(0, rows), at_end=True, position=self._last + 1)

    def close(self) -> None:
        """Release the client."""
        self._reader.close()
