"""Find the snapshots that progress names, and read them from the changelog of a task; `snapshot_writer` writes them.

All functions that read are generators: they never wait for the broker, and yield after each poll whether it had news.
"""

import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stream_app.backends.base import LogReader, Watermarks
from stream_app.backends.progress import progress_record, search_back
from stream_app.config import TaskSettings
from stream_app.errors import StateError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.task import Task
from stream_app.progress_records import Act
from stream_app.snapshot.format import (
    CHUNK_BYTES,
    MANIFEST_SUFFIX,
    SNAPSHOT_KEY,
    Location,
    Manifest,
    Snapshot,
    chunk_key,
    join_chunks,
    parse_snapshots,
)
from stream_app.snapshot.kept_snapshots import KeptSnapshots, KeyChunks, key_chunks
from stream_app.snapshot.task_loading import load_task

_READ_RECORDS = 50
"""Records of one poll: up to 45 MB."""

NEAR_RECORDS = 1_000
"""Reading past this many records is faster than a seek, which asks the broker twice."""


def find_snapshots(reader: LogReader, ends: Watermarks) -> Generator[bool, None, tuple[Snapshot, ...]]:
    """Return the snapshots that the last act `snapshot` of progress names, newest first; none if there is no such act.

    A restore reads all records after that act anyway, so the search costs no more than the restore.

    Args:
        reader: A reader of the task's progress.
        ends: The first offset and the end of the partition.

    Yields:
        After each poll, whether it had news.

    Raises:
        StateError: The act cannot be read.
    """

    def take(offset: int, key: bytes | None, value: bytes | None) -> tuple[int, bytes | None] | None:
        return (offset, value) if key == SNAPSHOT_KEY else None

    found = yield from search_back(reader, ends, take, lambda _: True)
    if not found:
        return ()
    offset, value = found[-1]
    act = progress_record(value, f"progress, offset {offset}")
    if not isinstance(act, Act):
        raise StateError(f"progress, offset {offset}: not an act")
    return parse_snapshots(act.text)


@dataclass(slots=True)
class Loaded:
    """What a task is restored from.

    Attributes:
        snapshot: The snapshot that was read; None, as `manifest` and `task`, where no snapshot could be read.
        manifest: Its manifest.
        task: A task with the state of the snapshot.
        kept: What the changelog has.
        damage: What could not be read, and why.
    """

    snapshot: Snapshot | None = None
    manifest: Manifest | None = None
    task: Task | None = None
    kept: KeptSnapshots = field(default_factory=KeptSnapshots)
    damage: list[str] = field(default_factory=list)

    @property
    def has_unused_snapshot(self) -> bool:
        """Whether the changelog has a manifest that was not used; a task writes its first after its first commit."""
        return any(key.endswith(MANIFEST_SUFFIX) for key in self.kept.garbage)


def _impatient() -> bool:
    return False


def load(
    reader: LogReader,
    named: Sequence[Snapshot],
    partition: int,
    inputs: tuple[str, str],
    is_patient: Callable[[], bool] = _impatient,
) -> Generator[bool, None, Loaded]:
    """Read the newest snapshot that is whole, and list the keys that were written after it and never named.

    Args:
        reader: A reader of the task's changelog partition.
        named: The snapshots that progress names, newest first.
        partition: The number of the task.
        inputs: The names of the topics that the task reads.
        is_patient: Says whether to ask again for a record after the end of the log. A transaction that a
            dead worker left open hides everything that was committed after its first record, until it times out.

    Yields:
        After each poll, whether it had news.

    Returns:
        The task and its snapshot, or an empty result with the damage where no snapshot can be read.
    """
    log = _Log(reader, f"changelog[{partition}]", is_patient)
    loaded = Loaded()
    manifests = yield from _read_manifests(log, named, partition, loaded.damage)
    for number, (snapshot, manifest) in enumerate(manifests):
        try:
            contents = yield from _read_contents(log, manifest)
            task = Task(partition, _settings_of(manifest, log.where), inputs, secrets.token_bytes(HASH_KEY_BYTES))
            book = load_task(task, manifest, contents, log.where)
        except StateError as problem:
            loaded.damage.append(str(problem))
            continue
        loaded.snapshot, loaded.manifest, loaded.task = snapshot, manifest, task
        whole = manifests[number:]
        listings = tuple(key_chunks(found.entries) | _manifest_chunks(one, found) for one, found in whole)
        loaded.kept = KeptSnapshots(
            tuple(one for one, _ in whole), listings, dict(manifest.dropped), book, manifest.purges
        )
        break
    after = loaded.snapshot.manifest.offset if loaded.snapshot else 0
    orphans = yield from _read_orphans(log, after, loaded.kept.listings)
    loaded.kept = replace(loaded.kept, garbage=dict(loaded.kept.garbage) | orphans)
    return loaded


def manifests_of(
    reader: LogReader, named: Sequence[Snapshot], partition: int
) -> Generator[bool, None, list[tuple[Snapshot, Manifest]]]:
    """Return those manifests of these snapshots that can be read; yield as `load` does."""
    return (yield from _read_manifests(_Log(reader, f"changelog[{partition}]"), named, partition, []))


def _settings_of(manifest: Manifest, where: str) -> TaskSettings:
    try:
        return TaskSettings.from_json(manifest.settings)
    except StateError as problem:
        raise problem.within(f"{where}, {manifest.key}") from problem


def _manifest_chunks(snapshot: Snapshot, manifest: Manifest) -> KeyChunks:
    return {manifest.key: snapshot.manifest.chunks}


class _Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class _Log:
    """A reader that gives records by their offsets, which mostly ascend."""

    def __init__(self, reader: LogReader, where: str, is_patient: Callable[[], bool] = _impatient) -> None:
        self.where = where
        self._is_patient = is_patient
        self._reader = reader
        self._buffer: deque[_Record] = deque()
        self._next = 0  # the offset after the last record that was read
        self._at_end = False

    def go_to(self, offset: int) -> None:
        """Let the next record be the first one at this offset or after it."""
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
        """Return the next record at the offset `least` or after it, or None at the end; yield as `load` does.

        With `exists`, a record is known to exist at that offset: an end of the log before it is not final.
        """
        while True:
            while self._buffer:
                record = self._buffer.popleft()
                self._next = record.offset + 1
                if record.offset >= least:
                    return record
            if self._at_end and not (exists and self._next <= least and self._is_patient()):
                return None
            fetched = self._reader.poll(_READ_RECORDS, 0.0)
            if fetched is not None:
                self._at_end = fetched.at_end
                records = fetched.records
                self._buffer.extend(map(_Record, records.offsets.tolist(), records.keys, records.values))
            yield fetched is not None


def _read_location(log: _Log, key: str | None, location: Location) -> Generator[bool, None, bytes]:
    """Return the bytes of a key; without a key, the bytes of the key at this location.

    Raises:
        StateError: A chunk is missing, or the bytes are damaged.
    """
    chunks: list[bytes] = []
    log.go_to(location.offset)
    where = f"{log.where} offset {location.offset}, {key or 'manifest'}"
    while len(chunks) < location.chunks:
        record = yield from log.next(location.offset, exists=True)
        if record is None or (not chunks and record.offset != location.offset):
            raise StateError(f"{where}: chunk {len(chunks)} of {location.chunks} is missing")
        if key is None:
            key = (record.key or b"").decode(errors="replace").removesuffix("/0")
        if record.key != chunk_key(key, len(chunks)) or record.value is None or len(record.value) > CHUNK_BYTES:
            raise StateError(f"{where}: offset {record.offset} is not chunk {len(chunks)} of {location.chunks}")
        chunks.append(record.value)
    return join_chunks(location, chunks, where)


def _read_manifest(log: _Log, location: Location, partition: int) -> Generator[bool, None, Manifest]:
    where = f"{log.where} offset {location.offset}, manifest"
    manifest = Manifest.from_bytes((yield from _read_location(log, None, location)), where)
    if manifest.partition != partition:
        raise StateError(f"{where}: belongs to task {manifest.partition}")
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
        contents[entry.key] = yield from _read_location(log, entry.key, entry.location)
    return contents


def _read_orphans(log: _Log, after: int, listings: Iterable[KeyChunks]) -> Generator[bool, None, KeyChunks]:
    """Return the keys after this offset that no snapshot lists: their writer died before it named its snapshot."""
    listed = {key for keys in listings for key in keys}
    found: KeyChunks = {}
    log.go_to(after)
    while (record := (yield from log.next(after))) is not None:
        key, _, number = (record.key or b"").decode(errors="replace").rpartition("/")
        if key in listed or not number.isdecimal():
            continue
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = int(number) + 1
    return found
