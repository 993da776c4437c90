"""From snapshots and progress to a live task: a single path, no matter how the last owner ended.

Progress alone says how far a task is. Its acts `snapshot` name the snapshots that are whole. A restore loads the newest
of them that can be read, reads progress from its commit record to the end, reads the inputs again along the recorded
ranges, processes them without publishing anything, and compares the digest after every commit record. The result is the
state that the last owner had when it committed. Without a snapshot, all of this begins at the first offset.

`Restore.run` is that sequence. It never waits: it yields to its caller whenever nothing has come, and whenever the
caller has something to do.
"""

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from enum import Enum, auto
from typing import TypeAlias, TypeVar

from stream_app.backends.base import Clock, TopicPartition, Watermarks
from stream_app.config import TaskSettings
from stream_app.errors import ErrorCode, StateError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.live.breaker import Breaker
from stream_app.live.buffers import WaitingRecords
from stream_app.live.live_task import LiveTask
from stream_app.live.position import Anchor, CommitPoint, first_position
from stream_app.live.restored_state import RestoredState, Unrecorded
from stream_app.live.snapshot_writer import SnapshotWriter
from stream_app.live.task_request import TaskRequest
from stream_app.lost_markers.repair import Repair, repair_of
from stream_app.pipeline.task import Task
from stream_app.progress_records import CONFIGURATION, Act, Commit
from stream_app.recovery.changelog import Loaded
from stream_app.recovery.changelog import load as load_snapshot
from stream_app.recovery.progress_script import ProgressScript, Script
from stream_app.recovery.refusals import HINT_SKIP
from stream_app.recovery.reprocessing import Reprocessing
from stream_app.recovery.restore_request import Deadline, Logs, RestoreReport, Times
from stream_app.snapshot.parts import whole_acts
from stream_app.task_state import TaskState

OPEN_TRANSACTION_S = 25.0
"""How long a transaction that a dead worker left open hides the end of the changelog: `transaction.timeout.ms`, and ten
seconds until the broker notices."""


_READS_SNAPSHOT = "a snapshot was being read"
"""What a restore does while it is silent; part of an error."""


class Pause(Enum):
    """Why a restore yields to its caller.

    WORKED: The restore did some work and can continue at once.
    WAITING: Nothing has come; in the state REPROCESSING, the caller adds input records to `waiting`.
    INPUTS: The caller has to start reading the inputs at the offsets of `position`.
    """

    WORKED = auto()
    WAITING = auto()
    INPUTS = auto()


Found = TypeVar("Found")

RestoreSteps: TypeAlias = Generator[Pause | Repair, Sequence[int] | None, LiveTask]


class Restore:
    """A restore of one task. `run` is the whole sequence; the attributes say how far it has come.

    Args:
        request: The task.
        logs: The task's own topics.
        breaker: Decides which streams are stopped.
        clock: A monotonic clock, for the deadline and for the cost of processing.
        times: Bounds of the restore.

    Attributes:
        state: ASSIGNED before `run` has begun; then LOADING, READING or REPROCESSING.
        position: Where the state is now.
        report: What the restore found and did.
        waiting: Input records (examples, labels) that the caller fetched and that are not processed yet.
        script: The records of progress that are still to be processed again.
        deadline: The longest silence; the caller restarts it after a time in which it could not poll.
    """

    def __init__(self, request: TaskRequest, logs: Logs, breaker: Breaker, clock: Clock, times: Times) -> None:
        self.request = request
        self.state = TaskState.ASSIGNED
        self.position = first_position(request.first)
        self.report = RestoreReport(request.first)
        self.waiting = (WaitingRecords(), WaitingRecords())
        self.script = Script()
        self.deadline = Deadline(clock, times.deadline_s, request.number)
        self._logs = logs
        self._breaker = breaker
        self._clock = clock
        self._times = times
        self._state_bytes: Callable[[], int] = int

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of the state that was restored so far."""
        return self._state_bytes()

    def lacks(self, side: int) -> bool:
        """Say whether the next recorded range needs more records of an input (0 examples, 1 labels) than wait."""
        if self.state is not TaskState.REPROCESSING or not self.script:
            return False
        head = self.script[0].record
        if isinstance(head, Act):
            return False
        start, end = ((head.examples_start, head.examples_end), (head.labels_start, head.labels_end))[side]
        return start < end and self.waiting[side].fetched_to < end

    def run(self) -> RestoreSteps:
        """Restore the task.

        Yields:
            A pause, after which the caller continues; or a repair, which the caller commits in one transaction before
            it sends back the offsets at which the records of progress were written.

        Returns:
            The live task.

        Raises:
            StateError: The state cannot be restored, or nothing has come for too long.
            ForeignRecordsError: Another application writes to the output topics.
            ConfigurationError: The configuration changed in a way that a task with state cannot take over.
        """
        self.state = TaskState.LOADING
        loaded = yield from self._load()
        snapshots = SnapshotWriter(self.request.number, self._times.snapshots, loaded.kept, self._clock.monotonic_s)
        self._move_to(loaded)
        yield self._enter(TaskState.READING)
        facts = (self.position, self.report, self.script, loaded.has_unused_snapshot)
        with closing(ProgressScript(self.request, self._logs, *facts)) as progress:
            while not (progress.is_whole or progress.is_full):
                yield self._worked() if progress.read_more() else self._silent(progress.state)
            progress.check_gap()
            if progress.first is not None:
                snapshots.recorded(progress.first[0], self._clock.monotonic_s(), progress.first[1])

            first = None if loaded.task else next(whole_acts(recorded.record for recorded in self.script), None)
            task = loaded.task or self._new_task(first)
            state = RestoredState(task, self.position, self.waiting, self._breaker, snapshots)
            self._state_bytes = lambda: task.allocated_bytes
            yield self._enter(TaskState.REPROCESSING)
            if self._logs.input_ends is not None:
                self._check_inputs(
                    (yield from self._read(self._logs.input_ends(), "the ends of the inputs were asked for"))
                )
            yield Pause.INPUTS

            engine = loaded.manifest.engine if loaded.manifest else "unknown"
            reprocessing = Reprocessing(self.request, state, self._clock, self.report, engine)
            progress.is_reprocessing = True
            while self.script or not progress.is_whole:
                if progress.wants_more:  # a script too long to hold at once is read while it is processed
                    if progress.read_more():
                        self.deadline.restart()
                    progress.check_gap()
                if self.script and reprocessing.next(self.script, progress.settled.missing):
                    yield self._worked()
                elif self.script or not progress.is_whole:
                    yield self._silent(f"inputs were re-read up to {reprocessing.fetched_to}, {progress.next_goal}")

        is_new = loaded.task is None and first is None
        live = LiveTask(
            self.request,
            state,
            self._clock,
            Unrecorded(is_new, *progress.newest, progress.settled.foreign),
        )
        sequence, ids = self.position.point.sequence, self.request.identity.output_ids
        repair = repair_of(progress.settled, reprocessing.kept, sequence, ids)
        if repair is not None:
            self._note_repaired(repair, (yield repair) or ())
        self.report.changes = live.start()
        return live

    # Steps ------------------------------------------------------------------------------------------------------------

    def _load(self) -> Generator[Pause, Sequence[int] | None, Loaded]:
        """Load the newest snapshot that is whole, of those that progress names."""
        number = self.request.number
        named = yield from self._read(self._logs.snapshots(), _READS_SNAPSHOT)
        until_s = self._clock.monotonic_s() + min(OPEN_TRANSACTION_S, self._times.deadline_s / 2)
        with closing(self._logs.changelog()) as reader:
            steps = load_snapshot(
                reader, named, number, self.request.topics, lambda: self._clock.monotonic_s() < until_s
            )
            return (yield from self._read(steps, _READS_SNAPSHOT))

    def _read(self, steps: Generator[bool, None, Found], what: str) -> Generator[Pause, Sequence[int] | None, Found]:
        """Read in steps that say whether they had news, and return what was found; `what` is part of an error."""
        while True:
            try:
                has_news = next(steps)
            except StopIteration as done:
                found: Found = done.value
                return found
            yield self._worked() if has_news else self._silent(what)

    def _move_to(self, loaded: Loaded) -> None:
        """Begin at the commit record after which the loaded snapshot was taken."""
        self.report.damage.extend(loaded.damage)
        if loaded.snapshot is None or loaded.manifest is None or loaded.task is None:
            return
        manifest, task = loaded.manifest, loaded.task
        position = self.position
        position.anchor = Anchor(
            manifest.sequence, bytes.fromhex(manifest.digest), manifest.offsets, loaded.snapshot.progress_offset
        )
        position.point = position.anchor.point
        position.offsets = manifest.offsets
        self.report.loaded_sequence = manifest.sequence
        self.report.goal = manifest.offsets  # until progress shows a later commit
        self._breaker.load(manifest.malformed)
        self._state_bytes = lambda: task.allocated_bytes

    def _new_task(self, first: Commit | Act | None) -> Task:
        """Return a task without state, under the first configuration of progress, and begin where it began."""
        settings = self.request.settings
        if isinstance(first, Act) and first.kind == CONFIGURATION:
            settings = TaskSettings.from_json(first.text)
        elif first is not None:
            raise StateError(
                f"progress[{self.request.number}] sequence {first.sequence}: no complete configuration precedes it"
            )
        begin = next((recorded.record for recorded in self.script if isinstance(recorded.record, Commit)), None)
        if begin is not None:
            self.position.offsets = (begin.examples_start, begin.labels_start)
        return Task(self.request.number, settings, self.request.topics, secrets.token_bytes(HASH_KEY_BYTES))

    def _check_inputs(self, ends: Mapping[TopicPartition, Watermarks]) -> None:
        """Refuse inputs that do not hold what the task needs.

        Raises:
            StateError: Records that are needed were deleted, or an input ends before the last commit.
        """
        for partition, offset, goal in zip(self.request.inputs, self.position.offsets, self.report.goal, strict=True):
            place = f"{partition.topic}[{partition.partition}]"
            low, high = ends[partition]
            if offset < low:
                raise StateError(
                    f"{place} starts at offset {low}, but offset {offset} is needed to restore the task; it was "
                    f"deleted (retention). {HINT_SKIP}",
                    ErrorCode.INPUTS_DELETED,
                )
            if goal > high:
                raise StateError(
                    f"{place} ends at offset {high}, but the task has read up to offset {goal}: this "
                    "is another topic. Use another application.id to start from the beginning",
                    ErrorCode.INPUTS_REPLACED,
                )

    def _note_repaired(self, repair: Repair, progress_offsets: Sequence[int]) -> None:
        """Move the position to the act `repair`, whose transaction was committed."""
        position = self.position
        for record, offset in zip(repair.progress, progress_offsets, strict=True):
            if record.sequence == position.anchor.sequence:
                position.anchor = position.anchor._replace(progress_offset=offset)
        position.point = CommitPoint(repair.progress[-1].sequence, position.point.digest)

    # Pauses -----------------------------------------------------------------------------------------------------------

    def _enter(self, state: TaskState) -> Pause:
        self.state = state
        return self._worked()

    def _worked(self) -> Pause:
        self.deadline.restart()
        return Pause.WORKED

    def _silent(self, state: str) -> Pause:
        """Check the deadline.

        Raises:
            StateError: Nothing has come for too long.
        """
        self.deadline.check(state)
        return Pause.WAITING
