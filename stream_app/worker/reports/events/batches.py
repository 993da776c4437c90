"""What committed batches contained."""

from collections.abc import Mapping, Sequence

from stream_app.backends.partitioner import Misplaced
from stream_app.live.live_task import BatchCounts
from stream_app.pipeline.outputs import DeadCount, Erased
from stream_app.records import Reason
from stream_app.worker.reports.events.base import ERROR, INFO, WARNING, TaskEvent, event


@event("progress", INFO, " outputs={outputs} offsets={offsets}")
class BatchCommitted(TaskEvent):
    """The output records since the previous line, and the committed offsets of each task. Logged every ten seconds."""

    offsets: tuple[int, int]
    counts: BatchCounts


@event(
    "dead-letters",
    WARNING,
    " reason={reason} count={count} last: task={task} stream={stream} {side} offset={offset}; look: {command}{why}",
)
class DeadLettersWritten(TaskEvent):
    """Records became dead letters.

    The line has their number since the previous line, the last one, the command that shows it, and for a late or orphan
    label how late it was and which setting decided.
    """

    counts: Sequence[DeadCount]
    last_offsets: Mapping[Reason, int]


@event("stream-stopped", ERROR, " task={task} stream={stream!r}: {problem}; {hint}")
class StreamsStopped(TaskEvent):
    """The breaker has stopped a stream; its records become dead letters.

    Correct the producer, then run `areba resume`.
    """

    stops: Mapping[str, str]


@event(
    "stream-resumed",
    INFO,
    " task={task} stream={stream!r}; send its dead letters back: areba dlq resend --reason stream-stopped",
)
class StreamsResumed(TaskEvent):
    """An operator has resumed a stream that the breaker had stopped."""

    streams: Sequence[str]


@event(
    "erased",
    INFO,
    " task={task} stream={stream!r} ids={ids} pending={pending} waiting={waiting} closed={closed} queued={queued}",
)
class IdsErased(TaskEvent):
    """`areba erase` took effect.

    The mark names so many ids, and the state had so many pending examples, waiting labels, closed ids and examples in
    the queues of all learners with these ids.
    """

    erased: Erased


@event(
    "misplaced",
    WARNING,
    " task={task} records={records}: stream {stream!r} belongs to partition {partition}. Its producer "
    "uses another partitioner: set partitioner=murmur2_random (Java's default), or a label may not meet its "
    "example",
)
class RecordsMisplaced(TaskEvent):
    """A record is in a partition to which its key does not belong. Logged for the first such record of a task."""

    found: Misplaced


@event("traces-dropped", WARNING, " task={task} records={records}: traceparent is not a valid W3C value")
class TracesDropped(TaskEvent):
    """Records since the last such line whose `traceparent` was dropped. Logged at most once a minute."""

    records: int


@event(
    "headers-dropped",
    WARNING,
    " task={task} records={records}: a header of pass_headers is above 256 bytes, is above 1,024 bytes with the "
    "others, or is there twice",
)
class HeadersDropped(TaskEvent):
    """Examples since the last such line with a dropped header of `pass_headers`. Logged at most once a minute."""

    records: int
