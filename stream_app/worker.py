"""The shell around the tasks: assign, restore, poll, step, commit, revoke, stop. One thread, one loop.

A round carries one batch of every live task that has data: the batches are computed first, then one transaction takes
outputs, progress records and input offsets together. Partitions are given away only between rounds (the group's
callbacks run inside `poll`), so a revoke never meets an open transaction. The callbacks themselves only take note; what
an assignment asks for is done behind the poll, where an error has one way out.

After an aborted transaction the state of its tasks is thrown away and restored; after an unknown outcome the process
starts again. Both take the path that `kill -9` takes.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from stream_app import codec, order
from stream_app.breaker import Breaker
from stream_app.config import Config, TaskSettings
from stream_app.errors import (
    ArebaError,
    FencedAgainError,
    FencedError,
    OffsetGoneError,
    StateError,
    TopicError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from stream_app.hanging import GroupOffset, OpenTransactions, sweep
from stream_app.observe import Observer
from stream_app.outputs import OUTPUT_TOPICS
from stream_app.ports import Clock, Cluster, Committed, LogReader, Source, TopicPartition, Transaction
from stream_app.records import OutputRecords
from stream_app.restore import WAY_ON, Batch, Logs, OwnedTask, Stage, Target, Times, committed_target
from stream_app.trim import ProgressTrimmer

RESTORE_SLICE_S = 1.0
"""Longest work between two polls while restoring, but for a single recorded batch of each task."""

STEP_TARGET_S = 0.2
"""Computing of one round per task, for latency and polling: dear records (a large net) make smaller batches."""

FIRST_BATCH_RECORDS = 500
"""Of a task whose cost is not known yet: 0.7 s of the largest net in use, 2 ms of a small one; it doubles."""

IDLE_POLL_S = 0.1
"""Longest wait in a poll, which returns at any news: bounds how late a stop is noticed."""

READING_POLL_S = 0.01
"""The same while progress is read: news of that reader does not end a poll."""

SHORTEST_POLL_S = 0.001
"""The client counts in milliseconds: less than one would be none, and the wait a busy loop."""

POLL_RECORDS = 10_000
"""Records taken from the client at once: some 10 ms of work."""

FENCE_WINDOW_S = 10.0
"""`transaction.timeout.ms`: fenced so soon, it was not our own transaction that timed out."""

REFENCE_WINDOW_S = 300.0
"""How long after a restart by fencing the next fencing counts as a second one: two workers of one name fence each other
as fast as they start, and a start takes seconds, on a busy machine a minute."""

MAX_ABORTS_IN_A_ROW = 10
"""Aborts without a commit between them: after so many rebalances in a row it is something else."""


SAVE_TIMEOUT_S = 10.0
"""Longest that a worker that is to go saves what it has: less than the patience of a group or a supervisor."""

RESTORING = (Stage.LOADING, Stage.READING, Stage.REPLAYING)


def _never() -> bool:
    return False


def _has_records(task: OwnedTask) -> bool:
    return task.stage is Stage.LIVE and bool(len(task.waiting[0]) or len(task.waiting[1]))


@dataclass(frozen=True, slots=True)
class _Part:
    """A task's part of a transaction: a batch, or only what belongs to a snapshot."""

    task: OwnedTask
    batch: Batch | None
    progress_offsets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as the worker sees it. `is_cut_off` tells whether no broker could be reached when last heard of."""

    source: Source
    transaction: Transaction
    cluster: Cluster
    clock: Clock
    is_cut_off: Callable[[], bool] = _never


class Worker:
    """One member of the consumer group.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Told what happens.
        was_fenced: Whether this process was started afresh because it had been fenced.
    """

    def __init__(self, config: Config, ports: Ports, observer: Observer, *, was_fenced: bool = False) -> None:
        self._config = config
        self._settings: TaskSettings = config.task_settings()
        self._ports = ports
        self._observer = observer
        self._was_fenced = was_fenced
        self._topics = config.topics
        self._inputs = (self._topics.examples, self._topics.labels)
        self._tasks: dict[int, OwnedTask] = {}
        self._trimmers: dict[int, ProgressTrimmer] = {}
        self._is_untrimmed = False  # and it was said
        self._still_open = OpenTransactions(ports.cluster, ports.clock)
        self._held: set[int] = set()  # tasks that wait for what hangs
        self._new: list[int] = []  # assigned, to be restored behind the poll
        self._by_partition: dict[TopicPartition, tuple[OwnedTask, int]] = {}
        self._paused: set[TopicPartition] = set()
        self._generation = 0
        self._group: object = None
        self._limits: dict[int, int] = {}
        self._aborts = 0
        self._worked = False  # restoring has more to do at once
        self._starved = False  # no live task can go on without news
        self._lost: FencedError | UnknownOutcomeError | None = None  # met in a callback, to be raised behind it
        self._is_closing = False
        self._started_s = self._begun_s = self._round_s = 0.0

    @property
    def tasks(self) -> Sequence[OwnedTask]:
        """What this worker owns now."""
        return tuple(self._tasks.values())

    @property
    def aborts(self) -> int:
        """Transactions in a row that were aborted; 0 once one is committed."""
        return self._aborts

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Work until asked to stop, then finish the round and leave the group.

        Raises:
            ArebaError: See errors.py for what each means and the exit status.
        """
        try:
            self.start()
            while not should_stop():
                self.turn()
            self._save(self.tasks)
            self._observe_stop()
        except FencedError as error:
            self._raise_fenced_again(error)
            raise
        finally:
            self._close()

    def start(self) -> None:
        """Fence the process before this one, end what it left, and join the group. `run` does so."""
        self._started_s = self._begun_s = self._ports.clock.monotonic_s()
        self._ports.transaction.initialise()
        topics = self._ports.cluster.topics(self._written).values()
        self._still_open.add(TopicPartition(one.name, number) for one in topics for number in range(one.partitions))
        self._still_open.look()
        self._sweep(self._still_open.places)
        self._ports.source.subscribe(self._inputs, self._on_assign, self._on_revoke)

    def turn(self) -> None:
        """One turn of the loop: poll, restore a slice, and commit a round when it is due."""
        self._poll(self._wait_s())
        if self._lost is not None:
            raise self._lost
        if self._new:
            self._own_new()
        self._worked = self._restore_slice()
        self._look_at_open()
        for task in self.tasks:
            if task.stage is Stage.TRIPPED:
                self._look_for_resume(task)
        if self._ports.clock.monotonic_s() >= self._round_s:
            self.round()
        self._trim()

    @property
    def _written(self) -> Sequence[str]:
        """The topics that a transaction of ours may write to."""
        return self._topics[len(self._inputs) :]

    def _look_at_open(self) -> None:
        """What was open where we are to commit has to end; what does not end hangs, and is ended if it is ours."""
        if not self._still_open.places or self._ports.is_cut_off():
            return
        before = len(self._still_open.places)
        hanging = self._still_open.look()
        if hanging:
            self._held |= {place.partition for place in hanging}
            self._observer.hanging(hanging)
            self._sweep(hanging)
        if len(self._still_open.places) < before:
            self._starved = False
            freed = {number for number in self._held if not self._still_open.holds(number)}
            self._held -= freed
            self._observer.freed(sorted(freed))

    def _sweep(self, places: Sequence[TopicPartition]) -> None:
        """Its offset may be one of no member: nothing of it is ever committed."""
        mark = GroupOffset(TopicPartition(self._topics.progress, 0), self._ports.source.group_metadata())
        sweep(self._ports.transaction, places, mark)
        self._still_open.add(places)

    def _wait_for_end_of(self, tasks: Sequence[OwnedTask]) -> None:
        """Of a transaction of ours with these in it, which was aborted."""
        self._still_open.add(TopicPartition(topic, task.number) for topic in self._written for task in tasks)

    def _raise_fenced_again(self, error: FencedError) -> None:
        """Tell a second worker of our name from a transaction that timed out: the latter was open for long."""
        now = self._ports.clock.monotonic_s()
        window_s = REFENCE_WINDOW_S if self._was_fenced else FENCE_WINDOW_S
        if now - self._begun_s < FENCE_WINDOW_S and now - self._started_s < window_s:
            raise FencedAgainError(
                f"fenced {now - self._started_s:.0f} s after a start: another worker runs as "
                f"{self._config.application.instance!r}; give each its own application.instance"
            ) from error

    def _observe_stop(self) -> None:
        for task in self.tasks:
            if task.stage is Stage.LIVE:
                self._observer.stopped(task.number, task.point.sequence, task.model_digest())

    # Assignment -----------------------------------------------------------------------------------------------------

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take note, of the group's generation too: one asked for later may be none, and would not be fenced."""
        self._generation += 1
        self._group = self._ports.source.group_metadata()
        numbers = sorted({partition.partition for partition in partitions})
        missing = [
            TopicPartition(topic, number)
            for number in numbers
            for topic in self._inputs
            if TopicPartition(topic, number) not in partitions
        ]
        if missing:
            raise TopicError(
                [f"{topic}[{number}] was assigned to another worker than its twin" for topic, number in missing]
            )
        self._observer.assigned(numbers)
        self._new = numbers

    def _on_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Save what these have, while the group still takes it from us, and let them go."""
        numbers = sorted({partition.partition for partition in partitions})
        if not self._is_closing and self._lost is None:
            try:
                self._save([self._tasks[number] for number in numbers if number in self._tasks])
            except (FencedError, UnknownOutcomeError) as error:  # a callback is no place to raise
                self._lost = error
        self._generation += 1
        self._new = []
        self._observer.revoked(numbers)
        for number in numbers:
            self._drop(number)

    def _own_new(self) -> None:
        """Start to restore the tasks that are new."""
        numbers, self._new = self._new, []
        inputs = {
            number: (TopicPartition(self._inputs[0], number), TopicPartition(self._inputs[1], number))
            for number in numbers
        }
        committed = self._ports.source.committed([partition for pair in inputs.values() for partition in pair])
        problems: dict[int, str] = {}
        for number, pair in inputs.items():
            target: Target | None = None
            try:
                target = committed_target(pair, committed)
            except StateError as error:
                problems[number] = str(error)
            one, two = (
                known.offset if (known := committed.get(partition)) else self._ports.source.watermarks(partition).low
                for partition in pair
            )
            self._own(pair, target, (one, two))
            self._observer.owned(number, (one, two))
        for number, problem in problems.items():
            self._park(self._tasks[number], problem)

    def _own(
        self, inputs: tuple[TopicPartition, TopicPartition], target: Target | None, committed: tuple[int, int]
    ) -> None:
        number, settings = inputs[0].partition, self._config.worker
        task = OwnedTask(
            inputs=inputs,
            generation=self._generation,
            settings=self._settings,
            target=target,
            committed=committed,
            logs=Logs(
                partial(self._read, self._topics.progress, number), partial(self._read, self._topics.changelog, number)
            ),
            breaker=Breaker(self._config.breaker),
            clock=self._ports.clock,
            times=Times(settings.restore_timeout_ms / 1000, settings.snapshot_after_ms / 1000),
        )
        progress = TopicPartition(self._topics.progress, number)
        self._trimmers[number] = ProgressTrimmer(self._ports.cluster, self._ports.clock, inputs, progress)
        self._tasks[number] = task
        for side, partition in enumerate(inputs):
            self._by_partition[partition] = (task, side)

    def _drop(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is None:
            return
        task.close()
        self._trimmers.pop(number).close()
        for partition in task.inputs:
            self._by_partition.pop(partition, None)
            self._paused.discard(partition)

    def _read(self, topic: str, number: int) -> LogReader:
        return self._ports.cluster.reader(TopicPartition(topic, number))

    # Restoring ------------------------------------------------------------------------------------------------------

    def _restore_slice(self) -> bool:
        """Go on with every task that is restored, in one slice of time for all; whether any got ahead."""
        until_s = self._ports.clock.monotonic_s() + RESTORE_SLICE_S
        cut_off = self._ports.is_cut_off()
        worked = False
        for task in self.tasks:
            if task.stage in RESTORING:
                if cut_off:
                    task.be_patient()
                worked |= self._restore(task, until_s)
        return worked

    def _restore(self, task: OwnedTask, until_s: float) -> bool:
        try:
            if task.stage is Stage.LOADING:
                if task.load(until_s):
                    for line in task.damage:
                        self._observer.damaged(task.number, line)
            elif task.stage is Stage.READING:
                if not task.read_progress():
                    return task.got_ahead
                self._start_reading(task)
            elif task.replay(until_s):
                if task.stage is Stage.TRIPPED:
                    self._trip(task)
                else:
                    self._starved = False
                    self._observer.restored(
                        task.number, task.point.sequence, task.loaded_sequence, task.replayed_records
                    )
                    self._observer.changed(task.number, task.taken_over)
            else:
                self._observer.restoring(task.number, task.offsets, task.goal)
        except StateError as error:
            if self._is_overtaken(task):
                self._renew(task)
            else:
                self._park(task, str(error))
        return task.got_ahead

    def _is_overtaken(self, task: OwnedTask) -> bool:
        """Whether the group committed more of this task since it was given to us.

        Who stood still for long reads the records of the next owner: that is no damage, and the next poll tells us.
        """
        try:
            target = committed_target(task.inputs, self._ports.source.committed(task.inputs))
        except StateError:
            return False
        return (target.point if target else None) != task.target

    def _renew(self, task: OwnedTask) -> None:
        """Restore it from its beginning behind the next poll, if it is still ours then."""
        self._ports.source.stop_reading(task.inputs)
        self._drop(task.number)
        self._new.append(task.number)

    def _look_for_resume(self, task: OwnedTask) -> None:
        try:
            if task.look_for_resume():
                self._observer.resumed(task.number)
                self._start_reading(task)
        except StateError as error:
            self._park(task, str(error))

    def _start_reading(self, task: OwnedTask) -> None:
        """Fetch the inputs from where the task needs them."""
        for partition, offset, goal in zip(task.inputs, task.offsets, task.goal, strict=True):
            place = f"{partition.topic}[{partition.partition}]"
            low, high = self._ports.source.watermarks(partition)
            if offset < low:
                raise StateError(
                    f"{place} starts at offset {low}, offset {offset} is needed to restore the task; it was deleted "
                    f"(retention). {WAY_ON}"
                )
            if goal > high:
                raise StateError(
                    f"{place} ends at offset {high}, offset {goal} is committed: the topic is not the one that was "
                    "read. Use another application.id to start afresh"
                )
        for records in task.waiting:
            records.clear()
        self._paused.difference_update(task.inputs)
        self._ports.source.start_at(dict(zip(task.inputs, task.offsets, strict=True)))

    def _lose(self, error: OffsetGoneError) -> None:
        """Retention was faster than a task reads: restoring it tells what is left, and parks it where it must.

        Raises:
            FencedError: A newer worker has our name.
            UnknownOutcomeError: The broker did not answer in time.
        """
        owned = self._by_partition.get(TopicPartition(*error.partition))
        if owned is None:
            raise error
        task, _ = owned
        if task.stage is Stage.LIVE:
            self._save([task])  # what it was made of may be gone, too
        self._renew(task)

    def _park(self, task: OwnedTask, problem: str) -> None:
        self._stop_reading(task)
        task.park(problem)
        self._observer.parked(task.number, problem)
        if all(other.stage is Stage.PARKED for other in self._tasks.values()):
            raise StateError(problem)

    def _trip(self, task: OwnedTask) -> None:
        self._stop_reading(task)
        self._observer.tripped(task.number, task.problem or "")

    def _stop_reading(self, task: OwnedTask) -> None:
        self._ports.source.stop_reading(task.inputs)
        self._paused.difference_update(task.inputs)
        for records in task.waiting:
            records.clear()

    # Polling --------------------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        """How long a poll may wait for news: until there is something to do without any."""
        if self._worked or self._new:
            return 0.0
        stages = {task.stage for task in self._tasks.values()}
        longest = IDLE_POLL_S if stages.isdisjoint((Stage.LOADING, Stage.READING)) else READING_POLL_S
        saves = any(task.writes_snapshot for task in self._tasks.values())
        if not saves and (self._starved or not any(map(_has_records, self._tasks.values()))):
            return longest
        left_s = min(self._round_s - self._ports.clock.monotonic_s(), longest)
        return max(SHORTEST_POLL_S, left_s) if left_s > 0 else 0.0

    def _poll(self, timeout_s: float) -> None:
        try:
            found = self._ports.source.poll(POLL_RECORDS, timeout_s)
        except OffsetGoneError as error:
            self._lose(error)
            return
        for fetched in found:
            owned = self._by_partition.get(fetched.partition)
            if owned is None:
                continue
            task, side = owned
            if task.stage not in (Stage.LIVE, Stage.REPLAYING):
                continue
            self._starved = False
            task.add(side, fetched)
            if fetched.partition not in self._paused and self._is_full(fetched.partition, 1):
                self._ports.source.pause([fetched.partition])
                self._paused.add(fetched.partition)

    def _is_full(self, partition: TopicPartition, share: int) -> bool:
        """Whether more than this part (1/share) of the buffer is used; a recorded range is fetched whole, though."""
        task, side = self._by_partition[partition]
        return task.waiting[side].bytes > self._config.worker.buffer_bytes // share and not task.lacks(side)

    def _resume_drained(self) -> None:
        """Fetch again what was paused for its size, once half of it is worked off."""
        drained = [partition for partition in self._paused if not self._is_full(partition, 2)]
        if drained:
            self._ports.source.resume(drained)
            self._paused.difference_update(drained)

    # Rounds ---------------------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Process and commit what waits, one batch of every live task."""
        parts: list[_Part] = []
        for task in self.tasks:
            if task.stage is Stage.LIVE and not self._still_open.holds(task.number):
                batch = self._step(task)
                if batch is not None or task.writes_snapshot:
                    parts.append(_Part(task, batch))
        now = self._ports.clock.monotonic_s()
        self._round_s = now + self._config.worker.commit_interval_ms / 1000
        if self._paused:
            self._resume_drained()
        self._starved = not any(part.batch for part in parts)
        if not parts:
            return
        try:
            self._commit(parts)
        except TransactionAbortedError as error:
            self._start_over([part.task for part in parts], error)
            return
        for part in parts:
            self._advance(part)
            self._take_snapshot(part.task)

    def _advance(self, part: _Part) -> None:
        """What a committed transaction means for one of its tasks."""
        task, batch = part.task, part.batch
        complete = task.advance(batch, part.progress_offsets)
        if complete is not None:
            self._observer.saved(task.number, complete)
        if task.needed_progress is not None:
            self._trimmers[task.number].want(task.needed_progress)
        if batch is not None:
            self._observer.committed(task.number, batch.offsets, batch.commit.records)
        if task.stage is Stage.TRIPPED:
            self._trip(task)

    def _take_snapshot(self, task: OwnedTask, *, ending: bool = False) -> None:
        size = task.begin_snapshot(ending=ending)
        if size is not None:
            self._observer.saving(task.number, task.point.sequence, size)

    def _trim(self) -> None:
        """One look of one task at progress that nobody needs any more; no transaction is open."""
        trimmers = ((number, trimmer) for number, trimmer in self._trimmers.items() if trimmer.is_busy)
        number, trimmer = next(trimmers, (0, None))
        if trimmer is None or self._ports.is_cut_off():
            return
        try:
            offset = trimmer.step()
        except ArebaError as problem:
            if not self._is_untrimmed:
                self._observer.untrimmed(number, str(problem))
            self._is_untrimmed = True
        else:
            if offset is not None:
                self._is_untrimmed = False
                self._observer.trimmed(number, offset)

    def _save(self, tasks: Sequence[OwnedTask]) -> None:
        """Snapshots of all that these have processed, before they go; given up where it takes too long, or aborts.

        Raises:
            FencedError: A newer worker has our name.
            UnknownOutcomeError: The broker did not answer in time.
        """
        until_s = self._ports.clock.monotonic_s() + SAVE_TIMEOUT_S
        tasks = [task for task in tasks if not self._still_open.holds(task.number)]
        for task in tasks:
            self._take_snapshot(task, ending=True)
        while writing := [_Part(task, None) for task in tasks if task.writes_snapshot]:
            if self._ports.clock.monotonic_s() >= until_s:
                return
            try:
                self._commit(writing)
            except TransactionAbortedError as error:
                self._observer.aborted(str(error))
                self._wait_for_end_of(tasks)
                return
            for part in writing:
                self._advance(part)
                self._take_snapshot(part.task, ending=True)

    def _step(self, task: OwnedTask) -> Batch | None:
        limit = self._limits.get(task.number, min(FIRST_BATCH_RECORDS, self._config.worker.max_batch_records))
        examples, labels = task.waiting
        rows = order.cut(
            examples.times(limit),
            labels.times(limit),
            examples_at_end=examples.at_end and len(examples) <= limit,
            labels_at_end=labels.at_end and len(labels) <= limit,
            limit=limit,
        )
        if not rows[0] and not rows[1]:
            return None
        start = self._ports.clock.monotonic_s()
        batch = task.step(rows)
        self._learn_limit(task.number, limit, sum(rows), self._ports.clock.monotonic_s() - start)
        return batch

    def _learn_limit(self, number: int, limit: int, rows: int, seconds: float) -> None:
        """Records in the next batch. Where it is cut changes no result, so the wall clock may decide."""
        if seconds > STEP_TARGET_S:
            limit = max(1, int(rows * STEP_TARGET_S / seconds))
        elif rows == limit and seconds < STEP_TARGET_S / 2:
            limit = min(2 * limit, self._config.worker.max_batch_records)
        self._limits[number] = limit

    def _commit(self, parts: Sequence[_Part]) -> None:
        transaction = self._ports.transaction
        self._begun_s = self._ports.clock.monotonic_s()
        transaction.begin()
        offsets: dict[TopicPartition, Committed] = {}
        for part in parts:
            task, batch = part.task, part.batch
            if task.generation != self._generation or self._tasks.get(task.number) is not task:
                raise AssertionError("a batch of an older assignment reached a transaction")
            if batch is not None:
                self._produce(batch, part)
            chunks = task.snapshot_records()
            if len(chunks):
                changelog = TopicPartition(self._topics.changelog, task.number)
                transaction.produce(changelog, chunks, task.snapshot_offsets)
            metadata = task.metadata(batch)
            ends = batch.offsets if batch else task.offsets
            for partition, offset in zip(task.inputs, ends, strict=True):
                offsets[partition] = Committed(offset, metadata)
        transaction.send_offsets(offsets, self._group)
        transaction.commit()
        self._aborts = 0

    def _produce(self, batch: Batch, part: _Part) -> None:
        number = part.task.number
        for topic in OUTPUT_TOPICS:
            if len(batch.outputs.topics[topic]):
                partition = TopicPartition(getattr(self._topics, topic.replace("-", "_")), number)
                self._ports.transaction.produce(partition, batch.outputs.topics[topic])
        records = [*map(codec.encode, batch.acts), codec.encode(batch.commit)]
        self._ports.transaction.produce(
            TopicPartition(self._topics.progress, number),
            OutputRecords([None] * len(records), records, [0] * len(records)),
            part.progress_offsets,
        )

    def _start_over(self, tasks: Sequence[OwnedTask], error: TransactionAbortedError) -> None:
        """Throw away the state of these tasks; they are restored behind the next poll, if they are still ours then."""
        self._observer.aborted(str(error))
        self._wait_for_end_of(tasks)
        self._aborts += 1
        if self._aborts == MAX_ABORTS_IN_A_ROW:
            raise UnknownOutcomeError(
                f"{self._aborts} transactions in a row were aborted; the last: {error}"
            ) from error
        for task in tasks:
            self._renew(task)

    def _close(self) -> None:
        self._is_closing = True
        for task in self.tasks:
            task.close()
            self._trimmers[task.number].close()
        for close in (self._ports.source.close, self._ports.transaction.close):
            try:
                close()
            except Exception:  # the first error is the one to report
                logging.getLogger(__name__).warning("closing failed", exc_info=True)
