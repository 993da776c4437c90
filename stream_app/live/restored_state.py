"""What a restore gives to a live task."""

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.live.breaker import Breaker
from stream_app.live.buffers import WaitingRecords
from stream_app.live.position import Position
from stream_app.live.snapshot_writer import SnapshotWriter
from stream_app.pipeline.task import Task


@dataclass(frozen=True, slots=True)
class RestoredState:
    """The state of a task and everything that moves along with it.

    Attributes:
        task: The models and joins.
        position: Where that state is in inputs, progress and outputs.
        waiting: Fetched records of examples and of labels that are not processed yet.
        breaker: Decides which streams are stopped.
        snapshots: Writes snapshots of the task.
    """

    task: Task
    position: Position
    waiting: tuple[WaitingRecords, WaitingRecords]
    breaker: Breaker
    snapshots: SnapshotWriter


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """What a restored task has to compare with progress, and to record there, before it takes new records.

    Attributes:
        is_new: Whether progress has no configuration yet.
        rules: The rules under which the newest commit or configuration in progress was written; 0 if there is no such
            record.
        partitions: The number of partitions that this record states.
        foreign: By output topic, the offset of the first record of another writer that the task accepts.
    """

    is_new: bool
    rules: int
    partitions: int
    foreign: Mapping[str, int]
