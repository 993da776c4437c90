"""From committed offsets, snapshots and progress to a live task: the one recovery path, whatever ended the last owner.

The committed offsets of a task carry, as their metadata, the sequence and the digest of the last commit record and the
two newest snapshots. The restorer loads the newest that is whole, reads progress from its commit record to that
sequence, re-reads the inputs along the recorded ranges, re-processes them silently and compares the digest after every
commit record. The result is the state that the last owner had when it committed. Without a snapshot all of this begins
at the first offset.

    LOADING     a snapshot is read
    READING     progress is read until the committed sequence (or as far as memory allows: the rest on the way), and
                what was committed last is compared with what can be read of it (see `settle`)
    REPLAYING   inputs are re-processed along the recorded ranges
    REPAIRING   committed outputs that nobody can read are published again
    LIVE        the task takes new records
    TRIPPED     the breaker stopped it; `areba resume` goes on
    PARKED      it cannot be restored; the others go on
"""

import json
import secrets
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from hashlib import sha256
from typing import Any, NamedTuple

from stream_app import __version__
from stream_app.backends.base import Clock, Fetched, LogReader, TopicPartition, pair
from stream_app.config import TaskSettings, changes
from stream_app.errors import (
    ConfigurationError,
    ForeignRecordsError,
    StateError,
)
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.batch import Batch as Opened
from stream_app.pipeline.outputs import GENESIS, OUTPUT_TOPICS, Outputs, chain_digest
from stream_app.pipeline.task import Task
from stream_app.pipeline.transaction_bounds import Room
from stream_app.records import (
    ADOPT,
    CONFIGURATION,
    REPAIR,
    RESUME,
    SKIP,
    Act,
    Commit,
    OutputRecords,
    Side,
    concatenated_headers,
)
from stream_app.recovery.breaker import Breaker
from stream_app.recovery.buffers import WaitingRecords, rows_of
from stream_app.recovery.changelog import Loaded
from stream_app.recovery.changelog import load as load_snapshot
from stream_app.recovery.commit_point import (
    HINT_RECOMMIT,
    HINT_SKIP,
    Anchor,
    CommitPoint,
    RestoreTarget,
    check_topic_ids,
    offsets_lost,
    offsets_reset,
    progress_record,
)
from stream_app.recovery.output_logs import OutputLogs, Window, repair_text
from stream_app.recovery.settle import MAX_UNNAMED_COMMITS, Recorded, Settled, settle
from stream_app.recovery.snapshot_writer import SnapshotWriter
from stream_app.snapshot.identity import RULES, UNKNOWN, Identity, other_rules
from stream_app.snapshot.parts import WholeActs, in_parts, whole_acts
from stream_app.snapshot.skipped_inputs import Gap, read_gap

PROGRESS_RECORDS_PER_POLL = 1000
"""Progress records are some hundred bytes; a poll of so many stays well under a second."""

OPEN_TRANSACTION_S = 25.0
"""What a dead worker left open hides the end of the changelog for so long: `transaction.timeout.ms`, and ten seconds
until the broker looks."""

LONGEST_LOOK_S = 5.0
"""From one look at a task that is restored to the next: slices of a second, and what other tasks commit in between."""

SCRIPT_RECORDS = 100_000
"""Progress records that are held at once: some 50 MB, a quarter of an hour of commits; the rest is read on the way."""


class Stage(Enum):
    """Where a task is on its way; see the module's docstring."""

    LOADING = auto()
    READING = auto()
    REPLAYING = auto()
    REPAIRING = auto()
    LIVE = auto()
    TRIPPED = auto()
    PARKED = auto()


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
    def inputs(self) -> int:
        """How many input records it took."""
        return sum(map(len, self.outputs.unreadable))

    @property
    def point(self) -> CommitPoint:
        """Where the task is once this is committed."""
        return CommitPoint(self.commit.sequence, self.commit.digest)


class Times(NamedTuple):
    """Bounds of restoring: seconds without progress after which it is given up, and seconds of work that it repeats."""

    deadline_s: float
    snapshot_after_s: float


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be published again, in one transaction.

    Attributes:
        outputs: Records by output topic.
        progress: Records of progress that were lost, and the act `repair`.
        commits: By output topic, the sequences of the commits whose records these are.
    """

    outputs: Mapping[str, OutputRecords]
    progress: tuple[Commit | Act, ...]
    commits: Mapping[str, frozenset[int]]


class Logs(NamedTuple):
    """Open readers of a task's own topics, each at its first offset, and what there is to ask of its outputs.

    `outputs` is None where a state of the past is rebuilt, which publishes nothing.
    """

    progress: Callable[[], LogReader]
    changelog: Callable[[], LogReader]
    outputs: OutputLogs | None


class Writer(NamedTuple):
    """Who writes the records of a task.

    Attributes:
        transactional_id: Stands in each commit record.
        adopts: Whether records of other writers in the output topics are accepted.
    """

    transactional_id: str
    adopts: bool = False


class OwnedTask:
    """A task of this worker, from its assignment on.

    Args:
        inputs: Its partitions of `examples` and `labels`.
        generation: Number of the assignment that gave it to us.
        settings: The configuration in force; restoring runs under the recorded one.
        target: What to restore; None where nothing was ever committed.
        committed: The committed offsets (examples, labels); the first offsets where nothing was committed.
        logs: The task's own topics.
        breaker: Counts unreadable records.
        clock: For the deadline, and for what processing costs.
        times: Bounds of restoring.
        writer: Who writes its records.
        identity: What the broker says of the application now; an unknown identity is not compared.
    """

    def __init__(  # noqa: PLR0915  (a field a line)
        self,
        inputs: tuple[TopicPartition, TopicPartition],
        generation: int,
        settings: TaskSettings,
        target: RestoreTarget | None,
        committed: tuple[int, int],
        logs: Logs,
        breaker: Breaker,
        clock: Clock,
        times: Times,
        writer: Writer,
        identity: Identity = UNKNOWN,
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
        self.output_ends: dict[str, int] = {}
        self.repair: Repair | None = None
        self.unnamed_ends: Mapping[TopicPartition, int] | None = None
        self._settings = settings
        self._written_by = writer
        self._identity = identity
        self._recorded = (0, 0)  # rules and number of partitions, as the newest commit or configuration has them
        self._named = self._target = target.point if target else None
        self._unnamed_commits = 0
        self._is_settled = False
        self._settling: Generator[bool, None, Settled] | None = None
        self._settled = Settled()
        self._again: dict[str, list[OutputRecords]] = {topic: [] for topic in OUTPUT_TOPICS}
        self._recent: deque[Recorded] = deque(maxlen=SCRIPT_RECORDS)
        self._logs = logs
        self._reader: LogReader | None = None
        self._loading: Generator[bool, None, Loaded] | None = None
        self._loaded = Loaded()
        self._clock = clock
        self._times = times
        self._progress_at = self._looked_at = clock.monotonic_s()
        self._silent_s = 0.0
        self._script: deque[Recorded] = deque()
        self._read_to = -1
        self._at_end = False
        self._tripped: str | None = None
        self._tripped_at = -1
        self._engine = "unknown"
        self._point = CommitPoint(-1, GENESIS)
        self._pending_acts: list[tuple[str, str]] = []
        self._whole_acts = WholeActs()
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
    def target(self) -> CommitPoint | None:
        """The point that the committed offsets name; None where the group has none."""
        return self._named

    @property
    def needed_progress(self) -> int | None:
        """The first offset of progress from which it may have to be restored; None: not known."""
        return min((snapshot.progress_offset for snapshot in self._writer.named), default=None)

    @property
    def point(self) -> CommitPoint:
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
        """Release the readers."""
        if self._settling is not None:
            self._settling.close()
            self._settling = None
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
            self._point = CommitPoint(manifest.sequence, bytes.fromhex(manifest.digest))
            self._read_to = manifest.sequence - 1
            self._engine = manifest.engine
            self.breaker.load(manifest.unreadable)
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
        """Whether nothing of the script is missing. After the committed sequence only acts may follow."""
        return self._at_end and self._is_settled

    def _read_more(self) -> None:
        """Read progress, and once it is read to its end, settle what was committed last."""
        if self._at_end and not self._is_settled:
            self._settle()
            return
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
            self._read(Recorded(progress_record(value, where), offset), where)

    def _read(self, recorded: Recorded, where: str) -> None:
        record = recorded.record
        if isinstance(record, Commit):
            self._check_commit(record, where)
        if isinstance(record, Commit) or record.kind == CONFIGURATION:
            self._recorded = (record.rules, record.partitions)
        if isinstance(record, Act) and record.sequence <= self._read_to and self._is_late(recorded, record):
            return
        if record.sequence != self._read_to + 1:
            raise StateError(f"{where}: {self._gap_before(record.sequence)}")
        if record.sequence == 0 and not (isinstance(record, Act) and record.kind == CONFIGURATION):
            raise StateError(f"{where}: the first record is not a configuration")
        if self._target is not None and record.sequence >= self._target.sequence:
            self._check_target(record, self._target, where)
        self._read_to = record.sequence
        self._recent.append(recorded)
        if record.sequence == self.loaded_sequence:
            self._check_anchor(recorded, where)
            return
        if isinstance(record, Act) and record.kind == SKIP:
            self._leave_out(record, where)
        self._script.append(recorded)

    def _check_commit(self, commit: Commit, where: str) -> None:
        """Whether it is of the topics that are there now, and the group has offsets, or few commits have none."""
        check_topic_ids(self.inputs, (commit.examples_topic_id, commit.labels_topic_id), self._identity.topic_ids)
        if self._target is None:
            self._unnamed_commits += 1
            if self._unnamed_commits > MAX_UNNAMED_COMMITS:
                raise StateError(f"{where}: {offsets_lost(commit.sequence)}")

    def _is_late(self, recorded: Recorded, act: Act) -> bool:
        """Whether an act came twice, or at the same time as another one: they have one sequence then.

        A `resume` holds all the same, and so do the outputs of a `repair`.
        """
        if act.kind == REPAIR:
            self._recent.append(recorded)
        elif act.kind == RESUME and any(isinstance(one.record, Act) for one in list(self._script)[-1:]):
            self._script.append(recorded)
        return act.kind in (RESUME, SKIP, REPAIR)

    def _settle(self) -> None:
        """One step of finding out which transactions were committed, and which of their records nobody can read.

        Raises:
            ForeignRecordsError: Somebody else writes to the output topics.
            StateError: What can be read contradicts itself.
        """
        if self._logs.outputs is None:
            self.got_ahead = self._take_settled(Settled(ends=dict.fromkeys(OUTPUT_TOPICS, 0)))
            return
        if self._settling is None:
            target = (self._target.sequence, self._target.digest) if self._target else None
            is_anchored = bool(self._recent) and self._recent[0].record.sequence == self.loaded_sequence
            self._settling = settle(
                self._logs.outputs,
                self._decode_progress,
                self._recent,
                self._read_to,
                target,
                is_anchored=is_anchored,
            )
        try:
            self.got_ahead = next(self._settling)
        except StopIteration as done:
            self._settling = None
            self.got_ahead = self._take_settled(done.value)
        if self.got_ahead:
            self.be_patient()

    def _decode_progress(self, value: bytes | None) -> Commit | Act:
        return progress_record(value, f"progress[{self.number}]")

    def _take_settled(self, settled: Settled) -> bool:
        """Restore up to the last transaction that was committed; False where the one that is named is not there yet."""
        last = next((one for one in reversed(settled.lost) if isinstance(one, Commit)), None)
        reached = max(self._read_to, last.sequence if last else -1)
        if self._target is not None and reached < self._target.sequence:
            self._at_end = False
            return False
        if settled.foreign and self._logs.outputs is not None and not self._written_by.adopts:
            topic, offset = next(iter(settled.foreign.items()))
            raise ForeignRecordsError(*self._logs.outputs.places[topic], offset)
        if any(isinstance(one.record, Act) and one.record.kind == SKIP for one in self._recent):
            settled = self._without_skipped(settled)
        self._settled = settled
        self._is_settled = True
        self.output_ends = dict(settled.ends)
        for record in settled.lost:
            self._read_to = record.sequence
            self._script.append(Recorded(record, -1))
        commits = (one.record for one in reversed(self._script) if isinstance(one.record, Commit))
        newest = next(commits, None)
        if newest is not None and (self._target is None or newest.sequence > self._target.sequence):
            self._target = CommitPoint(newest.sequence, newest.digest)
            self.goal = (newest.examples_end, newest.labels_end)
        return True

    def _without_skipped(self, settled: Settled) -> Settled:
        """The inputs of what was skipped are gone: its outputs cannot be computed again."""
        known = {one.record.sequence for one in self._script} | {record.sequence for record in settled.lost}
        missing = {topic: left for topic, found in settled.missing.items() if (left := found & known)}
        for topic, found in settled.missing.items():
            if gone := sorted(found - known):
                self.damage.append(f"{topic} of sequences {gone}: nobody can read them, and their inputs are gone")
        return replace(settled, missing=missing)

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

    def _check_anchor(self, recorded: Recorded, where: str) -> None:
        """The commit record behind which the snapshot was taken."""
        record = recorded.record
        if not isinstance(record, Commit) or record.digest != self._point.digest:
            raise StateError(f"{where}: sequence {record.sequence} is not the one that the snapshot was taken behind")
        self._tripped, self._tripped_at = record.tripped, record.sequence
        self._anchor = Anchor(record.sequence, record.digest, self.offsets, recorded.offset)

    def _check_target(self, record: Commit | Act, target: CommitPoint, where: str) -> None:
        """The record that is committed, or one behind it, where only acts may be."""
        if record.sequence > target.sequence:
            self._unnamed_commits += isinstance(record, Commit)
            if self._unnamed_commits > MAX_UNNAMED_COMMITS or self.loaded_sequence > target.sequence:
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
        first = next(whole_acts(record for record, _ in self._script), None)
        if isinstance(first, Act) and first.kind == CONFIGURATION:
            settings = TaskSettings.from_json(first.text)
        elif first is None:
            self._pending_acts.append((CONFIGURATION, self._settings.to_json()))
        else:
            raise StateError(
                f"progress[{self.number}] sequence {first.sequence}: no whole configuration comes before it"
            )
        topics = (self.inputs[0].topic, self.inputs[1].topic)
        self.task = Task(self.number, settings, topics, secrets.token_bytes(HASH_KEY_BYTES))
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
            whole = self._whole_acts.add(act)
            if whole is not None and self._live_task().apply(whole):
                self._writer.begin_anew()
        except StateError as problem:
            raise StateError(f"progress[{self.number}] sequence {act.sequence}: {problem}") from problem
        self._engine = act.engine
        digest = read_gap(act.text).digest if act.kind == SKIP else self._point.digest
        self._point = CommitPoint(max(act.sequence, self._point.sequence), digest)

    def _replay_commit(self, commit: Commit, progress_offset: int) -> bool:
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        where = f"task {self.number}, sequence {commit.sequence}"
        problem = other_rules(commit.rules, commit.sequence, self._engine)
        if problem is not None:
            raise StateError(f"task {self.number}: {problem}")
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
        for topic, sequences in self._settled.missing.items():
            if commit.sequence in sequences:
                self._again[topic].append(outputs.topics[topic])
        self._point = CommitPoint(commit.sequence, digest)
        self.offsets = (commit.examples_end, commit.labels_end)
        self._anchor = Anchor(commit.sequence, digest, self.offsets, progress_offset)
        self.replayed_records += rows[0] + rows[1]
        self.breaker.count(outputs.unreadable)
        self._tripped, self._tripped_at = commit.tripped, commit.sequence
        return True

    def _rows_of_range(self, side: Side, start: int, end: int) -> int | None:
        if start == end:
            return 0
        try:
            return self.waiting[side].rows_below(end)
        except LookupError:
            topic = self.inputs[side].topic
            raise StateError(
                f"{topic}[{self.number}] offset {end - 1} is gone; it is needed to rebuild the state. {HINT_SKIP}"
            ) from None

    def _finish(self) -> None:
        if self._target is not None and self.offsets != self.goal:
            raise StateError(
                f"task {self.number}: progress ends at offsets {pair(self.offsets)}, committed are "
                f"{pair(self.goal)}: the group's offsets were changed. {HINT_RECOMMIT}"
            )
        if self._settled.missing or self._settled.lost or self._target != self._named:
            self.stage = Stage.REPAIRING
            self.repair = self._make_repair()
        else:
            self._leave_restore()

    def _leave_restore(self) -> None:
        if self._tripped is None:
            self._go_live()
        else:
            self.stage = Stage.TRIPPED
            self.problem = self._tripped

    def _make_repair(self) -> Repair:
        """What nobody can read of what was committed.

        Raises:
            StateError: A commit whose outputs are missing was not processed again.
        """
        missing = self._settled.missing
        outputs = {topic: _joined(self._again[topic]) for topic in missing}
        if any(len(self._again[topic]) != len(sequences) for topic, sequences in missing.items()):
            raise StateError(
                f"task {self.number}: outputs of {dict(missing)} are missing, and cannot be computed again"
            )
        windows = {topic: Window(self.output_ends[topic], len(records)) for topic, records in outputs.items()}
        act = Act(self._point.sequence + 1, REPAIR, __version__, repair_text(windows, missing))
        return Repair(outputs, (*self._settled.lost, act), missing)

    def repaired(self, progress_offsets: Sequence[int]) -> None:
        """Continue after the repair was committed."""
        if self.repair is None:
            raise AssertionError("only a task with a repair is repaired")
        act = self.repair.progress[-1]
        for record, offset in zip(self.repair.progress, progress_offsets, strict=True):
            if self._anchor is not None and record.sequence == self._anchor.sequence:
                self._anchor = self._anchor._replace(progress_offset=offset)
        self._point = CommitPoint(act.sequence, self._point.digest)
        self.repair = None
        self._named = self._target
        self._leave_restore()

    def _go_live(self) -> None:
        """Take new records, from the next on under the configuration in force.

        Raises:
            ConfigurationError: It differs from the recorded one in more than new streams.
        """
        self.close()
        task = self._live_task()
        if not any(kind == CONFIGURATION for kind, _ in self._pending_acts):
            changed = changes(task.settings, self._settings, task.running())
            if changed.refused:
                raise ConfigurationError(changed.refused)
            if task.settings.to_json() != self._settings.to_json() or self._recorded != self._in_force:
                self._pending_acts.append((CONFIGURATION, self._settings.to_json()))
                rules = max(1, self._recorded[0])
                new_rules = (f"rules: {rules} -> {RULES}",) if rules != RULES else ()
                self.taken_over = changed.taken_over + new_rules
        if self._settled.foreign:
            self._pending_acts.append((ADOPT, json.dumps(dict(self._settled.foreign))))
            self._settled = replace(self._settled, foreign={})
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
            if not isinstance(record, Act) or record.kind != RESUME:
                continue
            if self._tripped_at < record.sequence <= self._point.sequence + 1:
                self._replay_act(record)
                self._go_live()
                return True
        return False

    # LIVE -----------------------------------------------------------------------------------------------------------

    def step(self, rows: tuple[int, int], room: Room, *, must: bool) -> Batch | None:
        """Carry the next records through the stages; the batch counts only once it is committed (`advance`).

        Another configuration begins with the batch before which it is recorded.

        Args:
            rows: How many examples and labels; fewer where these could become too much.
            room: What the transaction has left.
            must: Whether it takes at least one record, whatever that becomes.

        Returns:
            The batch; None where nothing fits.
        """
        start_s = self._clock.monotonic_s()
        if self._pending_acts and self._live_task().settings != self._settings:
            if not must:
                return None  # once it is applied, it has to be recorded: only a batch that must come is sure to come
            if self._live_task().apply_settings(self._settings):
                self._writer.begin_anew()
        opened = self._open(rows, room, must=must)
        if opened is None:
            return None
        examples, labels = opened.raw
        outputs = self._live_task().run(opened)
        ends = (
            int(examples.offsets[-1]) + 1 if len(examples) else self.offsets[0],
            int(labels.offsets[-1]) + 1 if len(labels) else self.offsets[1],
        )
        acts: tuple[Act, ...] = ()
        for kind, text in self._pending_acts:
            in_force = self._in_force if kind == CONFIGURATION else ()
            acts += in_parts(Act(self._point.sequence + 1 + len(acts), kind, __version__, text, *in_force))
        ranges = (self.offsets[0], ends[0], self.offsets[1], ends[1])
        digest = chain_digest(self._point.digest, ranges, outputs)
        self._writer.worked(self._clock.monotonic_s() - start_s)
        tripped = self.breaker.count(outputs.unreadable)
        sequence = self._point.sequence + len(acts) + 1
        examples_id, labels_id = self._identity.topic_ids
        commit = Commit(
            sequence,
            *ranges,
            digest=digest,
            records=outputs.records,
            tripped=tripped,
            transactional_id=self._written_by.transactional_id,
            rules=RULES,
            partitions=self._identity.partitions,
            examples_topic_id=examples_id,
            labels_topic_id=labels_id,
            **self._windows(outputs),
        )
        return Batch(outputs, acts, commit, ends)

    def _windows(self, outputs: Outputs) -> dict[str, Any]:
        """Where the records of a batch begin in each output partition, and their counts, as fields of `Commit`."""
        fields: dict[str, Any] = {}
        for topic in OUTPUT_TOPICS:
            name = topic.replace("-", "_")
            fields[f"{name}_start"] = self.output_ends[topic]
            fields[f"{name}_records"] = len(outputs.topics[topic])
        return fields

    def _open(self, rows: tuple[int, int], room: Room, *, must: bool) -> Opened | None:
        """The next records, as many of them as fit; the others wait on."""
        task = self._live_task()
        taken = self.waiting[0].take(rows[0]), self.waiting[1].take(rows[1])
        opened = task.open(*taken)
        fitting = task.fitting(opened, room)
        if must and not sum(fitting):
            fitting = (1, 0) if opened.merged.sides[0] == Side.EXAMPLES else (0, 1)
        if fitting == rows:
            return opened
        for waiting, records, count in zip(self.waiting, taken, fitting, strict=True):
            waiting.put_back(rows_of(records, count, len(records)))
        if not sum(fitting):
            return None
        examples, labels = (rows_of(records, 0, count) for records, count in zip(taken, fitting, strict=True))
        return task.open(examples, labels)

    @property
    def allocated_bytes(self) -> int:
        """What state, buffers and a snapshot under way take, about."""
        state = self.task.allocated_bytes if self.task else 0
        return state + sum(records.bytes for records in self.waiting) + self._writer.allocated_bytes

    @property
    def writes_snapshot(self) -> bool:
        """Whether transactions without a batch are wanted."""
        return self.stage is Stage.LIVE and self._writer.is_busy

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is under way, or waits until it can be named."""
        return self.writes_snapshot or self.unnamed_ends is not None

    def snapshot_records(self, room: int) -> OutputRecords:
        """What the next transaction has to carry to the changelog, if it has room for so many bytes."""
        return self._writer.next_records(room)

    @property
    def snapshot_offsets(self) -> list[int]:
        """To be filled with where these are."""
        return self._writer.offsets

    def metadata(self, batch: Batch | None) -> str:
        """What stands with the offsets of the next transaction."""
        if batch is None and self._anchor is None:
            raise AssertionError("a snapshot is taken behind a commit record")
        point = batch.point if batch else CommitPoint(*self._anchor[:2]) if self._anchor else self._point
        return point.metadata(self._writer.snapshots, self._identity.topic_ids)

    @property
    def _in_force(self) -> tuple[int, int]:
        """Rules and number of partitions, as they are recorded from now on."""
        return RULES, self._identity.partitions

    def advance(
        self, batch: Batch | None, progress_offsets: Sequence[int], written: Mapping[TopicPartition, int]
    ) -> int | None:
        """The transaction was committed; the sequence of a snapshot that is complete by this.

        Args:
            batch: Its batch, if it had one.
            progress_offsets: Where its records of progress are.
            written: How far the task's partitions were written, of those that cannot be read yet.
        """
        if batch is not None:
            self._pending_acts.clear()
            self._point = batch.point
            self.offsets = batch.offsets
            self._anchor = Anchor(*batch.point, batch.offsets, progress_offsets[-1])
            if batch.commit.tripped:
                self.stage = Stage.TRIPPED
                self.problem = self._tripped = batch.commit.tripped
                self._tripped_at = batch.commit.sequence
        complete = self._writer.committed()
        if complete is not None:
            self.unnamed_ends = dict(written)
        return complete.sequence if complete else None

    def name_snapshot(self) -> None:
        """What the newest snapshot needs can be read: the next transaction names it."""
        self.unnamed_ends = None
        self._writer.name()

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


def _joined(parts: Sequence[OutputRecords]) -> OutputRecords:
    """All records, in order."""
    return OutputRecords(
        [key for part in parts for key in part.keys],
        [value for part in parts for value in part.values],
        [time for part in parts for time in part.timestamps],
        concatenated_headers(parts),
    )


def _gap_of(act: Act, where: str) -> Gap:
    try:
        return read_gap(act.text)
    except StateError as problem:
        raise StateError(f"{where}: {problem}") from problem
