"""The shell around the tasks: assign, restore, poll, compute, commit, revoke, stop. One thread, one loop.

A turn of the loop polls, continues the restores (`restorer`), and commits a round when one is due (`rounds`).
After a full round, its transaction is written in another thread while the loop polls and computes the next batches; the
loop finishes it before it does anything else. Partitions are given away only between rounds (the group's callbacks
run inside `poll`), and a revoke finishes first, so it never meets an open transaction. The callbacks only record the
change; the worker acts on an assignment after the poll, where errors are handled in one place.

After an aborted transaction the state of its tasks is thrown away and restored; after an unknown outcome the process
starts again. Both take the path that `kill -9` takes.
"""

from collections.abc import Callable, Sequence

from stream_app.backends.base import TopicPartition
from stream_app.config import Config
from stream_app.errors import ArebaError, FencedAgainError, FencedError, OffsetGoneError, UnknownOutcomeError
from stream_app.pipeline.transaction_bounds import TRANSACTION, Room
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.owned_tasks import OwnedTasks
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.observer import Observer
from stream_app.worker.restorer import Restorer
from stream_app.worker.retention.old_event_times import OldEventTimes
from stream_app.worker.retention.retention_watch import RetentionWatch
from stream_app.worker.rounds import Rounds
from stream_app.worker.state_watch import StateWatch
from stream_app.worker.transaction_watch import TransactionWatch

IDLE_POLL_S = 0.1
"""Longest wait in a poll, which returns at any news: a request to stop is noticed within this time."""

_READING_POLL_S = 0.01
"""The same until the group assigns tasks, and during a restore: neither an assignment nor records of progress nor
answers of a broker end a poll of the inputs."""

_SHORTEST_POLL_S = 0.001
"""The same while answers come quickly: a restore waits for some twenty of them in turn."""

LONGEST_SLEEP_S = 0.02
"""Longest sleep while records gather for the next round. The group's callbacks wait for its end."""

POLL_RECORDS = 10_000
"""Records taken from the client at once: some 10 ms of work."""

TASK_RECORDS = 3_000
"""The same for each task, if that is more, up to what a transaction takes. A transaction writes to each partition in a
request of its own, which costs as much as the work on hundreds of records: a round of many tasks takes more records."""

FENCE_WINDOW_S = 10.0
"""`transaction.timeout.ms`: a worker that is fenced sooner was not fenced because its own transaction timed out."""

_REFENCE_WINDOW_S = 300.0
"""A worker that was fenced, restarted, and is fenced within this time has a rival of the same name: two such workers
fence each other as fast as they start, and a start takes seconds, on a busy machine a minute."""

GROUP_TIMEOUT_S = 30.0
"""Longest wait for the coordinator of the group at the start; a new cluster first creates the topic of the offsets."""

_OVERLAP_S = 1.0
"""Longest time in which a worker with full rounds does nothing but poll, compute and commit."""

_STOP_TIMEOUT_S = 30.0
"""Longest time in which a worker that stops restores tasks in order to save them; services wait 60 s for its end."""

_MEMORY_INTERVAL_S = 60.0
"""Interval at which the memory of the tasks is reported."""


def _has_records(task: OwnedTask) -> bool:
    return task.state is TaskState.LIVE and bool(len(task.waiting[0]) or len(task.waiting[1]))


class Worker:
    """One member of the consumer group.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Reports what happens.
        was_fenced: Whether this process restarted because it had been fenced.
        adopts: Whether records of other writers in the output topics are accepted.
        room: What one transaction takes, of all tasks together.
    """

    def __init__(
        self,
        config: Config,
        ports: Ports,
        observer: Observer,
        *,
        was_fenced: bool = False,
        adopts: bool = False,
        room: Room = TRANSACTION,
    ) -> None:
        self._config = config
        self._ports = ports
        self._observer = observer
        self._was_fenced = was_fenced
        self._watch = TransactionWatch(config, ports, observer)
        self._owned = OwnedTasks(config, ports, observer, self._watch, adopts=adopts)
        self._rounds = Rounds(config, ports, observer, self._watch, self._owned, room, adopts=adopts)
        self._restorer = Restorer(self._owned, self._rounds, config.topics, ports, observer, self._watch)
        self._retention_watch = RetentionWatch(ports, config.topics, observer)
        old_times = OldEventTimes(ports.clock, observer, self._retention_watch.kept_ms)
        self._state_watch = StateWatch(config, ports.clock, ports.source, observer, old_times)
        self._worked = False  # a restore can continue at once
        self._lost: FencedError | UnknownOutcomeError | None = (
            None  # raised in a callback, to be raised again after the poll
        )
        self._is_closing = False
        self._started_s = self._memory_s = 0.0
        self._finished_s = 0.0  # when no transaction was running between two rounds

    @property
    def tasks(self) -> Sequence[OwnedTask]:
        """The tasks that this worker owns now."""
        return self._owned.all

    @property
    def aborts(self) -> int:
        """Transactions in a row that were aborted; 0 once one is committed."""
        return self._rounds.aborts

    @property
    def cuts(self) -> int:
        """How many batches took fewer records than were there, because their outputs could have become too large."""
        return self._rounds.cuts

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Work until asked to stop, then finish the round and leave the group.

        Raises:
            ArebaError: See errors.py for what each means and the exit status.
        """
        try:
            self.start()
            while not should_stop():
                self.turn()
            self._save_all()
            self._observe_stop()
        except FencedError as error:
            self._raise_fenced_again(error)
            raise
        finally:
            self._close()

    def start(self) -> None:
        """Fence the previous process, end its open transactions, and join the group. `run` does so."""
        self._started_s = self._ports.clock.monotonic_s()
        self._rounds.note_began()
        self._ports.transaction.initialise()
        partitions = self._owned.begin()
        self._observer.figures.set(metrics.PARTITIONS, partitions)
        topics = self._config.topics
        if not self._ports.source.finds_group(TopicPartition(topics.examples, 0), GROUP_TIMEOUT_S):
            raise UnknownOutcomeError(f"the coordinator of group {self._config.group_id} did not answer in time")
        self._watch.hanging.begin(partitions)
        self._ports.source.subscribe((topics.examples, topics.labels), self._on_assign, self._on_revoke, partitions)

    def turn(self) -> None:
        """Do one turn of the loop: poll, restore a slice, and commit a round when it is due."""
        wait_s = self._wait_s()
        if self._only_gathers():  # a poll would return, and cost a turn, at each response to a fetch
            self._ports.clock.sleep(min(wait_s, LONGEST_SLEEP_S))
            wait_s = 0.0
        self._poll(wait_s)  # all that the group calls, `_on_assign` and `_on_revoke`, happens in here
        if self._lost is not None:
            raise self._lost
        if self._ports.clock.monotonic_s() < self._finished_s + _OVERLAP_S and self._may_overlap():
            if self._is_round_due():
                self._run_round(overlaps=True)
            return
        self._rounds.finish()  # everything else expects that no transaction is running
        self._ports.transaction.serve()  # an idle client reports why it has lost a broker, too
        self._finished_s = self._ports.clock.monotonic_s()
        if self._ports.is_cut_off():  # a request would only time out; the poll reports when a broker answers again
            self._observer.emit(events.CutOff(self._ports.outage_cause()))
            for task in self.tasks:
                task.be_patient()
            return
        self._watch.look(lambda: self.tasks, self._owned.new, self._owned.renew)
        self._owned.topic_watch.look(self._ports.clock.monotonic_s(), self.tasks, self._owned.renew, self._watch)
        if self._owned.new:
            self._own_new()
        self._worked = self._restorer.run_slice()
        if self._worked:
            self._rounds.is_starved = False
        self._retention_watch.look(self.tasks)
        self._trim()
        self._observe_memory()
        if self._ports.clock.monotonic_s() >= self._rounds.due_s:
            self._state_watch.look(self.tasks)
            self._run_round(overlaps=self._may_overlap())

    def _run_round(self, *, overlaps: bool) -> None:
        self._rounds.run(overlaps=overlaps)
        self._observer.emit(events.RoundEnded(self._ports.silence_s()))

    def _own_new(self) -> None:
        """Take one step towards owning the tasks that were assigned; a task that comes back as it was continues."""
        self._owned.continue_kept()
        if unannounced := self._owned.unannounced:
            self._rounds.note_began()
            self._watch.hanging.announce(unannounced)
        else:
            self._owned.own_new()

    def _may_overlap(self) -> bool:
        """Say whether a round may begin, and end, while a transaction is running.

        Only where full rounds wait, and nothing else is to be done.
        """
        return (
            self._rounds.is_full
            and self._only_gathers()
            and not any(task.is_saving or task.trimmer.is_busy for task in self.tasks)
        )

    def _is_round_due(self) -> bool:
        """Say whether the next round is due, or so many records wait that it need not gather more."""
        if self._ports.clock.monotonic_s() >= self._rounds.due_s:
            return True
        return sum(len(records) for task in self.tasks for records in task.waiting) >= self._poll_records()

    def _observe_memory(self) -> None:
        """Report memory once a minute: measuring a task of thousands of streams takes tens of milliseconds."""
        now_s = self._ports.clock.monotonic_s()
        if now_s >= self._memory_s:
            self._memory_s = now_s + _MEMORY_INTERVAL_S
            for task in self.tasks:
                self._observer.emit(events.MemoryAllocated(task.number, task.allocated_bytes))

    def _save_all(self) -> None:
        """Save all tasks at the end, also those that are restored because their last transaction was aborted.

        The first transaction after a long pause may be aborted, because the broker has forgotten the transactional id.
        If the worker left the restore to the next process, retention could delete the inputs before it starts.
        """
        until_s = self._ports.clock.monotonic_s() + _STOP_TIMEOUT_S
        was_aborted = self._rounds.aborts > 0
        while True:
            while was_aborted and self._restores() and self._ports.clock.monotonic_s() < until_s:
                self.turn()
            if self._rounds.save(self.tasks) or self._ports.clock.monotonic_s() >= until_s:
                return
            was_aborted = True

    def _restores(self) -> bool:
        return bool(self._owned.new) or any(
            task.state is TaskState.ASSIGNED or task.state.is_restoring for task in self.tasks
        )

    def _observe_stop(self) -> None:
        for task in self.tasks:
            if task.state is TaskState.LIVE:
                with self._observer.step(f"task {task.number}: the digest of its models"):
                    digest = task.live.model_digest()
                self._observer.emit(events.WorkerStopped(task.number, task.point.sequence, digest))

    def _raise_fenced_again(self, error: FencedError) -> None:
        """Raise if another worker has our name, and not if our transaction timed out: that was open for long."""
        now = self._ports.clock.monotonic_s()
        is_early = now - self._rounds.began_s < FENCE_WINDOW_S
        if self._was_fenced and is_early and now - self._started_s < _REFENCE_WINDOW_S:
            raise FencedAgainError(
                f"fenced {now - self._started_s:.0f} s after the start: another worker runs as "
                f"{self._config.application.instance!r}; give each worker its own application.instance"
            ) from error

    # Callbacks of the group -----------------------------------------------------------------------------------------

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._owned.assigned(sorted({partition.partition for partition in partitions}))

    def _on_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Save these tasks while the group still accepts our commits, and give them up."""
        numbers = sorted({partition.partition for partition in partitions})
        # The group waits for the end of this callback: until then it accepts our commits, and the next owner waits. At
        # the end of the worker, `run` has saved all tasks already, or an error says that we may write nothing more.
        if not self._is_closing and self._lost is None:
            try:
                tasks = [task for task in self.tasks if task.number in numbers]
                if self._rounds.save(tasks):
                    self._rounds.wait_until_readable(tasks)  # only then a task that comes back continues as it is
            except (FencedError, UnknownOutcomeError) as error:  # raised after the poll, where errors are handled
                self._lost = error
        self._owned.revoked(numbers)

    # Polling --------------------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        """Return how long a poll may wait for news: until there is something to do without it."""
        if self._ports.is_cut_off():
            return IDLE_POLL_S
        if self._worked:
            return 0.0
        new = self._owned.new
        if new:
            return _READING_POLL_S if not self._owned.unannounced else 0.0
        longest = self._longest_wait_s()
        saves = any(task.writes_snapshot for task in self.tasks)
        if not saves and (self._rounds.is_starved or not any(map(_has_records, self.tasks))):
            return longest
        return max(0.0, min(self._rounds.due_s - self._ports.clock.monotonic_s(), longest))

    def _longest_wait_s(self) -> float:
        """Return how long a poll may wait for news that do not end it."""
        silences_s = [task.silent_s for task in self.tasks if task.state.is_restoring]
        if silences_s:
            return min(max(_SHORTEST_POLL_S, min(silences_s) / 10), _READING_POLL_S)
        return _READING_POLL_S if self._owned.awaits_assignment else IDLE_POLL_S

    def _only_gathers(self) -> bool:
        """Say whether nothing can be done before the next round is due, whatever is read until then."""
        is_idle = self._rounds.is_starved or self._worked or bool(self._owned.new) or self._ports.is_cut_off()
        return not is_idle and any(map(_has_records, self.tasks)) and all(t.state is TaskState.LIVE for t in self.tasks)

    def _poll_records(self) -> int:
        """Return how many records the worker takes from the client at once."""
        return max(POLL_RECORDS, min(TASK_RECORDS * len(self.tasks), TRANSACTION.records))

    def _poll(self, timeout_s: float) -> None:
        try:
            found = self._ports.source.poll(self._poll_records(), timeout_s)
        except OffsetGoneError as error:
            self._lose(error)
            return
        for fetched in found:
            if self._owned.take(fetched):
                self._rounds.is_starved = False

    def _lose(self, error: OffsetGoneError) -> None:
        """Restore a task whose next input was deleted; the restore finds the remaining inputs, or parks the task.

        Raises:
            FencedError: A newer worker has our name.
            UnknownOutcomeError: The broker did not answer in time.
        """
        task = self._owned.of(TopicPartition(*error.partition))
        if task is None:
            raise error
        self._rounds.finish()
        if not self._owned.owns(task):
            return  # it is restored anyway
        if task.state is TaskState.LIVE:
            self._rounds.save([task])  # the inputs of its unsaved work may have been deleted, too
        self._owned.renew(task.number)

    # Progress, and the end ------------------------------------------------------------------------------------------

    def _trim(self) -> None:
        """Take one step towards deleting the progress that a task no longer needs; no transaction is open now."""
        task = next((task for task in self.tasks if task.trimmer.is_busy), None)
        if task is None:
            return
        try:
            offset = task.trimmer.step()
        except ArebaError as problem:
            self._observer.emit(events.TrimFailed(task.number, str(problem)))
        else:
            if offset is not None:
                self._observer.emit(events.Trimmed(task.number, offset))

    def _close(self) -> None:
        self._is_closing = True
        self._owned.close()
        for close in (self._ports.source.close, self._ports.transaction.close):
            try:
                close()
            except Exception:  # noqa: BLE001  (the first error must reach the caller)
                self._observer.emit(events.ClosingFailed())
