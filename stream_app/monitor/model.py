"""Compute the figures of a running application from its decoded records; pure, and bounded in memory.

Times are given: event time in milliseconds, and the moment of a call in seconds of any clock that never decreases.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.monitor.figures import Figures, LearnerFigures, StreamFigures
from stream_app.monitor.history import Curve
from stream_app.records import RESUME, Act, Commit, Metric, Outcome, OutcomeKind

MAX_STREAMS = 1_000
"""Streams that are kept by default: with 16 learners each, some 20 MB."""

MAX_REASONS = 20
"""Reasons of dead letters that are counted: more than there are, unless another program writes to the topic."""

WINDOW_S = 10
"""Seconds over which rates are measured: long enough for the pauses between commits, short enough to see a stop."""

JOINED = OutcomeKind.JOINED.name.lower()


class Rate:
    """Counts events over the last `WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[int, int]] = deque(maxlen=WINDOW_S + 1)

    def add(self, now_s: float) -> None:
        """Count one event."""
        second = int(now_s)
        count = self._counts.pop()[1] if self._counts and self._counts[-1][0] == second else 0
        self._counts.append((second, count + 1))

    def per_second(self, now_s: float, since_s: float) -> float | None:
        """Return the events per second; None if less than half a second was measured.

        Args:
            now_s: The moment of this call.
            since_s: When counting began.
        """
        begin_s = max(since_s, int(now_s) - WINDOW_S + 1)
        measured_s = now_s - begin_s
        if measured_s < 0.5:
            return None
        return sum(count for second, count in self._counts if second >= int(begin_s)) / measured_s


class _Example(NamedTuple):
    """The newest example of a stream."""

    task: int
    offset: int
    time_ms: int


@dataclass(slots=True)
class _Stream:
    """What is kept of one stream."""

    task: int | None = None
    learners: dict[str, LearnerFigures] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    metrics: int = 0
    numbers: dict[str, int] = field(default_factory=dict)  # of the newest metric of each learner
    joined: Rate = field(default_factory=Rate)
    dead_letters: int = 0
    newest_example: _Example | None = None
    output_ms: int | None = None

    def add_metric(self, metric: Metric, time_ms: int) -> None:
        """Add a metric, and forget a learner that two rounds of metrics have left out: it is no longer configured."""
        self.metrics += 1
        self.numbers[metric.learner] = self.metrics
        for name in [name for name, number in self.numbers.items() if self.metrics - number > 2 * len(self.numbers)]:
            del self.learners[name], self.numbers[name]
            self.curves.pop(name, None)
        self.learners[metric.learner] = LearnerFigures(metric, time_ms)


class Model:
    """The figures of the streams of one application.

    Streams are those of the configuration and those that have an output. Examples and dead letters of other names add
    none: their producers may write any name.

    Args:
        streams: Names of the streams that are known already.
        max_streams: How many streams are kept.
        max_points: How many points are kept of the curve of each learner.
    """

    def __init__(self, streams: Iterable[str] = (), max_streams: int = MAX_STREAMS, max_points: int = 0) -> None:
        self._max_streams = max_streams
        self._max_points = max_points
        self._streams: dict[str, _Stream] = {name: _Stream() for name in list(streams)[:max_streams]}
        self._has_older_dead_letters = False
        self._since_s: float | None = None
        self._commits: dict[int, Commit] = {}
        self._tripped: dict[int, str] = {}
        self._unassigned: Counter[str] = Counter()
        self._left_out = 0
        self._skipped = 0

    def begin(self, now_s: float) -> None:
        """Begin to measure rates: what was in the topics before has been added."""
        self._since_s = now_s

    def note_older_dead_letters(self) -> None:
        """Note that there are dead letters that will not be added."""
        self._has_older_dead_letters = True

    def note_skipped(self, records: int) -> None:
        """Count records that are not added."""
        self._skipped += records

    def add_example(self, stream: str, task: int, offset: int, time_ms: int) -> None:
        """Add an example of the input."""
        known = self._streams.get(stream)
        if known is not None and (known.newest_example is None or time_ms >= known.newest_example.time_ms):
            known.newest_example = _Example(task, offset, time_ms)

    def add_prediction(self, stream: str, task: int, time_ms: int) -> None:
        """Add a prediction of any learner."""
        self._add_output(stream, task, time_ms)

    def add_outcome(self, outcome: Outcome, task: int, time_ms: int, now_s: float | None) -> None:
        """Add an outcome that arrived at `now_s`; None: it is older than the view, and does not count in rates."""
        known = self._add_output(outcome.stream, task, time_ms)
        is_counted = self._since_s is not None and outcome.outcome == JOINED
        if known is not None and is_counted and now_s is not None:
            known.joined.add(now_s)

    def add_metric(self, metric: Metric, task: int, time_ms: int) -> None:
        """Add a metric."""
        known = self._add_output(metric.stream, task, time_ms)
        if known is not None:
            known.add_metric(metric, time_ms)
            if self._max_points:
                known.curves.setdefault(metric.learner, Curve(self._max_points)).add(metric)

    def add_dead_letter(self, stream: str, reason: str, task: int, time_ms: int) -> None:
        """Add a dead letter; `stream` is what its key says."""
        if stream in self._streams:
            known = self._add_output(stream, task, time_ms)
            if known is not None:
                known.dead_letters += 1
        elif reason in self._unassigned or len(self._unassigned) < MAX_REASONS:
            self._unassigned[reason] += 1

    def add_progress(self, task: int, record: Commit | Act) -> None:
        """Add a record of the progress of a task."""
        if isinstance(record, Commit):
            self._commits[task] = record
            if record.tripped is not None:
                self._tripped[task] = record.tripped
            else:
                self._tripped.pop(task, None)
        elif record.kind == RESUME:
            self._tripped.pop(task, None)

    def _add_output(self, stream: str, task: int, time_ms: int) -> _Stream | None:
        known = self._streams.get(stream)
        if known is None:
            if len(self._streams) >= self._max_streams:
                self._left_out += 1
                return None
            known = self._streams[stream] = _Stream()
        known.task = task
        known.output_ms = max(known.output_ms or 0, time_ms)
        return known

    def ends(self, task: int) -> tuple[int, int]:
        """Return the offsets (examples, labels) up to which a task has committed; (0, 0) if nothing is known."""
        commit = self._commits.get(task)
        return (0, 0) if commit is None else (commit.examples_end, commit.labels_end)

    def curves(self, stream: str) -> Mapping[str, Curve]:
        """Return the curve of each learner of a stream, in the order of their first metrics."""
        known = self._streams.get(stream)
        return {} if known is None else known.curves

    def figures(self, now_s: float, problems: Iterable[str] = ()) -> Figures:
        """Return all figures as they are at `now_s`.

        Args:
            now_s: The moment of this call.
            problems: Lines about what cannot be read, which come first.
        """
        tripped = (f"task {task}: tripped: {reason}" for task, reason in sorted(self._tripped.items()))
        return Figures(
            streams=tuple(self._figures(name, now_s) for name in sorted(self._streams)),
            unassigned=dict(self._unassigned.most_common()),
            left_out=self._left_out,
            skipped=self._skipped,
            problems=(*problems, *tripped),
        )

    def _figures(self, name: str, now_s: float) -> StreamFigures:
        known = self._streams[name]
        return StreamFigures(
            stream=name,
            task=known.task,
            learners=tuple(sorted(known.learners.values(), key=lambda learner: not learner.metric.champion)),
            labelled_per_s=None if self._since_s is None else known.joined.per_second(now_s, self._since_s),
            lag_ms=self._lag_ms(known),
            dead_letters=known.dead_letters,
            dead_letters_are_all=not self._has_older_dead_letters,
            example_ms=None if known.newest_example is None else known.newest_example.time_ms,
            output_ms=known.output_ms,
        )

    def _lag_ms(self, known: _Stream) -> int | None:
        """Return the lag of a stream in event time; see the glossary."""
        newest = known.newest_example
        if newest is None:
            return None
        if newest.offset < self.ends(newest.task)[0]:
            return 0
        return None if known.output_ms is None else max(0, newest.time_ms - known.output_ms)
