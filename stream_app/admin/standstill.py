"""What stands still: inputs that an open transaction holds back, tasks that commit nothing although records wait."""

from collections.abc import Mapping, Sequence

from stream_app.admin.inspection import TaskView
from stream_app.backends.base import Clock, Cluster, TopicPartition
from stream_app.backends.held_back import open_ends, unmoved
from stream_app.backends.reading import rows_of
from stream_app.config import Config
from stream_app.task_state import TaskState

QUIET_MS = 60_000
"""A task whose newest commit is younger is no problem, as for the alert ArebaNoCommit."""

TAIL_RECORDS = 100
"""Offsets at the end of progress among which the newest commit is; each commit takes two."""


def standing_still(cluster: Cluster, config: Config, views: Sequence[TaskView], clock: Clock) -> Sequence[TaskView]:
    """Return the views with what holds their inputs back, and for how long they have committed nothing.

    Takes `WATCH_S` if there is anything to watch.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
    """
    quiet_ms = {view.task: _quiet_ms(cluster, config, view, clock.now_ms()) for view in views}
    places = [place for view in views for place in view.places]
    idle = [TopicPartition(config.topics.progress, task) for task, quiet in quiet_ms.items() if quiet >= QUIET_MS]

    def committed() -> Mapping[TopicPartition, int]:
        return {place: ends.stable for place, ends in cluster.ends(idle).items()} if idle else {}

    def stable() -> Mapping[TopicPartition, int]:
        return {place: ends.stable for place, ends in open_ends(cluster, places).items()}

    held, ends = unmoved((stable, committed), clock)
    still = {place.partition for place in ends}
    return [view.standing_still(held, quiet_ms[view.task] if view.task in still else None) for view in views]


def _quiet_ms(cluster: Cluster, config: Config, view: TaskView, now_ms: int) -> int:
    """Return how old the newest commit of a task is for which records wait; 0 if none wait, or if it is not known."""
    if view.state is not TaskState.RUNNING or view.problem is not None or not any(one.lag for one in view.inputs):
        return 0
    progress = TopicPartition(config.topics.progress, view.task)
    low, high = cluster.watermarks(progress)
    times_ms = [row.log_time_ms for row in rows_of(cluster, progress, max(low, high - TAIL_RECORDS))]
    return now_ms - max(times_ms) if times_ms else 0
