"""Follow the metrics and the committed offsets of a running application by reading its topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.backends.base import Cluster, LogReader, TopicPartition
from stream_app.config import Topics
from stream_app.records import Commit, Metric
from stream_app.serialization.codec import decode_one

MAX_POINTS = 4_000
"""Points that are kept of a learner's curve; if there are more, every second point is dropped."""

POLL_RECORDS = 5_000


@dataclass(slots=True)
class Curve:
    """A learner's G-mean by the number of examples, thinned as it grows, and its newest metric."""

    latest: Metric
    positions: list[int] = field(default_factory=list)
    gmeans: list[float | None] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, metric: Metric) -> None:
        """Add the next metric."""
        self.latest = metric
        if self._seen % self._every == 0:
            self.positions.append(metric.examples)
            self.gmeans.append(metric.gmean)
            if len(self.positions) > MAX_POINTS:
                del self.positions[1::2], self.gmeans[1::2]
                self._every *= 2
        self._seen += 1


class Watch:
    """Reads the committed records of the metrics and progress topics of an application.

    Args:
        cluster: Where the topics are.
        topics: Names of the topics.
        partitions: Number of partitions of each topic.
    """

    def __init__(self, cluster: Cluster, topics: Topics, partitions: int) -> None:
        self._metrics = [cluster.reader(TopicPartition(topics.metrics, number)) for number in range(partitions)]
        self._progress = [cluster.reader(TopicPartition(topics.progress, number)) for number in range(partitions)]
        self.curves: dict[tuple[str, str], Curve] = {}
        self.ends: dict[int, tuple[int, int]] = dict.fromkeys(range(partitions), (0, 0))
        self.partition_of: dict[str, int] = {}

    @property
    def processed(self) -> int:
        """Number of input records that the group has committed, if offsets start at 0 and none is missing."""
        return sum(examples + labels for examples, labels in self.ends.values())

    def poll(self) -> None:
        """Read the records that have arrived."""
        for number, reader in enumerate(self._progress):
            for value in _values(reader):
                record = decode_one(value)
                if isinstance(record, Commit):
                    self.ends[number] = record.examples_end, record.labels_end
        for number, reader in enumerate(self._metrics):
            for value in _values(reader):
                metric = decode_one(value)
                if isinstance(metric, Metric):
                    self._add(number, metric)

    def _add(self, partition: int, metric: Metric) -> None:
        key = (metric.stream, metric.learner)
        curve = self.curves.get(key)
        if curve is None:
            curve = self.curves[key] = Curve(metric)
        curve.add(metric)
        self.partition_of[metric.stream] = partition

    def examples(self) -> Mapping[str, int]:
        """Return the number of predicted examples by stream, from the newest metrics."""
        return {stream: curve.latest.examples for (stream, _), curve in self.curves.items()}

    def close(self) -> None:
        """Release the readers."""
        for reader in (*self._metrics, *self._progress):
            reader.close()


def _values(reader: LogReader) -> Sequence[bytes]:
    """Return the values that have arrived, without waiting."""
    values: list[bytes] = []
    while (fetched := reader.poll(POLL_RECORDS, 0.0)) is not None:
        values += [value for value in fetched.records.values if value is not None]
        if fetched.at_end:
            break
    return values
