"""The events of a worker: each says what has happened, and has the line of the log about it, if there is one.

The docstring of an event with a line is the meaning of the line in `docs/reference.md`. `log` writes a line when its
event comes, with the fields of the event, unless the line is a summary or could come too often. Times are monotonic.
Each file has the events of one subject.
"""

from collections.abc import Sequence

from stream_app.worker.reports.events import batches, process, snapshots, streams, tasks, transactions
from stream_app.worker.reports.events.base import Event, Handler, Handlers, on
from stream_app.worker.reports.events.batches import (
    BatchCommitted,
    DeadLettersWritten,
    HeadersDropped,
    IdsErased,
    RecordsMisplaced,
    StreamsResumed,
    StreamsStopped,
    TracesDropped,
)
from stream_app.worker.reports.events.process import (
    ClosingFailed,
    CutOff,
    RoundEnded,
    StepBegan,
    StepEnded,
    StepProgressed,
    TopicsAtRisk,
)
from stream_app.worker.reports.events.snapshots import (
    MemoryAllocated,
    Purged,
    RetentionUsed,
    SnapshotComplete,
    SnapshotTaken,
    TrimFailed,
    Trimmed,
)
from stream_app.worker.reports.events.streams import (
    ChangeFlagged,
    DriftBegan,
    DriftEnded,
    EventTimesOld,
    FeaturesUnscaled,
    LabelsMissing,
    LabelsReturned,
    StreamProblem,
    StreamsNearBound,
    TableHasRoom,
    TableNearBound,
    ValuesLimited,
)
from stream_app.worker.reports.events.tasks import (
    Assigned,
    Damaged,
    Repaired,
    RestoreBegan,
    Restoring,
    Revoked,
    SettingChanged,
    TaskContinued,
    TaskParked,
    TaskRestored,
    TopicReplaced,
    WorkerStopped,
)
from stream_app.worker.reports.events.transactions import Aborted, Hanging, TakenOver, TransactionCommitted, Unblocked

__all__ = [
    "Aborted",
    "Assigned",
    "BatchCommitted",
    "ChangeFlagged",
    "ClosingFailed",
    "CutOff",
    "Damaged",
    "DeadLettersWritten",
    "DriftBegan",
    "DriftEnded",
    "Event",
    "EventTimesOld",
    "FeaturesUnscaled",
    "Handler",
    "Handlers",
    "Hanging",
    "HeadersDropped",
    "IdsErased",
    "LabelsMissing",
    "LabelsReturned",
    "MemoryAllocated",
    "Purged",
    "RecordsMisplaced",
    "Repaired",
    "RestoreBegan",
    "Restoring",
    "RetentionUsed",
    "Revoked",
    "RoundEnded",
    "SettingChanged",
    "SnapshotComplete",
    "SnapshotTaken",
    "StepBegan",
    "StepEnded",
    "StepProgressed",
    "StreamProblem",
    "StreamsNearBound",
    "StreamsResumed",
    "StreamsStopped",
    "TableHasRoom",
    "TableNearBound",
    "TakenOver",
    "TaskContinued",
    "TaskParked",
    "TaskRestored",
    "TopicReplaced",
    "TopicsAtRisk",
    "TracesDropped",
    "TransactionCommitted",
    "TrimFailed",
    "Trimmed",
    "Unblocked",
    "ValuesLimited",
    "WorkerStopped",
    "logged",
    "on",
]

_SUBJECTS = (process, tasks, transactions, batches, snapshots, streams)


def logged() -> Sequence[type[Event]]:
    """Return all kinds of events that have a line, in order of declaration."""
    found = [(subject, kind) for subject in _SUBJECTS for kind in vars(subject).values() if isinstance(kind, type)]
    return [
        kind
        for subject, kind in found
        if kind.__module__ == subject.__name__ and issubclass(kind, Event) and kind.line.name
    ]
