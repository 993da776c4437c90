"""What `areba inspect` finds wrong: codes, and lines that begin with them."""

from enum import StrEnum
from typing import Any, NamedTuple


class ProblemCode(StrEnum):
    """The kinds of problems; a line of the report begins with the code.

    Attributes:
        NO_WORKER: No worker is running.
        PARKED: A task cannot be restored.
        NO_COMMIT: Records wait, and the task has committed nothing for a minute, although a worker is running.
        HELD_BACK: An open transaction of a producer holds an input back.
        RETENTION_USED: Inputs that a restore needs are close to their retention, or were deleted while workers run.
        GROUP_OFFSETS: The group's offsets are not those of progress, so somebody has changed them; no task is affected.
        STREAM_STOPPED: The breaker has stopped a stream.
        DEAD_LETTERS: Records of a stream became dead letters and were not sent back.
        LABELS_MISSING: Labels of a stream do not come, are too few, or do not meet their examples.
        TABLE_NEAR_BOUND: A table of a stream is almost full, and what it will lose is still needed.
        OLD_EVENT_TIMES: Records of a stream come with event times that are close to the retention of the inputs.
        MISPLACED: A stream is in a partition to which its key does not belong.
        SPLIT_STREAM: A stream has records in several partitions.
        TOPICS: A topic has settings that put data at risk, or more partitions than the application has tasks.
    """

    NO_WORKER = "no-worker"
    PARKED = "parked"
    NO_COMMIT = "no-commit"
    HELD_BACK = "held-back"
    RETENTION_USED = "retention-used"
    GROUP_OFFSETS = "group-offsets"
    STREAM_STOPPED = "stream-stopped"
    DEAD_LETTERS = "dead-letters"
    LABELS_MISSING = "labels-missing"
    TABLE_NEAR_BOUND = "table-near-bound"
    OLD_EVENT_TIMES = "old-event-times"
    MISPLACED = "misplaced"
    SPLIT_STREAM = "split-stream"
    TOPICS = "topics"


class Problem(NamedTuple):
    """One line of the report.

    Attributes:
        code: What kind of problem it is.
        text: The problem in words, with the command that helps.
        task: The task; None where the problem is about no single task.
        stream: The stream; None where the problem is about no single stream.
    """

    code: ProblemCode
    text: str
    task: int | None = None
    stream: str | None = None

    def __str__(self) -> str:
        """Return the code and the place, then the text."""
        task = "" if self.task is None else f" task {self.task}:"
        stream = "" if self.stream is None else f" stream {self.stream!r}:"
        return f"{self.code}{task}{stream} {self.text}"

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        return self._asdict()
