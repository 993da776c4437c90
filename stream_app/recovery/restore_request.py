"""The arguments of a restore (the task, its target, its topics, the time limits), and what it gives to a live task."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.backends.base import Clock, LogReader, TopicPartition, Watermarks
from stream_app.config.settings import WorkerSettings
from stream_app.errors import ErrorCode, StateError
from stream_app.live.snapshot_writer import SnapshotTimes
from stream_app.lost_markers.output_logs import OutputLogs
from stream_app.snapshot.format import Snapshot

_LONGEST_SILENCE_S = 5.0
"""Longest silence that one check adds: a slice takes up to a second, and other tasks commit between two slices."""


class Logs(NamedTuple):
    """The task's own topics.

    Attributes:
        snapshots: Finds the snapshots that progress names, newest first, in steps.
        progress: Opens a reader of progress at its first offset.
        changelog: Opens a reader of the changelog at its first offset.
        outputs: Access to the output partitions; None for a tool that rebuilds an old state and publishes nothing.
        input_ends: Asks for the first offsets and the ends of the inputs, in steps; None for such a tool.
    """

    snapshots: Callable[[], Generator[bool, None, tuple[Snapshot, ...]]]
    progress: Callable[[], LogReader]
    changelog: Callable[[], LogReader]
    outputs: OutputLogs | None
    input_ends: Callable[[], Generator[bool, None, Mapping[TopicPartition, Watermarks]]] | None = None


class Times(NamedTuple):
    """Times of a task's restores and snapshots.

    Attributes:
        deadline_s: Silence after which a restore is given up.
        snapshots: When the restored task takes snapshots.
    """

    deadline_s: float
    snapshots: SnapshotTimes

    @classmethod
    def of(cls, settings: WorkerSettings) -> "Times":
        """Return the times that these settings give."""
        idle_s = settings.snapshot_when_idle_ms / 1000
        return cls(settings.restore_timeout_ms / 1000, SnapshotTimes(settings.snapshot_after_ms / 1000, idle_s))


@dataclass(slots=True)
class RestoreReport:
    """What a restore found and did, for the log and for operators; complete once the task is live.

    Attributes:
        goal: The input offsets (examples, labels) that the restore has to reach.
        loaded_sequence: Sequence of the snapshot that was loaded; -1 where no snapshot was loaded.
        reprocessed_records: Input records that were processed again.
        damage: What could not be read, and why.
        replaced: A line for each output topic that was deleted and created again.
        changes: What the configuration in force changes, a line for each change.
    """

    goal: tuple[int, int]
    loaded_sequence: int = -1
    reprocessed_records: int = 0
    damage: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    changes: tuple[str, ...] = ()


class Deadline:
    """The longest silence of a restore: time in which it asked for records and nothing came.

    Args:
        clock: A monotonic clock.
        limit_s: The longest silence, in seconds.
        number: The number of the task, for the error.
    """

    def __init__(self, clock: Clock, limit_s: float, number: int) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._number = number
        self._silent_s = 0.0
        self._asked_at_s = clock.monotonic_s()

    @property
    def silent_s(self) -> float:
        """The time in which it asked and nothing came, in seconds."""
        return self._silent_s

    def restart(self) -> None:
        """Count from now on, because something came."""
        self._asked_at_s = self._clock.monotonic_s()
        self._silent_s = 0.0

    def check(self, state: str) -> None:
        """Count the time since the last call, in which nothing came.

        Time in which it did not ask does not count: a process that was frozen has not waited.

        Args:
            state: How far the restore has come, for the error.

        Raises:
            StateError: The silence has lasted too long.
        """
        now_s = self._clock.monotonic_s()
        self._silent_s += min(now_s - self._asked_at_s, _LONGEST_SILENCE_S)
        self._asked_at_s = now_s
        if self._silent_s > self._limit_s:
            raise StateError(
                f"task {self._number}: the restore received no record for {self._limit_s:g} s: {state}",
                ErrorCode.NO_RECORDS,
            )
