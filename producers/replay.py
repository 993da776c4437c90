"""Replay data sets to `examples` and, later, to `labels`: all streams share one clock, which orders the records.

    plan -> schedule (which record is sent when) -> events (bytes, chunk by chunk) -> sender -> manifest

Plan, schedule and events are pure: equal plans give equal bytes. A plan without `start_ms` gets one here, so that its
last event time is now: Kafka deletes records older than the retention time immediately.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stream_app.backends.base import Clock, Sender, TopicPartition, Watermarks
from stream_app.producers.events import CHUNK_RECORDS, RecordsDigest, encode_rows
from stream_app.producers.manifest import FORMAT, Manifest, Range
from stream_app.producers.plan import Plan
from stream_app.producers.schedule import DATA, Extent, Schedule, sorted_schedule
from stream_app.producers.tally import StreamTally
from stream_app.records import Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLUSH_TIMEOUT_S = 120.0
"""Longest wait for deliveries: enough for a broker that is down for a minute."""

LONGEST_SLEEP_S = 0.1
"""The longest pause while a pace is kept, so that the progress bar moves and Ctrl-C takes effect."""


class _Pace:
    """How many records may have been sent by now, of one chunk after the other."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._examples = 0
        self._dues_s: NDArray[np.float64] | None = None

    def begin(self, chunk: Schedule) -> None:
        """Begin the next chunk."""
        if self._plan.rate is not None:
            is_example = (chunk.contents == DATA) & (chunk.sides == Side.EXAMPLES)
            counts = self._examples + np.cumsum(is_example)
            self._dues_s = (counts - is_example) / self._plan.rate
            self._examples = int(counts[-1])
        elif self._plan.speed is not None:
            self._dues_s = chunk.dues / 1000.0 / self._plan.speed

    def allowed(self, sent: int, total: int) -> int:
        """Return how many records of the chunk are due, at least `sent`."""
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
    with sorted_schedule(plan) as planned:
        extent = planned.extent
        if plan.start_ms is None:
            plan = replace(plan, start_ms=clock.now_ms() - extent.span_ms)
        digest, pace, done = RecordsDigest(), _Pace(plan, clock), 0
        tallies = [StreamTally(plan, index, extent) for index in range(len(plan.streams))]
        for chunk in planned.chunks(CHUNK_RECORDS):
            records = encode_rows(plan, chunk)
            digest.update(records)
            for tally in tallies:
                tally.add(chunk)
            pace.begin(chunk)
            sent = 0
            while sent < len(records):
                due = pace.allowed(sent, len(records))
                for topic, key, value, timestamp_ms in records[sent:due]:
                    sender.send(topic, key, value, timestamp_ms)
                if due > sent and on_progress is not None:
                    on_progress(done + due, extent.records)
                sent = due
                if sent < len(records):
                    sleep(pace.until_next_s(sent))
            done += sent
    return _manifest(plan, extent, digest, tallies, sender.flush(FLUSH_TIMEOUT_S))


def _manifest(
    plan: Plan,
    extent: Extent,
    digest: RecordsDigest,
    tallies: list[StreamTally],
    written: Mapping[TopicPartition, Watermarks],
) -> Manifest:
    return Manifest(
        format=FORMAT,
        seed=plan.seed,
        start_ms=plan.start,
        end_ms=plan.start + extent.span_ms,
        examples_topic=plan.examples_topic,
        labels_topic=plan.labels_topic,
        records=extent.records,
        digest=digest.hexdigest(),
        options=plan.options,
        ranges=tuple(Range(*place, *span) for place, span in sorted(written.items())),
        streams=tuple(tally.manifest() for tally in tallies),
    )
