"""The in-process broker, with what an administrator and time do to its topics."""

from collections.abc import Mapping
from dataclasses import replace

from stream_app.backends.base import TopicPartition
from stream_app.backends.memory.broker import EmbeddedBroker
from stream_app.backends.memory.log import LogEntry, PartitionLog, is_committed_record
from stream_app.backends.retention import retention_of
from stream_app.record_columns import log_time_ms


class AdministeredBroker(EmbeddedBroker):
    """A broker whose topics are changed, deleted, aged and compacted."""

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic, as `kafka-configs.sh` does.

        Raises:
            TopicError: The topic does not exist.
        """
        with self.changed:
            topic = self.topic(name)
            self._topics[name] = replace(topic, settings={**topic.settings, **settings})

    def delete_topic(self, name: str) -> None:
        """Delete a topic that no member reads, with its records and its committed offsets.

        Raises:
            TopicError: The topic does not exist.
        """
        with self.changed:
            for number in range(self.topic(name).partitions):
                del self._logs[TopicPartition(name, number)]
            del self._topics[name]
            self.groups.topic_deleted(name)

    def retain(self) -> None:
        """Delete what `retention.ms` and `retention.bytes` do not keep, as Kafka does with segments of one record."""
        with self.changed:
            for place, log in self._logs.items():
                topic = self._topics[place.topic]
                if topic.settings["cleanup.policy"] == "delete":
                    retain(log, self.clock.now_ms(), retention_of(topic), int(topic.settings["retention.bytes"]))

    def compact(self, partition: TopicPartition) -> None:
        """Keep the last committed record of each key, as the cleaner of a compacted topic does."""
        with self.changed:
            compact(self._log(partition))


def retain(log: PartitionLog, now_ms: int, retention_ms: int, retention_bytes: int) -> None:
    """Delete from the start what is too old, and what exceeds the size; a negative limit keeps all.

    Age is counted from a record's timestamp, and deletion ends at the first record that is kept.
    """
    first, stable = log.low, log.stable()
    size = sum(_size(entry) for entry in log.entries)
    for entry in log.entries:
        size -= _size(entry)
        time_ms = log_time_ms(entry.timestamp)
        is_old = 0 <= retention_ms < now_ms - time_ms and time_ms >= 0
        if entry.offset >= stable or not (entry.is_marker or is_old or 0 <= retention_bytes <= size):
            break
        first = entry.offset + 1
    log.delete_before(first)


def compact(log: PartitionLog) -> None:
    """Keep the last committed record of each key, as the cleaner of a compacted topic does."""
    stable = log.stable()
    last = {e.key: e.offset for e in log.entries if e.offset < stable and is_committed_record(e)}
    log.entries = [e for e in log.entries if e.offset >= stable or last.get(e.key) == e.offset]


def _size(entry: LogEntry) -> int:
    return len(entry.key or b"") + len(entry.value or b"")
