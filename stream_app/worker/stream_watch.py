"""Compare each stream with its last look, and report what is new: labels, full tables, drift, changes, odd values."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from stream_app.config.column_settings import ColumnSettings, column_of
from stream_app.pipeline.degradation import CHANGES
from stream_app.pipeline.drift import DriftFigures
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.watched.feature_sizes import LARGE, largest_feature, unscaled_learners
from stream_app.pipeline.watched.table_use import Crowding
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer


class MissingLabels:
    """Remembers the streams without labels by task.

    Args:
        observer: Reports them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._missing: dict[int, dict[str, int]] = {}  # by task: the streams, and how many labels they had had

    def look(self, task: int, stream: str, problem: str | None, labelled: int) -> bool:
        """Take what a look at a stream has found; say whether its labels are missing.

        Args:
            task: The task.
            stream: The stream.
            problem: Why an operator should look. Without a problem, labels that were missing come again only if some
                were joined since: the signs of a problem can also be forgotten.
            labelled: How many labels the stream has had; after a reset, fewer than before.
        """
        missing = self._missing.setdefault(task, {})
        before = missing.get(stream)
        if problem is not None and before is None:
            missing[stream] = labelled
            self._observer.emit(events.LabelsMissing(task, stream, problem))
        elif problem is None and before is not None and labelled != before:
            del missing[stream]
            self._observer.emit(events.LabelsReturned(task, stream, was_reset=labelled < before))
        return stream in missing

    def streams(self, task: int) -> int:
        """Return how many streams of a task lack labels."""
        return len(self._missing.get(task, ()))

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        self._missing.pop(task, None)


class CrowdedStreams:
    """Remembers the crowded streams by task; see `pipeline.watched.table_use`.

    Args:
        observer: Reports them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._crowded: dict[int, dict[str, Crowding]] = {}

    def look(self, task: int, stream: str, crowding: Crowding | None) -> None:
        """Take which table of a stream is about to lose what is needed; None: no table is."""
        known = self._crowded.setdefault(task, {})
        if crowding is None:
            if known.pop(stream, None) is not None:
                self._observer.emit(events.TableHasRoom(task, stream))
            return
        if stream not in known:
            self._observer.emit(events.TableNearBound(task, stream, crowding.text))
        known[stream] = crowding

    def streams(self, task: int) -> int:
        """Return how many streams of a task certainly lose something."""
        return sum(crowding.is_certain for crowding in self._crowded.get(task, {}).values())

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        self._crowded.pop(task, None)


class UnscaledStreams:
    """Judges the features of each stream once, by task; see `pipeline.watched.feature_sizes`.

    Args:
        observer: Reports large features of learners without a scaler.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._judged: dict[int, set[str]] = {}

    def look(self, task: int, stream: Stream) -> None:
        """Report a stream with large features, once it has had enough examples."""
        judged = self._judged.setdefault(task, set())
        if stream.name in judged:
            return
        learners = unscaled_learners(stream)
        largest = largest_feature(stream) if learners else None
        if learners and largest is None:
            return  # it is too early to judge
        judged.add(stream.name)
        if largest is not None and largest[1] > LARGE:
            number, size = largest
            text = f"{_named(stream.settings.columns, number)} is {size:,.0f} on average, and has no scaler: "
            self._observer.emit(events.FeaturesUnscaled(task, stream.name, text + ", ".join(learners)))

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        self._judged.pop(task, None)


class DriftedStreams:
    """Remembers the streams whose features or scores have drifted, by task; see `pipeline.drift`.

    Args:
        observer: Reports them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._drifted: dict[int, set[str]] = {}

    def look(self, task: int, stream: Stream) -> None:
        """Report a stream whose drift has begun or ended since the last look."""
        drifted = self._drifted.setdefault(task, set())
        if stream.drift is None or (settings := stream.settings.drift) is None:
            return
        found = stream.drift.figures
        score = 0.0 if found.score_psi is None else found.score_psi
        is_drifted = bool(found.features_drifted) or score > settings.threshold
        if is_drifted and stream.name not in drifted:
            drifted.add(stream.name)
            self._observer.emit(events.DriftBegan(task, stream.name, _text(found, stream.settings.columns)))
        elif not is_drifted and stream.name in drifted:
            drifted.remove(stream.name)
            self._observer.emit(events.DriftEnded(task, stream.name, _text(found, stream.settings.columns)))

    def forget(self, task: int) -> None:
        """Forget the streams of a task."""
        self._drifted.pop(task, None)


def _text(found: DriftFigures, columns: Mapping[str, ColumnSettings]) -> str:
    """Return the figures of a window as a line of the log shows them."""
    if found.feature is None:
        return "it has a new reference"
    named = _named(columns, found.feature)
    score = "" if found.score_psi is None else f", of the score {found.score_psi:.2f}"
    return f"PSI of {named} {found.feature_psi:.2f}{score}; features drifted: {found.features_drifted}"


def _named(columns: Mapping[str, ColumnSettings], feature: int) -> str:
    return f"column {column_of(columns, feature)!r}" if columns else f"feature {feature}"


class _Model(NamedTuple):
    """Identifies what one learner has learned from one stream of a task."""

    task: OwnedTask
    stream: str
    learner: str


class _Counts(NamedTuple):
    """A learner's changes, limited examples and refused steps."""

    changes: int = 0
    limited: int = 0
    refused: int = 0


class Learners:
    """Reports learners that became worse, and learners that met a value which a network cannot take as it stands.

    Args:
        observer: Reports them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._known: dict[_Model, _Counts] = {}  # without the learners that have nothing to report

    def look(self, task: OwnedTask, stream: Stream, *, is_first: bool) -> None:
        """Look at the learners of a stream.

        Args:
            task: The task of the stream.
            stream: The stream.
            is_first: Whether the task has just become live: then changes that were not known before are not new.
        """
        for number, (learner, monitor) in enumerate(zip(stream.learner_names, stream.changes, strict=True)):
            model, at = _Model(task, stream.name, learner), (task.number, stream.name, learner)
            counts = _Counts(int(monitor.arrays()["change_counts"][CHANGES]), *stream.guarded(number))
            known = self._known.get(model, _Counts(counts.changes if is_first else 0))
            if counts.changes > known.changes:
                new = counts.changes - known.changes
                self._observer.emit(events.ChangeFlagged(*at, stream.time_ms, counts.changes, new))
            if (counts.limited, counts.refused) not in ((known.limited, known.refused), (0, 0)):
                self._observer.emit(events.ValuesLimited(*at, counts.limited, counts.refused))
            if any(counts):
                self._known[model] = counts
            else:
                self._known.pop(model, None)

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget the learners of all other tasks."""
        for model in [model for model in self._known if model.task not in tasks]:
            del self._known[model]
