"""A task that takes new records: its batches, its snapshots, and what each transaction must write for it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import starmap
from typing import Any, NamedTuple

from stream_app import __version__
from stream_app.backends.base import Clock, TopicPartition
from stream_app.config import changes
from stream_app.errors import ConfigurationError
from stream_app.live.position import Anchor, CommitPoint
from stream_app.live.restored_state import RestoredState, Unrecorded
from stream_app.live.task_request import TaskRequest
from stream_app.pipeline.batch import InputBatch
from stream_app.pipeline.outputs import OUTPUT_TOPICS, Outputs, chain_digest
from stream_app.pipeline.transaction_bounds import Room
from stream_app.progress_records import ADOPT, CONFIGURATION, SNAPSHOT, STOP, Act, Commit
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.records import Reason, Side
from stream_app.serialization.registered_schemas import new_schemas, size_of
from stream_app.snapshot.format import snapshots_text
from stream_app.snapshot.identity import RULES
from stream_app.snapshot.parts import in_parts
from stream_app.snapshot.stops import Stop, stopped_text


class BatchCounts(NamedTuple):
    """How many records and tombstones a batch took of each input (examples, labels), and its outputs, by topic."""

    inputs: tuple[int, int]
    tombstones: tuple[int, int]
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
        examples, labels = self.outputs.judged
        tombstones = examples.tombstones, labels.tombstones
        return BatchCounts(
            (len(examples), len(labels)), tombstones, {topic: len(rows) for topic, rows in self.outputs.topics.items()}
        )

    @property
    def point(self) -> CommitPoint:
        """The point that its commit record commits."""
        return CommitPoint(self.commit.sequence, self.commit.digest)


class ComputedBatch(NamedTuple):
    """A batch whose outputs are computed, while the batch before it may not be committed yet.

    Attributes:
        outputs: The records that it publishes.
        inputs: Its records of examples and labels.
        ends: The positions of the inputs after it; -1: nothing was fetched.
        seconds: How long it took.
    """

    outputs: Outputs
    inputs: tuple[RawRecords, RawRecords]
    ends: tuple[int, int]
    seconds: float


class _PendingAct(NamedTuple):
    kind: str
    text: str


class LiveTask:
    """A task whose state is what its last owner committed, and which takes new records.

    Args:
        request: The task, its settings and its identity.
        state: The restored state.
        clock: A monotonic clock, to measure the cost of processing.
        unrecorded: What is to be recorded before new records are taken.

    Attributes:
        task: The models and joins.
        position: Where that state is in inputs, progress and outputs.
        snapshots: Says when a snapshot is due, and writes it.
        unnamed_ends: What must be readable before the newest snapshot is named; None where no snapshot waits for its
            name.
    """

    def __init__(self, request: TaskRequest, state: RestoredState, clock: Clock, unrecorded: Unrecorded) -> None:
        self.task = state.task
        self.position = state.position
        self.unnamed_ends: Mapping[TopicPartition, int] | None = None
        self._request = request
        self._waiting = state.waiting
        self._breaker = state.breaker
        self.snapshots = state.snapshots
        self._clock = clock
        self._unrecorded = unrecorded
        self._foreign = unrecorded.foreign
        self._pending_acts = [_PendingAct(CONFIGURATION, request.settings.to_json())] if unrecorded.is_new else []
        self._is_ahead = False  # a batch is computed and not sealed

    @property
    def needed_progress(self) -> int | None:
        """The first offset of progress that a restore may need; None where it is not known."""
        return min((snapshot.progress_offset for snapshot in self.snapshots.named), default=None)

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of the state and of a snapshot that is being written."""
        return self.task.allocated_bytes + self.snapshots.allocated_bytes

    def model_digest(self) -> str:
        """Return the SHA-256, in hexadecimal, of the state of all models of this task."""
        return sha256(repr(sorted(self.task.model_digests().items())).encode()).hexdigest()

    # Starting ---------------------------------------------------------------------------------------------------------

    def start(self) -> tuple[str, ...]:
        """Take new records from now on, the next batch under the configuration in force.

        Returns:
            What that configuration changes, a line for each change.

        Raises:
            ConfigurationError: It differs from the recorded one in a way that a task with state cannot take over.
        """
        lines: tuple[str, ...] = ()
        if not any(act.kind == CONFIGURATION for act in self._pending_acts):
            former, recorded = self.task.settings, self._unrecorded
            settings = self._request.settings.with_schema_ids(former.schema_ids, former.writer_schemas)
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

    # Batches ----------------------------------------------------------------------------------------------------------

    @property
    def _positions(self) -> tuple[int, int]:
        return self._waiting[0].position, self._waiting[1].position

    @property
    def has_passed_over(self) -> bool:
        """Whether no record waits, but the inputs were read beyond the last commit: over markers and aborted records.

        A batch without records takes note of that. Otherwise a restore, after retention has deleted everything, would
        take them for records that nobody has processed. What a reset has left is closed by a record.
        """
        is_empty = not any(map(len, self._waiting)) and not self.task.reset_records
        return is_empty and any(map(int.__gt__, self._positions, self.position.offsets))

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
            self.position.has_changed = True
            self.snapshots.draft()
            self.task.apply_settings(self._request.settings)
        opened = self._open(rows, room, must=must)
        if opened is None:
            return None
        self._is_ahead = True
        for stop in starmap(Stop, self._breaker.take_due().items()):
            self._pending_acts.append(_PendingAct(STOP, stop.text))
            self.task.apply(Act(0, STOP, __version__, stop.text))
        self.snapshots.keep(self.task.pool.changing(opened))
        outputs = self.task.run(opened)
        return ComputedBatch(outputs, opened.raw, self._positions, self._clock.monotonic_s() - start_s)

    def seal(self, computed: ComputedBatch) -> ProcessedBatch:
        """Return a computed batch with its commit record, which continues the batch that was committed last."""
        self._is_ahead = False
        position, outputs = self.position, computed.outputs
        starts = position.offsets
        ends = max(starts[0], computed.ends[0]), max(starts[1], computed.ends[1])
        ranges = (starts[0], ends[0], starts[1], ends[1])
        acts = self._acts()
        self.snapshots.worked(computed.seconds, computed.inputs, self._clock.monotonic_s())
        if outputs.erased:
            self.snapshots.purge()
        self._breaker.count(outputs.judged, outputs.stream_names)
        examples_id, labels_id = self._request.identity.topic_ids
        commit = Commit(
            position.point.sequence + len(acts) + 1,
            *ranges,
            digest=chain_digest(position.point.digest, ranges, outputs),
            records=outputs.records,
            transactional_id=self._request.writer.transactional_id,
            rules=RULES,
            partitions=self._request.identity.partitions,
            examples_topic_id=examples_id,
            labels_topic_id=labels_id,
            stopped_streams=len(outputs.stopped),
            stopped=stopped_text(outputs.stopped),
            **self._windows(outputs),
        )
        return ProcessedBatch(outputs, acts, commit, ends)

    @property
    def can_continue(self) -> bool:
        """Whether the next batch may be computed before the sealed one is committed: nothing happens between them."""
        return not (self._pending_acts or self._breaker.due or self.snapshots.is_due())

    def _acts(self) -> tuple[Act, ...]:
        """Return the acts that the next batch records, cut into parts, with the next sequences."""
        acts: tuple[Act, ...] = ()
        for kind, text in self._pending_acts:
            in_force = self._in_force if kind == CONFIGURATION else ()
            sequence = self.position.point.sequence + 1 + len(acts)
            acts += in_parts(Act(sequence, kind, __version__, text, *in_force))
        return (*acts, *self.snapshot_acts(len(acts)))

    def snapshot_acts(self, after: int = 0) -> tuple[Act, ...]:
        """Return the act that names a snapshot, if a snapshot is to be named, after this many other acts.

        It is all that a transaction without a batch writes to progress.
        """
        snapshots = self.snapshots.unrecorded
        if not snapshots:
            return ()
        sequence = self.position.point.sequence + 1 + after
        return (Act(sequence, SNAPSHOT, __version__, snapshots_text(snapshots)),)

    def _windows(self, outputs: Outputs) -> dict[str, Any]:
        """Return where the records of a batch begin in each output partition, and their counts: fields of `Commit`."""
        fields: dict[str, Any] = {}
        for topic in OUTPUT_TOPICS:
            name = topic.replace("-", "_")
            fields[f"{name}_start"] = self.position.output_ends[topic]
            fields[f"{name}_records"] = len(outputs.topics[topic])
            fields[f"{name}_topic_id"] = self._request.identity.output_ids.get(topic, "")
        return fields

    def _open(self, rows: tuple[int, int], room: Room, *, must: bool) -> InputBatch | None:
        """Take as many of the next records as fit; the others stay in the buffers."""
        taken = self._waiting[0].take(rows[0]), self._waiting[1].take(rows[1])
        opened = self.task.open(*taken)
        is_known = self._knows_schemas(opened)
        fitting = self.task.fitting(opened, room) if is_known else (0, 0)
        if must and is_known and any(rows) and not any(fitting):
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
        """Say whether a batch has no new schema id; new ids are recorded first: a restore asks no registry."""
        refused, settings = opened.refused(Reason.WRONG_SCHEMA), self._request.settings
        kept_bytes = size_of(settings.writer_schemas)
        new = new_schemas(refused, self.task.wire_format, self._request.schemas.registered, kept_bytes)
        if new is None:
            return False
        if new.ids or new.writers:
            self._request = replace(self._request, settings=settings.with_schema_ids(*new))
            others = [act for act in self._pending_acts if act.kind != CONFIGURATION]
            self._pending_acts = [_PendingAct(CONFIGURATION, self._request.settings.to_json()), *others]
        return not (new.ids or new.writers)

    @property
    def _in_force(self) -> tuple[int, int]:
        """The rules and the number of partitions that are recorded from now on."""
        return RULES, self._request.identity.partitions

    # Transactions -----------------------------------------------------------------------------------------------------

    @property
    def writes_snapshot(self) -> bool:
        """Whether transactions without a batch are wanted, to write a snapshot or to name it."""
        return self.snapshots.is_busy

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being written, or waits until it can be named."""
        return self.writes_snapshot or self.unnamed_ends is not None

    def snapshot_records(self, room: int) -> OutputRecords:
        """Return the records that the next transaction has to write to the changelog, up to about `room` bytes."""
        return self.snapshots.next_records(room)

    @property
    def snapshot_offsets(self) -> list[int]:
        """The list into which the caller writes the offsets of these records."""
        return self.snapshots.offsets

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
            if len(batch.acts) > len(self.snapshot_acts()):  # a batch that was computed meanwhile may have found an id
                self._pending_acts.clear()
            self.position.move_to(Anchor(*batch.point, batch.offsets, progress_offsets[-1]))
            self.snapshots.recorded(progress_offsets[0], self._clock.monotonic_s())
        elif progress_offsets:
            point = self.position.point
            self.position.point = CommitPoint(point.sequence + len(progress_offsets), point.digest)
        complete = self.snapshots.committed()
        if complete is not None:
            self.unnamed_ends = dict(written)
        return complete.sequence if complete else None

    def name_snapshot(self) -> None:
        """Let the next transaction name the newest snapshot, because all that it needs can be read."""
        self.unnamed_ends = None
        self.snapshots.name()

    def take_snapshot(self, slice_s: float, *, ending: bool = False) -> int | None:
        """Begin a snapshot if one is due, or continue the one that is being written.

        Args:
            slice_s: The time that this may take; one stream is drafted in any case.
            ending: Whether to begin one if there is anything to save.

        Returns:
            The bytes of all new blobs, if this completes the draft; otherwise None.
        """
        position = self.position
        is_at_anchor = position.anchor.progress_offset >= 0 and not position.has_changed
        if is_at_anchor and self.snapshots.is_due(ending=ending):
            if self._is_ahead:
                raise AssertionError(
                    "a snapshot holds the state after a commit record, and a batch is computed already"
                )
            self.snapshots.begin(self.task, position.anchor, self._breaker.counts)
        return self.snapshots.draft(slice_s)
