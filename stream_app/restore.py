"""From committed offsets, snapshots and progress to a live task: the one recovery path, whatever ended the last owner.

The committed offsets of a task carry, as their metadata, the sequence and the digest of the last commit record and the
two newest snapshots. The restorer loads the newest that is whole, reads progress from its commit record to that
sequence, re-reads the inputs along the recorded ranges, re-processes them silently and compares the digest after every
commit record. The result is the state that the last owner had when it committed. Without a snapshot all of this begins
at the first offset.

    LOADING     a snapshot is read
    READING     progress is read until the committed sequence (or as far as memory allows: the rest on the way)
    REPLAYING   inputs are re-processed along the recorded ranges
    LIVE        the task takes new records
    TRIPPED     the breaker stopped it; `areba resume` goes on
    PARKED      it cannot be restored; the others go on
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha256
from typing import NamedTuple

from stream_app import __version__, codec
from stream_app.breaker import Breaker
from stream_app.changelog import Anchor, Loaded, SnapshotWriter
from stream_app.changelog import load as load_snapshot
from stream_app.config import TaskSettings, changes
from stream_app.errors import ConfigurationError, StateError, UndecodableError, WrongSchemaError
from stream_app.gap import Gap, read_gap
from stream_app.inputs import WaitingRecords
from stream_app.outputs import Outputs, chain_digest
from stream_app.ports import Clock, Committed, Fetched, LogReader, TopicPartition, pair
from stream_app.records import CONFIGURATION, RESUME, SKIP, Act, Commit, OutputRecords, Side
from stream_app.state import Snapshot, parse_snapshot
from stream_app.task import Task

GENESIS = bytes(32)
"""The digest before the first commit record."""

METADATA_FORMAT = "2"

READABLE_FORMATS = ("1", METADATA_FORMAT)
"""1 had no snapshots."""

PROGRESS_RECORDS_PER_POLL = 1000
"""Progress records are some hundred bytes; a poll of so many stays well under a second."""

OPEN_TRANSACTION_S = 25.0
"""What a dead worker left open hides the end of the changelog for so long: `transaction.timeout.ms`, and ten seconds
until the broker looks."""

LONGEST_LOOK_S = 5.0
"""From one look at a task that is restored to the next: slices of a second, and what other tasks commit in between."""

SCRIPT_RECORDS = 100_000
"""Progress records that are held at once: some 50 MB, a quarter of an hour of commits; the rest is read on the way."""


WAY_ON = "`areba state skip` goes on without what is gone; another application.id starts afresh"
"""What an operator may do about inputs that are needed and were deleted."""

WAY_BACK = "`areba state recommit` commits them again as progress has them; another application.id starts afresh"
"""What an operator may do about offsets of the group that were lost, or changed from outside."""


def offsets_lost(recorded: int) -> str:
    """What is wrong where progress has a commit record, of this sequence, and the group has no offsets."""
    return (
        f"sequence {recorded} is recorded, but the group has no committed offsets: they were deleted or have expired. "
        f"{WAY_BACK}"
    )


def offsets_reset(recorded: int, committed: int) -> str:
    """What is wrong where the group's offsets name an older commit record than the last one."""
    return f"sequence {recorded} is recorded, {committed} is committed: the group's offsets were reset. {WAY_BACK}"


class Stage(Enum):
    """Where a task is on its way; see the module's docstring."""

    LOADING = auto()
    READING = auto()
    REPLAYING = auto()
    LIVE = auto()
    TRIPPED = auto()
    PARKED = auto()


class Point(NamedTuple):
    """A committed point of a task."""

    sequence: int
    digest: bytes

    def metadata(self, snapshots: Sequence[Snapshot] = ()) -> str:
        """As it stands with the committed offsets; snapshots are those before this point, newest first."""
        return " ".join([METADATA_FORMAT, str(self.sequence), self.digest.hex(), *map(str, snapshots)])


class Target(NamedTuple):
    """What is to be restored, and the snapshots from which that can be done, newest first."""

    point: Point
    snapshots: tuple[Snapshot, ...] = ()


def parse_metadata(text: str, where: str) -> Target:
    """What a committed offset's metadata names.

    Raises:
        StateError: It is none of ours, or of another format.
    """
    fields = text.split()
    try:
        version, sequence, digest, *snapshots = fields
        if version not in READABLE_FORMATS:
            raise StateError(f"{where}: offset metadata has format {version!r}, this version reads {METADATA_FORMAT}")
        return Target(Point(int(sequence), bytes.fromhex(digest)), tuple(map(parse_snapshot, snapshots)))
    except ValueError:
        raise StateError(
            f"{where}: committed offset without our metadata ({text!r}): the group was reset. {WAY_BACK}"
        ) from None


def committed_target(
    inputs: tuple[TopicPartition, TopicPartition], committed: Mapping[TopicPartition, Committed | None]
) -> Target | None:
    """What the group committed for a task; None for a task that never committed.

    Raises:
        StateError: The two partitions tell different stories.
    """
    examples, labels = (committed.get(partition) for partition in inputs)
    where = f"task {inputs[0].partition}"
    if examples is None and labels is None:
        return None
    if examples is None or labels is None or examples.metadata != labels.metadata:
        raise StateError(
            f"{where}: committed offsets of {inputs[0].topic} and {inputs[1].topic} do not belong together. {WAY_BACK}"
        )
    return parse_metadata(examples.metadata, where)


@dataclass(frozen=True, slots=True)
class Batch:
    """A live batch, carried through the stages and ready to be committed.

    `acts` are to be written before `commit`; `offsets` are (examples, labels), processed + 1.
    """

    outputs: Outputs
    acts: tuple[Act, ...]
    commit: Commit
    offsets: tuple[int, int]

    @property
    def point(self) -> Point:
        """Where the task is once this is committed."""
        return Point(self.commit.sequence, self.commit.digest)


class Times(NamedTuple):
    """Bounds of restoring: seconds without progress after which it is given up, and seconds of work that it repeats."""

    deadline_s: float
    snapshot_after_s: float


class _Recorded(NamedTuple):
    """A progress record and its offset."""

    record: Commit | Act
    offset: int


class Logs(NamedTuple):
    """Open readers of a task's own topics, each at its first offset."""

    progress: Callable[[], LogReader]
    changelog: Callable[[], LogReader]


class OwnedTask:
    """A task of this worker, from its assignment on.

    Args:
        inputs: Its partitions of `examples` and `labels`.
        generation: Number of the assignment that gave it to us.
        settings: The configuration in force; restoring runs under the recorded one.
        target: What to restore; None where nothing was ever committed.
        committed: The committed offsets (examples, labels); the first offsets where nothing was committed.
        logs: The task's own topics.
        breaker: Counts malformed records.
        clock: For the deadline, and for what processing costs.
        times: Bounds of restoring.
    """

    def __init__(
        self,
        inputs: tuple[TopicPartition, TopicPartition],
        generation: int,
        settings: TaskSettings,
        target: Target | None,
        committed: tuple[int, int],
        logs: Logs,
        breaker: Breaker,
        clock: Clock,
        times: Times,
    ) -> None:
        self.inputs = inputs
        self.number = inputs[0].partition
        self.generation = generation
        self.stage = Stage.READING if target is None else Stage.LOADING
        self.waiting = (WaitingRecords(), WaitingRecords())
        self.breaker = breaker
        self.offsets = committed
        self.goal = committed
        self.problem: str | None = None
        self.replayed_records = 0
        self.got_ahead = False
        self.task: Task | None = None
        self.damage: list[str] = []
        self.taken_over: tuple[str, ...] = ()
        self._settings = settings
        self._target = target.point if target else None
        self._logs = logs
        self._reader: LogReader | None = None
        self._loading: Generator[bool, None, Loaded] | None = None
        self._loaded = Loaded()
        self._clock = clock
        self._times = times
        self._progress_at = self._looked_at = clock.monotonic_s()
        self._silent_s = 0.0
        self._script: deque[_Recorded] = deque()
        self._read_to = -1
        self._at_end = False
        self._tripped: str | None = None
        self._engine = "unknown"
        self._point = Point(-1, GENESIS)
        self._pending_acts: list[str] = []
        self._misfit: str | None = None
        self._anchor: Anchor | None = None
        self._writer = SnapshotWriter(self.number, times.snapshot_after_s, self._loaded)
        if target is not None:
            self._reader = logs.changelog()
            topics = (inputs[0].topic, inputs[1].topic)
            patient_until_s = clock.monotonic_s() + min(OPEN_TRANSACTION_S, times.deadline_s / 2)
            self._loading = load_snapshot(
                self._reader, target.snapshots, self.number, topics, lambda: clock.monotonic_s() < patient_until_s
            )

    @property
    def loaded_sequence(self) -> int:
        """Of the snapshot that it was restored from; -1: none."""
        return self._loaded.manifest.sequence if self._loaded.manifest else -1

    @property
    def target(self) -> Point | None:
        """The committed point that is restored; None where nothing was ever committed."""
        return self._target

    @property
    def needed_progress(self) -> int | None:
        """The first offset of progress from which it may have to be restored; None: not known."""
        return min((snapshot.progress_offset for snapshot in self._writer.named), default=None)

    @property
    def point(self) -> Point:
        """The last point that was restored or committed."""
        return self._point

    def model_digest(self) -> str:
        """SHA-256 over the state of all models of this task."""
        digests = self._live_task().model_digests()
        return sha256(repr(sorted(digests.items())).encode()).hexdigest()

    def add(self, side: int, fetched: Fetched) -> None:
        """Take fetched records of one side (0 examples, 1 labels)."""
        self.waiting[side].add(fetched)
        self.be_patient()

    def lacks(self, side: int) -> bool:
        """Whether a recorded range needs more records of this side than are waiting, however many these are."""
        if self.stage is not Stage.REPLAYING or not self._script:
            return False
        head = self._script[0].record
        if isinstance(head, Act):
            return False
        start, end = ((head.examples_start, head.examples_end), (head.labels_start, head.labels_end))[side]
        return start < end and self.waiting[side].last_offset < end - 1

    def be_patient(self) -> None:
        """Count the deadline from now on."""
        self._progress_at = self._looked_at = self._clock.monotonic_s()
        self._silent_s = 0.0

    def park(self, problem: str) -> None:
        """Give up; the others go on."""
        self.stage = Stage.PARKED
        self.problem = problem
        self.close()
        for records in self.waiting:
            records.clear()

    def close(self) -> None:
        """Release the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # LOADING --------------------------------------------------------------------------------------------------------

    def load(self, until_s: float) -> bool:
        """Read the snapshot, until this monotonic time; True when it is loaded, or there is none.

        Raises:
            StateError: Nothing comes any more.
        """
        self.got_ahead = False
        if self._loading is None:
            raise AssertionError("a task that loads has something to load")
        while True:
            try:
                has_news = next(self._loading)
            except StopIteration as done:
                self._take_over(done.value)
                self.got_ahead = True
                return True
            if not has_news:
                break
            self.be_patient()
            self.got_ahead = True
            if self._progress_at >= until_s:
                return False
        if not self.got_ahead:
            self._check_deadline("a snapshot was being read")
        return False

    def _take_over(self, loaded: Loaded) -> None:
        self._loading = None
        self._loaded = loaded
        self.damage = loaded.damage
        self._writer = SnapshotWriter(self.number, self._times.snapshot_after_s, loaded)
        self.close()
        self._reader = self._logs.progress()
        if loaded.snapshot and loaded.manifest:
            manifest = loaded.manifest
            self._reader.seek(loaded.snapshot.progress_offset)
            self.task = loaded.task
            self.offsets = manifest.offsets
            self._point = Point(manifest.sequence, bytes.fromhex(manifest.digest))
            self._read_to = manifest.sequence - 1
            self._engine = manifest.engine
            self.breaker.load(manifest.malformed)
        self.stage = Stage.READING
        self.be_patient()

    # READING --------------------------------------------------------------------------------------------------------

    def read_progress(self) -> bool:
        """One slice of reading, without waiting; True when inputs are to be read from `self.offsets` on.

        Raises:
            StateError: Progress and committed offsets do not belong together, or nothing comes any more.
        """
        self._read_more()
        if self._is_whole() or len(self._script) >= SCRIPT_RECORDS:
            self._check_gaps()
            self._start_replay()
            self.got_ahead = True
            return True
        if not self.got_ahead:
            self._check_deadline(
                f"progress was read up to sequence {self._read_to}, "
                f"the committed offsets name {self._target.sequence if self._target else 'none'}"
            )
        return False

    def _is_whole(self) -> bool:
        """Whether nothing of the script is missing. Behind the committed sequence only `resume` may follow."""
        return self._at_end and (self._target is None or self._read_to >= self._target.sequence)

    def _read_more(self) -> None:
        if self._reader is None:
            self._reader = self._logs.progress()
        fetched = self._reader.poll(PROGRESS_RECORDS_PER_POLL, 0.0)
        self.got_ahead = fetched is not None
        if fetched is None:
            return
        self._at_end = fetched.at_end
        self.be_patient()
        for offset, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
            where = f"progress[{self.number}] offset {offset}"
            self._read(_Recorded(progress_record(value, where), offset), where)

    def _read(self, recorded: _Recorded, where: str) -> None:
        record = recorded.record
        if self._target is None and isinstance(record, Commit):
            raise StateError(f"{where}: {offsets_lost(record.sequence)}")
        if isinstance(record, Act) and record.kind in (RESUME, SKIP) and record.sequence <= self._read_to:
            return  # said twice
        if record.sequence != self._read_to + 1:
            raise StateError(f"{where}: {self._gap_before(record.sequence)}")
        if record.sequence == 0 and not (isinstance(record, Act) and record.kind == CONFIGURATION):
            raise StateError(f"{where}: the first record is not a configuration")
        if self._target is not None and record.sequence >= self._target.sequence:
            self._check_target(record, self._target, where)
        self._read_to = record.sequence
        if record.sequence == self.loaded_sequence:
            self._check_anchor(recorded, where)
            return
        if isinstance(record, Act) and record.kind == SKIP:
            self._leave_out(record, where)
        self._script.append(recorded)

    def _leave_out(self, act: Act, where: str) -> None:
        """The commits behind the snapshot are not re-processed: their inputs are gone, an operator accepted that.

        A gap behind another snapshot counts only if one behind this follows.
        """
        gap = _gap_of(act, where)
        self._misfit = None
        if gap.behind != self.loaded_sequence or self.stage is not Stage.READING:
            found = f"the snapshot behind sequence {self.loaded_sequence}" if self.loaded_sequence >= 0 else "none"
            self._misfit = (
                f"{where}: a gap was accepted behind sequence {gap.behind}, and {found} was loaded. `areba state skip` "
                "says what can be done; another application.id starts afresh"
            )
        self._script = deque(recorded for recorded in self._script if isinstance(recorded.record, Act))
        self._tripped = None
        self.offsets = gap.end
        if self._target is not None and act.sequence > self._target.sequence:
            self.goal = gap.end

    def _check_gaps(self) -> None:
        if self._misfit is not None:
            raise StateError(self._misfit)

    def _gap_before(self, sequence: int) -> str:
        """Why a record of this sequence cannot be the next."""
        needed = self._read_to + 1
        if sequence < needed or needed != max(self.loaded_sequence, 0):
            return f"sequence {sequence} follows {self._read_to}"
        begin = f"progress begins with sequence {sequence}, sequence {needed} is needed"
        if self.loaded_sequence >= 0:
            return f"{begin} for the snapshot behind it. Use another application.id to start afresh"
        if self.damage:
            return (
                f"{begin}: older records were deleted with their inputs, and no snapshot can be read "
                f"({'; '.join(self.damage)}). Use another application.id to start afresh"
            )
        return (
            f"{begin}, for the committed offsets name no snapshot. `areba state recommit` looks for one; another "
            "application.id starts afresh"
        )

    def _check_anchor(self, recorded: _Recorded, where: str) -> None:
        """The commit record behind which the snapshot was taken."""
        record = recorded.record
        if not isinstance(record, Commit) or record.digest != self._point.digest:
            raise StateError(f"{where}: sequence {record.sequence} is not the one that the snapshot was taken behind")
        self._tripped = record.tripped
        self._anchor = Anchor(record.sequence, record.digest, self.offsets, recorded.offset)

    def _check_target(self, record: Commit | Act, target: Point, where: str) -> None:
        """The record that is committed, or one behind it, where only acts may be."""
        if record.sequence > target.sequence:
            if isinstance(record, Commit):
                raise StateError(f"{where}: {offsets_reset(record.sequence, target.sequence)}")
            return
        found, wanted = record.digest.hex()[:16] if isinstance(record, Commit) else "none", target.digest.hex()[:16]
        if found != wanted:
            raise StateError(
                f"{where}: digest {found} of sequence {record.sequence}, the committed offsets name {wanted}"
            )

    def _start_replay(self) -> None:
        if self.task is None:
            self._begin_at_first()
        self.stage = Stage.REPLAYING
        self.be_patient()

    def _begin_at_first(self) -> None:
        settings = self._settings
        if self._script:
            first = self._script[0].record
            if isinstance(first, Act):  # `_read` saw to it
                settings = TaskSettings.from_json(first.text)
        else:
            self._pending_acts.append(self._settings.to_json())
        self.task = Task(self.number, settings, (self.inputs[0].topic, self.inputs[1].topic))
        commits = (record for record, _ in self._script if isinstance(record, Commit))
        begin = next(commits, None)
        if begin is not None:
            self.offsets = (begin.examples_start, begin.labels_start)

    # REPLAYING ------------------------------------------------------------------------------------------------------

    def replay(self, until_s: float) -> bool:
        """Re-process what the script and the fetched records allow, until this monotonic time; True when done.

        Raises:
            StateError: An input is gone, or the digest differs.
            ConfigurationError: The configuration changed in a way that a running application cannot take over.
        """
        before = self._point
        while True:
            if len(self._script) < SCRIPT_RECORDS // 2 and not self._is_whole():
                self._read_more()
                self._check_gaps()
            if not self._script:
                break
            record, offset = self._script[0]
            if isinstance(record, Act):
                self._replay_act(record)
            elif not self._replay_commit(record, offset):
                break
            self._script.popleft()
            self.be_patient()
            if self._progress_at >= until_s:
                break
        self.got_ahead = self._point != before
        if not self._script and self._is_whole():
            self._finish()
            return True
        if not self.got_ahead:
            self._check_deadline(f"inputs were re-read up to {self._fetched_to()}, {self._next_goal()}")
        return False

    def _fetched_to(self) -> str:
        return "/".join(
            str(max(records.last_offset + 1, offset))
            for records, offset in zip(self.waiting, self.offsets, strict=True)
        )

    def _next_goal(self) -> str:
        if self._script and isinstance(record := self._script[0].record, Commit):
            return f"the next range ends at {record.examples_end}/{record.labels_end}"
        return f"progress was read up to sequence {self._read_to}"

    def _replay_act(self, act: Act) -> None:
        if act.kind == RESUME:
            self.breaker.reset()
            self._tripped = None
        try:
            if self._live_task().apply(act):
                self._writer.begin_anew()
        except StateError as problem:
            raise StateError(f"progress[{self.number}] sequence {act.sequence}: {problem}") from problem
        self._engine = act.engine
        digest = read_gap(act.text).digest if act.kind == SKIP else self._point.digest
        self._point = Point(act.sequence, digest)

    def _replay_commit(self, commit: Commit, progress_offset: int) -> bool:
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        where = f"task {self.number}, sequence {commit.sequence}"
        if (ranges[0], ranges[2]) != self.offsets:
            raise StateError(f"{where}: its ranges start at {ranges[0]}/{ranges[2]}, {pair(self.offsets)} are next")
        rows = [
            self._rows_of_range(side, start, end)
            for side, start, end in ((Side.EXAMPLES, *ranges[:2]), (Side.LABELS, *ranges[2:]))
        ]
        if rows[0] is None or rows[1] is None:
            return False
        start_s = self._clock.monotonic_s()
        outputs = self._live_task().step(self.waiting[0].take(rows[0]), self.waiting[1].take(rows[1]))
        digest = chain_digest(self._point.digest, ranges, outputs)
        self._writer.worked(self._clock.monotonic_s() - start_s)
        if digest != commit.digest:
            raise StateError(
                f"{where}: re-processing up to offsets {ranges[1]}/{ranges[3]} gave digest {digest.hex()[:16]}, "
                f"committed was {commit.digest.hex()[:16]} by areba {self._engine}; this is {__version__}. Go on with "
                "that version, or use another application.id to start afresh"
            )
        self._point = Point(commit.sequence, digest)
        self.offsets = (commit.examples_end, commit.labels_end)
        self._anchor = Anchor(commit.sequence, digest, self.offsets, progress_offset)
        self.replayed_records += rows[0] + rows[1]
        self.breaker.count(outputs.malformed)
        self._tripped = commit.tripped
        return True

    def _rows_of_range(self, side: Side, start: int, end: int) -> int | None:
        if start == end:
            return 0
        try:
            return self.waiting[side].rows_below(end)
        except LookupError:
            topic = self.inputs[side].topic
            raise StateError(
                f"{topic}[{self.number}] offset {end - 1} is gone; it is needed to rebuild the state. {WAY_ON}"
            ) from None

    def _finish(self) -> None:
        if self._target is not None and self.offsets != self.goal:
            raise StateError(
                f"task {self.number}: progress ends at offsets {pair(self.offsets)}, committed are "
                f"{pair(self.goal)}: the group's offsets were changed. {WAY_BACK}"
            )
        if self._tripped is None:
            self._go_live()
        else:
            self.stage = Stage.TRIPPED
            self.problem = self._tripped

    def _go_live(self) -> None:
        """Take new records, from the next on under the configuration in force.

        Raises:
            ConfigurationError: It differs from the recorded one in more than new streams.
        """
        self.close()
        task = self._live_task()
        if not self._pending_acts:
            changed = changes(task.settings, self._settings, task.running())
            if changed.refused:
                raise ConfigurationError(changed.refused)
            if task.settings.to_json() != self._settings.to_json():
                self._pending_acts.append(self._settings.to_json())
                self.taken_over = changed.taken_over
        self.problem = None
        self.stage = Stage.LIVE

    def look_for_resume(self) -> bool:
        """Whether a `resume` record came behind the tripped commit; then the task is live again.

        Raises:
            StateError: Progress holds something else than our records.
        """
        if self._reader is None:
            self._reader = self._logs.progress()
        fetched = self._reader.poll(PROGRESS_RECORDS_PER_POLL, 0.0)
        if fetched is None:
            return False
        for offset, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
            record = progress_record(value, f"progress[{self.number}] offset {offset}")
            if isinstance(record, Act) and record.kind == RESUME and record.sequence == self._point.sequence + 1:
                self._replay_act(record)
                self._go_live()
                return True
        return False

    # LIVE -----------------------------------------------------------------------------------------------------------

    def step(self, rows: tuple[int, int]) -> Batch:
        """Carry the next records through the stages; the batch counts only once it is committed (`advance`).

        Another configuration begins with the batch before which it is recorded.
        """
        start_s = self._clock.monotonic_s()
        if self._pending_acts and self._live_task().apply_settings(self._settings):
            self._writer.begin_anew()
        examples, labels = self.waiting[0].take(rows[0]), self.waiting[1].take(rows[1])
        outputs = self._live_task().step(examples, labels)
        ends = (
            int(examples.offsets[-1]) + 1 if rows[0] else self.offsets[0],
            int(labels.offsets[-1]) + 1 if rows[1] else self.offsets[1],
        )
        acts = tuple(
            Act(self._point.sequence + 1 + number, CONFIGURATION, __version__, text)
            for number, text in enumerate(self._pending_acts)
        )
        ranges = (self.offsets[0], ends[0], self.offsets[1], ends[1])
        digest = chain_digest(self._point.digest, ranges, outputs)
        self._writer.worked(self._clock.monotonic_s() - start_s)
        tripped = self.breaker.count(outputs.malformed)
        sequence = self._point.sequence + len(acts) + 1
        commit = Commit(sequence, *ranges, digest=digest, records=outputs.records, tripped=tripped)
        return Batch(outputs, acts, commit, ends)

    @property
    def writes_snapshot(self) -> bool:
        """Whether transactions without a batch are wanted."""
        return self.stage is Stage.LIVE and self._writer.is_busy

    def snapshot_records(self) -> OutputRecords:
        """What the next transaction has to carry to the changelog."""
        return self._writer.next_records()

    @property
    def snapshot_offsets(self) -> list[int]:
        """To be filled with where these are."""
        return self._writer.offsets

    def metadata(self, batch: Batch | None) -> str:
        """What stands with the offsets of the next transaction."""
        if batch is None and self._anchor is None:
            raise AssertionError("a snapshot is taken behind a commit record")
        point = batch.point if batch else Point(*self._anchor[:2]) if self._anchor else self._point
        return point.metadata(self._writer.snapshots)

    def advance(self, batch: Batch | None, progress_offsets: Sequence[int]) -> int | None:
        """The transaction was committed; the sequence of a snapshot that is complete by this."""
        if batch is not None:
            self._pending_acts.clear()
            self._point = batch.point
            self.offsets = batch.offsets
            self._anchor = Anchor(*batch.point, batch.offsets, progress_offsets[-1])
            if batch.commit.tripped:
                self.stage = Stage.TRIPPED
                self.problem = self._tripped = batch.commit.tripped
        complete = self._writer.committed()
        return complete.sequence if complete else None

    def begin_snapshot(self, *, ending: bool = False) -> int | None:
        """Take a snapshot if one is due (`ending`: if there is anything to save); its new bytes, or None."""
        at_anchor = self._anchor is not None and self._point == self._anchor[:2]
        if self.stage is not Stage.LIVE or not at_anchor or self._anchor is None:
            return None
        if not self._writer.is_due(ending=ending):
            return None
        return self._writer.begin(self._live_task(), self._anchor, self.breaker.counts, self._clock.monotonic_s)

    def _live_task(self) -> Task:
        if self.task is None:
            raise AssertionError("a task is built before records are processed")
        return self.task

    def _check_deadline(self, state: str) -> None:
        """Time in which nobody looked does not count: a process that was frozen has not waited."""
        deadline_s, now_s = self._times.deadline_s, self._clock.monotonic_s()
        self._silent_s += min(now_s - self._looked_at, LONGEST_LOOK_S)
        self._looked_at = now_s
        if self._silent_s > deadline_s:
            raise StateError(f"task {self.number}: no progress for {deadline_s:g} s while restoring: {state}")


def _gap_of(act: Act, where: str) -> Gap:
    try:
        return read_gap(act.text)
    except StateError as problem:
        raise StateError(f"{where}: {problem}") from problem


def progress_record(value: bytes | None, where: str) -> Commit | Act:
    """What a value of the progress topic says.

    Raises:
        StateError: It is none of our records.
    """
    try:
        record = codec.decode_one(value or b"")
    except (UndecodableError, WrongSchemaError) as error:
        raise StateError(f"{where}: no progress record: {error}") from error
    if not isinstance(record, Commit | Act):
        raise StateError(f"{where}: {type(record).__name__} is no progress record")
    return record
