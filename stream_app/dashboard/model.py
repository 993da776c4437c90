"""What the page shows beyond the newest figures: curves, change marks, reasons of dead letters, and stalls.

Pure, and bounded in memory: see `MAX_CURVES` and `MAX_POINTS`.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from stream_app.dashboard.decisions import StreamDecisions
from stream_app.dashboard.series import Series
from stream_app.monitor.drift import DriftReader
from stream_app.monitor.figures import StreamFigures
from stream_app.monitor.lanes import NO_LANES, Lanes
from stream_app.monitor.model import MAX_REASONS, LiveModel
from stream_app.progress_records import Act, Commit
from stream_app.records import Metric, Outcome, Prediction

MAX_POINTS = 300
"""Rows of a curve; a chart on a usual screen is about 600 pixels wide."""

MAX_CURVES = 4_000
"""Learners that have curves: 1,000 streams of 4 learners with full curves and `MAX_MARKS` marks take 118 MB.

Further learners have their newest figures."""

MAX_MARKS = 100
"""Newest changes of a stream that are marked."""

STALLED_S = 10.0
"""A stream is stalled if its task has unprocessed examples and has committed nothing for this long."""

_STATES = ("stopped", "stalled", "live", "idle", "waiting")
"""The states of a stream; the first of those of its lanes is that of a stream with lanes."""

LEARNER_COLUMNS = ("time_ms", "gmean", "recall", "specificity", "precision", "roc_auc")
STREAM_COLUMNS = ("time_ms", "positive_size", "delay_ms_p50", "delay_ms_p90", "delay_ms_p99")
WORK_COLUMNS = ("time_ms", "labelled_per_s", "lag_s", "pending")


class ChangeMark(NamedTuple):
    """A change that a learner flagged: it recognises a class worse than before.

    Attributes:
        learner: Which learner flagged the change.
        time_ms: Event time of the learner's first metric with the change.
        changes: The learner's number of changes, with this change.
        labelled: Number of labels when it was flagged; None if another program wrote the metric.
        gmean_before: G-mean before the change; None if it is not known.
    """

    learner: str
    time_ms: int
    changes: int
    labelled: int | None
    gmean_before: float | None


class DriftEntry(NamedTuple):
    """Drift without labels: for how long a feature or the scores have been far from their reference.

    Attributes:
        what: The column or the feature with the largest PSI so far, or `score`.
        psi: That PSI.
        time_ms: Event time of the champion's first metric with the drift.
        ended_ms: Event time of the first metric without it; None while it lasts.
    """

    what: str
    psi: float
    time_ms: int
    ended_ms: int | None = None


@dataclass(slots=True)
class _DriftEntries:
    """The newest drifts without labels of one kind: of the features, or of the scores."""

    entries: deque[DriftEntry] = field(default_factory=lambda: deque(maxlen=MAX_MARKS))

    def add(self, what: str, psi: float | None, time_ms: int) -> None:
        """Add the figure of a metric; None: it is not above the threshold, or not known."""
        last = self.entries[-1] if self.entries else None
        lasts = last is not None and last.ended_ms is None
        if psi is None:
            if lasts:
                self.entries.append(self.entries.pop()._replace(ended_ms=time_ms))
        elif not lasts:
            self.entries.append(DriftEntry(what, psi, time_ms))
        elif psi > self.entries[-1].psi:
            self.entries.append(self.entries.pop()._replace(what=what, psi=psi))


class KnownDrift(NamedTuple):
    """A known drift: its event time, and the number of examples before it."""

    time_ms: float
    examples: int


@dataclass(slots=True)
class _StreamHistory:
    """The history of one stream.

    Attributes:
        learners: The curve of each learner along event time, with `LEARNER_COLUMNS`.
        course: Class sizes and label delays of the champion along event time, with `STREAM_COLUMNS`.
        work: Throughput and lag along wall time, with `WORK_COLUMNS`; nulls while the stream was stalled.
        marks: The newest changes that were flagged.
        feature_drifts: Drifts of features that were found without labels.
        score_drifts: Drifts of the champion's scores.
        drifts: The known drifts that were reached.
        reached: Examples and event time of the champion's newest metric; None before the first.
        reasons: Dead letters by reason.
        changes: Changes of each learner at its newest metric.
        decisions: Predictions of the champion to look at, and what its probabilities have meant.
        is_cut: Whether a learner has no curve because there are too many.
    """

    learners: dict[str, Series] = field(default_factory=dict)
    course: Series = field(default_factory=lambda: Series(len(STREAM_COLUMNS), MAX_POINTS))
    work: Series = field(default_factory=lambda: Series(len(WORK_COLUMNS), MAX_POINTS))
    marks: deque[ChangeMark] = field(default_factory=lambda: deque(maxlen=MAX_MARKS))
    feature_drifts: _DriftEntries = field(default_factory=_DriftEntries)
    score_drifts: _DriftEntries = field(default_factory=_DriftEntries)
    drifts: list[KnownDrift] = field(default_factory=list)
    reached: tuple[int, int] | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    changes: dict[str, int] = field(default_factory=dict)
    decisions: StreamDecisions = field(default_factory=StreamDecisions)
    is_cut: bool = False


class DashboardModel(LiveModel):
    """The figures of an application, and their history.

    `drifts` are known drifts of each stream, as the number of its examples before the drift. `reader` reads drift
    without labels from metrics; `lanes` are the lanes of streams.
    """

    def __init__(
        self,
        streams: Iterable[str] = (),
        drifts: Mapping[str, Sequence[int]] = MappingProxyType({}),
        reader: DriftReader | None = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        super().__init__(streams, drift=reader, lanes=lanes)
        self._drifts = drifts
        self._histories: dict[str, _StreamHistory] = {}
        self._curves = 0
        self._committed_s: dict[int, float] = {}
        self._behind_since_s: dict[str, float] = {}

    @property
    def now_s(self) -> float:
        """The moment of the newest update; 0 before the first."""
        return self._ticks.newest_s or 0.0

    def history(self, stream: str) -> _StreamHistory:
        """Return the history of a stream; it is empty if nothing was added."""
        return self._histories.get(stream) or _StreamHistory()

    def add_metric(self, metric: Metric, task: int) -> None:
        """Add a metric to the figures and to the curves."""
        super().add_metric(metric, task)
        time_ms = metric.event_time_ms
        if metric.stream not in self._streams:
            return
        history = self._histories.setdefault(metric.stream, _StreamHistory())
        self._forget_learners(history, self._streams[metric.stream].learners)
        if metric.champion:
            self._add_drifts(history, metric)
            self._add_found_drifts(history, metric)
        if metric.learner not in history.learners:
            if self._curves >= MAX_CURVES:
                history.is_cut = True
                return
            self._curves += 1
            history.learners[metric.learner] = Series(len(LEARNER_COLUMNS), MAX_POINTS)
        window = metric.main_window
        history.learners[metric.learner].add(time_ms, *(getattr(window, name) for name in LEARNER_COLUMNS[1:]))
        if metric.champion:
            history.course.add(
                time_ms, metric.positive_size, metric.delay_ms_p50, metric.delay_ms_p90, metric.delay_ms_p99
            )
        if metric.changes > history.changes.get(metric.learner, metric.changes):
            history.marks.append(
                ChangeMark(metric.learner, time_ms, metric.changes, metric.change_flagged, metric.gmean_before)
            )
        history.changes[metric.learner] = metric.changes

    def _add_drifts(self, history: _StreamHistory, metric: Metric) -> None:
        """Add the known drifts since the champion's last metric, at event times between those of both metrics.

        A drift before the first metric has no known time.
        """
        before, time_ms = history.reached, metric.event_time_ms
        history.reached = metric.examples, time_ms
        if before is None:
            return
        examples, before_ms = before
        for number in self._drifts.get(metric.stream, ()):
            if examples <= number < metric.examples:
                share = (number - examples) / (metric.examples - examples)
                history.drifts.append(KnownDrift(before_ms + share * (time_ms - before_ms), number))

    def _add_found_drifts(self, history: _StreamHistory, metric: Metric) -> None:
        """Add the drift without labels of a metric of the champion."""
        found, time_ms = self._drift.read(metric), metric.event_time_ms
        if found is None:
            history.feature_drifts.add("", None, time_ms)
            history.score_drifts.add("", None, time_ms)
            return
        history.feature_drifts.add(found.feature, found.feature_psi if found.features_drifted else None, time_ms)
        history.score_drifts.add("score", found.score_psi if found.is_score_drifted else None, time_ms)

    def _forget_learners(self, history: _StreamHistory, known: Mapping[str, object]) -> None:
        """Forget the curves of learners that the figures have forgotten."""
        for name in [name for name in history.learners if name not in known]:
            del history.learners[name], history.changes[name]
            self._curves -= 1

    def add_prediction(self, prediction: Prediction, task: int) -> None:
        """Add a prediction to the figures and to the predictions to look at."""
        super().add_prediction(prediction, task)
        if prediction.stream in self._streams:
            self._histories.setdefault(prediction.stream, _StreamHistory()).decisions.add_prediction(prediction)

    def add_outcome(self, outcome: Outcome, task: int) -> None:
        """Add an outcome to the figures and to the predictions to look at."""
        super().add_outcome(outcome, task)
        if outcome.stream in self._streams:
            self._histories.setdefault(outcome.stream, _StreamHistory()).decisions.add_outcome(outcome)

    def add_dead_letter(self, stream: str, reason: str, task: int) -> None:
        """Add a dead letter to the figures, and count its reason."""
        super().add_dead_letter(stream, reason, task)
        if stream in self._streams:
            reasons = self._histories.setdefault(stream, _StreamHistory()).reasons
            if reason in reasons or len(reasons) < MAX_REASONS:
                reasons[reason] += 1

    def add_progress(self, task: int, record: Commit | Act) -> None:
        """Add a record of the progress of a task, and note when it came."""
        super().add_progress(task, record)
        self._committed_s[task] = self.now_s

    def sample(self, streams: Iterable[StreamFigures], wall_ms: int) -> None:
        """Add a row of throughput and lag to each of these streams, after an update."""
        for figures in streams:
            name, newest = figures.stream, self._streams[figures.stream].newest_example
            if newest is None or newest.offset < self.ends(newest.task)[0]:
                self._behind_since_s.pop(name, None)
            else:
                self._behind_since_s.setdefault(name, self.now_s)
            work = self._histories.setdefault(name, _StreamHistory()).work
            is_stalled = self.state(name) == "stalled"
            lag_s = None if figures.lag_ms is None else figures.lag_ms / 1000
            work.add(wall_ms, None if is_stalled else figures.labelled_per_s, lag_s, figures.pending)

    def state(self, stream: str) -> str:
        """Return `waiting` (no example is known), `idle` (all are processed), `live`, `stalled` or `stopped`.

        A stream is stopped or stalled if a lane of it is.
        """
        known = self._streams.get(stream)
        if self.is_stopped(stream):
            return "stopped"
        if lanes := self._lanes.names.get(stream):
            return min((self.state(lane) for lane in lanes), key=_STATES.index)
        if known is None or known.newest_example is None:
            return "waiting"
        since_s = self._behind_since_s.get(stream)
        if since_s is None:
            rate = known.joined.per_second(window) if (window := self._ticks.window()) else 0
            return "live" if rate else "idle"
        committed_s = self._committed_s.get(known.newest_example.task, since_s)
        return "stalled" if self.now_s - max(since_s, committed_s) >= STALLED_S else "live"
