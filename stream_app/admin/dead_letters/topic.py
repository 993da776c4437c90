"""Access to the dead-letters topic, and the set of selected dead letters that were not sent back yet."""

from collections.abc import Iterator

from stream_app.backends.base import Cluster, TopicPartition
from stream_app.backends.progress import absent_text
from stream_app.backends.reading import Row, rows_of
from stream_app.config import Config
from stream_app.errors import TopicError
from stream_app.records import REASONS, Reason
from stream_app.serialization.wire_format import format_of

_OTHER_REASON = 255
"""Code of a reason that areba does not know, in the tables of `UnsentLetters`; 0 is an offset without an entry."""


class DeadLettersTopic:
    """The dead-letters topic of an application.

    Raises:
        TopicError: The topic does not exist.
    """

    def __init__(self, cluster: Cluster, config: Config) -> None:
        self.name = config.topics.dead_letters
        found = cluster.topics([self.name]).get(self.name)
        if found is None:
            raise TopicError(absent_text(self.name))
        self.partitions = found.partitions
        self.wire_format = format_of(config.serialization)
        self._cluster = cluster

    def rows(self, partition: int, first: int = 0, *, to_end: bool = True) -> Iterator[Row]:
        """Yield the records of a partition from an offset on; see `backends.reading.read_rows`."""
        return rows_of(self._cluster, TopicPartition(self.name, partition), first, to_end=to_end)

    def watermarks(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the offset after its last record."""
        return self._cluster.watermarks(TopicPartition(self.name, partition))


class UnsentLetters:
    """The selected dead letters of one partition that are not known to have been sent back, with their reasons.

    The reasons are kept in one byte for each offset, so a partition with ten million dead letters takes 10 MB. `low` is
    the first offset of the partition.
    """

    def __init__(self, low: int) -> None:
        self.read_to = low
        self._low = low
        self._reasons = bytearray()

    @property
    def first(self) -> int:
        """Offset of the first dead letter in the set."""
        return self._low + len(self._reasons) - len(self._reasons.lstrip(b"\0"))

    def add(self, offset: int, reason: str) -> None:
        """Add a dead letter."""
        index = offset - self._low
        if index >= len(self._reasons):
            self._reasons.extend(bytes(max(index + 1 - len(self._reasons), len(self._reasons))))
        self._reasons[index] = REASONS.get(reason, _OTHER_REASON)

    def remove(self, offset: int) -> str | None:
        """Remove a dead letter that was sent back; return its reason, or None if it was not in the set."""
        if offset not in self:
            return None
        index = offset - self._low
        code, self._reasons[index] = self._reasons[index], 0
        return _text_of(code)

    def __contains__(self, offset: int) -> bool:
        index = offset - self._low
        return 0 <= index < len(self._reasons) and self._reasons[index] != 0

    def __len__(self) -> int:
        return len(self._reasons) - self._reasons.count(0)


def shown_reason(reason: str) -> str:
    """Return the text under which dead letters of a reason are counted."""
    return _text_of(REASONS.get(reason, _OTHER_REASON))


def _text_of(code: int) -> str:
    return "of another program" if code == _OTHER_REASON else Reason(code).text
