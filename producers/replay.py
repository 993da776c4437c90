"""Replay data sets to `examples` and, later, to `labels`: all streams share one clock, which orders the records.

    plan -> schedule (which record is sent when) -> events (bytes, chunk by chunk) -> sender -> manifest

Plan, schedule and events are pure: equal plans give equal bytes. A plan without `start_ms` gets one here, so that its
last event time is now: Kafka deletes records older than the retention time immediately.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_app.backends.base import Clock, Sender, TopicPartition, Watermarks
from stream_app.producers.events import CHUNK_RECORDS, RecordsDigest, encode_rows, id_prefix
from stream_app.producers.manifest import (
    FORMAT,
    Counts,
    DriftPoint,
    FaultCounts,
    FaultNumbers,
    Manifest,
    Range,
    StreamManifest,
)
from stream_app.producers.plan import Plan, StreamPlan
from stream_app.producers.schedule import DATA, GARBAGE, MARK, Schedule, schedule
from stream_app.records import Side

FLUSH_TIMEOUT_S = 120.0
"""Longest wait for deliveries: enough for a broker that is down for a minute."""

LONGEST_SLEEP_S = 0.1
"""The longest pause while a pace is kept, so that the progress bar moves and Ctrl-C takes effect."""


class _Pace:
    """How many records may have been sent by now."""

    def __init__(self, plan: Plan, planned: Schedule, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._dues_s: NDArray[np.float64] | None = None
        if plan.rate is not None:
            is_example = (planned.contents == DATA) & (planned.sides == Side.EXAMPLES)
            self._dues_s = (np.cumsum(is_example) - is_example) / plan.rate
        elif plan.speed is not None:
            self._dues_s = planned.dues / 1000.0 / plan.speed

    def allowed(self, sent: int, total: int) -> int:
        """Return the number of records that are due, at least `sent`."""
        if self._dues_s is None:
            return total
        now_s = self._clock.monotonic_s() - self._started_s
        return max(sent, int(np.searchsorted(self._dues_s, now_s, side="right")))

    def until_next_s(self, sent: int) -> float:
        """Return the seconds until the next record is due, at most `LONGEST_SLEEP_S`."""
        if self._dues_s is None:
            return 0.0
        now_s = self._clock.monotonic_s() - self._started_s
        return min(max(float(self._dues_s[sent]) - now_s, 0.0), LONGEST_SLEEP_S)


def replay(
    plan: Plan,
    sender: Sender,
    clock: Clock,
    on_progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Manifest:
    """Send the records of a plan and return what was sent.

    Args:
        plan: What to send.
        sender: The sender; it is flushed, but not closed.
        clock: The clock for the current time and the pace.
        on_progress: Called regularly with the number of records handed over so far, and with the total.
        sleep: Waits for this number of seconds.

    Raises:
        DeliveryError: The broker did not accept a record.
    """
    planned = schedule(plan)
    if plan.start_ms is None:
        plan = replace(plan, start_ms=clock.now_ms() - planned.span_ms)
    digest = RecordsDigest()
    pace = _Pace(plan, planned, clock)
    total = len(planned)
    for first in range(0, total, CHUNK_RECORDS):
        last = min(first + CHUNK_RECORDS, total)
        chunk = encode_rows(plan, planned, first, last)
        digest.update(chunk)
        sent = first
        while sent < last:
            due = min(pace.allowed(sent, total), last)
            for topic, key, value, timestamp_ms in chunk[sent - first : due - first]:
                sender.send(topic, key, value, timestamp_ms)
            if due > sent and on_progress is not None:
                on_progress(due, total)
            sent = due
            if sent < last:
                sleep(pace.until_next_s(sent))
    return _manifest(plan, planned, digest, sender.flush(FLUSH_TIMEOUT_S))


def _manifest(
    plan: Plan, planned: Schedule, digest: RecordsDigest, written: Mapping[TopicPartition, Watermarks]
) -> Manifest:
    return Manifest(
        format=FORMAT,
        seed=plan.seed,
        start_ms=plan.start,
        end_ms=plan.start + planned.span_ms,
        examples_topic=plan.examples_topic,
        labels_topic=plan.labels_topic,
        records=len(planned),
        digest=digest.hexdigest(),
        options=plan.options,
        ranges=tuple(Range(*place, *span) for place, span in sorted(written.items())),
        streams=tuple(_stream_manifest(plan, planned, index) for index in range(len(plan.streams))),
    )


def _stream_manifest(plan: Plan, planned: Schedule, index: int) -> StreamManifest:
    stream, start = plan.streams[index], plan.start
    mine = planned.streams == index
    sides, contents, repeats = planned.sides[mine], planned.contents[mine], planned.repeats[mine]
    numbers, labels, times = planned.numbers[mine], planned.labels[mine], planned.times[mine]
    classes = np.tile(stream.data.labels, stream.loops)

    data = contents == DATA
    examples, label_rows = data & (sides == Side.EXAMPLES), data & (sides == Side.LABELS)
    same_again = label_rows & repeats & (labels == classes[numbers])
    sent, labelled = numbers[examples & ~repeats], numbers[label_rows & ~repeats]
    touched = FaultNumbers(
        duplicate_examples=_ascending(numbers[examples & repeats]),
        duplicate_labels=_ascending(numbers[same_again]),
        dropped_examples=_ascending(planned.dropped[index]),
        conflicting_labels=_ascending(numbers[label_rows & repeats & ~same_again]),
    )
    return StreamManifest(
        stream=stream.stream,
        data=stream.data.name,
        source=stream.data.source,
        features=stream.data.dimension,
        loops=stream.loops,
        id_prefix=id_prefix(plan, stream),
        start_ms=start,
        interval_ms=stream.interval,
        end_ms=start + planned.ends_ms[index],
        label_delay=str(stream.delay),
        unlabelled_share=stream.unlabelled_share,
        examples=_counts(classes[sent]),
        labels=_counts(classes[labelled]),
        never_labelled=len(np.setdiff1d(sent, labelled, assume_unique=True)),
        marks_per_topic=int((contents == MARK).sum()) // len(Side),
        faults=FaultCounts(
            duplicate_examples=len(touched.duplicate_examples),
            duplicate_labels=len(touched.duplicate_labels),
            dropped_examples=len(touched.dropped_examples),
            conflicting_labels=len(touched.conflicting_labels),
            garbage_examples=int(((contents == GARBAGE) & (sides == Side.EXAMPLES)).sum()),
            garbage_labels=int(((contents == GARBAGE) & (sides == Side.LABELS)).sum()),
            out_of_order=sum(_out_of_order(times[sides == side]) for side in Side),
        ),
        fault_numbers=touched,
        drifts=_drifts(stream, start),
    )


def _ascending(numbers: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(sorted(numbers.tolist()))


def _counts(classes: NDArray[np.int8]) -> Counts:
    positive = int((classes == 1).sum())
    return Counts(sent=len(classes), positive=positive, negative=len(classes) - positive)


def _out_of_order(times: NDArray[np.int64]) -> int:
    """Return how many times come after a larger one."""
    return int((times < np.maximum.accumulate(times)).sum())


def _drifts(stream: StreamPlan, start_ms: int) -> tuple[DriftPoint, ...]:
    kind, step = stream.data.drift_kind, stream.data.drift_step
    if kind is None or step is None:
        return ()
    steps = (step + loop * len(stream.data) for loop in range(stream.loops))
    return tuple(DriftPoint(kind, at, start_ms + at * stream.interval) for at in steps)
