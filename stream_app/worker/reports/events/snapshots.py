"""Snapshots, retention and memory of a task."""

from stream_app.worker.reports.events.base import INFO, WARNING, TaskEvent, event


@event("snapshot-taken", INFO, " task={task} sequence={sequence} bytes={size}")
class SnapshotTaken(TaskEvent):
    """All streams of a snapshot are drafted: the sequence after which it was taken, and the new bytes to write."""

    sequence: int
    size: int


@event("snapshot-complete", INFO, " task={task} sequence={sequence}")
class SnapshotComplete(TaskEvent):
    """A snapshot is complete in the changelog."""

    sequence: int


@event("purged", INFO, " task={task} sequence={sequence}")
class Purged(TaskEvent):
    """No snapshot that a restore loads has anything of what was erased before this sequence.

    The chunks of older snapshots have tombstones; Kafka deletes them when it compacts the changelog.
    """

    sequence: int


@event(
    "retention-used",
    WARNING,
    " task={task} share={share:.2f} of what the topics keep; the newest snapshot is too old",
)
class RetentionUsed(TaskEvent):
    """A restore of this task needs a record that has used at least half of its topic's retention.

    From 1 on, the broker may have deleted it. While the worker runs, nothing is lost: stop it with SIGTERM, which saves
    the task. Logged every minute for each task.
    """

    share: float


@event("trimmed", INFO, " task={task} progress from offset={offset}")
class Trimmed(TaskEvent):
    """Progress records that no restore needs were deleted; the field has the first remaining offset."""

    offset: int


@event("trim-failed", WARNING, " task={task}: {problem}; progress keeps records that no restore needs")
class TrimFailed(TaskEvent):
    """Progress records that no restore needs could not be deleted. Logged once; nothing is lost."""

    problem: str


@event("memory", INFO, " task={task} allocated={size}")
class MemoryAllocated(TaskEvent):
    """The memory of a live task's state, buffers and snapshot. Logged each time it has grown by half."""

    size: int
