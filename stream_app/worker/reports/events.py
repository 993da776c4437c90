"""The events of a worker: each says what has happened, and has the line of the log about it, if there is one.

The docstring of an event with a line is the meaning of the line in `docs/reference.md`. `log` writes a line when its
event comes, with the fields of the event, unless the line is a summary or could come too often. Times are monotonic.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

from stream_app.backends.base import TopicPartition
from stream_app.backends.partitioner import Misplaced
from stream_app.errors import StateError
from stream_app.live.live_task import BatchCounts
from stream_app.log_lines import LogLine
from stream_app.pipeline.outputs import DeadCount, Erased
from stream_app.records import Reason
from stream_app.task_state import TaskState

_INFO, _WARNING, _ERROR = logging.INFO, logging.WARNING, logging.ERROR


class Event:
    """Something that happened in a worker. A line without a name is not written."""

    __slots__ = ()
    line: ClassVar[LogLine]


_Kind = TypeVar("_Kind", bound=Event)

Handler: TypeAlias = Callable[[Any], object]

Handlers: TypeAlias = Mapping[type[Event], Handler]
"""What a subscriber does with each kind of event. Its rows are made by `on`."""


def on(kind: type[_Kind], handler: Callable[[_Kind], object]) -> tuple[type[Event], Handler]:
    """Return a row of `Handlers`, for which a type checker knows that the handler takes this kind of event."""
    return kind, handler


@dataclass_transform(frozen_default=True)
def _event(
    name: str = "", level: int = _INFO, text: str = "", *, has_traceback: bool = False
) -> Callable[[type[_Kind]], type[_Kind]]:
    """Make a class a frozen dataclass with a line of the log."""

    def declared_as(kind: type[_Kind]) -> type[_Kind]:
        kind.line = LogLine(name, level, text, " ".join((kind.__doc__ or "").split()), has_traceback)
        return dataclass(frozen=True, slots=True)(kind)

    return declared_as


@_event()
class _TaskEvent(Event):
    """Something that happened to a task."""

    task: int


# The process and its loop ---------------------------------------------------------------------------------------------


@_event()
class StepBegan(Event):
    """The main loop began a piece of work that waits for no broker, such as a batch, and that may last so long."""

    what: str
    limit_s: float


@_event()
class StepProgressed(Event):
    """The current step is not stuck: its time counts from now."""


@_event()
class StepEnded(Event):
    """The main loop does no work of its own."""


@_event()
class RoundEnded(Event):
    """A round ended, with or without a commit, so many seconds after a broker last answered."""

    silence_s: float


@_event()
class CutOff(Event):
    """No broker can be reached; `cause` says why, after a colon, as far as the clients say."""

    cause: str


@_event("topics", _WARNING, ": {problem}")
class TopicsAtRisk(Event):
    """A topic is missing, has grown, or has settings that put data at risk. Logged at start, and when it changes."""

    problem: str


@_event("closing-failed", _WARNING, "", has_traceback=True)
class ClosingFailed(Event):
    """A Kafka client could not be closed when the worker ended; the traceback follows."""


# Assignment and restore -----------------------------------------------------------------------------------------------


@_event("assigned", _INFO, " tasks={tasks}")
class Assigned(Event):
    """The group has given these tasks to this worker."""

    tasks: Sequence[int]


@_event("revoked", _INFO, " tasks={tasks}")
class Revoked(Event):
    """The group has taken these tasks back."""

    tasks: Sequence[int]


@_event("continued", _INFO, " task={task} sequence={sequence}")
class TaskContinued(_TaskEvent):
    """The group has given a task back to its last owner.

    Nobody has committed anything for it in between, so the task continues without a restore.
    """

    sequence: int
    committed: tuple[int, int]


@_event()
class RestoreBegan(_TaskEvent):
    """A task must be restored, after an assignment or an aborted transaction."""


@_event("restoring", _INFO, " task={task} state={state} offsets={examples}/{labels} of={examples_goal}/{labels_goal}")
class Restoring(_TaskEvent):
    """A task is being restored.

    The line has its state, the offsets that its restore has reached (-1: it has not begun), and those that it has to
    reach. Logged every ten seconds.
    """

    state: TaskState
    offsets: tuple[int, int] | None
    goal: tuple[int, int]


@_event("damaged", _ERROR, " task={task}: {problem}; continuing without this snapshot")
class SnapshotDamaged(_TaskEvent):
    """A snapshot cannot be read. The task is restored from an older snapshot, or from the first offset."""

    problem: str


@_event("topic-replaced", _WARNING, " task={task} {problem}")
class TopicReplaced(_TaskEvent):
    """A topic was deleted and created again. The task continues; the line says what is gone."""

    problem: str


@_event("repaired", _WARNING, " task={task} {counts}: they could not be read")
class Repaired(_TaskEvent):
    """Committed outputs that no reader could see were published again.

    `progress`: only records of progress were lost.
    """

    records: Mapping[str, int]


@_event("restored", _INFO, " task={task} sequence={sequence} reprocessed={records} snapshot={snapshot}")
class TaskRestored(_TaskEvent):
    """A task is live again.

    The line has its sequence, the number of records that were processed again, and the sequence of the snapshot (-1:
    none).
    """

    sequence: int
    committed: tuple[int, int]
    snapshot: int
    records: int


@_event("changed", _INFO, " task={task} {change}")
class SettingChanged(_TaskEvent):
    """From now on a task uses the new value of a setting."""

    change: str


@_event("parked", _ERROR, " task={task}: {problem}")
class Parked(_TaskEvent):
    """A task cannot be restored or processed; the other tasks continue. The line ends with the code of the problem."""

    problem: StateError


@_event("stopped", _INFO, " task={task} sequence={sequence} models={models}")
class Stopped(_TaskEvent):
    """A clean stop: the task's last sequence, and the digest of all its models."""

    sequence: int
    models: str


# Transactions ---------------------------------------------------------------------------------------------------------


@_event()
class TransactionCommitted(Event):
    """A transaction was committed that began at this time."""

    began_s: float


@_event("aborted", _WARNING, ": {problem}")
class Aborted(Event):
    """A transaction was aborted; its tasks are restored."""

    problem: str


@_event(
    "hanging",
    _WARNING,
    ": in {partitions} a transaction does not end; it is aborted now, if its transactional id is known",
)
class Hanging(Event):
    """A transaction does not end, and tasks wait for it."""

    partitions: Sequence[TopicPartition]


@_event("taken-over", _WARNING, " tasks={tasks} transactional_id={transactional_id}: its open transaction was ended")
class TakenOver(Event):
    """The worker has ended a transaction that a process which is gone had left open."""

    tasks: Sequence[int]
    transactional_id: str


@_event("unblocked", _INFO, " tasks={tasks}")
class Unblocked(Event):
    """The transactions that these tasks were waiting for are no longer open."""

    tasks: Sequence[int]


# Committed batches ----------------------------------------------------------------------------------------------------


@_event("progress", _INFO, " outputs={outputs} offsets={offsets}")
class BatchCommitted(_TaskEvent):
    """The output records since the previous line, and the committed offsets of each task. Logged every ten seconds."""

    offsets: tuple[int, int]
    counts: BatchCounts


@_event(
    "dead-letters",
    _WARNING,
    " reason={reason} count={count} last: task={task} stream={stream} {side} offset={offset}; look: {command}{why}",
)
class DeadLettersWritten(_TaskEvent):
    """Records became dead letters.

    The line has their number since the previous line, the last one, the command that shows it, and for a late or orphan
    label how late it was and which setting decided.
    """

    counts: Sequence[DeadCount]
    last_offsets: Mapping[Reason, int]


@_event("stream-stopped", _ERROR, " task={task} stream={stream!r}: {problem}; {hint}")
class StreamsStopped(_TaskEvent):
    """The breaker has stopped a stream; its records become dead letters.

    Correct the producer, then run `areba resume`.
    """

    stops: Mapping[str, str]


@_event(
    "stream-resumed",
    _INFO,
    " task={task} stream={stream!r}; send its dead letters back: areba dlq resend --reason stream-stopped",
)
class StreamsResumed(_TaskEvent):
    """An operator has resumed a stream that the breaker had stopped."""

    streams: Sequence[str]


@_event(
    "erased",
    _INFO,
    " task={task} stream={stream!r} ids={ids} pending={pending} waiting={waiting} closed={closed} queued={queued}",
)
class IdsErased(_TaskEvent):
    """`areba erase` took effect.

    The mark names so many ids, and the state had so many pending examples, waiting labels, closed ids and examples in
    the queues of all learners with these ids.
    """

    erased: Erased


@_event(
    "misplaced",
    _WARNING,
    " task={task} records={records}: stream {stream!r} belongs to partition {partition}. Its producer "
    "uses another partitioner: set partitioner=murmur2_random (Java's default), or a label may not meet its "
    "example",
)
class RecordsMisplaced(_TaskEvent):
    """A record is in a partition to which its key does not belong. Logged for the first such record of a task."""

    found: Misplaced


@_event("traces-dropped", _WARNING, " task={task} records={records}: traceparent is not a valid W3C value")
class TracesDropped(_TaskEvent):
    """Records since the last such line whose `traceparent` was dropped. Logged at most once a minute."""

    records: int


# Snapshots, retention, memory -----------------------------------------------------------------------------------------


@_event("snapshot-started", _INFO, " task={task} sequence={sequence} bytes={size}")
class SnapshotStarted(_TaskEvent):
    """A snapshot is being written: the sequence after which it was taken, and how many bytes are new."""

    sequence: int
    size: int


@_event("snapshot-complete", _INFO, " task={task} sequence={sequence}")
class SnapshotComplete(_TaskEvent):
    """A snapshot is complete in the changelog."""

    sequence: int


@_event("purged", _INFO, " task={task} sequence={sequence}")
class Purged(_TaskEvent):
    """No snapshot that a restore loads has anything of what was erased before this sequence.

    The chunks of older snapshots have tombstones; Kafka deletes them when it compacts the changelog.
    """

    sequence: int


@_event(
    "retention-used",
    _WARNING,
    " task={task} share={share:.2f} of what the topics keep; the newest snapshot is too old",
)
class RetentionUsed(_TaskEvent):
    """A restore of this task needs a record that has used at least half of its topic's retention.

    From 1 on, the broker may have deleted it. While the worker runs, nothing is lost: stop it with SIGTERM, which saves
    the task. Logged every minute for each task.
    """

    share: float


@_event("trimmed", _INFO, " task={task} progress from offset={offset}")
class Trimmed(_TaskEvent):
    """Progress records that no restore needs were deleted; the field has the first remaining offset."""

    offset: int


@_event("trim-failed", _WARNING, " task={task}: {problem}; progress keeps records that no restore needs")
class TrimFailed(_TaskEvent):
    """Progress records that no restore needs could not be deleted. Logged once; nothing is lost."""

    problem: str


@_event("memory", _INFO, " task={task} allocated={size}")
class MemoryAllocated(_TaskEvent):
    """The memory of a live task's state, buffers and snapshot. Logged each time it has grown by half."""

    size: int


# What a look at a stream has found ------------------------------------------------------------------------------------


@_event()
class StreamProblem(_TaskEvent):
    """Something is wrong with a stream; one line names all streams that have the problem since the last line."""

    stream: str
    problem: str


@_event("labels", _WARNING, ": {streams}")
class LabelsMissing(StreamProblem):
    """Labels of some streams are missing.

    They have stopped coming, too many examples end without a label, or most of the newest labels meet no example.
    """

    stream: str
    problem: str


@_event("labels", _INFO, " task={task} stream={stream!r}: they are coming again")
class LabelsReturned(_TaskEvent):
    """Labels of a stream are coming again."""

    stream: str
    was_reset: bool


@_event("table-near-bound", _WARNING, ": {streams}")
class TableNearBound(StreamProblem):
    """A table of these streams is almost full and will lose what is still needed; the line names the setting.

    Raise it, or correct what fills the table. Logged once for each stream until the table is smaller.
    """


@_event()
class TableHasRoom(_TaskEvent):
    """No table of a stream is near its bound any more."""

    stream: str


@_event("old-event-times", _WARNING, ": {streams}")
class EventTimesOld(StreamProblem):
    """New records of these streams have event times that are close to the retention of the inputs, or beyond it.

    The broker deletes them soon, read or not. Logged once for each stream until its times are newer. Correct the
    producer, or give the inputs a longer retention (`areba topics check` prints the command).
    """


@_event(
    "values-limited",
    _WARNING,
    " task={task} stream={stream!r} learner={learner!r} examples={examples} steps={steps}",
)
class ValuesLimited(_TaskEvent):
    """A learner has met values that a network cannot take as they stand.

    The numbers count from the task's restore: of examples with a feature beyond 1e6, which a learner without a scaler
    takes as 1e6, and of steps that a network of your own did not take because a gradient was not finite. Look for marks
    of missing values, such as 3.4e38, in what the producer sends, and set `scaler: standard`. At most one such line a
    minute; `/metrics` has all numbers.
    """

    stream: str
    learner: str
    examples: int
    steps: int


@_event(
    "change-flagged",
    _INFO,
    " task={task} stream={stream!r} learner={learner!r} event_time_ms={event_time_ms} changes={changes} "
    "left_out={left_out}",
)
class ChangeFlagged(_TaskEvent):
    """The change detector has found that a learner recognises a class worse than before.

    The line has the stream time when the worker saw it, the learner's changes so far, and the number of changes since
    the previous such line that have no line. At most five lines a minute; the topic `metrics` has every change. No
    model is reset: compare the learners with `areba watch`.
    """

    stream: str
    learner: str
    event_time_ms: int
    changes: int
    new: int


def logged() -> Sequence[type[Event]]:
    """Return all kinds of events that have a line, in order of declaration."""
    found = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, Event)]
    return [kind for kind in found if kind is not Event and kind.line.name]
