"""Write the events of a worker to the log: at once, or as a summary at most once in an interval."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from string import Formatter

from stream_app.backends.base import Clock, TopicPartition
from stream_app.log_lines import LogLine
from stream_app.pipeline.outputs import DeadCount
from stream_app.records import Reason
from stream_app.snapshot.stops import MAX_NAMED_STOPS, resume_hint
from stream_app.worker.reports import events
from stream_app.worker.reports.events import Event, Handlers, on

REPORT_INTERVAL_S = 10.0
"""Time between two lines about progress, and about a restore."""

WARNING_INTERVAL_S = 60.0
"""Time between two warnings of one kind; the later one includes the count of everything in between."""

CHANGES_PER_INTERVAL = 5
"""Lines about changes in `WARNING_INTERVAL_S`: enough for all learners of a stream.

A drift is often flagged for all learners of many streams at once; the topic `metrics` and `/metrics` have every change.
"""

NAMED_STREAMS = 5
"""Streams that one line names."""

RETENTION_WARNING_SHARE = 0.5
"""A snapshot is due at `RETENTION_SHARE`; at this share of the retention, it should long be complete."""

_RETENTION_PATIENCE_S = 10.0
"""A task that was restored may be older; it saves its state within seconds."""


class _Pace:
    """Lets something happen at most once in an interval."""

    def __init__(self, interval_s: float, last_s: float = float("-inf")) -> None:
        self._interval_s = interval_s
        self._last_s = last_s

    def is_due(self, now_s: float) -> bool:
        """Say whether it may happen now; if so, the next interval begins."""
        if now_s - self._last_s < self._interval_s:
            return False
        self._last_s = now_s
        return True


@dataclass(slots=True)
class _DeadLetters:
    """Dead letters of one reason since its last line, and the last of them."""

    pace: _Pace
    count: int = 0
    last: DeadCount | None = None
    task: int = -1
    offset: int | None = None


class _NewStreams:
    """Streams whose problem has no line yet; one line names them all."""

    def __init__(self, line: LogLine) -> None:
        self._line = line
        self._problems: dict[tuple[int, str], str] = {}
        self._pace = _Pace(WARNING_INTERVAL_S)

    def add(self, found: events.StreamProblem) -> None:
        self._problems[found.task, found.stream] = found.problem

    def discard(self, found: events.StreamProblem | events.LabelsReturned | events.TableHasRoom) -> bool:
        """Forget a stream; say whether it had no line yet."""
        return self._problems.pop((found.task, found.stream), None) is not None

    def forget(self, task: int) -> None:
        for key in [key for key in self._problems if key[0] == task]:
            del self._problems[key]

    def write(self, logger: logging.Logger, now_s: float) -> None:
        if not self._problems or not self._pace.is_due(now_s):
            return
        named = "; ".join(f"{stream!r}: {why}" for (_, stream), why in islice(self._problems.items(), NAMED_STREAMS))
        more = len(self._problems) - NAMED_STREAMS
        self._line.log(logger, streams=f"{named}; and of {more} more streams" if more > 0 else named)
        self._problems.clear()


class EventLog:
    """The lines of a worker's events.

    Args:
        clock: Limits the rate of repeated lines.
        logger: Receives the lines; by default `areba.worker`.

    Attributes:
        handlers: What to do with each event.
    """

    def __init__(self, clock: Clock, logger: logging.Logger | None = None) -> None:
        self._clock = clock
        self._logger = logger or logging.getLogger("areba.worker")
        self._progress_pace = _Pace(REPORT_INTERVAL_S, clock.monotonic_s())
        self._outputs = 0  # since the last line about progress
        self._offsets: dict[int, tuple[int, int]] = {}
        self._restore_paces: dict[int, _Pace] = {}
        self._allocated: dict[int, int] = {}  # what the last line had
        self._misplaced: set[int] = set()  # tasks that had a line
        self._dead: dict[Reason, _DeadLetters] = {}
        self._dropped_traces = 0
        self._traces_pace = _Pace(WARNING_INTERVAL_S)
        self._is_untrimmed = False  # trimming failed, and there is a line about it
        self._retention_due_s: dict[int, float] = {}
        self._missing = _NewStreams(events.LabelsMissing.line)
        self._crowded = _NewStreams(events.TableNearBound.line)
        self._old = _NewStreams(events.EventTimesOld.line)
        self._unscaled = _NewStreams(events.FeaturesUnscaled.line)
        self._drift_began = _NewStreams(events.DriftBegan.line)
        self._drift_ended = _NewStreams(events.DriftEnded.line)
        self._limited: dict[tuple[int, str, str], events.ValuesLimited] = {}  # by learner, without a line yet
        self._limited_pace = _Pace(WARNING_INTERVAL_S)
        self._changes_pace = _Pace(WARNING_INTERVAL_S)
        self._changes = self._changes_left_out = 0
        at_once = dict.fromkeys(events.logged(), self._write)
        self.handlers: Handlers = at_once | dict(
            (
                on(events.MemoryAllocated, self._memory_allocated),
                on(events.RoundEnded, self._round_ended),
                on(events.Revoked, self._revoked),
                on(events.RestoreBegan, lambda one: self._forget_state(one.task)),
                on(events.Restoring, self._restoring),
                on(events.Repaired, lambda one: self._write(one, counts=_counted(one.records))),
                on(events.TaskParked, lambda one: self._write(one, code=one.problem.code)),
                on(events.Hanging, lambda one: self._write(one, partitions=_named(one.partitions))),
                on(events.BatchCommitted, self._batch_committed),
                on(events.DeadLettersWritten, self._dead_letters_written),
                on(events.StreamsStopped, self._streams_stopped),
                on(events.StreamsResumed, self._streams_resumed),
                on(events.IdsErased, lambda one: self._write(one, **one.erased._asdict())),
                on(events.RecordsMisplaced, self._records_misplaced),
                on(events.TracesDropped, self._traces_dropped),
                on(events.RetentionUsed, self._retention_used),
                on(events.Trimmed, self._trimmed),
                on(events.TrimFailed, self._trim_failed),
                on(events.LabelsMissing, self._missing.add),
                on(events.LabelsReturned, self._labels_returned),
                on(events.TableNearBound, self._crowded.add),
                on(events.TableHasRoom, self._crowded.discard),
                on(events.EventTimesOld, self._old.add),
                on(events.FeaturesUnscaled, self._unscaled.add),
                on(events.DriftBegan, self._on_drift_began),
                on(events.DriftEnded, self._on_drift_ended),
                on(events.ValuesLimited, self._values_limited),
                on(events.ChangeFlagged, self._change_flagged),
            )
        )

    def _write(self, event: Event, **more: object) -> None:
        """Write the line of an event, with the event's fields, and these fields that it does not have itself."""
        names = [name for _, name, _, _ in Formatter().parse(event.line.text) if name and name not in more]
        event.line.log(self._logger, **{name: _shown(getattr(event, name)) for name in names}, **more)

    def _memory_allocated(self, event: events.MemoryAllocated) -> None:
        if 2 * event.size > 3 * self._allocated.get(event.task, 0):
            self._allocated[event.task] = event.size
            self._write(event)

    def _round_ended(self, _: events.RoundEnded) -> None:
        """Write what was held back, where its interval is over."""
        now_s = self._clock.monotonic_s()
        for reason, found in self._dead.items():
            self._write_dead_letters(reason, found, now_s)
        for streams in (self._missing, self._crowded, self._old, self._unscaled, self._drift_began, self._drift_ended):
            streams.write(self._logger, now_s)
        self._write_limited(now_s)

    # Assignment and restore -------------------------------------------------------------------------------------------

    def _revoked(self, event: events.Revoked) -> None:
        self._write(event)
        for task in event.tasks:
            self._offsets.pop(task, None)
            self._allocated.pop(task, None)
            self._missing.forget(task)
            self._crowded.forget(task)
            self._drift_began.forget(task)
            self._drift_ended.forget(task)
            self._forget_state(task)

    def _forget_state(self, task: int) -> None:
        self._retention_due_s.pop(task, None)
        for key in [key for key in self._limited if key[0] == task]:
            del self._limited[key]

    def _restoring(self, event: events.Restoring) -> None:
        now_s = self._clock.monotonic_s()
        if self._restore_paces.setdefault(event.task, _Pace(REPORT_INTERVAL_S, now_s)).is_due(now_s):
            (examples, labels), (examples_goal, labels_goal) = event.offsets or (-1, -1), event.goal
            reached = {"examples": examples, "labels": labels}
            self._write(event, **reached, examples_goal=examples_goal, labels_goal=labels_goal)

    # Committed batches ------------------------------------------------------------------------------------------------

    def _batch_committed(self, event: events.BatchCommitted) -> None:
        self._outputs += sum(event.counts.outputs.values())
        self._offsets[event.task] = event.offsets
        if self._progress_pace.is_due(self._clock.monotonic_s()):
            offsets = " ".join(
                f"{task}:{examples}/{labels}" for task, (examples, labels) in sorted(self._offsets.items())
            )
            self._write(event, outputs=self._outputs, offsets=offsets)
            self._outputs = 0

    def _dead_letters_written(self, event: events.DeadLettersWritten) -> None:
        now_s = self._clock.monotonic_s()
        for one in event.counts:
            found = self._dead.setdefault(one.reason, _DeadLetters(_Pace(WARNING_INTERVAL_S)))
            found.count += one.records
            found.last, found.task, found.offset = one, event.task, event.last_offsets.get(one.reason)
        for reason in {one.reason for one in event.counts}:
            self._write_dead_letters(reason, self._dead[reason], now_s)

    def _write_dead_letters(self, reason: Reason, found: _DeadLetters, now_s: float) -> None:
        last = found.last
        if last is None or not found.count or not found.pace.is_due(now_s):
            return
        shown = f"{found.task}:{found.offset}" if found.offset is not None else f"--reason {reason.text}"
        events.DeadLettersWritten.line.log(
            self._logger,
            reason=reason.text,
            count=found.count,
            task=found.task,
            stream="unknown" if last.stream is None else repr(last.stream),
            side=last.side.name.lower(),
            offset=last.offset,
            command=f"areba dlq show {shown}",
            why=f": {last.explanation}" if last.explanation else "",
        )
        found.count = 0

    def _streams_stopped(self, event: events.StreamsStopped) -> None:
        for stream, problem in islice(event.stops.items(), MAX_NAMED_STOPS):
            self._write(event, stream=stream, problem=problem, hint=resume_hint(stream))

    def _streams_resumed(self, event: events.StreamsResumed) -> None:
        for stream in event.streams[:MAX_NAMED_STOPS]:
            self._write(event, stream=stream)

    def _records_misplaced(self, event: events.RecordsMisplaced) -> None:
        if event.task not in self._misplaced:
            self._misplaced.add(event.task)
            found = event.found
            self._write(event, records=found.records, stream=found.stream, partition=found.belongs_to)

    def _traces_dropped(self, event: events.TracesDropped) -> None:
        self._dropped_traces += event.records
        if self._traces_pace.is_due(self._clock.monotonic_s()):
            self._write(event, records=self._dropped_traces)
            self._dropped_traces = 0

    # Retention --------------------------------------------------------------------------------------------------------

    def _retention_used(self, event: events.RetentionUsed) -> None:
        now_s = self._clock.monotonic_s()
        if event.share < RETENTION_WARNING_SHARE:
            self._retention_due_s.pop(event.task, None)
            return
        first_s = now_s if event.share >= 1.0 else now_s + _RETENTION_PATIENCE_S
        if now_s >= self._retention_due_s.setdefault(event.task, first_s):
            self._retention_due_s[event.task] = now_s + WARNING_INTERVAL_S
            self._write(event)

    def _trimmed(self, event: events.Trimmed) -> None:
        self._is_untrimmed = False
        self._write(event)

    def _trim_failed(self, event: events.TrimFailed) -> None:
        if not self._is_untrimmed:
            self._write(event)
        self._is_untrimmed = True

    # Streams ----------------------------------------------------------------------------------------------------------

    def _labels_returned(self, event: events.LabelsReturned) -> None:
        had_no_line = self._missing.discard(event)
        if not had_no_line and not event.was_reset:
            self._write(event)

    def _values_limited(self, event: events.ValuesLimited) -> None:
        self._limited[event.task, event.stream, event.learner] = event
        self._write_limited(self._clock.monotonic_s())

    def _write_limited(self, now_s: float) -> None:
        if self._limited and self._limited_pace.is_due(now_s):
            self._write(self._limited.pop(next(iter(self._limited))))

    def _on_drift_began(self, event: events.DriftBegan) -> None:
        if not self._drift_ended.discard(event):  # without a line about the end, it has never ended
            self._drift_began.add(event)

    def _on_drift_ended(self, event: events.DriftEnded) -> None:
        if not self._drift_began.discard(event):
            self._drift_ended.add(event)

    def _change_flagged(self, event: events.ChangeFlagged) -> None:
        if self._changes_pace.is_due(self._clock.monotonic_s()):
            self._changes = 0
        if self._changes == CHANGES_PER_INTERVAL:
            self._changes_left_out += event.new
            return
        self._write(event, left_out=self._changes_left_out)
        self._changes += 1
        self._changes_left_out = 0


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in partitions)


def _counted(records: Mapping[str, int]) -> str:
    return " ".join(f"{topic}={count}" for topic, count in records.items()) or "progress"


def _shown(value: object) -> object:
    """Return a value as a field shows it: numbers of tasks with commas between them."""
    return (",".join(map(str, value)) or "none") if isinstance(value, list | tuple) else value
