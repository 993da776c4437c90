"""One stream of a task: its join, learners, scores and open marks; `stream_set` runs all streams in one call."""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_app.arrays import Floats
from stream_app.config import Running, StreamSettings, TaskSettings, ThresholdSettings
from stream_app.join.constants import Counter
from stream_app.join.stream_join import StreamJoin
from stream_app.learners.api import Operations
from stream_app.learners.factory import LearnerResources, build
from stream_app.learners.online import OnlineLearner
from stream_app.pipeline.alert_share import AlertShare
from stream_app.pipeline.batch import OriginalRecord
from stream_app.pipeline.calibration import Calibration
from stream_app.pipeline.degradation import ChangeMonitor
from stream_app.pipeline.drift import InputDrift
from stream_app.pipeline.pending_headers import PendingHeaders, held_headers_bytes
from stream_app.pipeline.preparation.preparation import Preparation
from stream_app.pipeline.prequential import MAIN_WINDOW, Prequential
from stream_app.records import ID_WORDS, Operation, Side

if TYPE_CHECKING:
    from stream_app.learners.api import Learner

State: TypeAlias = Mapping[str, NDArray[np.generic]]
"""The state of a learner, as its `arrays` returns it."""

Waiting: TypeAlias = dict[int, OriginalRecord]
"""The waiting labels, as they came, by slot of the join."""

SeedOf: TypeAlias = Callable[[str, str, str], bytes]
"""Returns 32 bytes that seed a learner, from the names of application, stream and learner."""


_OBJECT_BYTES = 4_000
"""Bytes of a stream and its parts as Python objects, measured on CPython 3.11."""

_RECORD_OBJECT_BYTES = 300
"""Bytes of a waiting label, besides key, value and headers."""


def _held_bytes(record: OriginalRecord) -> int:
    """Return the approximate bytes of a record that is kept as it came."""
    headers = held_headers_bytes(record.headers)
    return _RECORD_OBJECT_BYTES + len(record.key or b"") + len(record.value or b"") + headers


class OpenMark(NamedTuple):
    """An `advance` mark whose counterpart from the other side has not come yet: its own side, and its time."""

    side: Side
    time_ms: int


def seed_of(application_id: str, stream: str, learner: str) -> bytes:
    """Return 32 bytes that seed a learner: the SHA-256 of application, stream and learner, each after its length."""
    parts = (part.encode() for part in (application_id, stream, learner))
    return hashlib.sha256(b"".join(struct.pack("<I", len(part)) + part for part in parts)).digest()


class TaskResources(NamedTuple):
    """What the streams of a task share.

    Attributes:
        settings: Bounds and intervals.
        hash_key: `HASH_KEY_BYTES` bytes, the key of their tables of ids.
        learner_resources: For their learners, which never run at the same time.
        seed_of: Returns the seed of a learner.
    """

    settings: TaskSettings
    hash_key: bytes
    learner_resources: LearnerResources
    seed_of: SeedOf = seed_of


class Stream:
    """One stream: its join, its open marks, and its learners with sums, change monitors, calibrations and alert shares.

    Args:
        name: The record key.
        settings: Its learners and dimension.
        shared: What all streams of the task share.

    Attributes:
        settings: As given.
        features: The number of features of an example; 0: not known yet.
        learners: Empty until the number of features is known.
        preparation: How the values of its columns become features; None: it has no columns.
        drift: How far windows of examples are from a reference; None: not looked for, or no features are known.
        waiting: The waiting labels as they came: any of them may become a dead letter.
        passed: The headers that pending examples pass on to their outcomes.
        amended: Numbers of closed ids that were corrected since the last snapshot; some may be forgotten by now.
        is_new: Whether it began, or was built again, since the last snapshot: what older snapshots have of a stream of
            this name does not belong to it.
    """

    def __init__(self, name: str, settings: StreamSettings, shared: TaskResources) -> None:
        task = shared.settings
        self.name = name
        self.features = 0
        self.learner_names = tuple(settings.learners)
        self.learners: tuple[Learner, ...] = ()
        self.join = StreamJoin(
            task.join,
            task.metrics.every_labels,
            len(settings.learners),
            shared.hash_key,
            has_costs=settings.costs is not None,
            every_examples=0 if settings.drift is None else settings.drift.window_examples,
        )
        self.join.champion = self.learner_names.index(settings.champion)
        self.join.threshold = settings.threshold
        self.preparation = Preparation(settings) if settings.columns else None
        metrics = task.metrics
        factors, detector = metrics.fading_factors, metrics.change_detector
        self.prequential = [Prequential(factors, metrics.prevalence_fading_factor) for _ in self.learner_names]
        self.changes = [ChangeMonitor(detector, factors[MAIN_WINDOW]) for _ in self.learner_names]
        self.calibrations = [Calibration() for _ in self.learner_names]
        self.alerts = [AlertShare() for _ in self.learner_names]
        self.drift: InputDrift | None = None
        self.waiting: Waiting = {}
        self.passed = PendingHeaders()
        self.amended: set[int] = set()
        self.is_new = True
        self.settings = settings
        self._task = task
        self._learner_resources = shared.learner_resources
        self._seed_of = shared.seed_of
        self._open_marks: dict[OpenMark, None] = {}

    def set_features(self, features: int, *, is_loaded: bool = False) -> None:
        """Fix the number of features, from the configuration or the first example, and build the learners.

        Args:
            features: The number.
            is_loaded: Whether a stored state follows.
        """
        self.features = features
        self.join.set_features(features)
        self.learners = tuple(
            build(
                name,
                settings,
                features,
                self._seed_of(self._task.application_id, self.name, name),
                self._learner_resources,
                is_loaded=is_loaded,
            )
            for name, settings in self.settings.learners.items()
        )
        if self.settings.drift is not None:
            self.drift = InputDrift(self.settings.drift, features)
        self._make_room_to_learn()

    def figures(self) -> Iterator[tuple[Prequential, ChangeMonitor, Calibration, AlertShare]]:
        """Yield what each learner's figures are computed from."""
        return zip(self.prequential, self.changes, self.calibrations, self.alerts, strict=True)

    def drift_from(self, examples: int, labels: int) -> State:
        """Return the state of a drift whose reference begins after these examples and labels; empty without drift."""
        drift = self.settings.drift
        return {} if drift is None else InputDrift(drift, self.features, examples, labels).arrays()

    def make_room(self, rows: int) -> None:
        """Make sure that this many records can be applied."""
        slots = self.join.slots
        self.join.make_room(rows)
        if slots != self.join.slots:
            self._make_room_to_learn()

    def _make_room_to_learn(self) -> None:
        for learner in self.learners:
            if isinstance(learner, OnlineLearner):
                learner.make_room(self.join.slots)

    @property
    def allocated_bytes(self) -> int:
        """The approximate bytes of the stream, without a user's own learners."""
        learners = sum(learner.allocated_bytes for learner in self.learners if isinstance(learner, OnlineLearner))
        columns = 0 if self.preparation is None else self.preparation.allocated_bytes
        return (
            _OBJECT_BYTES
            + self.join.allocated_bytes
            + learners
            + columns
            + (0 if self.drift is None else self.drift.allocated_bytes)
            + sum(map(_held_bytes, self.waiting.values()))
            + self.passed.allocated_bytes
        )

    @property
    def time_ms(self) -> int:
        """The stream time in milliseconds; -1 before the first record."""
        return int(self.join.arrays()["counters"][Counter.STREAM_TIME])

    @property
    def labelled(self) -> int:
        """The number of labels that were joined."""
        return int(self.join.arrays()["counters"][Counter.LABELLED])

    def running(self) -> Running:
        """Return what a change of settings must know."""
        awaited = self.join.awaited_champions()
        names = frozenset(self.learner_names[number] for number in awaited)
        return Running(self.features, self.learner_names[self.join.champion], names, self.join.threshold)

    def guarded(self, number: int) -> tuple[int, int]:
        """Return how often a learner was guarded against values since it was restored: limited examples, refused steps.

        They are 0 of a user's own learner.
        """
        learner = self.learners[number] if self.learners else None
        if not isinstance(learner, OnlineLearner):
            return 0, 0
        return learner.limited_examples, learner.refused_steps

    def scores_of(self, number: int, state: State, rows: Sequence[Floats]) -> list[float]:
        """Return the scores that a learner in another state gives to examples, each as if it were the next to come.

        Args:
            number: The learner's number. Its own state does not change.
            state: The state, as the learner's `arrays` returned it.
            rows: float32 `[d]`, the features of each example.
        """
        learner = self.learners[number]
        own, ids = learner.arrays(), np.zeros((1, ID_WORDS), np.uint64)
        operations = Operations(np.array([Operation.PREDICT], np.uint8), np.zeros(1, np.int32), np.full(1, -1, np.int8))
        scores = []
        for row in rows:
            learner.load(state)  # a prediction moves the moments of a scaler
            scores.append(float(learner.run(operations, row[None].copy(), ids).scores[0]))
        learner.load(own)
        return scores

    def promote(self, learner: str | None) -> bool:
        """Make a learner the champion; say whether the stream has a learner of this name."""
        known = learner in self.learner_names
        if known:
            self.join.champion = self.learner_names.index(str(learner))
        return known

    def decide_by(self, threshold: ThresholdSettings) -> bool:
        """Take a threshold, and say whether the stream has the costs that it needs.

        A threshold that is in force already changes nothing; another one counts scores from here on.
        """
        fits = not threshold.costs or self.settings.costs is not None
        if fits and threshold != self.join.threshold:
            self.join.threshold = threshold
            for alerts in self.alerts:
                alerts.begin()
        return fits

    def note_amended(self, number: int) -> None:
        """Note that a closed id was corrected; forgotten ids are dropped when there are many."""
        self.amended.add(number)
        if len(self.amended) > 2 * self._task.join.max_closed_per_stream + 1_000:
            first = int(self.join.arrays()["counters"][Counter.CLOSED_FIRST])
            self.amended = {amended for amended in self.amended if amended >= first}

    def match_mark(self, side: Side, time_ms: int) -> bool:
        """Take an `advance` mark; say whether it is the second of a pair. If too many are open, drop the oldest."""
        twin = OpenMark(Side(1 - side), time_ms)
        if twin in self._open_marks:
            del self._open_marks[twin]
            return True
        self._open_marks[OpenMark(side, time_ms)] = None
        if len(self._open_marks) > self._task.join.max_open_marks_per_stream:
            del self._open_marks[next(iter(self._open_marks))]
        return False

    def open_marks(self) -> Sequence[OpenMark]:
        """Return the marks whose counterpart has not come, oldest first."""
        return tuple(self._open_marks)

    def take_marks(self, marks: Iterable[OpenMark]) -> None:
        """Take over open marks, oldest first, and drop the oldest beyond the bound."""
        self._open_marks = dict.fromkeys([*marks][-self._task.join.max_open_marks_per_stream :])
