"""The shell around the tasks: assign, restore, poll, step, commit, revoke, stop. One thread, one loop.

A round carries one batch of every live task that has data: the batches are computed first, then one transaction takes
outputs, progress records and input offsets together. Partitions are given away only between rounds (the group's
callbacks run inside `poll`), so a revoke never meets an open transaction.

After an aborted transaction the state of its tasks is thrown away and restored; after an unknown outcome the process
starts again. Both take the path that `kill -9` takes.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_app import codec, order
from stream_app.breaker import Breaker
from stream_app.config import Config, TaskSettings
from stream_app.errors import FencedAgainError, FencedError, StateError, TopicError, TransactionAbortedError
from stream_app.observe import Observer
from stream_app.ports import Clock, Cluster, Committed, LogReader, Source, TopicPartition, Transaction
from stream_app.records import OutputRecords
from stream_app.restore import Batch, OwnedTask, Stage, committed_point
from stream_app.task import OUTPUT_TOPICS

RESTORE_SLICE_S = 1.0
"""Longest work between two polls while restoring, but for a single recorded batch."""

STEP_TARGET_S = 0.2
"""Computing of one round per task: a batch is made smaller when records are dear (a large net), for latency and polling."""

IDLE_POLL_S = 0.1
"""Longest wait in a poll: bounds how late a stop is noticed."""

POLL_RECORDS = 10_000
"""Records taken from the client at once: some 10 ms of work."""

FENCE_WINDOW_S = 10.0
"""`transaction.timeout.ms`: fenced so soon after a start, it was not our own transaction that timed out."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as the worker sees it."""

    source: Source
    transaction: Transaction
    cluster: Cluster
    clock: Clock


class Worker:
    """One member of the consumer group.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Told what happens.
    """

    def __init__(self, config: Config, ports: Ports, observer: Observer) -> None:
        self._config = config
        self._settings: TaskSettings = config.task_settings()
        self._ports = ports
        self._observer = observer
        self._topics = config.topics
        self._inputs = (self._topics.examples, self._topics.labels)
        self._tasks: dict[int, OwnedTask] = {}
        self._by_partition: dict[TopicPartition, tuple[OwnedTask, int]] = {}
        self._paused: set[TopicPartition] = set()
        self._generation = 0
        self._cost_s: dict[int, float] = {}
        self._started_s = 0.0
        self._round_s = 0.0

    @property
    def tasks(self) -> Sequence[OwnedTask]:
        """What this worker owns now."""
        return tuple(self._tasks.values())

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Work until asked to stop, then finish the round and leave the group.

        Raises:
            ArebaError: See errors.py for what each means and the exit status.
        """
        self._ports.transaction.initialise()
        self._started_s = self._ports.clock.monotonic_s()
        self._ports.source.subscribe(self._inputs, self._on_assign, self._on_revoke)
        try:
            while not should_stop():
                self.turn()
        except FencedError as error:
            if self._ports.clock.monotonic_s() - self._started_s < FENCE_WINDOW_S:
                raise FencedAgainError(
                    f"fenced {FENCE_WINDOW_S:g} s or less after the start: another worker runs as "
                    f"{self._config.application.instance!r}; give each its own application.instance"
                ) from error
            raise
        finally:
            self._close()

    def turn(self) -> None:
        """One turn of the loop: restore a slice, poll, and commit a round when it is due."""
        restoring = [task for task in self._tasks.values() if task.stage in (Stage.READING, Stage.REPLAYING)]
        for task in restoring:
            self._restore(task)
        for task in self._tasks.values():
            if task.stage is Stage.TRIPPED:
                self._look_for_resume(task)
        busy = any(task.stage is Stage.REPLAYING for task in self._tasks.values())
        self._poll(0.0 if busy and self._can_go_on() else self._wait_s())
        if self._ports.clock.monotonic_s() >= self._round_s:
            self.round()

    # Assignment -----------------------------------------------------------------------------------------------------

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._generation += 1
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
        for number in numbers:
            self._own(number)

    def _on_revoke(self, partitions: Sequence[TopicPartition]) -> None:
        self._generation += 1
        numbers = sorted({partition.partition for partition in partitions})
        self._observer.revoked(numbers)
        for number in numbers:
            self._drop(number)

    def _own(self, number: int) -> None:
        """Start to restore a task of ours."""
        inputs = (TopicPartition(self._inputs[0], number), TopicPartition(self._inputs[1], number))
        committed = self._ports.source.committed(inputs)
        problem = None
        try:
            target = committed_point(inputs, committed)
        except StateError as error:
            target, problem = None, str(error)
        offsets = tuple(
            known.offset if (known := committed.get(partition)) else self._ports.source.watermarks(partition).low
            for partition in inputs
        )
        task = OwnedTask(
            inputs=inputs,
            generation=self._generation,
            settings=self._settings,
            target=target,
            committed=(offsets[0], offsets[1]),
            reader=self._open_progress(number),
            breaker=Breaker(self._config.breaker),
            clock=self._ports.clock,
            deadline_s=self._config.worker.restore_timeout_ms / 1000,
        )
        self._tasks[number] = task
        for side, partition in enumerate(inputs):
            self._by_partition[partition] = (task, side)
        if problem:
            self._park(task, problem)

    def _drop(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is None:
            return
        task.close()
        for partition in task.inputs:
            self._by_partition.pop(partition, None)
            self._paused.discard(partition)

    def _open_progress(self, number: int) -> LogReader:
        return self._ports.cluster.reader(TopicPartition(self._topics.progress, number))

    # Restoring ------------------------------------------------------------------------------------------------------

    def _restore(self, task: OwnedTask) -> None:
        now = self._ports.clock.monotonic_s()
        try:
            if task.stage is Stage.READING:
                if task.read_progress(IDLE_POLL_S):
                    self._start_reading(task)
            elif task.replay(now + RESTORE_SLICE_S):
                if task.stage is Stage.TRIPPED:
                    self._trip(task)
                else:
                    self._observer.restored(task.number, task.point.sequence, task.replayed_records)
        except StateError as error:
            self._park(task, str(error))

    def _look_for_resume(self, task: OwnedTask) -> None:
        try:
            if task.look_for_resume():
                self._observer.resumed(task.number)
                self._start_reading(task)
        except StateError as error:
            self._park(task, str(error))

    def _start_reading(self, task: OwnedTask) -> None:
        for side, partition in enumerate(task.inputs):
            low = self._ports.source.watermarks(partition).low
            if task.offsets[side] < low:
                raise StateError(
                    f"{partition.topic}[{partition.partition}] starts at offset {low}, offset {task.offsets[side]} is "
                    "needed; it was deleted (retention). Use another application.id to start afresh"
                )
        for records in task.waiting:
            records.clear()
        self._paused.difference_update(task.inputs)
        self._ports.source.start_at(dict(zip(task.inputs, task.offsets, strict=True)))

    def _park(self, task: OwnedTask, problem: str) -> None:
        self._ports.source.stop_reading(task.inputs)
        task.park(problem)
        self._observer.parked(task.number, problem)
        if all(other.stage is Stage.PARKED for other in self._tasks.values()):
            raise StateError(problem)

    def _trip(self, task: OwnedTask) -> None:
        self._ports.source.stop_reading(task.inputs)
        for records in task.waiting:
            records.clear()
        self._observer.tripped(task.number, task.problem or "")

    def _can_go_on(self) -> bool:
        """Whether a task that re-processes has records to go on with."""
        return any(
            task.stage is Stage.REPLAYING and (len(task.waiting[0]) or len(task.waiting[1]))
            for task in self._tasks.values()
        )

    # Polling --------------------------------------------------------------------------------------------------------

    def _wait_s(self) -> float:
        if not any(task.stage is Stage.LIVE for task in self._tasks.values()):
            return IDLE_POLL_S
        waiting = any(len(task.waiting[0]) or len(task.waiting[1]) for task in self._tasks.values())
        until_round = self._round_s - self._ports.clock.monotonic_s()
        return max(0.0, min(until_round, IDLE_POLL_S)) if waiting else IDLE_POLL_S

    def _poll(self, timeout_s: float) -> None:
        for fetched in self._ports.source.poll(POLL_RECORDS, timeout_s):
            owned = self._by_partition.get(fetched.partition)
            if owned is None:
                continue
            task, side = owned
            if task.stage not in (Stage.LIVE, Stage.REPLAYING):
                continue
            task.waiting[side].add(fetched)
            if task.waiting[side].bytes > self._config.worker.buffer_bytes and fetched.partition not in self._paused:
                self._ports.source.pause([fetched.partition])
                self._paused.add(fetched.partition)

    def _resume_drained(self) -> None:
        """Fetch again what was paused for its size, once half of it is worked off."""
        drained = [
            partition
            for partition in self._paused
            if self._by_partition[partition][0].waiting[self._by_partition[partition][1]].bytes
            <= self._config.worker.buffer_bytes // 2
        ]
        if drained:
            self._ports.source.resume(drained)
            self._paused.difference_update(drained)

    # Rounds ---------------------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Process and commit what waits, one batch of every live task."""
        batches: list[tuple[OwnedTask, Batch]] = []
        for task in self._tasks.values():
            if task.stage is Stage.LIVE:
                batch = self._step(task)
                if batch is not None:
                    batches.append((task, batch))
        now = self._ports.clock.monotonic_s()
        self._round_s = now + self._config.worker.commit_interval_ms / 1000
        if self._paused:
            self._resume_drained()
        if not batches:
            return
        try:
            self._commit(batches)
        except TransactionAbortedError as error:
            self._observer.aborted(str(error))
            for task, _ in batches:
                self._restart(task)
            return
        for task, batch in batches:
            task.advance(batch, lambda number=task.number: self._open_progress(number))
            self._observer.committed(task.number, batch.offsets, batch.commit.records)
            if task.stage is Stage.TRIPPED:
                self._trip(task)

    def _step(self, task: OwnedTask) -> Batch | None:
        limit = self._limit(task.number)
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
        cost = (self._ports.clock.monotonic_s() - start) / (rows[0] + rows[1])
        self._cost_s[task.number] = max(cost, self._cost_s.get(task.number, 0.0) * 0.9)
        return batch

    def _limit(self, number: int) -> int:
        """Records in a batch: where it is cut changes no result, so the wall clock may decide."""
        cost = self._cost_s.get(number)
        most = self._config.worker.max_batch_records
        return most if not cost else max(1, min(most, int(STEP_TARGET_S / cost)))

    def _commit(self, batches: Sequence[tuple[OwnedTask, Batch]]) -> None:
        transaction = self._ports.transaction
        transaction.begin()
        offsets: dict[TopicPartition, Committed] = {}
        for task, batch in batches:
            if task.generation != self._generation or self._tasks.get(task.number) is not task:
                raise AssertionError("a batch of an older assignment reached a transaction")
            for topic in OUTPUT_TOPICS:
                if len(batch.outputs.topics[topic]):
                    partition = TopicPartition(getattr(self._topics, topic.replace("-", "_")), task.number)
                    transaction.produce(partition, batch.outputs.topics[topic])
            records = [codec.encode(record) for record in (*batch.acts, batch.commit)]
            transaction.produce(
                TopicPartition(self._topics.progress, task.number),
                OutputRecords([None] * len(records), records, [0] * len(records)),
            )
            metadata = batch.point.metadata()
            for partition, offset in zip(task.inputs, batch.offsets, strict=True):
                offsets[partition] = Committed(offset, metadata)
        transaction.send_offsets(offsets, self._ports.source.group_metadata())
        transaction.commit()

    def _restart(self, task: OwnedTask) -> None:
        """Throw a task's state away and restore it, if it is still ours."""
        if self._tasks.get(task.number) is task:
            self._ports.source.stop_reading(task.inputs)
            self._drop(task.number)
            self._own(task.number)

    def _close(self) -> None:
        for task in self._tasks.values():
            task.close()
        for close in (self._ports.source.close, self._ports.transaction.close):
            try:
                close()
            except Exception:  # the first error is the one to report
                logging.getLogger(__name__).warning("closing failed", exc_info=True)
