"""Where the check of one partition begins: at the first record, at a checkpoint, or at a snapshot of a worker.

A snapshot is the oldest state that is left where inputs have expired. It is the workers' own; what they did before it
cannot be checked any more.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.reading import rows_of
from stream_app.config import TaskSettings
from stream_app.errors import ConfigurationError, StateError
from stream_app.join.stream_join import HASH_KEY_BYTES
from stream_app.pipeline.task import Task
from stream_app.progress_records import Commit
from stream_app.snapshot.format import (
    Location,
    Manifest,
    Snapshot,
    join_chunks,
)
from stream_app.snapshot.task_loading import load_task
from stream_app.verify.second_run.checkpoint import Ended


@dataclass(frozen=True, slots=True)
class Start:
    """A state from which a task is run again.

    Attributes:
        task: The task, with the state after the commit record.
        commit: Sequence, digest and ends of the commit record; its other fields have no meaning.
        progress_offset: The offset of the commit record.
        since: The input offsets at which the first run of the chain began.
        outputs: By output topic, the offset of the first record after the state; empty where the next commit says it.
        is_checkpoint: Whether an earlier run of `verify` reached this state by its own computation.
    """

    task: Task
    commit: Commit
    progress_offset: int
    since: tuple[int, int]
    outputs: Mapping[str, int] = field(default_factory=dict)
    is_checkpoint: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """The next input offsets."""
        return self.commit.examples_end, self.commit.labels_end


def at_checkpoint(ended: Ended, inputs: tuple[str, str], where: str) -> Start:
    """Return the state that a checkpoint holds.

    Raises:
        ConfigurationError: The state does not load.
    """
    position = ended.position
    try:
        task = _task(position.manifest, ended.blobs, inputs, where)
    except StateError as problem:
        raise ConfigurationError(f"{where}: {problem}") from problem
    commit = _commit(position.manifest)
    return Start(task, commit, position.progress_offset, position.since, position.outputs, is_checkpoint=True)


def at_oldest_snapshot(
    cluster: Cluster,
    changelog: TopicPartition,
    inputs: tuple[str, str],
    snapshots: Sequence[Snapshot],
    lows: tuple[int, int, int],
) -> Start | None:
    """Return the oldest snapshot that progress names and whose ranges can still be read.

    The snapshots come newest first; `lows` are the first offsets that are left of progress, examples and labels.
    """
    for snapshot in reversed(snapshots):
        where = f"{changelog.topic}[{changelog.partition}] offset {snapshot.manifest.offset}"
        try:
            manifest = Manifest.from_bytes(_content(cluster, changelog, snapshot.manifest), where)
            ends = (snapshot.progress_offset + 1, *manifest.offsets)
            if manifest.partition != changelog.partition or any(low > end for low, end in zip(lows, ends, strict=True)):
                continue
            blobs = {entry.key: _content(cluster, changelog, entry.location) for entry in manifest.entries}
            task = _task(manifest, blobs, inputs, where)
        except StateError:  # the other snapshot may be whole
            continue
        return Start(task, _commit(manifest), snapshot.progress_offset, manifest.offsets)
    return None


def _content(cluster: Cluster, changelog: TopicPartition, location: Location) -> bytes:
    """Return the bytes at a place of the changelog.

    Raises:
        StateError: They are not those that the location names.
    """
    where = f"{changelog.topic}[{changelog.partition}] offset {location.offset}"
    rows = islice(rows_of(cluster, changelog, location.offset), location.chunks)
    return join_chunks(location, [row.value or b"" for row in rows], where)


def _task(manifest: Manifest, blobs: Mapping[str, bytes], inputs: tuple[str, str], where: str) -> Task:
    settings = TaskSettings.from_json(manifest.settings)
    task = Task(manifest.partition, settings, inputs, secrets.token_bytes(HASH_KEY_BYTES))
    load_task(task, manifest, blobs, where)
    return task


def _commit(manifest: Manifest) -> Commit:
    (examples, labels), digest = manifest.offsets, bytes.fromhex(manifest.digest)
    return Commit(manifest.sequence, examples, examples, labels, labels, digest, 0)
