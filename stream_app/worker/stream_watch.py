"""Compare each stream with its last look, and report what is new: missing labels, full tables, changes, odd values."""

from collections.abc import Collection
from typing import NamedTuple, TypeVar

from stream_app.pipeline.degradation import CHANGES
from stream_app.pipeline.stream import Stream
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


_Value = TypeVar("_Value")


class _Model(NamedTuple):
    """Identifies what one learner has learned from one stream of a task."""

    task: OwnedTask
    stream: str
    learner: str


class FlaggedChanges:
    """Compares the number of changes of each model with its last one, and reports an increase.

    Args:
        observer: Reports it.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._known: dict[_Model, int] = {}  # without the models that have no change

    def look(self, task: OwnedTask, stream: Stream, *, is_first: bool) -> None:
        """Look at the models of a stream.

        Args:
            task: The task of the stream.
            stream: The stream.
            is_first: Whether the task has just become live: then changes that were not known before are not new.
        """
        for learner, monitor in zip(stream.learner_names, stream.changes, strict=True):
            changes = int(monitor.arrays()["change_counts"][CHANGES])
            model = _Model(task, stream.name, learner)
            before = self._known.get(model, changes if is_first else 0)
            if changes:
                self._known[model] = changes
            else:
                self._known.pop(model, None)
            if changes > before:
                new = changes - before
                self._observer.emit(
                    events.ChangeFlagged(task.number, stream.name, learner, stream.time_ms, changes, new)
                )

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget the models of all other tasks."""
        _keep(self._known, tasks)


class GuardedLearners:
    """Reports learners that met a value which a network cannot take as it stands.

    Args:
        observer: Reports them.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._known: dict[_Model, tuple[int, int]] = {}  # without the learners that met none

    def look(self, task: OwnedTask, stream: Stream) -> None:
        """Look at the learners of a stream."""
        for number, learner in enumerate(stream.learner_names):
            guarded = stream.guarded(number)
            model = _Model(task, stream.name, learner)
            if guarded == self._known.get(model, (0, 0)):
                continue
            self._known[model] = guarded
            if any(guarded):
                self._observer.emit(events.ValuesLimited(task.number, stream.name, learner, *guarded))

    def keep(self, tasks: Collection[OwnedTask]) -> None:
        """Forget the learners of all other tasks."""
        _keep(self._known, tasks)


def _keep(known: dict[_Model, _Value], tasks: Collection[OwnedTask]) -> None:
    for model in [model for model in known if model.task not in tasks]:
        del known[model]
