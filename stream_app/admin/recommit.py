"""`areba state recommit`: the way back when the group's offsets were reset, deleted or have expired.

Progress knows where each task is: its last commit record has the sequence, the digest and the ends of both ranges that
the group had committed in the same transaction. The snapshots are found again in the changelog. Nothing is made up: a
worker compares all of it when it restores the task.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from stream_app.admin.history import finish, records_of
from stream_app.backends.base import Cluster, Committed, TopicPartition, pair
from stream_app.backends.partition_count import partitions_of
from stream_app.config import Config
from stream_app.errors import ConfigurationError, StateError, TopicError
from stream_app.records import SKIP, Commit
from stream_app.recovery.changelog import find_manifests, whole_ones
from stream_app.recovery.commit_point import (
    CommitPoint,
    RestoreTarget,
    check_topic_ids,
    parse_metadata,
    progress_record,
)
from stream_app.snapshot.format import Snapshot
from stream_app.snapshot.skipped_inputs import read_gap

TAIL_RECORDS = 100_000
"""Of progress, read first: it has the last commit and the newest snapshots, unless these are very old."""


@dataclass(frozen=True, slots=True)
class Recommit:
    """What the group has committed of a task, and what it should have.

    Attributes:
        task: Its number.
        inputs: Its partitions of examples and labels.
        before: What is committed for them.
        offsets: Behind the last commit record; None: there is none.
        target: That record, and the newest snapshots before it.
    """

    task: int
    inputs: tuple[TopicPartition, TopicPartition]
    before: Mapping[TopicPartition, Committed | None]
    offsets: tuple[int, int] | None
    target: RestoreTarget

    @property
    def is_right(self) -> bool:
        """Whether nothing has to be committed: offsets and point are those, and so is a snapshot, if there is any."""
        committed = [self.before.get(partition) for partition in self.inputs]
        if self.offsets is None:
            return True
        if [known.offset if known else None for known in committed] != list(self.offsets):
            return False
        one, two = (known.metadata for known in committed if known)
        try:
            target = parse_metadata(one, "")
        except StateError:
            return False
        has_snapshot = not self.target.snapshots or bool(set(self.target.snapshots) & set(target.snapshots))
        return one == two and target.point == self.target.point and has_snapshot

    def wanted(self) -> dict[TopicPartition, Committed]:
        """What is to be committed."""
        metadata = self.target.point.metadata(self.target.snapshots, self.target.topic_ids)
        return {
            partition: Committed(offset, metadata)
            for partition, offset in zip(self.inputs, self.offsets or (), strict=True)
        }

    def text(self, *, dry_run: bool) -> str:
        """A line for people."""
        committed = [self.before.get(partition) for partition in self.inputs]
        before = "/".join(str(known.offset) if known else "none" for known in committed)
        if self.offsets is None:
            more = (
                "" if before == "none/none" else f"; the group's offsets {before} are none of a worker's: delete them"
            )
            return f"task {self.task}: never committed anything{more}"
        point = f"sequence {self.target.point.sequence}, {_snapshots(self.target.snapshots)}"
        now = f"{pair(self.offsets)} ({point})"
        if self.is_right:
            return f"task {self.task}: {now} is committed, as it should be"
        known = ", ".join(dict.fromkeys(_words(one.metadata) for one in committed if one)) or "no metadata"
        return f"task {self.task}: committed was {before} ({known}), {'would be' if dry_run else 'now'} {now}"


def recommit(cluster: Cluster, config: Config, tasks: Iterable[int], *, dry_run: bool = False) -> Iterator[str]:
    """Commit the group's offsets again, as progress has them; a line for each task.

    Raises:
        ConfigurationError: There is no such task.
        StateError: The group has members, an input was deleted and created again, or progress has something else than
            our records.
        UnknownOutcomeError: The broker fell silent.
    """
    for task in chosen_tasks(cluster, config, tasks):
        found = look(cluster, config, task)
        if not (dry_run or found.is_right):
            cluster.commit_offsets(config.group_id, found.wanted())
        yield found.text(dry_run=dry_run)


def look(cluster: Cluster, config: Config, task: int) -> Recommit:
    """What is committed of a task, and what its own topics say."""
    topics = config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    changelog = TopicPartition(topics.changelog, task)
    found = cluster.topics((topics.examples, topics.labels))
    before = cluster.committed(config.group_id, inputs)  # waits for transactions that hold them: progress is whole then
    manifests = finish(cluster, changelog, lambda reader: find_manifests(reader, task))
    commits = _Commits(cluster, TopicPartition(topics.progress, task), {one.sequence for _, one in manifests})
    last = commits.last
    if last is None:
        return Recommit(task, inputs, before, None, RestoreTarget(CommitPoint(-1, b"")))
    topic_ids = (found[topics.examples].topic_id, found[topics.labels].topic_id)
    check_topic_ids(inputs, (last.examples_topic_id, last.labels_topic_id), topic_ids)
    known = [
        Snapshot(place, commits.offsets[manifest.sequence])
        for place, manifest in sorted(manifests, key=lambda one: one[1].sequence, reverse=True)
        if commits.digests.get(manifest.sequence) == bytes.fromhex(manifest.digest)
        and commits.leads_on_from(manifest.sequence)
    ]
    whole = finish(cluster, changelog, lambda reader: whole_ones(reader, task, known))
    target = RestoreTarget(CommitPoint(last.sequence, last.digest), whole, topic_ids)
    return Recommit(task, inputs, before, (last.examples_end, last.labels_end), target)


class _Commits:
    """The last commit record of a task, and those of some sequences.

    Attributes:
        last: None where there is none.
        digests: By sequence.
        offsets: By sequence, where these records are.
    """

    def __init__(self, cluster: Cluster, progress: TopicPartition, sequences: AbstractSet[int]) -> None:
        self.last: Commit | None = None
        self._gap = (-1, -1)  # the sequence of the last `skip`, and the one from which it continues
        self.digests: dict[int, bytes] = {}
        self.offsets: dict[int, int] = {}
        low, high = cluster.watermarks(progress)
        records = TAIL_RECORDS
        while not self._read(cluster, progress, sequences, max(low, high - records)) and records < high - low:
            records *= 10

    def _read(self, cluster: Cluster, progress: TopicPartition, sequences: AbstractSet[int], start: int) -> bool:
        """Read from an offset on; whether no sequence lies before it."""
        first: int | None = None
        for offset, value in records_of(cluster, progress, start):
            record = progress_record(value, f"{progress.topic}[{progress.partition}] offset {offset}")
            first = record.sequence if first is None else first
            if isinstance(record, Commit):
                self.last = record
                if record.sequence in sequences:
                    self.digests[record.sequence] = record.digest
                    self.offsets[record.sequence] = offset
            elif record.kind == SKIP:
                self._gap = record.sequence, read_gap(record.text).behind
        return self.last is not None and first is not None and first <= min(sequences, default=first)

    def leads_on_from(self, sequence: int) -> bool:
        """Whether a task continues from a snapshot of this sequence: an accepted gap leads on from one state alone."""
        at, behind = self._gap
        return sequence > at or sequence == behind


def chosen_tasks(cluster: Cluster, config: Config, tasks: Iterable[int]) -> Sequence[int]:
    """These tasks of the application; all, where none is named.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing.
    """
    topics = config.topics
    needed = (topics.examples, topics.labels, topics.progress, topics.changelog)
    found = cluster.topics(needed)
    if missing := [name for name in needed if name not in found]:
        raise TopicError([f"{name}: there is no such topic" for name in missing])
    partitions = partitions_of(cluster, topics)
    chosen = list(tasks) or list(range(partitions))
    if beyond := [task for task in chosen if task >= partitions]:
        raise ConfigurationError(f"there is no task {beyond[0]}: the application has {partitions}")
    return chosen


def _words(metadata: str) -> str:
    """What the metadata of a committed offset say."""
    try:
        target = parse_metadata(metadata, "")
    except StateError:
        return f"metadata {metadata!r:.60}"
    return f"sequence {target.point.sequence}, {_snapshots(target.snapshots)}"


def _snapshots(snapshots: Sequence[Snapshot]) -> str:
    return f"{len(snapshots)} snapshot{'' if len(snapshots) == 1 else 's'}"
