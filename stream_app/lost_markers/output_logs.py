"""The output partitions of a task: how a restore reads them, and which of their records can be read.

Each commit record says at which offset its outputs begin in every output partition, and how many there are: its window
there. An act `repair` publishes outputs again, and has windows as a commit has.
"""

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stream_app.backends.base import Ends, LogReader, TopicPartition
from stream_app.backends.reading import read_in_steps
from stream_app.errors import ErrorCode, StateError
from stream_app.pipeline.outputs import OUTPUT_TOPICS
from stream_app.progress_records import REPAIR, Act, Commit
from stream_app.records import Header
from stream_app.serialization.dead_letter import is_of_a_resend
from stream_app.snapshot.identity import output_id

if TYPE_CHECKING:
    from stream_app.arrays import Longs

POLL_RECORDS = 1_000
"""Records of one poll: some milliseconds of work."""

MARKER_OFFSETS = 1
"""Offsets of the marker that ends a transaction in a partition."""


@dataclass(frozen=True, slots=True)
class OutputLogs:
    """How a restore reads a task's output partitions and its progress.

    Attributes:
        places: The task's partition of each output topic, and of "progress".
        ends: Asks for the ends of these partitions, in steps, each of which yields False.
        low: Asks for the first offset of the task's partition of an output topic, in the same way.
        reader: Opens a reader of the task's partition of an output topic.
        uncommitted: Opens a reader of progress that gives records of aborted transactions, too.
        topic_ids: The ids that the output topics have now; those that are not known are absent.
    """

    places: Mapping[str, TopicPartition]
    ends: Callable[[], Generator[bool, None, Mapping[str, Ends]]]
    low: Callable[[str], Generator[bool, None, int]]
    reader: Callable[[str], LogReader]
    uncommitted: Callable[[], LogReader]
    topic_ids: Mapping[str, str]


class Window(NamedTuple):
    """What a transaction wrote to one output partition: `records` records, the first of them not before `start`."""

    start: int
    records: int


def windows_of(record: Commit | Act, topic_ids: Mapping[str, str]) -> Mapping[str, Window]:
    """Return what a transaction wrote, by output topic, to the topics that exist now.

    The result is empty for an act that publishes nothing.

    Args:
        record: The record of progress.
        topic_ids: The ids that the output topics have now. What was written to a topic with another id was deleted
            with that topic.

    Raises:
        StateError: The text of an act `repair` cannot be read.
    """
    if isinstance(record, Act):
        written = {topic: (one.window, one.topic_id) for topic, one in _republished(record).items()}
    else:
        written = {
            topic: (
                Window(getattr(record, f"{name}_start"), getattr(record, f"{name}_records")),
                getattr(record, f"{name}_topic_id"),
            )
            for topic in OUTPUT_TOPICS
            for name in [topic.replace("-", "_")]
        }
    return {
        topic: window for topic, (window, known) in written.items() if not known or topic_ids.get(topic, known) == known
    }


def deleted_outputs(commit: Commit, topic_ids: Mapping[str, str]) -> Sequence[str]:
    """Return the output topics to which a commit wrote, and that were deleted and created again since."""
    return [topic for topic, now in topic_ids.items() if output_id(commit, topic) not in ("", now)]


class _Republished(NamedTuple):
    """What an act `repair` published to one output topic: its window, the topic's id, and the commits' sequences."""

    window: Window
    topic_id: str
    commits: frozenset[int]


def repair_text(
    windows: Mapping[str, Window], commits: Mapping[str, frozenset[int]], topic_ids: Mapping[str, str]
) -> str:
    """Return the text of an act `repair`: by output topic, where its records begin, their count, and their commits."""
    return json.dumps(
        {
            topic: {
                "start": window.start,
                "records": window.records,
                "commits": sorted(commits[topic]),
                "topic_id": topic_ids.get(topic, ""),
            }
            for topic, window in windows.items()
        }
    )


def _republished(act: Act) -> Mapping[str, _Republished]:
    """Return what an act `repair` published, by output topic.

    Raises:
        StateError: The text of the act cannot be read.
    """
    if act.kind != REPAIR:
        return {}
    try:
        plain: Mapping[str, Any] = json.loads(act.text)
        return {
            topic: _Republished(
                Window(int(one["start"]), int(one["records"])),
                str(one["topic_id"]),
                frozenset(map(int, one["commits"])),
            )
            for topic, one in plain.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StateError(f"sequence {act.sequence}: not the text of a repair ({problem})") from None


class OutputPartition:
    """One output partition of a task: which of its records can be read.

    Args:
        logs: The readers.
        topic: The output topic.
        end: The end offset of the partition.
    """

    def __init__(self, logs: OutputLogs, topic: str, end: int) -> None:
        self._logs = logs
        self._topic = topic
        self._end = end
        self._from = end
        self._low = 0
        self._offsets: Longs = np.zeros(0, np.int64)

    def read(
        self, known: Sequence[Window], tried: Sequence[Window], anchored: int, *, is_first: bool
    ) -> Generator[bool, None, None]:
        """Read from the last window that has records to the end, and earlier windows as long as nothing can be read.

        Args:
            known: Windows of transactions that were committed.
            tried: Windows of transactions whose outcome is unknown.
            anchored: How many of the first windows belong to a snapshot, and so were readable when it was named.
            is_first: Whether the application has committed nothing yet.
        """
        filled = [number for number, window in enumerate(known) if window.records] or [len(known) - 1]
        place = filled.pop()
        begin = known[place].start if known else (0 if is_first else self._end)
        room = self._end - begin - sum(window.records for window in known[max(place, 0) :])
        has_records = bool(known) and bool(known[place].records)
        if not tried and not (place >= anchored and has_records):
            marker = MARKER_OFFSETS if has_records else 0
            if room == marker or (known and room == marker + MARKER_OFFSETS and (yield from self._is_marker(begin))):
                return  # nobody else wrote there
        self._low = yield from self._logs.low(self._topic)
        self._from = min([begin, *(window.start for window in tried[:1])])
        yield from self._load(self._from, self._end, sum(window.records for window in (*known, *tried)))
        while place >= anchored and filled and not self.count(known[place].start, None):
            stop, place = self._from, filled.pop()
            self._from = known[place].start
            yield from self._load(self._from, stop, known[place].records)

    def _is_marker(self, offset: int) -> Generator[bool, None, bool]:
        """Say whether no record has this offset, so that a marker has it."""
        first: list[int] = []

        def take(found: int, *_: object) -> bool:
            first.append(found)
            return False

        reader = self._logs.reader(self._topic)
        try:
            yield from read_in_steps(reader, offset, self._end, take)
        finally:
            reader.close()
        return first != [offset]

    def _load(self, start: int, stop: int, expected: int) -> Generator[bool, None, None]:
        found: list[int] = []

        def take(offset: int, _: object, __: object, headers: Sequence[Header]) -> bool:
            if not is_of_a_resend(headers):  # the dead-letters topic has records of `areba dlq resend`, too
                found.append(offset)
            return len(found) <= expected

        if start >= stop:
            return
        reader = self._logs.reader(self._topic)
        try:
            yield from read_in_steps(reader, start, stop, take)
        finally:
            reader.close()
        self._offsets = np.concatenate([np.array(found, np.int64), self._offsets])

    def count(self, start: int, stop: int | None) -> int:
        """Return how many records of the task can be read from `start` on, before `stop` or the end."""
        first, last = np.searchsorted(self._offsets, (start, self._end if stop is None else stop))
        return int(last - first)

    def missing(self, records: Sequence[Commit | Act], adopted: int) -> frozenset[int]:
        """Return the sequences of the commits whose records cannot be read in this partition.

        Args:
            records: Commits and acts that were committed, in order.
            adopted: Sequence of the last act `adopt`; up to it, records of other writers are accepted.

        Raises:
            StateError: Some records of a transaction can be read here, and others cannot.
        """
        outstanding: set[int] = set()
        for record, window, stop in self._windows(records):
            readable = self._readable(window, stop)
            if readable and isinstance(record, Act):
                outstanding -= _republished(record)[self._topic].commits
            elif readable < window.records and readable and record.sequence > adopted:
                raise StateError(
                    f"{self._topic}: only {readable} of the {window.records} records of sequence {record.sequence}, "
                    f"from offset {window.start}, can be read, but Kafka loses only whole transactions",
                    ErrorCode.OUTPUTS_LOST,
                )
            elif not readable and window.records and isinstance(record, Commit):
                outstanding.add(record.sequence)
        return frozenset(outstanding)

    def _readable(self, window: Window, stop: int | None) -> int:
        if window.start < max(self._from, self._low):  # it was readable before, or retention has deleted it
            return window.records
        return self.count(window.start, stop)

    def first_foreign(self, records: Sequence[Commit | Act], adopted: int) -> int | None:
        """Return the offset of the first record that another program wrote; None if there is none."""
        own = list(self._windows(records))
        if not own:
            is_new = not any(isinstance(record, Commit) for record in records)
            return int(self._offsets[0]) if is_new and len(self._offsets) else None
        for record, window, stop in own:
            if record.sequence <= adopted or window.start < max(self._from, self._low):
                continue
            first = int(np.searchsorted(self._offsets, window.start))
            if self.count(window.start, stop) > window.records:
                return int(self._offsets[first + window.records])
        return None

    def _windows(self, records: Sequence[Commit | Act]) -> Iterable[tuple[Commit | Act, Window, int | None]]:
        """Yield what each of these records wrote to this partition, and where the next window begins."""
        written = ((record, windows_of(record, self._logs.topic_ids)) for record in records)
        all_ = [(record, windows[self._topic]) for record, windows in written if self._topic in windows]
        for number, (record, window) in enumerate(all_):
            yield record, window, all_[number + 1][1].start if number + 1 < len(all_) else None
