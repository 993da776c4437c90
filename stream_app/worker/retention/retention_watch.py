"""Watches how much of its topic's retention the oldest record that a restore needs has used.

A task that has not saved its state before the broker deletes the inputs of that state cannot be restored after a crash.
So the worker asks at intervals, without waiting for the answer, for the settings of the topics, which an administrator
may change at any time, and for the first offset of each partition; and it tells its tasks when to save their state.
"""

import logging
from collections.abc import Callable, Sequence

from stream_app.backends.base import TopicPartition
from stream_app.backends.questions import KeptRecords, Retention
from stream_app.config import Topics
from stream_app.errors import ArebaError
from stream_app.live.used_retention import PartitionRetention
from stream_app.snapshot.needed_records import Now
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.ports import Ports
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer

LOGGER = logging.getLogger("areba.worker")

LOOK_INTERVAL_S = 1.0
"""Time between two looks at the tasks: some microseconds for each."""

ASK_INTERVAL_S = 10.0
"""Time between two questions. Brokers look every five minutes for records that can be deleted, by default."""


_UNLIMITED = Retention(-1, -1)
"""Assumed of a topic until the broker has answered."""


class RetentionWatch:
    """Watches the inputs and the progress of a worker's tasks.

    Args:
        ports: Source, cluster and clock.
        topics: Full names of the topics.
        observer: Reports how much of the retention each task has used.
    """

    def __init__(self, ports: Ports, topics: Topics, observer: Observer) -> None:
        self._clock = ports.clock
        self._source = ports.source
        self._cluster = ports.cluster
        self._topics = topics
        self._observer = observer
        self._kept = KeptRecords({}, {})
        self._answer: Callable[[], KeptRecords | None] | None = None
        self._looked_s = self._asked_s = -ASK_INTERVAL_S
        self._asked_for: Sequence[TopicPartition] = ()

    def kept_ms(self) -> int:
        """Return the shorter retention of both inputs in milliseconds; negative: no limit, or not known yet."""
        inputs = (self._topics.examples, self._topics.labels)
        limits = [self._kept.retentions.get(name, _UNLIMITED).ms for name in inputs]
        return min((limit for limit in limits if limit >= 0), default=-1)

    def look(self, tasks: Sequence[OwnedTask]) -> None:
        """Look at the live tasks, and let those save their state that need it."""
        now_s = self._clock.monotonic_s()
        if now_s < self._looked_s + LOOK_INTERVAL_S:
            return
        self._looked_s = now_s
        live = [task for task in tasks if task.state is TaskState.LIVE]
        self._ask([partition for task in live for partition in self._partitions(task)], now_s)
        for task in live:
            logs = tuple(map(self._log, self._partitions(task), self._ends(task)))
            used = task.live.snapshots.look(logs, Now(self._clock.now_ms(), now_s))
            self._observer.emit(events.RetentionUsed(task.number, used))

    def _partitions(self, task: OwnedTask) -> tuple[TopicPartition, ...]:
        return (*task.inputs, TopicPartition(self._topics.progress, task.number))

    def _ends(self, task: OwnedTask) -> tuple[int, ...]:
        known = (self._source.known_end(partition) or 0 for partition in task.inputs)
        return (*map(max, known, task.offsets), task.position.anchor.progress_offset + 1)

    def _log(self, partition: TopicPartition, end: int) -> PartitionRetention:
        return PartitionRetention(
            self._kept.retentions.get(partition.topic, _UNLIMITED), self._kept.starts.get(partition, 0), end
        )

    def _ask(self, partitions: Sequence[TopicPartition], now_s: float) -> None:
        """Take the answer to the last question, if there is one, and ask again when that is due."""
        try:
            if self._answer is not None:
                kept = self._answer()
                if kept is None:
                    return
                self._kept, self._answer = kept, None
            if partitions and (now_s >= self._asked_s + ASK_INTERVAL_S or partitions != self._asked_for):
                self._asked_s, self._asked_for = now_s, partitions
                self._answer = self._cluster.ask(lambda cluster: cluster.kept(partitions))
        except ArebaError as problem:
            self._answer = None
            LOGGER.debug("what the brokers keep is not known: %s", problem)
