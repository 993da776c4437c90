"""Watch the topics of an application: whether they are still the same topics, and still as they should be."""

import logging
from collections.abc import Callable, Mapping, Sequence

from stream_app.backends.base import TopicInfo, TopicPartition
from stream_app.backends.progress import partitions_of
from stream_app.backends.questions import Question, RetentionCluster
from stream_app.backends.topics import largest_batch_bytes, problems_of
from stream_app.config import Config
from stream_app.errors import TopicError
from stream_app.snapshot.identity import UNKNOWN, Identity
from stream_app.task_state import TaskState
from stream_app.worker.owned_task import OwnedTask
from stream_app.worker.reports import events
from stream_app.worker.reports.observer import Observer
from stream_app.worker.round_transaction import output_ids
from stream_app.worker.transaction_watch import TransactionWatch

LOGGER = logging.getLogger("areba.worker")

ASK_INTERVAL_S = 30.0
"""Interval at which the worker asks for its topics. confluent-kafka 2.16 never frees the id of a described topic (some
110 bytes, which Python's garbage collector visits): at this interval that is 2.5 MB a day."""


class TopicWatch:
    """The number of partitions that the application uses, and what the cluster says about its topics.

    Attributes:
        identity: The number of all tasks, recorded in progress, and the ids of the topics when they were last read;
            unknown before `begin`.
        topic_ids: The ids of all topics when they were last read, by name.
        dead_letter_bytes: The largest batch that the topic of the dead letters then accepted.
    """

    def __init__(self, cluster: RetentionCluster, config: Config, observer: Observer) -> None:
        self.identity = UNKNOWN
        self.topic_ids: Mapping[str, str] = {}
        self.dead_letter_bytes = 0
        self._cluster = cluster
        self._config = config
        self._topics = config.topics
        self._observer = observer
        self._reported: tuple[str, ...] = ()  # the problems of the topics that were logged last
        self._reading: Question[RetentionCluster, Mapping[str, TopicInfo]] | None = None
        self._asking: Question[RetentionCluster, Mapping[str, TopicInfo]] | None = None
        self._starts: Question[RetentionCluster, Mapping[TopicPartition, int]] | None = None
        self._asked_for: Sequence[TopicPartition] = ()  # the inputs whose first offsets were asked for last
        self._asked_s = 0.0

    def begin(self) -> None:
        """Read the number of tasks and the topics; wait for the broker."""
        self.identity = Identity(partitions_of(self._cluster, self._topics))
        self._take(self._cluster.topics(self._topics))

    def expire(self) -> None:
        """Let `is_read` ask for the topics again."""
        self._reading = Question(self._cluster, lambda cluster: cluster.topics(self._topics))
        self._asking = self._starts = None  # their answers would be older

    def is_read(self) -> bool:
        """Say whether the topics were read since the last `expire`; never wait for them."""
        found = self._reading.answer() if self._reading is not None else None
        if found is not None:
            self._reading = None
            self._take(found)
        return self._reading is None

    def first_offsets(self, inputs: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Return the first offset of each of these inputs; None as long as there is no answer; never wait for it."""
        if not inputs:
            return {}
        if inputs != self._asked_for or self._starts is None:
            self._asked_for = inputs
            self._starts = Question(self._cluster, lambda cluster: cluster.kept(inputs).starts)
        starts = self._starts.answer()
        if starts is not None:
            self._starts = None
        return starts

    def _take(self, found: Mapping[str, TopicInfo]) -> None:
        """Take the ids and limits of the topics, and report their problems."""
        inputs = (self._topics.examples, self._topics.labels)
        examples, labels = (found[name].topic_id if name in found else "" for name in inputs)
        self.identity = Identity(self.identity.partitions, (examples, labels), output_ids(found, self._topics))
        if self._topics.dead_letters in found:
            self.dead_letter_bytes = largest_batch_bytes(found[self._topics.dead_letters])
        topic_ids = {name: topic.topic_id for name, topic in found.items()}
        if topic_ids != self.topic_ids:
            self.topic_ids = topic_ids
        self._report(found)

    def _report(self, found: Mapping[str, TopicInfo]) -> None:
        """Report what is wrong with the topics, once: an administrator may change them at any time."""
        lines = tuple(problems_of(found, self._config, self.identity.partitions))
        if lines != self._reported:
            for line in lines:
                self._observer.emit(events.TopicsAtRisk(line))
        self._reported = lines

    def replaced(self, task: OwnedTask) -> frozenset[str]:
        """Return the topics that were deleted and created again after the restore of a task began."""
        if task.topic_ids is self.topic_ids:
            return frozenset()  # as nearly always; there can be hundreds of tasks
        now = self.topic_ids.items()
        return frozenset(name for name, topic_id in now if topic_id and topic_id != task.topic_ids.get(name))

    def look(
        self, now_s: float, tasks: Sequence[OwnedTask], renew: Callable[[int], None], watch: TransactionWatch
    ) -> None:
        """Find out, at intervals, whether topics were deleted and created again: what was read before is then wrong.

        Outputs, inputs and progress: the tasks are restored, and the restore finds what is left, or parks the task. The
        changelog: the state is in memory, and a new snapshot holds all of it.

        Args:
            now_s: The monotonic time.
            tasks: The tasks of the worker.
            renew: Restores a task from its beginning.
            watch: Forgets what was written to a topic that is gone.
        """
        self._ask(now_s)
        for task in tasks:
            changed = self.replaced(task)
            if changed - {self._topics.changelog} and task.state is not TaskState.PARKED:
                renew(task.number)
            elif changed == {self._topics.changelog} and task.state is TaskState.LIVE:
                problem = f"{self._topics.changelog} was deleted and created again: a snapshot follows"
                self._observer.emit(events.TopicReplaced(task.number, problem))
                task.topic_ids = self.topic_ids
                task.live.snapshots.lose()
                task.live.unnamed_ends = None
                watch.forget_unread(task.number)

    def _ask(self, now_s: float) -> None:
        """Read the topics at intervals; never wait for them."""
        if not self.is_read():
            return  # they are being read anyway
        if self._asking is None:
            if now_s < self._asked_s + ASK_INTERVAL_S:
                return
            self._asked_s = now_s
            self._asking = Question(self._cluster, lambda cluster: cluster.topics(self._topics))
        try:
            found = self._asking.answer()
        except TopicError as problem:
            self._asking = None
            LOGGER.debug("the topics cannot be read: %s", problem)
            return
        if found is not None:
            self._asking = None
            self._take(found)
