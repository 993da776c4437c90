"""`areba state recommit`: commit the group's offsets again after they were reset or deleted, or have expired.

Progress has all that is needed: the last commit record of a task holds the sequence, the digest and the end offsets
that the group committed in the same transaction. The snapshots are found in the changelog. A worker that restores the
task compares everything, so a wrong offset cannot go unnoticed.
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
from stream_app.recovery.changelog import find_manifests, whole_snapshots
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
"""Records at the end of progress that are read first: they have the commits of recent snapshots, and the last."""


@dataclass(frozen=True, slots=True)
class Recommit:
    """The offsets that the group has committed for a task, and those that it should have committed.

    Attributes:
        task: Number of the task.
        inputs: The task's partitions of examples and labels.
        before: The offsets that the group has committed for them.
        offsets: The end offsets of the last commit record; None if there is no commit record.
        target: Sequence and digest of this record, and the newest snapshots before it.
    """

    task: int
    inputs: tuple[TopicPartition, TopicPartition]
    before: Mapping[TopicPartition, Committed | None]
    offsets: tuple[int, int] | None
    target: RestoreTarget

    @property
    def is_right(self) -> bool:
        """Whether offsets and point are committed as they should be, and a snapshot is named if there is any."""
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
        """Return the offsets that have to be committed, by partition."""
        metadata = self.target.point.metadata(self.target.snapshots, self.target.topic_ids)
        return {
            partition: Committed(offset, metadata)
            for partition, offset in zip(self.inputs, self.offsets or (), strict=True)
        }

    def text(self, *, dry_run: bool) -> str:
        """Return a line for people."""
        committed = [self.before.get(partition) for partition in self.inputs]
        before = "/".join(str(known.offset) if known else "none" for known in committed)
        if self.offsets is None:
            more = (
                "" if before == "none/none" else f"; no worker has committed the group's offsets {before}: delete them"
            )
            return f"task {self.task}: never committed anything{more}"
        point = f"sequence {self.target.point.sequence}, {_snapshots(self.target.snapshots)}"
        now = f"{pair(self.offsets)} ({point})"
        if self.is_right:
            return f"task {self.task}: {now} is committed, as it should be"
        known = ", ".join(dict.fromkeys(_words(one.metadata) for one in committed if one)) or "no metadata"
        return f"task {self.task}: committed was {before} ({known}), {'would be' if dry_run else 'now'} {now}"


def recommit(cluster: Cluster, config: Config, tasks: Iterable[int], *, dry_run: bool = False) -> Iterator[str]:
    """Commit the group's offsets again as progress has them; yield a line for each task.

    Args:
        cluster: Where the topics are.
        config: The application's configuration.
        tasks: Numbers of the tasks; empty for all tasks.
        dry_run: Whether to only yield the lines.

    Raises:
        ConfigurationError: There is no such task.
        StateError: The group has members, an input was deleted and created again, or progress has a foreign record.
        UnknownOutcomeError: The broker did not answer in time.
    """
    for task in chosen_tasks(cluster, config, tasks):
        found = look(cluster, config, task)
        if not (dry_run or found.is_right):
            cluster.commit_offsets(config.group_id, found.wanted())
        yield found.text(dry_run=dry_run)


def look(cluster: Cluster, config: Config, task: int) -> Recommit:
    """Find out which offsets the group has committed for a task, and which it should have committed.

    Raises:
        StateError: An input was deleted and created again, or progress has a foreign record.
        UnknownOutcomeError: The broker did not answer in time.
    """
    topics = config.topics
    inputs = (TopicPartition(topics.examples, task), TopicPartition(topics.labels, task))
    changelog = TopicPartition(topics.changelog, task)
    found = cluster.topics((topics.examples, topics.labels))
    # This call waits for open transactions that hold the offsets, so progress is complete when it is read below.
    before = cluster.committed(config.group_id, inputs)
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
        and commits.can_restore_from(manifest.sequence)
    ]
    whole = finish(cluster, changelog, lambda reader: whole_snapshots(reader, task, known))
    target = RestoreTarget(CommitPoint(last.sequence, last.digest), whole, topic_ids)
    return Recommit(task, inputs, before, (last.examples_end, last.labels_end), target)


class _Commits:
    """The last commit record of a task, and the commit records with some given sequences.

    Attributes:
        last: The last commit record; None if there is no commit record.
        digests: Digests of the given commit records, by sequence.
        offsets: Offsets of the given commit records in progress, by sequence.
    """

    def __init__(self, cluster: Cluster, progress: TopicPartition, sequences: AbstractSet[int]) -> None:
        self.last: Commit | None = None
        self._gap = (-1, -1)  # the sequences of the last skip and of the state from which it continues
        self.digests: dict[int, bytes] = {}
        self.offsets: dict[int, int] = {}
        low, high = cluster.watermarks(progress)
        records = TAIL_RECORDS
        while not self._read(cluster, progress, sequences, max(low, high - records)) and records < high - low:
            records *= 10

    def _read(self, cluster: Cluster, progress: TopicPartition, sequences: AbstractSet[int], start: int) -> bool:
        """Read from an offset on; say whether none of the given sequences can be before it."""
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
                self._gap = record.sequence, read_gap(record.text).state_sequence
        return self.last is not None and first is not None and first <= min(sequences, default=first)

    def can_restore_from(self, sequence: int) -> bool:
        """Say whether a task can be restored from a snapshot of this sequence.

        After a skip, only newer snapshots can be used, and the snapshot from which the skip continues.
        """
        at, state_sequence = self._gap
        return sequence > at or sequence == state_sequence


def chosen_tasks(cluster: Cluster, config: Config, tasks: Iterable[int]) -> Sequence[int]:
    """Return the given tasks of the application, or all tasks if no task is given.

    Raises:
        ConfigurationError: There is no such task.
        TopicError: A topic is missing.
    """
    topics = config.topics
    needed = (topics.examples, topics.labels, topics.progress, topics.changelog)
    found = cluster.topics(needed)
    if missing := [name for name in needed if name not in found]:
        raise TopicError([f"{name}: the topic does not exist" for name in missing])
    partitions = partitions_of(cluster, topics)
    chosen = list(tasks) or list(range(partitions))
    if beyond := [task for task in chosen if task >= partitions]:
        raise ConfigurationError(f"there is no task {beyond[0]}: the application has {partitions}")
    return chosen


def _words(metadata: str) -> str:
    """Describe the metadata of a committed offset for people."""
    try:
        target = parse_metadata(metadata, "")
    except StateError:
        return f"metadata {metadata!r:.60}"
    return f"sequence {target.point.sequence}, {_snapshots(target.snapshots)}"


def _snapshots(snapshots: Sequence[Snapshot]) -> str:
    return f"{len(snapshots)} snapshot{'' if len(snapshots) == 1 else 's'}"
