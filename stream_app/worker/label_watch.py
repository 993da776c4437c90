"""Checks the labels of all streams of a worker between rounds, in short slices of time."""

from collections.abc import Sequence

from stream_app.backends.base import Clock
from stream_app.pipeline.label_flow import flow_of
from stream_app.task_state import TaskState
from stream_app.worker.observer import Observer
from stream_app.worker.owned_task import OwnedTask

LOOK_INTERVAL_S = 1.0
"""Time between two slices."""

LOOK_SLICE_S = 0.02
"""Longest slice, exceeded by at most one stream; the next slice takes the rest. Some hundred streams take as long."""


class LabelWatch:
    """Checks the labels of each stream periodically.

    Args:
        clock: Measures the interval and the slice.
        observer: Receives the label flow of each stream.
        max_unlabelled_share: A larger share of unlabelled examples among a stream's newest closed ones is a problem.
    """

    def __init__(self, clock: Clock, observer: Observer, max_unlabelled_share: float) -> None:
        self._clock = clock
        self._observer = observer
        self._max_unlabelled_share = max_unlabelled_share
        self._due_s = 0.0
        self._left: list[tuple[OwnedTask, str]] = []

    def look(self, tasks: Sequence[OwnedTask]) -> None:
        """Continue where the last slice ended; after all streams, the next slice starts with the first again."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_INTERVAL_S
        self._left = self._left or [(task, name) for task in tasks for name in _names(task)]
        while self._left and self._clock.monotonic_s() < now_s + LOOK_SLICE_S:
            task, name = self._left.pop()
            if task in tasks and task.state is TaskState.LIVE:
                flow = flow_of(task.live.task.stream(name).join)
                self._observer.labels(task.number, name, flow, flow.problem(self._max_unlabelled_share))


def _names(task: OwnedTask) -> Sequence[str]:
    """Return the names of a live task's streams; none if the task is not live."""
    return task.live.task.stream_names if task.state is TaskState.LIVE else ()
