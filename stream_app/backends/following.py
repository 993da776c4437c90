"""The port of views that follow a running application: many partitions at once, even while brokers fail."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from stream_app.backends.base import Cluster, Fetched, TopicPartition


class LogFollower(Protocol):
    """A reader of the committed records of many partitions, without a group. Not thread-safe.

    It raises nothing when a topic or a broker disappears: the other partitions continue, and `problems` has a line.
    """

    def start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue these partitions at these offsets; a missing offset means the first existing offset."""

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Fetched]:
        """Return at most `max_records` records as soon as there are any, or the ends of partitions.

        Blocks for about `timeout_s` at most. A partition without news is absent from the result.
        """

    @property
    def problems(self) -> Sequence[str]:
        """A line for each topic that cannot be read now, or one that says that no broker answers."""

    def close(self) -> None:
        """Release the client."""


class FollowableCluster(Cluster, Protocol):
    """A cluster whose partitions can be followed."""

    def grow(self, names: Sequence[str], partitions: int) -> None:
        """Give topics this number of partitions; a topic that has as many or more is left as it is.

        Raises:
            TopicError: The broker refused a topic.
        """

    def follow(self, offsets: Mapping[TopicPartition, int]) -> LogFollower:
        """Return a follower of these partitions that begins at these offsets."""

    def offsets_since(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Return for each partition the offset before which all records are older than `time_ms`.

        It is the offset of the first record with this timestamp or a later one; the end if there is no such record.

        Raises:
            TopicError: The broker refuses.
            UnknownOutcomeError: No broker answered in time.
        """
