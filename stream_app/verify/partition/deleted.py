"""What retention has deleted of one task: inputs that were processed, and outputs that the topics no longer have.

Deleted records are reported once for each partition. Nothing is concluded from their absence: a result whose inputs are
gone cannot be computed again, and an output that is gone cannot be compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from stream_app.backends.base import TopicPartition
from stream_app.backends.retention import deleted_text
from stream_app.config import Topics
from stream_app.progress_records import Act, Commit
from stream_app.verify.results import Code, Findings

if TYPE_CHECKING:
    from stream_app.verify.second_run.checkpoint import RunEnd

OUTPUT_NAMES = ("predictions", "outcomes", "metrics", "dead_letters")
"""The output topics, as the fields of a commit record name them."""

Fate = Literal["kept", "straddles", "deleted"]


@dataclass(frozen=True, slots=True)
class Horizon:
    """Where an output partition begins by now, in terms of the commits.

    Attributes:
        topic: Full name of the topic.
        low: The first offset that is left.
        sequence: The last commit that began to write below `low`, or to an older topic of this name; -1: no commit did.
        is_of_older: Whether that commit wrote to an older topic, which was deleted with all that it had.
    """

    topic: str
    low: int
    sequence: int = -1
    is_of_older: bool = False

    def fate(self, commit: Commit) -> Fate:
        """Return whether the outputs of a commit are all kept, all deleted, or perhaps some of each."""
        if commit.sequence > self.sequence:
            return "kept"
        return "straddles" if commit.sequence == self.sequence and not self.is_of_older else "deleted"


class OutputTopic(NamedTuple):
    """An output topic as it is now: its full name, its id (empty: unknown), and the first offset of the partition."""

    name: str
    topic_id: str
    low: int

    def is_other(self, commit: Commit, field: str) -> bool:
        """Say whether a commit wrote to an older topic of this name; `field` begins its fields of the commit."""
        return bool(self.topic_id) and getattr(commit, f"{field}_topic_id") not in ("", self.topic_id)


def horizons(commits: Iterable[Commit], topics: Mapping[str, OutputTopic]) -> tuple[Mapping[str, Horizon], bool]:
    """Return the horizon of each output topic by its field name, and whether outputs of these commits were deleted."""
    found = {name: Horizon(topic.name, topic.low) for name, topic in topics.items()}
    is_deleted = False
    for commit in commits:
        for name, topic in topics.items():
            is_of_older = topic.is_other(commit, name)
            if is_of_older or getattr(commit, f"{name}_start") < topic.low:
                found[name] = Horizon(topic.name, topic.low, commit.sequence, is_of_older)
                is_deleted = is_deleted or bool(getattr(commit, f"{name}_records"))
    return found, is_deleted


def commits_of(records: Iterable[tuple[int, Commit | Act]]) -> Iterator[Commit]:
    """Yield the commit records among records of progress."""
    return (record for _, record in records if isinstance(record, Commit))


class DeletedRecords:
    """Reports what was deleted of one partition, at most once for its inputs and once for its outputs.

    Where they are accepted, deleted records are a note and no finding.
    """

    def __init__(
        self, partition: int, topics: Topics, findings: Findings, notes: list[str], *, is_accepted: bool
    ) -> None:
        self._partition = partition
        self._topics = topics
        self._findings = findings
        self._notes = notes
        self._is_accepted = is_accepted
        self._low_of: Callable[[str], int] = lambda _: 0

    @contextmanager
    def watching(self, low_of: Callable[[str], int]) -> Iterator[None]:
        """Enclose the check: if retention deletes records meanwhile, what was found may follow from that.

        `low_of` returns the first offset that a topic's partition has now.
        """
        self._low_of = low_of
        topics = [name for name in self._topics if name != self._topics.changelog]
        before, mark = [low_of(topic) for topic in topics], self._findings.mark()
        yield
        if self._findings.mark() != mark and [low_of(topic) for topic in topics] != before:
            self._findings.forget_after(mark)
            text = "records were deleted while this partition was checked, so what was found is unsure: check again"
            self._add(self._topics.progress, text)

    def has_passed(self, position: "RunEnd") -> bool:
        """Say whether records after a checkpoint are gone; that is then the only finding of the partition."""
        inputs = self._topics.inputs
        needed = (position.progress_offset + 1, *position.manifest.offsets)
        for topic, next_ in zip((self._topics.progress, *inputs), needed, strict=True):
            low = self._low_of(topic)
            if low > next_:
                text = (
                    f"starts at offset {low}, the checkpoint ended at {next_}: the records between were never checked; "
                    "this partition was not checked"
                )
                self._add(topic, text)
                return True
        return False

    def is_trimmed(self) -> bool:
        """Say whether the beginning of progress is gone; that is then the only finding of the partition."""
        topics = self._topics
        low = self._low_of(topics.progress)
        if low:
            inputs = " and ".join(f"{name} at {self._low_of(name)}" for name in topics.inputs)
            text = (
                f"starts at offset {low}, {inputs}: the audit needs every record, older records are gone (retention); "
                "this partition was not checked"
            )
            self._report(topics.progress, text)
        return bool(low)

    def report_outputs(self, found: Iterable[Horizon]) -> None:
        """Say which outputs were deleted."""
        gone = [one for one in found if one.low or one.is_of_older]
        texts = [
            f"{one.topic} was deleted and created again"
            if one.is_of_older
            else deleted_text(TopicPartition(one.topic, self._partition), one.low, 0)
            for one in gone
        ]
        text = f"outputs were deleted, and not compared with what the inputs give: {'; '.join(texts)}"
        self._report(gone[0].topic, text)

    def report_inputs(self, lows: Sequence[int], begin: Sequence[int], ends: Sequence[int], commits: int) -> None:
        """Say which inputs were deleted, if any were, and what could not be checked without them.

        `lows` are the first offsets that are left, `commits` is the number of commits that could not be checked.
        """
        names = self._topics.inputs
        gone = [(TopicPartition(name, self._partition), low) for name, low in zip(names, lows, strict=True) if low]
        if not gone:
            return
        text = f"inputs were deleted: {'; '.join(deleted_text(place, low, 0) for place, low in gone)}"
        unread = sum(max(0, low - end) for low, end in zip(lows, ends, strict=True))
        if unread:
            text += f"; {unread:,} of these records were never processed"
        if any(low > first for low, first in zip(lows, begin, strict=True)) and commits:
            text += f"; without them, the outputs of {commits:,} commits were not checked"
        elif not unread:
            text += "; the application began after them"
        self._report(gone[0][0].topic, text)

    def _report(self, topic: str, text: str) -> None:
        if self._is_accepted:
            self._notes.append(f"{topic}[{self._partition}]: {text}")
        else:
            self._add(topic, text)

    def _add(self, topic: str, text: str) -> None:
        self._findings.add(Code.DELETED_RECORDS, topic, self._partition, None, text)
