"""Looks at the labels of all streams of a worker, a slice of time at a time, between two rounds."""

from collections.abc import Sequence

from stream_app.backends.base import Clock
from stream_app.pipeline.label_flow import flow_of
from stream_app.task_state import TaskState
from stream_app.worker.observer import Observer
from stream_app.worker.owned_task import OwnedTask

LOOK_INTERVAL_S = 1.0
"""From one look to the next."""

LOOK_SLICE_S = 0.02
"""Longest look, but for one stream: what is left is for the next look. Some hundred streams take so long."""


class LabelWatch:
    """Looks at the labels of each stream, again and again.

    Args:
        clock: For the interval.
        observer: Hears how the labels of each stream come.
        max_unlabelled_share: Of the newest closed examples of a stream; more of them are a problem.
    """

    def __init__(self, clock: Clock, observer: Observer, max_unlabelled_share: float) -> None:
        self._clock = clock
        self._observer = observer
        self._max_unlabelled_share = max_unlabelled_share
        self._due_s = 0.0
        self._left: list[tuple[OwnedTask, str]] = []

    def look(self, tasks: Sequence[OwnedTask]) -> None:
        """Go on where the last look ended; once all streams were seen, the next look starts again."""
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
    """The streams of a task that is live."""
    return task.live.task.stream_names if task.state is TaskState.LIVE else ()
