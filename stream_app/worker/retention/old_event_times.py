"""Warns of streams whose new records are so old that the broker deletes them soon, or at once.

Kafka measures age by the event time. A producer that sends history, or seconds in place of milliseconds, to inputs that
accept such times loses what no worker has read yet; and nothing else would say so.
"""

from collections.abc import Callable, Collection

from stream_app.backends.base import Clock
from stream_app.backends.retention import CLOSE_SHARE, date, duration
from stream_app.pipeline.stream import Stream
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events, metrics
from stream_app.worker.reports.observer import Observer

YEAR_MS = 365 * 86_400_000

_PLAUSIBLE_MS = 10 * YEAR_MS
"""An event time that, read as seconds, is at most so long ago is taken for seconds."""


class OldEventTimes:
    """Compares the stream time of each stream with the retention of the inputs whenever records have moved it.

    Args:
        clock: Gives the time.
        observer: Reports the streams, and has the figures.
        kept_ms: Returns the shorter retention of both inputs in milliseconds; negative: no limit, or not known yet.
    """

    def __init__(self, clock: Clock, observer: Observer, kept_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._observer = observer
        self._kept_ms = kept_ms
        self._seen: dict[OwnedTask, dict[str, int]] = {}  # by stream, its time at the last look
        self._old: dict[OwnedTask, set[str]] = {}

    def look(self, task: OwnedTask, stream: Stream, *, is_first: bool) -> None:
        """Look at a stream.

        Args:
            task: Its task.
            stream: The stream.
            is_first: Whether the task has just become live: then what it has processed before is not new.
        """
        is_restored = is_first and (task.report.loaded_sequence >= 0 or task.report.reprocessed_records > 0)
        seen = self._seen.setdefault(task, {})
        before = seen.get(stream.name, stream.time_ms if is_restored else -1)
        seen[stream.name] = stream.time_ms
        if stream.time_ms <= 0 or stream.time_ms == before:
            return
        old, problem = self._old.setdefault(task, set()), self._problem(stream.time_ms)
        if problem is None:
            old.discard(stream.name)
        elif stream.name not in old:
            old.add(stream.name)
            self._observer.emit(events.EventTimesOld(task.number, stream.name, problem))
        self._observer.figures.set(metrics.OLD_STREAMS, len(old), task=task.number)

    def _problem(self, time_ms: int) -> str | None:
        now_ms, kept_ms = self._clock.now_ms(), self._kept_ms()
        if now_ms - _PLAUSIBLE_MS < 1_000 * time_ms < now_ms + YEAR_MS:
            return f"the event time {date(time_ms)} ({time_ms} ms) looks like seconds; it must be milliseconds"
        if kept_ms < 0 or now_ms - time_ms <= CLOSE_SHARE * kept_ms:
            return None
        return f"the newest event time is {date(time_ms)}, and retention.ms is {duration(kept_ms)}"

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget all other tasks."""
        for known in (self._seen, self._old):
            for task in known.keys() - {*tasks}:
                del known[task]
