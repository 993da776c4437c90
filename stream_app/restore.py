"""From committed offsets and the progress topic to a live task: the one recovery path, whatever ended the owner before.

The committed offsets of a task carry, as their metadata, the sequence and the digest of the last commit record. The
restorer reads progress up to that sequence, re-reads the inputs along the recorded ranges, re-processes them silently
and compares the digest after every commit record. The result is the state that the last owner had when it committed.

    READING     progress is read until the committed sequence
    REPLAYING   inputs are re-processed along the recorded ranges
    LIVE        the task takes new records
    TRIPPED     the breaker stopped it; `areba resume` goes on
    PARKED      it cannot be restored; the others go on
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from stream_app import __version__, codec
from stream_app.breaker import Breaker
from stream_app.config import TaskSettings, changes
from stream_app.errors import ConfigurationError, StateError
from stream_app.inputs import WaitingRecords
from stream_app.ports import Clock, Committed, LogReader, TopicPartition
from stream_app.records import Act, Commit, Side
from stream_app.task import Outputs, Task, chain_digest

GENESIS = bytes(32)
"""The digest before the first commit record."""

METADATA_FORMAT = "1"

PROGRESS_RECORDS_PER_POLL = 1000
"""Progress records are some hundred bytes; a poll of so many stays well under a second."""

CONFIGURATION, RESUME = "configuration", "resume"


class Stage(Enum):
    """Where a task is on its way; see the module's docstring."""

    READING = auto()
    REPLAYING = auto()
    LIVE = auto()
    TRIPPED = auto()
    PARKED = auto()


class Point(NamedTuple):
    """A committed point of a task."""

    sequence: int
    digest: bytes

    def metadata(self) -> str:
        """As it stands with the committed offsets."""
        return f"{METADATA_FORMAT} {self.sequence} {self.digest.hex()}"


def parse_metadata(text: str, where: str) -> Point:
    """The point that a committed offset's metadata names.

    Raises:
        StateError: It is none of ours, or of another format.
    """
    fields = text.split()
    try:
        version, sequence, digest = fields
        if version != METADATA_FORMAT:
            raise StateError(f"{where}: offset metadata has format {version!r}, this version reads {METADATA_FORMAT}")
        return Point(int(sequence), bytes.fromhex(digest))
    except ValueError:
        raise StateError(f"{where}: committed offset without our metadata ({text!r}); was the group reset?") from None


def committed_point(
    inputs: tuple[TopicPartition, TopicPartition], committed: Mapping[TopicPartition, Committed | None]
) -> Point | None:
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
            f"{where}: committed offsets of {inputs[0].topic} and {inputs[1].topic} do not belong together"
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
        return Point(self.commit.sequence, self.commit.digest)


class OwnedTask:
    """A task of this worker, from its assignment on.

    Args:
        inputs: Its partitions of `examples` and `labels`.
        generation: Number of the assignment that gave it to us.
        settings: The configuration in force; restoring runs under the recorded one.
        target: The committed point to restore; None where nothing was ever committed.
        committed: The committed offsets (examples, labels); the first offsets where nothing was committed.
        reader: Reads the task's progress partition; closed by the task.
        breaker: Counts malformed records.
        clock: For the deadline.
        deadline_s: Seconds without progress after which restoring is given up.
    """

    def __init__(
        self,
        inputs: tuple[TopicPartition, TopicPartition],
        generation: int,
        settings: TaskSettings,
        target: Point | None,
        committed: tuple[int, int],
        reader: LogReader,
        breaker: Breaker,
        clock: Clock,
        deadline_s: float,
    ) -> None:
        self.inputs = inputs
        self.number = inputs[0].partition
        self.generation = generation
        self.stage = Stage.READING
        self.waiting = (WaitingRecords(), WaitingRecords())
        self.breaker = breaker
        self.offsets = committed
        self.problem: str | None = None
        self.replayed_records = 0
        self._settings = settings
        self._target = target
        self._goal = committed
        self._reader: LogReader | None = reader
        self._clock = clock
        self._deadline_s = deadline_s
        self._progress_at = clock.monotonic_s()
        self._script: deque[Commit | Act] = deque()
        self._read_to = -1
        self._point = Point(-1, GENESIS)
        self._pending_acts: list[str] = []
        self.task: Task | None = None

    @property
    def point(self) -> Point:
        """The last point that was restored or committed."""
        return self._point

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

    # READING --------------------------------------------------------------------------------------------------------

    def read_progress(self, timeout_s: float) -> bool:
        """One slice of reading; True when the script is whole and inputs are to be read from `self.offsets` on.

        Raises:
            StateError: Progress and committed offsets do not belong together, or nothing comes any more.
        """
        reader = self._open_reader()
        fetched = reader.poll(PROGRESS_RECORDS_PER_POLL, timeout_s)
        if fetched is not None and len(fetched.records):
            self._progress_at = self._clock.monotonic_s()
            for offset, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
                self._read(codec.decode_one(value or b""), f"progress[{self.number}] offset {offset}")
        if self._target is None:
            whole = fetched is not None and fetched.at_end
            if whole and self._script:
                raise StateError(
                    f"task {self.number}: progress has {len(self._script)} records, but the group has no committed "
                    "offsets; they were reset or have expired. Use another application.id to start afresh"
                )
        else:
            whole = self._read_to >= self._target.sequence and (fetched is None or fetched.at_end)
        if whole:
            self._start_replay()
            return True
        self._check_deadline(
            f"progress was read up to sequence {self._read_to}, "
            f"the committed offsets name {self._target.sequence if self._target else 'none'}"
        )
        return False

    def _open_reader(self) -> LogReader:
        if self._reader is None:
            raise AssertionError("a task that reads has a reader")
        return self._reader

    def _read(self, record: object, where: str) -> None:
        if not isinstance(record, Commit | Act):
            raise StateError(f"{where}: {type(record).__name__} is no progress record")
        if isinstance(record, Act) and record.kind == RESUME and record.sequence <= self._read_to:
            return  # resumed twice
        if record.sequence != self._read_to + 1:
            raise StateError(f"{where}: sequence {record.sequence} follows {self._read_to}")
        self._read_to = record.sequence
        self._script.append(record)

    def _start_replay(self) -> None:
        stored = next((record for record in self._script if isinstance(record, Act)), None)
        settings = self._settings if stored is None else TaskSettings.from_json(stored.text)
        if stored is None:
            self._pending_acts.append(self._settings.to_json())
        self.task = Task(self.number, settings, (self.inputs[0].topic, self.inputs[1].topic))
        first = next((record for record in self._script if isinstance(record, Commit)), None)
        if first is not None:
            self.offsets = (first.examples_start, first.labels_start)
        self.stage = Stage.REPLAYING
        self._progress_at = self._clock.monotonic_s()

    # REPLAYING ------------------------------------------------------------------------------------------------------

    def replay(self, until_s: float) -> bool:
        """Re-process what the script and the fetched records allow, until this monotonic time; True when done.

        Raises:
            StateError: An input is gone, or the digest differs.
            ConfigurationError: The configuration changed in a way that a running application cannot take over.
        """
        while self._script:
            record = self._script[0]
            if isinstance(record, Act):
                self._replay_act(record)
            elif not self._replay_commit(record):
                self._check_deadline(
                    f"inputs were re-read up to {self.offsets}, the next range ends at "
                    f"{(record.examples_end, record.labels_end)}"
                )
                return False
            self._script.popleft()
            self._progress_at = self._clock.monotonic_s()
            if self._progress_at >= until_s:
                break
        if self._script:
            return False
        self._finish()
        return True

    def _replay_act(self, act: Act) -> None:
        if act.kind == RESUME:
            self.breaker.reset()
            self.stage = Stage.REPLAYING
        else:
            self._live_task().apply_settings(TaskSettings.from_json(act.text))
        self._point = Point(act.sequence, self._point.digest)

    def _replay_commit(self, commit: Commit) -> bool:
        ranges = (commit.examples_start, commit.examples_end, commit.labels_start, commit.labels_end)
        rows = [
            self._rows_of_range(side, start, end)
            for side, start, end in ((Side.EXAMPLES, *ranges[:2]), (Side.LABELS, *ranges[2:]))
        ]
        if rows[0] is None or rows[1] is None:
            return False
        outputs = self._live_task().step(self.waiting[0].take(rows[0]), self.waiting[1].take(rows[1]))
        digest = chain_digest(self._point.digest, ranges, outputs)
        if digest != commit.digest:
            raise StateError(
                f"task {self.number}: re-processing up to offsets {ranges[1]}/{ranges[3]} (sequence {commit.sequence}) "
                f"gave digest {digest.hex()[:16]}, committed was {commit.digest.hex()[:16]} by engine "
                f"{commit_engine(self._script)}; this is {__version__}"
            )
        self._point = Point(commit.sequence, digest)
        self.offsets = (commit.examples_end, commit.labels_end)
        self.replayed_records += rows[0] + rows[1]
        self.breaker.count(outputs.malformed)
        if commit.tripped:
            self.stage = Stage.TRIPPED
            self.problem = commit.tripped
        return True

    def _rows_of_range(self, side: Side, start: int, end: int) -> int | None:
        if start == end:
            return 0
        try:
            return self.waiting[side].rows_below(end)
        except LookupError:
            topic = self.inputs[side].topic
            raise StateError(
                f"{topic}[{self.number}] offset {end - 1} is gone; it is needed to rebuild the state"
            ) from None

    def _finish(self) -> None:
        if self._target is not None and self.offsets != self._goal:
            raise StateError(f"task {self.number}: progress ends at offsets {self.offsets}, committed are {self._goal}")
        if self.stage is Stage.TRIPPED:
            return
        self.go_live()

    def go_live(self) -> None:
        """Take new records, under the configuration in force.

        Raises:
            ConfigurationError: It differs from the recorded one in more than new streams.
        """
        self.close()
        task = self._live_task()
        if not self._pending_acts:
            changed = changes(task.settings, self._settings, task.stream_names)
            if changed.refused:
                raise ConfigurationError(changed.refused)
            if task.settings.to_json() != self._settings.to_json():
                self._pending_acts.append(self._settings.to_json())
                task.apply_settings(self._settings)
        self.problem = None
        self.stage = Stage.LIVE

    def look_for_resume(self) -> bool:
        """Whether a `resume` record came behind the tripped commit; then the task is live again."""
        fetched = self._open_reader().poll(PROGRESS_RECORDS_PER_POLL, 0.0)
        if fetched is None or not len(fetched.records):
            return False
        for value in fetched.records.values:
            record = codec.decode_one(value or b"")
            if isinstance(record, Act) and record.kind == RESUME and record.sequence == self._point.sequence + 1:
                self._replay_act(record)
                self.go_live()
                return True
        return False

    # LIVE -----------------------------------------------------------------------------------------------------------

    def step(self, rows: tuple[int, int]) -> Batch:
        """Carry the next records through the stages; the batch counts only once it is committed (`advance`)."""
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
        tripped = self.breaker.count(outputs.malformed)
        sequence = self._point.sequence + len(acts) + 1
        commit = Commit(sequence, *ranges, digest=digest, records=outputs.records, tripped=tripped)
        return Batch(outputs, acts, commit, ends)

    def advance(self, batch: Batch, open_reader: Callable[[], LogReader]) -> None:
        """The batch was committed."""
        self._pending_acts.clear()
        self._point = batch.point
        self.offsets = batch.offsets
        if batch.commit.tripped:
            self.stage = Stage.TRIPPED
            self.problem = batch.commit.tripped
            self._reader = open_reader()

    def _live_task(self) -> Task:
        if self.task is None:
            raise AssertionError("a task is built before records are processed")
        return self.task

    def _check_deadline(self, state: str) -> None:
        if self._clock.monotonic_s() - self._progress_at > self._deadline_s:
            raise StateError(f"task {self.number}: no progress for {self._deadline_s:g} s while restoring: {state}")


def commit_engine(script: Sequence[Commit | Act] | deque[Commit | Act]) -> str:
    """The engine version that the nearest act names."""
    return next((record.engine for record in script if isinstance(record, Act)), "of the first configuration record")
