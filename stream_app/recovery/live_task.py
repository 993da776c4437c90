"""A task that takes new records: its batches, its snapshots, and what each transaction must write for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from stream_app import __version__
from stream_app.backends.base import Clock, LogReader, TopicPartition
from stream_app.config import changes
from stream_app.errors import ConfigurationError
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.outputs import OUTPUT_TOPICS, Outputs, chain_digest
from stream_app.pipeline.transaction_bounds import Room
from stream_app.record_columns import OutputRecords
from stream_app.records import ADOPT, CONFIGURATION, RESUME, Act, Commit, Reason, Side
from stream_app.recovery.commit_point import Anchor, CommitPoint, progress_record
from stream_app.recovery.restore_request import Logs, RestoredState, RestoreRequest, Unrecorded
from stream_app.serialization.wire_format import new_schema_ids
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.parts import in_parts

RESUME_RECORDS_PER_POLL = 1_000
"""Records of progress have a few hundred bytes: a poll of this many takes well under a second."""


class BatchCounts(NamedTuple):
    """How many records a batch took of each input (examples, labels), and how many it publishes, by output topic."""

    inputs: tuple[int, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProcessedBatch:
    """A batch of new records that was processed and is ready to be committed.

    Attributes:
        outputs: The records that it publishes.
        acts: The acts that are written to progress before its commit record.
        commit: Its commit record.
        offsets: The input offsets (examples, labels) after it.
    """

    outputs: Outputs
    acts: tuple[Act, ...]
    commit: Commit
    offsets: tuple[int, int]

    @property
    def inputs(self) -> int:
        """The number of input records that it took."""
        return sum(self.counts.inputs)

    @property
    def counts(self) -> BatchCounts:
        """The numbers of its records."""
        examples, labels = map(len, self.outputs.unreadable)
        return BatchCounts((examples, labels), {topic: len(rows) for topic, rows in self.outputs.topics.items()})

    @property
    def point(self) -> CommitPoint:
        """The point that its commit record commits."""
        return CommitPoint(self.commit.sequence, self.commit.digest)


class ComputedBatch(NamedTuple):
    """A batch whose outputs are computed, while the batch before it may not be committed yet.

    Attributes:
        outputs: The records that it publishes.
        ends: The input offsets (examples, labels) after it; None for an input of which it has no record.
        seconds: How long it took.
    """

    outputs: Outputs
    ends: tuple[int | None, int | None]
    seconds: float

    def ends_after(self, starts: tuple[int, int]) -> tuple[int, int]:
        """Return the input offsets after it, if it begins at these offsets."""
        examples, labels = self.ends
        return starts[0] if examples is None else examples, starts[1] if labels is None else labels


class _PendingAct(NamedTuple):
    kind: str
    text: str


class LiveTask:
    """A task whose state is what its last owner committed. Unless the breaker stopped it, it takes new records.

    Args:
        request: The task, its settings and its identity.
        state: The restored state.
        logs: The task's own topics.
        clock: A monotonic clock, to measure the cost of processing.
        unrecorded: What is to be recorded before new records are taken.
    """

    def __init__(
        self, request: RestoreRequest, state: RestoredState, logs: Logs, clock: Clock, unrecorded: Unrecorded
    ) -> None:
        self.task = state.task
        self.position = state.position
        self.unnamed_ends: Mapping[TopicPartition, int] | None = None
        self._request = request
        self._waiting = state.waiting
        self._breaker = state.breaker
        self._snapshots = state.snapshots
        self._logs = logs
        self._clock = clock
        self._unrecorded = unrecorded
        self._foreign = unrecorded.foreign
        self._pending_acts = [_PendingAct(CONFIGURATION, request.settings.to_json())] if unrecorded.is_new else []
        self._is_ahead = False  # a batch is computed and not sealed
        self._resumes: LogReader | None = None  # open while the breaker has stopped the task

    @property
    def is_tripped(self) -> bool:
        """Whether the breaker stopped the task."""
        return self.position.tripped is not None

    @property
    def needed_progress(self) -> int | None:
        """The first offset of progress that a restore may need; None where it is not known."""
        return min((snapshot.progress_offset for snapshot in self._snapshots.named), default=None)

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of the state and of a snapshot that is being written."""
        return self.task.allocated_bytes + self._snapshots.allocated_bytes

    @property
    def unsaved_work_s(self) -> float:
        """The processing time since the newest snapshot was taken."""
        return self._snapshots.worked_s

    def model_digest(self) -> str:
        """Return the SHA-256, in hexadecimal, of the state of all models of this task."""
        return sha256(repr(sorted(self.task.model_digests().items())).encode()).hexdigest()

    def close(self) -> None:
        """Release the reader."""
        if self._resumes is not None:
            self._resumes.close()
            self._resumes = None

    # Starting ---------------------------------------------------------------------------------------------------------

    def start(self) -> tuple[str, ...]:
        """Take new records from now on, the next batch under the configuration in force.

        Returns:
            What that configuration changes, a line for each change.

        Raises:
            ConfigurationError: It differs from the recorded one in a way that a task with state cannot take over.
        """
        self.close()
        lines: tuple[str, ...] = ()
        if not any(act.kind == CONFIGURATION for act in self._pending_acts):
            settings, recorded = self._request.settings.with_schema_ids(self.task.settings.schema_ids), self._unrecorded
            self._request = replace(self._request, settings=settings)
            changed = changes(self.task.settings, settings, self.task.running())
            if changed.refused:
                raise ConfigurationError(changed.refused)
            is_same = self.task.settings.to_json() == settings.to_json()
            if not is_same or (recorded.rules, recorded.partitions) != self._in_force:
                self._pending_acts.append(_PendingAct(CONFIGURATION, settings.to_json()))
                rules = max(1, recorded.rules)
                new_rules = (f"rules: {rules} -> {RULES}",) if rules != RULES else ()
                lines = changed.taken_over + new_rules
        if self._foreign:
            self._pending_acts.append(_PendingAct(ADOPT, json.dumps(dict(self._foreign))))
            self._foreign = {}
        return lines

    def look_for_resume(self) -> bool:
        """Read what was written to progress since the breaker stopped the task; start again if an operator resumed it.

        Returns:
            Whether the task was resumed.

        Raises:
            StateError: Progress holds something that is not a record of progress.
            ConfigurationError: As `start`.
        """
        if self._resumes is None:
            self._resumes = self._logs.progress()
            self._resumes.seek(self.position.anchor.progress_offset)
        fetched = self._resumes.poll(RESUME_RECORDS_PER_POLL, 0.0)
        if fetched is None:
            return False
        point, anchor = self.position.point, self.position.anchor
        for offset, value in zip(fetched.records.offsets.tolist(), fetched.records.values, strict=True):
            record = progress_record(value, f"progress[{self._request.number}] offset {offset}")
            if not isinstance(record, Act) or record.kind != RESUME:
                continue
            if anchor.sequence < record.sequence <= point.sequence + 1:
                self._breaker.reset()
                self.position.tripped = None
                self.position.point = CommitPoint(max(record.sequence, point.sequence), point.digest)
                self.start()
                return True
        return False

    # Batches ----------------------------------------------------------------------------------------------------------

    def compute(self, rows: tuple[int, int], room: Room, *, must: bool) -> ComputedBatch | None:
        """Process the next records; the batch counts only once it is sealed and committed (`seal`, `advance`).

        A changed configuration takes effect with the batch before which it is recorded.

        Args:
            rows: How many examples and labels to take; fewer are taken if their outputs could become too large.
            room: What the transaction still has room for.
            must: Whether to take at least one record, however large its outputs become.

        Returns:
            The batch, or None if no record fits.
        """
        start_s = self._clock.monotonic_s()
        if self._pending_acts and self.task.settings != self._request.settings:
            if not must:
                return None  # an applied configuration must be recorded, and only a batch with `must` is certain
            if self.task.apply_settings(self._request.settings):
                self._snapshots.forget_older()
        opened = self._open(rows, room, must=must)
        if opened is None:
            return None
        self._is_ahead = True
        outputs = self.task.run(opened)
        examples, labels = (int(side.offsets[-1]) + 1 if len(side) else None for side in opened.raw)
        return ComputedBatch(outputs, (examples, labels), self._clock.monotonic_s() - start_s)

    def seal(self, computed: ComputedBatch) -> ProcessedBatch:
        """Return a computed batch with its commit record, which continues the batch that was committed last."""
        self._is_ahead = False
        position, outputs = self.position, computed.outputs
        ends = computed.ends_after(position.offsets)
        ranges = (position.offsets[0], ends[0], position.offsets[1], ends[1])
        acts = self._acts()
        self._snapshots.worked(computed.seconds)
        tripped = self._breaker.count(outputs.unreadable)
        examples_id, labels_id = self._request.identity.topic_ids
        commit = Commit(
            position.point.sequence + len(acts) + 1,
            *ranges,
            digest=chain_digest(position.point.digest, ranges, outputs),
            records=outputs.records,
            tripped=tripped,
            transactional_id=self._request.writer.transactional_id,
            rules=RULES,
            partitions=self._request.identity.partitions,
            examples_topic_id=examples_id,
            labels_topic_id=labels_id,
            **self._windows(outputs),
        )
        return ProcessedBatch(outputs, acts, commit, ends)

    def can_continue(self, batch: ProcessedBatch) -> bool:
        """Say whether the next batch may be computed before this one is committed: nothing happens between the two."""
        return not self._pending_acts and batch.commit.tripped is None and not self._snapshots.is_due()

    def _acts(self) -> tuple[Act, ...]:
        """Return the acts that the next batch records, cut into parts, with the next sequences."""
        acts: tuple[Act, ...] = ()
        for kind, text in self._pending_acts:
            in_force = self._in_force if kind == CONFIGURATION else ()
            sequence = self.position.point.sequence + 1 + len(acts)
            acts += in_parts(Act(sequence, kind, __version__, text, *in_force))
        return acts

    def _windows(self, outputs: Outputs) -> dict[str, Any]:
        """Return where the records of a batch begin in each output partition, and their counts: fields of `Commit`."""
        fields: dict[str, Any] = {}
        for topic in OUTPUT_TOPICS:
            name = topic.replace("-", "_")
            fields[f"{name}_start"] = self.position.output_ends[topic]
            fields[f"{name}_records"] = len(outputs.topics[topic])
        return fields

    def _open(self, rows: tuple[int, int], room: Room, *, must: bool) -> InputBatch | None:
        """Take as many of the next records as fit; the others stay in the buffers."""
        taken = self._waiting[0].take(rows[0]), self._waiting[1].take(rows[1])
        opened = self.task.open(*taken)
        is_known = self._knows_schemas(opened)
        fitting = self.task.fitting(opened, room) if is_known else (0, 0)
        if must and is_known and not sum(fitting):
            fitting = (1, 0) if opened.merged.sides[0] == Side.EXAMPLES else (0, 1)
        if fitting == rows:
            return opened
        for waiting, records, count in zip(self._waiting, taken, fitting, strict=True):
            waiting.put_back(records.rows(count, len(records)))
        if not sum(fitting):
            return None
        examples, labels = (records.rows(0, count) for records, count in zip(taken, fitting, strict=True))
        return self.task.open(examples, labels)

    def _knows_schemas(self, opened: InputBatch) -> bool:
        """Say whether a batch has no new id of our schemas; new ids are recorded first: a replay asks no registry."""
        refused = opened.refused(Reason.WRONG_SCHEMA)
        ids = new_schema_ids(refused, self.task.wire_format, self._request.schemas.names_of)
        if ids:
            self._request = replace(self._request, settings=self._request.settings.with_schema_ids(ids))
            others = [act for act in self._pending_acts if act.kind != CONFIGURATION]
            self._pending_acts = [_PendingAct(CONFIGURATION, self._request.settings.to_json()), *others]
        return ids is not None and not ids

    @property
    def _in_force(self) -> tuple[int, int]:
        """The rules and the number of partitions that are recorded from now on."""
        return RULES, self._request.identity.partitions

    # Transactions -----------------------------------------------------------------------------------------------------

    @property
    def writes_snapshot(self) -> bool:
        """Whether transactions without a batch are wanted, to write a snapshot or to name it."""
        return not self.is_tripped and self._snapshots.is_busy

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being written, or waits until it can be named."""
        return self.writes_snapshot or self.unnamed_ends is not None

    def snapshot_records(self, room: int) -> OutputRecords:
        """Return the records that the next transaction has to write to the changelog, up to about `room` bytes."""
        return self._snapshots.next_records(room)

    @property
    def snapshot_offsets(self) -> list[int]:
        """The list into which the caller writes the offsets of these records."""
        return self._snapshots.offsets

    def metadata(self, batch: ProcessedBatch | None) -> str:
        """Return the metadata of the offsets that the next transaction commits, with or without a batch."""
        if batch is None and self.position.anchor.sequence < 0:
            raise AssertionError("a transaction without a batch comes after a commit record")
        point = batch.point if batch else self.position.anchor.point
        return point.metadata(self._snapshots.snapshots, self._request.identity.topic_ids)

    def advance(
        self, batch: ProcessedBatch | None, progress_offsets: Sequence[int], written: Mapping[TopicPartition, int]
    ) -> int | None:
        """Take note that the transaction was committed.

        Args:
            batch: Its batch, if it had one.
            progress_offsets: The offsets of its records of progress.
            written: The ends of what was written to the task's partitions and cannot be read yet.

        Returns:
            The sequence of the snapshot that this transaction completed; None where it completed no snapshot.
        """
        if batch is not None:
            if batch.acts:  # a batch that was computed meanwhile may have found a new schema id
                self._pending_acts.clear()
            self.position.point = batch.point
            self.position.offsets = batch.offsets
            self.position.anchor = Anchor(*batch.point, batch.offsets, progress_offsets[-1])
            self.position.tripped = batch.commit.tripped
        complete = self._snapshots.committed()
        if complete is not None:
            self.unnamed_ends = dict(written)
        return complete.sequence if complete else None

    def name_snapshot(self) -> None:
        """Let the next transaction name the newest snapshot, because all that it needs can be read."""
        self.unnamed_ends = None
        self._snapshots.name()

    def begin_snapshot(self, *, ending: bool = False) -> int | None:
        """Take a snapshot if one is due; with `ending`, if there is anything to save.

        Returns:
            The bytes that will be written; None where no snapshot was taken.
        """
        position = self.position
        is_at_anchor = position.anchor.sequence >= 0 and position.point == position.anchor.point
        if self.is_tripped or not is_at_anchor or not self._snapshots.is_due(ending=ending):
            return None
        if self._is_ahead:
            raise AssertionError("a snapshot holds the state after a commit record, and a batch is computed already")
        return self._snapshots.begin(self.task, position.anchor, self._breaker.counts, self._clock.monotonic_s)
