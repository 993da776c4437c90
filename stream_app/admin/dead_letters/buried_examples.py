"""Which examples of a partition became dead letters, read from no earlier than necessary."""

import math

from stream_app.admin.dead_letters.record import read_record
from stream_app.admin.dead_letters.topic import DeadLettersTopic
from stream_app.backends.base import TopicPartition
from stream_app.backends.following import FollowableCluster
from stream_app.backends.reading import Row
from stream_app.config import Config


class BuriedExamples:
    """The examples of a partition that became dead letters.

    The log took an example's dead letter later than the example, whose event time is at most `join.max_clock_lead_ms`
    ahead of the log's clock (the broker refuses a later one). So the broker's index by time says where the dead letter
    can be: reading all of the dead letters would take minutes if there are millions.
    """

    def __init__(self, cluster: FollowableCluster, config: Config, examples: TopicPartition) -> None:
        self._cluster = cluster
        self._topic = DeadLettersTopic(cluster, config)
        self._examples = examples
        self._max_lead_ms = config.join.max_clock_lead_ms
        self._since_ms = math.inf
        self._problems: dict[int, str] = {}

    def problem(self, example: Row) -> str | None:
        """Return what became of an example that became a dead letter; None for another example."""
        since_ms = example.timestamp_ms - self._max_lead_ms
        if since_ms < self._since_ms:
            self._read(since_ms)
        return self._problems.get(example.offset)

    def _read(self, since_ms: int) -> None:
        self._since_ms = since_ms
        partition = self._examples.partition
        place = TopicPartition(self._topic.name, partition)
        first = self._cluster.offsets_since([place], since_ms)[place] if since_ms > 0 else 0
        for row in self._topic.rows(partition, first):
            found = read_record(partition, row, self._topic.wire_format)
            if found is not None and found.dead_letter.topic == self._examples.topic:
                letter = found.dead_letter
                self._problems[letter.input_offset] = (
                    f"examples offset {letter.input_offset} became dead letter {found.record_id} ({letter.reason})"
                )
