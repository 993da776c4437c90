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
from functools import partial

from stream_app.backends.base import Ends, LogReader, TopicPartition
from stream_app.backends.partition_count import grown, partitions_of
from stream_app.backends.partitioner import Placement
from stream_app.backends.topics import largest_batch_bytes
from stream_app.config import Config, TaskSettings
from stream_app.errors import (
    ArebaError,
    ErrorCode,
    FencedAgainError,
    FencedError,
    ForeignRecordsError,
    OffsetGoneError,
    OwnCodeError,
    RecordTooLargeError,
    StateError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnstableOffsetsError,
)
from stream_app.pipeline import merge
from stream_app.pipeline.outputs import DEAD_LETTERS, OUTPUT_TOPICS, Outputs
from stream_app.pipeline.transaction_bounds import TRANSACTION, Room
from stream_app.records import Reason
from stream_app.recovery.breaker import Breaker
from stream_app.recovery.commit_point import HINT_SKIP, RestoreTarget, committed_target
from stream_app.recovery.live_task import LiveTask, ProcessedBatch
from stream_app.recovery.output_logs import OutputLogs
from stream_app.recovery.restore import Pause, Repair, Restore
from stream_app.recovery.restore_request import Logs, RestoreRequest, Times, Writer
from stream_app.snapshot.identity import UNKNOWN, Identity
from stream_app.task_state import TaskState
from stream_app.worker.batch_limits import BatchLimits
from stream_app.worker.label_watch import LabelWatch
from stream_app.worker.observer import Observer, last_places
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.progress_trimmer import ProgressTrimmer
from stream_app.worker.round_transaction import Part, RoundTransaction, output_partition
from stream_app.worker.transaction_watch import TransactionWatch

RESTORE_SLICE_S = 1.0
"""Longest work between two polls while restoring, but for a single recorded batch of each task."""

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


MEMORY_INTERVAL_S = 60.0
"""From one look at what the tasks have allocated to the next."""

SAVE_TIMEOUT_S = 10.0
"""Longest that a worker that is to go saves what it has: less than the patience of a group or a supervisor."""

RAISE_LIMIT = "Raise max.message.bytes of this topic to what it was, and start the worker again"

OFFSETS_TIMEOUT_S = 1.0
"""One wait for committed offsets that an open transaction holds; the loop has other tasks to serve."""

MARKER_TIMEOUT_S = 1.0
"""Wait for the markers of a last commit before a task goes: they are written within milliseconds, or lost."""


def _has_records(task: OwnedTask) -> bool:
    return task.state is TaskState.LIVE and bool(len(task.waiting[0]) or len(task.waiting[1]))


class Worker:
    """One member of the consumer group.

    Args:
        config: The whole configuration.
        ports: Source, transaction, cluster and clock.
        observer: Told what happens.
        was_fenced: Whether this process was started again because it had been fenced.
        adopts: Whether records of other writers in the output topics are accepted.
        room: What one transaction takes, of all tasks together.

    Attributes:
        cuts: Batches that took fewer records than were there, for these could have become too much.
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
        self.cuts = 0
        self._room = room
        self._turn = 0
        self._config = config
        self._settings: TaskSettings = config.task_settings()
        self._ports = ports
        self._observer = observer
        self._label_watch = LabelWatch(ports.clock, observer, config.worker.max_unlabelled_share)
        self._was_fenced = was_fenced
        self._topics = config.topics
        self._inputs = (self._topics.examples, self._topics.labels)
        self._tasks: dict[int, OwnedTask] = {}
        self._trimmers: dict[int, ProgressTrimmer] = {}
        self._is_untrimmed = False  # and it was said
        self._writer = Writer(config.transactional_id, adopts)
        self._transaction = RoundTransaction(ports, config.topics, adopts=adopts)
        self._watch = TransactionWatch(config, ports, observer)
        self._limits = BatchLimits(config.worker.max_batch_records)
        self._new: list[int] = []  # assigned, and not yet being restored
        self._by_partition: dict[TopicPartition, tuple[OwnedTask, int]] = {}
        self._paused: set[TopicPartition] = set()
        self._generation = 0
        self._group: object = None
        self._partitions = 0  # and so tasks, in all
        self._topic_ids = UNKNOWN.topic_ids
        self._grown: tuple[str, ...] = ()  # what was said of topics that have grown
        self._placements: dict[int, Placement] = {}
        self._aborts = 0
        self._worked = False  # restoring has more to do at once
        self._starved = False  # no live task can go on without news
        self._lost: FencedError | UnknownOutcomeError | None = None  # met in a callback, to be raised behind it
        self._is_closing = False
        self._started_s = self._begun_s = self._round_s = self._memory_s = 0.0

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
        self._partitions = partitions_of(self._ports.cluster, self._topics)
        self._look_at_topics()
        dead_letters = self._topics.dead_letters
        self._limit_dead_letters(largest_batch_bytes(self._ports.cluster.topics([dead_letters])[dead_letters]))
        self._watch.begin(self._partitions)
        self._ports.source.subscribe(self._inputs, self._on_assign, self._on_revoke, self._partitions)

    def turn(self) -> None:
        """One turn of the loop: poll, restore a slice, and commit a round when it is due."""
        self._poll(self._wait_s())
        if self._lost is not None:
            raise self._lost
        if self._ports.is_cut_off():  # whoever asks waits in vain; the poll tells when that is over
            for task in self.tasks:
                task.be_patient()
            return
        self._watch.look(lambda: self.tasks, self._new, lambda number: self._renew(self._tasks[number]))
        if self._new:
            self._own_new()
        self._worked = self._restore_slice()
        for task in self.tasks:
            if task.state is TaskState.TRIPPED:
                self._look_for_resume(task)
        if self._ports.clock.monotonic_s() >= self._round_s:
            self.round()
            self._label_watch.look(self.tasks)
            self._observer.round_ended(self._ports.silence_s())
        self._trim()
        self._tell_memory()

    def _tell_memory(self) -> None:
        """Once a minute: a task of thousands of streams takes tens of milliseconds to look at."""
        now_s = self._ports.clock.monotonic_s()
        if now_s >= self._memory_s:
            self._memory_s = now_s + MEMORY_INTERVAL_S
            for task in self.tasks:
                self._observer.allocated(task.number, task.allocated_bytes)

    def _limit_dead_letters(self, most_bytes: int) -> None:
        """A setting of the tasks that are owned from now on: those that are live have to be restored under it."""
        self._settings = self._settings.model_copy(update={"dead_letter_bytes": most_bytes})

    def _read_limits(self) -> None:
        """Of a topic that has not taken a record; if it says that it does, what was sent is yet larger than we know."""
        name, before = self._topics.dead_letters, self._settings.dead_letter_bytes
        found = largest_batch_bytes(self._ports.cluster.topics([name])[name])
        self._limit_dead_letters(found if found < before else before // 2)

    def _raise_fenced_again(self, error: FencedError) -> None:
        """Tell a second worker of our name from a transaction that timed out: the latter was open for long."""
        now = self._ports.clock.monotonic_s()
        if self._was_fenced and now - self._begun_s < FENCE_WINDOW_S and now - self._started_s < REFENCE_WINDOW_S:
            raise FencedAgainError(
                f"fenced {now - self._started_s:.0f} s after a start: another worker runs as "
                f"{self._config.application.instance!r}; give each its own application.instance"
            ) from error

    def _observe_stop(self) -> None:
        for task in self.tasks:
            if task.state is TaskState.LIVE:
                with self._observer.step(f"task {task.number}: the digest of its models"):
                    digest = task.live.model_digest()
                self._observer.stopped(task.number, task.point.sequence, digest)

    # Assignment -----------------------------------------------------------------------------------------------------

    def _on_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take note, of the group's generation too: one asked for later may be none, and would not be fenced."""
        self._generation += 1
        self._group = self._ports.source.group_metadata()
        numbers = sorted({partition.partition for partition in partitions})
        self._observer.assigned(numbers)
        self._new = numbers
        self._watch.assigned()

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
        self._watch.revoked()

    def _own_new(self) -> None:
        """Start to restore the new tasks of which nothing is open any more."""
        unannounced = self._watch.unannounced(self._new)
        if unannounced:
            self._begun_s = self._ports.clock.monotonic_s()
            self._watch.announce(unannounced)
            return
        self._watch.end_own(self._new)
        numbers = [number for number in self._new if not self._watch.is_open(number)]
        inputs = {
            number: (TopicPartition(self._inputs[0], number), TopicPartition(self._inputs[1], number))
            for number in numbers
        }
        if not numbers:
            return
        try:
            committed = self._ports.source.committed(
                [partition for pair in inputs.values() for partition in pair], OFFSETS_TIMEOUT_S
            )
        except UnstableOffsetsError:
            self._watch.offsets_are_unstable()
            return
        self._watch.offsets_are_stable()
        self._new = [number for number in self._new if number not in inputs]
        self._look_at_topics()
        problems: dict[int, StateError] = {}
        for number, pair in inputs.items():
            target: RestoreTarget | None = None
            try:
                target = committed_target(pair, committed, self._topic_ids)
            except StateError as error:
                problems[number] = error
            one, two = (
                known.offset if (known := committed.get(partition)) else self._ports.source.watermarks(partition).low
                for partition in pair
            )
            self._own(pair, target, (one, two))
            self._observer.owned(number, (one, two))
        for number, problem in problems.items():
            self._park(self._tasks[number], problem)

    def _look_at_topics(self) -> None:
        """Learn which topics the names stand for now, and whether they have grown."""
        found = self._ports.cluster.topics(self._topics)
        examples, labels = (found[name].topic_id if name in found else "" for name in self._inputs)
        self._topic_ids = (examples, labels)
        lines = grown(found, self._topics, self._partitions)
        if lines != self._grown:
            self._observer.grown(lines)
        self._grown = lines

    def _own(
        self, inputs: tuple[TopicPartition, TopicPartition], target: RestoreTarget | None, committed: tuple[int, int]
    ) -> None:
        number, settings = inputs[0].partition, self._config.worker
        identity = Identity(self._partitions, self._topic_ids)
        restore = Restore(
            RestoreRequest(inputs, self._settings, target, committed, self._writer, identity),
            Logs(
                partial(self._read, self._topics.progress, number),
                partial(self._read, self._topics.changelog, number),
                self._output_logs(number),
            ),
            Breaker(self._config.breaker),
            self._ports.clock,
            Times(settings.restore_timeout_ms / 1000, settings.snapshot_after_ms / 1000),
        )
        task = OwnedTask(restore, self._generation, self._ports.clock)
        progress = TopicPartition(self._topics.progress, number)
        self._trimmers[number] = ProgressTrimmer(self._ports.cluster, self._ports.clock, inputs, progress)
        self._tasks[number] = task
        self._placements[number] = Placement(number, self._partitions)
        for side, partition in enumerate(inputs):
            self._by_partition[partition] = (task, side)

    def _drop(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is None:
            return
        task.close()
        self._trimmers.pop(number).close()
        self._placements.pop(number)
        for partition in task.inputs:
            self._by_partition.pop(partition, None)
            self._paused.discard(partition)

    def _read(self, topic: str, number: int) -> LogReader:
        return self._ports.cluster.reader(TopicPartition(topic, number))

    def _output_logs(self, number: int) -> OutputLogs:
        cluster = self._ports.cluster
        places = {topic: output_partition(self._topics, topic, number) for topic in (*OUTPUT_TOPICS, "progress")}

        def ends() -> dict[str, Ends]:
            found = cluster.ends(list(places.values()))
            return {topic: found[place] for topic, place in places.items()}

        return OutputLogs(
            places,
            ends,
            lambda topic: cluster.watermarks(places[topic]).low,
            lambda topic: cluster.reader(places[topic]),
            lambda: cluster.reader(places["progress"], committed=False),
        )

    # Restoring ------------------------------------------------------------------------------------------------------

    def _restore_slice(self) -> bool:
        """Go on with every task that is restored, in one slice of time for all; whether any got ahead."""
        until_s = self._ports.clock.monotonic_s() + RESTORE_SLICE_S
        worked = False
        for task in self.tasks:
            if task.state.is_restoring:
                worked |= self._restore(task, until_s)
        return worked

    def _restore(self, task: OwnedTask, until_s: float) -> bool:
        got_ahead = False
        try:
            if task.state is TaskState.READING:  # waits for brokers, so it is no step of our own work
                got_ahead, last = task.restore(until_s)
            else:
                with self._observer.step(f"task {task.number}: restoring"):
                    got_ahead, last = task.restore(until_s)
            if task.state.is_restoring:
                reached = task.offsets if task.state is TaskState.REPLAYING else None
                self._observer.restoring(task.number, task.state, reached, task.report.goal)
            if last is Pause.INPUTS:
                for line in task.report.damage:
                    self._observer.damaged(task.number, line)
                self._start_reading(task)
            elif isinstance(last, Repair):
                self._repair(task, last, until_s)
            elif isinstance(last, LiveTask):
                self._begin(task)
        except (StateError, OwnCodeError, ForeignRecordsError) as error:
            if self._is_overtaken(task):
                self._renew(task)
            elif isinstance(error, ForeignRecordsError):
                raise
            else:
                self._park(task, error)
        return got_ahead

    def _begin(self, task: OwnedTask) -> None:
        """Its state is what it was."""
        if task.state is TaskState.TRIPPED:
            self._trip(task)
            return
        self._starved = False
        report = task.report
        self._observer.restored(task.number, task.point.sequence, report.loaded_sequence, report.replayed_records)
        self._observer.changed(task.number, report.changes)

    def _repair(self, task: OwnedTask, repair: Repair, until_s: float) -> None:
        """Publish again what was committed and cannot be read, and end the restore."""
        part = Part(task, repair=repair)
        try:
            self._commit([part])
        except RecordTooLargeError as error:
            problem = f"committed records have to be published again, and do not fit: {error}. {RAISE_LIMIT}"
            self._park(task, StateError(problem, ErrorCode.RECORD_TOO_LARGE))
            return
        except TransactionAbortedError as error:
            self._start_over([task], error)
            return
        self._watch.note_written(part)
        self._observer.repaired(task.number, {topic: len(records) for topic, records in repair.outputs.items()})
        task.restore(until_s, part.progress_offsets)
        self._begin(task)

    def _is_overtaken(self, task: OwnedTask) -> bool:
        """Whether the group committed more of this task since it was given to us.

        Who stood still for long reads the records of the next owner: that is no damage, and the next poll tells us.
        """
        try:
            target = committed_target(task.inputs, self._ports.source.committed(task.inputs, OFFSETS_TIMEOUT_S))
        except UnstableOffsetsError:
            return True
        except StateError:
            return False
        return (target.point if target else None) != task.target

    def _renew(self, task: OwnedTask) -> None:
        """Restore it from its beginning behind the next poll, if it is still ours then."""
        self._ports.source.stop_reading(task.inputs)
        self._drop(task.number)
        self._new.append(task.number)
        self._watch.forget(task.number)

    def _look_for_resume(self, task: OwnedTask) -> None:
        try:
            if task.live.look_for_resume():
                self._observer.resumed(task.number)
                self._start_reading(task)
        except StateError as error:
            self._park(task, error)

    def _start_reading(self, task: OwnedTask) -> None:
        """Fetch the inputs from where the task needs them."""
        for partition, offset, goal in zip(task.inputs, task.offsets, task.report.goal, strict=True):
            place = f"{partition.topic}[{partition.partition}]"
            low, high = self._ports.source.watermarks(partition)
            if offset < low:
                raise StateError(
                    f"{place} starts at offset {low}, offset {offset} is needed to restore the task; it was deleted "
                    f"(retention). {HINT_SKIP}",
                    ErrorCode.INPUTS_DELETED,
                )
            if goal > high:
                raise StateError(
                    f"{place} ends at offset {high}, offset {goal} is committed: the topic is not the one that was "
                    "read. Use another application.id to start from the beginning",
                    ErrorCode.INPUTS_REPLACED,
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
        if task.state is TaskState.LIVE:
            self._save([task])  # what it was made of may be gone, too
        self._renew(task)

    def _park(self, task: OwnedTask, error: StateError | OwnCodeError) -> None:
        problem = error if isinstance(error, StateError) else StateError(str(error), ErrorCode.OWN_CODE_FAILED)
        self._stop_reading(task)
        task.park(problem)
        self._observer.parked(task.number, problem)
        if all(other.state is TaskState.PARKED for other in self._tasks.values()):
            raise problem

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
        if self._ports.is_cut_off():
            return IDLE_POLL_S
        if self._worked:
            return 0.0
        if self._new:
            return READING_POLL_S if not self._watch.unannounced(self._new) else 0.0
        states = {task.state for task in self._tasks.values()}
        longest = IDLE_POLL_S if states.isdisjoint((TaskState.LOADING, TaskState.READING)) else READING_POLL_S
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
            if task.state not in (TaskState.LIVE, TaskState.REPLAYING):
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
        parts: list[Part] = []
        room, cuts = self._room, self.cuts
        for task in self._in_turn():
            if task.state is TaskState.LIVE:
                try:
                    batch = self._step(task, room, must=not any(part.batch for part in parts))
                except OwnCodeError as error:
                    self._park(task, error)
                    continue
                if batch is not None:
                    room = room.less(batch.outputs.records, batch.outputs.bytes)
                if batch is not None or task.writes_snapshot:
                    parts.append(Part(task, batch))
        self._turn += self.cuts > cuts
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

    def _in_turn(self) -> Sequence[OwnedTask]:
        """All tasks; another one first after each transaction that had no room for all."""
        tasks = self.tasks
        first = self._turn % max(1, len(tasks))
        return (*tasks[first:], *tasks[:first])

    def _advance(self, part: Part) -> None:
        """What a committed transaction means for one of its tasks."""
        task, batch = part.task, part.batch
        self._watch.note_written(part)
        live = task.live
        complete = live.advance(batch, part.progress_offsets, self._watch.unread_ends(task.number))
        if complete is not None:
            self._watch.hurry()
            self._observer.saved(task.number, complete)
        if live.needed_progress is not None:
            self._trimmers[task.number].want(live.needed_progress)
        if batch is not None:
            self._observer.committed(task.number, batch.offsets, batch.commit.records)
            if batch.outputs.dead:
                places = last_places(task.number, batch.outputs.topics[DEAD_LETTERS], part.written[DEAD_LETTERS])
                self._observer.dead_letters(task.number, batch.outputs.dead, places)
            self._look_at_places(task.number, batch.outputs)
            if batch.outputs.dropped_traces:
                self._observer.dropped_traces(task.number, batch.outputs.dropped_traces)
        if task.state is TaskState.TRIPPED:
            self._trip(task)

    def _look_at_places(self, number: int, outputs: Outputs) -> None:
        """Whether another partition should have records of this batch."""
        unknown = {
            one.stream: one.records
            for one in outputs.dead
            if one.reason is Reason.UNKNOWN_STREAM and one.stream is not None
        }
        found = self._placements[number].misplaced(outputs.stream_names, outputs.stream_records, unknown)
        if found is not None:
            self._observer.misplaced(number, found)

    def _take_snapshot(self, task: OwnedTask, *, ending: bool = False) -> None:
        try:
            with self._observer.step(f"task {task.number}: a snapshot"):
                size = task.begin_snapshot(ending=ending)
        except OwnCodeError as error:
            self._park(task, error)
            return
        if size is not None:
            self._observer.saving(task.number, task.point.sequence, size)

    def _trim(self) -> None:
        """One look of one task at progress that nobody needs any more; no transaction is open."""
        trimmers = ((number, trimmer) for number, trimmer in self._trimmers.items() if trimmer.is_busy)
        number, trimmer = next(trimmers, (0, None))
        if trimmer is None:
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
        if self._ports.is_cut_off():
            return
        written_s = self._ports.clock.monotonic_s()
        until_s = written_s + SAVE_TIMEOUT_S
        for task in tasks:
            self._take_snapshot(task, ending=True)
        while any(task.is_saving for task in tasks):
            if self._ports.clock.monotonic_s() >= until_s:
                return
            writing = [Part(task) for task in tasks if task.writes_snapshot]
            if not writing:
                if self._ports.clock.monotonic_s() >= written_s + MARKER_TIMEOUT_S:
                    return
                self._watch.wait_for_readers(tasks)
                continue
            try:
                self._commit(writing)
            except TransactionAbortedError as error:
                self._observer.aborted(str(error))
                for task in tasks:
                    self._renew(task)
                return
            for part in writing:
                self._advance(part)
                self._take_snapshot(part.task, ending=True)
            written_s = self._ports.clock.monotonic_s()

    def _step(self, task: OwnedTask, room: Room, *, must: bool) -> ProcessedBatch | None:
        limit = self._limits.limit(task.number)
        examples, labels = task.waiting
        rows = merge.cut(
            examples.times(limit),
            labels.times(limit),
            examples_at_end=examples.at_end and len(examples) <= limit,
            labels_at_end=labels.at_end and len(labels) <= limit,
            limit=limit,
        )
        if not rows[0] and not rows[1]:
            return None
        start = self._ports.clock.monotonic_s()
        with self._observer.step(f"task {task.number}: a batch of {rows[0]} examples and {rows[1]} labels"):
            batch = task.live.step(rows, room, must=must)
        taken = batch.inputs if batch is not None else 0
        if taken == sum(rows):
            self._limits.learn(task.number, taken, self._ports.clock.monotonic_s() - start)
            return batch
        self.cuts += 1
        return batch

    def _commit(self, parts: Sequence[Part]) -> None:
        self._begun_s = self._ports.clock.monotonic_s()
        for part in parts:
            if part.task.generation != self._generation or self._tasks.get(part.task.number) is not part.task:
                raise AssertionError("a batch of an older assignment reached a transaction")
        committed = self._transaction.commit(parts, self._group)
        self._turn += committed.is_full
        self._aborts = 0
        self._watch.committed(committed.inputs)

    def _start_over(self, tasks: Sequence[OwnedTask], error: TransactionAbortedError) -> None:
        """Throw away the state of these tasks; they are restored behind the next poll, if they are still ours then."""
        self._observer.aborted(str(error))
        self._aborts += 1
        if self._aborts == MAX_ABORTS_IN_A_ROW:
            raise UnknownOutcomeError(
                f"{self._aborts} transactions in a row were aborted; the last: {error}"
            ) from error
        if isinstance(error, RecordTooLargeError):
            self._read_limits()
            tasks = self.tasks
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
