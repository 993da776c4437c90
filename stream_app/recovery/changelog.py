"""Snapshots on their way to the changelog topic and back. Tells what to write and what to read; the caller does it.

A snapshot is written along the task's transactions: its chunks first, a bounded number of bytes with each, then the
manifest, which has their offsets. Once all of it can be read, and all outputs before it, a transaction names it in the
metadata of the committed offsets. Until then the two snapshots before stand. Nothing waits for it, and an abort throws
it away with the task.
"""

import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stream_app import __version__
from stream_app.backends.base import LogReader
from stream_app.config import TaskSettings
from stream_app.errors import StateError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.task import Task
from stream_app.records import OutputRecords
from stream_app.snapshot.format import (
    CHUNK_BYTES,
    FORMAT,
    MANIFEST_SUFFIX,
    MAX_MANIFEST_CHUNKS,
    Counts,
    Entry,
    Manifest,
    Place,
    Snapshot,
    checksum_of,
    chunk_key,
    chunks_of,
    join_chunks,
    manifest_key,
    read_manifest,
)
from stream_app.snapshot.segments import Blob, Book, load_task

TRANSACTION_BYTES = 8_000_000
"""Of snapshots, in one transaction: some 50 ms of a slow disk, so that no round is late by more."""

TRANSACTION_RECORDS = 10_000
"""The same in records: a thousand quiet streams are small."""

COST_SHARE = 20
"""Taking snapshots may cost 1 / 20 of the time: a dear one is taken less often."""

SEND_BYTES_PER_S = 100e6
"""What a client and a broker on the same two cores carry, about: a snapshot's cost beyond packing it."""

READ_RECORDS = 50
"""Records of a poll: up to 45 MB."""

NEAR_RECORDS = 1_000
"""Reading on over so many records is faster than to seek, which asks the broker twice."""

NAMED_SNAPSHOTS = 2
"""The newest, and the one before in case that is damaged."""

KEPT_MANIFESTS = 16
"""That are remembered of a changelog without names: the two newest, and those that a writer's death left unnamed."""

KeyChunks: TypeAlias = dict[str, int]
"""How many chunks each key has."""


class Anchor(NamedTuple):
    """The commit record behind which a snapshot is taken."""

    sequence: int
    digest: bytes
    offsets: tuple[int, int]
    progress_offset: int


class _Chunk(NamedTuple):
    """A record that is to be written; `key` is that of its blob, None for a tombstone."""

    record_key: bytes
    value: bytes | None
    key: str | None


@dataclass(slots=True)
class _Writing:
    """A snapshot under way.

    Attributes:
        anchor: What it is a snapshot of.
        settings: In force there.
        unreadable: The breaker's counts.
        listed: What its manifest lists, in order.
        queue: What is still to be sent.
        manifest: Its bytes, once they are known.
        sent: What the open transaction has of it.
        offsets: Where all of that is, once it is committed.
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
    """Takes snapshots of one task, and says what the task's next transaction has to carry.

    Args:
        partition: The task's number.
        after_s: Processing that a restore would repeat before a snapshot is taken; 0: as soon as the last is whole.
        loaded: What the task was restored from, or nothing.

    Attributes:
        snapshots: The newest that is in the changelog, and the one before.
        offsets: To be filled with where the records of this transaction are.
    """

    def __init__(self, partition: int, after_s: float, loaded: "Loaded") -> None:
        self.snapshots = loaded.snapshots
        self._partition = partition
        self._after_s = after_s
        self._book = loaded.book
        self._listings = loaded.listings
        self._garbage = dict(loaded.garbage)
        self._worked_s = 0.0
        self._has_worked = False
        self._cost_s = 0.0
        self._manifest_bytes = 0
        self._settings: TaskSettings | None = None  # of the last snapshot: to write those of 10,000 streams takes 0.7 s
        self._settings_text = ""
        self._writing: _Writing | None = None
        self._whole: Snapshot | None = None
        self._unnamed = False

    @property
    def is_busy(self) -> bool:
        """Whether transactions without new records are wanted, to write a snapshot or to name it."""
        return self._writing is not None or self._unnamed

    @property
    def named(self) -> tuple[Snapshot, ...]:
        """Those that the committed offsets name, as far as they are known."""
        return () if self._unnamed else self.snapshots

    @property
    def offsets(self) -> list[int]:
        """To be filled with where the records of this transaction are."""
        return self._writing.offsets if self._writing else []

    @property
    def allocated_bytes(self) -> int:
        """What a snapshot under way still holds, about: the bytes, and the records that they are cut into."""
        if self._writing is None:
            return 0
        blobs = sum(len(listed.content) for listed in self._writing.listed if isinstance(listed, Blob))
        return blobs + sum(len(chunk.value or b"") for chunk in self._writing.queue)

    def begin_anew(self) -> None:
        """The task's streams were rebuilt: the next snapshot lists nothing of older ones."""
        self._book = Book()

    def worked(self, seconds: float) -> None:
        """Count what a restore would have to do again."""
        self._worked_s += seconds
        self._has_worked = True

    def is_due(self, *, ending: bool = False) -> bool:
        """Whether to take one; `ending`: whatever there is to save."""
        if self._writing is not None or self._whole is not None or not self._has_worked:
            return False
        if ending or not self._after_s:
            return True
        return self._worked_s >= max(self._after_s, COST_SHARE * self._cost_s)

    def begin(self, task: Task, anchor: Anchor, unreadable: tuple[Counts, Counts], seconds: Callable[[], float]) -> int:
        """Take a snapshot of the task as it is now.

        Args:
            task: Has processed all up to the anchor, nothing beyond.
            anchor: The newest commit record.
            unreadable: The breaker's counts.
            seconds: A clock.

        Returns:
            Bytes that will be written.
        """
        start_s = seconds()
        listed = self._book.draft(task.take_states(), anchor.sequence)
        blobs = [blob for blob in listed if isinstance(blob, Blob)]
        size = sum(len(blob.content) for blob in blobs)
        queue = deque(_tombstones(self._garbage))
        for blob in blobs:
            queue.extend(_chunks(blob.key, blob.content))
        if self._settings is not task.settings:
            self._settings, self._settings_text = task.settings, task.settings.to_json()
        self._writing = _Writing(anchor, self._settings_text, unreadable, listed, queue)
        self._garbage = {}
        self._worked_s, self._has_worked = 0.0, False
        self._cost_s = seconds() - start_s + (size + self._manifest_bytes) / SEND_BYTES_PER_S
        if not queue:
            self._write_manifest(self._writing)
        return size

    def next_records(self, room: int = TRANSACTION_BYTES) -> OutputRecords:
        """What the next transaction carries of it, up to so many bytes and the rest of a chunk; may be nothing."""
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
        """That transaction was committed; the anchor of a snapshot whose manifest is in the changelog by this."""
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
        listing = _listing(entries)
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
        )  # it lists every stream: of the next snapshot's it is about the cost
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
        """What the snapshot that is whole needs can be read: the next transaction names it."""
        if self._whole is None:
            raise AssertionError("no snapshot waits for its name")
        self.snapshots = (self._whole, *self.snapshots[:1])
        self._whole = None
        self._unnamed = True


def _chunks(key: str, content: bytes) -> Iterable[_Chunk]:
    return (_Chunk(chunk_key(key, number), chunk, key) for number, chunk in enumerate(chunks_of(content)))


def _tombstones(garbage: Mapping[str, int]) -> Iterable[_Chunk]:
    return (_Chunk(chunk_key(key, number), None, None) for key, chunks in garbage.items() for number in range(chunks))


def _records(chunks: Sequence[_Chunk]) -> OutputRecords:
    keys = [chunk.record_key for chunk in chunks]
    return OutputRecords(keys, [chunk.value for chunk in chunks], [0] * len(chunks))


def _listing(entries: Iterable[Entry]) -> KeyChunks:
    return {entry.key: entry.chunks for entry in entries}


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Loaded:
    """What a task is restored from.

    Attributes:
        snapshot: The one that was read, and its manifest; None where there is none.
        task: Filled.
        book: What it lists.
        snapshots: Those that can be read, newest first.
        listings: The keys of each of them.
        garbage: Keys that no snapshot needs.
        damage: What could not be read, and why.
    """

    snapshot: Snapshot | None = None
    manifest: Manifest | None = None
    task: Task | None = None
    book: Book = field(default_factory=Book)
    snapshots: tuple[Snapshot, ...] = ()
    listings: tuple[KeyChunks, ...] = ()
    garbage: KeyChunks = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)


def _impatient() -> bool:
    return False


def load(
    reader: LogReader,
    named: Sequence[Snapshot],
    partition: int,
    inputs: tuple[str, str],
    is_patient: Callable[[], bool] = _impatient,
) -> Generator[bool, None, Loaded]:
    """Read the newest snapshot that is whole, and what was written behind it and never named.

    Args:
        reader: Of the task's changelog partition.
        named: By the committed offsets, newest first.
        partition: The task's number.
        inputs: Names of the topics that it reads.
        is_patient: Whether to look again for what lies behind the end of the log: a transaction that somebody left open
            hides whatever was committed behind its first record, until it times out.

    Yields:
        Behind each poll, whether it had news.

    Returns:
        The task, or none where no snapshot can be read.
    """
    log = _Log(reader, f"changelog[{partition}]", is_patient)
    loaded = Loaded()
    manifests = yield from _read_manifests(log, named, partition, loaded.damage)
    for number, (snapshot, manifest) in enumerate(manifests):
        try:
            contents = yield from _read_contents(log, manifest)
            task = Task(partition, _settings_of(manifest, log.where), inputs, secrets.token_bytes(HASH_KEY_BYTES))
            loaded.book = load_task(task, manifest, contents, log.where)
        except StateError as problem:
            loaded.damage.append(str(problem))
            continue
        loaded.snapshot, loaded.manifest, loaded.task = snapshot, manifest, task
        whole = manifests[number:]
        loaded.snapshots = tuple(one for one, _ in whole)
        loaded.listings = tuple(_listing(of.entries) | _own_chunks(one, of) for one, of in whole)
        loaded.garbage = dict(manifest.dropped)
        break
    behind = loaded.snapshot.manifest.offset if loaded.snapshot else 0
    loaded.garbage |= yield from _read_orphans(log, behind, loaded.listings)
    return loaded


def manifests_of(
    reader: LogReader, named: Sequence[Snapshot], partition: int
) -> Generator[bool, None, list[tuple[Snapshot, Manifest]]]:
    """The manifests of these snapshots, as far as they can be read; yields as `load` does."""
    return (yield from _read_manifests(_Log(reader, f"changelog[{partition}]"), named, partition, []))


def find_manifests(reader: LogReader, partition: int) -> Generator[bool, None, list[tuple[Place, Manifest]]]:
    """The newest manifests that have no tombstone, whether or not somebody names them; yields as `load` does."""
    log = _Log(reader, f"changelog[{partition}]")
    found: dict[str, tuple[Place, Manifest]] = {}
    chunks: list[bytes] = []
    start = 0
    while (record := (yield from log.next())) is not None:
        key, _, number = (record.key or b"").decode(errors="replace").rpartition("/")
        if not key.endswith(MANIFEST_SUFFIX):
            continue
        if record.value is None:
            found.pop(key, None)
            continue
        if number == "0":
            chunks, start = [], record.offset
        if number != str(len(chunks)) or len(chunks) == MAX_MANIFEST_CHUNKS:
            continue
        chunks.append(record.value)
        content = b"".join(chunks)
        try:
            manifest = read_manifest(content, f"{log.where} offset {start}")
        except StateError:  # it goes on in the next chunk, or is none
            continue
        if manifest.partition == partition and key == manifest_key(manifest.sequence):
            found.pop(key, None)
            found[key] = Place(start, len(chunks), len(content), checksum_of(content)), manifest
            if len(found) > KEPT_MANIFESTS:
                del found[next(iter(found))]
    return list(found.values())


def whole_ones(
    reader: LogReader, partition: int, snapshots: Iterable[Snapshot]
) -> Generator[bool, None, tuple[Snapshot, ...]]:
    """The first of these that are whole, at most as many as committed offsets name; yields as `load` does."""
    log = _Log(reader, f"changelog[{partition}]")
    whole: list[Snapshot] = []
    for snapshot in snapshots:
        try:
            yield from _read_contents(log, (yield from _read_manifest(log, snapshot.manifest, partition)))
        except StateError:
            continue
        whole.append(snapshot)
        if len(whole) == NAMED_SNAPSHOTS:
            break
    return tuple(whole)


def _settings_of(manifest: Manifest, where: str) -> TaskSettings:
    try:
        return TaskSettings.from_json(manifest.settings)
    except StateError as problem:
        raise StateError(f"{where}, {manifest_key(manifest.sequence)}: {problem}") from problem


def _own_chunks(snapshot: Snapshot, manifest: Manifest) -> KeyChunks:
    return {manifest_key(manifest.sequence): snapshot.manifest.chunks}


class _Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class _Log:
    """A reader that is asked for records by their offsets, mostly ascending."""

    def __init__(self, reader: LogReader, where: str, is_patient: Callable[[], bool] = _impatient) -> None:
        self.where = where
        self._is_patient = is_patient
        self._reader = reader
        self._buffer: deque[_Record] = deque()
        self._next = 0  # behind what was read
        self._at_end = False

    def go_to(self, offset: int) -> None:
        """The next record is the first at this offset or behind it."""
        while self._buffer and self._buffer[0].offset < offset:
            self._next = self._buffer.popleft().offset + 1
        if self._buffer and self._buffer[0].offset == offset:
            return
        if self._next <= offset < self._next + NEAR_RECORDS and not self._at_end:
            return
        self._buffer.clear()
        self._reader.seek(offset)
        self._next, self._at_end = offset, False

    def next(self, least: int = 0, *, exists: bool = False) -> Generator[bool, None, _Record | None]:
        """The next record at this offset or behind it, None at the end; yields behind each poll, as `load` does.

        Where something exists at that offset, an end before it is one to be waited at.
        """
        while True:
            while self._buffer:
                record = self._buffer.popleft()
                self._next = record.offset + 1
                if record.offset >= least:
                    return record
            if self._at_end and not (exists and self._next <= least and self._is_patient()):
                return None
            fetched = self._reader.poll(READ_RECORDS, 0.0)
            if fetched is not None:
                self._at_end = fetched.at_end
                records = fetched.records
                self._buffer.extend(map(_Record, records.offsets.tolist(), records.keys, records.values))
            yield fetched is not None


def _read_place(log: _Log, key: str | None, place: Place) -> Generator[bool, None, bytes]:
    """The bytes of a key; None: of whatever key is there.

    Raises:
        StateError: They are not whole.
    """
    chunks: list[bytes] = []
    log.go_to(place.offset)
    where = f"{log.where} offset {place.offset}, {key or 'manifest'}"
    while len(chunks) < place.chunks:
        record = yield from log.next(place.offset, exists=True)
        if record is None or (not chunks and record.offset != place.offset):
            raise StateError(f"{where}: chunk {len(chunks)} of {place.chunks} is missing")
        if key is None:
            key = (record.key or b"").decode(errors="replace").removesuffix("/0")
        if record.key != chunk_key(key, len(chunks)) or record.value is None or len(record.value) > CHUNK_BYTES:
            raise StateError(f"{where}: offset {record.offset} is not chunk {len(chunks)} of {place.chunks}")
        chunks.append(record.value)
    return join_chunks(place, chunks, where)


def _read_manifest(log: _Log, place: Place, partition: int) -> Generator[bool, None, Manifest]:
    where = f"{log.where} offset {place.offset}, manifest"
    manifest = read_manifest((yield from _read_place(log, None, place)), where)
    if manifest.partition != partition:
        raise StateError(f"{where}: is of task {manifest.partition}")
    return manifest


def _read_manifests(
    log: _Log, named: Iterable[Snapshot], partition: int, damage: list[str]
) -> Generator[bool, None, list[tuple[Snapshot, Manifest]]]:
    manifests = []
    for snapshot in named:
        try:
            manifests.append((snapshot, (yield from _read_manifest(log, snapshot.manifest, partition))))
        except StateError as problem:
            damage.append(str(problem))
    return manifests


def _read_contents(log: _Log, manifest: Manifest) -> Generator[bool, None, Mapping[str, bytes]]:
    contents = {}
    for entry in sorted(manifest.entries, key=lambda entry: entry.offset):
        contents[entry.key] = yield from _read_place(log, entry.key, entry.place)
    return contents


def _read_orphans(log: _Log, behind: int, listings: Iterable[KeyChunks]) -> Generator[bool, None, KeyChunks]:
    """Keys behind this offset that nobody lists: of snapshots that were never named, their writer having died."""
    listed = {key for keys in listings for key in keys}
    found: KeyChunks = {}
    log.go_to(behind)
    while (record := (yield from log.next(behind))) is not None:
        key, _, number = (record.key or b"").decode(errors="replace").rpartition("/")
        if key in listed or not number.isdecimal():
            continue
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = int(number) + 1
    return found
