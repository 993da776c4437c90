"""Count the events of a worker in the figures of `/metrics`."""

from itertools import islice

from stream_app.backends.base import Clock
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.records import Reason
from stream_app.snapshot.stops import MAX_NAMED_STOPS
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.events import Handlers, on
from stream_app.worker.reports.figures import Figures
from stream_app.worker.reports.metrics import DROPPED_KINDS, INPUTS


class Counting:
    """The figures that change with events.

    Args:
        figures: Keeps the values.
        clock: Measures how long restores and transactions take.

    Attributes:
        handlers: What to do with each event.
    """

    def __init__(self, figures: Figures, clock: Clock) -> None:
        self._figures = figures
        self._clock = clock
        self._restore_began_s: dict[int, float] = {}
        self._snapshot_bytes: dict[int, int] = {}
        self.handlers: Handlers = dict(
            (
                on(events.MemoryAllocated, lambda one: figures.set(metrics.MEMORY_ALLOCATED, one.size, task=one.task)),
                on(events.Assigned, self._assigned),
                on(events.Revoked, self._revoked),
                on(events.RestoreBegan, self._restore_began),
                on(events.TaskRestored, self._restored),
                on(events.TransactionCommitted, self._transaction_committed),
                on(events.Aborted, lambda _: figures.add(metrics.ABORTED_TRANSACTIONS, 1)),
                on(events.BatchCommitted, self._batch_committed),
                on(events.DeadLettersWritten, self._dead_letters_written),
                on(events.StreamsStopped, self._streams_stopped),
                on(events.StreamsResumed, self._streams_resumed),
                on(events.RecordsMisplaced, self._records_misplaced),
                on(events.TracesDropped, lambda one: self._headers_dropped(one, DROPPED_KINDS[0])),
                on(events.HeadersDropped, lambda one: self._headers_dropped(one, DROPPED_KINDS[1])),
                on(events.SnapshotTaken, self._snapshot_taken),
                on(events.SnapshotComplete, self._snapshot_complete),
                on(events.RetentionUsed, lambda one: figures.set(metrics.RETENTION_USED, one.share, task=one.task)),
            )
        )
        figures.add(metrics.ABORTED_TRANSACTIONS, 0)

    def _assigned(self, event: events.Assigned) -> None:
        """Begin the counters of each task at 0: to Prometheus, the first value of a counter is no increase."""
        for task in event.tasks:
            for counter in (metrics.MISPLACED_RECORDS, metrics.SNAPSHOTS, metrics.SNAPSHOT_BYTES):
                self._figures.add(counter, 0, task=task)
            self._figures.set(metrics.MISPLACED_STREAMS, 0, task=task)
            for name in INPUTS:
                for counter in (metrics.INPUT_RECORDS, metrics.TOMBSTONES):
                    self._figures.add(counter, 0, task=task, input=name)
            for kind in DROPPED_KINDS:
                self._figures.add(metrics.DROPPED_HEADERS, 0, task=task, kind=kind)
            for topic in OUTPUT_TOPICS:
                self._figures.add(metrics.OUTPUT_RECORDS, 0, task=task, output=topic)
            for reason in Reason:
                self._figures.add(metrics.DEAD_LETTERS, 0, task=task, reason=reason.text)

    def _revoked(self, event: events.Revoked) -> None:
        for task in event.tasks:
            self._snapshot_bytes.pop(task, None)
            self._figures.drop_task(task)

    def _restore_began(self, event: events.RestoreBegan) -> None:
        self._restore_began_s[event.task] = self._clock.monotonic_s()

    def _restored(self, event: events.TaskRestored) -> None:
        now_s = self._clock.monotonic_s()
        began_s = self._restore_began_s.pop(event.task, now_s)
        self._figures.set(metrics.RESTORE_SECONDS, now_s - began_s, task=event.task)

    def _transaction_committed(self, event: events.TransactionCommitted) -> None:
        self._figures.observe_commit(self._clock.monotonic_s() - event.began_s)

    def _batch_committed(self, event: events.BatchCommitted) -> None:
        for name, records in zip(INPUTS, event.counts.inputs, strict=True):
            self._figures.add(metrics.INPUT_RECORDS, records, task=event.task, input=name)
        for name, records in zip(INPUTS, event.counts.tombstones, strict=True):
            if records:
                self._figures.add(metrics.TOMBSTONES, records, task=event.task, input=name)
        for topic, records in event.counts.outputs.items():
            if records:
                self._figures.add(metrics.OUTPUT_RECORDS, records, task=event.task, output=topic)

    def _dead_letters_written(self, event: events.DeadLettersWritten) -> None:
        for one in event.counts:
            self._figures.add(metrics.DEAD_LETTERS, one.records, task=event.task, reason=one.reason.text)

    def _streams_stopped(self, event: events.StreamsStopped) -> None:
        for stream in islice(event.stops, MAX_NAMED_STOPS):
            self._figures.set(metrics.STOPPED_STREAMS, 1, task=event.task, stream=stream)

    def _streams_resumed(self, event: events.StreamsResumed) -> None:
        for stream in event.streams[:MAX_NAMED_STOPS]:
            self._figures.set(metrics.STOPPED_STREAMS, 0, task=event.task, stream=stream)

    def _records_misplaced(self, event: events.RecordsMisplaced) -> None:
        self._figures.add(metrics.MISPLACED_RECORDS, event.found.records, task=event.task)
        self._figures.set(metrics.MISPLACED_STREAMS, event.found.streams, task=event.task)

    def _headers_dropped(self, event: events.TracesDropped | events.HeadersDropped, kind: str) -> None:
        self._figures.add(metrics.DROPPED_HEADERS, event.records, task=event.task, kind=kind)

    def _snapshot_taken(self, event: events.SnapshotTaken) -> None:
        self._snapshot_bytes[event.task] = event.size

    def _snapshot_complete(self, event: events.SnapshotComplete) -> None:
        self._figures.add(metrics.SNAPSHOTS, 1, task=event.task)
        self._figures.add(metrics.SNAPSHOT_BYTES, self._snapshot_bytes.pop(event.task, 0), task=event.task)
