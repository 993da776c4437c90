"""The blobs of a snapshot, drafted stream by stream while the task continues.

Drafting a stream takes a fraction of a millisecond; drafting thousands at once would stop the loop for seconds. So a
stream is drafted just before its first record after the snapshot was taken is processed, and the others in slices of
time in between. The snapshot holds the state after one commit record all the same, since no stream has changed before
it was drafted.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from stream_app.live.position import Anchor
from stream_app.pipeline.stream_state import StreamState
from stream_app.snapshot.chunk_records import Chunk
from stream_app.snapshot.format import BreakerCounts, Entry
from stream_app.snapshot.segments import Blob, Book

AT_ONCE = 64
"""Streams that are drafted together before the time is looked at."""


class SnapshotDraft:
    """What a snapshot lists, of which the blobs that are new have to be written.

    Args:
        book: What the changelog has.
        streams: All streams of the task, in the order of the manifest, as they are at the commit record.
        key: How the keys of new blobs begin.
        pack: Packs the cores of streams before they are drafted, `CoreForms.pack`.
    """

    def __init__(
        self, book: Book, streams: Sequence[StreamState], key: str, pack: Callable[[Sequence[StreamState]], None]
    ) -> None:
        self._book = book
        self._pack = pack
        self._names = [stream.name for stream in streams]
        self._key = key
        self._left = {stream.name: stream for stream in streams if book.needs(stream)}
        self._unwritten: dict[str, Blob] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all streams are drafted."""
        return not self._left

    def keep(self, names: Iterable[str]) -> Sequence[Blob]:
        """Draft streams that are about to change, unless they are drafted; return the blobs that are new."""
        left = self._left
        return self._draft([left.pop(name) for name in names if name in left])

    def some(self, has_time: Callable[[], bool]) -> Sequence[Blob]:
        """Draft some streams, and more while there is time; return the blobs that are new."""
        found: list[Blob] = []
        while self._left:
            found += self._draft([self._left.pop(name) for name in list(islice(self._left, AT_ONCE))])
            if not has_time():
                break
        return found

    def _draft(self, streams: Sequence[StreamState]) -> Sequence[Blob]:
        self._pack(streams)
        listed = [one for stream in streams for one in self._book.draft_stream(stream, self._key)]
        blobs = [one for one in listed if isinstance(one, Blob)]
        self._unwritten |= {blob.key: blob for blob in blobs}
        return blobs

    def note_written(self, key: str, offset: int) -> None:
        """Note that a chunk of a blob was written at this offset; the first chunk of a blob comes first."""
        if key in self._unwritten:
            self._book.note_written(self._unwritten.pop(key), offset)

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries of the manifest, once all new blobs were written."""
        return self._book.entries(self._names)


@dataclass(slots=True)
class SnapshotInProgress:
    """A snapshot that is being written.

    Attributes:
        anchor: The commit record after which the snapshot was taken.
        settings: The configuration in force there, as JSON.
        malformed: The breaker's counts there.
        stopped: The streams that are stopped there, with the reasons.
        partitions: The number of partitions to which the application moved last; 0: it never moved.
        purges: The snapshots of a purge that must follow.
        draft: What the manifest lists: entries of older snapshots, and blobs that are new.
        new_bytes: The bytes of the blobs that are new.
        queue: The chunks that are still to be sent.
        key: The key of the manifest; empty as long as the manifest is.
        manifest: The bytes of the manifest; empty until the offsets of all chunks are known.
        is_drafted: Whether all streams are drafted.
        sent: The chunks in the open transaction.
        offsets: The offsets of these chunks, once they are delivered.
        place: The offset of the first chunk of the manifest, once it was written.
    """

    anchor: Anchor
    settings: str
    malformed: BreakerCounts
    stopped: Mapping[str, str]
    partitions: int
    purges: int
    draft: SnapshotDraft
    queue: deque[Chunk]
    new_bytes: int = 0
    key: str = ""
    manifest: bytes = b""
    is_drafted: bool = False
    sent: list[Chunk] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    place: int | None = None
