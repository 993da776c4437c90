"""Write snapshots to the changelog topic. The writer returns what a transaction has to carry; the caller sends it.

A snapshot is written along with the task's transactions: its chunks first, a bounded number of bytes in each
transaction, then the manifest, which holds the offsets of the chunks. Once the whole snapshot can be read, and all
outputs before it, a transaction names it in the metadata of the committed offsets. Until then the two snapshots before
it stay in use. Nothing waits for a snapshot, and an aborted transaction discards it together with the task.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app import __version__
from stream_app.config import TaskSettings
from stream_app.pipeline.task import Task
from stream_app.record_columns import OutputRecords
from stream_app.recovery.changelog import KeyChunks, Loaded, key_chunks
from stream_app.recovery.commit_point import Anchor
from stream_app.snapshot.format import (
    FORMAT,
    Counts,
    Entry,
    Manifest,
    Place,
    Snapshot,
    checksum_of,
    chunk_key,
    chunks_of,
    manifest_key,
)
from stream_app.snapshot.segments import Blob, Book

TRANSACTION_BYTES = 8_000_000
"""Most bytes of snapshots in one transaction: a slow disk writes them in 50 ms, so they delay no round by more."""

TRANSACTION_RECORDS = 10_000
"""Most records of snapshots in one transaction: the chunks of a thousand quiet streams are small."""

COST_SHARE = 20
"""Snapshots may cost 1 / 20 of the time: an expensive snapshot is taken less often."""

SEND_BYTES_PER_S = 100e6
"""Approximate throughput of a client and a broker on the same two cores: the cost of sending a snapshot."""


class _Chunk(NamedTuple):
    """A record that is to be written; `key` is the key of its blob, or None for a tombstone."""

    record_key: bytes
    value: bytes | None
    key: str | None


class _Configuration(NamedTuple):
    """The settings of the last snapshot and their JSON, which is kept: writing it takes 0.7 s for 10,000 streams."""

    settings: TaskSettings | None
    text: str


@dataclass(slots=True)
class _Writing:
    """A snapshot that is being written.

    Attributes:
        anchor: The commit record after which the snapshot was taken.
        settings: The configuration in force there, as JSON.
        unreadable: The breaker's counts there.
        listed: What the manifest lists, in order: entries of older snapshots, and blobs that are new.
        queue: The chunks that are still to be sent.
        manifest: The bytes of the manifest; empty until the offsets of all chunks are known.
        sent: The chunks in the open transaction.
        offsets: The offsets of these chunks, once they are delivered.
        places: The first offset of each key that is in the changelog.
    """

    anchor: Anchor
    settings: str
    unreadable: tuple[Counts, Counts]
    listed: list[Entry | Blob]
    queue: deque[_Chunk]
    manifest: bytes = b""
    sent: list[_Chunk] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)


class SnapshotWriter:
    """The writer of one task's snapshots; it returns what the next transaction of the task has to carry.

    Args:
        partition: The number of the task.
        after_s: Seconds of processing that a restore would have to repeat before a snapshot is taken; with 0, the next
            snapshot is taken as soon as the last one is whole.
        loaded: What the task was restored from; empty for a new task.

    Attributes:
        snapshots: The newest snapshot that is whole and named, and the one before it.
        worked_s: Seconds of processing since the newest snapshot was taken.
    """

    def __init__(self, partition: int, after_s: float, loaded: Loaded) -> None:
        self.snapshots = loaded.snapshots
        self._partition = partition
        self._after_s = after_s
        self._book = loaded.book
        self._listings = loaded.listings
        self._garbage = dict(loaded.garbage)
        self.worked_s = 0.0
        self._has_worked = False
        self._cost_s = 0.0
        self._manifest_bytes = 0
        self._configuration = _Configuration(None, "")
        self._writing: _Writing | None = None
        self._whole: Snapshot | None = None
        self._unnamed = False

    @property
    def is_busy(self) -> bool:
        """Whether transactions without new records are wanted, to write a snapshot or to name it."""
        return self._writing is not None or self._unnamed

    @property
    def named(self) -> tuple[Snapshot, ...]:
        """The snapshots that the committed offsets name; empty while a commit that changes them is outstanding."""
        return () if self._unnamed else self.snapshots

    @property
    def offsets(self) -> list[int]:
        """The list into which the caller writes the offsets of this transaction's snapshot records."""
        return self._writing.offsets if self._writing else []

    @property
    def allocated_bytes(self) -> int:
        """The approximate size of the snapshot that is being written: its bytes, and the records cut from them."""
        if self._writing is None:
            return 0
        blobs = sum(len(listed.content) for listed in self._writing.listed if isinstance(listed, Blob))
        return blobs + sum(len(chunk.value or b"") for chunk in self._writing.queue)

    def forget_older(self) -> None:
        """List nothing of older snapshots in the next one, because the task's streams were rebuilt."""
        self._book = Book()

    def worked(self, seconds: float) -> None:
        """Count processing that a restore would have to repeat."""
        self.worked_s += seconds
        self._has_worked = True

    def is_due(self, *, ending: bool = False) -> bool:
        """Say whether to take a snapshot now; with `ending`, whether there is anything to save."""
        if self._writing is not None or self._whole is not None or not self._has_worked:
            return False
        if ending or not self._after_s:
            return True
        return self.worked_s >= max(self._after_s, COST_SHARE * self._cost_s)

    def begin(self, task: Task, anchor: Anchor, unreadable: tuple[Counts, Counts], seconds: Callable[[], float]) -> int:
        """Take a snapshot of the task as it is now, and return how many bytes will be written.

        Args:
            task: The task; it has processed everything up to the anchor, and nothing after it.
            anchor: The newest commit record.
            unreadable: The breaker's counts.
            seconds: A monotonic clock.
        """
        start_s = seconds()
        listed = self._book.draft(task.take_states(), anchor.sequence)
        blobs = [blob for blob in listed if isinstance(blob, Blob)]
        size = sum(len(blob.content) for blob in blobs)
        queue = deque(_tombstones(self._garbage))
        for blob in blobs:
            queue.extend(_chunks(blob.key, blob.content))
        if self._configuration.settings is not task.settings:
            self._configuration = _Configuration(task.settings, task.settings.to_json())
        self._writing = _Writing(anchor, self._configuration.text, unreadable, listed, queue)
        self._garbage = {}
        self.worked_s, self._has_worked = 0.0, False
        self._cost_s = seconds() - start_s + (size + self._manifest_bytes) / SEND_BYTES_PER_S
        if not queue:
            self._write_manifest(self._writing)
        return size

    def next_records(self, room: int = TRANSACTION_BYTES) -> OutputRecords:
        """Return the snapshot records of the next transaction; there may be none.

        The last chunk is not cut: the records can be larger than `room` bytes by less than one chunk.
        """
        writing = self._writing
        if writing is None:
            return _records([])
        size = 0
        while writing.queue and size < room and len(writing.sent) < TRANSACTION_RECORDS:
            chunk = writing.queue.popleft()
            writing.sent.append(chunk)
            size += len(chunk.value or b"")
        return _records(writing.sent)

    def committed(self) -> Anchor | None:
        """Take note that the transaction was committed.

        Returns:
            The anchor of the snapshot whose manifest the changelog holds from this transaction on; None otherwise.
        """
        self._unnamed = False
        writing = self._writing
        if writing is None:
            return None
        for chunk, offset in zip(writing.sent, writing.offsets, strict=True):
            if chunk.key is not None:
                writing.places.setdefault(chunk.key, offset)
        writing.sent, writing.offsets = [], []
        if writing.queue:
            return None
        if not writing.manifest:
            self._write_manifest(writing)
            return None
        self._finish(writing)
        return writing.anchor

    def _write_manifest(self, writing: _Writing) -> None:
        places = {
            listed.key: listed.entry(writing.places[listed.key])
            for listed in writing.listed
            if isinstance(listed, Blob)
        }
        entries = tuple(listed if isinstance(listed, Entry) else places[listed.key] for listed in writing.listed)
        self._book.settle(places)
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
            settings=writing.settings,
            unreadable=writing.unreadable,
            entries=entries,
            dropped=tuple((key, chunks) for key, chunks in fallen.items() if key not in kept),
        )
        writing.manifest = manifest.to_bytes()
        self._manifest_bytes = len(
            writing.manifest
        )  # a manifest lists every stream, so its size predicts the next one's cost
        key = manifest_key(anchor.sequence)
        writing.queue.extend(_chunks(key, writing.manifest))
        self._garbage = dict(manifest.dropped)
        self._listings = (listing | {key: len(writing.queue)}, *self._listings[:1])

    def _finish(self, writing: _Writing) -> None:
        content = writing.manifest
        offset = writing.places[manifest_key(writing.anchor.sequence)]
        place = Place(offset, len(chunks_of(content)), len(content), checksum_of(content))
        self._whole = Snapshot(place, writing.anchor.progress_offset)
        self._writing = None

    def name(self) -> None:
        """Let the next transaction name the snapshot that is whole: everything that it needs can be read."""
        if self._whole is None:
            raise AssertionError("only a snapshot that is whole can be named")
        self.snapshots = (self._whole, *self.snapshots[:1])
        self._whole = None
        self._unnamed = True


def _chunks(key: str, content: bytes) -> Iterable[_Chunk]:
    return (_Chunk(chunk_key(key, number), chunk, key) for number, chunk in enumerate(chunks_of(content)))


def _tombstones(garbage: KeyChunks) -> Iterable[_Chunk]:
    return (_Chunk(chunk_key(key, number), None, None) for key, chunks in garbage.items() for number in range(chunks))


def _records(chunks: Sequence[_Chunk]) -> OutputRecords:
    keys = [chunk.record_key for chunk in chunks]
    return OutputRecords.of(keys, [chunk.value for chunk in chunks], [0] * len(chunks))
