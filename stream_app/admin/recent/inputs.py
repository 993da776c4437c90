"""Find out from the newest records of both inputs where the records of each stream are, and when the last one came.

Outputs alone do not show a stream whose labels go to another partition than its examples: such labels wait, and cause
nothing. The key names the stream, and decides its partition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from stream_app.admin.problems import Problem, ProblemCode
from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.partitioner import misplaced_text, partition_of, split_text
from stream_app.backends.reading import rows_of
from stream_app.records import UNKNOWN_STREAM_NAME, stream_of_key

TAIL_RECORDS = 2_000
"""Records that are read at the end of each input partition."""

_SPLIT_MS = 3_600_000
"""A stream is in two partitions if its newest records in both are at most this far apart in event time. Once its
producers are corrected, the records in the wrong partition remain."""

MAX_NAMED = 20
"""Streams that are named; the others are counted."""


class InputTails(NamedTuple):
    """The newest records of the inputs.

    Attributes:
        newest_ms: By (topic, partition), the event time of the newest record of each stream, by stream.
        tasks: The number of tasks of the application; 0: not known.
        oldest_ms: As `newest_ms`, the event time of the oldest of these records.
    """

    newest_ms: Mapping[tuple[str, int], Mapping[str, int]]
    tasks: int = 0
    oldest_ms: Mapping[tuple[str, int], Mapping[str, int]] = MappingProxyType({})

    def homes(self) -> dict[str, list[int]]:
        """Return the partitions in which each stream has recent records."""
        found: dict[str, dict[int, int]] = {}
        for (_, partition), streams in self.newest_ms.items():
            for stream, time_ms in streams.items():
                known = found.setdefault(stream, {})
                known[partition] = max(time_ms, known.get(partition, time_ms))
        new_since = {number: self._oldest_from(number) for number in range(1, self.tasks) if self.tasks % number == 0}
        result = {}
        for stream, times in sorted(found.items()):
            since_ms = max(times.values()) - _SPLIT_MS
            recent = sorted(partition for partition, time_ms in times.items() if time_ms >= since_ms)
            own = partition_of(stream.encode(), self.tasks) if self.tasks else -1
            result[stream] = [one for one in recent if one == own or not self._is_former(stream, one, new_since)]
        return result

    def _is_former(self, stream: str, partition: int, new_since: Mapping[int, Mapping[str, int]]) -> bool:
        """Say whether `areba repartition` moved the stream away from a partition, where it has no newer records.

        What is in the partitions that are new since then was sent after the move. Each input is compared with itself,
        since labels may be days late, or with both as long as it has no new records.

        Args:
            stream: The stream.
            partition: Where it has recent records.
            new_since: `_oldest_from` each number of partitions that the application may have had.
        """
        newest = {
            topic: found[stream]
            for (topic, place), found in self.newest_ms.items()
            if place == partition and stream in found
        }
        return any(
            partition_of(stream.encode(), number) == partition
            and bool(since)
            and all(time_ms <= since.get(topic, min(since.values())) for topic, time_ms in newest.items())
            for number, since in new_since.items()
        )

    def _oldest_from(self, partition: int) -> dict[str, int]:
        """Return, by topic, the event time of the oldest record in the partitions from this number on."""
        oldest: dict[str, int] = {}
        for (topic, place), found in self.oldest_ms.items():
            for time_ms in found.values() if place >= partition else ():
                oldest[topic] = min(time_ms, oldest.get(topic, time_ms))
        return oldest

    def split(self) -> dict[str, list[int]]:
        """Return the streams that have recent records in several partitions, with these partitions."""
        return {stream: places for stream, places in self.homes().items() if len(places) > 1}

    def misplaced(self) -> dict[str, tuple[int, int]]:
        """Return the other streams that are in a wrong partition, with this partition and their own."""
        found = {}
        for stream, places in self.homes().items():
            own = partition_of(stream.encode(), self.tasks) if self.tasks else places[0]
            if len(places) == 1 and places[0] != own:
                found[stream] = places[0], own
        return found

    def problems(self) -> Iterator[Problem]:
        """Yield a line for each stream in several partitions, or in a wrong one."""
        split = {name: split_text(places) for name, places in self.split().items()}
        misplaced = {name: misplaced_text(*places) for name, places in self.misplaced().items()}
        for code, found in ((ProblemCode.SPLIT_STREAM, split), (ProblemCode.MISPLACED, misplaced)):
            for stream, text in [*found.items()][:MAX_NAMED]:
                yield Problem(code, text, stream=stream)
            if len(found) > MAX_NAMED:
                yield Problem(code, f"{len(found) - MAX_NAMED} more streams")

    def to_plain(self) -> list[dict[str, Any]]:
        """Return the content of the JSON document."""
        return [
            {"topic": topic, "partition": partition, "stream": stream, "newest_ms": time_ms}
            for (topic, partition), streams in self.newest_ms.items()
            for stream, time_ms in sorted(streams.items())
        ]


def tails_of(cluster: Cluster, topics: Sequence[str], partitions: Iterable[int], tasks: int) -> InputTails:
    """Read the ends of some input partitions of an application with this number of tasks.

    Raises:
        UnknownOutcomeError: The broker did not answer in time.
        TopicError: The broker does not allow us to read.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    begins: dict[tuple[str, int], dict[str, int]] = {}
    for partition in partitions:
        for topic in topics:
            place = TopicPartition(topic, partition)
            low, high = cluster.watermarks(place)
            newest, oldest = (times.setdefault((topic, partition), {}) for times in (found, begins))
            if low == high:
                continue
            for row in rows_of(cluster, place, max(low, high - TAIL_RECORDS)):
                stream = stream_of_key(row.key)
                if stream != UNKNOWN_STREAM_NAME:
                    newest[stream] = max(row.timestamp_ms, newest.get(stream, row.timestamp_ms))
                    oldest[stream] = min(row.timestamp_ms, oldest.get(stream, row.timestamp_ms))
    return InputTails(found, tasks, begins)
