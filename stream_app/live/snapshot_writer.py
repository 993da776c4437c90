"""Write snapshots to the changelog topic. The writer returns what a transaction has to carry; the caller sends it.

A snapshot is written along with the task's transactions: its chunks first, a bounded number of bytes in each
transaction, then the manifest, which holds the offsets of the chunks. Once the whole snapshot can be read, and all
outputs before it, a transaction writes the act `snapshot` to progress, which names it. Until then the two snapshots
before it stay in use. Nothing waits for a snapshot, and an aborted transaction discards it together with the task.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stream_app import __version__
from stream_app.live.position import Anchor
from stream_app.live.snapshot_draft import SnapshotDraft, SnapshotInProgress
from stream_app.live.used_retention import Needs, PartitionRetention, are_gone, largest_used
from stream_app.pipeline.task import Task
from stream_app.record_columns import OutputRecords, RawRecords
from stream_app.snapshot.chunk_records import chunks_with, records_of, tombstones_of
from stream_app.snapshot.format import (
    FORMAT,
    BreakerCounts,
    Location,
    Manifest,
    Snapshot,
    checksum_of,
    chunks_of,
    snapshot_key,
)
from stream_app.snapshot.kept_snapshots import KeptSnapshots, key_chunks
from stream_app.snapshot.needed_records import NeededRecords, Now
from stream_app.snapshot.segments import Blob, Book

TRANSACTION_BYTES = 8_000_000
"""Most bytes of snapshots in one transaction: a slow disk writes them in 50 ms, so they delay no round by more."""

TRANSACTION_RECORDS = 10_000
"""Most records of snapshots in one transaction: the chunks of a thousand quiet streams are small."""

COST_SHARE = 20
"""Snapshots may cost 1 / 20 of the time: an expensive snapshot is taken less often."""

_LONGEST_STEP_S = 10.0
"""The longest time that a step of drafting counts. The first draft of a stream with five million pending examples takes
4 s; in a longer step the process was frozen, which is no cost."""

RETENTION_SHARE = 0.25
"""A snapshot is taken when the oldest record that a restore needs has used this share of its topic's retention. So the
snapshot before it can be loaded as well, and an outage may last for half of the retention."""

RETENTION_INTERVAL_S = 10.0
"""Least time between two such snapshots: records with old event times may be deleted as soon as they are processed. A
busy task takes snapshots more often."""

_IDLE_INTERVAL_S = 60.0
"""Least time between a snapshot and one of an idle task: a stream may have a record every few seconds."""

_PROGRESS_RECORD_BYTES = 500
"""Approximate size of a record of progress."""

_PURGES = 3
"""Snapshots that a purge takes: the second replaces the last snapshot that restores would still load, and the third
writes the tombstones of what only that one lists."""

_SEND_BYTES_PER_S = 100e6
"""Approximate throughput of a client and a broker on the same two cores: the cost of sending a snapshot."""


class SnapshotTimes(NamedTuple):
    """When snapshots are taken.

    Attributes:
        after_s: Seconds of processing that a restore would have to repeat before a snapshot is taken; with 0, the next
            snapshot is taken as soon as the last one is whole.
        idle_s: Seconds without a new record after which everything that is not saved is saved.
    """

    after_s: float
    idle_s: float


class SnapshotWriter:
    """The writer of one task's snapshots; it returns what the next transaction of the task has to carry.

    Args:
        partition: The number of the task.
        times: When snapshots are taken.
        kept: What the changelog has of the task; empty for a new task.
        seconds: A monotonic clock.

    Attributes:
        snapshots: The newest snapshot that is whole and named, and the one before it.
        worked_s: Seconds of processing since the newest snapshot was taken.
        has_purged: Whether the snapshot that was completed last has ended a purge.
    """

    def __init__(self, partition: int, times: SnapshotTimes, kept: KeptSnapshots, seconds: Callable[[], float]) -> None:
        self.snapshots = kept.snapshots
        self._partition = partition
        self._times = times
        self._seconds = seconds
        self._book = kept.book
        self._listings = kept.listings
        self._garbage = dict(kept.garbage)
        self.worked_s = 0.0
        self._has_worked = False
        self._worked_at_s = self._taken_at_s = -math.inf
        self._unsaved: Needs = [None, None, None]  # since the newest snapshot was taken
        self._unnamed_needs: Needs | None = None  # since the one before it, while the newest cannot be loaded
        self._is_urgent = False
        self._purges = kept.purges
        self.has_purged = self._ends_purge = False
        self._cost_s = 0.0
        self._manifest_bytes = 0
        self._writing: SnapshotInProgress | None = None
        self._whole: Snapshot | None = None
        self._unnamed = False

    @property
    def is_busy(self) -> bool:
        """Whether transactions without new records are wanted, to write a snapshot or to name it."""
        return self._writing is not None or self._unnamed

    @property
    def named(self) -> tuple[Snapshot, ...]:
        """The snapshots that progress names; empty while the act that names the newest is outstanding."""
        return () if self._unnamed else self.snapshots

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record of progress, while no snapshot takes its place; None before and after."""
        first = self._unsaved[-1]
        is_first = not self.snapshots and self._writing is None and self._whole is None
        return first.offset if is_first and first is not None else None

    @property
    def unrecorded(self) -> tuple[Snapshot, ...]:
        """The snapshots that the next transaction has to name in progress; empty if there is nothing new."""
        return self.snapshots if self._unnamed else ()

    @property
    def offsets(self) -> list[int]:
        """The list into which the caller writes the offsets of this transaction's snapshot records."""
        return self._writing.offsets if self._writing else []

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of the snapshot that is being written: its bytes, and the records cut from them."""
        if self._writing is None:
            return 0
        return self._writing.new_bytes + sum(len(chunk.value or b"") for chunk in self._writing.queue)

    def purge(self) -> None:
        """Let as many snapshots follow one another as it takes until the changelog has nothing of older ones."""
        self._purges = _PURGES

    def lose(self) -> None:
        """Forget all snapshots, because the changelog was deleted: the next one lists nothing of them, and is due."""
        self.snapshots, self._listings, self._garbage = (), (), {}
        self._book = Book()
        self._writing = self._whole = None
        self._unnamed = False
        self._has_worked, self.worked_s = True, math.inf

    def worked(self, seconds: float, inputs: Sequence[RawRecords], now_s: float) -> None:
        """Count processing that a restore would have to repeat.

        Args:
            seconds: How long it took.
            inputs: The records of examples and labels that were processed.
            now_s: The monotonic time.
        """
        self.worked_s += seconds
        self._has_worked = True
        self._worked_at_s = now_s
        for side, records in enumerate(inputs):
            before, new = self._unsaved[side], NeededRecords.of(records, now_s)
            if before is None:
                self._unsaved[side] = new
            elif new is not None:
                before.add(new)

    def recorded(self, offset: int, now_s: float, time_ms: int = -1) -> None:
        """Note that progress has a record at this offset; a restore without a newer snapshot begins at the first one.

        Args:
            offset: The offset of the record.
            now_s: The monotonic time.
            time_ms: The timestamp of the record; negative: unknown.
        """
        if self._unsaved[-1] is None:
            self._unsaved[-1] = NeededRecords(offset, time_ms, now_s, 1, _PROGRESS_RECORD_BYTES)

    def look(self, logs: Sequence[PartitionRetention], now: Now) -> float:
        """Find out whether a snapshot is urgent: the broker deletes what a restore needs, or the task is idle.

        What was processed since the newest snapshot counts here, as a snapshot that is being written saves the rest.

        Args:
            logs: The partitions of examples, labels and progress.
            now: The present.

        Returns:
            The share of its topic's retention that the oldest record that a restore needs has used; at least 1 if a
            record was deleted.
        """
        is_old = (
            largest_used(self._unsaved, logs, now) >= RETENTION_SHARE
            and now.s >= self._taken_at_s + RETENTION_INTERVAL_S
        )
        is_gone = are_gone(self._unsaved, logs)
        since_s = max(self._worked_at_s + self._times.idle_s, self._taken_at_s + _IDLE_INTERVAL_S)
        is_idle = now.s >= since_s
        self._is_urgent = (is_old or is_gone or is_idle) and now.s >= self._taken_at_s + COST_SHARE * self._cost_s
        needs = self._unnamed_needs or self._unsaved
        return max(largest_used(needs, logs, now), 1.0 if are_gone(needs, logs) else 0.0)

    def is_due(self, *, ending: bool = False) -> bool:
        """Say whether to take a snapshot now; with `ending`, whether there is anything to save."""
        if self._writing is not None or self._whole is not None:
            return False
        if self._purges:
            return True
        if self._has_worked and (ending or self._is_urgent or not self._times.after_s):
            return True
        return self._has_worked and self.worked_s >= max(self._times.after_s, COST_SHARE * self._cost_s)

    def begin(self, task: Task, anchor: Anchor, malformed: BreakerCounts) -> None:
        """Begin a snapshot of the task as it is now; `draft` continues it.

        Args:
            task: The task; it has processed everything up to the anchor, and nothing after it.
            anchor: The newest commit record.
            malformed: The breaker's counts.
        """
        start_s = self._seconds()
        self._ends_purge = self._purges == 1
        self._purges = max(0, self._purges - 1)
        key = snapshot_key(anchor.sequence, self._purges)
        draft = SnapshotDraft(self._book, task.take_states(), key, task.core_forms.pack)
        queue = deque(tombstones_of(self._garbage))
        self._garbage = {}
        text, stopped = task.settings.to_json(), dict(task.stopped)
        self._writing = SnapshotInProgress(
            anchor, text, malformed, stopped, task.partitions, self._purges, draft, queue
        )
        self.worked_s, self._has_worked, self._is_urgent = 0.0, False, False
        self._taken_at_s = start_s
        self._unnamed_needs = self._unnamed_needs or self._unsaved
        anchored = NeededRecords(anchor.progress_offset, -1, start_s, 1, _PROGRESS_RECORD_BYTES)
        self._unsaved = [None, None, anchored]
        self._cost_s = self._step_s(start_s) + self._manifest_bytes / _SEND_BYTES_PER_S

    def keep(self, names: Iterable[str]) -> None:
        """Draft these streams before they change, if a snapshot needs them as they are."""
        writing = self._writing
        if writing is not None and not writing.draft.is_complete:
            start_s = self._seconds()
            self._add(writing, writing.draft.keep(names), start_s)

    def draft(self, slice_s: float = math.inf) -> int | None:
        """Draft more streams of the snapshot that is being written.

        Args:
            slice_s: The time that this may take; one stream is drafted in any case.

        Returns:
            The bytes of all new blobs, if this completes the draft; otherwise None.
        """
        writing = self._writing
        if writing is None or writing.is_drafted:
            return None
        start_s = self._seconds()
        self._add(writing, writing.draft.some(lambda: self._seconds() - start_s < slice_s), start_s)
        if not writing.draft.is_complete:
            return None
        writing.is_drafted = True
        if not writing.queue and not writing.sent:
            self._write_manifest(writing)
        return writing.new_bytes

    def _add(self, writing: SnapshotInProgress, blobs: Sequence[Blob], start_s: float) -> None:
        """Let blobs be written; they were drafted since a time."""
        size = sum(len(blob.content) for blob in blobs)
        for blob in blobs:
            writing.queue.extend(chunks_with(blob.key, blob.content))
        writing.new_bytes += size
        self._cost_s += self._step_s(start_s) + size / _SEND_BYTES_PER_S

    def _step_s(self, start_s: float) -> float:
        """Return what a step of drafting that began at a time, and ends now, costs."""
        return min(self._seconds() - start_s, _LONGEST_STEP_S)

    def next_records(self, room: int = TRANSACTION_BYTES) -> OutputRecords:
        """Return the snapshot records of the next transaction; there may be none.

        The last chunk is not cut: the records can be larger than `room` bytes by less than one chunk.
        """
        writing = self._writing
        if writing is None:
            return records_of([])
        size = 0
        while writing.queue and size < room and len(writing.sent) < TRANSACTION_RECORDS:
            chunk = writing.queue.popleft()
            writing.sent.append(chunk)
            size += len(chunk.value or b"")
        return records_of(writing.sent)

    def committed(self) -> Anchor | None:
        """Take note that the transaction was committed.

        Returns:
            The anchor of the snapshot whose manifest the changelog holds from this transaction on; None otherwise.
        """
        if self._unnamed:
            self._unnamed, self._unnamed_needs = False, None
        writing = self._writing
        if writing is None:
            return None
        for chunk, offset in zip(writing.sent, writing.offsets, strict=True):
            if chunk.key is not None and chunk.key == writing.key:
                writing.place = offset if writing.place is None else writing.place
            elif chunk.key is not None:
                writing.draft.note_written(chunk.key, offset)
        writing.sent, writing.offsets = [], []
        if writing.queue or not writing.is_drafted:
            return None
        if not writing.manifest:
            self._write_manifest(writing)
            return None
        self._finish(writing)
        return writing.anchor

    def _write_manifest(self, writing: SnapshotInProgress) -> None:
        entries = writing.draft.entries()
        listing = key_chunks(entries)
        fallen = self._listings[-1] if len(self._listings) > 1 else {}
        kept = {key for keys in (listing, *self._listings[:1]) for key in keys}
        anchor = writing.anchor
        manifest = Manifest(
            format=FORMAT,
            engine=__version__,
            partition=self._partition,
            sequence=anchor.sequence,
            digest=anchor.digest.hex(),
            offsets=anchor.offsets,
            progress_offset=anchor.progress_offset,
            settings=writing.settings,
            entries=entries,
            dropped=tuple((key, chunks) for key, chunks in fallen.items() if key not in kept),
            malformed=writing.malformed,
            stopped=writing.stopped,
            purges=writing.purges,
            partitions=writing.partitions,
        )
        writing.key, writing.manifest = manifest.key, manifest.to_bytes()
        # A manifest lists every stream, so its size predicts the next one's cost.
        self._manifest_bytes = len(writing.manifest)
        writing.queue.extend(chunks_with(writing.key, writing.manifest))
        self._garbage = dict(manifest.dropped)
        self._listings = (listing | {writing.key: len(writing.queue)}, *self._listings[:1])

    def _finish(self, writing: SnapshotInProgress) -> None:
        content = writing.manifest
        assert writing.place is not None  # noqa: S101  (for the type checker: its chunks were committed)
        place = Location(writing.place, len(chunks_of(content)), len(content), checksum_of(content))
        self._whole = Snapshot(place, writing.anchor.progress_offset)
        self._writing = None
        self.has_purged = self._ends_purge and not self._purges

    def name(self) -> None:
        """Let the next transaction name the snapshot that is whole: everything that it needs can be read."""
        if self._whole is None:
            raise AssertionError("only a snapshot that is whole can be named")
        self.snapshots = (self._whole, *self.snapshots[:1])
        self._whole = None
        self._unnamed = True
