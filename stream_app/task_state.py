"""The states of a task: the same words in the code, the log, `/metrics`, `/ready` and `areba inspect`."""

from enum import StrEnum


class TaskState(StrEnum):
    """What a task is doing.

    `areba inspect` reads topics only, so it cannot tell a task that is being restored from a live task.

    Attributes:
        ASSIGNED: The group has given the task to this worker; its restore has not begun.
        LOADING: A snapshot is being read.
        READING: Progress is being read up to the committed sequence and compared with the output topics.
        REPROCESSING: Inputs are processed again along the recorded ranges; then committed outputs that nobody can
            read are published again.
        LIVE: The task takes new records.
        PARKED: The task cannot be restored or processed; the other tasks continue.
        NEW: The task has never committed anything (`areba inspect`).
        IDLE: The group has no workers; the next worker continues the task (`areba inspect`).
        RUNNING: The group has workers, which restore the task or process its records (`areba inspect`).
    """

    ASSIGNED = "assigned"
    LOADING = "loading"
    READING = "reading"
    REPROCESSING = "reprocessing"
    LIVE = "live"
    PARKED = "parked"
    NEW = "new"
    IDLE = "idle"
    RUNNING = "running"

    @property
    def is_restoring(self) -> bool:
        """Whether the task is at a step of its restore."""
        return self in (TaskState.LOADING, TaskState.READING, TaskState.REPROCESSING)


INSPECTED = (TaskState.NEW, TaskState.IDLE, TaskState.RUNNING, TaskState.PARKED)
"""The states that `areba inspect` shows."""

REPORTED = tuple(state for state in TaskState if state not in (TaskState.NEW, TaskState.IDLE, TaskState.RUNNING))
"""The states that a worker reports in its log, `/metrics` and `/ready`."""
