"""Rounds of a worker: one batch of every live task that has data, then one transaction for all of them."""

import math
from collections.abc import Sequence

from stream_app.config import Config
from stream_app.errors import OwnCodeError, RecordTooLargeError, TransactionAbortedError, UnknownOutcomeError
from stream_app.live.live_task import ComputedBatch
from stream_app.pipeline import merge
from stream_app.pipeline.outputs import DEAD_LETTERS
from stream_app.pipeline.transaction_bounds import Room
from stream_app.task_state import TaskState
from stream_app.worker.batch_limits import BatchLimits
from stream_app.worker.committed_batch import report_batch
from stream_app.worker.gathering import GatheringTime
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.owned_tasks import OwnedTasks
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.round_transaction import Part, RoundTransaction, StartedRound
from stream_app.worker.transaction_watch import TransactionWatch

_MAX_ABORTS_IN_A_ROW = 10
"""Aborts without a commit between them, after which the worker restarts: rebalances alone do not cause this many."""

SAVE_TIMEOUT_S = 10.0
"""Longest time that a stopping worker takes to save its tasks; a group or a supervisor waits longer than that."""

SNAPSHOT_SLICE_S = 0.005
"""The time in which all tasks together draft streams for snapshots in a round: new records wait no longer than that."""

_PAUSE_SHARE = 0.25
"""Least pause after a round that is not full, as a part of the time that it took. A transaction of many tasks can take
longer than `commit_interval_ms`: without a pause, the brokers would be busy with it all the time."""

_RESTORING_SHARE = 1.0
"""The same while tasks are restored, also after a full round: a restore waits for twenty answers in turn, and looks
for them only between two rounds."""

_LONGEST_PAUSE_S = 0.5
"""Longest such pause: a process that was frozen in the middle of a round, for an hour or a week, took no longer."""

_SILENT_S = 1.0
"""A restore that has waited longer for brokers gets no pause: the tasks that are live do not wait for it."""

FULL_RECORDS = 10_000
"""A round that takes this many records is full, even if no batch of a task is: to compute it takes some 50 ms."""

_MARKER_TIMEOUT_S = 1.0
"""Longest wait for the markers of a task's last commit: they are written within milliseconds, or lost."""


def _can_continue(part: Part) -> bool:
    return part.batch is not None and part.task.live.can_continue


class Rounds:
    """Computes and commits the rounds of a worker, and saves tasks before the worker gives them up.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Reports what was committed.
        watch: Is notified of what was written.
        tasks: The tasks of the worker.
        room: What one transaction takes, of all tasks together.
        adopts: Whether records of other writers in the output topics are accepted.

    Attributes:
        aborts: Transactions in a row that were aborted; 0 once one is committed.
        began_s: When the last transaction began, by the monotonic clock.
        cuts: How many batches took fewer records than were there, because their outputs could have become too large.
        is_starved: Whether no live task can continue without new records.
        due_s: When the next round is due, by the monotonic clock: after a full round at once, or when records have
            gathered while its transaction is running; otherwise `commit_interval_ms` after the last round began, or
            later if that round took long; while tasks are restored, each round leaves them time.
        is_full: Whether a batch of the last round took as many records as it could, or all of them `FULL_RECORDS`.
    """

    def __init__(
        self,
        config: Config,
        ports: Ports,
        observer: Observer,
        watch: TransactionWatch,
        tasks: OwnedTasks,
        room: Room,
        *,
        adopts: bool,
    ) -> None:
        self.aborts = 0
        self.began_s = 0.0
        self.cuts = 0
        self.is_starved = False
        self.due_s = 0.0
        self.is_full = False
        self._transaction = RoundTransaction(ports, config.topics, adopts=adopts)
        self._started: StartedRound | None = None
        self._room = room
        self._turn = 0
        self._gathering = GatheringTime()
        self._interval_s = config.worker.commit_interval_ms / 1000
        self._ports = ports
        self._observer = observer
        self._watch = watch
        self._tasks = tasks
        self._limits = BatchLimits(config.worker.max_batch_records)

    def run(self, *, overlaps: bool = False) -> None:
        """Process and commit one batch of every live task that has records.

        Args:
            overlaps: Whether the transaction may still run when this returns. The next round computes its batches
                meanwhile; until then, nothing but a poll may happen before `finish`.
        """
        self.is_full = False
        began_s = self._ports.clock.monotonic_s()
        computed = self._compute()  # while the transaction of the round before is running, if it is
        is_running, computed_s = self._started is not None, self._ports.clock.monotonic_s()
        self.finish()
        if is_running:
            self._gathering.learn(self._ports.clock.monotonic_s() - computed_s)
        # If that transaction was aborted, its tasks are restored: their models have learned from a batch that does not
        # exist. So `_seal` drops what they have computed since then.
        parts = self._seal(computed)
        if parts:
            # A batch that is not full costs little, so nothing is gained; and a task that has something to record
            # between two batches, such as a snapshot, needs the first of them committed.
            may_overlap = overlaps and self.is_full and all(map(_can_continue, parts))
            self._started = self._start(parts, overlaps=may_overlap)
            if not may_overlap:
                self.finish()
        self.due_s = self._due_after(began_s)

    def _due_after(self, began_s: float) -> float:
        """Return when the next round is due, after the round that began at a time and ends now."""
        now_s = self._ports.clock.monotonic_s()
        restores = any(task.state.is_restoring and task.silent_s < _SILENT_S for task in self._tasks.all)
        share = _RESTORING_SHARE if restores else _PAUSE_SHARE
        pause_s = min(share * (now_s - began_s), _LONGEST_PAUSE_S)
        if self.is_full:
            gathering_s = self._gathering.seconds if self._started is not None else 0.0
            return now_s + max(gathering_s, pause_s if restores else 0.0)
        return max(began_s + self._interval_s, now_s + pause_s)

    def _compute(self) -> Sequence[tuple[OwnedTask, ComputedBatch | OwnCodeError | None]]:
        """Compute the next batch of every live task that has records."""
        computed: list[tuple[OwnedTask, ComputedBatch | OwnCodeError | None]] = []
        room, cuts, is_first, records = self._room, self.cuts, True, 0
        self._limits.begin_round()
        for place, task in enumerate(self._in_turn()):
            if task.state is not TaskState.LIVE:
                continue
            if not is_first and self._limits.is_round_over:
                self.is_full = True
                self._turn += place  # the next round begins with this task
                break
            try:
                batch = self._step(task, room, must=is_first)
            except OwnCodeError as error:
                computed.append((task, error))
                continue
            computed.append((task, batch))
            if batch is not None:
                room = room.less(batch.outputs.records, batch.outputs.bytes)
                records += sum(map(len, batch.outputs.judged))
                is_first = False
        self._turn += self.cuts > cuts
        self.is_full |= records >= FULL_RECORDS
        self._tasks.inputs.resume_drained()
        self.is_starved = is_first
        return computed

    def _seal(self, computed: Sequence[tuple[OwnedTask, ComputedBatch | OwnCodeError | None]]) -> Sequence[Part]:
        """Return the parts of the next transaction: without tasks that were lost with the transaction before."""
        parts: list[Part] = []
        for task, batch in computed:
            if not self._tasks.owns(task):
                continue
            if isinstance(batch, OwnCodeError):
                self._tasks.park(task, batch)
            elif batch is not None:
                parts.append(Part(task, task.live.seal(batch)))
            elif self._saves(task):
                parts.append(Part(task))
        return parts

    def _saves(self, task: OwnedTask) -> bool:
        """Say whether a task without new records has a snapshot to write, and take the snapshot if it is due."""
        self._take_snapshot(task)
        return task.writes_snapshot

    def finish(self) -> None:
        """Wait for the transaction that was started, if there is one; then its tasks advance, or start over.

        Raises:
            ForeignRecordsError: Another application writes to the output topics.
            FencedError: A newer worker has our name.
            UnknownOutcomeError: The broker did not answer in time.
        """
        started, self._started = self._started, None
        if started is None:
            return
        parts = started.parts
        try:
            self._finish(started)
        except TransactionAbortedError as error:
            self.start_over([part.task for part in parts], error)
            return
        self._turn += started.is_full
        for part in parts:
            self._advance(part)
            self._take_snapshot(part.task)

    def _in_turn(self) -> Sequence[OwnedTask]:
        """Return all tasks, beginning with another one after each transaction that had no room for all of them."""
        tasks = self._tasks.all
        first = self._turn % max(1, len(tasks))
        return (*tasks[first:], *tasks[:first])

    def _step(self, task: OwnedTask, room: Room, *, must: bool) -> ComputedBatch | None:
        limit = self._limits.limit(task.number)
        examples, labels = task.waiting
        rows = merge.cut(
            examples.times(limit),
            labels.times(limit),
            examples_at_end=examples.at_end and len(examples) <= limit,
            labels_at_end=labels.at_end and len(labels) <= limit,
            limit=limit,
        )
        if not sum(rows) and (self._started is not None or not task.live.has_passed_over):
            return None
        start = self._ports.clock.monotonic_s()
        with self._observer.step(f"task {task.number}: a batch of {rows[0]} examples and {rows[1]} labels"):
            batch = task.live.compute(rows, room, must=must)
        taken = sum(map(len, batch.outputs.judged)) if batch is not None else 0
        self.is_full |= sum(rows) >= limit
        if taken == sum(rows):
            if taken:
                self._limits.learn(task.number, taken, self._ports.clock.monotonic_s() - start)
            return batch
        self.is_full = True
        self.cuts += 1
        return batch

    def _advance(self, part: Part) -> None:
        """Advance a task whose part of a transaction was committed, and report it."""
        task, batch = part.task, part.batch
        self._watch.note_written(part)
        live = task.live
        complete = live.advance(batch, part.progress_offsets, self._watch.unread_ends(task.number))
        if complete is not None:
            self._watch.hurry()
            self._observer.emit(events.SnapshotComplete(task.number, complete))
            if live.snapshots.has_purged:
                self._observer.emit(events.Purged(task.number, complete))
        if live.needed_progress is not None:
            task.trimmer.want(live.needed_progress)
        if batch is not None:
            if self._awaits_first_commit(task):
                self._watch.hurry()
            self._observer.emit(events.BatchCommitted(task.number, batch.offsets, batch.counts))
            report_batch(task, batch, part.written[DEAD_LETTERS], self._observer)

    # Transactions ---------------------------------------------------------------------------------------------------

    def note_began(self) -> None:
        """Note that a transaction begins now."""
        self.began_s = self._ports.clock.monotonic_s()

    def _start(self, parts: Sequence[Part], *, overlaps: bool) -> StartedRound:
        self.note_began()
        if not all(self._tasks.may_commit(part.task) for part in parts):
            raise AssertionError("a batch of an older assignment reached a transaction")
        return self._transaction.start(parts, self._tasks.group, overlaps=overlaps)

    def _finish(self, started: StartedRound) -> None:
        self._transaction.finish(started)
        self._observer.emit(events.TransactionCommitted(self.began_s))
        self.aborts = 0

    def commit(self, parts: Sequence[Part]) -> None:
        """Commit one transaction of these parts; see `RoundTransaction.finish` for what it raises."""
        self._finish(self._start(parts, overlaps=False))

    def start_over(self, tasks: Sequence[OwnedTask], error: TransactionAbortedError) -> None:
        """Discard the state of these tasks; those that the worker still owns after the next poll are restored.

        Raises:
            UnknownOutcomeError: Too many transactions in a row were aborted.
        """
        self._observer.emit(events.Aborted(str(error)))
        self.aborts += 1
        if self.aborts == _MAX_ABORTS_IN_A_ROW:
            raise UnknownOutcomeError(f"{self.aborts} transactions in a row were aborted; the last: {error}") from error
        if isinstance(error, RecordTooLargeError):
            self._tasks.record_was_too_large()
            tasks = self._tasks.all
        for task in tasks:
            self._tasks.renew(task.number)

    # Snapshots ------------------------------------------------------------------------------------------------------

    def _awaits_first_commit(self, task: OwnedTask) -> bool:
        """Say whether a live task has no snapshot yet, and the beginning of its progress cannot be read yet.

        If a first commit has lost its markers in all partitions, nothing shows later that it was committed: it is
        aborted, and computed again. Beside a snapshot, its empty progress would look as if it had been deleted.
        """
        first = task.live.snapshots.first_offset if task.state is TaskState.LIVE else None
        return first is not None and not self._watch.is_progress_read(task.number, first)

    def _take_snapshot(self, task: OwnedTask, *, ending: bool = False) -> None:
        """Begin or continue the snapshot of a task; `ending` leaves nothing for a later round."""
        if self._awaits_first_commit(task):
            return
        try:
            with self._observer.step(f"task {task.number}: a snapshot"):
                slice_s = math.inf if ending else SNAPSHOT_SLICE_S / len(self._tasks.all)
                size = task.take_snapshot(slice_s, ending=ending)
        except OwnCodeError as error:
            self._tasks.park(task, error)
            return
        if size is not None:
            self._observer.emit(events.SnapshotTaken(task.number, task.position.anchor.sequence, size))

    def save(self, tasks: Sequence[OwnedTask]) -> bool:
        """Write snapshots of all that these tasks have processed, before the worker gives them up.

        A transaction that is running is finished first, and tasks that are lost with it are not saved. Saving ends
        early if it takes too long, or if a transaction is aborted.

        Returns:
            False if a transaction was aborted: once its tasks are restored, they can be saved.

        Raises:
            FencedError: A newer worker has our name.
            UnknownOutcomeError: The broker did not answer in time, or too many transactions in a row were aborted.
        """
        self.finish()
        tasks = [task for task in tasks if self._tasks.owns(task)]
        if self._ports.is_cut_off():
            return True
        written_s = self._ports.clock.monotonic_s()
        until_s = written_s + SAVE_TIMEOUT_S
        while True:
            for task in tasks:
                self._take_snapshot(task, ending=True)
            if not any(task.is_saving or self._awaits_first_commit(task) for task in tasks):
                return True
            if self._ports.clock.monotonic_s() >= until_s:
                return True
            writing = [Part(task) for task in tasks if task.writes_snapshot]
            if not writing:
                if self._ports.clock.monotonic_s() >= written_s + _MARKER_TIMEOUT_S:
                    return True
                self._watch.wait_for_readers(tasks)
                continue
            try:
                self.commit(writing)
            except TransactionAbortedError as error:
                self.start_over(tasks, error)
                return False
            for part in writing:
                self._advance(part)
            written_s = self._ports.clock.monotonic_s()

    def wait_until_readable(self, tasks: Sequence[OwnedTask]) -> None:
        """Wait until everything that these tasks have written can be read, or until its markers seem to be lost."""
        until_s = self._ports.clock.monotonic_s() + _MARKER_TIMEOUT_S
        while any(self._watch.unread_ends(task.number) for task in tasks) and not self._ports.is_cut_off():
            if self._ports.clock.monotonic_s() >= until_s:
                return
            self._watch.wait_for_readers(tasks)
