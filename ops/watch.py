"""What an application has done so far, read from its topics while it works: metrics, and how far the group has come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.backends.base import Cluster, LogReader, TopicPartition
from stream_app.config import Topics
from stream_app.records import Commit, Metric
from stream_app.serialization.codec import decode_one

MAX_POINTS = 4_000
"""Points kept of one learner's curve; when there are more, every second one is dropped."""

POLL_RECORDS = 5_000


@dataclass(slots=True)
class Curve:
    """One learner's G-mean by the examples seen, thinned as it grows, and its newest metric."""

    latest: Metric
    positions: list[int] = field(default_factory=list)
    gmeans: list[float | None] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def add(self, metric: Metric) -> None:
        """The next metric."""
        self.latest = metric
        if self._seen % self._every == 0:
            self.positions.append(metric.examples)
            self.gmeans.append(metric.gmean)
            if len(self.positions) > MAX_POINTS:
                del self.positions[1::2], self.gmeans[1::2]
                self._every *= 2
        self._seen += 1


class Watch:
    """Reads the metrics and progress topics of an application, committed records only.

    Args:
        cluster: Where they are.
        topics: Their names.
        partitions: How many each has.
    """

    def __init__(self, cluster: Cluster, topics: Topics, partitions: int) -> None:
        self._metrics = [cluster.reader(TopicPartition(topics.metrics, number)) for number in range(partitions)]
        self._progress = [cluster.reader(TopicPartition(topics.progress, number)) for number in range(partitions)]
        self.curves: dict[tuple[str, str], Curve] = {}
        self.ends: dict[int, tuple[int, int]] = dict.fromkeys(range(partitions), (0, 0))
        self.partition_of: dict[str, int] = {}

    @property
    def processed(self) -> int:
        """Input records that the group has committed (where offsets begin at 0 and have no gaps)."""
        return sum(examples + labels for examples, labels in self.ends.values())

    def poll(self) -> None:
        """Take what is there."""
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
        """Examples predicted by stream, as of the newest metrics."""
        return {stream: curve.latest.examples for (stream, _), curve in self.curves.items()}

    def close(self) -> None:
        """Release the readers."""
        for reader in (*self._metrics, *self._progress):
            reader.close()


def _values(reader: LogReader) -> Sequence[bytes]:
    """What is there now, without waiting."""
    values: list[bytes] = []
    while (fetched := reader.poll(POLL_RECORDS, 0.0)) is not None:
        values += [value for value in fetched.records.values if value is not None]
        if fetched.at_end:
            break
    return values
