"""Reports what a committed batch has in addition to its results; most batches have nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stream_app.live.live_task import ProcessedBatch
from stream_app.pipeline.outputs import DEAD_LETTERS
from stream_app.progress_records import STOP, Act
from stream_app.record_columns import OutputRecords
from stream_app.records import Reason
from stream_app.snapshot.parts import whole_acts
from stream_app.snapshot.stops import Stop
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer

_REASON_HEADER = "areba.reason"


def report_batch(task: OwnedTask, batch: ProcessedBatch, dead_offsets: Sequence[int], observer: Observer) -> None:
    """Report a committed batch.

    Args:
        task: Its task.
        batch: The batch.
        dead_offsets: The offsets of its dead letters; empty unless the broker has reported all.
        observer: What it is reported to.
    """
    number, outputs = task.number, batch.outputs
    if outputs.dead:
        last_offsets = _last_offsets(outputs.topics[DEAD_LETTERS], dead_offsets)
        observer.emit(events.DeadLettersWritten(number, outputs.dead, last_offsets))
    if stops := dict(_stops_of(batch.acts)):
        observer.emit(events.StreamsStopped(number, stops))
    if outputs.resumed:
        observer.emit(events.StreamsResumed(number, outputs.resumed))
    for erased in outputs.erased:
        observer.emit(events.IdsErased(number, erased))
    if outputs.dropped_traces:
        observer.emit(events.TracesDropped(number, outputs.dropped_traces))
    if outputs.dropped_passed:
        observer.emit(events.HeadersDropped(number, outputs.dropped_passed))
    unknown = {
        one.stream: one.records
        for one in outputs.dead
        if one.reason is Reason.UNKNOWN_STREAM and one.stream is not None
    }
    found = task.placement.misplaced(outputs.stream_names, outputs.stream_records, unknown)
    if found is not None:
        observer.emit(events.RecordsMisplaced(number, found))


def _stops_of(acts: Iterable[Act]) -> Iterator[Stop]:
    """Yield the streams that these acts stop."""
    for act in whole_acts(acts):
        if isinstance(act, Act) and act.kind == STOP:
            yield Stop.from_text(act.text)


def _last_offsets(records: OutputRecords, offsets: Sequence[int]) -> Mapping[Reason, int]:
    """Return the offset of the last dead letter of each reason; empty unless the broker has reported all offsets.

    Args:
        records: The dead letters of a batch.
        offsets: Their offsets in the dead-letters topic.
    """
    if len(offsets) != len(records):
        return {}
    reasons = {reason.text.encode(): reason for reason in Reason}
    ours = (dict(records.headers[row]) for row in range(len(offsets)))  # the worker's headers follow the producer's
    return {reasons[headers[_REASON_HEADER] or b""]: offset for headers, offset in zip(ours, offsets, strict=True)}
